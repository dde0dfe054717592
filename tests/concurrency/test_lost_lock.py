"""A writer that stood still for longer than its lease touches nothing that is another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    LockError,
    PyhudiError,
    SnapshotExpiredError,
    TableNotFoundError,
    WriteConflictError,
)
from pyhudi.filenames import METADATA_TABLE, PROPERTIES_BACKUP, PROPERTIES_COPY
from pyhudi.layouts.known import LAYOUTS
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.recovery.rollback import roll_back_service
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.storage.memory import MemoryStore
from pyhudi.table.properties import TableType
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action, State
from pyhudi.transaction.heartbeat import remove_heartbeat
from pyhudi.write.table_creation import NewTable
from tests.support.inside import fs_of, state_of
from tests.support.leases import Call, LeasedFileSystem, Process

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
MODES = ("single_writer", "optimistic_concurrency_control")
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


def row(key: str, value: int) -> pa.Table:
    return pa.table({"id": [key], "v": [value]}, schema=SCHEMA)


def open_(store: MemoryStore, process: Process, mode: str = "single_writer") -> Table:
    options = parse_options({**OPTIONS, "hoodie.write.concurrency.mode": mode})
    return Table(LeasedFileSystem(store, process, "t"), options=options, engine=LocalEngine(1))


def stored(store: MemoryStore) -> dict[str, int]:
    table = open_(store, Process("reader"))
    found = table.scan(["id", "v"]).to_arrow().to_pylist()
    assert len({r["id"] for r in found}) == len(found)
    rows_found = {r["id"]: r["v"] for r in found}
    keys = ["0", "a", "b", "c"]
    assert table.lookup(keys)["found"].to_pylist() == [key in rows_found for key in keys]
    return rows_found


NewStore = Callable[[TableType], MemoryStore]


@pytest.fixture(params=[6, 9])
def new_table(request: pytest.FixtureRequest) -> NewStore:
    """Makes a table with one row, of either timeline layout."""
    options = parse_options({**OPTIONS, "hoodie.write.table.version": str(request.param)})

    def made(kind: TableType) -> MemoryStore:
        store = MemoryStore()
        fs = LeasedFileSystem(store, Process("creator"), "t")
        create(fs, NewTable(SCHEMA, "t", kind, ("id",), (), (), options))
        open_(store, Process("creator")).upsert(row("0", 0))
        return store

    return made


TIMELINES = {f"t/{layout.timeline_folder}" for layout in LAYOUTS.values()}
METADATA_TIMELINES = {f"t/{METADATA_TABLE}/{layout.timeline_folder}" for layout in LAYOUTS.values()}


def right_before_publishing(act: Callable[[], None]) -> Callable[[str], None]:
    """Do something once, when the last file before a write's commit point has been created."""
    mine: list[str] = []

    def created(path: str) -> None:
        folder, _, name = path.rpartition("/")
        times, _, state = name.partition(".")
        if folder in TIMELINES and state in ("commit.requested", "deltacommit.requested"):
            mine[:] = [times]
        elif (
            folder in METADATA_TIMELINES and state == "deltacommit" and times.split("_")[0] in mine
        ):
            mine.clear()
            act()

    return created


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("mode", MODES)
def test_who_has_lost_the_lock_does_not_roll_back_the_next_holders_write(
    kind: TableType, mode: str, new_table: NewStore
) -> None:
    store = new_table(kind)
    one, other = Process("one"), Process("other")
    one.after = right_before_publishing(one.stop)
    other.after = right_before_publishing(other.pause)
    first = Call(lambda: open_(store, one, mode).insert(row("a", 1)))
    one.wait_for_stop()
    second = Call(lambda: open_(store, other).insert(row("b", 2)))
    other.wait_for_stop()
    one.resume()
    first.join(0.2)
    other.resume()
    assert isinstance(first.ended().error, LockError)
    assert second.ended().error is None
    assert stored(store) == {"0": 0, "b": 2}
    open_(store, Process("next")).upsert(row("c", 3))
    assert stored(store) == {"0": 0, "b": 2, "c": 3}
    assert not open_(store, Process("reader")).timeline.pending


WRITES: dict[str, Callable[[Table], object]] = {
    "insert": lambda table: table.insert(row("a", 1)),
    "insert_overwrite_table": lambda table: table.insert_overwrite_table(row("a", 1)),
    "delete": lambda table: table.delete(keys=["0"]),
}


