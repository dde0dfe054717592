"""The read-only fsspec protocol `inlinefs`: a byte range of any file that fsspec can open.

A separate module because fsspec is slow to import; fsspec finds it by entry point.
"""

from __future__ import annotations

import io
from typing import Any

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from pyhudi.errors import CorruptFileError, UserError
from pyhudi.storage.inline_file import SCHEME, InlinePath, parse_url


class InlineFsspecFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """`fsspec.open("inlinefs://d/x.log/file/?start_offset=8036&length=6959")`.

    Paths are whole URLs; a range has no parent and lists itself.  `target_options` are passed to
    the file system of the outer file.
    """

    protocol = SCHEME
    root_marker = ""
    cachable = False

    def __init__(self, target_options: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._target_options = target_options or {}

    @classmethod
    def _strip_protocol(cls, path: str | list[str]) -> str | list[str]:
        """Unchanged: the query is part of the name."""
        return path

    def unstrip_protocol(self, name: str) -> str:
        return name

    @classmethod
    def _parent(cls, path: str) -> str:
        return path

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        where = parse_url(path)
        outer_fs, outer_path = self._outer(where)
        outer = outer_fs.info(outer_path)
        _check_range(where, outer["size"])
        return {**outer, "name": path, "size": where.length, "type": "file"}

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        return [self.info(path)] if detail else [path]

    def glob(self, path: str, **_options: Any) -> list[str]:
        """`?` in a URL is not a wildcard."""
        return [path]

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> Any:
        if mode != "rb":
            raise UserError("a byte range of a file cannot be written", path=path)
        return _RangeFile(self, path, size=self.info(path)["size"], cache_type="readahead")

    def _fetch(self, path: str, start: int, end: int) -> bytes:
        where = parse_url(path)
        outer_fs, outer_path = self._outer(where)
        data = outer_fs.cat_file(
            outer_path, start=where.offset + start, end=where.offset + min(end, where.length)
        )
        return bytes(data)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_options: Any
    ) -> bytes:
        length = self.info(path)["size"]
        first, last, _ = slice(start, end).indices(length)
        return self._fetch(path, first, max(first, last))

    def _outer(self, where: InlinePath) -> tuple[Any, str]:
        found: tuple[Any, str] = fsspec.core.url_to_fs(where.outer, **self._target_options)
        return found


class _RangeFile(AbstractBufferedFile):  # type: ignore[misc]
    """Reads of one range, with fsspec's read-ahead."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs._fetch(self.path, start, end)  # type: ignore[no-any-return]

    def seek(self, loc: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self.size}[whence]
        if start + loc > self.size:
            raise UserError("seek outside the file", offset=start + loc, size=self.size)
        return super().seek(loc, whence)  # type: ignore[no-any-return]


def _check_range(where: InlinePath, outer_size: int) -> None:
    if where.offset + where.length > outer_size:
        raise CorruptFileError(
            "byte range exceeds its file",
            path=where.outer,
            offset=where.offset,
            length=where.length,
            size=outer_size,
        )
