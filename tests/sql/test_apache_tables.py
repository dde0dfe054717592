"""Tables that Apache Hudi's SQL wrote: with renamed columns, and without record keys."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import pyhudi

INDEX = {"hoodie.index.type": "SIMPLE"}
ARCHIVE = Path(__file__).parents[1] / "golden" / "sql_tables.tar.xz"


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the table that the test names."""
    with tarfile.open(ARCHIVE) as files:
        files.extractall(tmp_path, filter="data")
    return tmp_path / request.param / "table"


def rows(table: Path, text: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in pyhudi.sql(text, tables={"t": table}).to_pylist()]


@pytest.mark.parametrize("table", ["renamed"], indirect=True)
def test_columns_that_apache_hudi_renamed_and_dropped_are_read_from_older_files(
    table: Path,
) -> None:
    want = [(1, 10, 1.5, None, "sf"), (2, 21, 2.5, 7, "sf")]
    assert rows(table, "select id, aa, n, b, city from t order by id") == want
    assert rows(table, "select id from t where aa = 10") == [(1,)]
    before = "select id, a, b from t version as of '20261127164857989' order by id"
    assert rows(table, before) == [(1, 10, "x"), (2, 20, "y")]
    renamed = "select id, aa, b from t version as of '20261127164929820' order by id"
    assert rows(table, renamed) == [(1, 10, "x"), (2, 21, "y")]
    pyhudi.sql("update t set aa = 11, b = 8 where id = 1", tables={"t": table}, options=INDEX)
    want[0] = (1, 11, 1.5, 8, "sf")
    assert rows(table, "select id, aa, n, b, city from t order by id") == want
    pyhudi.open_table(table, options=INDEX).compact()
    assert rows(table, "select id, aa, n, b, city from t order by id") == want


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (1, 1.5)",
        "insert overwrite t values (1, 1.5)",
        "update t set fare = 2",
        "delete from t",
        "merge into t using (select 1 as id) s on t.id = s.id when matched then delete",
        "truncate table t",
        "alter table t add columns (n int)",
        "alter table t rename column fare to price",
        "explain delete from t",
    ],
)
@pytest.mark.parametrize("table", ["keyless"], indirect=True)
def test_a_table_without_record_keys_is_read_and_what_would_change_it_is_refused(
    table: Path, text: str
) -> None:
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    with pytest.raises(pyhudi.UnsupportedTableError, match="has no record key columns"):
        pyhudi.sql(text, tables={"t": table})
    locks = set(table.glob(".hoodie/.pyhudi.lock*"))
    after = {path: path.read_bytes() for path in {*table.rglob("*")} - locks if path.is_file()}
    assert after == before
    assert rows(table, "select id, fare from t") == [(1, 1.5), (1, 1.5)]


@pytest.mark.parametrize("table", ["keyless"], indirect=True)
def test_a_table_without_record_keys_is_copied_into_one_with_keys(table: Path) -> None:
    lake = pyhudi.connect(table.parent / "lake", tables={"t": table})
    lake.sql(
        "create table copy tblproperties (primaryKey = 'uuid') as "
        "select _hoodie_record_key as uuid, id, fare from t"
    )
    lake.sql("update copy set fare = 2 where uuid like '%_1_0'")
    found = lake.sql("select id, fare from copy order by fare").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 1.5), (1, 2.0)]
