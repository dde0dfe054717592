"""Clustering: the same rows in fewer files, laid out so that readers skip more of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, UnsupportedTableError, UserError, WriteConflictError
from pyhudi.options import parse_options
from pyhudi.planning.clustering import chosen_partitions
from pyhudi.services import clustering
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import REPLACEMENTS, Action, State
from pyhudi.timeline.plans.clustering import ClusteringPlan
from tests.crash.test_every_stop import OPTIONS, before, check_index, open_, rows, snapshot
from tests.support.engines import FarEngine
from tests.support.examples import stops
from tests.support.filesystems import every_stop
from tests.support.golden import golden_table
from tests.support.inside import fs_of, state_of

T = TypeVar("T")
R = TypeVar("R")
SMALL = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.bloom.index.filter.dynamic.max.entries": "50",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.index.column.stats.enable": "true",
}
SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("x", pa.int32()), ("y", pa.float64()),
     ("name", pa.string()), ("flag", pa.bool_()), ("day", pa.date32()), ("part", pa.string())]
)  # fmt: skip


def batch(number: int, count: int, *, nulls: bool = False) -> pa.Table:
    rng = np.random.default_rng(number)
    x = rng.integers(0, 10_000, count)
    mask = rng.random(count) < 0.1 if nulls else None
    return pa.table(
        [
            pa.array([f"k{number}-{i}" for i in range(count)]),
            pa.array(np.full(count, number)),
            pa.array(x, pa.int32(), mask=mask),
            pa.array(rng.random(count), mask=mask),
            pa.array([f"n{v}" for v in rng.integers(0, 900, count)], mask=mask),
            pa.array(rng.random(count) < 0.5, mask=mask),
            pa.array(rng.integers(0, 20_000, count), pa.int32()).cast(pa.date32()),
            pa.array([f"p{i % 2}" for i in range(count)]),
        ],
        schema=SCHEMA,
    )


def table_of_small_files(path: Path, kind: str, *, nulls: bool = False, **more: Any) -> Table:
    """Two partitions of several file groups each; on merge-on-read some have logs."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        options=SMALL | more,
    )  # fmt: skip
    for number in range(3):
        table.insert(batch(number, 600, nulls=nulls))
    table.upsert(batch(1, 40, nulls=nulls).set_column(1, "ts", pa.array([9] * 40)))
    table.delete(keys=["k0-0", "k2-5"])
    return table


def everything(table: Table) -> list[str]:
    """All rows, meta columns too but for the file's name."""
    found = table.scan().to_arrow().drop_columns(["_hoodie_file_name"])
    return sorted(map(str, found.to_pylist()))


def files_read(table: Table, where: pc.Expression) -> int:
    return len(table.scan(where=where).to_arrow()["_hoodie_file_name"].unique())


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_stay_as_they_are_and_the_index_follows_them(tmp_path: Path, kind: str) -> None:
    table = table_of_small_files(tmp_path / "t", kind)
    want = everything(table)
    plan = table.cluster("x", dry_run=True)
    assert (plan.dry_run, plan.partitions, plan.file_groups, plan.new_file_groups) == (
        True,
        2,
        6,
        2,
    )
    report = table.cluster("x")
    assert (report.file_groups, report.new_file_groups, report.rows) == (6, 2, 1798)
    assert everything(table) == want
    assert len(table.file_slices()) == 2 and not any(s.logs for s in table.file_slices())
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert everything(unlisted) == want
    found = table.scan(["id", "_hoodie_partition_path", "_hoodie_file_name"]).to_arrow()
    places = table.lookup(found["id"])
    assert places["found"].to_pylist() == [True] * len(found)
    names = zip(found["_hoodie_file_name"].to_pylist(), places["file_id"].to_pylist(), strict=True)
    assert all(name.startswith(file_id) for name, file_id in names)
    assert table.lookup(["k0-0", "nobody"])["found"].to_pylist() == [False, False]
    changed = table.upsert(batch(2, 30).set_column(1, "ts", pa.array([11] * 30)))
    assert (changed.updated, changed.inserted) == (29, 1)


