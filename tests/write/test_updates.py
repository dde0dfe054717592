"""`table.update(set, where)` changes columns of the rows that match."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "city": pa.string(),
        "fare": pa.float64(),
        "n": pa.int32(),
        "ts": pa.int64(),
    }
)


def stored(*values: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, v, strict=True)) for v in values], SCHEMA)


def made(path: Path, **how: Any) -> Any:
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="city", **how)
    rows = [("a", "sf", 1.0, 1, 1), ("b", "sf", 2.0, None, 1), ("c", "la", 3.0, 3, 1)]
    table.upsert(stored(*rows))
    return table


def column(table: Any, name: str) -> dict[str, Any]:
    return {row["id"]: row[name] for row in table.scan(["id", name]).to_arrow().to_pylist()}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("index", ["record", "simple"])
def test_only_matching_rows_change(
    tmp_path: Path, table_type: str, version: int, index: str
) -> None:
    table = made(tmp_path / "t", table_type=table_type, version=version, index=index, ordering="ts")
    report = table.update(
        {"fare": "fare * 2", "n": "case when n is null then 0 else n + 1 end"}, where="city = 'sf'"
    )
    assert (report.updated, report.inserted) == (2, 0)
    assert column(table, "fare") == {"a": 2.0, "b": 4.0, "c": 3.0}
    assert column(table, "n") == {"a": 2, "b": 0, "c": 3}
    assert table.update({"n": 7}).updated == 3
    assert set(column(table, "n").values()) == {7}
    assert table.update({"n": None}, where=pc.field("id") == "a").updated == 1
    assert column(table, "n") == {"a": None, "b": 7, "c": 7}


def test_values_are_sql_text_expressions_or_literals(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    table.upsert(
        pa.Table.from_pylist([{"id": "a", "city": "sf", "fare": 1.5, "n": 2, "ts": 3}], SCHEMA)
    )
    table.update({"city": "city || '-' || upper(id)", "fare": pc.field("fare") + 1, "ts": "n"})
    assert table.to_arrow().to_pylist() == [
        {"id": "a", "city": "sf-A", "fare": 2.5, "n": 2, "ts": 2}
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "no columns to update"),
        ({"nope": 1}, "no such column.*nope"),
        ({"id": "'x'"}, "cannot change record keys or partitions.*id"),
        ({"city": "'x'"}, "cannot change record keys or partitions.*city"),
        ({"n": "nope + 1"}, "a column that the table lacks.*nope"),
        ({"n": b"x"}, "not of the column's type"),
        ({"n": "fare >"}, "not valid SQL"),
        ({"n": "10000000000"}, "does not fit"),
        ({"n": 1.5}, "not of the column's type"),
        ({"n": Decimal("1.5")}, "not of the column's type"),
        ({"n": True}, "not of the column's type"),
    ],
)
def test_values_that_do_not_fit_change_nothing(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    table = made(tmp_path / "t")
    before = list(table.timeline)
    with pytest.raises(UserError, match=message):
        table.update(values)
    assert list(table.timeline) == before


def test_an_update_that_matches_nothing_writes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    commits = len(table.timeline.commits)
    assert table.update({"n": 1}, where="id = 'nobody'").updated == 0
    assert len(table.timeline.commits) == commits
    report = table.update({"n": 1}, where="id = 'a'", dry_run=True)
    assert report.dry_run and len(table.timeline.commits) == commits


def test_an_update_is_evaluated_again_after_a_conflict(tmp_path: Path) -> None:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.num.retries.on.conflict.failures": 3,
    }
    table = made(tmp_path / "t")
    other = pyhudi.open_table(tmp_path / "t", options=options)
    finds = other._updates
    calls = 0

    def racing(values: Any, where: Any, schema: Any) -> Any:
        found = finds(values, where, schema)

        def search(state: Any) -> Any:
            nonlocal calls
            calls += 1
            rows = found(state)
            if calls == 1:
                late = {"id": "a", "city": "sf", "fare": 10.0, "n": 1, "ts": 2}
                pyhudi.open_table(tmp_path / "t", options=options).upsert(
                    pa.Table.from_pylist([late], SCHEMA)
                )
            return rows

        return search

    other._updates = racing  # type: ignore[method-assign]
    report = other.update({"fare": "fare + 1"}, where="id = 'a'")
    assert report.conflicts == 1 and calls == 2
    assert column(table, "fare")["a"] == 11.0


def test_the_rows_of_a_table_come_in_the_formats_of_others(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert table.to_arrow().schema.names == SCHEMA.names
    assert len(table) == table.count() == 3 == table.scan().count()
    assert sorted(table.to_pandas()["id"]) == sorted(table.to_polars()["id"]) == ["a", "b", "c"]
    assert table.scan(["id"], "n = 3").to_polars()["id"].to_list() == ["c"]
    assert table.head(2).num_rows == 2 and table.head().num_rows == 3 and not table.head(0).num_rows
    assert table.scan(["id"]).head(1).column_names == ["id"]
    with pytest.raises(UserError, match="negative"):
        table.head(-1)
    table.delete(keys=["a", "b", "c"])
    assert bool(table) and len(table) == 0 and table.head().num_rows == 0
