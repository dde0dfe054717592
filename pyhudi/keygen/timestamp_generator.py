"""The timestamp key generator: partition names from a column of times.

Numbers count from 1970 in the unit of the type; strings are parsed by one of the input formats.
Both are formatted by the output format in the output zone.  As in Apache Hudi, a null is the number
1, or 1970-01-01 for strings.  The default zone is UTC; Apache Hudi uses the machine's.
Source: hudi-client-common/.../keygen/TimestampBasedAvroKeyGenerator.java, HoodieDateTimeParser.java
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import OptionError, SchemaError, UserError
from pyhudi.keygen.time_patterns import (
    format_time,
    granularity_ms,
    parse_time,
    shows_zone,
    tokens,
    zone_of_name,
)
from pyhudi.options import TimestampSettings

_TYPE: Final = "hoodie.keygen.timebased.timestamp.type"
_INPUT: Final = "hoodie.keygen.timebased.input.dateformat"
_OUTPUT: Final = "hoodie.keygen.timebased.output.dateformat"
_UNITS: Final = {
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
    "UNIX_TIMESTAMP": "SECONDS",
}
_TEXTS: Final = ("DATE_STRING", "MIXED")
_NANOS: Final = {"NANOSECONDS": 1, "MICROSECONDS": 10**3, "MILLISECONDS": 10**6,
                 "SECONDS": 10**9, "MINUTES": 60 * 10**9, "HOURS": 3600 * 10**9,
                 "DAYS": 86400 * 10**9}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTERS: Final = 94_694_400_000  # since 1973 zone offsets change at quarter hours only
_MS_MIN: Final = -62_135_510_400_000  # 0001-01-02, so that no zone offset leaves the range
_MS_MAX: Final = 253_402_214_400_000  # 9999-12-31


@dataclass(frozen=True, slots=True)
class TimeRule:
    """How times become partition names.  unit: of numbers; None: values are strings."""

    unit: str | None
    input_formats: tuple[str, ...]
    output_format: str
    input_zone: str | None
    output_zone: str | None


def time_rule(settings: TimestampSettings) -> TimeRule:
    """The rule that settings define.  Raises OptionError for missing or invalid settings."""
    kind = settings.timestamp_type
    if kind is None or settings.output_format is None:
        raise OptionError(
            "the table does not state the format of its timestamp partitions",
            missing=_TYPE if kind is None else _OUTPUT,
            hint="pass the option when opening the table, as its other writers do",
        )
    formats: tuple[str, ...] = ()
    if kind in _TEXTS:
        if not settings.input_formats:
            raise OptionError(f"{kind} requires an input format", missing=_INPUT)
        split = re.split(settings.input_delimiter or ",", settings.input_formats)
        formats = tuple(part.strip() for part in split)
    rule = TimeRule(
        None if kind in _TEXTS else _UNITS.get(kind) or settings.scalar_unit or "SECONDS",
        formats,
        settings.output_format,
        settings.timezone or settings.input_timezone,
        settings.timezone or settings.output_timezone,
    )
    tokens(rule.output_format)
    for pattern in rule.input_formats:
        parse_time("", pattern, zone=None)  # raises for unsupported patterns
    for zone in {rule.input_zone, rule.output_zone} - {None}:
        zone_of_name(zone or "")
    return rule


def time_texts(
    column: pa.ChunkedArray, name: str, *, rule: TimeRule, first_row: int = 0
) -> pa.DictionaryArray:
    """Each value's text: dictionary<int32, string> without nulls.

    Cost depends on the distinct spans of the output format for numbers, and on the distinct values
    for strings.  Raises SchemaError, UserError naming the row (counted from `first_row`) of an
    invalid time.
    """
    kind = column.type
    if pt.is_dictionary(kind):
        column = column.cast(kind.value_type)
        return time_texts(column, name, rule=rule, first_row=first_row)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        if rule.unit is None:
            return _of_texts(column.cast(pa.string()), name, rule=rule, first_row=first_row)
    elif rule.unit is not None and not pt.is_boolean(kind):
        millis = _millis(_whole(column, name), name, unit=rule.unit, first_row=first_row)
        return _of_millis(millis, rule)
    raise SchemaError(
        "the timestamp key generator does not support the column",
        column=name,
        type=str(kind),
        hint="DATE_STRING and MIXED are for strings, the other types for numbers",
    )


def _whole(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The raw numbers, as Avro stores them; a null is 1."""
    kind = column.type
    if pt.is_floating(kind) or pt.is_decimal(kind):
        column = pc.trunc(column)
    elif pt.is_date32(kind):
        column = column.cast(pa.int32())
    elif pt.is_timestamp(kind) and kind.unit not in ("ms", "us"):
        column = column.cast(pa.timestamp("ms" if kind.unit == "s" else "us", kind.tz))
    try:
        return pc.fill_null(column.cast(pa.int64()), 1)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            "the timestamp key generator does not support the column",
            column=name,
            type=str(kind),
            why=str(error),
        ) from None


