"""The HBase index on a real HBase: the suite's life of keys, and turns with Apache Hudi's own.

Apache Hudi 0.15.0 is the last release with that index: its bundle holds the client, which finds
the region servers through ZooKeeper; pyhudi goes through the Thrift gateway of the same HBase.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pyhudi
from pyhudi.options import IndexKind
from pyhudi.table.properties import TableType
from tests.index import test_contract as contract
from tests.interop.test_indexes import Turns
from tests.support.apache_hudi import ApacheHudi
from tests.support.hbase import HBase, shared_hbase
from tests.support.index_kinds import Indexed

pytestmark = [pytest.mark.hbase, pytest.mark.slow]


@pytest.fixture
def hbase() -> Iterator[HBase]:
    yield shared_hbase()


@pytest.fixture
def index(hbase: HBase) -> Indexed:
    return Indexed(IndexKind.HBASE, hbase.options(hbase.table()))


@pytest.mark.parametrize("kind", list(TableType))
def test_the_life_of_keys_on_a_real_hbase(index: Indexed, kind: TableType) -> None:
    contract.test_the_life_of_keys(index, kind)


def test_other_parts_of_the_suite_on_a_real_hbase(hbase: HBase) -> None:
    for part in (
        contract.test_a_failed_commit_leaves_no_trace,
        contract.test_clustered_records_are_found,
    ):
        part(Indexed(IndexKind.HBASE, hbase.options(hbase.table())))


def test_rows_are_as_apache_hudi_writes_them(hbase: HBase, index: Indexed) -> None:
    table = index.table()
    report = table.upsert(contract.batch([4], 1))
    place = table.lookup(["k004"]).to_pylist()[0]
    assert hbase.rows(index.options["hoodie.index.hbase.table"]) == {
        b"k004": {
            b"_s:commit_ts": str(report.instant).encode(),
            b"_s:file_name": place["file_id"].encode(),
            b"_s:partition_path": b"p1",
        }
    }


@pytest.mark.interop
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_turns_with_apache_hudi_on_one_hbase_table(
    kind: str, hbase: HBase, tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    """Both directions: each finds, moves and deletes what the other wrote."""
    name = hbase.table()
    host, _, port = hbase.zookeeper.partition(":")
    conf = {
        "hoodie.index.type": "HBASE", "hoodie.index.hbase.table": name,
        "hoodie.index.hbase.zkquorum": host, "hoodie.index.hbase.zkport": port,
        "hoodie.index.hbase.zknode.path": "/hbase",
        "hoodie.hbase.index.update.partition.path": "true",
    }  # fmt: skip
    options = {**hbase.options(name), "hoodie.hbase.index.update.partition.path": True}
    old = [hudi for hudi in hudis if hudi.version == "0.15.0"]
    turns = HBaseTurns(IndexKind.HBASE, tmp_path / "t", kind, hudis, **options)
    for _ in range(2):
        turns.by_pyhudi()
        turns.agree()
        turns.by_apache_hudi(old[0], **conf)
        turns.agree()
        turns.entries_agree(hbase, name)


class HBaseTurns(Turns):
    """Turns whose table pyhudi opens with what it takes to reach HBase."""

    def by_pyhudi(self) -> None:
        table = pyhudi.open_table(self.path, options=self.options)
        report = table.upsert(self.batch())
        assert "hbase index" in report.index
        table.delete(self.delete())

    def entries_agree(self, hbase: HBase, name: str) -> None:
        """HBase has an entry for each key, which names the file that holds it."""
        rows = pyhudi.open_table(self.path).scan(
            ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
        )
        entries = hbase.rows(name)
        stored = rows.to_arrow().to_pylist()
        assert {key.decode() for key in entries} == {r["_hoodie_record_key"] for r in stored}
        for row in stored:
            entry = entries[row["_hoodie_record_key"].encode()]
            assert entry[b"_s:partition_path"].decode() == row["_hoodie_partition_path"]
            assert entry[b"_s:file_name"].decode() in row["_hoodie_file_name"]
