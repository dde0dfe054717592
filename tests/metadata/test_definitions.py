"""Column statistics are defined for Apache Hudi 1.x, which does not use them otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError, UserError
from pyhudi.metadata.definitions import (
    DEFINITIONS,
    LOCATION,
    columns_to_index,
    define_column_stats,
    define_record_index,
    follow_schema,
    remove_definition,
    stats_definition,
)
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableConfig

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


def table_of(path: Path, *, version: int = 6, **options: Any) -> pyhudi.Table:
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering="ts", version=version, options=options
    )


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


# ---- versions 8 and 9 ---------------------------------------------------------------------------


def config_of(version: int, *partitions: str, **properties: str) -> TableConfig:
    listed = ",".join(partitions)
    return TableConfig({
        "hoodie.table.name": "t", "hoodie.table.version": str(version),
        "hoodie.table.metadata.partitions": listed, **properties,
    })  # fmt: skip


def stored(fs: MemoryFileSystem, path: str = DEFINITIONS) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fs.read(path))["indexDefinitions"]
    return found


@pytest.mark.parametrize(("version", "index"), [(8, "V1"), (9, "V2")])
def test_column_statistics_have_the_index_version_of_the_table(version: int, index: str) -> None:
    fs = MemoryFileSystem()
    config = define_column_stats(fs, config_of(version), SCHEMA)
    assert config.properties[LOCATION] == DEFINITIONS
    (found,) = stored(fs).values()
    assert found["version"] == index
    assert set(found["sourceFields"]) == {*INDEXED}
    definition = stats_definition(fs, config)
    assert (definition.version, definition.columns) == (version - 7, {*INDEXED})


def test_the_first_32_columns_are_indexed_by_default() -> None:
    schema = pa.schema(
        [("tags", pa.list_(pa.string())), *((f"c{n}", pa.int32()) for n in range(40))]
    )
    columns = columns_to_index(schema, (), 2)
    assert columns == [*INDEXED[:3], *(f"c{n}" for n in range(32))]


def test_named_columns_are_indexed_after_the_meta_columns() -> None:
    assert columns_to_index(SCHEMA, ["addr.city", "ts", "ts"], 2) == [
        *INDEXED[:3], "addr.city", "ts",
    ]  # fmt: skip


@pytest.mark.parametrize(("column", "version"), [("tags", 2), ("addr", 2), ("no", 2), ("raw", 2)])
def test_a_column_without_an_order_is_rejected(column: str, version: int) -> None:
    with pytest.raises(UserError, match="not possible"):
        columns_to_index(SCHEMA, [column], version)


def test_new_columns_of_the_schema_are_defined_and_old_ones_are_not_added() -> None:
    fs = MemoryFileSystem()
    config = define_column_stats(fs, config_of(9, "column_stats"), SCHEMA, ["ts"])
    wider = SCHEMA.append(pa.field("extra", pa.int32())).append(pa.field("l", pa.list_(pa.int8())))
    follow_schema(fs, config, wider, ["extra", "l"])
    assert stored(fs)["column_stats"]["sourceFields"] == [*INDEXED[:3], "ts", "extra"]
    follow_schema(fs, config, wider, ["extra"])
    assert stored(fs)["column_stats"]["sourceFields"] == [*INDEXED[:3], "ts", "extra"]


def test_every_definition_of_version_9_has_a_version() -> None:
    fs = MemoryFileSystem()
    elsewhere = ".hoodie/other/index.json"
    old = {"indexDefinitions": {"secondary_index_x": {"indexName": "secondary_index_x"}}}
    fs.create(elsewhere, json.dumps(old).encode())
    config = config_of(9, **{LOCATION: f"/{elsewhere}"})
    assert define_record_index(fs, config) == config
    found = stored(fs, elsewhere)
    assert {name: each["version"] for name, each in found.items()} == {
        "secondary_index_x": "V1", "record_index": "V1",
    }  # fmt: skip
    assert found["record_index"]["indexOptions"] == {"isPartitioned": "false"}
    remove_definition(fs, config, "secondary_index_x")
    assert list(stored(fs, elsewhere)) == ["record_index"]


@pytest.mark.parametrize("text", ["{", '{"indexDefinitions": {}}', None])
@pytest.mark.parametrize("version", [8, 9])
def test_a_rebuild_replaces_definitions_that_cannot_be_used(
    tmp_path: Path, version: int, text: str | None
) -> None:
    path = tmp_path / "t"
    table_of(path, version=version, **STATS).upsert(ROWS)
    expected = definitions(path)["column_stats"]
    (path / DEFINITIONS).unlink()
    if text is not None:
        (path / DEFINITIONS).write_text(text)
    with pytest.raises(CorruptFileError, match=r"index definitions.*table\.metadata\.rebuild"):
        pyhudi.open_table(path).upsert(ROWS)
    assert pyhudi.open_table(path).scan().count() == 1
    (finding,) = pyhudi.open_table(path).doctor().problems
    assert finding.path == DEFINITIONS and "index definitions" in finding.why
    pyhudi.open_table(path).repair()
    assert pyhudi.open_table(path).upsert(ROWS).updated == 1
    assert definitions(path)["column_stats"] == expected
    assert pyhudi.open_table(path).doctor().is_healthy


def test_definitions_outside_the_table_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table_of(path, version=9, **STATS).upsert(ROWS)
    properties = path / ".hoodie" / "hoodie.properties"
    inside = properties.read_text()
    properties.write_text(inside.replace(f"{LOCATION}={DEFINITIONS}", f"{LOCATION}=../x.json"))
    for act in (lambda t: t.upsert(ROWS), lambda t: t.metadata.rebuild()):
        with pytest.raises(CorruptFileError, match=r"outside the table.*value=\.\./x\.json"):
            act(pyhudi.open_table(path))
    assert not pyhudi.open_table(path).doctor().is_healthy
    assert not (tmp_path / "x.json").exists()


def test_a_definition_without_a_version_is_version_1() -> None:
    fs = MemoryFileSystem()
    text = {"indexDefinitions": {"column_stats": {"sourceFields": ["a"]}}}
    fs.create(DEFINITIONS, json.dumps(text).encode())
    assert stats_definition(fs, config_of(9)).version == 1
    assert stats_definition(fs, config_of(6)).columns is None
    fs.replace(DEFINITIONS, b'{"indexDefinitions": {}}')
    with pytest.raises(CorruptFileError, match="index definitions"):
        stats_definition(fs, config_of(8))
