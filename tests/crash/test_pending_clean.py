"""A clean that stopped anywhere: snapshots of the past are whole or expired, and what is undone
beside it stays whole when the clean has ended."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.operations.create import NewTable, create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
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


def snapshot(fs: FileSystem, as_of: str | None = None) -> dict[str, int]:
    found = open_(fs).scan(["id", "ts"], as_of=as_of).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))


COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


@stops(3)
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
