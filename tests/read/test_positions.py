"""Positions of readers, and instants that are given instead."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import HollowCommitError, UserError
from pyhudi.options import parse_options
from pyhudi.read.positions import SnapshotInstant
from pyhudi.write.write_report import WriteReport
from tests.support.inside import fs_of
from tests.support.late_writers import OPTIMISTIC, LateWrite
from tests.support.versions import end_of, new_table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
NAMES = itertools.count()
SMALL = {
    **OPTIMISTIC,
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
}
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
COMPLETIONS = pytest.mark.parametrize("version", [8, 9])
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def rows(part: str, v: int, *ids: str) -> pa.Table:
    return pa.table([list(ids), [part] * len(ids), [v] * len(ids)], schema=SCHEMA)


def made(version: int, kind: str = "cow", **options: str) -> Table:
    url = f"memory://positions{next(NAMES)}"
    return new_table(
        url, version, SCHEMA, kind=kind, partition_by=("part",), options={**SMALL, **options}
    )


def again(table: Table, **options: str) -> Table:
    parsed = parse_options({**SMALL, **options})
    return Table(fs_of(table), options=parsed, engine=LocalEngine(1))


def late(table: Table, batch: pa.Table) -> LateWrite:
    return LateWrite(fs_of(table), lambda writer: writer.upsert(batch), SMALL)


def values(found: Any) -> dict[str, int]:
    return {row["id"]: row["v"] for row in found.to_arrow().to_pylist()}


@pytest.mark.parametrize(("version", "kind"), [(8, "mor"), (9, "cow")])
def test_a_late_commit_is_found_when_archival_has_taken_it_first(version: int, kind: str) -> None:
    table = made(version, kind)
    table.upsert(rows("x", 0, "a"))
    writer = late(table, rows("late", 1, "l"))
    for v in range(5):
        table.upsert(rows("x", v, f"b{v}"))
    position = table.position()
    assert writer.complete() is not None
    for v in range(6):
        table.upsert(rows("x", v, "c"))
        assert values(again(table).changes(position, columns=["id", "v"])) == {"l": 1, "c": v}
    assert len(table.timeline.commits) < 8, "the late commit is archived"
    found = again(table).changes(position, table.position(), columns=["id"]).to_arrow()
    assert sorted(found["id"].to_pylist()) == ["c", "l"]


@COMPLETIONS
def test_rows_of_archived_commits_do_not_come_back_behind_a_savepoint(version: int) -> None:
    table = made(version, **{"hoodie.archive.beyond.savepoint": "true"})
    table.upsert(rows("x", 0, *(f"k{n}" for n in range(20))))
    table.savepoint("keep")
    reports = [table.upsert(rows("x", 1, f"k{n}")) for n in range(14)]
    assert len(table.timeline.commits) < 8 and table.savepoints()
    assert values(table.changes(end_of(reports[-2]), columns=["id", "v"])) == {"k13": 1}
    assert values(table.changes(reports[-4].instant, columns=["id", "v"])) == {
        "k11": 1, "k12": 1, "k13": 1,
    }  # fmt: skip


def _overlapping(version: int, kind: str) -> tuple[Table, WriteReport, WriteReport]:
    """A table with a late commit, which began before another and completed after it."""
    table = made(version, kind)
    table.upsert(rows("x", 0, "a"))
    writer = late(table, rows("late", 1, "l"))
    other = table.upsert(rows("x", 1, "b"))
    report = writer.complete()
    assert report is not None and str(report.instant) < str(other.instant)
    return table, report, other


@COMPLETIONS
@KINDS
def test_an_instant_means_the_position_after_it(version: int, kind: str) -> None:
    table, report, other = _overlapping(version, kind)
    for since in (other.instant, other.completed_at):
        assert values(table.changes(since, columns=["id", "v"])) == {"l": 1}
        assert table.diff(since)["record_key"].to_pylist() == ["l"]
        assert table.diff(since, report.instant)["record_key"].to_pylist() == ["l"]
        assert values(table.scan(["id", "v"], as_of=since)) == {"a": 0, "b": 1}
    for since in (report.instant, report.completed_at):
        assert not values(table.changes(since, columns=["id", "v"]))
        assert values(table.scan(["id", "v"], as_of=since)) == {"a": 0, "b": 1, "l": 1}
    assert [row["row"]["v"] for row in table.history("l").to_pylist()] == [1]
    assert table.position() == report.completed_at


@VERSIONS
def test_a_difference_is_that_of_the_snapshots_at_its_instants(version: int) -> None:
    table = made(version, **{"hoodie.clean.automatic": "false"})
    reports = [table.upsert(rows("x", v, *ids)) for v, ids in enumerate(["ab", "bc", "cd"])]
    for first, second in itertools.permutations(reports, 2):
        before, after = (values(table.scan(["id", "v"], as_of=r.instant)) for r in (first, second))
        found = table.diff(first.instant, second.instant).to_pylist()
        changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        assert {row["record_key"] for row in found} == changed


@VERSIONS
@KINDS
def test_a_pipeline_that_starts_again_during_a_pending_write_misses_nothing(
    version: int, kind: str
) -> None:
    table = made(version, kind)
    assert table.position() == "00000000000000"
    assert again(table).scan(as_of=table.position()).count() == 0
    table.upsert(rows("x", 0, "a"))
    writer = late(table, rows("late", 1, "l"))
    table.upsert(rows("x", 1, "b"))
    position = table.position()
    found = values(table.scan(["id", "v"], as_of=position))
    writer.complete()
    table.upsert(rows("x", 2, "c"))
    found |= values(again(table).changes(position, table.position(), columns=["id", "v"]))
    assert found == {"a": 0, "b": 1, "l": 1, "c": 2}


def test_the_first_write_of_a_table_is_not_missed() -> None:
    """At version 6 the position is before the pending write, which is the oldest of all."""
    table = made(6)
    writer = late(table, rows("late", 1, "l"))
    table.upsert(rows("x", 1, "b"))
    position = table.position()
    assert table.scan(as_of=position).count() == 0
    with pytest.raises(HollowCommitError):
        table.changes(position).to_arrow()
    writer.complete()
    assert values(again(table).changes(position, columns=["id", "v"])) == {"l": 1, "b": 1}


@VERSIONS
@KINDS
def test_a_pin_is_the_same_snapshot_for_ever(version: int, kind: str) -> None:
    table = made(version, kind)
    table.upsert(rows("late", 0, "l0"))
    writer = late(table, rows("late2", 9, "l1"))
    table.upsert(rows("x", 1, "b"))
    expected = {"l0": 0, "b": 1}
    with table.pin_snapshot() as pin:
        planned = table.scan(["id", "v"], as_of=pin.instant)
        for as_of in (pin.instant, pin.name, pickle.loads(pickle.dumps(pin.instant))):
            assert values(table.scan(["id", "v"], as_of=as_of)) == expected
        assert writer.complete() is not None
        for v in range(6):
            table.upsert(rows("x", v, f"c{v}"))
        for as_of in (pin.instant, pin.name, pickle.loads(pickle.dumps(pin.instant))):
            assert values(again(table).scan(["id", "v"], as_of=as_of)) == expected
        assert values(planned) == expected
        with again(table).pin_snapshot(pin.name) as other:
            assert values(table.scan(["id", "v"], as_of=other.instant)) == expected
    with pytest.raises(UserError, match="not pinned any more"):
        table.scan(as_of=pin.name).to_arrow()


def test_the_instant_of_a_snapshot_is_text() -> None:
    instant = SnapshotInstant("20260101000000000")
    assert instant == "20260101000000000" and f"{instant}" == "20260101000000000"


@COMPLETIONS
def test_a_restore_does_not_pass_a_late_commit_that_is_archived(version: int) -> None:
    table = made(version)
    table.upsert(rows("x", 0, "a"))
    writer = late(table, rows("late", 1, "l"))
    target = table.upsert(rows("x", 1, "b"))
    table.savepoint("here", instant=target.instant)
    report = writer.complete()
    assert report is not None
    options = {"hoodie.archive.beyond.savepoint": "true"}
    for v in range(12):
        again(table, **options).upsert(rows("x", v, "c"))
    assert report.instant in table.archived_timeline.times
    with pytest.raises(UserError, match="archived and cannot be undone"):
        table.restore(target.instant)


@VERSIONS
def test_captured_changes_do_not_come_back_behind_a_savepoint(version: int) -> None:
    table = made(version, **{"hoodie.table.cdc.enabled": "true"})
    first = table.upsert(rows("x", 0, "a"))
    table.savepoint("keep")
    table.upsert(rows("x", 1, "b"))
    found = table.capture(end_of(first)).to_pylist()
    assert [row["after"]["id"] for row in found] == ["b"]
