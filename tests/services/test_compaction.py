"""Compaction: the same rows in base files, whatever happened before, meanwhile or half-way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError, WriteConflictError
from tests.crash.test_every_stop import SCHEMA, check_index, open_, rows, snapshot
from tests.support.filesystems import clone, every_stop

OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": "2"}


def table_with_logs(path: Path, **options: str) -> pyhudi.Table:
    """Two partitions: rows, updates in logs, a delete in a log."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        options={**OPTIONS, **options},
    )  # fmt: skip
    table.bulk_insert(rows(range(20), 1))
    table.upsert(rows(range(6), 2))
    table.delete(keys=["k3", "k19"])
    return table


def everything(table: pyhudi.Table, mode: str = "snapshot") -> list[dict[str, object]]:
    """All rows, meta columns too but for the file's name."""
    found = table.scan(mode=mode).to_arrow().drop_columns(["_hoodie_file_name"])
    return sorted(found.to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_rows_keep_their_values_and_commit_times(tmp_path: Path, log_format: str) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.logfile.data.block.format": log_format})
    before = everything(table)
    report = table.compact()
    assert (report.file_groups, report.log_files) == (2, 3)
    assert everything(table) == before == everything(table, "read_optimized")
    assert not any(s.logs for s in table.file_slices())
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert everything(unlisted) == before
    found = table.lookup(["k0", "k3", "k19"])["found"].to_pylist()
    assert found == [True, False, False]


def test_a_table_without_logs_is_left_alone(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    table.compact()
    newest = table.timeline.last
    report = table.compact()
    assert report.instants == () and report.notes == ("no file group has logs",)
    assert table.timeline.last == newest


def test_a_kept_write_is_neither_lost_nor_passed_over(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    kept = table.upsert(rows(range(3), 7), publish=False)
    for service in (table.compact, table.clean, table.schedule_compaction):
        with pytest.raises(WriteConflictError, match=str(kept.instant)):
            service()
    assert kept.instant is not None
    table.publish(kept.instant)
    before = everything(table)
    table.compact()
    assert everything(table) == before


def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    before = table.timeline
    report = table.compact(dry_run=True)
    assert (report.file_groups, report.log_files, report.dry_run) == (2, 3, True)
    assert table.timeline == before


def test_copy_on_write_tables_are_refused(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    with pytest.raises(UserError, match="no logs"):
        table.compact()


def test_logs_written_beside_a_planned_compaction_lie_on_top_of_it(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    planned = table.schedule_compaction()
    table.upsert(rows(range(4, 8), 3))
    table.delete(keys=["k10"])
    before = everything(table)
    names = {str(log.name) for s in table.file_slices() for log in s.logs}
    assert sum(planned in name for name in names) >= 2, names
    report = table.compact()
    assert report.instants == (planned,)
    assert everything(table) == before
    assert all(s.logs for s in table.file_slices()), "the later logs are still to be merged"
    table.compact()
    assert everything(table) == before == everything(table, "read_optimized")


def test_compactions_follow_the_delta_commits_when_asked_to(tmp_path: Path) -> None:
    table = table_with_logs(
        tmp_path / "t",
        **{"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"},
    )
    report = table.upsert(rows(range(2), 4))
    assert any("compaction" in note for note in report.notes) or not any(
        s.logs for s in table.file_slices()
    )


def test_a_slice_whose_rows_are_all_deleted_becomes_an_empty_file(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    table.delete(keys=[f"k{i}" for i in range(20)])
    table.compact()
    assert everything(table) == []
    table.upsert(rows(range(3), 9))
    assert len(everything(table)) == 3


def test_a_stop_anywhere_loses_nothing_and_the_next_run_ends_it() -> None:
    from pyhudi.table.config import TableType
    from tests.crash.test_every_stop import before

    start = before(TableType.MERGE_ON_READ)
    rows_then = snapshot(start)
    done = clone(start)
    open_(done).compact()
    stops = 0
    for stop in every_stop(start, lambda fs: open_(fs).compact(), after=False):
        stops += 1
        assert snapshot(stop.fs) == rows_then, str(stop)
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        want = rows_then | {"k30": 9, "k31": 9}
        assert snapshot(stop.fs) == want, str(stop)
        open_(stop.fs).compact()
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending, str(stop)
    assert stops > 10


def test_every_merge_order_survives(tmp_path: Path) -> None:
    """An older row that comes late does not win in a base file either."""
    table = table_with_logs(tmp_path / "t")
    late = pa.Table.from_pylist([{"id": "k0", "ts": 0, "part": "p0"}], SCHEMA)
    table.upsert(late)
    before = everything(table)
    table.compact()
    assert everything(table) == before
