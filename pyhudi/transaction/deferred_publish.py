"""Deferred writes: completely written, but not visible until published; or discarded.

A deferred write T stops one step before its commit point: data files, index entries and the delta
commit of the metadata table exist, and `T.inflight` is the newest state of its instant.

```
.hoodie/.temp/<T>/kept.json   {"known": [<files of the timeline it was planned on>],
                               "report": {...}, "content": <content of T.commit>}
```

The file distinguishes a deferred write from a failed one.  It is stored among T's markers, so a
rollback of T, by Apache Hudi too, removes it together with them.  While a deferred write exists,
no other write of this package begins: a commit completed after a pending instant would be a
hollow commit for incremental readers, and prevents a writer of Apache Hudi from rolling back the
older instant.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import CorruptFileError, WriteConflictError
from pyhudi.filenames import TEMP
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import WRITES, Instant, State, parse_instant_name
from pyhudi.timeline.timeline import Timeline

_NAME: Final = "kept.json"
_BINARY: Final = "content_base64"


@dataclass(frozen=True, slots=True)
class DeferredWrite:
    """A deferred write's publishing data.  known: the timeline that it was planned on."""

    known: Timeline
    content: bytes
    report: dict[str, Any]


def _path(time: InstantTime) -> str:
    return f"{TEMP}/{time}/{_NAME}"


def is_deferred(fs: FileSystem, instant: Instant) -> bool:
    return instant.state is State.INFLIGHT and fs.exists(_path(instant.time))


def store_deferred(fs: FileSystem, instant: Instant, deferred: DeferredWrite) -> None:
    """Mark a pending write as deferred; its last step."""
    known = [str(instant) for instant in deferred.known]
    body = {"known": known, "report": deferred.report, **_stored(deferred.content)}
    fs.create(_path(instant.time), json.dumps(body).encode())


def load_deferred(fs: FileSystem, instant: Instant) -> DeferredWrite:
    """Raises FileMissingError, CorruptFileError."""
    path = _path(instant.time)
    try:
        body = json.loads(fs.read(path))
        known = Timeline.of(
            i for name in body["known"] if (i := parse_instant_name(name)) is not None
        )
        return DeferredWrite(known, _content(body), dict(body["report"]))
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise CorruptFileError("invalid file of a deferred write", path=path) from broken


def _stored(content: bytes) -> dict[str, str]:
    """The content as text, or as Base64 where the layout encodes commits as Avro."""
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError:
        return {_BINARY: base64.b64encode(content).decode()}


def _content(body: dict[str, str]) -> bytes:
    if _BINARY in body:
        return base64.b64decode(body[_BINARY], validate=True)
    return body["content"].encode()


def forget_deferred(fs: FileSystem, instant: Instant) -> None:
    """Turn the write into a failed one."""
    fs.delete([_path(instant.time)])


def deferred_writes(fs: FileSystem, timeline: Timeline) -> list[Instant]:
    """Deferred writes, oldest first.  Cost: one existence request per pending write."""
    pending = timeline.where(WRITES, State.INFLIGHT)
    return [instant for instant in pending if is_deferred(fs, instant)]


def check_none_deferred(fs: FileSystem, timeline: Timeline) -> None:
    """Raise WriteConflictError, with its instant, while a deferred write exists."""
    for instant in deferred_writes(fs, timeline):
        raise WriteConflictError(
            "a write waits to be published",
            instant=instant.time,
            action=instant.action.value,
            hint=f"call table.publish('{instant.time}') or table.discard('{instant.time}') first",
        )
