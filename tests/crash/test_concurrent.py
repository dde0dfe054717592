"""A write that stops at any step while others run leaves the old rows or the new, and so does a
clean or a compaction: its heartbeat does not outlive it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableType
from pyhudi.transaction.heartbeat import living
from tests.crash.test_every_stop import OPTIONS, before, check_index, open_, rows, snapshot
from tests.support.filesystems import clone, every_stop

OPTIMISTIC = {**OPTIONS, "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


def optimistic(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIMISTIC), engine=LocalEngine(1))


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(rows(range(2, 12), 3)),
    "insert_overwrite": lambda table: table.insert_overwrite(rows(range(0, 8, 4), 3)),
}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        pytest.param("upsert", TableType.MERGE_ON_READ, marks=pytest.mark.slow),
        pytest.param("upsert", TableType.COPY_ON_WRITE, marks=pytest.mark.slow),
        pytest.param("insert_overwrite", TableType.COPY_ON_WRITE, marks=pytest.mark.slow),
        pytest.param("insert_overwrite", TableType.MERGE_ON_READ, marks=pytest.mark.slow),
    ],
)
def test_a_stop_anywhere_leaves_the_old_rows_or_the_new(operation: str, kind: TableType) -> None:
    sweep(operation, kind, one_in=1)


def test_a_stop_here_and_there_leaves_the_old_rows_or_the_new() -> None:
    sweep("upsert", TableType.MERGE_ON_READ, one_in=5)


def sweep(operation: str, kind: TableType, *, one_in: int) -> None:
    """Die at each step, and look at what some of them leave."""
    start = before(kind)
    done = clone(start)
    OPERATIONS[operation](optimistic(done))
    old, new = snapshot(start), snapshot(done)
    assert old != new
    stops = 0
    for stop in every_stop(start, lambda fs: OPERATIONS[operation](optimistic(fs))):
        stops += 1
        if stops % one_in:
            continue
        found = snapshot(stop.fs)
        assert found in (old, new), str(stop)
        optimistic(stop.fs).upsert(rows(range(30, 32), 9))
        want = found | {"k30": 9, "k31": 9}
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending and not living(stop.fs), str(stop)
    assert stops > 10
