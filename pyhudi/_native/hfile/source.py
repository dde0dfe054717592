"""Sources of an HFile's bytes: one interface for paths, bytes, random-access and seekable files.

A source has `size` and `read_at(offset, length)`.  Some attributes are optional:
`buffer`, a read-only memoryview of the whole file if it is addressable (then nothing is
copied), `mapped`, the memory map of a file behind it, and the costs
`request_cost_seconds` and `bytes_per_second` of a store with slow requests, by which
lookups join ranges or read the whole file.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError, UserError

LOCAL_BYTES_PER_SECOND = 8e9
REMOTE_BYTES_PER_SECOND = 100e6


class Source(Protocol):
    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes: ...


class BytesSource:
    """Bytes in memory, or a range of them.

    mapped: the map of the local file that contains them, whose pages may be released and
    loaded again.
    """

    def __init__(self, data: Any, *, mapped: mmap.mmap | None = None) -> None:
        self.buffer = memoryview(data).cast("B").toreadonly()
        self.mapped = mapped
        self.size = len(self.buffer)

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self.buffer[offset : offset + length])

    def close(self) -> None:
        """Nothing to release: the memory belongs to the holders of views."""


class LockedFile:
    """A seekable file object; reads are serialized."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._turn = threading.Lock()
        self.size = file.seek(0, os.SEEK_END)

    def read_at(self, offset: int, length: int) -> bytes:
        with self._turn:
            self._file.seek(offset)
            parts = []
            while length > 0:
                part = self._file.read(length)
                if not part:
                    raise CorruptFileError("file ends before its content", offset=offset)
                parts.append(part)
                length -= len(part)
            return b"".join(parts)

    def close(self) -> None:
        """The file stays open: it belongs to the caller."""


def open_source(source: Any) -> tuple[Any, str | None]:
    """The source and the path to name in errors.  Raises FileMissingError, UserError."""
    if isinstance(source, str) and source.startswith("inlinefs:"):
        return inline_range(source), source
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return map_file(path), path
    if hasattr(source, "read_at") and isinstance(getattr(source, "size", None), int):
        return source, getattr(source, "path", None)
    try:
        return BytesSource(source), None
    except TypeError:
        pass
    if hasattr(source, "seek") and hasattr(source, "read"):
        return LockedFile(source), getattr(source, "name", None)
    raise UserError(
        "an HFile is read from a path, bytes, or an object with read_at or seek and read",
        type=type(source).__name__,
    )


def check_not_cut(whole: mmap.mmap, path: str | None) -> None:
    """Raise CorruptFileError if a mapped file has been truncated: touching the pages beyond its
    new end would end the process (SIGBUS).  One fstat."""
    if whole.size() < len(whole):
        raise CorruptFileError(
            "the file was truncated in place while it was open",
            path=path,
            size=whole.size(),
            expected=len(whole),
            hint="files of a table never change; find out what wrote to it",
        )


def map_file(path: str) -> BytesSource:
    """A local file, mapped; pages are read on access."""
    try:
        with Path(path.removeprefix("file://")).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return BytesSource(b"")
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return BytesSource(whole, mapped=whole)
    except FileNotFoundError as error:
        raise FileMissingError("there is no file", path=path) from error
    except OSError as error:
        raise StorageError("the file cannot be opened", path=path) from error


def inline_range(url: str) -> BytesSource:
    """The range of a local file that an inlinefs: URL names (storage_format 3)."""
    base, _, query = url.partition("?")
    pairs = (part.partition("=") for part in query.split("&"))
    parts = {name: value for name, _, value in pairs}
    folder, _, scheme = base.removeprefix("inlinefs:").rstrip("/").rpartition("/")
    try:
        offset, length = int(parts["start_offset"]), int(parts["length"])
    except (KeyError, ValueError) as error:
        raise UserError("not an inlinefs: URL", url=url) from error
    if scheme != "file":
        raise UserError(
            "only ranges of local files open by URL", url=url, hint="pass an opened Window instead"
        )
    outer = map_file("/" + unquote(folder).lstrip("/"))
    if offset < 0 or length < 0 or offset + length > outer.size:
        raise CorruptFileError("range lies outside its file", path=url, offset=offset)
    return BytesSource(outer.buffer[offset : offset + length], mapped=outer.mapped)
