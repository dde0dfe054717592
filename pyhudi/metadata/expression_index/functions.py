"""Functions of expression indexes, computed over Arrow columns as Spark computes them in UTC.

```
year month day hour                of dates (not hour) and timestamps         int
from_unixtime  format              of integers: seconds                       string
date_format    format              of dates and timestamps                    string
unix_timestamp                     of dates and timestamps                    long
to_date                            of dates and timestamps                    date
date_add date_sub   days           of dates                                   date
lower upper length                 of strings                                 string, int
trim ltrim rtrim    trimString     of strings                                 string
substring           pos len        of strings, from the front                 string
identity                           of strings and integers, bloom filters     the same
```

Functions of Apache Hudi that are not listed depend on Java's regular expressions or on Spark's
parser of times (regexp_extract, regexp_replace, to_timestamp and the text of a time): a table with
such an index can be read but not written.
Source: ExpressionIndexSparkFunctions of Apache Hudi 1.2.0; its indexes, decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.expression_index.calendar import Moments, pattern_parts

DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"
"""Of from_unixtime without the option `format`."""

_MICROS: Final = 1_000_000
_DAY: Final = 86_400
_BLANK: Final = " "

Arguments = Mapping[str, str]
_Test = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class Expression:
    """A function of one column.  options: without `expr`, sorted by name."""

    function: str
    column: str
    options: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raise UnsupportedTableError for a function or options that cannot be computed."""
        known = _FUNCTIONS.get(self.function)
        given = dict(self.options)
        if known is None:
            raise self._unsupported("the function of an expression index is not supported")
        unknown, missing = given.keys() - known.options.keys(), known.missing(given)
        if unknown or missing:
            raise self._unsupported(
                "the options of an expression index are not supported",
                options=",".join(sorted(unknown or missing)),
            )
        for name, value in given.items():
            if not known.options[name](value):
                raise self._unsupported(
                    "an option of an expression index is not supported", option=name, value=value
                )

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether values of this type have a value of the function."""
        known = _FUNCTIONS.get(self.function)
        return known is not None and known.accepts(_plain(kind))

    def result_type(self, kind: pa.DataType) -> pa.DataType:
        """The type of the function's values for a column of a type that it accepts."""
        return _result_type(self, _plain(kind))

    @property
    def own_type(self) -> pa.DataType:
        """The type of the function's values; `identity`, whose type is the column's, gives that of
        one column that it accepts."""
        return next(self.result_type(kind) for kind in _SAMPLES if self.accepts(kind))

    def values(self, column: pa.Array) -> pa.Array:
        """The value of each row; null for null.  column: of a type that the function accepts."""
        if pt.is_dictionary(column.type):
            return self.values(column.dictionary).take(column.indices)
        return _FUNCTIONS[self.function].compute(column, dict(self.options))

    def _unsupported(self, what: str, **facts: str) -> UnsupportedTableError:
        return UnsupportedTableError(
            what,
            expression=self.function,
            column=self.column,
            **facts,
            hint="drop the index with table.index.drop(), or write with Apache Hudi",
        )


@lru_cache(maxsize=256)
def _result_type(expression: Expression, kind: pa.DataType) -> pa.DataType:
    return expression.values(pa.array([], kind)).type


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


@dataclass(frozen=True, slots=True)
class _Function:
    """options: names and whether a value is supported; required: names that must be given."""

    accepts: _Test
    compute: Callable[[pa.Array, Arguments], pa.Array]
    options: Mapping[str, Callable[[str], bool]]
    required: frozenset[str] = frozenset()

    def missing(self, given: Arguments) -> frozenset[str]:
        return self.required - given.keys()


# ---- times --------------------------------------------------------------------------------------


def _is_stored_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) and kind.unit in ("ms", "us"))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_date32(kind)) or _is_stored_time(kind)


def _is_seconds(kind: pa.DataType) -> bool:
    return bool(pt.is_int32(kind) or pt.is_int64(kind))


def _micros(column: pa.Array) -> pa.Array:
    """Microseconds since 1970 of dates and timestamps."""
    if pt.is_date32(column.type):
        return pc.multiply(column.cast(pa.int32()).cast(pa.int64()), _DAY * _MICROS)
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def _floored(numbers: pa.Array, by: int) -> pa.Array:
    """Quotients rounded down; nulls stay null."""
    plain = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    is_null = numbers.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.floor_divide(plain, by), mask=is_null)


def _seconds(column: pa.Array) -> pa.Array:
    return _floored(_micros(column), _MICROS)


def _field(name: str) -> Callable[[pa.Array, Arguments], pa.Array]:
    return lambda column, _: Moments.of_seconds(_seconds(column)).field(name)


