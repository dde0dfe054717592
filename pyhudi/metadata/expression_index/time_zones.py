"""Ranges of functions whose values depend on the time zone of the Spark session that wrote them.

pyhudi computes in UTC; the zone of another writer is not stored.  No zone is a day or more away
from UTC, so the bounds of a moment in UTC are those of any zone, a day wider.  Values that follow
the order of time have such bounds: years, dates, and text whose pattern starts with the year and
goes on to ever smaller units.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.metadata.expression_index.calendar import pattern_parts, strftime_format
from pyhudi.metadata.expression_index.functions import DEFAULT_FORMAT, Expression
from pyhudi.metadata.file_stats.ranges import ColumnRanges, as_flags

_DAY: Final = 86_400
_UNITS: Final = ("yyyy", "MM", "dd", "HH", "mm", "ss")
_SECONDS: Final = {
    "yyyy": 366 * _DAY, "MM": 31 * _DAY, "dd": _DAY, "HH": 3600, "mm": 60, "ss": 1,
}  # fmt: skip
_OF_MOMENTS: Final = frozenset({"year", "month", "day", "hour", "to_date", "date_format"})
_IN_ORDER: Final = frozenset({"year", "to_date"})


def depends_on_zone(expression: Expression, kind: pa.DataType) -> bool:
    """Whether values of the function of a column of this type depend on the time zone."""
    if expression.function == "from_unixtime":
        return True
    is_instant = pt.is_timestamp(kind) and kind.tz is not None
    return bool(is_instant and expression.function in _OF_MOMENTS)


def has_bounds_in_any_zone(expression: Expression) -> bool:
    """Whether ranges that were computed in an unknown zone bound the values in UTC."""
    if expression.function in _IN_ORDER:
        return True
    pattern = _pattern(expression)
    units = (
        [] if pattern is None else [text for text, is_letter in pattern_parts(pattern) if is_letter]
    )
    return bool(units) and units == list(_UNITS[: len(units)])


def in_any_zone(ranges: ColumnRanges, expression: Expression) -> ColumnRanges:
    """Ranges computed in an unknown zone as ranges that bound the values in UTC."""
    low, high = ranges.low, ranges.high
    pattern = _pattern(expression)
    if pattern is not None:
        low, high = _earlier(low, pattern), _later(high, pattern)
    elif pt.is_date32(low.type):
        low, high = (_moved(side, days) for side, days in ((low, -1), (high, 1)))
    else:
        low, high = pc.subtract(low, 1), pc.add(high, 1)
    stated = as_flags(low.is_valid()) & as_flags(high.is_valid())
    return replace(ranges, low=low, high=high, is_bounded=ranges.is_bounded & stated)


def _pattern(expression: Expression) -> str | None:
    if expression.function not in ("from_unixtime", "date_format"):
        return None
    return dict(expression.options).get("format", DEFAULT_FORMAT)


def _moved(dates: pa.Array, days: int) -> pa.Array:
    return pc.add(dates.cast(pa.int32()), pa.scalar(days, pa.int32())).cast(pa.date32())


def _earlier(texts: pa.Array, pattern: str) -> pa.Array:
    return _text_after(texts, pattern, -_DAY)


def _later(texts: pa.Array, pattern: str) -> pa.Array:
    """The text of a day after the end of the period that a text names."""
    unit = next(text for text, is_letter in reversed(pattern_parts(pattern)) if is_letter)
    return _text_after(texts, pattern, _SECONDS[unit] + _DAY)


def _text_after(texts: pa.Array, pattern: str, seconds: int) -> pa.Array:
    """Null for a text of another format, such as that of a year beyond 9999."""
    stated = strftime_format(pattern)
    moments = pc.strptime(texts, format=stated, unit="s", error_is_null=True)
    moved = pc.add(moments.cast(pa.int64()), seconds)
    expression = Expression("from_unixtime", "", (("format", pattern),))
    is_exact = pc.equal(expression.values(moments.cast(pa.int64())), texts)
    return pc.if_else(is_exact, expression.values(moved), pa.scalar(None, pa.string()))
