"""What the queries return for the rows of the source, by DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from bench.lineitem import QUERIES, Made, supplier

TABLES = [("cow", 6), ("mor", 6), ("cow", 9), ("mor", 9)]
SHAPES = pytest.mark.parametrize(("kind", "version"), [*TABLES, ("cow", 8), ("mor", 8)])
LONG_ROWS = 4_000_000


def expected(made: Made) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of each query over the rows that the table must have."""
    with duckdb.connect() as con:
        con.register("rows", made.rows)
        con.register("supplier", supplier())
        return {name: con.sql(text(name, "rows")).fetchall() for name in QUERIES}


def text(query: str, lineitem: str) -> str:
    """The SQL of a query on the tables `lineitem` and supplier."""
    return QUERIES[query].format(lineitem=lineitem, supplier="supplier")
