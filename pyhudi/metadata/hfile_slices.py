"""File slices of the metadata table as sorted maps: a base HFile and layers of log blocks.

A base file and each HFILE block of a log is an HFile; each DELETE block is a set of keys.  `layers`
returns the committed ones, oldest first.  The caller merges several values of one key: the record
index uses the newest, `files` merges all of them.

Files never change after they are written, so open files are cached per process, within bounds.
Source: table_format 5.4, 9.9; storage_format 2.7.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyhudi._native.hashing import bucket_of
from pyhudi._native.hfile.block_cache import BlockCache
from pyhudi._native.hfile.reader import HFileReader
from pyhudi._native.hfile.source import map_file
from pyhudi._native.keys import KeyTable
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.filenames import METADATA_TABLE, join
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import empty_delete_block
from pyhudi.formats.log_file import BlockKind, LogBlock, read_blocks
from pyhudi.formats.log_scan import PlacedBlock, committed_blocks
from pyhudi.metadata.record_index.lookup_costs import LookupCost, timed_get
from pyhudi.storage.filesystem import FileSystem, RandomAccess
from pyhudi.storage.inline_file import Window
from pyhudi.table.file_group_view import DataFile, FileSlice

OPEN_BYTES_MAX: Final = 64 << 20
"""Limit of the memory of open files without decoded blocks, which have a separate limit."""

_READ_WHOLE: Final = 1 << 20  # files up to this size are read in one request and cached
_MAPPED_COST: Final = 256 << 10  # charged for a mapped file, to limit how many stay open

Homes = Callable[[pa.Array, int], NDArray[np.int32]]
"""The file group, of a count of groups, of each key."""

_OPENED = BlockCache(OPEN_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the metadata table; path: relative to that table's root."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MapSlice:
    """A file slice as a reader sees it, with what a worker needs to look up its keys.

    number: of the group in the partition.  valid: instants whose log blocks are committed.
    groups: over which keys are spread by `homes`, so that files of another group are refused when
    they are opened; 1: files with any keys are accepted.
    """

    partition: str
    number: int
    base: StoredFile | None
    logs: tuple[StoredFile, ...]
    valid: frozenset[str]
    groups: int = 1
    homes: Homes = bucket_of

    @classmethod
    def of(
        cls,
        file_slice: FileSlice,
        number: int,
        valid: frozenset[str],
        *,
        groups: int = 1,
        homes: Homes = bucket_of,
    ) -> MapSlice:
        def stored(file: DataFile) -> StoredFile:
            return StoredFile(file.path, file.size_bytes)

        base = stored(file_slice.base) if file_slice.base else None
        logs = tuple(stored(file) for file in file_slice.logs if not only_marks(file))
        return cls(file_slice.partition, number, base, logs, valid, groups, homes)

    def check_is_home(self, keys: Sequence[Any], path: str) -> None:
        """Raise CorruptFileError if the keys, the first and the last of a file, belong to another
        group: the file is that group's, which its size alone does not show.

        One key tells nothing, as verify and repair of an index deal with single keys that are in
        the wrong group."""
        if self.groups < 2 or len(set(keys)) < 2:
            return
        homes = {*self.homes(pa.array(keys), self.groups).tolist()}
        if len(homes) == 1 and self.number not in homes:
            raise CorruptFileError(
                "a file of the metadata table has keys of another file group",
                path=join(METADATA_TABLE, path),
                group=self.number,
                group_of_keys=homes.pop(),
                hint="run table.metadata.rebuild() or pyhudi repair",
            )


def only_marks(file: DataFile) -> bool:
    """Whether a log contains only the empty block that creates its file group.  Decided by its
    size, without reading it."""
    return file.size_bytes == len(empty_delete_block(file.name.instant))


class ValueLayer:
    """An HFile of keys and values, of a file group `of`."""

    def __init__(
        self, source: Any, of: MapSlice, *, path: str, schema: str | None, size_bytes: int
    ) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._source = source
        self._of = of
        self._stated = schema

    @cached_property
    def reader(self) -> HFileReader:
        reader = HFileReader(self._source, path_for_errors=self.path)
        self._of.check_is_home(reader.key_range or (), self.path)
        return reader

    @cached_property
    def schema(self) -> str:
        """The Avro schema of the values."""
        if self._stated is not None:
            return self._stated
        text = self.reader.metadata.get("schema")
        if text is None:
            raise CorruptFileError("an HFile of the metadata table has no schema", path=self.path)
        try:
            return bytes(text).decode()
        except UnicodeDecodeError as error:
            raise CorruptFileError("the schema of an HFile is not UTF-8", path=self.path) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every entry, in key order: [key: binary, value: binary]."""
        yield from self.reader.scan()


