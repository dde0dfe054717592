"""Figures of the record index, what commits wrote into it, and where keys were before."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError
from pyhudi.index.maintenance.stats import stats_of
from pyhudi.metadata.record_index.index_stats import BucketFigures
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from pyhudi.write.write_report import WriteReport
from tests.support.inside import fs_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": "2"}


def rows(ids: range, ts: int = 1) -> pa.Table:
    made = [{"id": f"k{i:04d}", "ts": ts, "part": f"p{i % 3}"} for i in ids]
    return pa.Table.from_pylist(made, SCHEMA)


def made(**more: str) -> Table:
    fs = MemoryFileSystem()
    options = parse_options({**OPTIONS, **more})
    kind = TableType.MERGE_ON_READ
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    return Table(fs, options=options, engine=LocalEngine(1))


@pytest.mark.parametrize("version", ["6", "9"])
def test_the_index_locates_keys_at_every_instant_through_its_compactions(version: str) -> None:
    table = made(**{"hoodie.write.table.version": version})
    alive: set[str] = set()
    seen: list[tuple[str, set[str]]] = []
    for turn in range(14):
        table.upsert(rows(range(turn * 5, turn * 5 + 12), turn))
        alive |= {f"k{i:04d}" for i in range(turn * 5, turn * 5 + 12)}
        gone = [f"k{turn * 4:04d}"]
        seen.append((table.timeline.commits.last.time, set(alive)))  # type: ignore[union-attr]
        table.delete(keys=gone)
        alive -= set(gone)
        seen.append((table.timeline.commits.last.time, set(alive)))  # type: ignore[union-attr]
    keys = [f"k{i:04d}" for i in range(120)]
    reported = 0
    for time, want in seen:
        try:
            found = table.index.lookup(keys, as_of=time)
        except SnapshotExpiredError:
            assert not reported  # only the oldest are gone
            continue
        reported += 1
        assert {k for k, f in zip(keys, found["found"].to_pylist(), strict=True) if f} == want
    assert reported > 10
    assert table.index.lookup(keys) == table.lookup(keys)
    assert not any(table.index.lookup(keys, as_of="20200101000000000")["found"].to_pylist())
    table.index.rebuild()
    assert table.index.lookup(keys, as_of=seen[-1][0]) == table.lookup(keys)
    with pytest.raises(SnapshotExpiredError):
        table.index.lookup(keys, as_of=seen[-2][0])


def test_entries_between_two_instants_are_those_of_their_commits() -> None:
    table = made()
    times = ["000"]
    for act in (
        lambda: table.bulk_insert(rows(range(10))),
        lambda: table.upsert(rows(range(8, 13), 2)),
        lambda: table.delete(keys=["k0001", "nobody"]),
    ):
        act()
        times.append(table.timeline.commits.last.time)  # type: ignore[union-attr]
    first, second, third = (table.index.entries(a, b).to_pylist() for a, b in pairwise(times))
    assert [r["record_key"] for r in first] == [f"k{i:04d}" for i in range(10)]
    assert [r["record_key"] for r in second] == ["k0010", "k0011", "k0012"]
    assert {r["commit"] for r in second} == {times[2]} and not any(r["ended"] for r in second)
    assert [(r["record_key"], r["ended"], r["file_id"]) for r in third] == [("k0001", True, None)]
    assert table.index.entries("000").num_rows == 14
    table.index.rebuild()
    assert table.index.entries("000").num_rows == 12


def test_stats_count_entries_and_tombstones_by_bucket() -> None:
    table = made()
    table.bulk_insert(rows(range(100)))
    table.delete(keys=["k0001", "k0002"])
    stats = table.index.stats()
    assert (stats.bucket_count, stats.entries, stats.tombstones) == (2, 98, 2)
    assert sum(b["entries"] for b in stats.buckets) == 98
    assert stats.advice == "no action is needed" and 1.0 <= stats.skew < 1.5
    assert stats.bytes_per_entry > 1


@pytest.mark.parametrize(
    ("entries", "advice"),
    [
        ([10, 20], "no action is needed"),
        ([790_000, 850_000], "bucket 1 is near its planned size: run table.index.rebuild(3)"),
        ([9_000_000, 9_100_000], "bucket 1 is near its planned size: run table.index.rebuild(24)"),
        ([10, 900_000], "bucket 1 is much fuller than others: check the hash of the keys"),
    ],
)
def test_advice_comes_before_a_bucket_is_full(entries: list[int], advice: str) -> None:
    found = [BucketFigures(n, count, 0, 0, 1, count * 40) for n, count in enumerate(entries)]
    assert stats_of(found).advice == advice


@pytest.mark.parametrize(("adaptive", "method"), [(True, "seek"), (False, "seek"), (False, "scan")])
def test_a_lookup_reports_its_choice_and_its_cost(adaptive: bool, method: str) -> None:
    made_ = made()
    made_.bulk_insert(rows(range(50)))
    made_.upsert(rows(range(40, 60), 2))
    options = {"pyhudi.index.lookup.adaptive": adaptive, "pyhudi.index.lookup.method": method}
    table = Table(fs_of(made_), options=parse_options(options), engine=LocalEngine(1))
    keys = [f"k{i:04d}" for i in range(0, 70, 2)]
    assert table.lookup(keys) == made_.lookup(keys)
    table.upsert(rows(range(55, 65), 3))
    reported = table.index.explain(keys).to_pylist()
    assert sum(row["found"] for row in reported) == 33
    for row in reported:
        assert row["method"] in (("seek", "scan", "hash") if adaptive else (method,))
        assert row["seconds"] > 0 and min(row["seek_seconds"], row["scan_seconds"]) >= 0


def test_a_write_reports_what_its_look_up_took() -> None:
    table = made()
    assert table.insert(rows(range(50))).lookup == {}
    table.upsert(rows(range(40, 60), 2))
    reported = table.upsert(rows(range(0, 60, 2), 3)).lookup
    assert reported["files"] == reported["seek"] + reported["scan"] + reported["hash"] >= 2
    assert reported["keys"] >= 30 and reported["seconds"] > 0
    assert reported["seek_seconds"] >= 0 and reported["scan_seconds"] > 0
    assert WriteReport.from_dict(table.delete(keys=["k0001"]).to_dict()).lookup["files"] >= 1
