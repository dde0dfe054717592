"""Apache Hudi filters tables of versions 8 and 9 by the statistics that pyhudi writes.

Rows are equal with data skipping on and off, for every type with an order, and fewer files are
opened with it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([
    ("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("flag", pa.bool_()),
    ("small", pa.int32()), ("single", pa.float32()), ("double", pa.float64()),
    ("raw", pa.binary()), ("day", pa.date32()), ("price", pa.decimal128(9, 2)),
    ("large", pa.decimal128(38, 18)), ("at", pa.timestamp("us", "UTC")),
    ("millis", pa.timestamp("ms", "UTC")), ("local", pa.timestamp("us")),
    ("late", pa.int32()), ("addr", pa.struct([("zip", pa.int32())])),
])  # fmt: skip
NARROW = pa.schema([field for field in SCHEMA if field.name != "late"])
STATS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
}
START = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)


def row(n: int) -> dict[str, Any]:
    at = START + dt.timedelta(hours=n)
    return {
        "id": f"k{n:03d}", "part": f"p{n // 20}", "ts": n, "flag": n < 20 if n % 20 else None,
        "small": n - 30, "single": n / 4, "double": -n / 8,
        "raw": b"%03d" % n, "day": at.date(), "price": Decimal(n - 30) / 4,
        "large": Decimal(n - 30) * 10**15, "at": at, "millis": at,
        "local": at.replace(tzinfo=None), "late": n if n >= 40 else None, "addr": {"zip": n},
    }  # fmt: skip


def rows(numbers: range, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([row(n) for n in numbers], schema)


FILTERS = {
    "id = 'k033'": 1,
    "_hoodie_record_key > 'k057'": 2,
    "flag = true": 19,
    "flag is null": 3,
    "small < -27": 3,
    "single >= 14.5": 2,
    "double < -7": 3,
    "double = 0.0": 1,
    "raw = X'303333'": 1,
    "day = date'2026-11-23'": 24,
    "price between -0.5 and 0.25": 4,
    "large > 28000000000000000": 1,
    "at < timestamp'2026-11-22 02:00:00'": 2,
    "millis = timestamp'2026-11-22 02:00:00'": 1,
    "local = timestamp_ntz'2026-11-22 02:00:00'": 1,
    "late is null": 40,
    "late = 45": 1,
    "part = 'p1' and small = 3": 1,
    "small = 1000": 0,
}
PRUNED = {
    "id = 'k033'", "small < -27", "single >= 14.5", "day = date'2026-11-23'",
    "price between -0.5 and 0.25", "late = 45", "at < timestamp'2026-11-22 02:00:00'",
}  # fmt: skip
READING = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}


def filtered(hudi: ApacheHudi, path: Path, where: str, *, skipping: bool) -> dict[str, Any]:
    conf = {**READING, "hoodie.enable.data.skipping": str(skipping).lower()}
    return hudi.call("scanned", path=str(path), where=where, conf=conf)


def check_filters(hudi: ApacheHudi, path: Path, expected: dict[str, int]) -> None:
    conf = {**READING, "hoodie.enable.data.skipping": "false"}
    plain = hudi.call("counted", path=str(path), wheres=list(expected), conf=conf)
    assert plain["rows"] == list(expected.values())
    fewer = set()
    for where, count in expected.items():
        pruned = filtered(hudi, path, where, skipping=True)
        assert pruned["rows"] == count, where
        if pruned["files"] < plain["files"]:
            fewer.add(where)
    assert fewer >= PRUNED


@pytest.mark.slow
@pytest.mark.conformance(23)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_filters_with_our_statistics_find_every_row(
    version: int, kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi, path = apache_hudi("1.2.0"), tmp_path / "t"
    table = pyhudi.create_table(
        path, NARROW, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=version, options=STATS,
    )  # fmt: skip
    table.bulk_insert(rows(range(10), NARROW))
    table.bulk_insert(rows(range(10, 40), NARROW))
    table.upsert(rows(range(40, 60)), schema_mode="add")
    table.upsert(rows(range(5, 8)))
    check_filters(hudi, path, FILTERS)
    assert not table.metadata.verify().findings


@pytest.mark.conformance(23)
def test_statistics_of_both_writers_find_every_row(
    tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi, path = apache_hudi("1.2.0"), tmp_path / "t"
    names = ["id", "part", "ts", "small", "price", "day"]
    table = pyhudi.create_table(
        path, pa.schema([SCHEMA.field(name) for name in names]), record_key="id",
        partition_by="part", ordering="ts", version=9, options=STATS,
    )  # fmt: skip
    table.bulk_insert(rows(range(60)).select(names))
    more = tmp_path / "more.parquet"
    pq.write_table(rows(range(60, 70)).select(names), more)
    conf = {**READING, "hoodie.metadata.index.bloom.filter.enable": "true"}
    hudi.call("write", path=str(path), rows=str(more), operation="upsert", conf=conf)
    pyhudi.open_table(path, options=STATS).upsert(rows(range(68, 72)).select(names))
    for where, count in {"small = 35": 1, "ts >= 58": 14, "price > 9.5": 3}.items():
        for skipping in (True, False):
            assert filtered(hudi, path, where, skipping=skipping)["rows"] == count, where
    assert not pyhudi.open_table(path).metadata.verify().findings
