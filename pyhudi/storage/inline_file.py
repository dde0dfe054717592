"""Byte ranges of an outer file opened as files: how Parquet and HFile blocks are read in place.

Two views of the same range: `Window` (positional reads; `seekable_file.py` makes a Python file
object of it) and the `inlinefs:` URL that describes the range as text:

    inlinefs:/ P / S /?start_offset=<o>&length=<n>

P is the outer path after its first `:` with one leading slash, S the outer scheme.  Older writers
omitted the extra slash and did not collapse `//`; both forms are parsed.
Source: storage_format chapter 3.  The fsspec implementation is in `inline_fsspec.py`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, overload

from pyhudi.errors import CorruptFileError, FileMissingError, UserError
from pyhudi.storage.filesystem import FileSystem, RandomAccess
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.seekable_file import SeekableFile

SCHEME: Final = "inlinefs"
_RANGE = re.compile(r"\?start_offset=(\d{1,19})&length=(\d{1,19})$", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class InlinePath:
    """The outer file and the range described by an `inlinefs:` URL.

    outer: a URL with a scheme; local files are `file:///...`.
    """

    outer: str
    offset: int
    length: int

    def __str__(self) -> str:
        """The URL in the newer form, as Apache Hudi writes it."""
        scheme, rest = _split_scheme(self.outer)
        path = re.sub("^/+", "/", rest)
        return f"{SCHEME}:/{path}/{scheme}/?start_offset={self.offset}&length={self.length}"


def parse_url(url: str) -> InlinePath:
    """The range that an `inlinefs:` URL describes, in either form.  Raises UserError."""
    found = _RANGE.search(url)
    if not url.startswith(SCHEME + ":") or found is None:
        raise UserError("not an inlinefs URL", url=url)
    base, _, scheme = url[len(SCHEME) + 1 : found.start()].rstrip("/").rpartition("/")
    path = base.lstrip("/")
    if not path or not _SCHEME.fullmatch(scheme):
        raise UserError("an inlinefs URL must contain an outer path and its scheme", url=url)
    if scheme == "file" or base.startswith("///"):
        path = "/" + path
    return InlinePath(f"{scheme}://{path}", int(found[1]), int(found[2]))


def _split_scheme(outer: str) -> tuple[str, str]:
    """(scheme, text after the first colon); a plain path is a local file."""
    head, colon, rest = outer.partition(":")
    if colon and _SCHEME.fullmatch(head):
        return head, rest
    return "file", str(Path(outer).absolute())


class Window:
    """Bytes [offset, offset + length) of an outer file, as a separate RandomAccess.

    Closing it leaves the outer file open: several windows share one file.
    Raises CorruptFileError if the range is not inside the outer file.
    """

    __slots__ = ("_offset", "_outer", "_size")

    def __init__(self, outer: RandomAccess, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > outer.size:
            raise CorruptFileError(
                "byte range exceeds its file", offset=offset, length=length, size=outer.size
            )
        self._outer = outer
        self._offset = offset
        self._size = length

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes.  Raises CorruptFileError if the window ends earlier."""
        if offset < 0 or length < 0 or offset + length > self._size:
            raise CorruptFileError(
                "read past the end of a byte range", offset=offset, length=length, size=self._size
            )
        return self._outer.read_at(self._offset + offset, length)

    def close(self) -> None:
        """Nothing to release."""


class InlineFileSystem:
    """Byte ranges of outer files, opened as files.  Read-only.

    outer: the FileSystem of the outer files; a range then names a path in it (or a URL
    below its root).  Without it, outer files are local paths and `file:` URLs.
    """

    def __init__(self, outer: FileSystem | None = None) -> None:
        self._outer = outer

    @overload
    def open(self, path: str | InlinePath) -> SeekableFile: ...
    @overload
    def open(self, path: str, offset: int, length: int) -> SeekableFile: ...

    def open(
        self, path: str | InlinePath, offset: int | None = None, length: int | None = None
    ) -> SeekableFile:
        """The range as a seekable file object that also has `size` and `read_at`.

        path: an `inlinefs:` URL, its parts, or an outer path with `offset` and `length`.
        Raises UserError, FileMissingError, and CorruptFileError if the range exceeds the file.
        """
        where = _located(path, offset, length)
        source = self._open_outer(where.outer)
        try:
            return SeekableFile(_OwningWindow(source, where.offset, where.length))
        except CorruptFileError:
            source.close()
            raise

    def exists(self, path: str | InlinePath) -> bool:
        """Whether the outer file exists and contains the whole range."""
        try:
            self.open(path).close()
        except (FileMissingError, CorruptFileError):
            return False
        return True

    def size(self, path: str | InlinePath) -> int:
        """The length of the range, which must be inside its file."""
        with self.open(path) as file:
            return file.size

    @staticmethod
    def url(outer: str | os.PathLike[str], offset: int, length: int) -> str:
        """The `inlinefs:` URL of a range.  outer: a URL, or a local path."""
        return str(_located(os.fspath(outer), offset, length))

    @staticmethod
    def parse(url: str) -> InlinePath:
        """The outer file and range of an `inlinefs:` URL.  Raises UserError."""
        return parse_url(url)

    def _open_outer(self, outer: str) -> RandomAccess:
        if self._outer is not None:
            return self._outer.open(_inside(self._outer.url, outer))
        scheme, rest = _split_scheme(outer)
        if scheme != "file":
            raise UserError(
                "a range of a remote file requires the file system of that file",
                hint="pass it: InlineFileSystem(outer=...)",
                path=outer,
            )
        return LocalFileSystem("/").open(os.path.abspath(re.sub("^/+", "/", rest)).lstrip("/"))


class _OwningWindow(Window):
    """A window that closes its outer file."""

    __slots__ = ()

    def close(self) -> None:
        self._outer.close()


def _located(path: str | InlinePath, offset: int | None, length: int | None) -> InlinePath:
    if isinstance(path, InlinePath):
        return path
    if offset is None or length is None:
        return parse_url(path)
    if offset < 0 or length < 0:
        raise UserError("offset and length must not be negative", offset=offset, length=length)
    return InlinePath(path, offset, length)


def _inside(root: str, outer: str) -> str:
    """`outer` relative to the root of a file system; relative paths are unchanged."""
    if not outer.startswith("/") and _split_scheme(outer)[0] == "file" and ":" not in outer:
        return outer
    scheme, path = _split_scheme(outer)
    root_scheme, root_path = _split_scheme(root)
    path, root_path = re.sub("^/+", "/", path), re.sub("^/+", "/", root_path).rstrip("/") + "/"
    if scheme != root_scheme or not path.startswith(root_path):
        raise UserError("the outer file is not inside this file system", path=outer, root=root)
    return path[len(root_path) :]
