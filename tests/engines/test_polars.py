"""polars reads snapshots lazily: its filters skip files, its own reader reads base files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
import pyhudi.polars
from bench.lineitem import QUERIES, Made, supplier
from pyhudi.engines.snapshot_parts import snapshot_parts
from pyhudi.errors import UserError
from pyhudi.read.polars_filter import polars_filter
from pyhudi.read.scan import Scan
from tests.engines.answers import LONG_ROWS, SHAPES, TABLES, expected, text

SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "v": pa.int64(), "x": pa.float64()})
ENGINES = pytest.mark.parametrize("engine", ["in-memory", "streaming"])


@pytest.fixture
def trips(tmp_path: Path) -> pyhudi.Table:
    table = pyhudi.create_table(
        tmp_path / "trips", SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )
    table.upsert(rows(("a", "p", 1, 0.5), ("b", "p", 2, float("nan")), ("c", "q", 3, None)))
    return table


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return pa.table(list(map(list, zip(*given, strict=True))), schema=SCHEMA)


def answers(frame: pl.LazyFrame, engine: Any) -> dict[str, list[tuple[Any, ...]]]:
    context = pl.SQLContext(lineitem=frame, supplier=pl.DataFrame(supplier()).lazy())
    return {
        name: context.execute(text(name, "lineitem"), eager=False).collect(engine=engine).rows()
        for name in QUERIES
    }


@SHAPES
@ENGINES
def test_queries_return_what_the_source_rows_give(
    made: Callable[..., Made], kind: str, version: int, engine: str
) -> None:
    source = made(kind, version)
    frame = pyhudi.polars.scan(source.table)
    assert answers(frame, engine) == expected(source)
    assert frame.select(pl.len()).collect(engine=engine).item() == source.rows.num_rows


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_queries_of_four_million_rows(made: Callable[..., Made], kind: str, version: int) -> None:
    source = made(kind, version, LONG_ROWS)
    assert answers(pyhudi.polars.scan(source.table), "auto") == expected(source)


def test_a_frame_is_the_snapshot_of_its_call(trips: pyhudi.Table) -> None:
    first = trips.timeline.commits.last
    assert first is not None
    frame = pyhudi.polars.scan(trips.path)
    trips.upsert(rows(("b", "p", 20, 1.0), ("d", "q", 4, 1.0)))
    trips.delete(keys=["c"])
    assert sorted(frame.collect()["v"]) == [1, 2, 3]
    assert sorted(pyhudi.polars.scan(trips).collect()["v"]) == [1, 4, 20]
    assert sorted(pyhudi.polars.scan(trips, as_of=first.time).collect()["v"]) == [1, 2, 3]
    newest = pyhudi.polars.scan(trips, mode="read_optimized").filter(pl.col("id") == "b")
    assert newest.collect()["v"].to_list() == [2]
    assert "_hoodie_commit_time" in pyhudi.polars.scan(trips, with_meta=True).collect_schema()


@ENGINES
def test_rows_are_limited_before_or_after_the_filter(trips: pyhudi.Table, engine: Any) -> None:
    trips.upsert(rows(("b", "p", 20, 1.0)))
    frame = pyhudi.polars.scan(trips)
    assert frame.head(2).collect(engine=engine).height == 2
    assert frame.filter(pl.col("v") > 2).head(1).collect(engine=engine).height == 1
    assert frame.head(3).filter(pl.col("v") > 2).select("id").collect(engine=engine).height == 2
    assert frame.filter(pl.col("v") > 2).select(pl.len()).collect(engine=engine).item() == 2
    assert frame.select("v", "id").collect(engine=engine).columns == ["v", "id"]


@ENGINES
def test_filters_and_columns_reach_the_scan(
    trips: pyhudi.Table, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips.upsert(rows(("b", "p", 20, 1.0), ("c", "q", 30, 1.0)))
    scans: list[Scan] = []
    plain = Scan.narrowed

    def watched(scan: Scan, columns: Any, where: Any) -> Scan:
        scans.append(plain(scan, columns, where))
        return scans[-1]

    monkeypatch.setattr(Scan, "narrowed", watched)
    frame = pyhudi.polars.scan(trips).filter(pl.col("city") == "q", pl.col("v") + 1 > 2)
    assert frame.select("id").collect(engine=engine)["id"].to_list() == ["c"]
    assert scans[-1].plan.partitions_read == 1
    assert scans[-1].schema.names == ["id", "city", "v"]


def test_nan_is_above_all_numbers_as_in_polars(trips: pyhudi.Table) -> None:
    frame = pyhudi.polars.scan(trips)
    assert frame.filter(pl.col("x") > 1e300).collect()["id"].to_list() == ["b"]
    trips.upsert(rows(("a", "p", 1, float("nan"))))
    found = pyhudi.polars.scan(trips).filter(pl.col("x") > 1e300).collect()["id"]
    assert sorted(found) == ["a", "b"]


def test_pyhudi_reads_what_the_files_do_not_state(tmp_path: Path) -> None:
    stored = pyhudi.create_table("memory://engines_polars", SCHEMA, record_key="id")
    stored.insert(rows(("a", "p", 1, 0.5)))
    assert pyhudi.polars.scan(stored).select("v").collect()["v"].to_list() == [1]
    evolved = pyhudi.create_table(tmp_path / "e[1]", SCHEMA, record_key="id", partition_by="city")
    evolved.insert(rows(("a", "p", 1, 0.5)))
    wider = pa.schema([*SCHEMA, pa.field("new", pa.int32())])
    evolved.insert(pa.table([["b"], ["q"], [2], [1.0], [5]], schema=wider), schema_mode="widen")
    found = pyhudi.polars.scan(evolved).select("id", "new").sort("id").collect()
    assert found.rows() == [("a", None), ("b", 5)]


def test_files_of_a_filtered_scan_are_read_by_pyhudi(trips: pyhudi.Table) -> None:
    """An engine's reader would return all of their rows."""
    parts = snapshot_parts(trips.scan(where="v > 1"))
    assert not parts.whole and not parts.cut
    assert parts.rest is not None and parts.rest.to_batches().read_all()["v"].to_pylist() == [2, 3]


