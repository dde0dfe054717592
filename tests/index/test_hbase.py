"""The HBase index: what is put when, what is believed, and what goes wrong; on a stand-in that
speaks the gateway's protocol."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pyhudi.errors import IndexNotReadyError, OptionError, StorageError
from pyhudi.index.hbase.hbase_table import Entry, HBasePlace, Pace
from pyhudi.options import HBaseRules, IndexKind
from pyhudi.table.properties import TableType
from tests.support.engines import Pausing
from tests.support.fake_hbase import FakeHBase, fake_hbase
from tests.support.index_kinds import Indexed, batch, hbase_options
from tests.support.inside import fs_of

WAITING = ".hoodie/.pyhudi_hbase"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[FakeHBase, str]]:
    with fake_hbase() as running:
        yield running


@pytest.fixture
def hbase(server: tuple[FakeHBase, str]) -> FakeHBase:
    server[0].tables.clear()
    server[0].calls.clear()
    server[0].down = False
    server[0].create("keys")
    return server[0]


@pytest.fixture
def index(hbase: FakeHBase, server: tuple[FakeHBase, str]) -> Indexed:
    return Indexed(IndexKind.HBASE, hbase_options(server[1], "keys"))


def test_rows_are_those_of_apache_hudi(hbase: FakeHBase, index: Indexed) -> None:
    report = index.table().upsert(batch([4], 1))
    row = hbase.tables[b"keys"][b"k004"]
    assert row.keys() == {b"_s:commit_ts", b"_s:file_name", b"_s:partition_path"}
    assert row[b"_s:commit_ts"] == str(report.instant).encode()
    assert row[b"_s:partition_path"] == b"p1"


def test_gets_and_puts_go_in_batches(hbase: FakeHBase, index: Indexed) -> None:
    given = {"index__hbase__get__batch__size": 4, "index__hbase__put__batch__size": 5}
    table = index.table(**given)
    table.upsert(batch(range(20), 1))
    assert 5 <= hbase.calls.count("getRowsWithColumns") <= 6  # of two parts
    assert 4 <= hbase.calls.count("mutateRows") <= 5


def test_an_entry_of_a_commit_that_failed_is_not_visible(hbase: FakeHBase, index: Indexed) -> None:
    table = index.table()
    first = table.upsert(batch(range(3), 1))
    row = dict(hbase.tables[b"keys"][b"k000"])
    hbase.tables[b"keys"][b"k099"] = {**row, b"_s:commit_ts": b"20991231235959999"}
    hbase.tables[b"keys"][b"k098"] = {**row, b"_s:file_name": b"no-such-file-0"}
    assert not any(table.lookup(["k099", "k098"])["found"].to_pylist())
    assert table.upsert(batch([98, 99], 2)).inserted == 2
    assert table.lookup(["k000"])["instant_time"].to_pylist() == [first.instant]


OPTIMISTIC = {"write__concurrency__mode": "optimistic_concurrency_control"}


@pytest.mark.parametrize("kind", list(TableType))
@pytest.mark.parametrize("step", ["write", "index"])
def test_two_writers_that_insert_one_key_leave_one_record(
    hbase: FakeHBase, index: Indexed, kind: TableType, step: str
) -> None:
    """Neither replaces the other's entry before it is sure to commit."""
    first = index.table(kind, **OPTIMISTIC)
    first.upsert(batch(range(3), 1))
    fs = fs_of(first)
    meanwhile = Pausing(step, lambda: index.table(kind, fs=fs, **OPTIMISTIC).upsert(batch([9], 2)))
    report = index.table(kind, fs=fs, engine=meanwhile, **OPTIMISTIC).upsert(batch([9], 3))
    assert (report.inserted, report.updated, report.conflicts) == (0, 1, 1)
    found = first.scan(["id", "ts"]).to_arrow().to_pylist()
    assert [row["ts"] for row in found if row["id"] == "k009"] == [3]
    assert index.table(kind, fs=fs).upsert(batch([9], 4)).updated == 1
    assert not fs.children(WAITING)


def test_entries_of_new_keys_are_put_before_the_commit_stands(
    hbase: FakeHBase, index: Indexed
) -> None:
    """A writer that loses HBase then reports it, and its commit does not stand."""
    table = index.table(**OPTIMISTIC)
    table.upsert(batch(range(3), 1))
    real = hbase.mutateRows

    def gone(*call: object) -> None:
        hbase.down = True
        real(*call)  # type: ignore[arg-type]

    hbase.mutateRows = gone  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="request to HBase failed"):
        table.upsert(batch([7], 2))
    hbase.mutateRows = real  # type: ignore[method-assign]
    hbase.down = False
    assert table.scan().count() == 3
    assert table.upsert(batch([7], 2)).inserted == 1
    assert table.lookup(["k007"])["found"].to_pylist() == [True]


