"""A filter on the record key reads one file group, found by the record index, in each engine."""

from __future__ import annotations

from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pytest

import pyhudi
import pyhudi.daft
import pyhudi.datafusion
import pyhudi.duckdb
import pyhudi.polars
from pyhudi.errors import UserError
from tests.engines.opened_files import opened_data

GROUPS = 8


def by_duckdb(table: pyhudi.Table, key: str) -> list[int]:
    with duckdb.connect() as con:
        pyhudi.duckdb.attach(con, table, "t", reader="arrow")
        return [v for (v,) in con.sql(f"select v from t where id = '{key}'").fetchall()]


def by_duckdb_function(table: pyhudi.Table, key: str) -> list[int]:
    with duckdb.connect() as con:
        query = f"select v from pyhudi_lookup('t', ['{key}'])"
        found = pyhudi.duckdb.sql(con, query, tables={"t": table}).fetchall()
        return [v for (v,) in found]


def by_polars(table: pyhudi.Table, key: str) -> list[int]:
    frame = pyhudi.polars.scan(table, reader="arrow")
    return frame.filter(pl.col("id") == key).select("v").collect()["v"].to_list()


def by_datafusion(table: pyhudi.Table, key: str) -> list[int]:
    context = datafusion.SessionContext()
    pyhudi.datafusion.register(context, table, "t", reader="arrow")
    return [row["v"] for row in context.sql(f"select v from t where id = '{key}'").to_pylist()]


def by_daft(table: pyhudi.Table, key: str) -> list[int]:
    found: list[int] = pyhudi.daft.read(table, where=f"id = '{key}'").to_pydict()["v"]
    return found


FETCHED = [pytest.mark.slow, pytest.mark.engines_local]
WAYS = [
    by_duckdb, by_duckdb_function, by_polars, by_datafusion, pytest.param(by_daft, marks=FETCHED),
]  # fmt: skip


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pyhudi.Table:
    """Keys of all groups interleave, so that no range of values tells them apart."""
    schema = pa.schema({"id": pa.string(), "part": pa.string(), "v": pa.int64()})
    made = pyhudi.create_table(
        tmp_path_factory.mktemp("lookups") / "t", schema, record_key="id", partition_by="part",
        table_type=request.param,
    )  # fmt: skip
    keys = [f"{n:04}" for n in range(800)]
    parts = [f"p{n % GROUPS}" for n in range(800)]
    made.bulk_insert(pa.table([keys, parts, list(range(800))], schema=schema))
    made.upsert(pa.table([keys[::9], parts[::9], [-n for n in range(0, 800, 9)]], schema=schema))
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_look_up_reads_the_file_group_of_the_key(
    table: pyhudi.Table, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = {s.file_id for s in table.file_slices() if "p3" in s.partition}
    for key, value in (("0011", 11), ("0027", -27)):
        with opened_data(monkeypatch) as groups:
            assert way(table, key) == [value]
        assert groups == {group}
    with opened_data(monkeypatch) as groups:
        assert way(table, "unknown") == []
    # Logs of merge-on-read tables may have keys that the index has not: filters read them.
    is_index_final = not table.config.is_merge_on_read or way is by_duckdb_function
    assert len(groups) == (0 if is_index_final else GROUPS)


def test_a_scan_opens_all_file_groups(table: pyhudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_data(monkeypatch) as groups:
        assert table.scan().count() == 800
        assert len(table.to_arrow()) == 800
    assert len(groups) == GROUPS


def test_an_unknown_reader_is_rejected(table: pyhudi.Table) -> None:
    with pytest.raises(UserError, match="unknown reader"):
        pyhudi.polars.scan(table, reader="own")
    with pytest.raises(UserError, match="unknown reader"):
        pyhudi.datafusion.register(datafusion.SessionContext(), table, reader="own")