def test_columns_of_many_types_read_as_polars_reads_arrow(tmp_path: Path) -> None:
    given = pa.table(
        {
            "id": ["a", "b"],
            "at": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC")),
            "local": pa.array([1_700_000_000_123, None], pa.timestamp("ms")),
            "day": pa.array([date(2026, 11, 23), None]),
            "price": pa.array(["1.25", None]).cast(pa.decimal128(12, 2)),
            "raw": pa.array([b"\x00\xff", None]),
            "tags": pa.array([["x", None], []]),
            "home": pa.array([{"street": "s", "no": 1}, None]),
        }
    )
    table = pyhudi.create_table(tmp_path / "t", given.schema, record_key="id", table_type="mor")
    table.insert(given)
    table.upsert(given.slice(1))
    frame = pyhudi.polars.scan(table)
    assert frame.sort("id").collect().equals(pl.DataFrame(table.to_arrow()).sort("id"))
    after = frame.filter(pl.col("at") > datetime(2020, 1, 1, tzinfo=UTC), day=date(2026, 11, 23))
    assert after.select("price").collect().item() == Decimal("1.25")


COLUMNS = pa.schema(
    {"a": pa.int64(), "s": pa.string(), "d": pa.date32(), "f": pa.float64(), "b": pa.bool_()}
)


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        (pl.col("a") > 3, pc.field("a") > 3),
        (pl.lit(3) > pl.col("a"), pc.field("a") < 3),
        ((pl.col("s") == "it's") & (pl.col("f") > 1), pc.field("s") == "it's"),
        (pl.col("a").is_in([1, 2]), pc.field("a").isin([1, 2])),
        (pl.col("a").is_between(1, 2, closed="none"), (pc.field("a") >= 1) & (pc.field("a") <= 2)),
        (pl.col("a").is_null() | pl.col("s").is_not_null(),
         pc.field("a").is_null() | pc.field("s").is_valid()),
        (pl.col("d") <= date(2026, 1, 1), pc.field("d") <= pa.scalar(date(2026, 1, 1))),
    ],
)  # fmt: skip
def test_a_filter_becomes_one_of_arrow(predicate: pl.Expr, found: pc.Expression) -> None:
    made = polars_filter(predicate, COLUMNS)
    assert made is not None and made.arrow.equals(found)


@pytest.mark.parametrize(
    "predicate",
    [
        pl.col("f") > 1.0,
        (pl.col("a") > 1) | (pl.col("f") > 1.0),
        pl.col("a") > 1.5,
        pl.col("a") + 1 > 2,
        ~(pl.col("a") > 1),
        pl.col("a") > pl.col("a").mean(),
        pl.col("a") > pl.col("f"),
        pl.col("s").str.contains("x"),
        pl.col("a").eq_missing(None),
        pl.col("a").is_in([1, None], nulls_equal=True),
        pl.col("b"),
        pl.lit(True),
    ],
)
def test_a_filter_that_may_mean_something_else_skips_nothing(predicate: pl.Expr) -> None:
    assert polars_filter(predicate, COLUMNS) is None


def test_a_lazy_frame_is_written_batch_by_batch(trips: pyhudi.Table) -> None:
    made = pl.LazyFrame({"id": ["a", "z"], "city": ["p", "q"], "v": [10, 26], "x": [1.5, None]})
    report = pyhudi.polars.sink(made.with_columns(v=pl.col("v") + 1), trips, batch_rows=1)
    assert (report.updated, report.inserted) == (1, 1)
    found = pyhudi.polars.scan(trips).select("id", "v").sort("id").collect().rows()
    assert found == [("a", 11), ("b", 2), ("c", 3), ("z", 27)]
    doubled = pyhudi.polars.scan(trips).with_columns(pl.col("v") * 2)
    pyhudi.polars.sink(doubled, trips)
    assert sorted(trips.to_polars()["v"]) == [4, 6, 22, 54]
    more = pl.LazyFrame({"id": ["y"], "city": ["q"], "v": [1], "x": [0.5]})
    assert pyhudi.polars.sink(more, trips, operation="bulk_insert").inserted == 1


def test_an_unknown_operation_is_rejected(trips: pyhudi.Table) -> None:
    with pytest.raises(UserError, match="unknown operation"):
        pyhudi.polars.sink(pl.LazyFrame({"id": ["a"]}), trips, operation="merge")