def test_what_waits_is_put_by_the_next_writer(hbase: FakeHBase, index: Indexed) -> None:
    """A writer that dies (here: loses HBase) after its commit leaves deletes and moves behind."""
    table = index.table(hbase__index__update__partition__path=True)
    table.upsert(batch(range(6), 1, "p0"))
    real = hbase.mutateRows

    def gone(*call: object) -> None:
        hbase.down = True
        real(*call)  # type: ignore[arg-type]

    hbase.mutateRows = gone  # type: ignore[method-assign]
    table.upsert(batch([1], 2, "p1"))
    hbase.mutateRows = real  # type: ignore[method-assign]
    assert len(fs_of(table).children(WAITING)) == 1
    with pytest.raises(StorageError, match="request to HBase failed") as caught:
        table.upsert(batch([1], 3, "p1"))
    assert caught.value.retryable
    hbase.down = False
    assert table.upsert(batch([1], 4, "p1")).updated == 1
    assert not fs_of(table).children(WAITING)
    assert table.scan().count() == 6


def test_what_is_missing_is_named(hbase: FakeHBase, server: tuple[FakeHBase, str]) -> None:
    def write(**options: str) -> None:
        Indexed(IndexKind.HBASE, options).table().upsert(batch([1], 1))

    with pytest.raises(OptionError, match=r"hoodie\.index\.hbase\.table"):
        write()
    with pytest.raises(OptionError, match=r"pyhudi\.index\.hbase\.gateway"):
        write(**{"hoodie.index.hbase.table": "keys"})
    with pytest.raises(IndexNotReadyError, match="create 'other', '_s'"):
        write(**hbase_options(server[1], "other"))
    hbase.create("families", "f")
    with pytest.raises(IndexNotReadyError, match="column family _s"):
        write(**hbase_options(server[1], "families"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        gateway = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(StorageError, match="request to HBase failed"):
            write(**hbase_options(gateway, "keys"))


def test_the_gateway_is_where_zookeeper_is_by_default() -> None:
    rules = HBaseRules(table="t", quorum="zoo1:2181,zoo2")
    assert HBasePlace.of(rules, 1).gateway == "zoo1:9090"
    with pytest.raises(OptionError, match="host:port"):
        HBasePlace.of(HBaseRules(table="t", gateway="host:x"), 1)


def test_puts_keep_to_their_rate(hbase: FakeHBase, server: tuple[FakeHBase, str]) -> None:
    slept: list[float] = []
    pace = Pace(1000.0, 0, sleep=slept.append, clock=lambda: sum(slept))
    for _ in range(5):
        pace.after(100)
    assert sum(slept) == pytest.approx(0.5)
    rules = HBaseRules(table="keys", gateway=server[1], qps_per_server=400, put_batch=10)
    place = HBasePlace.of(rules, share=2)
    assert place.rows_per_second == 100
    place.put((f"k{n}".encode(), Entry(b"1", b"f", b"p")) for n in range(10))
    assert len(hbase.tables[b"keys"]) == 10


def test_an_insert_that_fails_takes_no_entry_away(hbase: FakeHBase, index: Indexed) -> None:
    """Inserts do not ask, so a key of theirs may have an entry: theirs waits for the commit."""
    table = index.table()
    table.upsert(batch(range(6), 1))
    before = {key: dict(cells) for key, cells in hbase.tables[b"keys"].items()}
    for act in ("insert_overwrite", "bulk_insert"):
        deferred = getattr(table, act)(batch([0, 3, 40], 2, "p0"), publish=False)
        assert hbase.tables[b"keys"] == before
        table.discard(deferred.instant)
        assert hbase.tables[b"keys"] == before
    deferred = table.insert_overwrite(batch([0, 3, 40], 2, "p0"), publish=False)
    table.publish(deferred.instant)
    report = table.upsert(batch([0, 3, 40, 41], 3, "p0"))
    assert (report.inserted, report.updated) == (1, 3)


def test_a_connection_that_the_gateway_ended_is_made_again(
    hbase: FakeHBase, index: Indexed
) -> None:
    table = index.table()
    table.upsert(batch(range(6), 1))
    for _ in range(3):
        hbase.cuts = 1
        assert table.lookup(["k001"])["found"].to_pylist() == [True]
    hbase.cuts = 2
    with pytest.raises(StorageError, match="request to HBase failed"):
        table.lookup(["k001"])
    assert table.upsert(batch(range(7), 2)).inserted == 1
