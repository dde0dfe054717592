"""Logs of partial updates that pyhudi writes, read and compacted by Apache Hudi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.merge.merge_cache import OUTCOMES
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()),
                    ("a", pa.string()), ("b", pa.int32()), ("c", pa.float64())])  # fmt: skip
AVRO = {"ts": "long", "a": "string", "b": "int", "c": "double"}


def whole(ids: Any, ts: int) -> pa.Table:
    found = [
        {"id": f"k{i:02}", "ts": ts, "part": f"p{i % 2}", "a": f"a{i}", "b": i, "c": i / 2}
        for i in ids
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def some(ids: Any, **values: Any) -> pa.Table:
    found = [{"id": f"k{i:02}", "part": f"p{i % 2}", **values} for i in ids]
    names = ["id", "part", *values]
    return pa.Table.from_pylist(found, pa.schema([SCHEMA.field(name) for name in names]))


def update(path: Path, options: dict[str, str], rows: pa.Table) -> None:
    """Set the columns of the rows that are not keys."""
    names = [name for name in SCHEMA.names if name in rows.column_names and name in AVRO]
    fields = [{"name": name, "type": ["null", AVRO[name]]} for name in names]
    text = json.dumps({"type": "record", "name": "some", "fields": fields})
    given = {**options, "hoodie.write.partial.update.schema": text}
    pyhudi.open_table(path, options=given).upsert(rows)


def seen(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(SCHEMA.names).to_pylist())


@pytest.mark.parametrize(
    ("version", "index", "log_format", "ordering"),
    [(9, "simple", "avro", "ts"), (8, "simple", "parquet", "ts"), (9, "record", "avro", None)],
)
def test_apache_hudi_reads_and_compacts_our_partial_updates(
    version: int, index: str, log_format: str, ordering: str | None, tmp_path: Path,
    apache_hudi: Any,
) -> None:  # fmt: skip
    hudi: ApacheHudi = apache_hudi("1.2.0")
    path = tmp_path / "t"
    options = {"hoodie.logfile.data.block.format": log_format}
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering=ordering, table_type="mor",
        index=index, version=version, options=options,
    )  # fmt: skip
    table.bulk_insert(whole(range(20), 1))
    update(path, options, some([1, 4, 7], ts=5, b=None))
    update(path, options, some([4, 9], ts=6, a="new", c=9.5))
    pyhudi.open_table(path, options=options).upsert(whole([7, 8], 7))
    update(path, options, some([8, 10], ts=8, a=None, b=-1))
    update(path, options, some([1, 9, 3], ts=0, c=-2.0))  # late, where there is an order
    OUTCOMES.clear()
    want = seen(pyhudi.open_table(path).scan().to_arrow())
    ours = {row[0]: row for row in want}
    assert ours["k04"] == ("k04", 6, "p0", "new", None, 9.5)
    assert ours["k10"] == ("k10", 8, "p0", None, -1, 5.0)
    assert ours["k08"] == ("k08", 8, "p0", None, -1, 4.0)
    assert seen(hudi.read(path)) == want
    by_position = {"hoodie.merge.use.record.positions": "true"}
    assert seen(hudi.read(path, conf=by_position)) == want
    hudi.call("service", path=str(path), name="compact", args={})
    assert seen(hudi.read(path)) == want
    OUTCOMES.clear()
    assert seen(pyhudi.open_table(path).scan().to_arrow()) == want
