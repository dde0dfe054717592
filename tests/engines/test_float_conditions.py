"""Conditions on floating columns of random tables, in every engine, against plain Python.

A condition is a tree of tests of one column; each engine is given it in its own language, and the
rows that it must select are computed in Python: in the order of Spark and SQL engines (NaN equals
itself and is above all numbers), or in that of IEEE 754 for Arrow expressions.
"""

from __future__ import annotations

import math
import operator
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import pyhudi
import pyhudi.datafusion
import pyhudi.duckdb
import pyhudi.polars
from pyhudi.api.table import Table

NAN, INF = math.nan, math.inf
POOL = [NAN, NAN, None, 0.0, -0.0, 1.0, -1.0, 1.5, 5.0, -7.25, INF, -INF]
LITERALS = [1.0, -1.0, 1.5, 4.0, 100.0, -100.0, 0.5]
COLUMNS = ("d", "f", "s.d")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.struct([("d", pa.float64()), ("n", pa.int32())])),
        ("l", pa.list_(pa.field("element", pa.float64()))),
        ("m", pa.map_(pa.string(), pa.float32())),
        ("n", pa.int64()),
    ]
)
Row = dict[str, Any]
TABLES = int(os.environ.get("PYHUDI_FLOAT_TABLES", "60"))
CONDITIONS = int(os.environ.get("PYHUDI_FLOAT_CONDITIONS", "40"))

ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
    "<>": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Test:
    """A comparison of a column, `isnan` or `is null`."""

    column: str
    name: str
    literal: float = 0.0

    __test__ = False


@dataclass(frozen=True)
class Both:
    """`and` or `or` of two conditions."""

    name: str
    one: Condition
    other: Condition


@dataclass(frozen=True)
class Not:
    inner: Condition


Condition = Test | Both | Not


def random_condition(rng: random.Random, depth: int = 2) -> Condition:
    if depth and rng.random() < 0.5:
        if rng.random() < 0.3:
            return Not(random_condition(rng, depth - 1))
        sides = random_condition(rng, depth - 1), random_condition(rng, depth - 1)
        return Both(rng.choice(["and", "or"]), *sides)
    column = rng.choice(COLUMNS)
    name = rng.choice([*ORDERED, "isnan", "is null"])
    return Test(column, name, rng.choice(LITERALS))


# ---- what must be selected ----------------------------------------------------------------------


def value_of(row: Row, column: str) -> float | None:
    if column == "s.d":
        return None if row["s"] is None else row["s"]["d"]
    return row[column]


def holds(condition: Condition, row: Row, *, ieee: bool = False) -> bool | None:
    """The condition's value for a row; None is SQL's null."""
    match condition:
        case Not(inner):
            found = holds(inner, row, ieee=ieee)
            return None if found is None else not found
        case Both(name, one, other):
            sides = [holds(side, row, ieee=ieee) for side in (one, other)]
            decisive = name == "or"
            if decisive in sides:
                return decisive
            return None if None in sides else not decisive
        case Test(column, name, literal):
            value = value_of(row, column)
            if name == "is null":
                return value is None
            if value is None:
                return None
            if name == "isnan":
                return math.isnan(value)
            if math.isnan(value) and not ieee:
                return name in (">", ">=", "<>")
            return ORDERED[name](value, literal)


# ---- the condition in the language of an engine --------------------------------------------------


def sql(condition: Condition, field: Callable[[str], str] = str) -> str:
    match condition:
        case Not(inner):
            return f"(not {sql(inner, field)})"
        case Both(name, one, other):
            return f"({sql(one, field)} {name} {sql(other, field)})"
        case Test(column, "isnan"):
            return f"isnan({field(column)})"
        case Test(column, "is null"):
            return f"({field(column)} is null)"
        case Test(column, name, literal):
            return f"({field(column)} {name} {literal})"


def expression(condition: Condition, field: Callable[[str], Any]) -> Any:
    """For polars and Arrow, whose expressions have the same operators."""
    match condition:
        case Not(inner):
            return ~expression(inner, field)
        case Both(name, one, other):
            sides = expression(one, field), expression(other, field)
            return sides[0] & sides[1] if name == "and" else sides[0] | sides[1]
        case Test(column, "isnan"):
            return field(column).is_nan()
        case Test(column, "is null"):
            return field(column).is_null()
        case Test(column, name, literal):
            named = {**ORDERED, "=": operator.eq, "<>": operator.ne}
            return named[name](field(column), literal)


def arrow_field(column: str) -> pc.Expression:
    return pc.field(*column.split("."))


def polars_field(column: str) -> pl.Expr:
    top, *inner = column.split(".")
    return pl.col(top).struct.field(*inner) if inner else pl.col(top)


def datafusion_field(column: str) -> str:
    top, *inner = column.split(".")
    return f"{top}['{inner[0]}']" if inner else top


# ---- tables --------------------------------------------------------------------------------------


def random_rows(rng: random.Random, keys: list[int]) -> list[Row]:
    pools = {c: rng.sample(POOL, rng.randint(1, 4)) for c in COLUMNS}

    def number(column: str) -> float | None:
        return rng.choice(pools[column])

    return [
        {
            "id": f"k{key}", "p": f"p{key % 2}", "d": number("d"), "f": number("f"),
            "s": rng.choice([None, *[{"d": number("s.d"), "n": key}] * 4]),
            "l": [rng.choice(POOL) for _ in range(rng.randrange(3))],
            "m": [(str(k), rng.choice(POOL)) for k in range(rng.randrange(2))], "n": key,
        }
        for key in keys
    ]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    path: Path
    version: int
    kind: str
    rows: dict[str, Row]
    shape: str


