"""Files that a repair moves out of a table, under the paths they had.

```
.hoodie/.set_aside/<when>/<path from the table's root>
```

Nothing reads or deletes them; a person looks at them, copies one back, or deletes the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.path_remap import copy_file, files_below

SET_ASIDE: Final = ".hoodie/.set_aside"


def set_aside(fs: FileSystem, paths: Iterable[str], when: str) -> None:
    """Move files out; doing it again changes nothing.  An empty file stands for one that is lost:
    it has been given up."""
    for path in paths:
        target = f"{SET_ASIDE}/{when}/{path}"
        if not fs.exists(path):
            fs.create(target, b"")
            continue
        if not fs.exists(target):
            copy_file(fs, path, target)
        fs.delete([path])


def set_aside_files(fs: FileSystem) -> Iterator[tuple[str, str]]:
    """(the path a file had, where it is now) of everything that was moved out."""
    for info in files_below(fs, SET_ASIDE):
        yield info.path[len(SET_ASIDE) + 1 :].partition("/")[2], info.path


def delete_leftovers(fs: FileSystem, paths: Iterable[str]) -> None:
    """Delete leftovers of writes that are over: files, or folders with all below them."""
    for path in paths:
        if fs.children(path):
            fs.delete_folder(path)
        else:
            fs.delete([path])
