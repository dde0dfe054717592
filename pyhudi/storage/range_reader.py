"""Files of a store that is read by range requests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, Final, Protocol

import pyarrow as pa

from pyhudi.errors import CorruptFileError, StorageError
from pyhudi.storage.seekable_file import as_pyarrow_file
from pyhudi.storage.sink import PublishedOnClose

AHEAD_BYTES: Final = 256 << 10  # read on open: covers most logs, most footers, all small files
_IN_MEMORY_BYTES: Final = 64 << 20  # larger sinks are spilled to the local disk


class RangeStore(Protocol):
    """A store that reads ranges of its files."""

    @property
    def url(self) -> str: ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file known to be long enough: one request."""
        ...


class RangedFile:
    """RandomAccess by range requests, with the bytes that were read on open."""

    def __init__(self, fs: RangeStore, path: str, size: int, first_at: int, first: bytes) -> None:
        self._fs = fs
        self._path = path
        self._size = size
        self._first_at = first_at
        self._first = first

    @property
    def size(self) -> int:
        return self._size

    @property
    def is_whole(self) -> bool:
        return len(self._first) == self._size

    def read_at(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise CorruptFileError(
                "read past the end of the file",
                path=f"{self._fs.url}/{self._path}",
                offset=offset,
                length=length,
            )
        start = offset - self._first_at
        if start >= 0 and start + length <= len(self._first):
            return self._first[start : start + length]
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
    """A file uploaded when it is closed: buffered in memory, or on the local disk if large.

    upload: called with the content, at its start, and its size; returns whether the name was free.
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
    return StorageError("the file already exists", path=path)
