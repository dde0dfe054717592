"""Rows of TPC-H shape: line items and their suppliers, and tables of them.

Prices and discounts are binary fractions, so sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi

SUPPLIERS = 100
QUERIES = {
    "pricing": """
        select l_returnflag, l_linestatus, sum(l_quantity) as quantity,
               sum(l_extendedprice) as price,
               sum(l_extendedprice * (1 - l_discount)) as discounted,
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as charge, count(*) as items
        from {lineitem} where l_shipdate <= date '1998-09-02'
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    "revenue": """
        select sum(l_extendedprice * l_discount) as revenue from {lineitem}
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
        and l_discount > 0.03 and l_quantity < 24""",
    "nations": """
        select s_nation, sum(l_extendedprice * (1 - l_discount)) as revenue, count(*) as items
        from {lineitem} join {supplier} on l_suppkey = s_suppkey
        where l_shipdate >= date '1995-01-01' group by s_nation order by s_nation""",
}
"""SQL that DuckDB, polars, DataFusion and Daft accept, by name."""


def lineitem(numbers: np.ndarray[Any, Any], seed: int) -> pa.Table:
    """A line item for each number; equal numbers have equal keys and ship years."""
    rng, count = np.random.default_rng(seed), len(numbers)
    year = 1992 + numbers % 7
    first_day = np.array([f"{y}-01-01" for y in range(1992, 1999)], "datetime64[D]")
    day = first_day[year - 1992] + rng.integers(0, 365, count)
    modes = np.array(["AIR", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK"])
    return pa.table(
        {
            "l_orderkey": numbers // 4,
            "l_linenumber": (numbers % 4).astype(np.int32),
            "l_suppkey": rng.integers(0, SUPPLIERS, count),
            "l_quantity": rng.integers(1, 51, count).astype(np.float64),
            "l_extendedprice": rng.integers(4000, 400_000, count) / 4,
            "l_discount": rng.integers(0, 4, count) / 32,
            "l_tax": rng.integers(0, 3, count) / 32,
            "l_returnflag": pa.array(np.array(["A", "N", "R"])[rng.integers(0, 3, count)]),
            "l_linestatus": pa.array(np.array(["F", "O"])[rng.integers(0, 2, count)]),
            "l_shipdate": pa.array(day, pa.date32()),
            "l_shipmode": pa.array(modes[rng.integers(0, len(modes), count)]),
            "l_shipyear": pc.cast(pa.array(year), pa.string()),
            "l_comment": pc.cast(pa.array(rng.integers(0, 1 << 40, count)), pa.string()),
        }
    )


def supplier() -> pa.Table:
    """The suppliers of all line items, in seven nations."""
    numbers = np.arange(SUPPLIERS)
    nations = pa.array([f"nation {number % 7}" for number in numbers])
    return pa.table({"s_suppkey": numbers, "s_nation": nations})


@dataclass(frozen=True)
class Made:
    """A table and its rows, without meta columns."""

    table: pyhudi.Table
    rows: pa.Table


def make(path: Path, count: int, kind: str, *, version: int = 9) -> Made:
    """A table of `count` line items by ship year, of which a tenth was updated and a hundredth
    deleted; in logs if it is merge-on-read."""
    rows = lineitem(np.arange(count), 1)
    table = pyhudi.create_table(
        path,
        rows.schema,
        record_key=["l_orderkey", "l_linenumber"],
        partition_by="l_shipyear",
        table_type=kind,
        version=version,
        name="lineitem",
    )
    table.bulk_insert(rows)
    shuffled = np.random.default_rng(2).permutation(count)
    changed, deleted = np.sort(shuffled[: count // 10]), np.sort(shuffled[-(count // 100) :])
    update = lineitem(changed, 3)
    table.upsert(update)
    table.delete(rows.take(deleted).select(["l_orderkey", "l_linenumber", "l_shipyear"]))
    same = np.ones(count, np.bool_)
    same[changed] = same[deleted] = False
    return Made(table, pa.concat_tables([rows.filter(pa.array(same)), update]))
