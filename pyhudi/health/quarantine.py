"""Quarantine for the files that a repair moves out of a table, under their original paths.

```
.hoodie/.set_aside/<when>/<path from the table's root>
```

Nothing reads or deletes them; an operator inspects them, copies one back, or deletes the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.path_remap import copy_file, files_below

QUARANTINE: Final = ".hoodie/.set_aside"


def quarantine_files(fs: FileSystem, paths: Iterable[str], when: str) -> None:
    """Move files out.  Idempotent.  An empty file represents a missing file whose loss has been
    accepted."""
    for path in paths:
        target = f"{QUARANTINE}/{when}/{path}"
        if not fs.exists(path):
            fs.create(target, b"")
            continue
        if not fs.exists(target):
            copy_file(fs, path, target)
        fs.delete([path])


def quarantined_files(fs: FileSystem) -> Iterator[tuple[str, str]]:
    """(original path, current path) of every file that was moved out."""
    for info in files_below(fs, QUARANTINE):
        yield info.path[len(QUARANTINE) + 1 :].partition("/")[2], info.path
