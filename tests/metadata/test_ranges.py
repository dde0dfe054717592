"""Bounds of columns, as both index versions store them, decoded and combined."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.metadata.file_stats.ranges import ColumnRanges, hull, ranges_in
from pyhudi.metadata.file_stats.value_types import (
    decimals_of,
    has_ranges,
    unscaled_bytes,
    unscaled_of,
)
from pyhudi.metadata.payloads import ranges_type

NAN = float("nan")
DAY = dt.date(2026, 11, 22)
NOON = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
MILLIS = int(NOON.timestamp()) * 1000
NO_FLAGS = np.zeros(1, np.bool_)


def entry(wrapper: str, low: Any, high: Any, typed: tuple[int, str | None] | None = None) -> Any:
    return {
        "fileName": "f", "columnName": "c", "valueCount": 2, "nullCount": 0, "isDeleted": False,
        "isTightBound": False,
        "minValue": {wrapper: {"value": low}}, "maxValue": {wrapper: {"value": high}},
        "valueType": typed and {"typeOrdinal": typed[0], "additionalInfo": typed[1]},
    }  # fmt: skip


def decoded(record: Any, kind: pa.DataType) -> ColumnRanges:
    found = ranges_in(pa.array([record], ranges_type()), kind, NO_FLAGS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "record", "high"),
    [
        (pa.date32(), entry("IntWrapper", 0, 20779, (12, None)), DAY),
        (pa.date32(), entry("DateWrapper", 0, 20779), DAY),
        (pa.date32(), entry("LocalDateWrapper", 0, 20779), DAY),
        (pa.decimal128(9, 2), entry("BytesWrapper", b"\x80", b"\x00\x80", (10, "9,2")),
         Decimal("1.28")),
        (pa.decimal128(12, 4), entry("BytesWrapper", b"\x80", b"\x00\x80", (10, "9,2")),
         Decimal("1.2800")),
        (pa.timestamp("ms", "UTC"), entry("LongWrapper", 0, MILLIS, (15, None)), NOON),
        (pa.timestamp("us", "UTC"), entry("LongWrapper", 0, MILLIS * 1000, (16, None)), NOON),
        (pa.timestamp("us", "UTC"), entry("LongWrapper", 0, MILLIS, (15, None)), NOON),
        (pa.timestamp("ms", "UTC"), entry("LongWrapper", 0, MILLIS, (16, None)), NOON),
        (pa.timestamp("us"), entry("LongWrapper", 0, MILLIS * 1000, (19, None)),
         NOON.replace(tzinfo=None)),
        (pa.timestamp("ms"), entry("LongWrapper", 0, MILLIS, (18, None)),
         NOON.replace(tzinfo=None)),
        (pa.time32("ms"), entry("IntWrapper", 0, 1000, (13, None)), dt.time(0, 0, 1)),
        (pa.time64("us"), entry("LongWrapper", 0, 1000000, (14, None)), dt.time(0, 0, 1)),
        (pa.int64(), entry("IntWrapper", -1, 7, (3, None)), 7),
        (pa.float64(), entry("FloatWrapper", -1.5, 0.1, (5, None)), 0.1),
        (pa.string(), entry("StringWrapper", "", "z", (7, None)), "z"),
        (pa.binary(), entry("BytesWrapper", b"", b"\xff", (8, None)), b"\xff"),
        (pa.bool_(), entry("BooleanWrapper", False, True, (2, None)), True),
    ],
)  # fmt: skip
def test_bounds_are_values_of_the_column(kind: pa.DataType, record: Any, high: Any) -> None:
    """Milliseconds with the label of microseconds stay milliseconds, as reads take them."""
    found = decoded(record, kind)
    assert found.is_bounded.all() and found.high.type == kind
    assert found.high.to_pylist() == [high]


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (pa.float64(), entry("DoubleWrapper", 1.0, NAN, (6, None))),
        (pa.float32(), entry("FloatWrapper", 1.0, NAN)),
        (pa.timestamp("us", "UTC"), entry("LongWrapper", 1, 2, (4, None))),
        (pa.string(), entry("IntWrapper", 1, 2, (3, None))),
        (pa.int64(), entry("IntWrapper", 1, 2, (99, None))),
        (pa.decimal128(9, 2), entry("BytesWrapper", b"\x01", b"\x02", (10, "nine"))),
        (pa.int32(), entry("LongWrapper", 1, 1 << 40, (4, None))),
    ],
)
def test_bounds_that_cannot_be_compared_exclude_nothing(kind: pa.DataType, record: Any) -> None:
    found = decoded(record, kind)
    assert not found.is_bounded.any() and found.has_values.all()


def test_one_column_may_have_bounds_of_several_types() -> None:
    records = [
        entry("IntWrapper", 1, 2, (3, None)),
        entry("LongWrapper", 3, 1 << 40, (4, None)),
        entry("LongWrapper", 5, 6),
        {**entry("IntWrapper", 0, 0, (1, None)), "minValue": None, "maxValue": None,
         "nullCount": 2},
    ]  # fmt: skip
    found = ranges_in(pa.array(records, ranges_type()), pa.int64(), np.zeros(4, np.bool_))
    assert found is not None
    assert found.high.to_pylist() == [2, 1 << 40, 6, None]
    assert found.has_values.tolist() == [True, True, True, False]


def test_a_hull_spans_what_its_files_have() -> None:
    kind = pa.float64()
    flags = [np.array(f, np.bool_) for f in (
        [1, 1, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0], [1, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 0],
    )]  # fmt: skip
    low = pa.array([3.0, -1.0, 5.0, 6.0, None, 1.0], kind)
    high = pa.array([4.0, -0.5, 5.0, NAN, None, 1.0], kind)
    homes = np.array([0, 0, 1, 1, 2, 3])
    found = hull(ColumnRanges(low, high, *flags), homes, 5)
    assert str(found.low.to_pylist()) == "[-1.0, 5.0, None, 1.0, None]"
    assert str(found.high.to_pylist()) == "[4.0, nan, None, 1.0, None]"
    assert found.is_bounded.tolist() == [True, False, False, False, False]
    assert found.is_known.tolist() == [True, True, True, False, False]
    assert found.may_be_null.tolist() == [True, False, True, True, True]
    assert found.has_values.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("value", ["0.00", "-1.28", "1.27", "1.28", "-99999.99", "2.55", "-0.01"])
def test_decimals_are_their_unscaled_numbers_in_the_fewest_bytes(value: str) -> None:
    column = pa.array([Decimal(value), None], pa.decimal128(15, 2))
    unscaled = unscaled_of(column)
    number = int(Decimal(value).scaleb(2))
    assert unscaled.to_pylist() == [unscaled_bytes(number), None]
    assert int.from_bytes(unscaled[0].as_py(), "big", signed=True) == number
    assert decimals_of(unscaled, column.type).equals(column)


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (pa.string(), True, True),
        (pa.dictionary(pa.int32(), pa.string()), True, True),
        (pa.binary(), False, False),
        (pa.binary(4), False, False),
        (pa.decimal128(30, 15), True, True),
        (pa.decimal128(16, 0), False, True),
        (pa.decimal128(20, 16), False, True),
        (pa.timestamp("ns"), True, True),
        (pa.list_(pa.int32()), False, False),
        (pa.struct([("a", pa.int32())]), False, False),
    ],
)
def test_each_version_has_its_types(kind: pa.DataType, first: bool, second: bool) -> None:
    assert (has_ranges(kind, 1), has_ranges(kind, 2)) == (first, second)
