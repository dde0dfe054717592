"""Years, months, days and times of day of instants, and their text by a Java pattern, in UTC.

y year (yyyy)   M month (MM)   d day (dd)   H hour (HH)   m minute (mm)   s second (ss)   'text'

The calendar is the proleptic Gregorian one, as in java.time; a year beyond 9999 has a sign.
Source: java.time.format.DateTimeFormatter, which Spark 3 uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedTableError

_DAY: Final = 86_400
_CYCLE_DAYS: Final = 146_097
"""Days of 400 years, after which the calendar repeats."""

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'#{}\[\]]+")
_LETTERS: Final = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
_STRFTIME: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


@dataclass(frozen=True, slots=True)
class Moments:
    """Instants as calendar fields: numpy arrays of int64, any number where the instant is null."""

    year: Any
    month: Any
    day: Any
    second_of_day: Any
    is_null: Any

    @classmethod
    def of_seconds(cls, seconds: pa.Array) -> Moments:
        """seconds: int64, since 1970."""
        plain = seconds.fill_null(0).to_numpy(zero_copy_only=False)
        days, second_of_day = np.divmod(plain, _DAY)
        cycles, days = np.divmod(days, _CYCLE_DAYS)
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        return cls(
            year=dates.astype("datetime64[Y]").astype(np.int64) + 1970 + 400 * cycles,
            month=months.astype(np.int64) % 12 + 1,
            day=(dates - months).astype(np.int64) + 1,
            second_of_day=second_of_day,
            is_null=seconds.is_null().to_numpy(zero_copy_only=False),
        )

    def field(self, name: str) -> pa.Array:
        """year, month, day or hour, as int32."""
        numbers = self.second_of_day // 3600 if name == "hour" else getattr(self, name)
        return pa.array(numbers.astype(np.int32), mask=self.is_null)

    def text(self, pattern: str) -> pa.Array:
        """Raises UnsupportedTableError for a pattern with other letters."""
        parts = [self._part(text, is_letter) for text, is_letter in pattern_parts(pattern)]
        joined = pc.binary_join_element_wise(*parts, "") if parts else pa.repeat("", len(self.day))
        return pc.if_else(pa.array(~self.is_null), joined, pa.scalar(None, pa.string()))

    def _part(self, text: str, is_letter: bool) -> pa.Array | pa.Scalar:
        if not is_letter:
            return pa.scalar(text)
        if text == "yyyy":
            return _year_text(self.year)
        second = self.second_of_day
        numbers = {
            "MM": self.month, "dd": self.day, "HH": second // 3600, "mm": second // 60 % 60,
            "ss": second % 60,
        }[text]  # fmt: skip
        return _padded(numbers, 2)


def _padded(numbers: Any, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers, pa.int64()).cast(pa.string()), width, "0")


def _year_text(years: Any) -> pa.Array:
    """The year of its era; 0 is the first year before the common era."""
    of_era = np.where(years > 0, years, 1 - years)
    text = _padded(of_era, 4)
    return pc.if_else(pa.array(of_era > 9999), pc.binary_join_element_wise("+", text, ""), text)


@cache
def pattern_parts(pattern: str) -> tuple[tuple[str, bool], ...]:
    """(text, whether it is a letter of the pattern) of each part.  Raises UnsupportedTableError."""
    found: list[tuple[str, bool]] = []
    at = 0
    for match in _TOKEN.finditer(pattern):
        text, is_letter = match[0], match[2] is not None
        if match.start() != at or (is_letter and text not in _LETTERS):
            break
        if match[1] is not None:
            text = match[1].replace("''", "'") or "'"
        found.append((text, is_letter))
        at = match.end()
    if at != len(pattern):
        raise UnsupportedTableError(
            "this time format of an expression index is not supported",
            format=pattern,
            hint="use yyyy, MM, dd, HH, mm, ss and literal text",
        )
    return tuple(found)


def strftime_format(pattern: str) -> str:
    """The format of C and Arrow for the same text.  Raises UnsupportedTableError."""
    return "".join(
        _STRFTIME[text] if is_letter else text.replace("%", "%%")
        for text, is_letter in pattern_parts(pattern)
    )
