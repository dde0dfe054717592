"""Trino's expectations of Hudi tables.

From trinodb/trino, TestHudiSmokeTest at 077baf40, and the tables of its plugin in apache/hudi:
stock_ticks_mor and hudi_multi_pt_v8_mor are in tests/golden/foreign; hudi_cow_pt_tbl and
hudi_non_part_cow are written here by the rows that the tests state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from tests.support.foreign import foreign_table


def answer(table: pyhudi.Table, text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("t", table.to_pyarrow_dataset())
        return sorted(connection.sql(text).fetchall())


def test_stock_ticks(tmp_path: Path) -> None:
    table = pyhudi.open_table(foreign_table("mor_v3", tmp_path))
    latest = answer(table, "select symbol, max(ts) from t group by symbol having symbol = 'GOOG'")
    assert latest == [("GOOG", "2018-08-31 10:59:00")]
    assert answer(table, "select date, count(*) from t group by date") == [("2018/08/31", 99)]
    (file,) = table.scan(["_hoodie_file_name"], "volume = 6794").to_arrow().to_pylist()
    assert list(Path(tmp_path / "mor_v3").rglob(f"*{file['_hoodie_file_name'].split('_')[0]}*"))


ROWS = pa.table(
    {
        "id": [1, 2], "name": ["a1", "a2"], "ts": [1000, 1000],
        "dt": ["2021-12-09", "2021-12-09"], "hh": ["10", "11"],
    }
)  # fmt: skip


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_with_two_partition_columns(version: int, tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path, ROWS.schema, record_key="id", partition_by=["dt", "hh"], ordering="ts",
        version=version, options={"hoodie.datasource.write.hive_style_partitioning": "true"},
    )  # fmt: skip
    table.upsert(ROWS)
    for id, hour in ((1, "10"), (2, "11")):
        expected = [(id, f"a{id}", 1000, "2021-12-09", hour)]
        assert answer(table, f"select * from t where id = {id}") == expected
        (path,) = table.scan(["_hoodie_partition_path"], f"id = {id}").to_arrow().to_pylist()
        assert path == {"_hoodie_partition_path": f"dt=2021-12-09/hh={hour}"}
        scan = table.scan(["name"], pc.field("hh") == hour)
        assert (scan.count(), scan.plan.partitions_read) == (1, 1)
    assert answer(table, "select name from t where dt is not null") == [("a1",), ("a2",)]
    joined = "select a.name, b.name from t a join t b on a.dt = b.dt where a.hh = '10'"
    assert answer(table, joined) == [("a1", "a1"), ("a1", "a2")]


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path, ROWS.schema, record_key="id", ordering="ts")
    table.upsert(ROWS)
    assert answer(table, "select id, name from t") == [(1, "a1"), (2, "a2")]


def test_column_ranges_leave_one_file_of_a_partition(tmp_path: Path) -> None:
    """Two file groups in each of two partitions, as in hudi_multi_fg_pt_mor of version 8."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("country", pa.string())])
    table = pyhudi.create_table(
        tmp_path, schema, record_key="id", partition_by="country", table_type="mor", version=8,
        options={
            "hoodie.metadata.index.column.stats.enable": "true",
            "hoodie.parquet.small.file.limit": "0",
        },
    )  # fmt: skip
    for n in (1, 2):
        table.insert(
            pa.table({"id": [n, n + 2], "name": [f"a{n}"] * 2, "country": ["SG", "US"]}, schema)
        )
    country = pc.field("country") == "SG"
    assert len(table.scan().plan.tasks) == 4
    assert len(table.scan(where=country).plan.tasks) == 2
    scan = table.scan(where=country & (pc.field("name") == "a1"))
    assert len(scan.plan.tasks) == 1 and scan.to_arrow()["id"].to_pylist() == [1]
