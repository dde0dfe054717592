"""Partitions expire by the last commit that wrote to them, or by the one that made them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError
from pyhudi.operations import ttl

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("day", pa.string())])
DAYS = "hoodie.partition.ttl.strategy.days.retain"


def rows(*pairs: tuple[str, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "ts": 1, "day": day} for i, day in pairs], SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> pyhudi.Table:
    """Partitions 1 to 3; then, as far as the timeline knows, only partition 2 is written to."""
    made = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="day", ordering="ts",
        table_type="mor", options={DAYS: "3"},
    )  # fmt: skip
    made.bulk_insert(rows(("a", "1"), ("b", "2"), ("c", "3")))
    return made


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    moment = datetime.now(UTC) + timedelta(days=days)
    monkeypatch.setattr(ttl, "system_clock", lambda: moment)


def test_partitions_end_a_number_of_days_after_their_last_commit(
    table: pyhudi.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table.expire_partitions().notes == ("no partition has expired",)
    later(monkeypatch, 3.5)
    preview = table.expire_partitions(dry_run=True)
    assert (preview.partitions, preview.instant, preview.rows) == (("1", "2", "3"), None, 3)
    assert table.scan().count() == 3
    done = table.expire_partitions()
    assert (done.partitions, done.file_groups, done.rows) == (("1", "2", "3"), 3, 3)
    assert table.scan().count() == 0 and table.partitions() == []
    assert not any(table.lookup(["a", "b", "c"])["found"].to_pylist())


def test_rows_in_logs_count_as_written(
    table: pyhudi.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base file of the partition is old, the delta commit on it is not."""
    first = table.timeline.commits.first
    assert first is not None
    table.upsert(rows(("b", "2")).set_column(1, "ts", pa.array([5])))
    newest = table.timeline.commits.last
    assert newest is not None
    limit = newest.time
    monkeypatch.setattr(ttl, "format_instant", lambda *_: limit)
    assert table.expire_partitions().partitions == ("1", "3")


@pytest.mark.parametrize(("version", "later"), [(6, 6), (8, 8), (9, 9), (6, 9)])
def test_rows_in_logs_of_archived_commits_count_as_written(
    version: int, later: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="day", ordering="ts",
        table_type="mor", version=version,
        options={DAYS: "3", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4",
                 "hoodie.clean.commits.retained": "1",
                 "hoodie.metadata.compact.max.delta.commits": "1"},
    )  # fmt: skip
    made.bulk_insert(rows(("a", "1"), ("b", "2"), ("c", "*")))
    young = made.upsert(rows(("a", "1")).set_column(1, "ts", pa.array([5]))).instant
    if later != version:
        made.upgrade(later)
    for ts in range(6, 14):
        made.upsert(rows(("b", "2")).set_column(1, "ts", pa.array([ts])))
    made.archive()
    assert young not in made.timeline.commits.times
    monkeypatch.setattr(ttl, "format_instant", lambda *_: young)
    assert made.expire_partitions().partitions == ("*",)
    assert sorted(made.scan(["id", "ts"]).to_arrow()["ts"].to_pylist()) == [5, 13]


def test_a_retention_of_any_length_keeps_every_partition(table: pyhudi.Table) -> None:
    days, hours = str(2**31 - 1), {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS",
                                   "hoodie.clean.hours.retained": str(2**31 - 1)}  # fmt: skip
    patient = pyhudi.open_table(table.path, options={DAYS: days, **hours})
    assert patient.expire_partitions().partitions == ()
    assert patient.clean().files == 0


def test_partitions_are_chosen_and_counted_as_requested(
    table: pyhudi.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch, 4)
    prefix = "hoodie.partition.ttl."
    for options, expected in (
        ({prefix + "strategy.partition.selected": "2,9"}, ("2",)),
        ({prefix + "strategy.max.delete.partitions": "2"}, ("1", "2")),
        ({prefix + "management.strategy.type": "KEEP_BY_CREATION_TIME"}, ("1", "2", "3")),
        ({DAYS: "5"}, ()),
    ):
        reopened = pyhudi.open_table(tmp_path / "t", options={DAYS: "3"} | options)
        assert reopened.expire_partitions(dry_run=True).partitions == expected, options
    for unset in ({}, {DAYS: "0"}):
        with pytest.raises(OptionError, match="retention time"):
            pyhudi.open_table(tmp_path / "t", options=unset).expire_partitions()


def test_what_a_planned_compaction_works_on_stays(
    table: pyhudi.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.upsert(rows(("c", "3")))
    planned = table.schedule_compaction()
    assert planned is not None
    later(monkeypatch, 4)
    done = table.expire_partitions()
    assert done.partitions == ("1", "2") and any("3" in note for note in done.notes)
    table.compact()
    assert table.scan().count() == 1


def test_a_write_may_expire_what_is_due(
    table: pyhudi.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch, 4)
    options = {DAYS: "3", "hoodie.partition.ttl.inline": "true"}
    report = pyhudi.open_table(tmp_path / "t", options=options).insert(rows(("d", "4")))
    assert any("expiry" in note for note in report.notes)
