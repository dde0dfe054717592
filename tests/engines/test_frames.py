"""Dask and Ray read snapshots, a partition for each file slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.lineitem import Made
from tests.engines.answers import LONG_ROWS, SHAPES, TABLES, expected

COLUMNS = ["l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount"]
FROM, UNTIL = date(1994, 1, 1), date(1995, 1, 1)


def quantities(made: Made) -> list[tuple[Any, ...]]:
    """Flag, status, quantity and number of the items of each group."""
    groups = made.rows.group_by(["l_returnflag", "l_linestatus"])
    found = groups.aggregate([("l_quantity", "sum"), ("l_quantity", "count")]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def dask_answers(made: Made) -> tuple[Any, list[tuple[Any, ...]]]:
    frame = made.table.scan([*COLUMNS, "l_shipdate"]).to_dask()
    assert frame.npartitions == 7
    shipped = frame[(frame.l_shipdate >= FROM) & (frame.l_shipdate < UNTIL)]
    chosen = shipped[(shipped.l_discount > 0.03) & (shipped.l_quantity < 24)]
    revenue = (chosen.l_extendedprice * chosen.l_discount).sum().compute()
    groups = frame.groupby(["l_returnflag", "l_linestatus"]).l_quantity.agg(["sum", "count"])
    found = groups.compute().sort_index().reset_index()
    return revenue, [tuple(row) for row in found.itertuples(index=False)]


@SHAPES
def test_dask_returns_what_the_source_rows_give(
    made: Callable[..., Made], kind: str, version: int
) -> None:
    source = made(kind, version)
    revenue, groups = dask_answers(source)
    assert [(revenue,)] == expected(source)["revenue"]
    assert groups == quantities(source)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_dask_returns_what_four_million_rows_give(
    made: Callable[..., Made], kind: str, version: int
) -> None:
    source = made(kind, version, LONG_ROWS)
    revenue, groups = dask_answers(source)
    assert [(revenue,)] == expected(source)["revenue"]
    assert groups == quantities(source)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.engines_local
@SHAPES
@pytest.mark.parametrize("rows", [20_000, LONG_ROWS])
def test_ray_returns_what_the_source_rows_give(
    made: Callable[..., Made], ray: Any, kind: str, version: int, rows: int
) -> None:
    source = made(kind, version, rows)
    data = source.table.scan([*COLUMNS, "l_shipdate"]).to_ray()
    assert data.count() == source.rows.num_rows
    items = data.map_batches(_revenue, batch_format="pyarrow")
    assert [(items.sum("revenue"),)] == expected(source)["revenue"]
    groups = data.groupby(["l_returnflag", "l_linestatus"])
    found = groups.aggregate(
        ray.data.aggregate.Sum("l_quantity"), ray.data.aggregate.Count("l_quantity")
    )
    assert sorted(tuple(row.values()) for row in found.take_all()) == quantities(source)


def _revenue(rows: pa.Table) -> pa.Table:
    chosen = rows.filter(
        (pc.field("l_shipdate") >= FROM) & (pc.field("l_shipdate") < UNTIL)
        & (pc.field("l_discount") > 0.03) & (pc.field("l_quantity") < 24)
    )  # fmt: skip
    found = pc.sum(pc.multiply(chosen["l_extendedprice"], chosen["l_discount"])).as_py()
    return pa.table({"revenue": [found or 0.0]})
