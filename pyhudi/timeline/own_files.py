"""Files of pyhudi in the timeline's folder, which Apache Hudi ignores.

```
.hoodie/.pyhudi.rolled_back.N    one instant per line: writes that were rolled back, and rollbacks
                                 that were examined; N grows, a file is never changed
.hoodie/.pyhudi.attempt.<T>.<R>  plan T runs again after rollback R; the file is empty
```

A writer that was rolled back may continue to write files.  Once its instant is older than the
active timeline it would be taken for an archived, completed one, so its time is listed in
`rolled_back` before its files leave the timeline.

The request that completes an earlier attempt at a plan may arrive while a later one runs, when all
files of the instant exist.  So each later attempt is announced before its inflight file appears,
and its completed file repeats R in its extra metadata, under the same key.  The announcement is
valid while R is the newest rollback of T: Apache Hudi, which ignores the file, rolls T back before
it runs the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from pyhudi.errors import StorageError
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem

ATTEMPT: Final = "pyhudi.attempt"
_ATTEMPT_NAME: Final = re.compile(r"\.pyhudi\.attempt\.([0-9]{14,20})\.([0-9]{14,20})")
_LIST_NAME: Final = re.compile(r"\.pyhudi\.rolled_back\.([1-9][0-9]{0,8})")
_INSTANT: Final = re.compile(r"[0-9]{14,20}")
_TRIES: Final = 100


def is_own(name: str) -> bool:
    """Whether this is the name of such a file."""
    return any(known.fullmatch(name) for known in (_ATTEMPT_NAME, _LIST_NAME))


def newest_list(names: Iterable[str]) -> str | None:
    """The name of the newest list in a folder; None if there is none."""
    numbered = [
        (int(found[1]), found[0]) for name in names if (found := _LIST_NAME.fullmatch(name))
    ]
    return max(numbered)[1] if numbered else None


def read_list(fs: FileSystem, path: str) -> frozenset[InstantTime]:
    """The instants of a list; other lines are ignored.  Raises FileMissingError."""
    lines = fs.read(path).decode("ascii", "replace").split()
    return frozenset(InstantTime(line) for line in lines if _INSTANT.fullmatch(line))


def add_to_list(fs: FileSystem, folder: str, times: Iterable[InstantTime]) -> None:
    """Add instants to the list.  The caller holds the table's lock.

    The new list is created before the one it replaces is deleted.  Cost: one listing if all are
    already listed, otherwise also a read, a write and a delete.
    """
    requested = frozenset(times)
    for _ in range(_TRIES):
        names = tuple(fs.names(folder))
        newest = newest_list(names)
        known = read_list(fs, f"{folder}/{newest}") if newest else frozenset()
        if requested <= known:
            return
        number = int(newest.rpartition(".")[2]) if newest else 0
        path = f"{folder}/.pyhudi.rolled_back.{number + 1}"
        if fs.create(path, "".join(f"{time}\n" for time in sorted(known | requested)).encode()):
            fs.delete(f"{folder}/{name}" for name in names if _LIST_NAME.fullmatch(name))
            return
    raise StorageError("could not record a rolled-back instant", path=folder, retryable=True)


def attempt_name(time: InstantTime, after: InstantTime) -> str:
    """The name of the file that announces an attempt at plan `time` after rollback `after`."""
    return f".{ATTEMPT}.{time}.{after}"


@lru_cache(maxsize=16)
def announced_attempts(names: tuple[str, ...]) -> Mapping[InstantTime, InstantTime]:
    """The newest announced attempt of each plan.  names: of the files in the timeline's folder."""
    found: dict[InstantTime, InstantTime] = {}
    for name in names:
        if match := _ATTEMPT_NAME.fullmatch(name):
            time, after = InstantTime(match[1]), InstantTime(match[2])
            found[time] = max(after, found.get(time, after))
    return found


def outdated_names(
    names: Iterable[str], time: InstantTime, pending: frozenset[InstantTime]
) -> list[str]:
    """Announcements of earlier attempts at plan `time`, and of plans that are not pending."""
    matches = [match for name in names if (match := _ATTEMPT_NAME.fullmatch(name))]
    return [m[0] for m in matches if m[1] == time or InstantTime(m[1]) not in pending]