def publishes(path: str) -> bool:
    """Whether a path is that of a completed write of the table."""
    folder, _, name = path.rpartition("/")
    action = name.partition(".")[2]
    return folder in TIMELINES and action in ("commit", "deltacommit", "replacecommit")


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("write", WRITES)
def test_a_commit_published_after_its_rollback_is_never_visible(
    kind: TableType, mode: str, write: str, new_table: NewStore
) -> None:
    store = new_table(kind)
    one, late = Process("one"), []
    one.before = lambda path: one.stop() if publishes(path) else None
    first = Call(lambda: WRITES[write](open_(store, one, mode)))
    one.wait_for_stop()  # the lock is confirmed, the request is on its way
    open_(store, Process("other")).upsert(row("b", 2))
    one.after = lambda path: (late.append(path), one.stop()) if publishes(path) else None
    one.before = lambda path: None
    one.resume()
    one.wait_for_stop()  # the request has been carried out, and not been answered yet
    assert late[0] in store.files
    assert stored(store) == {"0": 0, "b": 2}
    changed = open_(store, Process("reader")).changes("000").to_arrow()
    assert sorted(changed["id"].to_pylist()) == ["0", "b"]
    open_(store, Process("next")).upsert(row("c", 3))
    assert late[0] not in store.files
    one.resume()
    assert isinstance(first.ended().error, LockError)
    assert stored(store) == {"0": 0, "b": 2, "c": 3}
    assert not open_(store, Process("reader")).timeline.pending


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_outlived_its_lease_counts_if_no_writer_came_between(
    mode: str, new_table: NewStore
) -> None:
    store = new_table(TableType.COPY_ON_WRITE)
    one = Process("one")
    one.after = lambda path: one.stop() if publishes(path) else None
    first = Call(lambda: open_(store, one, mode).insert(row("a", 1)))
    one.wait_for_stop()
    open_(store, Process("other")).upsert(row("b", 2))
    one.after = lambda path: None
    one.resume()
    assert first.ended().error is None
    assert stored(store) == {"0": 0, "a": 1, "b": 2}


def completes_metadata(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder in METADATA_TIMELINES and name.endswith(".deltacommit")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "is_step",
    [lambda path: "/.hoodie/metadata/files/" in path, completes_metadata],
    ids=["log", "completion"],
)
def test_who_has_lost_the_lock_changes_nothing_by_the_metadata_table(
    is_step: Callable[[str], bool], mode: str, new_table: NewStore
) -> None:
    store = new_table(TableType.COPY_ON_WRITE)
    one, other = Process("one"), Process("other")
    one.before = lambda path: one.stop() if is_step(path) else None
    first = Call(lambda: open_(store, one, mode).insert(row("a", 1)))
    one.wait_for_stop()  # about to write to the metadata table
    open_(store, other).upsert(row("b", 2))
    one.before = lambda path: None
    one.resume()
    assert isinstance(first.ended().error, LockError)
    assert stored(store) == {"0": 0, "b": 2}
    table = open_(store, Process("next"))
    table.upsert(row("c", 3))
    assert stored(store) == {"0": 0, "b": 2, "c": 3}
    assert not table.metadata.verify().problems


