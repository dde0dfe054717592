"""The bootstrap index: source files with the data columns of skeleton files.

A table bootstrapped as METADATA_ONLY has base files of instant 00000000000001 with only the five
meta columns.  The data columns stay in the Parquet files of the source: row n of one
file belongs to row n of the other.  The index is an HFile below `.hoodie/.aux/.bootstrap`:

    .fileids    part=<partition>;fileid=<file id> -> Avro HoodieBootstrapFilePartitionInfo

Its paths are absolute, on the machine that bootstrapped the table.  The part after the bootstrap
base path is looked up below the folder that now contains the source files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from pyhudi._native import HFileReader
from pyhudi.errors import CorruptFileError, FileMissingError, UnsupportedTableError, UserError
from pyhudi.filenames import HOODIE
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem, checked_file
from pyhudi.storage.url_resolver import locate, takes_options
from pyhudi.table.file_group_view import FileSlice, SourceFile, TableView
from pyhudi.timeline.service_payloads import read_avro

SOURCE_OPTION: Final = "pyhudi.bootstrap.base.path"
METADATA_ONLY: Final = InstantTime("00000000000001")
"""The instant of skeleton files; a full bootstrap uses another and writes ordinary files."""

_INDEX: Final = (
    f"{HOODIE}/.aux/.bootstrap/.fileids/"
    "00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"
)
_URL: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://([^/]*))?(/.*)?", re.DOTALL)


class SourceIndex:
    """The bootstrap index of a table.

    fs: rooted at the table.  base: the bootstrap base path of the table's properties.  folder:
    the current location of its files; None: the base path.
    """

    def __init__(self, fs: FileSystem, base: str, *, folder: str | None) -> None:
        self._fs = fs
        self._base = base
        self._folder = folder

    @cached_property
    def _files(self) -> FileSystem:
        """Rooted at the folder of the source files.

        Without `folder`, the table's properties are trusted only for its own store: a table must
        not direct its reader, and the reader's credentials, to another server.
        """
        place = self._folder or self._base
        options = getattr(self._fs, "options", None) if takes_options(place) else None
        files = locate(place, storage_options=options)
        is_near = type(files) is type(self._fs) and _server(files.url) == _server(self._fs.url)
        if self._folder is None and not is_near:
            raise UnsupportedTableError(
                "the source files of the bootstrapped table are on another store",
                base_path=self._base,
                hint=f"set {SOURCE_OPTION} to their current folder",
            )
        return files

    def attach(self, slices: Iterable[FileSlice]) -> list[FileSlice]:
        """The slices, each skeleton file with its source file.  Reads the index if there are
        skeleton files.  Raises CorruptFileError for one that the index does not list,
        UnsupportedTableError and UserError for source files on another store."""
        found = list(slices)
        numbers = [n for n, file_slice in enumerate(found) if _is_skeleton(file_slice)]
        sources = self._sources([found[n].group for n in numbers])
        for number, source in zip(numbers, sources, strict=True):
            base = found[number].base
            assert base is not None
            found[number] = replace(found[number], base=replace(base, source=source))
        return found

    def _sources(self, groups: list[FileGroupId]) -> list[SourceFile]:
        if not groups:
            return []
        keys = [f"part={group.partition};fileid={group.file_id}" for group in groups]
        values = self._values(pa.array(keys, pa.string()))
        return [self._source(key, value.as_py()) for key, value in zip(keys, values, strict=True)]

    def _values(self, keys: pa.Array) -> pa.Array:
        try:
            with (
                closing(self._fs.open(_INDEX)) as file,
                HFileReader(file, path_for_errors=_INDEX) as index,
            ):
                return index.get_many(keys)
        except FileMissingError as missing:
            raise CorruptFileError("the bootstrap index is missing", path=_INDEX) from missing

    def _source(self, key: str, value: bytes | None) -> SourceFile:
        """The file of an entry.  Raises CorruptFileError."""
        if value is None:
            raise CorruptFileError("a skeleton file is not in the bootstrap index", key=key)
        status = read_avro(value, path=_INDEX).get("bootstrapFileStatus")
        named = status.get("path") if isinstance(status, dict) else None
        uri = named.get("uri") if isinstance(named, dict) else None
        length = status.get("length") if isinstance(status, dict) else None
        if not isinstance(uri, str) or not isinstance(length, int | None):
            raise CorruptFileError("an entry of the bootstrap index does not name a file", key=key)
        return SourceFile(self._files, self._below(uri), length)

    def _below(self, uri: str) -> str:
        """The path of a source file from the bootstrap base path.  Raises CorruptFileError if
        it is not below that path."""
        base, file = _parts(self._base), _parts(uri)
        same_store = not base[0] or not file[0] or base[0] == file[0]
        if same_store and file[1].startswith(f"{base[1]}/"):
            try:
                return checked_file(file[1].removeprefix(f"{base[1]}/"))
            except UserError as outside:
                raise _outside(uri, self._base) from outside
        raise _outside(uri, self._base)


def with_sources(view: TableView, index: SourceIndex | None) -> TableView:
    """The view, each skeleton file with its source file.  index: None if the table has none."""
    if index is None:
        return view
    attached = iter(index.attach(s for group in view.groups.values() for s in group.slices))
    groups = {
        id: replace(group, slices=tuple(next(attached) for _ in group.slices))
        for id, group in view.groups.items()
    }
    return replace(view, groups=groups)


def _is_skeleton(file_slice: FileSlice) -> bool:
    return file_slice.base is not None and file_slice.base.name.instant == METADATA_ONLY


def _server(url: str) -> str:
    return _parts(url)[0]


def _parts(url: str) -> tuple[str, str]:
    """Server or bucket ("" for none) and path, of a URL or a path as Hadoop writes it: not
    escaped.  The scheme is ignored: `s3` and `s3a` are one store."""
    match = _URL.fullmatch(url)
    if match is None:
        return "", url.rstrip("/")
    return match[1] or "", (match[2] or "").rstrip("/")


def _outside(uri: str, base: str) -> CorruptFileError:
    return CorruptFileError(
        "the bootstrap index names a file outside the bootstrap base path", file=uri, base_path=base
    )
