"""Writers beside each other: what goes together, what is planned again, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SchemaError, UserError, WriteConflictError
from pyhudi.operations.commit import pause_seconds
from pyhudi.operations.create import create
from pyhudi.options import Concurrency, IndexKind, parse_options
from pyhudi.records import InstantTime
from pyhudi.recovery.newest_commit import roll_back_newest
from pyhudi.services.compaction import pending_compactions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.conflicts import WriteSet, find_conflict
from pyhudi.transaction.heartbeat import living
from pyhudi.write.input.stream_idempotency import StreamBatch
from pyhudi.write.table_creation import NewTable
from tests.support.engines import Pausing
from tests.support.inside import state_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
VERSION = "hoodie.write.table.version"
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
}


def rows(ids: range, ts: int, part: str | None = None) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": part or f"p{i % 2}"} for i in ids], SCHEMA
    )


def new_table(kind: TableType = TableType.COPY_ON_WRITE, **options: str) -> FileSystem:
    fs = MemoryFileSystem()
    parsed = parse_options({**OPTIMISTIC, **options})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parsed))
    open_(fs).bulk_insert(rows(range(8), 1))
    return fs


def open_(fs: FileSystem, *, engine: LocalEngine | None = None, **options: str) -> Table:
    parsed = parse_options({**OPTIMISTIC, **options})
    return Table(fs, options=parsed, engine=engine or LocalEngine(1))


def optimistic(
    fs: FileSystem, meanwhile: Callable[[Table], object], *, step: str = "write", **options: str
) -> Table:
    """A table whose next write is met by another one, half-way."""
    return open_(fs, engine=Pausing(step, lambda: meanwhile(open_(fs))), **options)


def snapshot(fs: FileSystem) -> dict[str, int]:
    found = open_(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    assert not open_(fs).timeline.pending and not living(fs)
    keys = [f"k{i}" for i in range(40)]
    stored = {row["id"]: row["ts"] for row in found}
    assert open_(fs).lookup(keys)["found"].to_pylist() == [key in stored for key in keys]
    return stored


@pytest.mark.conformance(29)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_writers_to_different_groups_both_succeed(kind: TableType, version: int) -> None:
    fs = new_table(kind, **{VERSION: str(version)})
    report = optimistic(fs, lambda t: t.upsert(rows(range(1, 8, 2), 2))).upsert(
        rows(range(0, 8, 2), 3)
    )
    assert report.conflicts == 0
    assert snapshot(fs) == {f"k{i}": 3 - i % 2 for i in range(8)}


@pytest.mark.conformance(29)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_an_overtaken_write_is_planned_again(kind: TableType, version: int) -> None:
    fs = new_table(kind, **{VERSION: str(version)})
    report = optimistic(fs, lambda t: t.upsert(rows(range(4), 2))).upsert(rows(range(2, 6), 3))
    assert report.conflicts == 1 and any("planned again" in note for note in report.notes)
    assert snapshot(fs) == {f"k{i}": ts for i, ts in enumerate([2, 2, 3, 3, 3, 3, 1, 1])}


def test_without_retries_the_error_names_the_other_instant_and_the_groups() -> None:
    fs = new_table()
    other: list[str] = []
    table = optimistic(
        fs,
        lambda t: other.append(str(t.upsert(rows(range(4), 2)).instant)),
        **{"hoodie.write.num.retries.on.conflict.failures": "0"},
    )
    with pytest.raises(WriteConflictError) as refused:
        table.upsert(rows(range(2, 6), 3))
    assert refused.value.facts["instant"] == other[0]
    groups = {f"{s.partition}/{s.file_id}" for s in open_(fs).file_slices()}
    assert set(str(refused.value.facts["file_groups"]).split(", ")) == groups
    assert snapshot(fs) == {f"k{i}": 2 if i < 4 else 1 for i in range(8)}


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "simple", "bucket"])
def test_a_key_that_two_writers_insert_is_there_once(kind: TableType, index: str) -> None:
    options = {} if index == "record" else {"hoodie.index.type": index.upper()}
    if index == "bucket":
        options["hoodie.bucket.index.num.buckets"] = "3"
    fs = MemoryFileSystem()
    parsed = parse_options({**OPTIMISTIC, **options})
    small = {"hoodie.parquet.small.file.limit": "0"}  # each writer a file group of its own
    kind_of = NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parsed)
    create(fs, replace(kind_of, index=parsed.write.index or kind_of.index))
    table = optimistic(fs, lambda t: t.upsert(rows(range(6), 2)), **options, **small)
    report = table.upsert(rows(range(4, 9), 3))
    assert report.conflicts == 1
    found = open_(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    assert sorted((r["id"], r["ts"]) for r in found) == [
        (f"k{i}", 2 if i < 4 else 3) for i in range(9)
    ]


def test_inserts_of_different_keys_need_not_wait_for_each_other() -> None:
    fs = new_table(**{"hoodie.parquet.small.file.limit": "0"})
    small = {"hoodie.parquet.small.file.limit": "0"}
    table = optimistic(fs, lambda t: t.upsert(rows(range(20, 24), 2)), **small)
    other = open_(fs, **small)
    table._engine = Pausing("write", lambda: other.upsert(rows(range(20, 24), 2)))
    assert table.upsert(rows(range(30, 34), 3)).conflicts == 0
    assert len(snapshot(fs)) == 16


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda t: t.delete_partitions("p0"),
        lambda t: t.insert_overwrite(rows(range(0, 2, 2), 2)),
        lambda t: t.insert_overwrite_table(rows(range(0, 2, 2), 2)),
    ],
)
def test_a_partition_taken_out_meanwhile_is_noticed(meanwhile: Callable[[Table], object]) -> None:
    fs = new_table(**{"hoodie.parquet.small.file.limit": "0"})
    table = optimistic(fs, meanwhile, **{"hoodie.parquet.small.file.limit": "0"})
    assert table.upsert(rows(range(20, 22), 3)).conflicts == 1
    assert snapshot(fs)["k20"] == 3


def test_an_overwrite_takes_out_rows_that_came_meanwhile() -> None:
    small = {"hoodie.parquet.small.file.limit": "0"}
    fs = new_table()
    other = open_(fs, **small)
    table = open_(fs, engine=Pausing("write", lambda: other.insert(rows(range(20, 21), 2))))
    assert table.insert_overwrite(rows(range(0, 2, 2), 3)).conflicts == 1
    assert snapshot(fs) == {"k0": 3, "k1": 1, "k3": 1, "k5": 1, "k7": 1}


@pytest.mark.parametrize("version", [6, 9])
def test_logs_are_rewritten_if_a_compaction_was_planned_meanwhile(version: int) -> None:
    """But not in version 9, where the completion time of a log decides to which slice it belongs:
    a log that completes after the plan is no part of it."""
    fs = new_table(TableType.MERGE_ON_READ, **{VERSION: str(version)})
    open_(fs).upsert(rows(range(8), 2))
    report = optimistic(fs, lambda t: t.schedule_compaction()).upsert(rows(range(4), 3))
    assert report.conflicts == (1 if version == 6 else 0)
    assert open_(fs).compact().file_groups == 2
    assert snapshot(fs) == {f"k{i}": 3 if i < 4 else 2 for i in range(8)}


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_does_not_commit_to_groups_whose_clustering_was_planned_meanwhile(
    version: int,
) -> None:
    fs = new_table(**{VERSION: str(version)})
    planned: list[str | None] = []
    table = optimistic(fs, lambda t: planned.append(t.schedule_clustering("id")))
    with pytest.raises(WriteConflictError, match="pending clustering") as refused:
        table.upsert(rows(range(4), 3))
    assert refused.value.facts["instant"] == planned[0]
    assert open_(fs).cluster("id").instants == (planned[0],)
    assert snapshot(fs) == {f"k{i}": 1 for i in range(8)}


def test_a_compaction_runs_concurrently_with_a_writer() -> None:
    fs = new_table(TableType.MERGE_ON_READ)
    open_(fs).upsert(rows(range(8), 2))
    report = optimistic(fs, lambda t: t.upsert(rows(range(4), 3)), step="compact").compact()
    assert report.file_groups == 2
    assert snapshot(fs) == {f"k{i}": 3 if i < 4 else 2 for i in range(8)}
    assert open_(fs).compact().log_files == 2


def test_a_compaction_that_another_process_runs_is_left_to_it() -> None:
    fs = new_table(TableType.MERGE_ON_READ)
    open_(fs).upsert(rows(range(8), 2))
    notes: list[tuple[str, ...]] = []
    optimistic(fs, lambda t: notes.append(t.compact().notes), step="compact").compact()
    assert notes == [("another process runs it",)]


def test_columns_that_two_writers_add_are_all_there() -> None:
    fs = new_table()

    def wider(name: str, part: int) -> pa.Table:
        table = rows(range(part, 8, 2), 2)
        return table.append_column(name, pa.array([7] * len(table)))

    with pytest.raises(SchemaError, match="missing in the batch"):
        optimistic(fs, lambda t: t.upsert(wider("a", 0), schema_mode="widen")).upsert(
            wider("b", 1), schema_mode="widen"
        )
    fill = {"hoodie.write.set.null.for.missing.columns": "true"}

    def add(table: Table) -> None:
        open_(fs, **fill).upsert(wider("c", 0), schema_mode="widen")

    assert optimistic(fs, add, **fill).upsert(wider("b", 1), schema_mode="widen").conflicts == 1
    assert {"a", "b", "c"} <= set(open_(fs).schema.names)


def test_a_rollback_of_what_a_write_was_planned_on_is_noticed() -> None:
    fs = new_table()
    newest = open_(fs).upsert(rows(range(8), 2)).instant

    def undo(table: Table) -> None:
        state = state_of(table)
        assert newest is not None
        roll_back_newest(fs, state.config, state.log, newest, engine=LocalEngine(1))  # type: ignore[arg-type]

    with pytest.raises(UserError, match="pending"):
        optimistic(fs, undo).upsert(rows(range(8), 3))


def test_the_last_attempt_holds_the_lock_from_its_beginning() -> None:
    fs = new_table()
    stored: list[bool] = []

    class Rude(LocalEngine):
        """Another writer gets in whenever the lock is free."""

        def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
            if label == "write":
                stored.append(TableLock(fs).is_held)
                if not stored[-1]:
                    open_(fs).upsert(rows(range(8), 5))
            return super().run(task, items, label=label)

    options = {"hoodie.write.num.retries.on.conflict.failures": "2"}
    report = open_(fs, engine=Rude(1), **options).upsert(rows(range(8), 9))
    assert report.conflicts == 2 and stored == [False, False, True]
    assert set(snapshot(fs).values()) == {9}


def test_early_detection_finds_a_conflict_before_files_are_written() -> None:
    fs = new_table()
    early = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}
    seen: list[int] = []

    class Counting(Pausing):
        def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
            seen.append(label == "write")
            return super().run(task, items, label=label)

    engine = Counting("tag", lambda: open_(fs).upsert(rows(range(4), 2)))
    report = open_(fs, engine=engine, **early).upsert(rows(range(2, 6), 3))
    assert report.conflicts == 1 and sum(seen) == 1


def test_rows_of_a_stream_are_read_once_however_often_a_write_is_planned() -> None:
    fs = new_table()
    batches = iter(rows(range(2, 6), 3).to_batches())
    stream = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    assert optimistic(fs, lambda t: t.upsert(rows(range(4), 2))).upsert(stream).conflicts == 1
    assert snapshot(fs)["k2"] == 3


def test_pauses_grow_and_are_of_chance_length() -> None:
    rules = Concurrency(retry_seconds=0.1, retry_seconds_max=0.4)
    for conflicts, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (9, 0.4)):
        waits = {pause_seconds(rules, conflicts) for _ in range(50)}
        assert len(waits) > 40 and min(waits) >= 0 and max(waits) <= longest


@pytest.mark.parametrize("version", [6, 9])
def test_logs_on_top_of_a_plan_that_is_withdrawn_are_rewritten(version: int) -> None:
    """In version 9 no log names the plan, so it stays what it is."""
    fs = new_table(TableType.MERGE_ON_READ, **{VERSION: str(version)})
    open_(fs).upsert(rows(range(8), 2))
    open_(fs).schedule_compaction()

    def withdraw(table: Table) -> None:
        state = state_of(table)
        (plan,) = pending_compactions(state.timeline)
        state.log.forget(plan)

    conflicts = optimistic(fs, withdraw).upsert(rows(range(4), 3)).conflicts
    assert conflicts == (1 if version == 6 else 0)
    assert snapshot(fs) == {f"k{i}": 3 if i < 4 else 2 for i in range(8)}


def test_a_pending_write_that_was_archived_meanwhile_is_no_friend() -> None:
    """What it committed can no longer be asked for."""
    commit = [Instant(InstantTime(str(n)), Action.COMMIT, State.COMPLETED) for n in range(10, 30)]
    other = Instant(InstantTime("12"), Action.COMMIT, State.INFLIGHT)
    mine = Instant(InstantTime("25"), Action.COMMIT, State.INFLIGHT)
    before = Timeline.of([*commit[:2], other, mine])
    log = TimelineLog(MemoryFileSystem())
    now = Timeline.of([mine])
    found = find_conflict(log, before=before, now=now, mine=mine, touched=WriteSet(frozenset()))
    assert found is not None and found.instant == other


def test_a_planned_compaction_passes_over_groups_that_were_replaced() -> None:
    fs = new_table(TableType.MERGE_ON_READ)
    open_(fs).upsert(rows(range(8), 2))
    open_(fs).schedule_compaction()
    open_(fs).insert_overwrite(rows(range(0, 8, 2), 3))
    assert open_(fs).compact().file_groups == 1
    assert snapshot(fs) == {f"k{i}": 3 - i % 2 for i in range(8)}


@pytest.mark.parametrize("index", [IndexKind.RECORD, IndexKind.BLOOM, IndexKind.BUCKET])
def test_a_key_to_delete_that_is_inserted_meanwhile_is_deleted(index: IndexKind) -> None:
    """With a bucket index the key may be in a bucket that did not exist."""
    fs, kind = MemoryFileSystem(), TableType.COPY_ON_WRITE
    parsed = parse_options({**OPTIMISTIC, "hoodie.bucket.index.num.buckets": "1"})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parsed, index))
    open_(fs).upsert(rows(range(2), 1, "p0"))
    table = optimistic(fs, lambda t: t.upsert(rows(range(21, 22), 2, "p1")))
    report = table.delete(keys=["k21", "k0"])
    assert report.conflicts == 1 and report.missing_keys == 0
    assert open_(fs).scan(["id"]).to_arrow().to_pydict() == {"id": ["k1"]}


def test_a_batch_of_a_stream_is_written_once_though_two_writers_have_it() -> None:
    fs = new_table(**{"hoodie.parquet.small.file.limit": "0"})
    small = {"hoodie.parquet.small.file.limit": "0", **StreamBatch("s", 7).metadata}
    twin = open_(fs, **small)
    table = open_(fs, engine=Pausing("write", lambda: twin.insert(rows(range(20, 22), 2))), **small)
    report = table.insert(rows(range(20, 22), 2))
    assert report.instant is None and report.conflicts == 1
    assert len(snapshot(fs)) == 10


def commit_without_lock(fs: FileSystem, *, schema: str = "", partition: str = "p0") -> None:
    """What a writer that ignores the table's lock leaves: a commit of one new file group."""
    log, config = timeline_log(fs, load_config(fs)), load_config(fs)
    merges = config.is_merge_on_read
    mine = log.start(log.request(Action.DELTA_COMMIT if merges else Action.COMMIT))
    path = f"{partition}/{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-0_{mine.time}.parquet"
    stat = WriteStat(partition, path[3:41], path, None, 1, 0, 0, 1, 100, 100)
    extra = {"schema": schema or log.commit(log.load().commits.first).extra["schema"]}
    log.complete(mine, CommitMetadata((stat,), operation="INSERT", extra=extra).to_json())


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("what", ["columns", "keys"])
def test_a_write_under_the_lock_notices_what_a_writer_without_it_has_done(
    kind: TableType, what: str
) -> None:
    options = {"hoodie.write.concurrency.mode": "single_writer", "hoodie.index.type": "SIMPLE"}
    fs = MemoryFileSystem()
    parsed = parse_options({**OPTIMISTIC, **options})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), parsed, IndexKind.SIMPLE))
    open_(fs, **options).bulk_insert(rows(range(8), 1))
    schema = '{"type":"record","name":"r","fields":[{"name":"other","type":"string"}]}'
    given = {"schema": schema, "partition": "p9"} if what == "columns" else {}
    engine = Pausing("write", lambda: commit_without_lock(fs, **given))
    with pytest.raises(WriteConflictError, match="columns" if what == "columns" else "same keys"):
        open_(fs, engine=engine, **options).upsert(rows(range(20, 22), 3))
    assert [i.state for i in open_(fs).timeline if not i.is_completed] == []
