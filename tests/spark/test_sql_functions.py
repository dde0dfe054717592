"""Functions of SQL on one machine give what Spark gives for the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from sqlglot import exp, parse_one

import pyhudi
from pyhudi.sql.duckdb_functions import BY_NAME, CHANGED, SAME
from pyhudi.sql.grammar import dialect

ROWS = pa.table({
    "k": ["r1", "r2", "r3", "r4"],
    "n": pa.array([5, None, -7, 9007199254740993], pa.int64()),
    "i": pa.array([1, 2, -3, 2147483647], pa.int32()),
    "d": [1.7, -1.7, 2.5, None],
    "s": ["a_b,c", "Axb", "", "12"],
    "t": ["2024-02-29", None, "1969-12-31", "2000-01-01"],
    "tags": [["x", "y", None, "x"], [], None, ["z"]],
    "ts": pa.array(
        [datetime(2024, 3, 9, 23, 30, 5, tzinfo=UTC), None, datetime(1969, 12, 31, 1, tzinfo=UTC),
         datetime(2000, 2, 29, tzinfo=UTC)], pa.timestamp("us", "UTC"),
    ),
    "dt": pa.array([date(2024, 2, 29), None, date(2000, 1, 1), date(2023, 12, 31)]),
    "dec": pa.array([*map(Decimal, ("1.25", "7", "-2.35", "0.05"))], pa.decimal128(10, 2)),
    "b": [True, False, None, True],
})  # fmt: skip

EDGES = pa.table({
    "k": ["r1", "r2", "r3", "r4", "r5", "r6", "r7"],
    "n": pa.array([0, None, -1, 2**63 - 1, -(2**63), 2**53 + 1, 97], pa.int64()),
    "i": pa.array([0, None, -1, 2**31 - 1, -(2**31), 3, 1], pa.int32()),
    "d": [0.0, None, -0.0, float("nan"), float("inf"), float("-inf"), -2.5],
    "s": ["", None, " ", "\U0001f600b\u00e9", "a%b", "a\\b", "ba"],
    "tags": [[None], None, [], ["b", "a"], ["b", None], [""], ["x"]],
    "nums": [[None], None, [], [3, 1], [3, None, 1], [0, None], [2]],
    "ts": pa.array(
        [datetime(1970, 1, 1, tzinfo=UTC), None,
         datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
         datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, tzinfo=UTC),
         datetime(2024, 2, 29, 12, 30, 15, 500000, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC)],
        pa.timestamp("us", "UTC"),
    ),
    "dt": pa.array(
        [date(1970, 1, 1), None, date(1969, 12, 31), date(1900, 1, 1), date(2024, 3, 31),
         date(2024, 2, 29), date(2000, 1, 2)]
    ),
    "dec": pa.array(
        [Decimal(text) if text else None
         for text in ("0.00", "", "-0.01", "99999999.99", "-2.55", "0.50", "1.50")],
        pa.decimal128(10, 2),
    ),
    "b": [True, None, False, True, False, None, True],
})  # fmt: skip
"""Values at which functions of engines differ."""

LIST = Path(__file__).with_name("sql_functions.txt").read_text("utf-8")


def expressions(form: str) -> list[str]:
    """Expressions of the list: of each row, aggregates of all, or windows."""
    return LIST.partition(f"[{form}]\n")[2].partition("\n[")[0].splitlines()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name, rows in (("plain", ROWS), ("edges", EDGES)):
        found[name] = tmp_path_factory.mktemp("functions") / name
        pyhudi.create_table(found[name], rows.schema, record_key="k").bulk_insert(rows)
    return found


@pytest.fixture(scope="module")
def path(paths: dict[str, Path]) -> Path:
    return paths["plain"]


def plain(value: Any) -> Any:
    """A value without what engines may differ in: the type of numbers, zone objects, rows."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        found = float(f"{value:.12g}") if isinstance(value, float) else value
        return "nan" if math.isnan(found) else found
    if isinstance(value, datetime):
        value = value if value.tzinfo else value.replace(tzinfo=UTC)
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return [plain(each) for each in value.values()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def answer(run: Callable[[str], list[Any]], text: str) -> Any:
    """The rows, or that there is an error."""
    try:
        return [plain(row) for row in run(text)]
    except (pyhudi.UserError, PySparkException, Py4JError) as error:
        return "refused" if "not supported on one machine" in str(error) else "error"


def answers(run: Callable[[str], list[Any]], listed: list[str], end: str) -> list[Any]:
    """The answer to each expression: of all in one statement, of fewer where one has none."""
    columns = ", ".join(f"{each} as v{number}" for number, each in enumerate(listed))
    found = answer(run, f"select {columns} from t{end}")
    if len(listed) == 1:
        return [found]
    if isinstance(found, str):
        half = len(listed) // 2
        return [*answers(run, listed[:half], end), *answers(run, listed[half:], end)]
    return [[[row[number]] for row in found] for number in range(len(listed))]


@pytest.fixture
def in_utc(spark: Any) -> Iterator[Any]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("form", ["rows", "all", "windows", "edges"])
def test_functions_give_what_spark_gives(in_utc: Any, paths: dict[str, Path], form: str) -> None:
    path = paths["edges" if form == "edges" else "plain"]
    stored = in_utc.read.format("parquet").load(str(path))
    names = (EDGES if form == "edges" else ROWS).column_names
    stored.selectExpr(*names).createOrReplaceTempView("t")

    def by_pyhudi(text: str) -> list[Any]:
        return pyhudi.sql(text, tables={"t": path}).to_pylist()  # type: ignore[no-any-return]

    def by_spark(text: str) -> list[Any]:
        return [row.asDict(True) for row in in_utc.sql(text).collect()]

    listed = expressions(form)
    end = "" if form == "all" else " order by k"
    ours = answers(by_pyhudi, listed, end)
    failing = [each for each, own in zip(listed, ours, strict=True) if isinstance(own, str)]
    others = [each for each in listed if each not in failing]
    found = dict(zip(others, answers(by_spark, others, end), strict=True))
    found |= {each: answers(by_spark, [each], end)[0] for each in failing}  # each is a statement
    theirs = [found[each] for each in listed]
    compared = zip(listed, ours, theirs, strict=True)
    differ = [f"{each}: {own} instead of {other}" for each, own, other in compared if own != other]
    assert not differ, "\n".join(differ)


def test_each_listed_function_is_compared_with_spark() -> None:
    compared: set[str] = set()
    for each in (one for form in ("rows", "all", "windows", "edges") for one in expressions(form)):
        for node in parse_one(f"select {each}", read=dialect()).walk():
            is_named = isinstance(node, exp.Anonymous)
            compared.add(node.name.lower() if is_named else type(node).__name__)
    assert {*SAME, *CHANGED, *BY_NAME} <= compared


def test_other_functions_are_refused_by_name(path: Path) -> None:
    refused = {
        "hash(s)": "hash",
        "exists(tags, x -> x = 'a')": "exists",
        "array_distinct(tags)": "array_distinct",
        "map_contains_key(map('a', 1), 'a')": "map_contains_key",
        "no_such(s)": "no_such",
        "date_format(dt, 'EEE')": "format",
        "substring(s, n)": "position",
        "trunc(dt, 'century')": "century",
        "read_text('x')": "read_text",
        "getenv('HOME')": "getenv",
        "regexp_replace(s, 'a', '$12')": "constant replacement",
        "regexp_replace(s, 'a', s)": "constant replacement",
        "concat(s, d * 1e9)": "cast this value",
        "s || ts": "cast this value",
        "to_date('29.02.2024', 'yyyy-MM-dd')": "the query failed",
        "d % 0": "Division by zero",
        "1 as x from t lateral view outer explode(tags) as e union all select 1": "outer",
    }
    for text, name in refused.items():
        with pytest.raises(pyhudi.UserError, match=f"(?i){name}"):
            pyhudi.sql(f"select {text} from t", tables={"t": path})


def test_a_cast_that_fails_is_an_error_and_changes_nothing(path: Path) -> None:
    for text in ("cast(s as int)", "cast(9999999999 as int)", "cast(d * 1e300 as bigint)"):
        with pytest.raises(pyhudi.UserError, match="the query failed"):
            pyhudi.sql(f"update t set n = {text} where k = 'r1'", tables={"t": path})
    assert pyhudi.open_table(path).to_arrow()["n"].to_pylist().count(5) == 1