@pytest.mark.parametrize("layout", ["linear", "zorder", "hilbert"])
def test_laid_out_rows_are_skipped_by_more_than_their_partition(
    tmp_path: Path, layout: str
) -> None:
    """Small windows of either column touch few of the files that a curve laid out, by the process
    that planned it or by another."""
    small = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "6000"}
    table = table_of_small_files(tmp_path / "t", "cow", **small)
    want = everything(table)
    windows = (pc.field("x") < 500, pc.field("y") < 0.05)
    rows_then = [table.scan(where=w).to_arrow().num_rows for w in windows]
    if layout == "zorder":
        assert table.schedule_clustering(["x", "y"], layout=layout)
        report = pyhudi.open_table(tmp_path / "t", options=small).cluster()
    else:
        report = table.cluster(["x", "y"], layout=layout)
    assert report.new_file_groups >= 12 and everything(table) == want
    assert [table.scan(where=w).to_arrow().num_rows for w in windows] == rows_then
    by_x, by_y = (files_read(table, w) / report.new_file_groups for w in windows)
    assert by_x <= (0.25 if layout == "linear" else 0.6), by_x
    assert by_y <= (1.0 if layout == "linear" else 0.6), by_y
    if layout != "linear":
        skipped = str(table.scan(where=windows[1]).explain())
        assert "by the column statistics" in skipped


def test_rows_of_every_sortable_type_and_nulls_are_laid_out(tmp_path: Path) -> None:
    table = table_of_small_files(
        tmp_path / "t", "mor", nulls=True,
        **{"hoodie.clustering.plan.strategy.target.file.max.bytes": "20000"},
    )  # fmt: skip
    want = everything(table)
    for columns in (["name", "flag"], ["flag", "day", "name", "x"]):
        for layout in ("linear", "hilbert"):
            table.cluster(columns, layout=layout)
            assert everything(table) == want


def test_without_sort_columns_small_files_become_few(tmp_path: Path) -> None:
    """A slice may be cut where one file ends and the next begins."""
    sizes = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "30000"}
    table = table_of_small_files(tmp_path / "t", "cow", **sizes)
    want = everything(table)
    report = table.cluster()
    assert report.file_groups == 6 and report.sort_by == ()
    assert everything(table) == want
    counts = [pq.ParquetFile(tmp_path / "t" / s.base.path).metadata.num_rows
              for s in table.file_slices() if s.base]  # fmt: skip
    assert max(counts) - min(counts) <= 0.2 * max(counts), counts
    lone = pyhudi.open_table(tmp_path / "t", options=SMALL)
    lone.cluster()
    again = lone.cluster()
    assert again.instants == () and again.notes == ("no file group to rewrite",)


def test_large_groups_are_sorted_range_by_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "_RANGE_BYTES", 4000)
    table = table_of_small_files(tmp_path / "t", "cow")
    want = everything(table)
    assert table.cluster("name").new_file_groups == 2
    assert everything(table) == want
    for file_slice in table.file_slices():
        assert file_slice.base is not None
        names = pq.read_table(tmp_path / "t" / file_slice.base.path, columns=["name"])["name"]
        assert names.to_pylist() == sorted(names.to_pylist())


