"""A lease object built on create-if-absent only, for stores without conditional overwrite.

Its versions are the numbered files of a folder; the greatest number is the current one.  Creating
n + 1 replaces version n.  Older files are then deleted.  A slow writer, whose number was taken
and removed before, sees a greater number and deletes its file: only the greatest number
counts, and it is removed only after a greater one exists.
"""

from __future__ import annotations

from pyhudi.errors import FileMissingError
from pyhudi.storage.filesystem import FileSystem

_DIGITS = 12


class NumberedLease:
    """LeaseObject over the folder `folder` of any file system with an atomic `create`."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs, self._folder = fs, folder

    def read(self) -> tuple[bytes, int] | None:
        while True:
            numbers = self._numbers()
            if not numbers:
                return None
            try:
                return self._fs.read(self._name(numbers[-1])), numbers[-1]
            except FileMissingError:  # a newer version replaced it meanwhile
                continue

    def write(self, content: bytes, version: int | None) -> int | None:
        mine = (version or 0) + 1
        if not self._fs.create(self._name(mine), content):
            return None
        numbers = self._numbers()
        if numbers[-1] != mine:
            self._fs.delete([self._name(mine)])
            return None
        self._fs.delete([self._name(number) for number in numbers[:-1]])
        return mine

    def modified(self) -> float | None:
        found = [i for i in self._fs.children(self._folder) if i.name.isdecimal()]
        return max(found, key=lambda info: info.name).modified if found else None

    def _numbers(self) -> list[int]:
        names = (info.name for info in self._fs.children(self._folder))
        return sorted(int(name) for name in names if name.isdecimal())

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:0{_DIGITS}d}"
