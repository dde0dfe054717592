"""Variant columns written: structs of metadata and value, as Apache Hudi 1.2.0 stores them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi import Table
from pyhudi.errors import UserError
from tests.support.foreign import expected_rows, foreign_table

PARTS = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        pa.field("v", PARTS, metadata={"hudi_type": "VARIANT"}),
        ("n", pa.int64()),
    ]
)


def number(value: int) -> dict[str, bytes]:
    """A variant of one byte."""
    return {"metadata": b"\x01\x00\x00", "value": bytes([12, value])}


def rows(values: dict[str, Any]) -> pa.Table:
    columns = {"id": list(values), "v": list(values.values()), "n": [1] * len(values)}
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in SCHEMA}, SCHEMA)


def stored(table: Table) -> dict[str, Any]:
    return {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
def test_variants_come_back_from_every_file_they_go_through(
    kind: str, log_format: str, tmp_path: Path
) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", table_type=kind,
        options={"hoodie.logfile.data.block.format": log_format},
    )  # fmt: skip
    first = {"1": number(1), "2": None, "3": number(3), "4": number(4)}
    table.insert(rows(first))
    (file,) = (tmp_path / "t").glob("*.parquet")
    metadata = pq.read_metadata(file)
    assert "required binary field_id=-1 metadata;" in str(metadata.schema)
    fields = json.loads(metadata.metadata[b"parquet.avro.schema"])["fields"]
    (declared,) = [field["type"][1] for field in fields if field["name"] == "v"]
    assert (declared["name"], declared["logicalType"]) == ("variant", "variant")
    assert [part["type"] for part in declared["fields"]] == ["bytes", "bytes"]
    second = {"2": number(2), "3": None, "5": None}
    table.upsert(rows(second))
    assert stored(table) == {**first, **second}
    if kind == "mor":
        table.compact()
    table.cluster()
    assert stored(table) == {**first, **second}
    assert table.schema.field("v").metadata == {b"hudi_type": b"VARIANT"}


@pytest.mark.parametrize("part", ["metadata", "value"])
def test_half_a_variant_is_refused_before_anything_is_written(part: str) -> None:
    table = pyhudi.create_table(f"memory://half_{part}", SCHEMA, record_key="id")
    broken = rows({"1": number(1), "2": None, "3": {**number(1), part: None}})
    with pytest.raises(UserError, match=r"a variant has no.*column=v, row=2"):
        table.upsert(broken)
    assert not len(table.timeline)


@pytest.mark.parametrize("more", [False, True])
def test_a_table_of_apache_hudi_goes_on_with_its_variants(more: bool, tmp_path: Path) -> None:
    """more: the batch brings a new column, so that the schema is stated again."""
    root = foreign_table("variant_mor_v6", tmp_path)
    table = pyhudi.open_table(root, options={"hoodie.index.type": "BLOOM"})
    batch = rows({"2": number(9), "7": None}).rename_columns(["id", "v", "ts"])
    batch = batch.set_column(2, "ts", pa.array([5, 5]))
    table.upsert(
        batch.append_column("more", pa.array([1, 2])) if more else batch, schema_mode="widen"
    )
    before = {row["id"]: row["v"] for row in expected_rows(tmp_path).to_pylist()}
    assert stored(table) == {**before, "2": number(9), "7": None}
    assert table.schema.field("v").metadata == {b"hudi_type": b"VARIANT"}
