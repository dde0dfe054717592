"""JSON messages of Kafka Connect with `schemas.enable`: the payload without its schema.

```
{"schema":{...},"payload":...}
```

Messages of one version of a table have the same schema, so its text is parsed once.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_START: Final = b'{"schema":'
_NEXT: Final = ',"payload":'
_END: Final = b"}"
_NAME: Final = b'"payload"'
_NAMES: Final = frozenset({"schema", "payload"})
_TRIED: Final = 8
"""Messages whose schema is sought before all are parsed one by one."""


def payloads(values: pa.Array) -> pa.Array:
    """values: binary, without nulls.  The text of each payload, `null` too; messages without the
    wrapper unchanged."""
    wrapped = pc.match_substring(values, _NAME).to_numpy(zero_copy_only=False)
    if not wrapped.any():
        return values
    rest = np.flatnonzero(wrapped)
    parts, places = [values.filter(pa.array(~wrapped))], [np.flatnonzero(~wrapped)]
    while len(rest):
        left = values.take(pa.array(rest))
        prefix = _common_prefix(left)
        if prefix is None:
            texts = [_payload(value) for value in left.to_pylist()]
            parts.append(pa.array(texts, pa.binary()))
            places.append(rest)
            break
        whole = pc.and_(pc.starts_with(left, prefix), pc.ends_with(left, _END))
        parts.append(pc.binary_slice(left.filter(whole), len(prefix), -1))
        chosen = whole.to_numpy(zero_copy_only=False)
        places.append(rest[chosen])
        rest = rest[~chosen]
    order = np.argsort(np.concatenate(places))
    return pa.concat_arrays(parts).take(pa.array(order))


def _common_prefix(values: pa.Array) -> bytes | None:
    """That of one of the first messages; None if they have another form."""
    first = values.slice(0, _TRIED).to_pylist()
    return next((found for value in first if (found := _prefix(value)) is not None), None)


def _prefix(value: bytes) -> bytes | None:
    """The text before the payload; None for a message in another form."""
    if not value.startswith(_START):
        return None
    try:
        text = value.decode()
        _, end = json.JSONDecoder().raw_decode(text, len(_START))
    except ValueError:
        return None
    if not text.startswith(_NEXT, end) or not value.endswith(_END):
        return None
    return text[: end + len(_NEXT)].encode()


def _payload(value: bytes) -> bytes:
    """Of a message in any form."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    if not isinstance(found, dict) or "payload" not in found or not found.keys() <= _NAMES:
        return value
    return json.dumps(found["payload"]).encode()
