"""Filters of scans that Spark's own reader applies to the rows of base files."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.spark.parquet_reader import Reader
from pyhudi.spark.scan import BYTES_MIN
from tests.spark.test_native_logs import compare, every_size, sorted_rows  # noqa: F401

UTC = datetime.UTC
F = pc.field
NAN, ZERO, ZEROES = float("nan"), 0.0, [-0.0, 0.0]

ROWS = pa.table(
    {
        "id": [f"k{n:02d}" for n in range(14)],
        "part": ["x", "y"] * 7,
        "i": pa.array([None, 0, 1, -1, 2**31 - 1, -(2**31), 5] * 2, pa.int32()),
        "l": pa.array([None, 0, 1, -1, 2**63 - 1, -(2**63), 5] * 2, pa.int64()),
        "f": pa.array([None, NAN, -0.0, 0.0, 0.5, -0.5, float("inf")] * 2, pa.float32()),
        "d": pa.array([None, NAN, 0.0, -0.0, 0.1, -0.5, float("-inf")] * 2, pa.float64()),
        "s": ["", "a", "ab", "é", "\U0001f600", None, "a'b\\n"] * 2,
        "y": pa.array([b"", b"\x00", b"\xff", None, b"a", b"ab", b"\x7f"] * 2),
        "b": pa.array([True, False, None, True, False, None, True] * 2),
        "m": pa.array([None, Decimal("1.25"), Decimal("-9"), Decimal(0)] * 3 + [None, None],
                      pa.decimal128(20, 4)),
        "day": pa.array([None, datetime.date(1, 1, 1), datetime.date(1969, 12, 31),
                         datetime.date(1582, 10, 4), datetime.date(9999, 12, 31)] * 2 + [None] * 4),
        "t": pa.array([None, datetime.datetime(1900, 1, 1, 0, 0, 0, 1, UTC),
                       datetime.datetime(2026, 3, 8, 7, 30, tzinfo=UTC)] * 4 + [None] * 2,
                      pa.timestamp("us", "UTC")),
        "w": pa.array([None, datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
                       datetime.datetime(2026, 3, 8, 2, 30)] * 4 + [None] * 2, pa.timestamp("us")),
    }
)  # fmt: skip

CONDITIONS: list[pc.Expression] = [
    F("i") > 0,
    F("i") == pa.scalar(5, pa.int64()),
    (F("i") == pa.scalar(5, pa.int64())) | (F("s") == "a"),
    ~(F("i") >= 1),
    F("l") <= -1,
    F("l") != 2**63 - 1,
    *(op(F(name), value) for name in "fd" for value in (0.0, -0.0, 0.5) for op in (
        lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a <= b,
        lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: ~(a < b), lambda a, b: ~(a == b))),
    F("d") == 0.1,
    F("f") > 1,
    F("s") == "a'b\\n",
    F("s") > "é",
    F("s") <= "\U0001f600",
    ~F("s").isin(["a", "ab"]),
    F("s").isin(["a", "é", "none"]),
    pc.starts_with(F("s"), "a"),
    ~pc.ends_with(F("s"), "b"),
    pc.match_substring(F("s"), "'b\\"),
    F("y") >= b"\x7f",
    F("y") == b"",
    F("y").isin([b"\xff", b"a"]),
    F("b"),
    ~F("b"),
    F("b") == False,  # noqa: E712
    F("i").is_null(),
    F("d").is_valid() & ~F("b").is_null(),
    F("m") > Decimal("-9.0000"),
    F("m") == pa.scalar(Decimal("1.25"), pa.decimal128(3, 2)),
    F("day") < datetime.date(1600, 1, 1),
    F("day").isin([datetime.date(1582, 10, 4), datetime.date(9999, 12, 31)]),
    F("day") == datetime.date(1, 1, 1),
    F("t") > datetime.datetime(1900, 1, 1, tzinfo=UTC),
    F("t") == pa.scalar(datetime.datetime(2026, 3, 8, 7, 30, tzinfo=UTC), pa.timestamp("s", "UTC")),
    F("w") == datetime.datetime(2026, 3, 8, 2, 30),
    F("w") <= datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
    F("part") == "y",
    (F("part") == "x") & (F("i") > 0),
    (F("part") == "x") | (F("i") > 0),
    (F("_hoodie_record_key") > "k05") & (F("_hoodie_partition_path") == "y"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A copy-on-write and a merge-on-read table of `ROWS`; the latter has logs with the rows of
    the other half of the values."""
    found = {}
    for kind in ("cow", "mor"):
        path = found[kind] = tmp_path_factory.mktemp(kind) / "t"
        table = pyhudi.create_table(
            path, ROWS.schema, record_key="id", partition_by="part", table_type=kind, index="bloom",
            options={"hoodie.datasource.write.hive_style_partitioning": "true"},
        )  # fmt: skip
        table.upsert(ROWS)
        update = ROWS.slice(0, 5)
        for name in set(ROWS.column_names) - {"id", "part"}:
            at = ROWS.schema.get_field_index(name)
            update = update.set_column(at, ROWS.schema.field(at), ROWS[name].slice(2, 5))
        table.upsert(update)
        table.delete(keys=["k06"])
    return found


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        pytest.param("cow", slice(0, None, 8), id="cow-some"),
        pytest.param("mor", slice(4, None, 8), id="mor-some"),
        pytest.param("cow", slice(None), id="cow", marks=pytest.mark.slow),
        pytest.param("mor", slice(None), id="mor", marks=pytest.mark.slow),
    ],
)
def test_a_filter_of_spark_selects_the_rows_of_the_local_engine(
    spark: Any, tables: dict[str, Path], kind: str, some: slice
) -> None:
    local = pyhudi.open_table(tables[kind])
    table = hudi.open_table(spark, tables[kind])
    columns = ["id", "s"]
    for where in CONDITIONS[some]:
        expected = local.scan(columns, where).to_arrow()
        readers = {chosen.reader for chosen in table.explain(columns, where).readers}
        assert readers <= {Reader.SPARK, Reader.SPARK_AND_LOGS}, str(where)
        found = sorted_rows(tuple(row) for row in table.scan(columns, where).collect())
        assert found == sorted_rows(row.values() for row in expected.to_pylist()), str(where)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_zeros_of_both_signs_are_equal_in_files_that_have_one(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    """Also in the dictionary of a row group, by which Spark's reader can skip it."""
    zeros = pa.array([-0.0] * 4)
    rows = pa.table({
        "id": ["a", "b", "c", "d"], "d": zeros, "f": zeros.cast(pa.float32()),
        "at": pa.StructArray.from_arrays([zeros], names=["x"]),
    })  # fmt: skip
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", table_type=kind)
    table.upsert(rows)
    if kind == "mor":
        table.upsert(rows.slice(2))
    frame = hudi.read(spark, tmp_path / "t")
    for column in ("d", "f", "at.x"):
        for where in (f"{column} = 0", f"{column} in (0, 1)", f"not {column} <> 0"):
            assert frame.where(where).count() == 4, where
        assert frame.where(f"{column} < 0 or {column} > 0").count() == 0


def test_filters_without_an_equivalent_are_pyhudis(spark: Any, tables: dict[str, Path]) -> None:
    table = hudi.open_table(spark, tables["cow"])
    unlike: dict[str, pc.Expression] = {
        "the filter compares with NaN": F("d") == NAN,
        "the filter compares int32 with int64": F("i") > 2**40,
        "the filter compares float with double": F("f") == 0.1,
        "the filter uses Compare of other than a column and values": pc.utf8_upper(F("s")) == "A",
        "the filter compares with null": F("i").isin([1, None]),
        "the filter has a list of 1 values of type double": F("d").isin([0.0]),
        "the filter uses starts_with": pc.starts_with(F("s"), "A", ignore_case=True),
    }
    for reason, where in unlike.items():
        chosen = table.explain(None, where).readers
        assert {(c.reader, c.reason) for c in chosen} == {(Reader.PYHUDI, reason)}
        assert f"({reason})" in str(table.explain(None, where))
        compare(spark, tables["cow"], columns=["id", "i"], where=where)


def test_the_newest_value_decides_wherever_it_is(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b", "c"], "n": [1, 20, 30], "more": ["x"] * 3})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", table_type="mor")
    table.upsert(rows)
    table.upsert(pa.table({"id": ["a", "b"], "n": [10, 2], "more": ["y"] * 2}))
    path = tmp_path / "t"
    assert [r["id"] for r in compare(spark, path, both=1, where=F("n") < 5).collect()] == ["b"]
    found = compare(spark, path, both=1, columns=["id"], where="n >= 10").collect()
    assert sorted(row["id"] for row in found) == ["a", "c"]
    assert compare(spark, path, both=1, where="more = 'x'").count() == 1


def test_columns_and_filters_are_pushed_down(spark: Any, tables: dict[str, Path]) -> None:
    for kind in ("cow", "mor"):
        frame = hudi.read(spark, tables[kind], ["id"], "i > 0 and part = 'x'")
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "GreaterThan(i,0)" in plan
        assert "s:string" not in plan and "day:date" not in plan


def test_row_groups_that_cannot_match_cost_no_merge(spark: Any, tmp_path: Path) -> None:
    count = 600_000
    rows = pa.table({"id": [f"k{n:06d}" for n in range(count)], "n": range(count)})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", table_type="mor")
    table.bulk_insert(rows)
    chosen = rows.take(pa.array(range(5, count, 1000)))
    table.upsert(chosen.set_column(1, "n", pc.negate(chosen.column("n"))))
    table.delete(keys=["k599999", "k300000"])
    for where in ("n > 590000", "n between 290000 and 310000", "n < 0", "n > 1000000"):
        local = table.scan(["id"], where).to_arrow()
        found = hudi.read(spark, tmp_path / "t", ["id"], where).collect()
        assert sorted(row["id"] for row in found) == sorted(local.column("id").to_pylist())


RANGES: list[Callable[[list[str]], tuple[str, str | None]]] = [
    lambda at: ("000", None),
    lambda at: (at[0], None),
    lambda at: (at[0], at[1]),
    lambda at: (at[1], at[3]),
    lambda at: (at[-2], None),
    lambda at: (at[-1], None),
]


@pytest.mark.parametrize("ordering", [None, "ts"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_are_those_of_the_local_engine(
    spark: Any, tmp_path: Path, kind: str, version: int, ordering: str | None
) -> None:
    schema = pa.schema(
        [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
    )
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, schema, record_key="id", partition_by="part", table_type=kind, version=version,
        ordering=ordering, index="bloom",
    )  # fmt: skip

    def rows(numbers: Any, ts: int) -> pa.Table:
        found = [{"id": f"k{n}", "part": "xyz"[n % 3], "ts": ts, "v": f"{n}-{ts}"} for n in numbers]
        return pa.Table.from_pylist(found, schema)

    table.upsert(rows(range(12), 5))
    table.upsert(rows(range(0, 12, 2), 7))
    table.upsert(rows([1, 3, 20], 3))
    table.delete(keys=["k4"])
    table.upsert(rows([30, 33], 9))
    instants = list(table.timeline.commits)
    at = [str((i.completed_at or i.time) if version > 6 else i.time) for i in instants]
    mine = hudi.open_table(spark, path)
    used = set()
    for bounds in RANGES:
        since, until = bounds(at)
        used |= {chosen.reader for chosen in mine.explain(since=since, until=until).readers}
        for scan in (
            {},
            {"columns": ["v"]},
            {"where": "ts > 3"},
            {"columns": "id", "where": "v like '%7'"},
        ):
            expected = table.changes(since, until, **scan).to_arrow()
            frame = mine.changes(since, until, **scan)
            assert frame.columns == expected.schema.names
            found = sorted_rows(tuple(row) for row in frame.collect())
            assert found == sorted_rows(row.values() for row in expected.to_pylist())
    assert Reader.SPARK in used
    assert (Reader.SPARK_AND_LOGS in used) == (kind == "mor")


def test_changes_filter_base_files_by_commit_time(spark: Any, tables: dict[str, Path]) -> None:
    for kind in ("cow", "mor"):
        local = pyhudi.open_table(tables[kind])
        since = local.timeline.commits.instants[0].time
        frame = hudi.open_table(spark, tables[kind]).changes(since, columns=["id"])
        plan = frame._jdf.queryExecution().executedPlan().toString()
        # version 6: later than `since`; others: one of the commits that completed after it
        pushed = plan.partition("PushedFilters")[2]
        ways = (f"GreaterThan(_hoodie_commit_time,{since})", "In(_hoodie_commit_time,")
        assert kind == "mor" or any(way in pushed for way in ways)
        assert frame.count() == local.changes(since).count()


def test_a_filter_of_changes_is_a_column_too(spark: Any, tables: dict[str, Path]) -> None:
    from pyspark.sql import functions

    table = hudi.open_table(spark, tables["mor"])
    frame = table.changes("000", columns=["id"], where=functions.col("i") > 0)
    assert frame.columns == ["id"]
    assert frame.count() == pyhudi.open_table(tables["mor"]).changes("000", where="i > 0").count()
    spark.conf.set(BYTES_MIN, str(1 << 30))
    assert table.changes("000", where="i > 0").count() == frame.count()
