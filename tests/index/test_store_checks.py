"""Indexes outside the table are verified, repaired and told in figures as the record index is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.errors import IndexNotReadyError
from pyhudi.index.hbase.hbase_table import Entry, HBasePlace
from pyhudi.index.rocksdb.bucket_store import BucketChanges, advance
from pyhudi.index.rocksdb.checkpoint import Checkpoint, newest_valid, publish_checkpoint
from pyhudi.index.rocksdb.rocksdb_index import place_of
from pyhudi.index.watermark import Covered
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.options import IndexKind
from pyhudi.records import FileGroupId
from pyhudi.table.properties import TableType
from tests.support.filesystems import tree
from tests.support.index_kinds import Indexed, batch, indexed
from tests.support.inside import fs_of, state_of

KINDS = (IndexKind.ROCKSDB, IndexKind.HBASE)
Places = dict[str, FileGroupId | None]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.value)
def kind(request: pytest.FixtureRequest) -> Iterator[Indexed]:
    with indexed(request.param) as found:
        yield found


def plant(table: Table, kind: Indexed, places: Places) -> None:
    """Put entries (None: end them) behind the index's back, of the newest commit."""
    newest = table.timeline.commits.last
    assert newest is not None
    if kind.kind is IndexKind.HBASE:
        place = HBasePlace.of(table._options.write.index_rules.hbase, 1)
        place.put(
            (
                key.encode(),
                None
                if group is None
                else Entry(newest.time.encode(), group.file_id.encode(), group.partition.encode()),
            )
            for key, group in places.items()
        )
        return
    place = place_of(fs_of(table), table._options.write.index_rules.rocksdb)
    state = state_of(table)
    found = newest_valid(place.fs, state.log, state.timeline)
    assert found is not None
    numbers = KeyHash(len(found.buckets)).buckets(pa.array(list(places)))
    buckets = list(found.buckets)
    for number, (key, group) in zip(numbers.tolist(), places.items(), strict=True):
        groups = () if group is None else (group,)
        target = np.array([0 if groups else -1], np.int32)
        changes = BucketChanges(pa.array([key]), target, groups)
        buckets[number] = advance(place, buckets[number], changes, newest.time)
    publish_checkpoint(
        place.fs, Checkpoint(Covered.of(state.timeline, mine=newest.time), tuple(buckets))
    )


def made(kind: Indexed, table_type: TableType = TableType.COPY_ON_WRITE) -> Table:
    table = kind.table(table_type)
    table.upsert(batch(range(30), 1))
    table.upsert(batch(range(20, 40), 2))
    table.delete(keys=["k001"])
    return table


def home(table: Table, partition: str) -> FileGroupId:
    return table.file_slices(partition)[0].group


@pytest.mark.parametrize("table_type", list(TableType), ids=lambda t: t.value)
def test_an_index_in_step_is_exact(kind: Indexed, table_type: TableType) -> None:
    table = made(kind, table_type)
    check = table.index.verify()
    assert (check.is_exact, check.keys, check.entries, check.copies) == (True, 39, 39, 0)
    assert table.index.verify(sample=3).keys == 39
    assert table.index.repair().notes[-1] == "nothing to repair"


def test_faults_are_found_and_repaired(kind: Indexed) -> None:
    table = made(kind)
    p0, p1 = home(table, "p0"), home(table, "p1")
    plant(
        table,
        kind,
        {
            "k000": None,  # missing
            "k003": FileGroupId("p0", "no-such-group-0"),  # answers nothing: missing
            "k004": p0,  # lives in p1
            "nobody": p1,
        },
    )
    check = table.index.verify()
    assert check.faults == {"missing": 2, "stale_partition": 1, "orphaned": 1}
    assert {e["record_key"] for e in check.examples} == {"k000", "k003", "k004", "nobody"}
    before = tree(fs_of(table))
    preview = table.index.repair(dry_run=True)
    assert (preview.put, preview.ended, preview.instant, preview.dry_run) == (3, 1, None, True)
    assert tree(fs_of(table)) == before and table.index.verify().fault_count == 4
    done = table.index.repair()
    newest = table.timeline.commits.last
    assert newest is not None and (done.put, done.ended, done.instant) == (3, 1, newest.time)
    assert table.index.verify().is_exact
    found = table.lookup(["k000", "k003", "k004", "nobody", "k001"])
    assert found["partition_path"].to_pylist() == ["p0", "p0", "p1", None, None]
    report = table.upsert(batch([0, 3, 4, 50], 5))
    assert (report.inserted, report.updated) == (1, 3)


def test_many_entries_are_compared_in_chunks(
    kind: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.services.indexing.external_verify._ROWS", 7)
    table = made(kind)
    plant(table, kind, {"a": home(table, "p0"), "z": home(table, "p2"), "k010": None})
    assert table.index.verify().faults == {"missing": 1, "orphaned": 2}
    table.index.repair()
    assert table.index.verify().is_exact


def test_figures(kind: Indexed) -> None:
    stats = made(kind).index.stats()
    assert stats.entries == 39 and stats.bytes > 39 * 4
    if kind.kind is IndexKind.ROCKSDB:
        assert (stats.bucket_count, len(stats.buckets)) == (2, 2)
        assert stats.files >= 2
    else:
        assert "HBase" in stats.advice


def test_an_empty_table_has_an_exact_index(kind: Indexed) -> None:
    table = kind.table()
    assert table.index.verify().is_exact
    assert table.index.stats().entries == 0


def test_a_store_behind_the_table_is_not_checked_but_repaired() -> None:
    table = made(Indexed(IndexKind.ROCKSDB))
    other = Indexed(IndexKind.GLOBAL_SIMPLE).table(fs=fs_of(table), index__type="GLOBAL_SIMPLE")
    other.upsert(batch(range(60, 64), 3))
    with pytest.raises(IndexNotReadyError, match="does not cover all commits"):
        table.index.verify()
    done = table.index.repair()
    assert done.check.is_exact and "read 1 commits" in done.notes[0]
    assert table.index.verify().keys == 43
