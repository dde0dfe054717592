"""An archival of version 9 that stops anywhere is finished by the next process.

Rows and record index do not change, and each instant of the table and of its metadata table is on
the timeline or in the archive, and there once.
"""

from __future__ import annotations

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.filenames import METADATA_TABLE
from pyhudi.layouts.v9 import V9
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.history.manifest import load_manifest
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.history.rows import read_history_file
from pyhudi.timeline.instant import Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.write.table_creation import NewTable
from tests.crash.test_every_stop import OPTIONS, SCHEMA, check_index, rows, snapshot
from tests.support.examples import stops
from tests.support.filesystems import every_stop

SETTINGS = {
    **OPTIONS,
    "hoodie.write.table.version": "9",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.keep.min.commits": "11",
    "hoodie.keep.max.commits": "12",
    "hoodie.timeline.compaction.batch.size": "2",
}


def table(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(SETTINGS), engine=LocalEngine(1))


def active(fs: FileSystem) -> set[Instant]:
    return set(TimelineLog(fs, layout=V9).load().where(None, State.COMPLETED))


def archived(fs: FileSystem) -> list[Instant]:
    return TimelineHistory(fs, HISTORY).instants()


def row_count(fs: FileSystem) -> int:
    files = load_manifest(fs, HISTORY).files
    return sum(part.num_rows for file in files for part in read_history_file(fs, HISTORY, file))


@stops(26, 5)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_stopped_archival_is_finished_by_the_next_process(kind: TableType, one_in: int) -> None:
    start = MemoryFileSystem()
    options = parse_options(SETTINGS)
    create(start, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    table(start).bulk_insert(rows(range(8), 1))
    for ts in range(2, 21):
        table(start).upsert(rows(range(2), ts))
        if ts == 14:
            assert table(start).archive().metadata_instants
    want = snapshot(start)
    for stop in every_stop(start, lambda fs: table(fs).archive(), one_in=one_in):
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        table(stop.fs).upsert(rows(range(30, 32), 9))
        assert snapshot(stop.fs) == want | {"k30": 9, "k31": 9}, str(stop)
        table(stop.fs).archive()
        for folder in ("", METADATA_TABLE):
            fs, before = stop.fs.sub(folder), start.sub(folder)
            found = archived(fs)
            assert {*active(before), *archived(before)} <= {*active(fs), *found}, str(stop)
            assert active(fs).isdisjoint(found), str(stop)
            assert row_count(fs) == len(found) > 5, str(stop)
