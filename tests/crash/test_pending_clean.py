"""A clean that stopped anywhere: snapshots of the past are whole or expired, and what is undone
beside it stays whole when the clean has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.crash.test_every_stop import SCHEMA, rows
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop

OPTIONS = {
    "hoodie.table.services.enabled": "false",  # the test calls the verbs
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.bucket.index.num.buckets": "1",
}
LOGS_FIRST = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


def open_(fs: FileSystem, **more: str) -> Table:
    return Table(fs, options=parse_options({**OPTIONS, **more}), engine=LocalEngine(1))


def cleanable(version: int, kind: TableType, more: dict[str, str]) -> MemoryFileSystem:
    """A table whose newest commit makes older slices cleanable; it stays the newest."""
    fs = MemoryFileSystem()
    options = parse_options({**OPTIONS, **more, "hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options, IndexKind.BUCKET))
    open_(fs, **more).upsert(rows(range(8), 1))
    open_(fs, **more).upsert(rows(range(4), 2))
    if kind is TableType.MERGE_ON_READ:
        open_(fs).schedule_compaction()
        open_(fs).compact()
    return fs


def newest_of(fs: FileSystem) -> str:
    return max(str(commit.time) for commit in open_(fs).timeline.commits)


def snapshot(fs: FileSystem, as_of: str | None = None) -> dict[str, int]:
    found = open_(fs).scan(["id", "ts"], as_of=as_of).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))


def new_files(
    fs: MemoryFileSystem, act: Callable[[FileSystem], object], name: str
) -> dict[str, bytes]:
    """The plan that an action writes, and nothing else of it."""
    for stop in every_stop(fs, act):
        paths = [path for path in stop.fs.store.files if path.endswith(name)]
        if found := {p: stop.fs.store.files[p] for p in paths if p not in fs.store.files}:
            return found
    raise AssertionError(f"no {name} was written")


def elsewhere(number: int) -> pa.Table:
    """A row in a partition of its own, which makes no older file outdated."""
    return rows(range(number, number + 1), 1).set_column(2, "part", [["p9"]])


COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


@stops(6)
@pytest.mark.parametrize(
    ("version", "kind", "more"),
    [(6, COW, {}), (9, COW, {}), (6, MOR, {}), (9, MOR, {}), (9, MOR, LOGS_FIRST)],
    ids=["6-cow", "9-cow", "6-mor", "9-mor", "9-mor-logs-first"],
)
@pytest.mark.parametrize("listing", ["true", "false"])
def test_a_clean_that_stopped_hides_no_row(
    version: int, kind: TableType, more: dict[str, str], listing: str, one_in: int
) -> None:
    start = cleanable(version, kind, more)
    past = {str(i.time): snapshot(start, str(i.time)) for i in open_(start).timeline.commits}
    newest = max(past)
    refused = undone = expired = 0
    for stop in every_stop(start, lambda fs: open_(fs).clean(), one_in=one_in):
        for time, want in past.items():
            scan = open_(stop.fs, **{"hoodie.metadata.enable": listing})
            try:
                found = scan.scan(["id", "ts"], as_of=time).to_arrow()
            except SnapshotExpiredError:
                expired += 1
            else:
                pairs = zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)
                assert dict(pairs) == want, f"{time}: {stop}"
        for undo in ("rollback", "restore"):
            fs = clone(stop.fs)
            to = newest if undo == "rollback" else min(past)
            before = {t: want for t, want in past.items() if t < newest}
            want = before[max(before)] if undo == "rollback" else past[to]
            try:
                getattr(open_(fs), undo)(to)
                undone += 1
            except (UserError, SnapshotExpiredError):
                refused, want = refused + 1, past[newest]
            with suppress(SnapshotExpiredError):
                open_(fs).clean()
            assert snapshot(fs) == want, f"{undo}: {stop}"
            open_(fs, **more).upsert(rows(range(1), 9))
            assert snapshot(fs) == want | {"k0": 9}, f"{undo}: {stop}"
    assert refused and undone and expired


@pytest.mark.parametrize("version", [6, 9])
def test_a_plan_of_a_clean_that_arrives_after_a_rollback_deletes_nothing(version: int) -> None:
    """Its process died before the request reached the store."""
    fs = cleanable(version, COW, {})
    late = new_files(fs, lambda fs: open_(fs).clean(), ".clean.requested")
    open_(fs).rollback(newest_of(fs))
    want = snapshot(fs)
    fs.store.files.update(late)
    open_(fs).clean()
    assert snapshot(fs) == want
    assert not open_(fs).timeline.pending


@pytest.mark.parametrize("version", [6, 9])
def test_a_request_of_a_restore_that_arrives_after_a_commit_undoes_nothing(version: int) -> None:
    fs = cleanable(version, COW, {})
    first = min(str(commit.time) for commit in open_(fs).timeline.commits)
    late = new_files(fs, lambda fs: open_(fs).restore(first), ".restore.requested")
    open_(fs).upsert(elsewhere(20))
    want = snapshot(fs)
    fs.store.files.update(late)
    open_(fs).upsert(rows(range(1), 9))
    assert snapshot(fs) == want | {"k0": 9}
    assert not open_(fs).timeline.pending


@pytest.mark.parametrize("version", [6, 9])
def test_a_request_of_a_rollback_that_arrives_after_archival_undoes_nothing(version: int) -> None:
    fs = cleanable(version, COW, {})
    newest = newest_of(fs)
    late = new_files(fs, lambda fs: open_(fs).rollback(newest), ".rollback.requested")
    small = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
             "hoodie.clean.commits.retained": "1"}  # fmt: skip
    for number in range(8, 16):
        open_(fs, **small).upsert(elsewhere(number))
    open_(fs, **small).clean()
    open_(fs, **small).archive()
    assert all(str(i.time) != newest for i in open_(fs).timeline)
    want = snapshot(fs)
    fs.store.files.update(late)
    open_(fs).upsert(rows(range(1), 9))
    assert snapshot(fs) == want | {"k0": 9}


ARCHIVES = {
    "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "1",
}


@stops(6)
@pytest.mark.parametrize("version", [6, 9])
def test_a_replacement_stays_on_the_timeline_while_a_clean_of_its_files_is_pending(
    version: int, one_in: int
) -> None:
    """The metadata table lists the files until the clean ends; without the replacement they would
    be current."""
    start = cleanable(version, COW, {})
    open_(start).savepoint("keeps the files that the overwrite replaces")
    open_(start).insert_overwrite(rows(range(0, 2, 2), 3))  # of p0 alone
    for ts in range(4, 9):
        open_(start, **ARCHIVES).upsert(rows(range(1, 2), ts))  # of p1
        open_(start, **ARCHIVES).clean()
    open_(start).delete_savepoint(str(open_(start).savepoints()[0].instant))
    want = snapshot(start)
    for stop in every_stop(start, lambda fs: open_(fs, **ARCHIVES).clean(), one_in=one_in):
        for _ in range(2):
            open_(stop.fs, **ARCHIVES).archive()
            for listing in ("true", "false"):
                found = open_(stop.fs, **{"hoodie.metadata.enable": listing})
                pairs = found.scan(["id", "ts"]).to_arrow()
                assert dict(zip(*pairs.to_pydict().values(), strict=True)) == want, str(stop)
            open_(stop.fs).upsert(rows(range(20, 21), 3))  # the smallest file of p0 is rewritten
            assert snapshot(stop.fs) == want | {"k20": 3}, str(stop)
            open_(stop.fs).delete(keys=["k20"])
            open_(stop.fs, **ARCHIVES).clean()
