"""Turns with Apache Hudi 1.2.0 on tables of pyhudi with slash separated dates, with keys in
structs, and after a repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.table.properties import SLASHES, TableType
from tests.support.apache_hudi import ApacheHudi
from tests.support.damaged_timelines import opened
from tests.support.golden import turns_table

pytestmark = pytest.mark.interop

BY_INDEX = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX", "hoodie.clean.automatic": "false"}
FEW = {"hoodie.metadata.record.index.min.filegroup.count": "1",
       "hoodie.metadata.index.column.stats.enable": "true"}  # fmt: skip
DAYS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int32()), ("day", pa.string())])
INNER = pa.struct([("k", pa.string()), ("ts", pa.int64()), ("p", pa.string())])
NESTED = pa.schema([("id", pa.string()), ("s", INNER), ("v", pa.int64())])


def day_row(number: int, ts: int) -> dict[str, Any]:
    day = date(2023, 12, 30) + timedelta(days=1 + number % 2)
    return {"id": f"k{number}", "ts": ts, "v": number * ts, "day": str(day)}


def nested_row(number: int, ts: int) -> dict[str, Any]:
    inner = {"k": f"n{number}", "ts": ts, "p": f"p{number % 2}"}
    return {"id": f"i{number}", "s": inner, "v": number * ts}


@dataclass
class Turns:
    """A table that both write; rows: what it has, by number.

    theirs: options of Apache Hudi that it does not take from the table.
    """

    path: Path
    hudi: ApacheHudi
    schema: pa.Schema
    row: Callable[[int, int], dict[str, Any]]
    theirs: dict[str, str] = field(default_factory=dict)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    ts: int = 0

    @property
    def table(self) -> pyhudi.Table:
        return pyhudi.open_table(self.path, options=FEW)

    def batch(self, numbers: Iterable[int], ts: int) -> pa.Table:
        return pa.Table.from_pylist([self.row(number, ts) for number in numbers], self.schema)

    def ours(self, numbers: Iterable[int]) -> None:
        self.ts += 1
        self.table.upsert(self.batch(numbers, self.ts))
        self.rows |= {number: self.row(number, self.ts) for number in numbers}

    def their(self, numbers: Iterable[int], *, ts: int | None = None) -> None:
        """An upsert by Apache Hudi; of older rows, if ts is that of none."""
        self.ts += 1
        stored = self.path.parent / "batch.parquet"
        pq.write_table(self.batch(numbers, self.ts if ts is None else ts), stored)
        self.hudi.call(
            "write", path=str(self.path), rows=str(stored), conf={**BY_INDEX, **self.theirs}
        )
        for number in numbers:
            if ts is None or number not in self.rows:
                self.rows[number] = self.row(number, self.ts if ts is None else ts)

    def gone(self, numbers: Iterable[int]) -> None:
        self.ts += 1
        self.table.delete(self.batch(numbers, self.ts))
        self.rows = {n: row for n, row in self.rows.items() if n not in numbers}

    def agree(self) -> None:
        """Both read these rows, by the metadata table and by listing; nothing is damaged."""
        names = self.schema.names
        expected = sorted(map(str, self.rows.values()))
        reads = [self.table.scan(names).to_arrow()]
        reads += [
            self.hudi.read(self.path, mdt=listed, conf=self.theirs) for listed in ("on", "off")
        ]
        for read in reads:
            assert sorted(map(str, read.select(names).to_pylist())) == expected
        self.hudi.call("validate", path=str(self.path))
        assert not self.table.metadata.verify().findings
        assert not self.table.doctor().problems

    def take(self, late: range) -> None:
        """Writes of both, the last with ordering values that are too small, and a compaction."""
        self.ours(range(12))
        self.agree()
        self.their(range(8, 20))
        self.ours(range(18, 24))
        self.gone(range(3))
        self.their(late, ts=0)
        if self.table.config.table_type is TableType.MERGE_ON_READ:
            self.table.compact()
        self.agree()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_both_write_to_the_same_paths_of_dates(
    kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    pyhudi.create_table(
        tmp_path / "t", DAYS, record_key="id", partition_by="day", ordering="ts",
        table_type=kind, version=9, options={**FEW, SLASHES: "true"},
    )  # fmt: skip
    turns = Turns(tmp_path / "t", apache_hudi("1.2.0"), DAYS, day_row, {SLASHES: "true"})
    turns.take(range(2, 8))
    assert sorted(turns.table.partitions()) == ["2023/12/31", "2024/01/01"]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_both_find_keys_partitions_and_order_in_a_struct(
    kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    pyhudi.create_table(
        tmp_path / "t", NESTED, record_key="s.k", partition_by="s.p", ordering="s.ts",
        table_type=kind, version=9, options=FEW,
    )  # fmt: skip
    turns = Turns(tmp_path / "t", apache_hudi("1.2.0"), NESTED, nested_row)
    turns.take(range(2, 26))
    assert sorted(turns.table.partitions()) == ["p0", "p1"]


@pytest.mark.parametrize("name", ["half_rolled_back_cow_v9", "half_rolled_back_mor_v9"])
def test_apache_hudi_writes_to_a_table_after_a_repair(
    name: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    fs = turns_table(name)
    opened(fs).repair()
    path = tmp_path / "t"
    for stored, content in fs.store.files.items():
        (path / stored).parent.mkdir(parents=True, exist_ok=True)
        (path / stored).write_bytes(content)
    before = pyhudi.open_table(path).scan(["id", "ts"]).to_arrow()
    turns = Turns(
        path, apache_hudi("1.2.0"), before.schema, lambda n, ts: {"id": f"k{n}", "ts": ts}, ts=9
    )
    turns.rows = {int(row["id"][1:]): row for row in before.to_pylist()}
    turns.agree()
    turns.their(range(4, 16))
    turns.ours(range(10, 20))
    turns.their(range(18, 22))
    turns.agree()
