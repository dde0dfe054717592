"""A write that returns stands; one that raises does not: whichever request of it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import StorageError
from pyhudi.layouts.v8 import V8
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import Bytes, FileSystem
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import parse_instant_name
from tests.concurrency.test_conflicts import OPTIMISTIC, new_table, rows

MODES = ("single_writer", "optimistic_concurrency_control")


class FailingFileSystem(MemoryFileSystem):
    """A MemoryFileSystem that lets a test fail its changes, after they are done.

    after: called with the verb and the path; what it raises, the call raises.
    """

    def __init__(self, store: MemoryStore, after: Callable[[str, str], None], root: str = ""):
        super().__init__(store, root)
        self.after = after

    def sub(self, folder: str) -> FailingFileSystem:
        return FailingFileSystem(self.store, self.after, super().sub(folder).root)

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        done = super().create(path, data, durable=durable)
        self.after("create", self._file(path))
        return done

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            super().delete([path])
            self.after("delete", self._file(path))

    def delete_folder(self, folder: str) -> None:
        super().delete_folder(folder)
        self.after("delete", self._file(folder))


class Once:
    """Fails the first call that a condition holds for; `met`: whether there was one."""

    def __init__(self, condition: Callable[[str, str], bool], *, retryable: bool) -> None:
        self._condition, self._retryable, self.met = condition, retryable, False

    def __call__(self, verb: str, path: str) -> None:
        if not self.met and self._condition(verb, path):
            self.met = True
            raise StorageError("input/output error", path=path, retryable=self._retryable)


def completes(verb: str, path: str) -> bool:
    """Whether a call creates the completed file of an instant of the table."""
    folder, _, name = path.rpartition("/")
    found = parse_instant_name(name) if folder in (".hoodie", V8.timeline_folder) else None
    return verb == "create" and found is not None and found.is_completed


def open_(fs: FileSystem, mode: str) -> Table:
    options = parse_options({**OPTIMISTIC, "hoodie.write.concurrency.mode": mode})
    return Table(fs, options=options, engine=LocalEngine(1))


def stored(fs: FileSystem, *, ended: bool = True) -> dict[str, int]:
    table = open_(fs, MODES[0])
    found = table.scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    assert not ended or not table.timeline.pending
    return {row["id"]: row["ts"] for row in found}


def savepointed(table: Table) -> object:
    table.savepoint()
    return table.upsert(rows(range(4), 2))


CALLS: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(rows(range(4, 12), 2)),
    "insert": lambda table: table.insert(rows(range(20, 24), 2)),
    "bulk_insert": lambda table: table.bulk_insert(rows(range(20, 24), 2)),
    "delete": lambda table: table.delete(keys=["k1", "k2"]),
    "insert_overwrite": lambda table: table.insert_overwrite(rows(range(0, 4, 2), 2)),
    "insert_overwrite_table": lambda table: table.insert_overwrite_table(rows(range(2), 2)),
    "delete_partitions": lambda table: table.delete_partitions("p0"),
    "publish": lambda t: t.publish(t.upsert(rows(range(2, 9), 2), publish=False).instant or ""),
    "savepoint": savepointed,
    "rollback": lambda table: table.rollback(str(table.upsert(rows(range(4), 2)).instant)),
    "cluster": lambda table: (table.insert(rows(range(20, 24), 2)), table.cluster()),
    "compact": lambda table: (table.upsert(rows(range(8), 2)), table.compact()),
    "compact_logs": lambda table: (table.upsert(rows(range(8), 2)), table.compact_logs()),
    "clean": lambda table: (table.upsert(rows(range(8), 2)), table.clean()),
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("call", CALLS)
def test_a_commit_that_stands_is_reported_though_its_request_failed(
    kind: TableType, mode: str, call: str, retryable: bool
) -> None:
    if call.startswith("compact") and kind is TableType.COPY_ON_WRITE:
        kind = TableType.MERGE_ON_READ
    expected, disk = new_table(kind), new_table(kind)
    assert isinstance(disk, MemoryFileSystem)
    CALLS[call](open_(expected, mode))
    # the last of the instants that the call completes
    seen: list[str] = []
    count = MemoryFileSystem(disk.store.copy())
    CALLS[call](open_(FailingFileSystem(count.store, lambda v, p: _note(seen, v, p)), mode))
    assert seen
    for number in range(len(seen)):
        again = disk.store.copy()
        passed: list[str] = []
        once = Once(
            lambda v, p, passed=passed, number=number: (
                completes(v, p) and (passed.append(p) or len(passed) == number + 1)
            ),
            retryable=retryable,
        )
        CALLS[call](open_(FailingFileSystem(again, once), mode))
        assert once.met
        assert stored(MemoryFileSystem(again)) == stored(expected), seen[number]


def _note(seen: list[str], verb: str, path: str) -> None:
    if completes(verb, path):
        seen.append(path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("call", ["upsert", "insert", "insert_overwrite"])
def test_a_failure_at_any_change_is_the_truth_and_a_retry_doubles_nothing(
    kind: TableType, mode: str, call: str
) -> None:
    """Each change to the store fails once, after it is done; what returns stands, what raises
    does not, and doing it again leaves what doing it once does."""
    old, expected, disk = new_table(kind), new_table(kind), new_table(kind)
    assert isinstance(disk, MemoryFileSystem)
    CALLS[call](open_(expected, mode))
    seen: list[str] = []
    count = disk.store.copy()
    CALLS[call](open_(FailingFileSystem(count, lambda v, p: seen.append(f"{v} {p}")), mode))
    for number in range(len(seen)):
        again, passed = disk.store.copy(), []
        once = Once(
            lambda v, p, passed=passed, number=number: (
                passed.append(p) or len(passed) == number + 1
            ),
            retryable=False,
        )
        table = open_(FailingFileSystem(again, once), mode)
        try:
            CALLS[call](table)
        except StorageError:
            assert stored(MemoryFileSystem(again), ended=False) == stored(old), seen[number]
            CALLS[call](open_(MemoryFileSystem(again), mode))
        assert once.met
        assert stored(MemoryFileSystem(again)) == stored(expected), seen[number]
