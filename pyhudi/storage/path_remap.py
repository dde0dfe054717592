"""A file system in which some folders and files are redirected to other paths.

Used to build a replacement next to the existing files: the builder
uses the usual names, and the files are written to the target of the redirection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.storage.filesystem import (
    Bytes,
    FileInfo,
    FileSystem,
    RandomAccess,
    Sink,
    StoreMutex,
    checked,
)


@dataclass(frozen=True)
class RedirectedFileSystem:
    """`inner`, with each path of `places` (a file, or a folder and everything below it) redirected.

    Listings of a redirected folder show its files under their original paths; a listing of
    a parent folder shows the real content.
    """

    inner: FileSystem
    places: Mapping[str, str]

    @property
    def url(self) -> str:
        return self.inner.url

    def _at(self, path: str) -> str:
        checked(path)
        for place, elsewhere in self.places.items():
            if path == place or path.startswith(f"{place}/"):
                return elsewhere + path[len(place) :]
        return path

    def sub(self, folder: str) -> FileSystem:
        """A deeper root; below a redirected folder this is the plain store."""
        inner = self.inner.sub(self._at(folder))
        below = {
            place[len(folder) + 1 :]: elsewhere
            for place, elsewhere in self.places.items()
            if place.startswith(f"{folder}/")
        }
        assert not below, "a parent of a redirected folder cannot be a root"
        return inner

    def read(self, path: str) -> bytes:
        return self.inner.read(self._at(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.inner.read_range(self._at(path), offset, length)

    def open(self, path: str) -> RandomAccess:
        return self.inner.open(self._at(path))

    def arrow_file(self, path: str) -> Any:
        return self.inner.arrow_file(self._at(path))

    def size(self, path: str) -> int:
        return self.inner.size(self._at(path))

    def exists(self, path: str) -> bool:
        return self.inner.exists(self._at(path))

    def children(self, folder: str = "") -> list[FileInfo]:
        place = self._at(folder)
        found = self.inner.children(place)
        if place == folder:
            return found
        return [replace(info, path=folder + info.path[len(place) :]) for info in found]

    def names(self, folder: str = "") -> list[str]:
        return self.inner.names(self._at(folder))

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        return self.inner.create(self._at(path), data, durable=durable)

    def replace(self, path: str, data: Bytes) -> None:
        self.inner.replace(self._at(path), data)

    def open_sink(self, path: str) -> Sink:
        return self.inner.open_sink(self._at(path))

    def open_scratch(self, path: str) -> Sink:
        return self.inner.open_scratch(self._at(path))

    def sync(self, paths: Iterable[str]) -> None:
        self.inner.sync([self._at(path) for path in paths])

    def delete(self, paths: Iterable[str]) -> None:
        self.inner.delete(self._at(path) for path in paths)

    def delete_folder(self, folder: str) -> None:
        self.inner.delete_folder(self._at(folder))

    def mutex(self, path: str) -> StoreMutex:
        return self.inner.mutex(path)


def files_below(fs: FileSystem, folder: str) -> list[FileInfo]:
    """Every file in a folder and its subfolders, in path order."""
    found: list[FileInfo] = []
    todo = [folder]
    while todo:
        for info in fs.children(todo.pop()):
            (found.append(info) if not info.is_folder else todo.append(info.path))
    return sorted(found, key=lambda info: info.path)


def copy_file(
    fs: FileSystem,
    source: str,
    target: str,
    *,
    to: FileSystem | None = None,
    chunk_bytes: int = 8 << 20,
) -> None:
    """Copy a file to a second name, in chunks.  to: the store of the target; None: the same.

    Raises StorageError if the name is taken.
    """
    file = fs.open(source)
    try:
        with (to or fs).open_sink(target) as sink:
            at = 0
            while at < file.size:
                part = file.read_at(at, min(chunk_bytes, file.size - at))
                sink.write(part)
                at += len(part)
    finally:
        file.close()
