"""Write, audit, publish: a deferred write is complete, not visible, and survives other writers."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, UserError, WriteConflictError
from pyhudi.operations.create import create
from pyhudi.options import Options, parse_options
from pyhudi.recovery.newest_commit import roll_back_newest
from pyhudi.recovery.rollback import failed_writes
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action
from pyhudi.write.table_creation import NewTable
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop, tree

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
}


def rows(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids], SCHEMA
    )


def options() -> Options:
    return parse_options(OPTIONS)


def open_(fs: FileSystem) -> Table:
    return Table(fs, options=options(), engine=LocalEngine(1))


KINDS = {
    "cow": (TableType.COPY_ON_WRITE, 6),
    "mor": (TableType.MERGE_ON_READ, 6),
    "mor-9": (TableType.MERGE_ON_READ, 9),
}


@pytest.fixture(params=KINDS)
def fs(request: pytest.FixtureRequest) -> MemoryFileSystem:
    kind, version = KINDS[request.param]
    defined = parse_options({**OPTIONS, "hoodie.write.table.version": str(version)})
    fs = MemoryFileSystem()
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), defined))
    open_(fs).bulk_insert(rows(range(8), 1))
    return fs


def stored(fs: FileSystem) -> dict[str, int]:
    found = open_(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["ts"] for row in found}


def check_index(fs: FileSystem, want: dict[str, int]) -> None:
    keys = [f"k{i}" for i in range(40)]
    assert open_(fs).lookup(keys)["found"].to_pylist() == [key in want for key in keys]


WRITES: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(rows(range(4, 12), 2), publish=False),
    "insert": lambda table: table.insert(rows(range(20, 24), 2), publish=False),
    "bulk_insert": lambda table: table.bulk_insert(rows(range(20, 24), 2), publish=False),
    "delete": lambda table: table.delete(keys=["k1", "k2"], publish=False),
    "insert_overwrite": lambda t: t.insert_overwrite(rows(range(0, 4, 2), 2), publish=False),
    "insert_overwrite_table": lambda t: t.insert_overwrite_table(rows(range(2), 2), publish=False),
    "delete_partitions": lambda table: table.delete_partitions("p0", publish=False),
}


def deferred_at(fs: FileSystem) -> str:
    (instant,) = open_(fs).unpublished()
    return instant


@pytest.mark.parametrize("write", WRITES)
def test_a_deferred_write_is_seen_when_it_is_published(fs: MemoryFileSystem, write: str) -> None:
    before, known = stored(fs), clone(fs)
    report = WRITES[write](open_(fs))
    assert isinstance(report, type(open_(known).upsert(rows(range(1), 9), dry_run=True)))
    assert not report.published and report.instant == deferred_at(fs)
    assert stored(fs) == before
    check_index(fs, before)
    preview = open_(fs).preview(report.instant, ["id", "ts"]).to_arrow().to_pylist()
    done = open_(fs).publish(report.instant)
    assert done.published
    before = {"published": False, "completed_at": None}
    assert {**done.to_dict(), **before} == report.to_dict()
    after = stored(fs)
    assert after != before
    assert after == {row["id"]: row["ts"] for row in preview}
    check_index(fs, after)
    assert not open_(fs).unpublished() and not open_(fs).timeline.pending
    assert not [i for i in fs.children(".hoodie/.temp") if i.name == report.instant]
    open_(fs).upsert(rows(range(30, 32), 3))
    assert stored(fs) == after | {"k30": 3, "k31": 3}
    check_index(fs, stored(fs))


@pytest.mark.parametrize("write", WRITES)
def test_a_discarded_write_leaves_the_table_as_it_was(fs: MemoryFileSystem, write: str) -> None:
    before = stored(fs)
    WRITES[write](open_(fs))
    at = deferred_at(fs)
    assert open_(fs).discard(at).rolled_back == (at,)
    assert stored(fs) == before
    check_index(fs, before)
    assert not open_(fs).timeline.pending and not open_(fs).unpublished()
    open_(fs).upsert(rows(range(30, 32), 3))
    assert stored(fs) == before | {"k30": 3, "k31": 3}


@pytest.mark.parametrize("other", WRITES)
def test_no_other_write_begins_and_the_error_names_the_deferred_one(
    fs: MemoryFileSystem, other: str
) -> None:
    WRITES["upsert"](open_(fs))
    at, files = deferred_at(fs), tree(fs)
    with pytest.raises(
        WriteConflictError, match=f"waits to be published; instant={at}"
    ) as reported:
        WRITES[other](open_(fs))
    assert f"table.publish('{at}')" in str(reported.value)
    assert tree(fs) == files
    open_(fs).publish(at)
    assert stored(fs)["k11"] == 2


def test_a_plan_only_write_may_ignore_a_deferred_one(fs: MemoryFileSystem) -> None:
    WRITES["upsert"](open_(fs))
    assert open_(fs).upsert(rows(range(3), 5), dry_run=True).matched == 3


def test_a_rollback_of_the_newest_commit_waits_for_the_deferred_write(fs: MemoryFileSystem) -> None:
    newest = open_(fs).timeline.commits.last
    assert newest is not None
    WRITES["upsert"](open_(fs))
    with pytest.raises(UserError, match="builds on this commit"):
        roll_back_newest(
            fs, load_config(fs), timeline_log(fs, load_config(fs)), newest.time,
            engine=LocalEngine(1),
        )  # fmt: skip
    open_(fs).publish(deferred_at(fs))


def test_only_a_deferred_write_is_published_or_discarded(fs: MemoryFileSystem) -> None:
    newest = open_(fs).timeline.commits.last
    assert newest is not None
    for verb in ("publish", "discard", "preview"):
        with pytest.raises(UserError, match="already published"):
            getattr(open_(fs), verb)(newest.time)
        with pytest.raises(UserError, match="no deferred write at this instant"):
            getattr(open_(fs), verb)("20010101000000000")


def test_a_deferred_write_is_not_published_over_a_foreign_commit(fs: MemoryFileSystem) -> None:
    """A writer that does not know of kept writes may commit; what was planned is then stale."""
    WRITES["upsert"](open_(fs))
    at = deferred_at(fs)
    log = timeline_log(fs, load_config(fs))
    content = log.encode(CommitMetadata(replaced={}))
    foreign = log.complete(log.start(log.request(Action.REPLACE_COMMIT)), content)
    with pytest.raises(WriteConflictError, match=f"instant={foreign.time}, deferred={at}"):
        open_(fs).publish(at)
    assert open_(fs).unpublished() == [at]


def test_a_deferred_write_is_not_published_over_an_older_instant_that_completed_since(
    fs: MemoryFileSystem,
) -> None:
    """The newest commit is the same as when it was planned; still a key was updated meanwhile."""
    older: list[str] = []

    class Meanwhile(LocalEngine):
        def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
            if label == "write" and not older:
                open_(fs).upsert(rows(range(1, 2), 4))
                older.append(open_(fs).upsert(rows(range(0, 2, 2), 5), publish=False).instant or "")
            return super().run(task, items, label=label)

    optimistic = {**OPTIONS, "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    table = Table(fs, options=parse_options(optimistic), engine=Meanwhile(1))
    done = table.upsert(rows(range(2, 4, 2), 3))
    if done.conflicts:  # it was planned anew, so it is the newer one
        pytest.fail("the writers were to go on beside each other")
    at = deferred_at(fs)
    assert str(done.instant) < at
    with pytest.raises(WriteConflictError, match=f"instant={done.instant}, deferred={at}"):
        open_(fs).publish(at)
    assert open_(fs).unpublished() == [at]
    open_(fs).discard(at)
    want = {**{f"k{i}": 1 for i in range(8)}, "k1": 4, "k2": 3}
    assert stored(fs) == want
    check_index(fs, want)


def test_a_deferred_write_that_another_process_rolled_back_is_named_as_missing(
    fs: MemoryFileSystem,
) -> None:
    """As Apache Hudi does with pending writes: markers, kept file and instant are gone."""
    WRITES["upsert"](open_(fs))
    at = deferred_at(fs)
    open_(fs).discard(at)
    with pytest.raises(UserError, match="another writer may have rolled it back"):
        open_(fs).publish(at)


def test_a_torn_deferred_file_is_reported_and_can_be_discarded(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    WRITES["upsert"](open_(fs))
    at = deferred_at(fs)
    fs.replace(f".hoodie/.temp/{at}/kept.json", b"{")
    with pytest.raises(CorruptFileError, match="invalid file of a deferred write"):
        open_(fs).publish(at)
    open_(fs).discard(at)
    assert stored(fs) == before


@stops(10)
@pytest.mark.parametrize("verb", ["upsert", "publish", "discard"])
def test_a_stop_anywhere_keeps_the_write_whole_or_not_at_all(
    fs: MemoryFileSystem, verb: str, one_in: int
) -> None:
    old = stored(fs)
    done = clone(fs)
    WRITES["upsert"](open_(done))
    new = {**old, **{f"k{i}": 2 for i in range(4, 12)}}
    start = fs if verb == "upsert" else done

    def act(disk: FileSystem) -> object:
        return WRITES["upsert"](open_(disk)) if verb == "upsert" else (
            getattr(open_(disk), verb)(deferred_at(done))
        )  # fmt: skip

    for stop in every_stop(start, act, one_in=one_in):
        found = stored(stop.fs)
        assert found in ((old, new) if verb == "publish" else (old,)), str(stop)
        check_index(stop.fs, found)
        want = found
        if waiting := open_(stop.fs).unpublished():
            assert not failed_writes(
                timeline_log(stop.fs, load_config(stop.fs)), open_(stop.fs).timeline
            )
            open_(stop.fs).publish(waiting[0])
            want = new
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        want = want | {"k30": 9, "k31": 9}
        assert stored(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending, str(stop)
