"""Conversion of column values to the text that Java produces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError


def as_text(column: Any, name: str) -> Any:
    """A column's values as Java prints them; nulls stay null.

    Raises SchemaError for types that cannot be a key or partition value.
    """
    kind = column.type
    if pt.is_dictionary(kind):
        return as_text(column.cast(kind.value_type), name)
    if pt.is_run_end_encoded(kind):
        return as_text(pc.run_end_decode(column), name)
    if pt.is_string(kind):
        return column
    if pt.is_large_string(kind) or pt.is_string_view(kind) or pt.is_integer(kind):
        return column.cast(pa.string())
    if pt.is_boolean(kind) or pt.is_date32(kind):
        return column.cast(pa.string())
    if pt.is_timestamp(kind):  # the raw number of the Avro value
        unit = pa.timestamp("ms" if kind.unit == "ms" else "us", kind.tz)
        return column.cast(unit).cast(pa.int64()).cast(pa.string())
    if pt.is_floating(kind):
        return _mapped(column, lambda v: java_double(v, single=pt.is_float32(kind)))
    if pt.is_decimal(kind):
        return _mapped(column, lambda v: format(v, "f") if isinstance(v, Decimal) else str(v))
    raise SchemaError(
        "a column of this type cannot be a key or partition value", column=name, type=str(kind)
    )


def through_text(singles: pa.Array) -> pa.Array:
    """float -> double through the shortest text, as Apache Hudi widens: 0.1 stays 0.1."""
    texts = np.asarray(pc.fill_null(singles, 0.0)).astype(np.str_)
    return pa.array(texts.astype(np.float64), mask=np.asarray(singles.is_null()))


def _mapped(column: Any, text: Callable[[Any], str]) -> Any:
    """Python text of each distinct value, for types that Arrow and Java print differently."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_mapped(c, text) for c in column.chunks], pa.string())
    encoded = column.dictionary_encode()
    texts: Sequence[str] = [text(v) for v in encoded.dictionary.to_pylist()]
    decoded = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))
    return decoded.dictionary_decode()


def java_double(value: float, *, single: bool = False) -> str:
    """`Double.toString` (or `Float.toString`) of Java."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if single:
        digits = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    else:
        digits = f"{Decimal(repr(value)):e}"
    mantissa, _, exponent = digits.partition("e")
    power = int(exponent or 0)
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    if -3 <= power < 7:
        plain = format(Decimal(mantissa).scaleb(power), "f")
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return plain if "." in plain else plain + ".0"
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{power}"
