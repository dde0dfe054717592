"""Key generators: the record key and partition path of each row, a column at a time.

simple / non-partitioned, one field   the value as text; null or empty is an error
complex, or several key fields        `f1:v1,f2:v2`; null -> `__null__`, empty -> `__empty__`
partition path                        per field the value as text, null or empty ->
                                      `__HIVE_DEFAULT_PARTITION__`; hive style `f=v`; joined by `/`
Source: table_format 5.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError, UnsupportedTableError, UserError
from pyhudi.records import DEFAULT_PARTITION
from pyhudi.table.config import KeyGeneratorKind, TableConfig

NULL_PLACEHOLDER: Final = "__null__"
EMPTY_PLACEHOLDER: Final = "__empty__"
_SUPPORTED: Final = {
    KeyGeneratorKind.SIMPLE,
    KeyGeneratorKind.COMPLEX,
    KeyGeneratorKind.NON_PARTITION,
}
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How a table makes keys and paths out of its columns.

    Invariant: `composite` is set when there is more than one key field.
    """

    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    composite: bool
    hive_style: bool
    url_encoded: bool


def key_rule(config: TableConfig) -> KeyRule:
    """The rule of a table.  Raises UnsupportedTableError for generators not supported yet."""
    kind = config.key_generator
    if kind not in _SUPPORTED:
        raise UnsupportedTableError(
            f"writing with the {kind.value.lower()} key generator is not supported",
            hint="simple, complex and non-partitioned key generators are",
        )
    fields = config.record_key_fields
    if kind is KeyGeneratorKind.COMPLEX and len(fields) == 1:
        raise UnsupportedTableError(
            "a complex key generator with one key field writes keys that differ between releases",
            hint="use the simple key generator",
        )
    return KeyRule(
        fields, config.partition_fields, len(fields) > 1, config.hive_style, config.url_encoded
    )


def record_keys(rows: pa.Table, rule: KeyRule, *, first_row: int = 0) -> pa.ChunkedArray:
    """The record key of each row, as text without nulls.

    Raises UserError naming the first row (counted from `first_row`) whose key is null or empty.
    """
    if not rule.composite:
        name = rule.key_fields[0]
        keys = as_text(rows.column(name), name)
        bad = pc.or_kleene(pc.is_null(keys), pc.equal(pc.fill_null(keys, ""), ""))
        _refuse(bad, name, first_row)
        return keys
    parts: list[Any] = []
    all_blank: Any = None
    for name in rule.key_fields:
        text = as_text(rows.column(name), name)
        missing = pc.is_null(text)
        blank = pc.equal(pc.fill_null(text, ""), "")
        all_blank = blank if all_blank is None else pc.and_(all_blank, blank)
        filled = pc.if_else(
            missing, NULL_PLACEHOLDER, pc.if_else(blank, EMPTY_PLACEHOLDER, pc.fill_null(text, ""))
        )
        parts.append(pc.binary_join_element_wise(pa.scalar(name), filled, ":"))
    _refuse(all_blank, ",".join(rule.key_fields), first_row)
    return pc.binary_join_element_wise(*parts, ",")


def _refuse(bad: Any, names: str, first_row: int) -> None:
    at = pc.index(bad, True).as_py()
    if at >= 0:
        raise UserError(
            "a record key is null or empty",
            column=names,
            row=first_row + at,
            hint="every row needs a key; filter such rows out or give them one",
        )


def partition_paths(rows: pa.Table, rule: KeyRule) -> pa.ChunkedArray:
    """The partition path of each row: dictionary<int32, string> without nulls.

    Cost follows the distinct values of a partition column, not its rows.
    """
    count = rows.num_rows
    if not rule.partition_fields:
        zeros = pa.nulls(count, pa.int32()).fill_null(0)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(zeros, pa.array([""]))])
    encoded = [
        _path_segments(rows.column(name), name, rule).combine_chunks()
        for name in rule.partition_fields
    ]
    joined = encoded[0]
    for more in encoded[1:]:
        joined = _joined(joined, more)
    if isinstance(joined, pa.ChunkedArray):
        return joined
    return pa.chunked_array([joined])


def _path_segments(column: pa.ChunkedArray, name: str, rule: KeyRule) -> pa.ChunkedArray:
    """One column's path segments, computed on its distinct values."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode(null_encoding="encode").unify_dictionaries()
    if encoded.num_chunks == 0:
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))]
        )
    values = encoded.chunk(0).dictionary
    segments = pa.array(
        [_segment(v, name, rule) for v in as_text(values, name).to_pylist()], pa.string()
    )
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk.indices, segments) for chunk in encoded.chunks]
    )


def _segment(value: str | None, name: str, rule: KeyRule) -> str:
    if value is None or value == "":
        text = DEFAULT_PARTITION
    else:
        text = url_encode(value) if rule.url_encoded else value
        for part in text.split("/"):
            if part in ("", ".", ".."):
                raise UserError(
                    "a partition value would make an unsafe path",
                    column=name,
                    value=value,
                    hint="set hoodie.datasource.write.partitionpath.urlencode when creating the "
                    "table, or clean the value",
                )
        if "\\" in text or "\0" in text or text.split("/")[0] == ".hoodie":
            raise UserError("a partition value would make an unsafe path", column=name, value=value)
    return f"{name}={text}" if rule.hive_style else text


def _joined(left: Any, right: Any) -> Any:
    """`left/right` per row; distinct pairs are joined once each."""
    width = max(1, len(right.dictionary))
    codes = pc.add(
        pc.multiply(left.indices.cast(pa.int64()), width), right.indices.cast(pa.int64())
    )
    encoded = codes.dictionary_encode()
    pairs = encoded.dictionary.to_pylist()
    lefts, rights = left.dictionary.to_pylist(), right.dictionary.to_pylist()
    paths = pa.array([f"{lefts[p // width]}/{rights[p % width]}" for p in pairs], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, paths)


def url_encode(value: str) -> str:
    """Hive's path escaping: `%XX` in upper case for the characters that could hurt a path."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)


def as_text(column: Any, name: str) -> Any:
    """A column's values as the text Java makes of them; nulls stay null.

    Raises SchemaError for types that cannot be a key or partition value.
    """
    kind = column.type
    if pt.is_dictionary(kind):
        return as_text(column.cast(kind.value_type), name)
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


def _mapped(column: Any, text: Callable[[Any], str]) -> Any:
    """Python text of each distinct value, for the few types Arrow prints unlike Java."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column.dictionary_encode()
    texts: Sequence[str] = [text(v) for v in encoded.dictionary.to_pylist()]
    decoded = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))
    return pa.chunked_array([decoded.dictionary_decode()])


def java_double(value: float, *, single: bool = False) -> str:
    """`Double.toString` (or `Float.toString`) of Java."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if single:
        import numpy as np

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