class DeleteLayer:
    """The keys that a DELETE block of a file group `of` deletes."""

    def __init__(self, content: bytes, of: MapSlice, *, path: str) -> None:
        self.keys = decode_deletes(content, path=path).column("record_key")
        if len(self.keys):
            of.check_is_home([self.keys[0].as_py(), self.keys[-1].as_py()], path)

    @cached_property
    def table(self) -> KeyTable:
        return KeyTable(self.keys)


Layer = ValueLayer | DeleteLayer


@dataclass(frozen=True, slots=True)
class LayerMatches:
    """Values found in one layer: positions (in the requested keys) and their bytes."""

    positions: NDArray[np.int64]
    values: pa.Array
    schema: str
    path: str


def newest_values(
    fs: FileSystem, file_slice: MapSlice, keys: pa.Array, *, method: str = "auto"
) -> list[LayerMatches]:
    """The newest value of each key; a key in no match is absent or deleted.

    fs: rooted at the metadata table.  keys: strings or binary without nulls, in any order.
    method: as in `HFileReader.get_many`.
    Cost: layers are searched newest first, each only for keys not found in a newer one.
    """
    return look_up_layers(layers(fs, file_slice), keys, method=method)[0]


def look_up_layers(
    found: Sequence[Layer], keys: pa.Array, *, method: str, costs: list[LookupCost] | None = None
) -> tuple[list[LayerMatches], NDArray[np.int64]]:
    """Look keys up in layers, given oldest first.

    Returns the newest value of each key, as `newest_values`, and the positions of keys that no
    layer mentions.  costs: the cost of each file is appended.
    """
    hits: list[LayerMatches] = []
    left = np.arange(len(keys), dtype=np.int64)
    for layer in reversed(found):
        if not len(left):
            break
        if isinstance(layer, DeleteLayer):
            known = layer.table.contains(keys)
        else:
            if costs is None:
                values = layer.reader.get_many(keys, method=method)
            else:
                values = timed_get(layer.reader, keys, method, costs)
            if values.null_count == len(values):
                continue
            if not values.null_count:
                hits.append(LayerMatches(left, values, layer.schema, layer.path))
                return hits, left[:0]
            known = values.is_valid().to_numpy(zero_copy_only=False)
            hits.append(LayerMatches(left[known], values.drop_null(), layer.schema, layer.path))
        if known.any():
            rest = np.flatnonzero(~known)
            left, keys = left[rest], keys.take(pa.array(rest))
    return hits, left


def layers(fs: FileSystem, file_slice: MapSlice) -> tuple[Layer, ...]:
    """The committed layers, oldest first.  The blocks of a log are located once per process."""
    return tuple(layer for layer, _ in dated_layers(fs, file_slice))


def dated_layers(fs: FileSystem, file_slice: MapSlice) -> tuple[tuple[Layer, str | None], ...]:
    """`layers`, each with the instant that wrote it; None for the base file, which merges many."""
    found: list[tuple[Layer, str | None]] = []
    if file_slice.base is not None:
        found.append((_open_base(fs, file_slice.base, file_slice), None))
    opened = [open_log(fs, log) for log in file_slice.logs]
    logs = {log.path: log for log in opened}
    blocks = (PlacedBlock(log.path, block) for log in opened for block in log.blocks)
    for placed in committed_blocks(blocks, file_slice.valid.__contains__):
        layer = logs[placed.path].layer(placed.block, file_slice)
        if layer is not None:
            found.append((layer, placed.block.instant))
    return tuple(found)


