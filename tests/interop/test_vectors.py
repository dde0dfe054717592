"""Vector columns that pyhudi writes, as Apache Hudi reads them and goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyhudi
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop


def vector(name: str, text: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, pa.list_(kind), metadata={"hudi_type": text})


SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        vector("f", "VECTOR(3)", pa.float32()),
        vector("g", "VECTOR(3)", pa.float32()),
        vector("d", "VECTOR(2, DOUBLE)", pa.float64()),
        vector("b", "VECTOR(5, INT8)", pa.int8()),
        ("ts", pa.int64()),
    ]
)
NUMBERS = {"f": "<f4", "g": "<f4", "d": "<f8", "b": "i1"}


def rows(low: int, high: int, ts: int) -> pa.Table:
    made = np.random.default_rng(ts)
    count = range(low, high)
    columns = {
        "id": [str(n) for n in count],
        "f": [made.random(3, np.float32) if n % 3 else None for n in count],
        "g": [made.random(3, np.float32) for n in count],
        "d": [[made.random(), -0.0] for n in count],
        "b": [made.integers(-128, 128, 5).astype(np.int8) for n in count],
        "ts": [ts] * len(count),
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in SCHEMA}, SCHEMA)


def by_id(found: pa.Table) -> dict[str, Any]:
    return {row["id"]: row for row in found.select(SCHEMA.names).to_pylist()}


@pytest.mark.parametrize("kind", ["cow", "mor-avro", "mor-parquet"])
def test_vectors_are_read_and_compacted_by_apache_hudi(
    kind: str, tmp_path: Path, apache_hudi: Any
) -> None:
    """Also what its compaction leaves is read; 0.15.0 knows no vectors and reads their bytes."""
    new: ApacheHudi = apache_hudi("1.2.0")
    old: ApacheHudi = apache_hudi("0.15.0")
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering="ts", table_type=kind[:3],
        version=6, options={"hoodie.logfile.data.block.format": kind[4:] or "parquet"},
    )  # fmt: skip
    table.insert(rows(0, 40, 1))
    table.upsert(rows(20, 60, 2))
    expected = {**by_id(rows(0, 40, 1)), **by_id(rows(20, 60, 2))}
    assert by_id(new.read(path)) == expected
    for row in old.read(path).to_pylist():
        for name, numbers in NUMBERS.items():
            raw = row[name] and np.frombuffer(row[name], numbers).tolist()
            assert raw == expected[row["id"]][name]
    if kind != "cow":
        new.call("service", path=str(path), name="compact")
        assert by_id(pyhudi.open_table(path).scan().to_arrow()) == expected
    table = pyhudi.open_table(path)
    table.cluster()
    table.upsert(rows(50, 70, 3))
    expected = {**expected, **by_id(rows(50, 70, 3))}
    assert by_id(new.read(path)) == expected
