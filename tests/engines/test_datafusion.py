"""DataFusion reads snapshots: base files by its own reader, slices with logs by pyhudi."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.datafusion
from bench.lineitem import QUERIES, Made, supplier
from tests.engines.answers import LONG_ROWS, SHAPES, TABLES, expected, text

datafusion = pytest.importorskip("datafusion")
SCHEMA = pa.schema({"id": pa.string(), "City": pa.string(), "v": pa.int64()})


@pytest.fixture
def context() -> Any:
    made = datafusion.SessionContext()
    made.register_record_batches("supplier", [supplier().to_batches()])
    return made


def rows(*given: tuple[str, str, int]) -> pa.Table:
    return pa.table(list(map(list, zip(*given, strict=True))), schema=SCHEMA)


def tuples(context: Any, query: str) -> list[tuple[Any, ...]]:
    frame = context.sql(query)
    found = pa.Table.from_batches(frame.collect(), schema=frame.schema())
    return [tuple(row.values()) for row in found.to_pylist()]


@SHAPES
def test_queries_return_what_the_source_rows_give(
    made: Callable[..., Made], context: Any, kind: str, version: int
) -> None:
    source = made(kind, version)
    assert pyhudi.datafusion.register(context, source.table) == "lineitem"
    answers = {name: tuples(context, text(name, "lineitem")) for name in QUERIES}
    assert answers == expected(source)
    assert tuples(context, "select count(*) from lineitem") == [(source.rows.num_rows,)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_queries_of_four_million_rows(
    made: Callable[..., Made], context: Any, kind: str, version: int
) -> None:
    source = made(kind, version, LONG_ROWS)
    pyhudi.datafusion.register(context, source.table)
    answers = {name: tuples(context, text(name, "lineitem")) for name in QUERIES}
    assert answers == expected(source)


def test_a_registered_table_is_the_snapshot_of_its_call(tmp_path: Path, context: Any) -> None:
    trips = pyhudi.create_table(
        tmp_path / "trips", SCHEMA, record_key="id", partition_by="City", table_type="mor"
    )
    assert pyhudi.datafusion.register(context, trips, "empty") == "empty"
    assert tuples(context, "select count(*) from empty") == [(0,)]
    trips.upsert(rows(("a", "p", 1), ("b", "p", 2), ("c", "q", 3)))
    pyhudi.datafusion.register(context, trips.path)
    trips.upsert(rows(("b", "p", 20)))
    trips.delete(keys=["c"])
    query = 'select id, "City", v from trips order by id'
    assert tuples(context, query) == [("a", "p", 1), ("b", "p", 2), ("c", "q", 3)]
    pyhudi.datafusion.register(context, trips)
    assert tuples(context, query) == [("a", "p", 1), ("b", "p", 20)]
    first = next(iter(trips.timeline.commits)).time
    pyhudi.datafusion.register(context, trips, "old", as_of=first)
    found = tuples(context, "select v from old where \"City\" = 'p' and v > 1")
    assert found == [(2,)]
    stored = pyhudi.create_table("memory://engines_datafusion", SCHEMA, record_key="id")
    stored.insert(rows(("a", "p", 1)))
    pyhudi.datafusion.register(context, stored, "stored")
    assert tuples(context, "select v from stored") == [(1,)]


@pytest.mark.parametrize("pushed", ["false", "true"])
def test_replaced_rows_are_left_out_of_files_that_datafusion_reads(
    tmp_path: Path, pushed: str
) -> None:
    config = {
        "datafusion.execution.parquet.pushdown_filters": pushed,
        "datafusion.execution.batch_size": "64",
        "datafusion.execution.parquet.enable_page_index": "true",
    }
    context = datafusion.SessionContext(datafusion.SessionConfig(config))
    schema = pa.schema({"id": pa.string(), "v": pa.int64()})
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id", table_type="mor")
    numbers = range(5000)
    table.upsert(pa.table([[f"{n:05}" for n in numbers], list(numbers)], schema=schema))
    table.upsert(pa.table([[f"{n:05}" for n in range(0, 5000, 7)], [-1] * 715], schema=schema))
    table.delete(keys=["00001", "04999"])
    pyhudi.datafusion.register(context, table, "t")
    plan = context.sql("explain select * from t").to_pylist()[1]["plan"]
    assert "file_row_index" in plan
    remaining = [n for n in numbers if n % 7 and n not in (1, 4999)]
    found = tuples(context, "select v from t where v >= 0 order by v")
    assert [v for (v,) in found] == remaining
    assert tuples(context, "select count(*) from t") == [(4998,)]
    high = tuples(context, "select v from t where v > 4000 and v % 3 = 0 order by v limit 5")
    assert [v for (v,) in high] == [n for n in remaining if n > 4000 and n % 3 == 0][:5]
    lowest = tuples(context, "select min(v), max(v), sum(v) from t where id < '00100'")
    below = [n for n in remaining if n < 100]
    assert lowest == [(-1, max(below), sum(below) - 15)]


CONDITIONS = [
    "x > 5", "{d} > 4 and not {d} > 30", "coalesce(x, id) > 1", "abs(x) > 10", "random() < 2",
    "(x > 0 or x < -1) and (x > 0 or id > 3)", "case when id = 1 then true else null end",
    "case when x > 0 then x else id end > 1 and x > 0", "id in (select id from memory where x > 9)",
    "coalesce({f}, x) < y and {f} < -5", "x is null or {f} is null",
]  # fmt: skip
FLAT = {"d": "d", "f": "f"}
IN_STRUCT = {"d": "s['d']", "f": "s['e']['f']"}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("names", [FLAT, IN_STRUCT], ids=["flat", "in_struct"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("PYHUDI_DATAFUSION_TABLES", "2"))))
def test_calculations_and_fields_of_structs_are_those_of_the_rows(
    tmp_path: Path, kind: str, names: dict[str, str], seed: int
) -> None:
    """The optimizer moves fields of structs and numbers of rows below unions and filters."""
    chance = random.Random(seed)
    columns = {
        "id": list(range(40)), "x": [None, *(100.0 * n for n in range(39))],
        "y": [1000.0 * n for n in range(40)], "p": [str(n % 3) for n in range(40)],
    }  # fmt: skip
    if names is FLAT:
        columns |= {"d": [n + 0.5 for n in range(40)], "f": [-float(n) for n in range(40)]}
    else:
        columns["s"] = [{"d": n + 0.5, "e": {"f": -float(n)}} for n in range(40)]
    stored = pa.table({name: columns[name] for name in chance.sample(list(columns), len(columns))})
    table = pyhudi.create_table(
        tmp_path / "t", stored.schema, record_key="id", table_type=kind,
        partition_by=chance.choice([(), "p"]),
    )  # fmt: skip
    table.bulk_insert(stored)
    table.upsert(stored.slice(1, 9))
    context = datafusion.SessionContext()
    context.register_record_batches("memory", [stored.to_batches()])
    pyhudi.datafusion.register(context, table, "stored")
    fields = ["{d}", "{f}", "x", "y", "id", "{d} + x", *([] if names is FLAT else ["s"])]
    for condition in CONDITIONS:
        listed = ", ".join(chance.sample(fields, chance.randint(1, 3)))
        chosen, grouped = chance.choice(
            [(listed, ""), (f"sum(x), count(*), {listed}", f" group by {listed}")]
        )
        query = f"select {chosen} from {{table}} where {condition}{grouped}"
        found, required = (
            sorted(map(repr, tuples(context, query.format(table=name, **names))))
            for name in ("stored", "memory")
        )
        assert found == required, (stored.column_names, query)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_list_with_null_selects_the_other_values_or_fails(tmp_path: Path, kind: str) -> None:
    """DataFusion's binding fails where it states a condition with null as one of Arrow."""
    stored = pa.table({"id": [1, 2, 3], "x": [1.0, 2.0, None]})
    table = pyhudi.create_table(tmp_path / "t", stored.schema, record_key="id", table_type=kind)
    table.bulk_insert(stored)
    table.upsert(stored.slice(1, 1))
    context = datafusion.SessionContext()
    pyhudi.datafusion.register(context, table, "t")
    pyhudi.datafusion.register(context, table, "read", reader="arrow")
    for name in ("t", "read"):
        assert tuples(context, f"select id from {name} where x = 1") == [(1,)]
        try:
            found = tuples(context, f"select id from {name} where x in (null, 1)")
        except Exception as error:  # DataFusion raises no other class
            assert "unsupported operand type" in str(error)
        else:
            assert found == [(1,)]


