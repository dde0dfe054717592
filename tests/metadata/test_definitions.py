"""Column statistics are defined for Apache Hudi 1.x, which does not use them otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError
from pyhudi.metadata.definitions import DEFINITIONS, LOCATION

STATS = {"hoodie.metadata.index.column.stats.enable": "true"}
SCHEMA = pa.schema([
    ("id", pa.string()), ("ts", pa.int64()), ("price", pa.decimal128(9, 2)), ("day", pa.date32()),
    ("raw", pa.binary()), ("addr", pa.struct([("city", pa.string())])),
    ("tags", pa.list_(pa.string())),
])  # fmt: skip
INDEXED = [
    "_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key",
    "id", "ts", "price", "day",
]  # fmt: skip
ROWS = pa.Table.from_pylist([{"id": "a", "ts": 1}], SCHEMA)


def table_of(path: Path, **options: Any) -> pyhudi.Table:
    return pyhudi.create_table(path, SCHEMA, record_key="id", ordering="ts", options=options)


def definitions(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / DEFINITIONS).read_text())["indexDefinitions"]
    return found


def test_a_table_created_with_column_statistics_defines_them(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **STATS)
    assert definitions(tmp_path / "t") == {
        "column_stats": {
            "indexName": "column_stats", "indexType": "column_stats",
            "indexFunction": "column_stats", "sourceFields": INDEXED, "indexOptions": {},
            "version": "V1",
        }
    }  # fmt: skip
    assert table._state().config.properties[LOCATION] == DEFINITIONS


def test_statistics_added_later_are_defined_and_other_definitions_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_of(path)
    table.upsert(ROWS)
    assert not (path / DEFINITIONS).exists()
    other = {"indexName": "record_index"}
    (path / DEFINITIONS).parent.mkdir()
    (path / DEFINITIONS).write_text(json.dumps({"indexDefinitions": {"record_index": other}}))
    pyhudi.open_table(path, options=STATS).upsert(ROWS)
    assert definitions(path)["record_index"] == other
    assert definitions(path)["column_stats"]["sourceFields"] == INDEXED


def test_a_rebuild_defines_the_columns_that_there_are_now(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = table_of(path, **STATS)
    table.upsert(ROWS)
    more = ROWS.append_column("extra", pa.array([1], pa.int32()))
    table.upsert(more, schema_mode="add")
    table.metadata.rebuild()
    assert definitions(path)["column_stats"]["sourceFields"] == [*INDEXED, "extra"]


@pytest.mark.parametrize("text", ["{", "[]", '{"indexDefinitions": 1}'])
def test_definitions_that_cannot_be_read_are_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    table_of(path).upsert(ROWS)
    (path / DEFINITIONS).parent.mkdir()
    (path / DEFINITIONS).write_text(text)
    with pytest.raises(CorruptFileError, match="index definitions"):
        pyhudi.open_table(path, options=STATS).upsert(ROWS)
    assert (path / DEFINITIONS).read_text() == text
    assert pyhudi.open_table(path).scan().count() == 1


def test_definitions_elsewhere_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table_of(path).upsert(ROWS)
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + f"{LOCATION}=../elsewhere.json\n")
    pyhudi.open_table(path, options=STATS).upsert(ROWS)
    assert not (path / DEFINITIONS).exists() and not (tmp_path / "elsewhere.json").exists()
