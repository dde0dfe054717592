"""MERGE with a condition beside the key and a clause for records that no source row matches finds
its records by key, and reads of the others those that the clause may apply to."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError
from tests.support.slice_reads import partitions_read

SCHEMA = pa.schema({"id": pa.int64(), "year": pa.string(), "n": pa.int64(), "ts": pa.int64()})
ON = "t.id = s.id and t.year = s.year"


def rows(*given: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": id, "year": year, "n": n, "ts": 1} for id, year, n in given], SCHEMA
    )


def made(path: Path, **how: Any) -> Any:
    how = {"table_type": "cow", "version": 9, "index": "record"} | how
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="year", **how)
    table.upsert(rows(*((n, str(1990 + n % 4), n) for n in range(20))))
    return table


def merge(path: Path, source: pa.Table, on: str, clauses: str, *, dry_run: bool = False) -> Any:
    text = "explain " * dry_run + f"merge into t using s on {on} {clauses}"
    return pyhudi.sql(text, tables={"t": path, "s": source})


def stored(table: Any) -> dict[int, tuple[str, int]]:
    return {row["id"]: (row["year"], row["n"]) for row in table.to_arrow().to_pylist()}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions of the slices that merges read."""
    return partitions_read(monkeypatch)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "global_simple", "bloom", "partitioned_record"])
def test_a_partition_is_made_equal_to_a_source(
    tmp_path: Path, table_type: str, index: str, read: list[str]
) -> None:
    table = made(tmp_path / "t", table_type=table_type, index=index)
    before = stored(table)
    source = rows((1, "1991", 50), (5, "1991", 51), (101, "1991", 52))
    clauses = (
        "when matched then update set * when not matched then insert * "
        "when not matched by source and t.year = '1991' then delete"
    )
    report = merge(tmp_path / "t", source, ON, clauses)
    others = {key: row for key, row in before.items() if row[0] != "1991"}
    assert stored(table) == others | {n: ("1991", v) for n, v in ((1, 50), (5, 51), (101, 52))}
    assert (report.updated, report.inserted, report.deleted) == (2, 1, 3)
    assert read == ["1991"]
    shown = str(merge(tmp_path / "t", source, ON, clauses, dry_run=True))
    assert "found by their keys and all other records" in shown


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_record_whose_pair_does_not_meet_on_has_no_source_row(
    tmp_path: Path, table_type: str, read: list[str]
) -> None:
    table = made(tmp_path / "t", table_type=table_type)
    source = rows((1, "1991", 50), (2, "1991", 51), (3, "1993", 52))
    clauses = (
        "when matched then update set n = s.n "
        "when not matched by source and t.n <= 3 then update set n = t.n - 100"
    )
    merge(tmp_path / "t", source, ON, clauses)
    assert stored(table) == {n: (str(1990 + n % 4), n) for n in range(4, 20)} | {
        0: ("1990", -100), 1: ("1991", 50), 2: ("1992", -98), 3: ("1993", 52),
    }  # fmt: skip
    assert sorted(read) == ["1990", "1991", "1992", "1993"]


def test_a_row_to_insert_whose_key_is_in_another_partition_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    before = stored(table)
    clauses = (
        "when not matched and s.n > 50 then insert * "
        "when not matched by source and t.year = '1991' then delete"
    )
    with pytest.raises(UserError, match=r"has the key of a stored record.*rows=1, keys=\[\[2\]\]"):
        merge(tmp_path / "t", rows((1, "1991", 1), (2, "1991", 51)), ON, clauses)
    assert stored(table) == before
    merge(tmp_path / "t", rows((1, "1991", 1), (2, "1991", 50)), ON, clauses)
    assert stored(table).keys() == before.keys() - {5, 9, 13, 17}


@pytest.mark.parametrize("has_text", [True, False])
def test_a_clause_for_other_records_reads_the_files_that_may_have_some(
    tmp_path: Path, has_text: bool, read: list[str]
) -> None:
    table = made(tmp_path / "t", options={"hoodie.metadata.index.column.stats.enable": "true"})
    table.upsert(rows((1, "1991", 60)))
    some = table.merge(rows((4, "1990", 70))).when_matched_update()
    where: Any = "target.n >= 50" if has_text else pc.field("target", "n") >= 50
    some.when_not_matched_by_source_delete(where).execute()
    assert sorted(read) == (["1990", "1991"] if has_text else ["1990", "1991", "1992", "1993"])
    found = stored(table)
    assert found[4] == ("1990", 70) and found.keys() == set(range(20)) - {1}


def test_a_time_with_a_zone_selects_the_same_records_as_in_a_query(tmp_path: Path) -> None:
    at = [datetime(2024, 1, 1, 10), datetime(2024, 1, 1, 12)]
    found = pa.table({"id": ["a", "b"], "at": pa.array(at, pa.timestamp("us")), "n": [0, 0]})
    table = pyhudi.create_table(tmp_path / "t", found.schema, record_key="id")
    table.upsert(found)
    tables = {"t": table, "s": pa.table({"id": ["a", "b"]})}
    condition = "t.at = '2024-01-01 12:00:00+02:00'"
    expected = pyhudi.sql(f"select id from t where {condition}", tables=tables)["id"]
    matched = f"when matched and {condition} then update set n = 1"
    pyhudi.sql(f"merge into t using s on t.id = s.id {matched}", tables=tables)
    assert pyhudi.sql("select id from t where n = 1", tables=tables)["id"].equals(expected)


@pytest.mark.parametrize(
    "condition", ["t.n * 1.1 = 3.3", "t.n + 0.1 + 0.2 = 3.3", "0.1 + 0.2 = 0.3", "t.n / 10 = 0.3"]
)
def test_decimals_of_a_condition_are_exact_as_in_a_query(tmp_path: Path, condition: str) -> None:
    found = pa.table({"id": ["a", "b"], "n": [3, 3], "m": [0, 0]})
    table = pyhudi.create_table(tmp_path / "t", found.schema, record_key="id")
    table.upsert(found)
    tables = {"t": table, "s": pa.table({"id": ["a"]})}
    assert pyhudi.sql(f"select id from t where {condition}", tables=tables).num_rows == 2
    matched = f"when matched and {condition} then update set m = 1"
    pyhudi.sql(f"merge into t using s on t.id = s.id {matched}", tables=tables)
    assert pyhudi.sql("select id from t where m = 1", tables=tables)["id"].to_pylist() == ["a"]
