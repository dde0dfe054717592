"""An index beside the one that answers: kept in step with it, compared at every read and write."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyhudi.errors import OptionError
from pyhudi.options import IndexKind
from pyhudi.services.indexing.location_lookup import MISMATCHES
from tests.support.index_kinds import Indexed, batch, indexed
from tests.support.inside import fs_of

PAIRS = [
    (IndexKind.GLOBAL_SIMPLE, IndexKind.ROCKSDB),
    (IndexKind.BLOOM, IndexKind.ROCKSDB),
    (IndexKind.BUCKET, IndexKind.ROCKSDB),
    (IndexKind.RECORD, IndexKind.ROCKSDB),
    (IndexKind.RECORD, IndexKind.HBASE),
    (IndexKind.ROCKSDB, IndexKind.HBASE),
    (IndexKind.HBASE, IndexKind.ROCKSDB),
    (IndexKind.ROCKSDB, IndexKind.RECORD),
    (IndexKind.RECORD, IndexKind.GLOBAL_SIMPLE),
    (IndexKind.ROCKSDB, IndexKind.GLOBAL_BLOOM),
    (IndexKind.GLOBAL_BLOOM, IndexKind.GLOBAL_SIMPLE),
]


WITH_LOOKUP = {IndexKind.RECORD, IndexKind.ROCKSDB, IndexKind.HBASE}


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[Indexed]:
    """A kind, and another one beside it."""
    old, new = request.param
    with ExitStack() as opened:
        made, shadow = (opened.enter_context(indexed(kind)) for kind in (old, new))
        yield Indexed(old, {**shadow.options, **made.options, "pyhudi.index.shadow": new.option})


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: "-".join(kind.value for kind in pair), indirect=True
)
def test_both_stay_in_step(pair: Indexed) -> None:
    table = pair.table()
    reports = [
        table.upsert(batch(range(12), 1)),
        table.upsert(batch(range(6, 18), 2)),
        table.delete(keys=["k000", "k007", "nobody"]),
        table.upsert(batch([7, 20], 3)),
    ]
    assert not [note for report in reports for note in report.notes if "elsewhere" in note]
    new = IndexKind[pair.options["pyhudi.index.shadow"].replace("RECORD_INDEX", "RECORD")]
    if pair.kind in WITH_LOOKUP and new.stores_entries:
        found = table.lookup(["k001", "k007", "k000"])
        assert found["found"].to_pylist() == [True, True, False]
        assert found.schema.metadata[MISMATCHES] == b"0"
    if pair.kind is IndexKind.BUCKET:  # whose tables no other index may write
        report = table.upsert(batch(range(21), 4))
    else:
        alone = Indexed(new, {k: v for k, v in pair.options.items() if k != "pyhudi.index.shadow"})
        report = alone.table(fs=fs_of(table), index__type=new.option).upsert(batch(range(21), 4))
        assert report.inserted == 3  # k000, k018, k019
    assert report.notes == ()
    stored = table.scan(["id", "ts"]).to_arrow().sort_by("id").to_pylist()
    assert stored == [{"id": f"k{n:03d}", "ts": 4} for n in range(21)]


def test_keys_that_are_elsewhere_are_counted_and_the_old_index_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with indexed(IndexKind.HBASE) as hbase:
        options = {**hbase.options, "pyhudi.index.shadow": "HBASE"}
        Indexed(IndexKind.RECORD).table()
        table = Indexed(IndexKind.RECORD).table()
        table.upsert(batch(range(6), 1))
        both = Indexed(IndexKind.RECORD, options).table(fs=fs_of(table))
        with caplog.at_level(logging.WARNING, "pyhudi"):
            found = both.lookup(["k001", "k002", "nobody"])
        assert found["found"].to_pylist() == [True, True, False]
        assert found.schema.metadata[MISMATCHES] == b"2"
        assert "the hbase index has 2 keys" in caplog.text
        report = both.upsert(batch(range(4, 8), 2))
        assert (report.inserted, report.updated) == (2, 2)
        assert "the hbase index has 2 keys of this batch elsewhere" in " ".join(report.notes)
        assert both.index.rebuild(kind="hbase").entries == 8
        assert both.upsert(batch(range(8), 3)).notes == ()
        assert both.lookup(["k001"]).schema.metadata[MISMATCHES] == b"0"


def test_an_index_is_not_its_own_shadow() -> None:
    table = Indexed(IndexKind.ROCKSDB, {"pyhudi.index.shadow": "ROCKSDB"}).table()
    with pytest.raises(OptionError, match="a different index"):
        table.upsert(batch(range(3), 1))


def test_buckets_of_another_hash_are_distinguished() -> None:
    """Both indexes have as many buckets, and keys fall into them differently."""
    options = {"pyhudi.index.shadow": "ROCKSDB", "pyhudi.index.elastic.hash": "murmur3"}
    table = Indexed(IndexKind.ELASTIC, options).table()
    table.upsert(batch(range(30), 1))
    report = table.upsert(batch(range(40), 2))
    assert (report.inserted, report.updated) == (10, 30)
    assert not [note for note in report.notes if "elsewhere" in note]
