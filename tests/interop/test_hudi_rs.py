"""hudi-rs reads tables of versions 8 and 9, and writes on them in turns with pyhudi.

Release 0.5 is a package of Python, and reads.  Release 0.6 is the program of bench/peers/hudi_rs,
which `make long-hudi-rs` builds, and reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import PyhudiError
from tests.interop.test_apache_hudi import SCHEMA, Turns, plain, rows
from tests.support import hudi_rs
from tests.support.hudi_rs import HudiRs, PeerError

BUILT = (pytest.mark.slow, pytest.mark.hudi_rs)
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.compact.inline": "false",
    # hudi-rs misses keys of a write in which the metadata table is compacted
    "hoodie.metadata.compact.max.delta.commits": "100",
}
AVRO = {"hoodie.logfile.data.block.format": "avro"}


@pytest.fixture(scope="module")
def peer() -> Iterator[HudiRs]:
    if reason := hudi_rs.missing():
        pytest.skip(reason)
    with HudiRs() as process:
        yield process


@pytest.fixture(params=["0.5", pytest.param("0.6", marks=BUILT)])
def reader(request: pytest.FixtureRequest) -> Callable[[Path], pa.Table]:
    """The rows that a release of hudi-rs reads."""
    if request.param == "0.6":
        process: HudiRs = request.getfixturevalue("peer")
        return process.read
    from hudi import HudiTableBuilder

    def read(path: Path) -> pa.Table:
        return pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(path)).build().read())

    return read


def make(path: Path, *, schema: pa.Schema = SCHEMA, **how: Any) -> pyhudi.Table:
    options = {**OPTIONS, **how.pop("options", {})}
    how = {"record_key": "id", "partition_by": "part", "ordering": "ts", **how}
    return pyhudi.create_table(path, schema, options=options, **how)


def opened(path: Path) -> pyhudi.Table:
    return pyhudi.open_table(path, options=OPTIONS)


def loaded(path: Path, **how: Any) -> None:
    make(path, **how).bulk_insert(rows(range(40), 0))


def updated(path: Path, **how: Any) -> None:
    """Updates, inserts, deletes, keys that come back, and rows that come too late."""
    loaded(path, **how)
    opened(path).upsert(rows(range(20, 60), 2))
    opened(path).delete(keys=rows(range(5, 30), 0)["id"].to_pylist())
    opened(path).upsert(rows(range(8, 12), 3))
    opened(path).upsert(rows(range(40, 50), 1))


def compacted(path: Path, **how: Any) -> None:
    updated(path, **how)
    opened(path).compact()
    opened(path).upsert(rows(range(30, 45), 4))


def replaced(path: Path, **how: Any) -> None:
    """Clustering, an overwrite, a partition that is deleted, cleaning, and updates after them."""
    updated(path, **how)
    opened(path).cluster(sort_by="id")
    opened(path).upsert(rows(range(30, 45), 4))
    opened(path).insert_overwrite(rows(range(60, 66), 5))
    opened(path).delete_partitions(["p1"])
    opened(path).clean()
    opened(path).upsert(rows(range(60, 75), 6))


def upsert_and_roll_back(path: Path, batch: pa.Table) -> None:
    instant = opened(path).upsert(batch).instant
    assert instant is not None
    opened(path).rollback(instant)


def undone(path: Path, **how: Any) -> None:
    """Rolled back and restored commits."""
    updated(path, **how)
    upsert_and_roll_back(path, rows(range(50), 4))
    saved = opened(path).upsert(rows(range(10, 13), 5)).instant
    assert saved is not None
    opened(path).savepoint("test")
    opened(path).upsert(rows(range(30), 6))
    opened(path).restore(saved)


def evolved(path: Path, **how: Any) -> None:
    """A new column, and a column that was widened."""
    old = SCHEMA.remove(SCHEMA.get_field_index("tags"))
    narrow = old.set(old.get_field_index("amount"), pa.field("amount", pa.float32()))
    before = rows(range(40), 0).select(narrow.names).cast(narrow)
    make(path, schema=narrow, **how).bulk_insert(before)
    opened(path).upsert(rows(range(20, 60), 2), schema_mode="widen")
    opened(path).upsert(rows(range(30, 35), 3))


COW: dict[str, Any] = {"table_type": "cow"}
MOR: dict[str, Any] = {"table_type": "mor"}
TABLES: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "cow updated": (updated, COW),
    "cow unpartitioned": (updated, {**COW, "partition_by": ()}),
    "cow commit time": (updated, {**COW, "ordering": None}),
    "cow replaced": (replaced, COW),
    "cow undone": (undone, COW),
    "cow evolved": (evolved, COW),
    "mor parquet logs": (updated, MOR),
    "mor avro logs": (updated, {**MOR, "options": AVRO}),
    "mor unpartitioned": (updated, {**MOR, "partition_by": ()}),
    "mor commit time": (updated, {**MOR, "ordering": None}),
    "mor compacted": (compacted, MOR),
    "mor replaced": (replaced, MOR),
    "mor undone": (undone, MOR),
    "mor evolved": (evolved, MOR),
    "mor evolved avro": (evolved, {**MOR, "options": AVRO}),
}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("name", TABLES)
def test_hudi_rs_reads_what_pyhudi_wrote(
    name: str, version: int, tmp_path: Path, reader: Callable[[Path], pa.Table]
) -> None:
    build, how = TABLES[name]
    build(tmp_path / "t", version=version, **how)
    found = reader(tmp_path / "t")
    assert plain(found) == plain(opened(tmp_path / "t").scan(SCHEMA.names).to_arrow())


class Both:
    """One table, the rows it must have, and the actions of pyhudi and hudi-rs on it."""

    def __init__(self, path: Path, peer: HudiRs, table: pyhudi.Table) -> None:
        self.path, self.peer = path, peer
        self.turns = Turns(table, path, [])
        self._number = 0

    def batch(self, ids: range) -> pa.Table:
        self._number += 1
        return rows(ids, self._number)

    def agree(self) -> None:
        """Both read the expected rows, the record index has their keys, and nothing is damaged."""
        self.turns.agree()
        expected = pa.Table.from_pylist(list(self.turns.expected.values()), SCHEMA)
        assert plain(self.peer.read(self.path)) == plain(expected)
        keys = pa.table({"key": [*self.turns.expected, *self.turns.gone]})
        found = self.peer.write("lookup", self.path, keys)["found"]
        assert found == len(self.turns.expected)
        assert not opened(self.path).index.verify().faults
        diagnosis = opened(self.path).doctor()
        assert diagnosis.is_healthy, str(diagnosis)

    def put(self, ids: range, command: str = "upsert") -> None:
        batch = self.batch(ids)
        getattr(opened(self.path), command)(batch)
        self.turns.put(batch)

    def delete(self, ids: range) -> None:
        keys = [key for key in rows(ids, 0)["id"].to_pylist() if key in self.turns.expected]
        opened(self.path).delete(keys=keys)
        self.turns.drop(keys)

    def their_put(self, ids: range, command: str = "upsert") -> None:
        batch = self.batch(ids)
        self.peer.write(command, self.path, batch)
        self.turns.put(batch)

    def their_delete(self, ids: range) -> None:
        keys = [key for key in rows(ids, 0)["id"].to_pylist() if key in self.turns.expected]
        self.peer.write("delete_keys", self.path, pa.table({"key": keys}))
        self.turns.drop(keys)


TURNS: list[tuple[str, Callable[[Both], object]]] = [
    ("bulk insert", lambda b: b.put(range(40), "bulk_insert")),
    ("their upsert", lambda b: b.their_put(range(20, 50))),
    ("upsert", lambda b: b.put(range(10, 45))),
    ("their delete by key", lambda b: b.their_delete(range(3, 9))),
    ("delete", lambda b: b.delete(range(12, 15))),
    ("their upsert of deleted keys", lambda b: b.their_put(range(5, 14))),
    ("upsert of deleted keys", lambda b: b.put(range(3, 14))),
    ("their append", lambda b: b.their_put(range(50, 60), "append")),
]


@pytest.mark.parametrize("creator", ["pyhudi", "hudi-rs"])
@pytest.mark.slow
@pytest.mark.hudi_rs
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_both_agree_after_each_turn(
    version: int, kind: str, creator: str, tmp_path: Path, peer: HudiRs
) -> None:
    if creator == "pyhudi":
        table = make(tmp_path / "t", version=version, table_type=kind)
    else:
        how = {"name": "t", "keys": ["id"], "partition_by": ["part"], "ordering": ["ts"]}
        peer.call("create", path=str(tmp_path / "t"), version=version, kind=kind, options={}, **how)
        table = opened(tmp_path / "t")
    both = Both(tmp_path / "t", peer, table)
    for number, (name, act) in enumerate(TURNS):
        try:
            act(both)
            both.agree()
        except (AssertionError, PeerError, PyhudiError) as error:
            error.add_note(f"turn {number}: {name}")
            raise