def _from_unixtime(column: pa.Array, options: Arguments) -> pa.Array:
    # Spark multiplies to microseconds, which overflow without an error
    micros = pc.multiply(column.cast(pa.int64()), _MICROS)
    return Moments.of_seconds(_floored(micros, _MICROS)).text(options.get("format", DEFAULT_FORMAT))


def _date_format(column: pa.Array, options: Arguments) -> pa.Array:
    return Moments.of_seconds(_seconds(column)).text(options["format"])


def _unix_timestamp(column: pa.Array, _: Arguments) -> pa.Array:
    return pc.divide(_micros(column), _MICROS)  # rounded towards 0, as in Spark


def _to_date(column: pa.Array, _: Arguments) -> pa.Array:
    if pt.is_date32(column.type):
        return column
    return _floored(_micros(column), _DAY * _MICROS).cast(pa.int32()).cast(pa.date32())


def _days_later(sign: int) -> Callable[[pa.Array, Arguments], pa.Array]:
    def later(column: pa.Array, options: Arguments) -> pa.Array:
        days = pa.scalar(sign * int(options["days"]), pa.int32())
        return pc.add(column.cast(pa.int32()), days).cast(pa.date32())

    return later


def _is_format(text: str) -> bool:
    try:
        return bool(pattern_parts(text))
    except UnsupportedTableError:
        return False


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 9


# ---- text ---------------------------------------------------------------------------------------


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _cased(name: str) -> Callable[[pa.Array, Arguments], pa.Array]:
    def cased(column: pa.Array, _: Arguments) -> pa.Array:
        column = column.cast(pa.string())
        of_ascii = getattr(pc, f"ascii_{name}")
        odd = pc.invert(pc.string_is_ascii(column)).fill_null(False)
        if not pc.any(odd).as_py():
            return of_ascii(column)
        # Arrow maps characters one to one, Java may map one to several; few texts are distinct
        texts = pc.unique(column.filter(odd))
        mapped = pa.array([getattr(text, name)() for text in texts.to_pylist()], pa.string())
        known = mapped.take(pc.index_in(column, texts))
        plain = pc.if_else(odd, pa.scalar(None, pa.string()), column)
        return pc.if_else(odd, known, of_ascii(plain))

    return cased


def _trimmed(compute: Callable[..., pa.Array]) -> Callable[[pa.Array, Arguments], pa.Array]:
    def trimmed(column: pa.Array, options: Arguments) -> pa.Array:
        characters = options.get("trimString", _BLANK)
        return compute(column.cast(pa.string()), characters=characters)

    return trimmed


def _substring(column: pa.Array, options: Arguments) -> pa.Array:
    start = max(0, int(options["pos"]) - 1)
    stop = start + int(options["len"])
    return pc.utf8_slice_codeunits(column.cast(pa.string()), start=start, stop=stop)


def _length(column: pa.Array, _: Arguments) -> pa.Array:
    return pc.utf8_length(column.cast(pa.string())).cast(pa.int32())


def _is_count(text: str) -> bool:
    return _is_number(text) and int(text) >= 0


_FORMAT: Final = {"format": _is_format}
_DAYS: Final = {"days": _is_number}
_TRIM: Final = {"trimString": bool}

_FUNCTIONS: Final = {
    "identity": _Function(
        lambda kind: _is_text(kind) or _is_seconds(kind), lambda column, _: column, {}
    ),
    **{name: _Function(_is_moment, _field(name), {}) for name in ("year", "month", "day")},
    "hour": _Function(_is_stored_time, _field("hour"), {}),
    "from_unixtime": _Function(_is_seconds, _from_unixtime, _FORMAT),
    "date_format": _Function(_is_moment, _date_format, _FORMAT, frozenset(_FORMAT)),
    "unix_timestamp": _Function(_is_moment, _unix_timestamp, {}),
    "to_date": _Function(_is_moment, _to_date, {}),
    "date_add": _Function(pt.is_date32, _days_later(1), _DAYS, frozenset(_DAYS)),
    "date_sub": _Function(pt.is_date32, _days_later(-1), _DAYS, frozenset(_DAYS)),
    "lower": _Function(_is_text, _cased("lower"), {}),
    "upper": _Function(_is_text, _cased("upper"), {}),
    "length": _Function(_is_text, _length, {}),
    "trim": _Function(_is_text, _trimmed(pc.utf8_trim), _TRIM),
    "ltrim": _Function(_is_text, _trimmed(pc.utf8_ltrim), _TRIM),
    "rtrim": _Function(_is_text, _trimmed(pc.utf8_rtrim), _TRIM),
    "substring": _Function(
        _is_text, _substring, {"pos": _is_count, "len": _is_count}, frozenset({"pos", "len"})
    ),
}

_SAMPLES: Final = (
    pa.string(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"),
)  # fmt: skip
"""Types of which each function accepts at least one."""

FUNCTIONS: Final = tuple(sorted(_FUNCTIONS))
"""Names of the functions that can be computed."""
