"""DataFusion reads snapshots: base files by its own reader, slices with logs by pyhudi."""

from __future__ import annotations

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