def test_tasks_may_run_twice_and_elsewhere(tmp_path: Path) -> None:
    table_of_small_files(tmp_path / "t", "mor")
    sizes = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "20000"}
    table = pyhudi.open_table(tmp_path / "t", options=SMALL | sizes, engine=FarEngine())
    want = everything(table)
    report = table.cluster(["x", "name"], layout="hilbert")
    assert report.new_file_groups > 2 and everything(table) == want
    listed = {s.base.path for s in table.file_slices() if s.base}
    stored = {str(p.relative_to(tmp_path / "t")) for p in (tmp_path / "t").glob("p*/*.parquet")
              if report.instants[0] in p.name}  # fmt: skip
    assert stored == listed, "files of attempts that were lost are gone"


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({"plan.strategy.partition.selected": "a/2,a/9"}, ["a/2"]),
        ({"plan.strategy.partition.regex.pattern": "b/.*"}, ["b/1", "b/2"]),
        ({"plan.partition.filter.mode": "RECENT_DAYS"}, ["b/1", "b/2"]),
        (
            {
                "plan.partition.filter.mode": "RECENT_DAYS",
                "plan.strategy.daybased.lookback.partitions": "1",
                "plan.strategy.daybased.skipfromlatest.partitions": "2",
            },
            ["a/2"],
        ),
        (
            {
                "plan.partition.filter.mode": "SELECTED_PARTITIONS",
                "plan.strategy.cluster.begin.partition": "a/2",
                "plan.strategy.cluster.end.partition": "b/1",
            },
            ["a/2", "b/1"],
        ),
        ({"plan.partition.filter.mode": "DAY_ROLLING"}, ["b/1"]),
    ],
)
def test_partitions_are_chosen_as_requested(options: dict[str, str], partitions: list[str]) -> None:
    parsed = parse_options({f"hoodie.clustering.{name}": text for name, text in options.items()})
    listed = ["a/1", "a/2", "b/1", "b/2"]
    assert chosen_partitions(listed, parsed.services.clustering.partitions, hour=2) == partitions


def test_groups_are_bounded_in_bytes_and_number(tmp_path: Path) -> None:
    table = table_of_small_files(tmp_path / "t", "cow")
    size = max(s.base.size_bytes for s in table.file_slices() if s.base)
    prefix = "hoodie.clustering.plan.strategy."
    for options, groups, new in (
        ({prefix + "max.bytes.per.group": str(size)}, 6, 6),
        ({prefix + "max.bytes.per.group": str(2 * size)}, 6, 4),
        ({prefix + "max.num.groups": "1"}, 3, 1),
        ({prefix + "small.file.limit": "100"}, 0, 0),
        ({prefix + "class": "SparkSingleFileSortPlanStrategy"}, 6, 6),
    ):
        reopened = pyhudi.open_table(tmp_path / "t", options=SMALL | options)
        plan = reopened.cluster("x", dry_run=True)
        assert (plan.file_groups, plan.new_file_groups) == (groups, new), options


def test_a_plan_of_an_unknown_execution_strategy_is_left_to_its_program(tmp_path: Path) -> None:
    table = table_of_small_files(tmp_path / "t", "cow")
    want, newest = everything(table), table.timeline.last
    instant = table.schedule_clustering("x")
    log = state_of(table).log
    planned = next(i for i in table.timeline if i.time == instant)
    plan = replace(log.plan(planned, ClusteringPlan.from_record), execution="org.example.Sorting")
    fs_of(table).replace(log.path(planned), plan.to_avro(root=str(tmp_path / "t")))
    with pytest.raises(UnsupportedTableError, match="execution strategy"):
        pyhudi.open_table(tmp_path / "t").cluster()
    assert table.timeline.last == planned and everything(table) == want and newest != planned


def test_what_cannot_be_is_refused_before_anything_changes(tmp_path: Path) -> None:
    table = table_of_small_files(tmp_path / "t", "cow")
    newest = table.timeline.last
    with pytest.raises(OptionError, match="no such column"):
        table.cluster("nobody")
    with pytest.raises(UserError, match="unknown layout"):
        table.cluster("x", layout="spiral")
    for verb in (table.cluster, table.schedule_clustering):
        with pytest.raises(UserError, match="no such partition"):
            verb("x", partitions=["nowhere", ""])
    by_option = {"hoodie.clustering.plan.strategy.partition.selected": "nowhere"}
    reopened = pyhudi.open_table(tmp_path / "t", options=by_option)
    assert reopened.cluster("x").notes == (
        "no such partition: nowhere",
        "no file group to rewrite",
    )
    assert table.timeline.last == newest
    buckets = pyhudi.create_table(
        tmp_path / "b", SCHEMA, record_key="id", index="bucket", table_type="cow"
    )
    with pytest.raises(UserError, match="bucket"):
        buckets.cluster("x")


