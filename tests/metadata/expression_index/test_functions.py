"""Functions of expression indexes have the values that Spark computes in UTC."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.expression_index.calendar import strftime_format
from pyhudi.metadata.expression_index.functions import Expression

SECONDS = pa.array([0, None, -1, 1_700_000_000, 10**12])
DATES = pa.array([date(2024, 2, 29), None, date(1969, 12, 31)])
TIMES = pa.array([datetime(2023, 11, 14, 22, 13, 20, 123456), None, datetime(1969, 12, 31, 23, 59)],
                 pa.timestamp("us", "UTC"))  # fmt: skip
TEXTS = pa.array(["Äß", "Abc", None, "  x ", "İ"])


def of(function: str, **options: str) -> Expression:
    found = Expression(function, "a", tuple(sorted(options.items())))
    found.check()
    return found


CASES = [
    (of("from_unixtime", format="yyyy-MM-dd"), SECONDS,
     ["1970-01-01", None, "1969-12-31", "2023-11-14", "+33658-09-27"]),
    (of("from_unixtime"), SECONDS.slice(0, 3),
     ["1970-01-01 00:00:00", None, "1969-12-31 23:59:59"]),
    (of("date_format", format="yyyyMM'm''s'HH"), TIMES, ["202311m's22", None, "196912m's23"]),
    (of("date_format", format="yyyy/MM/dd HH"), DATES, ["2024/02/29 00", None, "1969/12/31 00"]),
    (of("year"), DATES, [2024, None, 1969]),
    (of("month"), TIMES, [11, None, 12]),
    (of("day"), TIMES, [14, None, 31]),
    (of("hour"), TIMES, [22, None, 23]),
    (of("unix_timestamp"), TIMES, [1_700_000_000, None, -60]),
    (of("to_date"), TIMES, [date(2023, 11, 14), None, date(1969, 12, 31)]),
    (of("date_add", days="3"), DATES, [date(2024, 3, 3), None, date(1970, 1, 3)]),
    (of("date_sub", days="3"), DATES, [date(2024, 2, 26), None, date(1969, 12, 28)]),
    (of("lower"), TEXTS, ["äß", "abc", None, "  x ", "i\u0307"]),
    (of("upper"), TEXTS, ["ÄSS", "ABC", None, "  X ", "İ"]),
    (of("length"), TEXTS, [2, 3, None, 4, 1]),
    (of("trim"), TEXTS, ["Äß", "Abc", None, "x", "İ"]),
    (of("ltrim"), TEXTS, ["Äß", "Abc", None, "x ", "İ"]),
    (of("rtrim", trimString=" cx"), TEXTS, ["Äß", "Ab", None, "", "İ"]),
    (of("substring", pos="2", len="2"), TEXTS, ["ß", "bc", None, " x", ""]),
    (of("substring", pos="0", len="1"), TEXTS, ["Ä", "A", None, " ", "İ"]),
]  # fmt: skip


@pytest.mark.parametrize("expression, column, expected", CASES, ids=lambda v: str(v)[:60])
def test_values_are_those_of_spark(
    expression: Expression, column: pa.Array, expected: list[Any]
) -> None:
    found = expression.values(column)
    assert found.to_pylist() == expected
    assert found.type == expression.result_type(column.type)
    coded = column.dictionary_encode()
    assert expression.accepts(coded.type) and expression.values(coded).to_pylist() == expected


REFUSED = [
    ("abs", {}), ("regexp_extract", {"pattern": "a", "idx": "1"}), ("to_timestamp", {}),
    ("date_format", {}), ("date_format", {"format": "yy"}), ("from_unixtime", {"format": "[yyyy"}),
    ("substring", {"pos": "-1", "len": "2"}), ("date_add", {"days": "x"}), ("lower", {"x": "1"}),
]  # fmt: skip


@pytest.mark.parametrize("function, options", REFUSED, ids=str)
def test_other_expressions_are_refused_by_name(function: str, options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTableError) as refused:
        of(function, **options)
    assert refused.value.facts["expression"] == function


ACCEPTED = [
    ("hour", [pa.timestamp("us", "UTC"), pa.timestamp("ms")], [pa.date32(), pa.timestamp("ns")]),
    ("year", [pa.date32(), pa.timestamp("us")], [pa.string(), pa.int64()]),
    ("from_unixtime", [pa.int32(), pa.int64()], [pa.float64(), pa.timestamp("us")]),
    ("lower", [pa.string(), pa.large_string()], [pa.binary(), pa.int32()]),
]


@pytest.mark.parametrize("function, own, others", ACCEPTED, ids=lambda v: str(v)[:20])
def test_a_function_accepts_the_types_that_it_computes(
    function: str, own: list[pa.DataType], others: list[pa.DataType]
) -> None:
    assert all(of(function).accepts(kind) for kind in own)
    assert not any(of(function).accepts(kind) for kind in others)


def test_a_pattern_has_the_format_of_arrow() -> None:
    assert strftime_format("yyyy-MM-dd'T'HH:mm:ss 100%") == "%Y-%m-%dT%H:%M:%S 100%%"
