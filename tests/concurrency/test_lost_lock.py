"""A writer that stood still for longer than its lease touches nothing that is another's."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pyhudi.api import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import LockError
from pyhudi.options import parse_options
from pyhudi.pipeline import NewTable, create
from pyhudi.storage.memory import MemoryStore
from pyhudi.table.config import TableType
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
    held = {r["id"]: r["v"] for r in found}
    keys = ["0", "a", "b", "c"]
    assert table.lookup(keys)["found"].to_pylist() == [key in held for key in keys]
    return held


def new_table(kind: TableType) -> MemoryStore:
    store = MemoryStore()
    fs = LeasedFileSystem(store, Process("creator"), "t")
    options = parse_options(OPTIONS)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), (), (), options))
    open_(store, Process("creator")).upsert(row("0", 0))
    return store


def right_before_publishing(act: Callable[[], None]) -> Callable[[str], None]:
    """Do something once, when the last file before a write's commit point has been created."""
    own: list[str] = []

    def created(path: str) -> None:
        folder, _, name = path.rpartition("/")
        time, _, state = name.partition(".")
        if folder == "t/.hoodie" and state in ("commit.requested", "deltacommit.requested"):
            own[:] = [time]
        elif path == f"t/.hoodie/metadata/.hoodie/{''.join(own)}.deltacommit":
            own.clear()
            act()

    return created


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("mode", MODES)
def test_who_has_lost_the_lock_does_not_roll_back_the_next_holders_write(
    kind: TableType, mode: str
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
