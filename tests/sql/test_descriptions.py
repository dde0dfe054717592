"""SHOW and DESCRIBE, compared with the table's own methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.table.commit_facts import completed_commits

SCHEMA = pa.schema(
    [("id", pa.string()), ("n", pa.int64()), ("tags", pa.list_(pa.string())), ("city", pa.string())]
)


def trips(folder: Path, **more: Any) -> pyhudi.Table:
    arguments: dict[str, Any] = {"record_key": "id", "partition_by": "city", **more}
    table = pyhudi.create_table(folder / "trips", SCHEMA, **arguments)
    cities = {"id": ["a", "b"], "n": [1, 2], "tags": [["x"], None], "city": ["sf", "la"]}
    table.upsert(pa.table(cities, schema=SCHEMA))
    return table


def rows(table: pyhudi.Table, text: str) -> list[tuple[Any, ...]]:
    found = pyhudi.sql(text, tables={"trips": table.path})
    return [tuple(row.values()) for row in found.to_pylist()]


def test_show_tables_lists_given_names_and_those_of_the_folder(tmp_path: Path) -> None:
    trips(tmp_path)
    lake = pyhudi.connect(tmp_path, tables={"news": pa.table({"id": [1]})})
    assert lake.sql("show tables").to_pylist() == [
        {"namespace": "", "tableName": name, "isTemporary": False} for name in ("news", "trips")
    ]


def test_describe_lists_columns_and_partition_columns(tmp_path: Path) -> None:
    table = trips(tmp_path)
    columns = [
        ("id", "string", None), ("n", "bigint", None), ("tags", "array<string>", None),
        ("city", "string", None), ("# Partition Information", "", None),
        ("# col_name", "data_type", "comment"), ("city", "string", None),
    ]  # fmt: skip
    assert rows(table, "describe trips") == rows(table, "desc table trips") == columns
    more = rows(table, "describe extended trips")
    assert more[: len(columns)] == columns
    assert ("Location", table.path, None) in more and ("Version", "9", None) in more
    assert rows(table, "describe formatted trips") == more


@pytest.mark.parametrize("version", [6, 9])
def test_describe_history_is_the_list_of_commits(version: int, tmp_path: Path) -> None:
    table = trips(tmp_path, version=version)
    table.delete(keys=["a"])
    found = pyhudi.sql("describe history trips", tables={"trips": table}).to_pylist()
    assert found == [commit.to_dict() for commit in completed_commits(table._fs)[::-1]]
    assert len(found) == 2


def test_show_partitions(tmp_path: Path) -> None:
    table = trips(tmp_path)
    assert rows(table, "show partitions trips") == [("la",), ("sf",)]
    assert rows(table, f"show partitions hudi.`{table.path}`") == [("la",), ("sf",)]


def test_show_tblproperties_lists_all_or_one(tmp_path: Path) -> None:
    table = trips(tmp_path)
    assert dict(rows(table, "show tblproperties trips")) == dict(table.config.properties)
    one = rows(table, "show tblproperties trips ('hoodie.table.name')")
    assert one == [("hoodie.table.name", "trips")]


def test_show_indexes(tmp_path: Path) -> None:
    table = trips(tmp_path)
    expected = [tuple(row.values()) for row in table.index.list().to_pylist()]
    assert expected and rows(table, "show indexes from trips") == expected
    assert rows(table, "show indexes on trips") == expected


def test_show_create_table_states_columns_keys_and_place(tmp_path: Path) -> None:
    table = trips(tmp_path, table_type="mor", ordering="n")
    ((text,),) = rows(table, "show create table trips")
    assert text == (
        "CREATE TABLE `trips` (\n  `id` string,\n  `n` bigint,\n  `tags` array<string>,\n"
        "  `city` string)\nUSING hudi\nPARTITIONED BY (`city`)\n"
        f"LOCATION '{table.path}'\n"
        "TBLPROPERTIES (\n  type = 'mor',\n  primaryKey = 'id',\n  orderingFields = 'n',\n"
        "  'hoodie.datasource.write.hive_style_partitioning' = 'false')"
    )


@pytest.mark.parametrize(
    "definition",
    [
        {"version": 6},
        {"index": "bucket", "options": {"hoodie.bucket.index.num.buckets": 4}},
        {"options": {"hoodie.datasource.write.partitionpath.urlencode": "true"}},
        {"options": {"hoodie.datasource.write.hive_style_partitioning": "true"}},
        {"options": {"hoodie.table.cdc.enabled": "true"}},
        {"partition_by": ()},
        {"partition_by": [pyhudi.TimestampPartition("city", "DATE_STRING", "yyyy", "yyyyMMdd")]},
    ],
)
def test_show_create_table_creates_the_same_table(
    definition: dict[str, Any], tmp_path: Path
) -> None:
    types = [
        ("id", pa.int64()), ("S", pa.struct([("Big", pa.map_(pa.string(), pa.date32()))])),
        ("local", pa.timestamp("us")), ("at", pa.timestamp("us", "UTC")), ("city", pa.string()),
    ]  # fmt: skip
    arguments = {"record_key": "id", "partition_by": "city", **definition}
    table = pyhudi.create_table(tmp_path / "trips", pa.schema(types), **arguments)
    lake = pyhudi.connect(tmp_path)
    lake.sql("alter table trips set tblproperties ('owner' = 'ana', 'a.b' = 'c')")
    text = lake.sql("show create table trips").to_pylist()[0]["createtab_stmt"]
    before = dict(table.config.properties)
    lake.sql("drop table trips")
    lake.sql(text)
    again = pyhudi.open_table(tmp_path / "trips")
    assert dict(again.config.properties) == before


REFUSED = [
    ("show functions", "this form of SHOW"),
    ("show tables like 'x'", "this form of SHOW"),
    ("show partitions", "this form of SHOW"),
    ("show partitions nothing", "no table has this name"),
    ("show partitions trips partition (city = 'sf')", "not valid SQL|not supported"),
    ("show partitions trips; select 1", "one statement"),
    ("show tblproperties trips ('hoodie.table.nam')", "did you mean hoodie.table.name"),
    ("describe nothing", "no table has this name"),
    ("describe trips city", "not valid SQL"),
    ("describe select 1", "a table is expected"),
    ("explain describe trips", "EXPLAIN of this statement"),
]


@pytest.mark.parametrize(("text", "error"), REFUSED, ids=[text for text, _ in REFUSED])
def test_other_forms_are_refused(text: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(pyhudi.PyhudiError, match=error):
        rows(trips(tmp_path), text)


def test_a_table_without_partitions_has_none_to_show(tmp_path: Path) -> None:
    with pytest.raises(pyhudi.UserError, match="no partitions"):
        rows(trips(tmp_path, partition_by=()), "show partitions trips")
