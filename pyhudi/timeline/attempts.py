"""Attempts at plans that run again after a rollback, and which attempt completed an instant.

```
.hoodie/.pyhudi.attempt.<T>.<R>   plan T runs again after rollback R; the file is empty
```

The request that completes an earlier attempt may arrive while a later one runs, when all files of
the instant exist.  So each later attempt is announced before its inflight file appears, and
its completed file repeats R in its extra metadata, under the same key.  The announcement is valid
while R is the newest rollback of T: Apache Hudi, which ignores the file, rolls T back before it
runs the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from pyhudi.records import InstantTime

ATTEMPT: Final = "pyhudi.attempt"
_NAME: Final = re.compile(r"\.pyhudi\.attempt\.([0-9]{14,20})\.([0-9]{14,20})")


def attempt_name(time: InstantTime, after: InstantTime) -> str:
    """The name of the file that announces an attempt at plan `time` after rollback `after`."""
    return f".{ATTEMPT}.{time}.{after}"


def is_announcement(name: str) -> bool:
    """Whether this is the name of an announcement."""
    return _NAME.fullmatch(name) is not None


@lru_cache(maxsize=16)
def announced_attempts(names: tuple[str, ...]) -> Mapping[InstantTime, InstantTime]:
    """The newest announced attempt of each plan.  names: of the files in the timeline's folder."""
    found: dict[InstantTime, InstantTime] = {}
    for name in names:
        if match := _NAME.fullmatch(name):
            time, after = InstantTime(match[1]), InstantTime(match[2])
            found[time] = max(after, found.get(time, after))
    return found


def outdated_names(
    names: Iterable[str], time: InstantTime, pending: frozenset[InstantTime]
) -> list[str]:
    """Announcements of earlier attempts at plan `time`, and of plans that are not pending."""
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    return [m[0] for m in matches if m[1] == time or InstantTime(m[1]) not in pending]