def test_filters_on_rows_of_pyhudi_mean_what_datafusion_means(tmp_path: Path) -> None:
    """NaN is above all numbers, and the nulls of a negated list are not selected."""
    stored = pa.table({"id": [1, 2, 3, 4, 5], "x": [1.0, float("nan"), -0.0, 7.0, None]})
    table = pyhudi.create_table(tmp_path / "t", stored.schema, record_key="id")
    table.bulk_insert(stored)
    context = datafusion.SessionContext()
    context.register_record_batches("memory", [stored.to_batches()])
    pyhudi.datafusion.register(context, table, "stored", reader="arrow")
    for condition in ("x > 1", "x >= 1", "not x < 5", "x = 'nan'", "x < 'nan'", "x <= 'nan'",
                 "x not between 0 and 1", "x > 5 or id = 3", "x not in (1, 2, 3, 4, 5, 6)",
                 "x in (1, 2, 3, 4, 5, 'nan')", "id not in (1, 2, 6, 7, 8, 9)", "id in (null)",
                 "x in (7, null)", "x <> 7"):  # fmt: skip
        found, required = (
            sorted(
                value
                for batch in context.sql(f"select id from {name} where {condition}").collect()
                for value in batch.column(0).to_pylist()
            )
            for name in ("stored", "memory")
        )
        assert found == required, condition