ALLOWS = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}
DROPS = ALLOWS | {"hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}
REJECTS = {"hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}


def an_update() -> pa.Table:
    return batch(0, 3).slice(1).set_column(1, "ts", pa.array([20, 20]))


@pytest.mark.parametrize("options", [{}, REJECTS], ids=["", "rollback.on.conflict"])
def test_a_planned_clustering_takes_no_updates(tmp_path: Path, options: dict[str, str]) -> None:
    table_of_small_files(tmp_path / "t", "cow")
    table = pyhudi.open_table(tmp_path / "t", options=SMALL | options)
    planned = table.schedule_clustering("x")
    with pytest.raises(WriteConflictError, match=str(planned)):
        table.upsert(an_update())
    assert table.schedule_clustering("x") is None, "all groups are claimed"
    table.insert(batch(7, 10))
    report = table.cluster()
    assert report.instants == (planned,) and report.sort_by == ("x",)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_updates_that_are_allowed_leave_the_plan_to_whoever_carries_it_out(
    tmp_path: Path, kind: str
) -> None:
    table = table_of_small_files(tmp_path / "t", kind)
    planned = table.schedule_clustering("x")
    lenient = pyhudi.open_table(tmp_path / "t", options=SMALL | ALLOWS)
    done = lenient.upsert(an_update())
    assert done.updated == 2 and not done.notes
    pending = table.timeline.where(REPLACEMENTS, State.REQUESTED)
    assert [instant.time for instant in pending] == [planned]
    with pytest.raises(WriteConflictError, match=str(planned)):
        lenient.delete_partitions("p0")
    report = table.cluster()
    assert not report.instants and report.dropped == (planned,)
    assert not table.timeline.pending
    found = table.scan(["ts"], where=pc.field("ts") == 20).to_arrow()
    assert found.num_rows == 2


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_write_rolls_a_planned_clustering_back_where_requested(tmp_path: Path, kind: str) -> None:
    table = table_of_small_files(tmp_path / "t", kind)
    planned = table.schedule_clustering("y")
    lenient = pyhudi.open_table(tmp_path / "t", options=SMALL | DROPS)
    done = lenient.upsert(an_update())
    assert done.updated == 2 and any(str(planned) in note for note in done.notes), done.notes
    assert not table.timeline.where({Action.REPLACE_COMMIT}, State.REQUESTED, State.INFLIGHT)
    lenient.schedule_clustering("x")
    lenient.delete_partitions("p0")
    assert not table.timeline.pending


@pytest.mark.parametrize("version", ["6", "9"])
def test_clusterings_follow_the_commits_on_request(tmp_path: Path, version: str) -> None:
    table = table_of_small_files(tmp_path / "t", "mor", **{"hoodie.write.table.version": version})
    options = SMALL | {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.clustering.plan.strategy.sort.columns": "x",
    }
    inline = pyhudi.open_table(tmp_path / "t", options=options)
    noted = [
        any("clustering" in n for n in inline.insert(batch(20 + n, 20)).notes) for n in range(4)
    ]
    assert noted == [True, False, True, False]
    assert table.scan().count() == 1798 + 80


def test_apache_hudis_plan_is_carried_out() -> None:
    fs = golden_table("cow_clustering_pending")
    table = Table(fs, options=parse_options({}), engine=LocalEngine(1))
    want = everything(table)
    pending = table.timeline.where({Action.REPLACE_COMMIT}, State.REQUESTED).last
    assert pending is not None
    report = table.cluster()
    assert report.instants == (pending.time,) and report.sort_by == ("qty", "name")
    assert everything(table) == want


def sweep(
    kind: TableType, version: int | None = None, *, thoroughly: bool, one_in: int = 1
) -> None:
    """Die at each step of a clustering; whoever comes next reads, writes, and ends it."""
    start = before(kind, version)
    rows_then = snapshot(start)
    tried = 0
    for stop in every_stop(
        start, lambda fs: open_(fs).cluster("ts"), after=thoroughly, one_in=one_in
    ):
        tried += 1
        assert snapshot(stop.fs) == rows_then, str(stop)
        want = rows_then
        if thoroughly:
            check_index(stop.fs, want)
            open_(stop.fs).insert(rows(range(30, 32), 9))
            want = rows_then | {"k30": 9, "k31": 9}
            assert snapshot(stop.fs) == want, str(stop)
        open_(stop.fs).cluster()
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending, str(stop)
        if thoroughly:
            open_(stop.fs).upsert(rows(range(3), 10))
            assert snapshot(stop.fs) == want | {"k0": 10, "k1": 10, "k2": 10}, str(stop)
    assert tried > 20 // one_in


@stops(8)
@pytest.mark.parametrize("version", [6, 9])
def test_a_stop_anywhere_loses_nothing_and_the_next_run_ends_it(version: int, one_in: int) -> None:
    sweep(TableType.MERGE_ON_READ, version, thoroughly=False, one_in=one_in)


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_whoever_writes_after_a_stop_builds_on_whole_rows(kind: TableType, version: int) -> None:
    sweep(kind, version, thoroughly=True)


class Meanwhile(LocalEngine):
    """Does something else once, in the midst of a clustering."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._act: Callable[[], object] | None = act

    def run(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        if label == "cluster" and self._act is not None:
            act, self._act = self._act, None
            act()
        return super().run(task, items, label=label)


def test_others_write_during_a_clustering_but_not_into_its_groups(tmp_path: Path) -> None:
    table_of_small_files(tmp_path / "t", "mor")
    lenient = pyhudi.open_table(tmp_path / "t", options=SMALL | DROPS)
    update = batch(0, 3).slice(1).set_column(1, "ts", pa.array([20, 20]))

    def act() -> None:
        lenient.insert(batch(8, 50))
        with pytest.raises(WriteConflictError, match="running clustering"):
            lenient.upsert(update)
        assert lenient.cluster().notes == ("another process runs the pending clusterings",)

    table = pyhudi.open_table(tmp_path / "t", options=SMALL, engine=Meanwhile(act))
    report = table.cluster("x")
    assert report.file_groups == 6 and table.scan().count() == 1798 + 50
    assert lenient.upsert(update).updated == 2
    assert not table.timeline.pending
    keys = ["k8-3", "k0-1", "k2-7"]
    assert table.lookup(keys)["found"].to_pylist() == [True] * 3


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("mode", ["single_writer", "optimistic_concurrency_control"])
def test_a_clustering_finds_the_update_that_came_while_it_ran(
    tmp_path: Path, kind: str, mode: str
) -> None:
    table_of_small_files(tmp_path / "t", kind)
    optimistic = SMALL | ALLOWS | {"hoodie.write.concurrency.mode": mode}
    lenient = pyhudi.open_table(tmp_path / "t", options=optimistic)
    engine = Meanwhile(lambda: lenient.upsert(an_update()))
    table = pyhudi.open_table(tmp_path / "t", options=SMALL, engine=engine)
    with pytest.raises(WriteConflictError, match="the same file groups"):
        table.cluster("x")
    assert table.scan(["ts"], where=pc.field("ts") == 20).to_arrow().num_rows == 2
    assert len(table.cluster().dropped) == 1
    assert table.cluster("x").file_groups == 6
    assert table.scan(["ts"], where=pc.field("ts") == 20).to_arrow().num_rows == 2
    assert table.scan().count() == 1798


@pytest.mark.slow
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_stop_while_a_write_drops_a_plan_leaves_the_old_rows_or_the_new(kind: TableType) -> None:
    start = before(kind)
    open_(start).schedule_clustering("ts")
    old = snapshot(start)
    new = old | {"k0": 7, "k1": 7, "k2": 7}
    lenient = parse_options(OPTIONS | DROPS)

    def write(fs: FileSystem) -> None:
        Table(fs, options=lenient, engine=LocalEngine(1)).upsert(rows(range(3), 7))

    for stop in every_stop(start, write):
        assert snapshot(stop.fs) in (old, new), str(stop)
        write(stop.fs)
        assert snapshot(stop.fs) == new, str(stop)
        open_(stop.fs).cluster("ts")
        assert snapshot(stop.fs) == new, str(stop)
        check_index(stop.fs, new)
        assert not open_(stop.fs).timeline.pending, str(stop)