@pytest.mark.parametrize("step", ["compaction.requested", "compaction.inflight", "commit"])
def test_who_has_lost_the_lock_compacts_the_metadata_table_without_rows_of_others_no_more(
    step: str, new_table: NewStore
) -> None:
    """It has read the timeline before the other writer's commit, which its compaction lacks."""
    store = new_table(TableType.COPY_ON_WRITE)
    open_(store, Process("writer")).upsert(row("a", 1))
    due = parse_options({**OPTIONS, "hoodie.metadata.compact.max.delta.commits": "1"})

    def is_step(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return folder in METADATA_TIMELINES and name.partition(".")[2] == step

    one = Process("one")
    one.before = lambda path: one.stop() if is_step(path) else None
    table = Table(LeasedFileSystem(store, one, "t"), options=due, engine=LocalEngine(1))
    first = Call(lambda: table.upsert(row("b", 1)))
    one.wait_for_stop()
    open_(store, Process("other")).upsert(row("c", 2))
    one.before = lambda path: None
    one.resume()  # its request arrives, as it had begun
    assert isinstance(first.ended().error, LockError | WriteConflictError)
    assert stored(store) == {"0": 0, "a": 1, "c": 2}
    after = open_(store, Process("next"))
    after.upsert(row("d", 3))
    assert stored(store) == {"0": 0, "a": 1, "c": 2, "d": 3}
    assert after.metadata.verify().is_healthy


def test_a_process_that_stood_still_for_a_lease_changes_no_file_of_the_table(
    new_table: NewStore,
) -> None:
    store = new_table(TableType.COPY_ON_WRITE)
    one = Process("one")
    fs = LeasedFileSystem(store, one, "t")

    def act() -> list[type[Exception]]:
        met = []
        with TableLock(fs):
            fs.create("p/kept", b"1")
            one.stop()
            for root, path in ((fs, "p/kept"), (fs.sub("p"), "kept")):
                for change in (
                    lambda root=root: root.create("p/new", b""),
                    lambda root=root, path=path: root.replace(path, b"2"),
                    lambda root=root, path=path: root.delete([path]),
                ):
                    try:
                        change()
                    except LockError as error:
                        met.append(type(error))
        return met

    call = Call(act)
    one.wait_for_stop()
    with TableLock(LeasedFileSystem(store, Process("other"), "t")):
        one.resume()
        assert call.ended().result == [LockError] * 6
    assert fs.read("p/kept") == b"1"


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_writer_that_ends_gives_way_to_the_rollback_of_one_that_lost_the_lock(
    kind: TableType, new_table: NewStore
) -> None:
    """Both update one key, and neither begins after the other has stopped."""
    store = new_table(kind)
    one, other = Process("one"), Process("other")

    def begun(path: str) -> None:
        if path.endswith("inflight"):
            other.after = lambda path: None
            other.pause()

    other.after = begun
    second = Call(lambda: open_(store, other, MODES[1]).upsert(row("0", 2)))
    other.wait_for_stop()
    one.before = lambda path: one.stop() if publishes(path) else None
    first = Call(lambda: open_(store, one, MODES[1]).upsert(row("0", 1)))
    one.wait_for_stop()
    other.resume()
    assert second.ended().error is None
    one.before = lambda path: None
    one.resume()
    first.ended()
    assert stored(store) == {"0": 2 if first.error else 1}
    if first.error is None:  # then it was written on top of the other one
        assert getattr(first.result, "conflicts", 0) == 1
    assert not open_(store, Process("reader")).timeline.pending


SERVICES: dict[str, tuple[TableType, Callable[[Table], object]]] = {
    "compaction": (TableType.MERGE_ON_READ, lambda table: table.compact()),
    "clustering": (TableType.COPY_ON_WRITE, lambda table: table.cluster()),
}


def due_for(service: str, new_table: NewStore) -> tuple[MemoryStore, Callable[[Table], object]]:
    """A table with the rows {"0": 2, "a": 1}, and the call of a service that it is due for."""
    kind, run = SERVICES[service]
    store = new_table(kind)
    writer = open_(store, Process("writer"))
    writer.bulk_insert(row("a", 1))
    writer.upsert(row("0", 2))
    return store, run


def expire_heartbeats(store: MemoryStore) -> None:
    """What the age of its file does to the heartbeat of a process on another machine."""
    for path in [path for path in store.files if path.startswith("t/.hoodie/.heartbeat/")]:
        del store.files[path]


@pytest.mark.parametrize("service", SERVICES)
def test_a_plan_carried_out_again_is_complete_by_its_own_attempt_alone(
    service: str, new_table: NewStore
) -> None:
    """The request that completes the first attempt arrives while the second one runs."""
    store, run = due_for(service, new_table)
    rows = {"0": 2, "a": 1}
    one, other, late = Process("one"), Process("other"), []
    one.before = lambda path: one.stop() if publishes(path) else None
    first = Call(lambda: run(open_(store, one)))
    one.wait_for_stop()
    expire_heartbeats(store)
    other.before = lambda path: other.pause() if publishes(path) else None
    second = Call(lambda: run(open_(store, other)))
    other.wait_for_stop()  # the files of the first attempt are gone, those of the second there
    one.before = lambda path: None
    one.after = lambda path: (late.append(path), one.stop()) if publishes(path) else None
    one.resume()
    one.wait_for_stop()
    assert late[0] in store.files
    assert stored(store) == rows
    assert len(open_(store, Process("reader")).timeline.pending) == 1
    other.before = lambda path: None
    other.resume()
    assert second.ended().error is None
    assert stored(store) == rows
    log = state_of(open_(store, Process("reader"))).log
    (mark,) = [m for i in log.load().commits if (m := log.commit(i).extra.get("pyhudi.attempt"))]
    assert mark in log.load().where({Action.ROLLBACK}).times
    one.resume()
    assert isinstance(first.ended().error, LockError)
    assert stored(store) == rows
    table = open_(store, Process("next"))
    table.upsert(row("c", 3))
    assert stored(store) == {**rows, "c": 3}
    assert not table.timeline.pending and not table.doctor().findings
    assert not [path for path in store.files if ".pyhudi.attempt." in path]


@pytest.mark.parametrize("service", SERVICES)
def test_an_attempt_that_arrives_after_the_next_one_has_completed_is_never_visible(
    service: str, new_table: NewStore
) -> None:
    """Where names contain completion times, its file has a name of its own."""
    store, run = due_for(service, new_table)
    one, late = Process("one"), []
    one.before = lambda path: one.stop() if publishes(path) else None
    first = Call(lambda: run(open_(store, one)))
    one.wait_for_stop()
    expire_heartbeats(store)
    run(open_(store, Process("other")))
    completed = open_(store, Process("reader")).timeline.commits.instants
    one.before = lambda path: None
    one.after = lambda path: (late.append(path), one.stop()) if publishes(path) else None
    one.resume()
    one.wait_for_stop()
    assert open_(store, Process("reader")).timeline.commits.instants == completed
    assert stored(store) == {"0": 2, "a": 1}
    table = open_(store, Process("next"))
    table.upsert(row("c", 3))
    names = [path for path in store.files if publishes(path)]
    assert len(names) == len({path.rpartition("/")[2].split("_")[0] for path in names})
    one.resume()
    assert isinstance(first.ended().error, LockError)
    assert stored(store) == {"0": 2, "a": 1, "c": 3}
    assert not table.timeline.pending and not table.doctor().findings


@pytest.mark.parametrize("service", SERVICES)
def test_files_of_an_attempt_that_appear_after_the_next_one_has_completed_give_no_row_twice(
    service: str, new_table: NewStore
) -> None:
    """Where the store is listed: the metadata table does not list them."""
    store, run = due_for(service, new_table)
    before = set(store.files)
    one = Process("one")
    one.before = lambda path: one.stop() if publishes(path) else None
    Call(lambda: run(open_(store, one)))
    one.wait_for_stop()
    early = {
        path: data
        for path, data in store.files.items()
        if path not in before and path.endswith(".parquet") and "/.hoodie/" not in path
    }
    expire_heartbeats(store)
    run(open_(store, Process("other")))
    assert early and not early.keys() & store.files.keys()
    store.files.update(early)
    listed = parse_options({**OPTIONS, "hoodie.metadata.enable": "false"})
    fs = LeasedFileSystem(store, Process("reader"), "t")
    found = Table(fs, options=listed, engine=LocalEngine(1)).scan(["id", "v"]).to_arrow()
    assert sorted(found.to_pylist(), key=lambda r: r["id"]) == [
        {"id": "0", "v": 2},
        {"id": "a", "v": 1},
    ]
    assert stored(store) == {"0": 2, "a": 1}


def late_attempt(service: str, new_table: NewStore) -> tuple[MemoryStore, str]:
    """A table whose plan was completed late by its first attempt, while the second one, which died
    since, ran; and the path of that commit."""
    store, run = due_for(service, new_table)
    late: list[str] = []
    one, other = Process("one"), Process("other")
    one.before = lambda path: one.stop() if publishes(path) else None
    Call(lambda: run(open_(store, one)))
    one.wait_for_stop()
    expire_heartbeats(store)
    other.before = lambda path: other.stop() if publishes(path) else None
    Call(lambda: run(open_(store, other)))
    other.wait_for_stop()
    one.before = lambda path: None
    one.after = lambda path: (late.append(path), one.stop()) if publishes(path) else None
    one.resume()
    one.wait_for_stop()
    expire_heartbeats(store)
    return store, late[0]


@pytest.mark.parametrize("service", SERVICES)
def test_a_late_attempt_is_removed_by_the_next_writer(service: str, new_table: NewStore) -> None:
    store, late = late_attempt(service, new_table)
    content = store.files[late]
    assert stored(store) == {"0": 2, "a": 1}
    table = open_(store, Process("next"))
    table.upsert(row("c", 3))
    assert late not in store.files
    SERVICES[service][1](table)
    assert store.files.get(late) != content
    assert stored(store) == {"0": 2, "a": 1, "c": 3}
    assert not table.timeline.pending and not table.doctor().findings


def test_an_attempt_of_a_writer_that_announces_none_counts(new_table: NewStore) -> None:
    """Apache Hudi rolls the plan back, too, before it runs it."""
    store, _ = late_attempt("compaction", new_table)
    table = open_(store, Process("next"))
    table.upsert(row("c", 3))
    log, (pending,) = state_of(table).log, table.timeline.pending
    fs, config = fs_of(table), table.config
    roll_back_service(fs, config, log, pending, engine=LocalEngine(1))
    requested = replace(pending, state=State.REQUESTED)
    content = log.encode(CommitMetadata((), operation="COMPACT"))
    log.complete(log.start(requested), content)
    read = open_(store, Process("reader"))
    assert requested.time in read.timeline.commits.times
    assert not read.timeline.pending


@pytest.mark.parametrize(
    "found",
    [None, CorruptFileError, IndexNotReadyError, SnapshotExpiredError, TableNotFoundError],
)
def test_what_others_changed_after_the_lock_was_lost_is_an_error_of_the_lock(
    found: type[PyhudiError] | None,
) -> None:
    store, one = MemoryStore(), Process("one")

    def read_late() -> None:
        fs = LeasedFileSystem(store, one, "t")
        with TableLock(fs):
            one.stop()
            if found:
                raise found("the next holder dropped an index that was to be read")
            fs.read("removed by the next holder")

    first = Call(read_late)
    one.wait_for_stop()
    with TableLock(LeasedFileSystem(store, Process("other"), "t")):
        one.resume()
        error = first.ended().error
    assert isinstance(error, LockError) and "was lost" in str(error)


def test_a_file_that_is_missing_under_the_lock_is_reported_as_such() -> None:
    fs = LeasedFileSystem(MemoryStore(), Process("one"), "t")
    with pytest.raises(FileMissingError), TableLock(fs):
        fs.read("never there")


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_write_that_was_rolled_back_before_it_was_inflight_is_planned_again(
    kind: TableType, new_table: NewStore
) -> None:
    store, one = new_table(kind), Process("one")
    one.before = lambda path: one.stop() if is_inflight(path) else None
    first = Call(lambda: open_(store, one, MODES[1]).insert(row("a", 1)))
    one.wait_for_stop()
    (pending,) = open_(store, Process("reader")).timeline.pending
    remove_heartbeat(LeasedFileSystem(store, Process("time"), "t"), pending.time)
    open_(store, Process("other")).clean()
    assert not open_(store, Process("reader")).timeline.pending
    one.before = lambda path: None
    one.resume()
    assert first.ended().error is None
    assert first.result.conflicts == 1  # type: ignore[attr-defined]
    open_(store, Process("next")).upsert(row("c", 3))
    assert stored(store) == {"0": 0, "a": 1, "c": 3}


def is_inflight(path: str) -> bool:
    """Whether a path is that of an inflight write of the table."""
    return path.rpartition("/")[0] in TIMELINES and path.endswith(".inflight")


def test_who_has_lost_the_lock_does_not_swap_in_a_metadata_table_that_it_has_rebuilt(
    new_table: NewStore,
) -> None:
    store, one = new_table(TableType.COPY_ON_WRITE), Process("one")
    one.before = lambda path: one.stop() if path.endswith(".rebuilt_metadata/complete") else None
    first = Call(lambda: open_(store, one).metadata.rebuild())
    one.wait_for_stop()
    open_(store, Process("other")).upsert(row("b", 2))
    one.resume()
    assert isinstance(first.ended().error, LockError)
    assert open_(store, Process("reader")).metadata.verify().is_healthy
    open_(store, Process("next")).upsert(row("c", 3))
    assert stored(store) == {"0": 0, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("stop", "created"), [(PROPERTIES_BACKUP, "bloom_filters"), (PROPERTIES_COPY, "column_stats")]
)
def test_who_has_lost_the_lock_neither_replaces_the_properties_nor_deletes_an_index(
    new_table: NewStore, stop: str, created: str
) -> None:
    """It stops before it lists an index no more, or before it deletes the index's folder."""
    store, one = new_table(TableType.COPY_ON_WRITE), Process("one")
    open_(store, Process("other")).index.create("column_stats")
    one.before = lambda path: one.stop() if path.endswith(stop) else None
    first = Call(lambda: open_(store, one).index.drop("column_stats"))
    one.wait_for_stop()
    before = open_(store, Process("other")).config.metadata_partitions
    open_(store, Process("other")).upsert(row("b", 2))
    open_(store, Process("other")).index.create(created)
    one.resume()
    assert isinstance(first.ended().error, LockError)
    table = open_(store, Process("next"))
    assert table.config.metadata_partitions == before | {created}
    assert table.metadata.verify().is_healthy
    table.upsert(row("c", 3))
    assert stored(store) == {"0": 0, "b": 2, "c": 3}
