"""The record index is checked in both directions; faults are found exactly and repaired."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi._native import bucket_of
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.index.maintenance.sampling import share_at_most
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.engines import FarEngine
from tests.support.golden import golden_table
from tests.support.planted import plant

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": "3"}


def rows(ids: range, ts: int = 1) -> pa.Table:
    made = [{"id": f"k{i:04d}", "ts": ts, "part": f"p{i % 3}"} for i in ids]
    return pa.Table.from_pylist(made, SCHEMA)


def made(kind: TableType, **more: str) -> tuple[MemoryFileSystem, Table]:
    """A table with inserts, updates and deletes over several layers of its index."""
    fs = MemoryFileSystem()
    options = parse_options({**OPTIONS, **more})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    table = Table(fs, options=options, engine=LocalEngine(2))
    table.bulk_insert(rows(range(300)))
    table.upsert(rows(range(250, 400), 2))
    table.delete(keys=[f"k{i:04d}" for i in range(0, 400, 9)])
    return fs, table


def places(table: Table) -> dict[str, tuple[str, str]]:
    keys = [f"k{i:04d}" for i in range(500)]
    found = table.lookup(keys).to_pylist()
    return {r["record_key"]: (r["partition_path"], r["file_id"]) for r in found if r["found"]}


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_an_index_that_was_written_is_exact(kind: TableType) -> None:
    _, table = made(kind)
    check = table.index.verify()
    assert check.is_exact and not check.examples and check.copies == 0
    assert check.keys == check.entries == table.scan().count()
    assert table.index.repair().instant is None


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("seed", [1, 2])
def test_exactly_the_planted_faults_are_found_and_repaired(kind: TableType, seed: int) -> None:
    fs, table = made(kind)
    draw = random.Random(seed)
    true = places(table)
    chosen = draw.sample(sorted(true), 40)
    gone, moved, strayed = chosen[:12], chosen[12:25], chosen[25:]
    others = dict(true.values())
    puts = {}
    for key in moved:
        here = true[key]
        same = [place for place in true.values() if place[0] == here[0] and place != here]
        puts[key] = same[0] if same else (here[0], "nobody-0")
    for key in strayed:
        elsewhere = draw.choice([p for p in others if p != true[key][0]])
        puts[key] = (elsewhere, others[elsewhere])
    puts |= {f"x{n}": draw.choice(list(true.values())) for n in range(7)}
    plant(fs, puts, gone)
    stray = next(k for k in sorted(true) if bucket_of(pa.array([k]), 3)[0] == 0)
    plant(fs, {stray: true[stray]}, bucket=1)
    want = {
        "missing": len(gone), "orphaned": 7, "wrong_file_group": len(moved),
        "stale_partition": len(strayed), "wrong_bucket": 1,
    }  # fmt: skip
    planned = table.index.repair(dry_run=True)
    assert planned.check.faults == want and planned.instant is None
    assert (planned.put, planned.ended) == (40, 8)
    named = {e["record_key"]: e for e in planned.check.examples}
    assert {named[key]["fault"] for key in gone} == {"missing"}
    for key in moved:
        assert (named[key]["partition_path"], named[key]["file_id"]) == true[key]
        assert (named[key]["stated_partition"], named[key]["stated_file_id"]) == puts[key]
    before = table.scan().to_arrow()
    done = table.index.repair()
    assert done.instant in table.timeline.commits.times and (done.put, done.ended) == (40, 8)
    assert table.index.verify().is_exact
    assert places(table) == true
    assert table.scan().to_arrow() == before
    table.upsert(rows(range(450), 5))
    assert table.index.verify().is_exact


def test_a_sample_sees_what_is_wrong_with_many_keys() -> None:
    fs, table = made(TableType.MERGE_ON_READ)
    clean = table.index.verify(sample=200)
    assert clean.is_exact and clean.sampled == 200 and clean.keys == clean.entries == 200
    assert clean.fault_share_max["table to index"] == pytest.approx(0.0149, abs=1e-3)
    true = places(table)
    some = sorted(true)[::2]
    plant(fs, dict.fromkeys(some[::2], ("p9", "nobody-0")), some[1::2])
    check = table.index.verify(sample=200)
    assert check.faults.keys() == {"missing", "stale_partition", "orphaned"}
    assert 0.3 < check.fault_share_max["table to index"] < 0.7
    with pytest.raises(UserError, match="positive integer"):
        table.index.verify(sample=0)


@pytest.mark.parametrize(
    ("found", "looked_at", "bound"),
    [(0, 100, 0.02951), (0, 3000, 0.000998), (5, 100, 0.1023), (3, 3, 1.0), (0, 0, 1.0)],
)
def test_the_bound_is_that_of_clopper_and_pearson(found: int, looked_at: int, bound: float) -> None:
    assert share_at_most(found, looked_at) == pytest.approx(bound, abs=2e-4)


def test_a_key_that_is_there_twice_is_no_fault() -> None:
    _, table = made(TableType.COPY_ON_WRITE)
    table.insert(rows(range(100, 120), 3))
    check = table.index.verify()
    assert check.is_exact
    assert check.copies == check.keys - check.entries > 10
    assert table.index.verify(sample=300).is_exact


def test_tasks_elsewhere_find_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", options=OPTIONS)
    table.bulk_insert(rows(range(60)))
    fs = LocalFileSystem(path)
    plant(fs, {"x": ("p0", "nobody-0")}, ["k0001", "k0002"])
    far = pyhudi.open_table(path, engine=FarEngine())
    assert far.index.verify().faults == {"missing": 2, "orphaned": 1}
    far.index.repair()
    assert table.index.verify().is_exact
    assert not [e.name for e in fs.children(".hoodie/.temp") if e.name.startswith("pyhudi-")]


@pytest.mark.parametrize(
    "name", ["cow_clustered", "cow_restored", "cow_overwritten", "mor_rli_avro", "mor_logcompact"]
)
def test_what_apache_hudi_wrote_is_exact(name: str) -> None:
    table = Table(golden_table(name), options=parse_options({}), engine=LocalEngine(1))
    check = table.index.verify()
    assert check.is_exact and check.keys == check.entries > 20


def test_a_table_without_the_index_says_so(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", index="bloom")
    with pytest.raises(IndexNotReadyError):
        table.index.verify()


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_write_by_another_index_counts_what_the_record_index_has_elsewhere(
    kind: TableType,
) -> None:
    fs, table = made(kind)
    requested = OPTIONS | {"hoodie.index.type": "GLOBAL_SIMPLE"}
    other = Table(fs, options=parse_options(requested), engine=LocalEngine(2))
    table.insert(rows(range(200, 203), 3))  # copies
    assert not other.upsert(rows(range(100, 450), 4)).notes  # new keys and deleted ones, too
    true = places(table)
    key, elsewhere = "k0111", next(p for p in true.values() if p != true["k0111"])
    plant(fs, {key: elsewhere, "x1": elsewhere}, ["k0112", "k0113"])
    report = other.upsert(rows(range(110, 120), 5))
    assert [n for n in report.notes if "has 3 keys of this batch elsewhere" in n]
    assert table.index.verify().faults == {"orphaned": 1}  # the write mended its own keys


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_check_of_what_changed_sees_that_and_nothing_else(kind: TableType, version: str) -> None:
    fs, table = made(kind, **{"hoodie.write.table.version": version})
    true = places(table)
    plant(fs, {}, ["k0007"])
    first = table.index.compare("000")
    assert first.faults == {"missing": 1} and first.keys == len(true)
    last = table.timeline.commits.last
    assert last is not None and first.instant == (last.completed_at or last.time)
    table.upsert(rows(range(390, 420), 3))
    second = table.index.compare(first.instant)
    assert second.is_exact and (second.keys, second.entries) == (30, 20 + 1)
    plant(fs, {"x1": true["k0008"]}, ["k0415"])
    third = table.index.compare(first.instant)
    assert third.faults == {"missing": 1, "orphaned": 1}


class MeetingAWriter(FarEngine):
    """A cluster on which another writer does something once, before the named step."""

    def __init__(self, step: str, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._step, self._meanwhile = step, meanwhile

    def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
        if label == self._step:
            self._step = ""
            self._meanwhile()
        return super().run(task, items, label=label)


def test_a_writer_that_begins_leaves_the_spilled_keys_of_a_check_alone(tmp_path: Path) -> None:
    options = parse_options(OPTIONS)
    fs = LocalFileSystem(tmp_path)
    create(fs, NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), ("ts",), options))
    writer = Table(fs, options=options, engine=LocalEngine(1))
    writer.bulk_insert(rows(range(30)))
    engine = MeetingAWriter("check-index", lambda: writer.upsert(rows(range(30, 40))))
    check = Table(fs, options=options, engine=engine).index.verify()
    assert check.is_exact and check.keys == 30
    assert not [entry for entry in fs.children(".hoodie/.temp") if entry.is_folder]
