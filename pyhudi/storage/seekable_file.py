"""Adapters from positional reads to the file objects of Python and Arrow."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from pyhudi.errors import UserError
from pyhudi.storage.filesystem import RandomAccess


class SeekableFile(io.RawIOBase):
    """A RandomAccess as a read-only Python file object.

    A read stops at the end; a seek past the end is an error, as in Apache Hudi.  Closing it
    closes the underlying RandomAccess.
    """

    def __init__(self, source: RandomAccess) -> None:
        self._source = source
        self._at = 0

    @property
    def size(self) -> int:
        return self._source.size

    def read_at(self, offset: int, length: int) -> bytes:
        return self._source.read_at(offset, length)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if not 0 <= start + offset <= self._source.size:
            raise UserError("seek outside the file", offset=start + offset, size=self._source.size)
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        if self.closed:
            raise UserError("the file is closed")
        left = self._source.size - self._at
        length = left if size is None or size < 0 else min(size, left)
        data = self._source.read_at(self._at, length) if length else b""
        self._at += length
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


def as_pyarrow_file(source: RandomAccess) -> pa.NativeFile:
    """`source` as a pyarrow file, so that pyarrow.parquet reads it in place.

    Closing the result closes `source`.
    """
    return pa.PythonFile(SeekableFile(source), mode="r")
