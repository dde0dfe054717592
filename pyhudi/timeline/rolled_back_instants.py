"""The permanent list of rolled-back instants.

```
.hoodie/.pyhudi.rolled_back.N    one instant per line: writes that were rolled back, and rollbacks
                                 that were examined; N grows, a file is never changed
```

A writer that was rolled back may continue to write files.  Once its instant is older than the
active timeline it would be taken for an archived, completed one, so its time is listed here
before its files leave the timeline.  Apache Hudi ignores the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pyhudi.errors import StorageError
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem

_NAME: Final = re.compile(r"\.pyhudi\.rolled_back\.([1-9][0-9]{0,8})")
_INSTANT: Final = re.compile(r"[0-9]{14,20}")
_ATTEMPTS: Final = 100


def is_list(name: str) -> bool:
    """Whether this is the name of a list."""
    return _NAME.fullmatch(name) is not None


def newest_list(names: Iterable[str]) -> str | None:
    """The name of the newest list in a folder; None if there is none."""
    numbered = [(int(found[1]), found[0]) for name in names if (found := _NAME.fullmatch(name))]
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
    for _ in range(_ATTEMPTS):
        names = tuple(fs.names(folder))
        newest = newest_list(names)
        known = read_list(fs, f"{folder}/{newest}") if newest else frozenset()
        if requested <= known:
            return
        number = int(newest.rpartition(".")[2]) if newest else 0
        path = f"{folder}/.pyhudi.rolled_back.{number + 1}"
        if fs.create(path, "".join(f"{time}\n" for time in sorted(known | requested)).encode()):
            fs.delete(f"{folder}/{name}" for name in names if _NAME.fullmatch(name))
            return
    raise StorageError("could not record a rolled-back instant", path=folder, retryable=True)
