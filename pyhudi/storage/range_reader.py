"""Files of a store that is read by requests of a range each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, Final, Protocol

import pyarrow as pa

from pyhudi.errors import CorruptFileError, StorageError
from pyhudi.storage.seekable_file import as_pyarrow_file
from pyhudi.storage.sink import PublishedOnClose

AHEAD_BYTES: Final = 256 << 10  # asked for on opening: most logs, most footers, all small files
_IN_MEMORY_BYTES: Final = 64 << 20  # a sink that grows beyond is kept on the local disk


class RangeStore(Protocol):
    """A store that gives ranges of its files."""

    @property
    def url(self) -> str: ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file that is known to be long enough: one request."""
        ...


class RangedFile:
    """RandomAccess by range requests, with the bytes that came with the opening."""

    def __init__(self, fs: RangeStore, path: str, size: int, held_at: int, held: bytes) -> None:
        self._fs = fs
        self._path = path
        self._size = size
        self._held_at = held_at
        self._held = held

    @property
    def size(self) -> int:
        return self._size

    @property
    def is_whole(self) -> bool:
        return len(self._held) == self._size

    def read_at(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise CorruptFileError(
                "read past the end of the file",
                path=f"{self._fs.url}/{self._path}",
                offset=offset,
                length=length,
            )
        start = offset - self._held_at
        if start >= 0 and start + length <= len(self._held):
            return self._held[start : start + length]
        if not length:
            return b""
        return self._fs.get_range(self._path, offset, length)

    def close(self) -> None:
        """Nothing is open between requests."""


def arrow_file(opened: RangedFile) -> Any:
    """A pyarrow NativeFile over an open file."""
    if opened.is_whole:
        return pa.BufferReader(opened.read_at(0, opened.size))
    return as_pyarrow_file(opened)


class UploadedSink(PublishedOnClose):
    """A file that goes up when it is closed: kept in memory, or on the local disk when large.

    upload: given the content, at its start, and its size; whether the name was free.
    """

    def __init__(self, path: str, upload: Callable[[Any, int], bool]) -> None:
        super().__init__()
        self._path, self._upload = path, upload
        self._data = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115

    def write(self, data: Any) -> int:
        return self._data.write(data)

    def tell(self) -> int:
        return self._data.tell()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            if not self.abandoned:
                size = self._data.tell()
                self._data.seek(0)
                if not self._upload(self._data, size):
                    raise name_taken(self._path)
        finally:
            self._data.close()


def name_taken(path: str) -> StorageError:
    return StorageError("the file exists already", path=path)