def random_table(rng: random.Random, path: Path) -> Sample:
    version, kind = rng.choice([6, 8, 9]), rng.choice(["cow", "mor"])
    blocks, stats = rng.choice(["parquet", "avro"]), rng.random() < 0.7
    options = {
        "hoodie.logfile.data.block.format": blocks,
        "hoodie.metadata.index.column.stats.enable": str(stats).lower(),
        "hoodie.parquet.small.file.limit": rng.choice(["0", "104857600"]),
        "hoodie.parquet.max.file.size": rng.choice(["2000", "104857600"]),
        "hoodie.compact.inline": "false",
    }
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by=rng.choice([(), "p"]),
        table_type=kind, version=version, options=options,
    )  # fmt: skip
    rows: dict[str, Row] = {}
    for number in range(rng.randint(1, 4)):
        keys = rng.sample(range(40), rng.randint(1, 25))
        batch = random_rows(rng, keys)
        write = table.bulk_insert if number == 0 and rng.random() < 0.5 else table.upsert
        write(pa.Table.from_pylist(batch, SCHEMA))
        rows |= {row["id"]: row for row in batch}
        if number and rng.random() < 0.3:
            table.compact() if kind == "mor" else table.cluster(sort_by="n")
    shape = f"version {version} {kind} blocks {blocks} stats {stats}"
    return Sample(path, version, kind, rows, shape)


def base_paths(table: Table, path: Path) -> list[str]:
    return [str(path / s.base.path) for s in table.file_slices() if s.base is not None]


class Answers:
    """The keys that each engine selects from a table."""

    def __init__(self, sample: Sample) -> None:
        self.table = pyhudi.open_table(sample.path)
        plain = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
        self.unskipped = pyhudi.open_table(sample.path, options=plain)
        self.con = duckdb.connect()
        self.context = datafusion.SessionContext()
        pyhudi.duckdb.attach(self.con, self.table, "t")
        pyhudi.datafusion.register(self.context, self.table, "t")
        self.files = base_paths(self.table, sample.path)
        self.only_bases = sample.kind == "cow"

    def of(self, condition: Condition) -> dict[str, tuple[list[str], bool]]:
        """By engine: (sorted keys, whether comparisons are those of IEEE 754)."""
        where = expression(condition, arrow_field)
        text = sql(condition)
        found = {
            "local": (keys(self.table.scan(["id"], where).to_arrow()), True),
            "without skipping": (keys(self.unskipped.scan(["id"], where).to_arrow()), True),
            "duckdb": (self._duckdb(f"select id from t where {text}"), False),
            "datafusion": (self._datafusion("t", condition), False),
            "polars": (_polars(pyhudi.polars.scan(self.table), condition), False),
            "lazy frame": (_polars(self.table.to_polars(lazy=True), condition), False),
        }  # fmt: skip
        if self.only_bases and self.files:
            files = ", ".join(f"'{file}'" for file in self.files)
            query = f"select id from read_parquet([{files}]) where {text}"
            found["duckdb, files"] = (self._duckdb(query), False)
            rows = ds.dataset(self.files).to_table(columns=["id"], filter=where)
            found["arrow, files"] = (keys(rows), True)
        return found

    def _duckdb(self, query: str) -> list[str]:
        return sorted(key for (key,) in self.con.sql(query).fetchall())

    def _datafusion(self, name: str, condition: Condition) -> list[str]:
        query = f"select id from {name} where {sql(condition, datafusion_field)}"
        batches = self.context.sql(query).collect()
        return sorted(key for batch in batches for key in batch.column(0).to_pylist())


def _polars(frame: pl.LazyFrame, condition: Condition) -> list[str]:
    return sorted(frame.filter(expression(condition, polars_field)).collect()["id"].to_list())


def keys(rows: pa.Table) -> list[str]:
    return sorted(rows["id"].to_pylist())


def check(seed: int, path: Path, conditions: int) -> int:
    """Compare all engines on one table; the number of comparisons."""
    rng = random.Random(seed)
    sample = random_table(rng, path)
    answers = Answers(sample)
    compared = 0
    for _ in range(conditions):
        condition = random_condition(rng)
        expected = {
            ieee: sorted(k for k, row in sample.rows.items() if holds(condition, row, ieee=ieee))
            for ieee in (False, True)
        }
        for engine, (found, ieee) in answers.of(condition).items():
            where = f"seed {seed} {sample.shape} {engine}: {sql(condition)}"
            assert found == expected[ieee], where
            compared += 1
    return compared


@pytest.mark.covering(1, most=3)
@pytest.mark.parametrize("seed", range(6))
def test_engines_select_the_rows_that_a_condition_selects(seed: int, tmp_path: Path) -> None:
    assert check(seed, tmp_path / "t", 10) >= 60


@pytest.mark.slow
def test_engines_select_the_rows_that_a_condition_selects_long(tmp_path: Path) -> None:
    base = int(os.environ.get("PYHUDI_FLOAT_SEED", "1000"))
    total = sum(
        check(base + number, tmp_path / str(number), CONDITIONS) for number in range(TABLES)
    )
    print(f"{TABLES} tables, {total} comparisons")
