"""A write that is followed by a clean and by archival, and stops at any call of any of them."""

from __future__ import annotations

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.crash.test_every_stop import OPTIONS, SCHEMA, rows
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop

FEW = {
    **OPTIONS,
    "hoodie.table.services.enabled": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def opened(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(FEW), engine=LocalEngine(1))


def snapshot(fs: FileSystem) -> dict[str, int]:
    found = opened(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["ts"] for row in found}


@stops(10)
def test_a_stop_within_a_write_or_its_services_leaves_the_old_rows_or_the_new(
    one_in: int,
) -> None:
    start = MemoryFileSystem()
    keys = ("id",), ("part",), ("ts",)
    create(start, NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, *keys, parse_options(FEW)))
    for ts in range(1, 10):
        opened(start).upsert(rows(range(0, 4, 2), ts))
    old = snapshot(start)
    done = clone(start)
    notes = " ".join(opened(done).upsert(rows(range(0, 6, 2), 10)).notes)
    assert "clean " in notes and "archived " in notes
    new = snapshot(done)
    for stop in every_stop(
        start, lambda fs: opened(fs).upsert(rows(range(0, 6, 2), 10)), one_in=one_in
    ):
        assert snapshot(stop.fs) in (old, new), str(stop)
        opened(stop.fs).upsert(rows(range(30, 31), 11))
        assert not opened(stop.fs).timeline.pending, str(stop)
        assert snapshot(stop.fs) in ({**old, "k30": 11}, {**new, "k30": 11}), str(stop)
        keys_found = opened(stop.fs).lookup(["k0", "k2", "k30"])["found"].to_pylist()
        assert all(keys_found), str(stop)
