"""Vectors, variants, BLOBs and Lance files in tables that Apache Hudi 1.2.0 wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import UnsupportedTableError
from pyhudi.formats.logical_types import stored_types
from tests.support.foreign import expected_rows, foreign_table

VECTOR = {
    "type": "fixed", "name": "vector_float_2", "namespace": "", "size": 8,
    "logicalType": "vector", "dimension": 2, "elementType": "FLOAT",
}  # fmt: skip
BLOB = {"type": "record", "name": "blob", "namespace": "", "fields": [], "logicalType": "blob"}


@pytest.mark.parametrize("name", ["vectors_mor_v6", "vectors_mor_v9"])
def test_vectors_of_one_kind_are_lists_in_every_column(name: str, tmp_path: Path) -> None:
    """The second column of a kind has it by its Avro name; values are in base files and logs."""
    table = pyhudi.open_table(foreign_table(name, tmp_path))
    found = table.scan().to_arrow().sort_by("id")
    expected = expected_rows(tmp_path).sort_by("id")
    assert found.to_pylist() == expected.to_pylist()
    for column in ("f", "g"):
        assert found.schema.field(column).type == pa.list_(pa.field("element", pa.float32()))
        assert table.schema.field(column).metadata == {b"hudi_type": b"VECTOR(2)"}
    assert table.changes("000").to_arrow().sort_by("id").to_pylist() == found.to_pylist()


@pytest.mark.parametrize("name", ["variant_mor_v6", "variant_mor_v9"])
def test_variants_are_structs_of_their_bytes(name: str, tmp_path: Path) -> None:
    """As Apache Hudi 1.2.0 gives them where Spark has no variant type."""
    table = pyhudi.open_table(foreign_table(name, tmp_path))
    found = table.scan(with_meta=False).to_arrow().sort_by("id")
    assert found.to_pylist() == expected_rows(tmp_path).sort_by("id").to_pylist()
    assert found.num_rows == 4 and found["v"].null_count == 1
    assert table.schema.field("v").metadata == {b"hudi_type": b"VARIANT"}


def test_shredded_variants_are_refused(tmp_path: Path) -> None:
    """A file that has a variant's values in a typed column is not read without them."""
    root = foreign_table("variant_mor_v6", tmp_path)
    (base,) = root.glob("*.parquet")
    for log in root.glob(".*.log.*"):
        log.unlink()
    for commit in sorted((root / ".hoodie").glob("*.deltacommit*"))[3:]:
        commit.unlink()
    rows = pq.read_table(base)
    parts = rows["v"].combine_chunks().flatten()
    shredded = pa.StructArray.from_arrays(
        [*parts, pa.nulls(len(parts[0]), pa.int64())], ["metadata", "value", "typed_value"]
    )
    pq.write_table(rows.set_column(rows.column_names.index("v"), "v", shredded), base)
    table = pyhudi.open_table(root)
    assert table.scan(["id"]).to_arrow().num_rows == 4
    with pytest.raises(UnsupportedTableError, match=r"shredded variants.*column=v"):
        table.scan().to_arrow()


def test_a_table_with_a_blob_column_is_refused(tmp_path: Path) -> None:
    """At version 6 too."""
    options = {"hoodie.index.type": "BLOOM"}
    table = pyhudi.open_table(foreign_table("blob_v6", tmp_path), options=options)
    rows = pa.table({"id": ["1"], "v": [None], "ts": [1]})
    for attempt in (lambda: table.scan().to_arrow(), lambda: table.upsert(rows)):
        with pytest.raises(UnsupportedTableError, match=r"BLOB columns.*column=v"):
            attempt()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ([BLOB, "blob"], "BLOB columns.*column=c0"),
        ([{"type": "array", "items": BLOB}], "BLOB columns.*column=c0"),
        ([{"type": "array", "items": ["null", VECTOR]}], "vectors inside other.*column=c0"),
        ([VECTOR, {"type": "map", "values": "vector_float_2"}], "vectors inside.*column=c1"),
    ],
)
def test_blobs_and_vectors_inside_columns_are_found_by_name(
    declared: list[object], message: str
) -> None:
    fields = [{"name": f"c{n}", "type": ["null", kind]} for n, kind in enumerate(declared)]
    text = json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": fields})
    with pytest.raises(UnsupportedTableError, match=message):
        stored_types(text)


@pytest.mark.parametrize("of_table", [True, False])
def test_lance_base_files_are_refused(of_table: bool, tmp_path: Path) -> None:
    """A base file's name says that it is one; of_table: the table's properties too."""
    root = tmp_path / "t"
    options = {"hoodie.index.type": "BLOOM", "hoodie.metadata.enable": False}
    table = pyhudi.create_table(
        root, pa.schema([("id", pa.string())]), record_key="id", options=options
    )
    table.insert(pa.table({"id": ["1"]}))
    (base,) = root.glob("*.parquet")
    base.rename(base.with_suffix(".lance")).write_bytes(b"LANC")
    for file in (root / ".hoodie").glob("*.commit*"):
        file.write_bytes(file.read_bytes().replace(b".parquet", b".lance"))
    if of_table:
        properties = root / ".hoodie" / "hoodie.properties"
        text = properties.read_text().replace("file.format=PARQUET", "file.format=LANCE")
        properties.write_text(text)
        with pytest.raises(UnsupportedTableError, match="base files of format LANCE"):
            pyhudi.open_table(root)
        return
    opened = pyhudi.open_table(root, options=options)
    with pytest.raises(UnsupportedTableError, match="base files of format lance"):
        opened.scan().to_arrow()
    before = len(opened.timeline)
    with pytest.raises(UnsupportedTableError, match="base files of format lance"):
        opened.upsert(pa.table({"id": ["1"]}))
    assert len(pyhudi.open_table(root, options=options).timeline) == before
