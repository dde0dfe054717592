"""Non-blocking concurrency control: writers of one bucket append logs and never wait or retry."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.transaction.heartbeat import living
from pyhudi.write.table_creation import NewTable
from tests.support.engines import Pausing
from tests.support.filesystems import every_stop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
MODE = "hoodie.write.concurrency.mode"
NON_BLOCKING = {
    MODE: "non_blocking_concurrency_control",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.table.services.enabled": "false",
}
FIXED = "-0000-0000-0000-000000000000-0"


def rows(ids: range, ts: int, part: str = "p") -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{i}", "ts": ts, "part": part} for i in ids], SCHEMA)


def new_table(
    kind: TableType = TableType.MERGE_ON_READ,
    *,
    index: IndexKind = IndexKind.BUCKET,
    version: int = 9,
    **options: str,
) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    parsed = parse_options({**NON_BLOCKING, "hoodie.write.table.version": str(version), **options})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parsed, index))
    return fs


def open_(fs: FileSystem, *, engine: LocalEngine | None = None, **options: str) -> Table:
    parsed = parse_options({**NON_BLOCKING, **options})
    return Table(fs, options=parsed, engine=engine or LocalEngine(1))


def met_by(fs: MemoryFileSystem, meanwhile: Callable[[], object], **options: str) -> Table:
    """A table whose next write is met by another action before it writes its files."""
    return open_(fs, engine=Pausing("write", meanwhile), **options)


def snapshot(fs: FileSystem) -> dict[str, int]:
    found = open_(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    assert not open_(fs).timeline.pending and not living(fs)
    assert not open_(fs).metadata.verify().findings
    return {row["id"]: row["ts"] for row in found}


@pytest.mark.parametrize("version", [8, 9])
def test_a_new_bucket_is_a_log_with_a_fixed_file_id(version: int) -> None:
    fs = new_table(version=version)
    report = open_(fs).upsert(rows(range(20), 1))
    open_(fs).insert(rows(range(20, 30), 1))
    slices = open_(fs).file_slices()
    assert [s.file_id for s in slices] == [f"0000000{n}{FIXED}" for n in range(2)]
    names = {name for name in fs.names("p") if ".log." in name}
    assert len(names) == 4 and not any(name.endswith(".parquet") for name in fs.names("p"))
    assert sum(f"_{report.instant}.log.1_" in name for name in names) == 2
    assert snapshot(fs) == {f"k{i}": 1 for i in range(30)}


BATCHES = {"newer": rows(range(6), 5), "older": rows(range(3, 9), 3)}
MERGED = {f"k{i}": 5 if i < 6 else 3 for i in range(9)}


@pytest.mark.conformance(30)
@pytest.mark.parametrize("compacts", [False, True], ids=["alone", "with a compaction"])
@pytest.mark.parametrize("starts_empty", [True, False])
@pytest.mark.parametrize("first", ["newer", "older"])
def test_overlapping_writers_of_one_bucket_both_commit(
    first: str, starts_empty: bool, compacts: bool
) -> None:
    fs = new_table()
    if not starts_empty:
        open_(fs).upsert(rows(range(9), 1))
    second = next(name for name in BATCHES if name != first)
    compactions: list[str] = []

    def meanwhile() -> None:
        assert len(living(fs)) == 1  # of the first writer, which is not rolled back
        assert open_(fs).upsert(BATCHES[second]).conflicts == 0
        if compacts:
            compactions.extend(open_(fs).compact().instants)

    report = met_by(fs, meanwhile).upsert(BATCHES[first])
    assert report.conflicts == 0
    assert snapshot(fs) == MERGED
    if compacts:
        assert str(report.instant) < compactions[0]
        for found in open_(fs).file_slices():  # the log completed after the compaction's request
            assert found.instant == compactions[0] and len(found.logs) == 1
    open_(fs).compact()
    assert all(not found.logs for found in open_(fs).file_slices())
    assert snapshot(fs) == MERGED


def test_a_log_that_completes_after_a_plan_is_not_merged_by_it() -> None:
    fs = new_table()
    open_(fs).upsert(rows(range(9), 1))
    met_by(fs, lambda: open_(fs).schedule_compaction()).upsert(rows(range(9), 2))
    open_(fs).compact()
    assert all(len(found.logs) == 1 for found in open_(fs).file_slices())
    assert snapshot(fs) == {f"k{i}": 2 for i in range(9)}


def test_a_late_row_stays_deleted_whichever_writer_ends_first() -> None:
    ended = []
    for first in ("delete", "put"):
        fs = new_table()
        open_(fs).upsert(rows(range(4), 1))
        batches = {
            "delete": rows(range(2), 5).append_column("_hoodie_is_deleted", pa.array([True] * 2)),
            "put": rows(range(4), 3).append_column("_hoodie_is_deleted", pa.array([False] * 4)),
        }
        open_(fs).upsert(batches["put"].slice(2))  # adds the column
        second = "put" if first == "delete" else "delete"
        met_by(fs, lambda fs=fs, rows=batches[second]: open_(fs).upsert(rows)).upsert(
            batches[first]
        )
        ended.append(snapshot(fs))
    assert ended[0] == ended[1] == {"k2": 3, "k3": 3}


def test_a_crashed_writer_is_rolled_back_by_the_next_one() -> None:
    fs = new_table()
    open_(fs).upsert(rows(range(4), 1))
    found = set()
    for stop in every_stop(fs, lambda disk: open_(disk).upsert(rows(range(6), 2)), one_in=4):
        open_(stop.fs).upsert(rows(range(6, 9), 3))
        stored = snapshot(stop.fs)
        assert {stored.pop(f"k{i}") for i in range(6, 9)} == {3}
        assert stored in ({f"k{i}": 1 for i in range(4)}, {f"k{i}": 2 for i in range(6)}), stop
        listed = {str(file.name) for s in open_(stop.fs).file_slices() for file in s.logs}
        assert {name for name in stop.fs.names("p") if ".log." in name} == listed
        found.add(len(stored))
    assert found == {4, 6}


def test_early_detection_finds_no_conflict() -> None:
    fs = new_table()
    early = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}
    met_by(fs, lambda: met_by(fs, lambda: None, **early).upsert(rows(range(9), 2))).upsert(
        rows(range(9), 1)
    )
    assert snapshot(fs) == {f"k{i}": 2 for i in range(9)}


def test_rules_that_merge_before_logging_are_checked_for_conflicts() -> None:
    payload = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    fs = new_table(**{"hoodie.datasource.write.payload.class": payload})
    open_(fs).upsert(rows(range(4), 1))
    report = met_by(fs, lambda: open_(fs).upsert(rows(range(4), 3))).upsert(rows(range(4), 2))
    assert report.conflicts == 1
    assert snapshot(fs) == {f"k{i}": 3 for i in range(4)}


def test_a_bulk_insert_is_checked_for_conflicts() -> None:
    fs = new_table()
    table = met_by(fs, lambda: open_(fs).upsert(rows(range(9), 2)))
    assert table.bulk_insert(rows(range(9), 1)).conflicts == 1
    assert snapshot(fs) == {f"k{i}": 2 for i in range(9)}
    assert {s.file_id for s in open_(fs).file_slices()} == {f"0000000{n}{FIXED}" for n in range(2)}


def test_a_bucket_that_an_optimistic_writer_creates_is_used() -> None:
    fs = new_table()
    other = open_(fs, **{MODE: "optimistic_concurrency_control"})
    report = met_by(fs, lambda: other.upsert(rows(range(9), 1))).upsert(rows(range(9), 2))
    assert report.conflicts == 1
    assert len(open_(fs).file_slices()) == 2
    assert snapshot(fs) == {f"k{i}": 2 for i in range(9)}


def test_a_partition_that_is_replaced_meanwhile_is_a_conflict() -> None:
    fs = new_table()
    open_(fs).upsert(rows(range(9), 1))
    other = open_(fs, **{MODE: "single_writer"})
    optimistic = open_(fs, **{MODE: "optimistic_concurrency_control"})
    report = met_by(fs, lambda: optimistic.delete_partitions(["p"])).upsert(rows(range(4), 2))
    assert report.conflicts == 1
    assert snapshot(fs) == {f"k{i}": 2 for i in range(4)}
    other.insert_overwrite(rows(range(2), 3))
    assert snapshot(fs) == {f"k{i}": 3 for i in range(2)}


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_overwriting_operations_are_refused(operation: str) -> None:
    fs = new_table()
    with pytest.raises(OptionError, match="replace"):
        getattr(open_(fs), operation)(rows(range(2), 3))
    assert not len(open_(fs).timeline)


@pytest.mark.parametrize(
    ("kind", "index", "version", "reason"),
    [
        (TableType.COPY_ON_WRITE, IndexKind.BUCKET, 9, "merge-on-read"),
        (TableType.MERGE_ON_READ, IndexKind.BUCKET, 6, "version"),
        (TableType.MERGE_ON_READ, IndexKind.BLOOM, 9, "bucket"),
        (TableType.MERGE_ON_READ, IndexKind.RECORD, 9, "bucket"),
    ],
)
def test_other_tables_are_refused_before_a_change(
    kind: TableType, index: IndexKind, version: int, reason: str
) -> None:
    fs = new_table(kind, index=index, version=version)
    with pytest.raises(OptionError, match=reason):
        open_(fs).upsert(rows(range(2), 3))
    assert not len(open_(fs).timeline)


def test_consistent_hashing_is_refused() -> None:
    engine = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    fs = new_table(**engine)
    with pytest.raises(OptionError, match="bucket"):
        open_(fs, **engine).upsert(rows(range(2), 3))


COMMIT_TIME = {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("starts_empty", [True, False])
def test_by_commit_time_the_writer_that_began_later_wins(starts_empty: bool, version: int) -> None:
    """Logs are merged in the order of their instants, whichever writer completes first."""
    fs = new_table(version=version, **COMMIT_TIME)
    if not starts_empty:
        open_(fs).upsert(rows(range(9), 9))
    began_later = rows(range(3, 9), 1)
    table = met_by(fs, lambda: open_(fs).upsert(began_later))
    assert table.upsert(rows(range(6), 2)).conflicts == 0
    expected = {f"k{i}": 2 if i < 3 else 1 for i in range(9)}
    assert snapshot(fs) == expected
    open_(fs).compact()
    assert all(not found.logs for found in open_(fs).file_slices())
    assert snapshot(fs) == expected


def test_by_commit_time_a_log_that_completes_after_a_compaction_wins() -> None:
    """Its records replace those of the base file; so do they in Apache Hudi."""
    fs = new_table(**COMMIT_TIME)
    open_(fs).upsert(rows(range(9), 9))

    def meanwhile() -> None:
        open_(fs).upsert(rows(range(3, 9), 1))
        open_(fs).compact()

    assert met_by(fs, meanwhile).upsert(rows(range(6), 2)).conflicts == 0
    expected = {f"k{i}": 2 if i < 6 else 1 for i in range(9)}
    assert snapshot(fs) == expected
    open_(fs).compact()
    assert snapshot(fs) == expected


def test_by_commit_time_a_delete_that_began_later_wins() -> None:
    fs = new_table(**COMMIT_TIME)
    open_(fs).upsert(rows(range(4), 9))
    table = met_by(fs, lambda: open_(fs).delete(keys=["k0", "k1"]))
    table.upsert(rows(range(1, 3), 2))
    assert snapshot(fs) == {"k2": 2, "k3": 9}
    table = met_by(fs, lambda: open_(fs).upsert(rows(range(1), 3)))
    table.delete(keys=["k0", "k3"])
    assert snapshot(fs) == {"k0": 3, "k2": 2}
    open_(fs).compact()
    assert snapshot(fs) == {"k0": 3, "k2": 2}


def changes(fs: FileSystem, since: str = "000", until: str | None = None) -> list[str]:
    """Captured changes as `op key before -> after`, in their order."""

    def ts(side: dict[str, int] | None) -> int | None:
        return side and side["ts"]

    found = open_(fs).capture(since, until).to_pylist()
    keys = [(row["after"] or row["before"])["id"] for row in found]
    pairs = zip(found, keys, strict=True)
    return [f"{r['op']} {k} {ts(r['before'])} -> {ts(r['after'])}" for r, k in pairs]


@pytest.mark.parametrize("mode", ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"])
@pytest.mark.parametrize("compacts", [False, True], ids=["alone", "with a compaction"])
@pytest.mark.parametrize("first", ["newer", "older"])
def test_changes_of_overlapping_writers_are_captured(first: str, compacts: bool, mode: str) -> None:
    """The changes lead from the first snapshot to the last one, in the order of completion."""
    capture = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }
    fs = new_table(**capture)
    start = open_(fs).upsert(rows(range(5), 1)).completed_at
    second = next(name for name in BATCHES if name != first)
    ends = []

    def meanwhile() -> None:
        ends.append(open_(fs).upsert(BATCHES[second]).completed_at)
        if compacts:
            open_(fs).compact()

    ends.append(met_by(fs, meanwhile).upsert(BATCHES[first]).completed_at)
    assert snapshot(fs) == MERGED
    assert start and all(ends)
    assert sorted(changes(fs, "000", start)) == [f"i k{i} None -> 1" for i in range(5)]
    captured = changes(fs)
    before: dict[str, int] = {}
    for line in captured:
        op, key, old, _, new = line.split()
        assert old == str(before.get(key)), line
        assert op == ("u" if key in before else "i"), line
        before[key] = int(new)
    assert before == MERGED
    parts = [("000", start), (start, ends[0]), (ends[0], ends[1])]
    assert [line for since, until in parts for line in changes(fs, since, until)] == captured
    open_(fs).compact()
    assert changes(fs) == captured
    assert snapshot(fs) == MERGED