class OpenLog:
    """A log file with located blocks, which are opened on demand."""

    def __init__(self, fs: FileSystem, file: StoredFile) -> None:
        self.path = file.path
        self._fs = fs
        self._content = _content(fs, file)
        self.blocks = tuple(read_blocks(self._content, path=file.path))
        self._layers: dict[int, Layer | None] = {}

    def layer(self, block: LogBlock, of: MapSlice) -> Layer | None:
        """One of `blocks` as a layer of a file group; None for a delete block without keys, which
        only creates a file group."""
        if block.offset not in self._layers:
            self._layers[block.offset] = self._open(block, of)
        return self._layers[block.offset]

    def _open(self, block: LogBlock, of: MapSlice) -> Layer | None:
        window = Window(self._content, block.content_offset, block.content_length)
        if block.kind is BlockKind.DELETE:
            layer = DeleteLayer(window.read_at(0, window.size), of, path=self.path)
            return layer if len(layer.keys) else None
        if block.kind is not BlockKind.HFILE:
            raise UnsupportedTableError(
                "a log of the metadata table contains blocks that are not HFiles",
                path=self.path,
                kind=block.kind.name,
            )
        return ValueLayer(
            _range(self._content, block.content_offset, block.content_length),
            of,
            path=self.path,
            schema=block.schema,
            size_bytes=block.content_length,
        )


def _open_base(fs: FileSystem, file: StoredFile, of: MapSlice) -> ValueLayer:
    key = (fs.url, file.path, file.size_bytes)
    opened: ValueLayer | None = _OPENED.get(key)
    if opened is None:
        content = _content(fs, file)
        source = _range(content, 0, content.size)
        opened = ValueLayer(source, of, path=file.path, schema=None, size_bytes=content.size)
        _OPENED.put(key, opened, _cost(file))
    return opened


def open_log(fs: FileSystem, file: StoredFile) -> OpenLog:
    """Open a log file and locate its blocks; the result is cached."""
    key = (fs.url, file.path, file.size_bytes)
    opened: OpenLog | None = _OPENED.get(key)
    if opened is None:
        opened = OpenLog(fs, file)
        _OPENED.put(key, opened, _cost(file))
    return opened


def _cost(file: StoredFile) -> int:
    return file.size_bytes + 4096 if file.size_bytes <= _READ_WHOLE else _MAPPED_COST


class MappedBytes:
    """A file's bytes in memory or mapped: a RandomAccess that supports zero-copy slices."""

    def __init__(self, data: Any, path: str, *, mapped: mmap.mmap | None = None) -> None:
        self.buffer = memoryview(data)
        self.mapped = mapped
        self._path = path

    @property
    def size(self) -> int:
        return len(self.buffer)

    def read_at(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > len(self.buffer):
            raise CorruptFileError(
                "read past the end of the file", path=self._path, offset=offset, length=length
            )
        return bytes(self.buffer[offset : offset + length])

    def part(self, offset: int, length: int) -> MappedBytes:
        """A slice of the bytes; shorter at the end of the file."""
        return MappedBytes(self.buffer[offset : offset + length], self._path, mapped=self.mapped)

    def close(self) -> None:
        """Does nothing: views may outlive this object."""


def _content(fs: FileSystem, file: StoredFile) -> RandomAccess:
    """The file's bytes: small files are read whole, local files mapped, others read on demand."""
    if file.size_bytes <= _READ_WHOLE:
        return MappedBytes(fs.read(file.path), file.path)
    local_path = getattr(fs, "local_path", None)
    if local_path is None:
        return fs.open(file.path)
    whole = map_file(local_path(file.path))
    return MappedBytes(whole.buffer, file.path, mapped=whole.mapped)


def _range(content: RandomAccess, offset: int, length: int) -> Any:
    """A byte range of a file as input of the HFile reader: in memory where possible."""
    if isinstance(content, MappedBytes):
        return content.part(offset, length)
    return Window(content, offset, length)