def _millis(
    numbers: pa.ChunkedArray, name: str, *, unit: str, first_row: int
) -> npt.NDArray[np.int64]:
    """Milliseconds since 1970.  Raises UserError for years outside the range of a date."""
    raw = np.asarray(numbers.to_numpy(), np.int64)
    nanos = _NANOS[unit]
    if nanos < 10**6:
        many = np.int64(10**6 // nanos)
        millis = raw // many + ((raw < 0) & (raw % many != 0))  # toward zero, as Java
        bad = (millis < _MS_MIN) | (millis > _MS_MAX)
    else:
        factor = nanos // 10**6
        bad = (raw < _MS_MIN // factor) | (raw > _MS_MAX // factor)
        millis = np.where(bad, 0, raw) * np.int64(factor)
    if bad.any():
        row = int(np.argmax(bad))
        raise UserError(
            "a time is outside the years 1 to 9999",
            column=name,
            row=first_row + row,
            value=int(raw[row]),
            hint=f"check that {_TYPE} is the column's unit",
        )
    return np.asarray(millis, np.int64)


def _of_millis(millis: npt.NDArray[np.int64], rule: TimeRule) -> pa.DictionaryArray:
    zone = zone_of_name(rule.output_zone or "UTC")
    if shows_zone(rule.output_format):
        encoded = pa.array(millis).dictionary_encode()
        times = [_EPOCH + timedelta(milliseconds=ms) for ms in encoded.dictionary.to_pylist()]
        texts = [format_time(time.astimezone(zone), rule.output_format) for time in times]
    else:
        span = granularity_ms(rule.output_format)
        encoded = pa.array(_local_millis(millis, zone) // span).dictionary_encode()
        spans = encoded.dictionary.to_pylist()
        times = [_EPOCH + timedelta(milliseconds=n * span) for n in spans]
        texts = [format_time(time, rule.output_format) for time in times]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _local_millis(millis: npt.NDArray[np.int64], zone: tzinfo) -> npt.NDArray[np.int64]:
    """Milliseconds of local time."""
    fixed = zone.utcoffset(None)
    if fixed is not None:
        return millis + np.int64(fixed // timedelta(milliseconds=1))
    # Arrow's local_timestamp ignores daylight saving time after 2037
    step = 900_000 if millis.min(initial=_QUARTERS) >= _QUARTERS else 1000
    encoded = pa.array(millis // step).dictionary_encode()
    starts = (_EPOCH + timedelta(milliseconds=n * step) for n in encoded.dictionary.to_pylist())
    offsets = [start.astimezone(zone).utcoffset() or timedelta() for start in starts]
    shifts = np.array([offset // timedelta(milliseconds=1) for offset in offsets], np.int64)
    return np.asarray(millis + shifts[encoded.indices.to_numpy()], np.int64)


def _of_texts(
    column: pa.ChunkedArray, name: str, *, rule: TimeRule, first_row: int
) -> pa.DictionaryArray:
    encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # of no chunks
        encoded = pa.array([], pa.string()).dictionary_encode()
    texts = []
    for value in (*encoded.dictionary.to_pylist(), None):  # null is the last code
        text = _formatted(value, rule)
        if text is None:
            raise UserError(
                "a value does not match any input format",
                column=name,
                row=first_row + pc.index(column, value).as_py(),
                value=value,
                formats=", ".join(rule.input_formats),
            )
        texts.append(text)
    indices = pc.fill_null(encoded.indices, len(texts) - 1)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _formatted(value: Any, rule: TimeRule) -> str | None:
    """One string in the output format; None where it matches no input format."""
    read_in = None if rule.input_zone is None else zone_of_name(rule.input_zone)
    shown_in = None if rule.output_zone is None else zone_of_name(rule.output_zone)
    if value is None:
        return format_time(_EPOCH.astimezone(shown_in or UTC), rule.output_format)
    for pattern in rule.input_formats:
        time = parse_time(value, pattern, zone=read_in)
        if time is not None:
            shown = time if shown_in is None else time.astimezone(shown_in)
            return format_time(shown, rule.output_format)
    return None
