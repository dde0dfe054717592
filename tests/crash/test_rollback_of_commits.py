"""A rollback of a commit that could not be repeated after an interruption does not begin."""

from __future__ import annotations

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.options import parse_options
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from tests.crash.torn import OPTIONS, copy_of, empty_table, opened, rows, snapshot, table
from tests.support.filesystems import every_stop, tree


def compacting(fs: FileSystem) -> Table:
    """A table whose metadata table is compacted at each write, before its instant is requested."""
    options = {
        **OPTIONS,
        "hoodie.metadata.compact.max.delta.commits": "1",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    }
    return Table(fs, options=parse_options(options), engine=LocalEngine(1))


def pending_compactions(fs: FileSystem) -> Timeline:
    """Those of the metadata table."""
    log = TimelineLog(fs.sub(METADATA_TABLE), layout=opened(fs).config.layout)
    return log.load().where({Action.COMPACTION}, State.REQUESTED, State.INFLIGHT)


@pytest.mark.parametrize("version", [6, 9])
def test_a_rollback_is_refused_before_any_change_where_the_metadata_table_is_being_compacted(
    version: int,
) -> None:
    before = copy_of(table(TableType.COPY_ON_WRITE, version))
    opened(before).upsert(rows(range(4), 7))
    want, met = snapshot(before), 0
    for stop in every_stop(before, lambda fs: compacting(fs).upsert(rows(range(4), 8))):
        if not pending_compactions(stop.fs):
            continue
        newest = opened(stop.fs).timeline.commits.last
        assert newest is not None
        with pytest.raises(UserError, match="compacted this commit"):
            opened(stop.fs).rollback(str(newest.time))
        assert snapshot(stop.fs) == want, str(stop)
        opened(stop.fs).upsert(rows(range(30, 31), 9))
        assert snapshot(stop.fs) == {**want, "k30": 9}, str(stop)
        met += 1
    assert met


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_files_that_arrive_after_the_rollback_of_a_first_write_do_not_count(
    kind: TableType, version: int
) -> None:
    fs = copy_of(empty_table(kind, version))
    elsewhere = copy_of(fs)
    late = opened(elsewhere).upsert(rows(range(2, 30), 8)).instant
    log = TimelineLog(fs, layout=opened(fs).config.layout)
    action = Action.DELTA_COMMIT if kind is TableType.MERGE_ON_READ else Action.COMMIT
    failed = Instant(InstantTime(str(late)), action, State.REQUESTED)
    fs.create(log.path(failed), b"")
    log.start(failed, b"{}")
    opened(fs).upsert(rows(range(2), 9))
    want = snapshot(fs)
    for path in sorted(tree(elsewhere).keys() - tree(fs).keys()):
        if not path.startswith((".hoodie/timeline", ".hoodie/2", ".hoodie/metadata/.hoodie")):
            fs.create(path, elsewhere.read(path))
    assert snapshot(fs) == want
    assert opened(fs).metadata.verify().is_healthy, opened(fs).metadata.verify()
    opened(fs).upsert(rows(range(30), 10))
    assert set(snapshot(fs).values()) == {10} and len(snapshot(fs)) == 30
