"""Turns with Apache Hudi 1.2.0 on tables with a record index by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from tests.interop.test_apache_hudi import Turns
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "v": pa.string()})
LEVEL = "hoodie.metadata.record.level.index"
WRITING = {
    "hoodie.embed.timeline.server": "true",  # its look-ups fail without one on these tables
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    f"{LEVEL}.enable": "true",
    "hoodie.metadata.record.index.enable": "false",
    "hoodie.metadata.global.record.level.index.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
PLAIN = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}


def batch(keys: Iterable[int], partition: str, version: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{n:03}", "part": partition, "ts": version, "v": f"v{version}_{n}"}
         for n in keys],
        SCHEMA,
    )  # fmt: skip


@dataclass
class Pair:
    """A table that both write; rows: what it has, by key and partition."""

    table: Table
    hudi: ApacheHudi
    folder: Path
    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    version: int = 0

    @property
    def path(self) -> str:
        return self.table.path.removeprefix("file://")

    def write(self, by_hudi: bool, *changes: tuple[Iterable[int], str]) -> None:
        self.version += 1
        given = pa.concat_tables([batch(keys, name, self.version) for keys, name in changes])
        self._run(given, "upsert", by_hudi)
        for row in given.to_pylist():
            self.rows[row["id"], row["part"]] = row["v"]
        self.check(theirs=self.version % 2 == 0)

    def delete(self, by_hudi: bool, keys: Iterable[int], partition: str) -> None:
        self.version += 1
        given = batch(keys, partition, self.version)
        self._run(given, "delete", by_hudi)
        for row in given.to_pylist():
            self.rows.pop((row["id"], row["part"]), None)
        self.check(theirs=self.version % 2 == 0)

    def _run(self, given: pa.Table, operation: str, by_hudi: bool) -> None:
        if by_hudi:
            stored = str(self.folder / "batch.parquet")
            pq.write_table(given, stored)
            self.hudi.call("write", path=self.path, rows=stored, operation=operation, conf=WRITING)
        elif operation == "upsert":
            self.table.upsert(given)
        else:
            self.table.delete(given)

    def check(self, *, theirs: bool = True) -> None:
        """Both read these rows, and an entry of the index for each of them.

        theirs: whether Apache Hudi reads the rows, as in long forms it always does.
        """
        columns = ["id", "part", "v"]
        found = [self.table.scan(columns).to_arrow().to_pylist()]
        if theirs or Turns.everybody_reads:
            out = str(self.folder / f"read{self.version}.parquet")
            self.hudi.call("read", path=self.path, out=out, select=columns, conf=PLAIN)
            found.append(pq.read_table(out).to_pylist())
        for read in found:
            assert len(read) == len(self.rows)
            assert {(row["id"], row["part"]): row["v"] for row in read} == self.rows
        verified = self.table.index.verify()
        assert (verified.entries, verified.faults) == (len(self.rows), {})
        assert not self.table.metadata.verify().findings
        stored = self.hudi.call("mdt", path=self.path, partition="record_index")
        records = [r for r in stored["partitions"]["record_index"] if r["record"] is not None]
        assert sorted(r["key"] for r in records) == sorted(key for key, _ in self.rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_both_maintain_one_index(
    tmp_path: Path, kind: str, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    """Apache Hudi never gets a key in two partitions in one batch: where one of them has the key,
    1.2.0 writes both rows there."""
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type=kind, version=9, index="partitioned_record",
        options={f"{LEVEL}.min.filegroup.count": "2",
                 "hoodie.metadata.compact.max.delta.commits": "4"},
    )  # fmt: skip
    pair = Pair(table, apache_hudi("1.2.0"), tmp_path)
    pair.write(False, (range(20), "p-a"), (range(10, 30), "p_b"))
    for by_hudi in (True, False):
        pair.write(by_hudi, (range(5, 15), "p-a"), (range(25, 35), "p_b"))
        pair.write(by_hudi, (range(8), f"new/{pair.version}"))
        pair.delete(by_hudi, range(3, 7), "p-a")
    if kind == "mor":
        table.compact()
    table.bulk_insert(batch(range(100, 110), "p-a", 1))
    pair.rows.update({(f"k{n}", "p-a"): f"v1_{n}" for n in range(100, 110)})
    assert table.cluster().instants
    pair.check()
    pair.write(True, (range(12), "p-a"), (range(20, 32), "pz"))
    table.rollback(str(table.upsert(batch(range(50), "pq", 99)).instant))
    pair.write(True, (range(4), "pq"))
    pair.write(False, (range(6), "pq"), (range(3), "p-a"))
