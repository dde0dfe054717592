"""The bloom and simple index read only files and row groups whose key range contains a key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.read.skipping.key_row_groups import KeyRowGroups
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import OpenCountingFileSystem

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("day", pa.string())])
DAYS, DAY_ROWS, GROUP_ROWS = 4, 24 * 1024, 1024
KINDS = [IndexKind.SIMPLE, IndexKind.GLOBAL_SIMPLE, IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM]


def rows(numbers: range | list[int], ts: int) -> pa.Table:
    """Rows whose keys are in time order; a partition is a day."""
    scrambled = [(n * 0x9E3779B97F4A7C15) % (1 << 64) for n in numbers]
    keys = [f"{n:09}-{x:016x}" for n, x in zip(numbers, scrambled, strict=True)]
    days = [f"d{n // DAY_ROWS}" for n in numbers]
    return pa.table({"id": keys, "ts": [ts] * len(keys), "day": days}, SCHEMA)


class ReadCountingFileSystem(OpenCountingFileSystem):
    """Also the bytes that Arrow reads of each file, in `ranges`: (path, offset, length)."""

    ranges: list[tuple[str, int, int]]

    def arrow_file(self, path: str) -> Any:
        return pa.PythonFile(_Counted(self.inner.open(path), path, self.ranges), mode="r")


class _Counted:
    """A readable file that records what is read."""

    closed = False

    def __init__(self, file: Any, path: str, ranges: list[tuple[str, int, int]]) -> None:
        self._file, self._path, self._ranges, self._at = file, path, ranges, 0

    def read(self, count: int = -1) -> bytes:
        count = self._file.size - self._at if count < 0 else min(count, self._file.size - self._at)
        self._ranges.append((self._path, self._at, count))
        self._at += count
        return bytes(self._file.read_at(self._at - count, count))

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def table_of(kind: TableType, index: IndexKind) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = parse_options({})
    base_file = replace(options.write.base_file, row_group_rows=GROUP_ROWS)
    options = replace(options, write=replace(options.write, base_file=base_file))
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("day",), ("ts",), options, index))
    Table(fs, options=options, engine=LocalEngine(1)).bulk_insert(rows(range(DAYS * DAY_ROWS), 1))
    return fs


def opened(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options({}), engine=LocalEngine(1))


def base_files(fs: FileSystem) -> dict[str, pq.FileMetaData]:
    found = {}
    for day in (f"d{n}" for n in range(DAYS)):
        for name in fs.names(day):
            if name.endswith(".parquet"):
                found[f"{day}/{name}"] = pq.read_metadata(pa.BufferReader(fs.read(f"{day}/{name}")))
    return found


def pages_read(metadata: pq.FileMetaData, ranges: list[tuple[int, int]]) -> set[tuple[int, str]]:
    """(row group, column) of the column chunks that ranges overlap."""
    found = set()
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            end = begin + chunk.total_compressed_size
            if any(offset < end and begin < offset + length for offset, length in ranges):
                found.add((group, chunk.path_in_schema))
    return found


@pytest.mark.parametrize("index", KINDS, ids=lambda kind: kind.value)
def test_an_update_of_the_last_rows_reads_the_keys_of_their_row_groups_alone(
    index: IndexKind,
) -> None:
    fs = table_of(TableType.MERGE_ON_READ, index)
    files = base_files(fs)
    assert len(files) == DAYS
    assert all(metadata.num_row_groups == DAY_ROWS // GROUP_ROWS for metadata in files.values())
    counting = ReadCountingFileSystem(fs)
    counting.ranges = []
    last = DAYS * DAY_ROWS
    report = opened(counting).upsert(rows(range(last - 1500, last), 2))
    assert report.updated == report.matched == 1500
    for path, metadata in files.items():
        ranges = [(offset, length) for p, offset, length in counting.ranges if p == path]
        read = pages_read(metadata, ranges)
        expected = {22, 23} if path.startswith(f"d{DAYS - 1}/") else set()
        assert read == {(group, RECORD_KEY) for group in expected}, path
    found = opened(fs).scan(["ts"]).to_arrow()["ts"].to_numpy()
    assert len(found) == last and found.sum() == last + 1500


@pytest.mark.parametrize("index", [*KINDS, IndexKind.RECORD], ids=lambda kind: kind.value)
def test_an_update_of_the_last_day_reads_no_rows_of_other_days(index: IndexKind) -> None:
    fs = table_of(TableType.COPY_ON_WRITE, index)
    files = base_files(fs)
    counting = ReadCountingFileSystem(fs)
    counting.ranges = []
    last = DAYS * DAY_ROWS
    opened(counting).upsert(rows(range(last - 1500, last), 2))
    for path, metadata in files.items():
        ranges = [(offset, length) for p, offset, length in counting.ranges if p == path]
        assert bool(pages_read(metadata, ranges)) == path.startswith(f"d{DAYS - 1}/"), path


@pytest.mark.parametrize("index", [IndexKind.SIMPLE, IndexKind.GLOBAL_BLOOM])
def test_keys_between_the_row_groups_and_here_and_there_are_found(index: IndexKind) -> None:
    fs = table_of(TableType.MERGE_ON_READ, index)
    picked = [5, GROUP_ROWS * 3 + 1, DAY_ROWS - 1, DAY_ROWS, 3 * DAY_ROWS + 7 * GROUP_ROWS]
    report = opened(fs).upsert(rows(picked, 2))
    assert (report.matched, report.new) == (len(picked), 0)
    again = opened(fs).upsert(rows([*picked, DAYS * DAY_ROWS + 1], 3))
    assert (again.matched, again.new) == (len(picked), 1)


def test_row_numbers_of_chosen_row_groups_are_those_of_the_file() -> None:
    keys = [f"k{n:03}" for n in range(100)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({RECORD_KEY: keys}), sink, row_group_size=10)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    sought = [pa.array(["k015", "k071"]), pa.array(["k0195", "k099", "x"])]
    chosen = KeyRowGroups(sought)
    assert chosen(metadata) == [1, 7, 9]
    assert chosen.file_rows(np.array([0, 9, 10, 29])).tolist() == [10, 19, 70, 99]
    none = KeyRowGroups([pa.array(["a", "z"])])
    assert none(metadata) == [] and none.file_rows(np.zeros(0, np.int64)).tolist() == []


def test_row_groups_without_statistics_are_read() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({RECORD_KEY: ["a", "b"]})
    pq.write_table(table, sink, row_group_size=1, write_statistics=False)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    assert KeyRowGroups([pa.array(["z"])])(metadata) == [0, 1]
