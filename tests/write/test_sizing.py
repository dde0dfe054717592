"""How large files become: what a record takes, which files take inserts, where logs are cut."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError
from pyhudi.filenames import LogFileName
from pyhudi.operations.create import create
from pyhudi.options import WriteOptions, parse_options
from pyhudi.read.table_snapshot import load_state
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableType
from pyhudi.write.plan_steps import record_bytes
from pyhudi.write.table_creation import NewTable
from tests.support.inside import fs_of, state_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
BASE = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
}
MAX, SMALL = 40_000, 32_000


def rows(ids: range, ts: int = 1, parts: str = "a") -> pa.Table:
    r = random.Random(ids.start)
    return pa.Table.from_pylist(
        [{"id": f"{r.random()}-{i}", "ts": ts, "part": r.choice(parts)} for i in ids], SCHEMA
    )


def table_of(kind: TableType = TableType.COPY_ON_WRITE, **options: str) -> Table:
    fs = MemoryFileSystem()
    parsed = parse_options(BASE | options)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parsed))
    return Table(fs, options=parsed, engine=LocalEngine(1))


def sized(**more: str) -> dict[str, str]:
    limits = {
        "hoodie.parquet.max.file.size": str(MAX),
        "hoodie.parquet.small.file.limit": str(SMALL),
    }
    return limits | more


def base_sizes(table: Table) -> list[int]:
    return sorted(s.base.size_bytes for s in table.file_slices() if s.base)


@pytest.mark.parametrize(
    ("kind", "verb", "batches"),
    [
        (TableType.COPY_ON_WRITE, "insert", 40),
        (TableType.MERGE_ON_READ, "upsert", 40),
        pytest.param(TableType.COPY_ON_WRITE, "upsert", 200, marks=pytest.mark.slow),
        pytest.param(TableType.MERGE_ON_READ, "insert", 200, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_many_small_batches_end_in_well_sized_files(
    kind: TableType, verb: str, batches: int
) -> None:
    table = table_of(kind, **sized())
    each = 10_000 // batches
    for number in range(batches):
        getattr(table, verb)(rows(range(number * each, number * each + each), parts="ab"))
    assert table.scan().count() == 10_000
    for part in "ab":
        sizes = sorted(s.base.size_bytes for s in table.file_slices(part) if s.base)
        assert len(sizes) > 3
        assert all(size >= SMALL for size in sizes[1:])  # the smallest is being filled
        assert all(size < 1.25 * MAX for size in sizes)


def test_updates_with_inserts_keep_files_sized_on_copy_on_write() -> None:
    table = table_of(**sized())
    for number in range(20):
        fresh = rows(range(number * 150, number * 150 + 150), ts=number)
        known = rows(range(50), ts=number)
        table.upsert(pa.concat_tables([fresh, known]) if number else fresh)
    sizes = base_sizes(table)
    assert all(size >= SMALL for size in sizes[1:]) and sizes[-1] < 1.25 * MAX


def test_a_bulk_insert_begins_new_files_of_full_size() -> None:
    table = table_of(**sized())
    table.bulk_insert(rows(range(5000)))
    sizes = base_sizes(table)
    assert len(sizes) > 2 and sizes[0] > MAX // 2 and sizes[-1] < 1.5 * MAX


def test_a_stated_number_of_rows_splits_inserts() -> None:
    table = table_of(**{"hoodie.copyonwrite.insert.split.size": "30"})
    table.insert(rows(range(100)))
    assert len(table.file_slices()) == 4


def test_the_size_of_a_record_is_learned_from_a_commit_that_wrote_enough() -> None:
    table = table_of(**{"hoodie.parquet.small.file.limit": "8000"})
    report = table.bulk_insert(rows(range(1000)))
    tiny = table.upsert(rows(range(2000, 2001)))
    assert tiny.bytes_written < 8000  # mostly footer: it tells nothing
    state = load_state(fs_of(table), table._options.read)
    learned = record_bytes(state, table._options.write, [])
    assert learned == -(-report.bytes_written // 1000)


def test_the_size_of_a_record_is_learned_from_a_commit_of_large_files() -> None:
    table = table_of(**{"hoodie.parquet.small.file.limit": str(100 << 20)})
    texts = [random.Random(n).randbytes(2500).hex() for n in range(2000)]
    report = table.bulk_insert(
        rows(range(2000)).append_column("text", pa.array(texts)), schema_mode="widen"
    )
    assert report.bytes_written > 4 << 20
    state = load_state(fs_of(table), table._options.read)
    assert record_bytes(state, table._options.write, []) == -(-report.bytes_written // 2000)
    stated = parse_options({"hoodie.copyonwrite.record.size.estimate": "77"})
    assert record_bytes(state, stated.write, []) == 77


def test_without_such_a_commit_or_rows_the_stated_guess_counts() -> None:
    state = load_state(fs_of(table_of()), parse_options(None).read)
    assert record_bytes(state, WriteOptions(), []) == 1024


def logs(table: Table) -> list[FileSlice]:
    return [s for s in table.file_slices() if s.logs]


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_a_log_that_grows_too_large_goes_on_in_the_next_version(log_format: str) -> None:
    table = table_of(
        TableType.MERGE_ON_READ,
        **{
            "hoodie.logfile.max.size": "20kb",
            "hoodie.logfile.data.block.max.size": "8kb",
            "hoodie.logfile.data.block.format": log_format,
        },
    )
    first = rows(range(3000))
    table.bulk_insert(first)
    report = table.upsert(rows(range(3000), ts=2))
    assert (report.updated, report.inserted) == (3000, 0)
    (file_slice,) = logs(table)
    versions = [log.name.version for log in file_slice.logs if isinstance(log.name, LogFileName)]
    assert versions == list(range(1, len(versions) + 1)) and len(versions) > 3
    assert all(log.size_bytes <= 20 << 10 for log in file_slice.logs)
    assert set(table.scan(["ts"]).to_arrow()["ts"].to_pylist()) == {2}
    written = state_of(table).log.commit(table.timeline.commits.instants[-1])
    assert [s.log_version for s in written.stats] == versions
    assert sum(s.update_count for s in written.stats) == 3000
    table.delete(keys=first["id"][:10])
    assert table.scan().count() == 2990


def test_inserts_join_no_group_with_logs_on_merge_on_read() -> None:
    """A base file beside logs would hide them."""
    table = table_of(TableType.MERGE_ON_READ, **sized())
    table.insert(rows(range(100)))
    table.upsert(rows(range(100), ts=2))
    group = logs(table)[0].group
    table.insert(rows(range(200, 210)))
    assert len(table.file_slices()) == 2
    assert [s.group for s in logs(table)] == [group]
    assert table.scan().count() == 110


def test_a_limit_of_no_size_is_refused() -> None:
    with pytest.raises(OptionError, match=r"hoodie\.logfile\.max\.size"):
        parse_options({"hoodie.logfile.max.size": "0"})
