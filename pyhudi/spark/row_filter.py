"""Filters of scans as conditions that Spark evaluates on the rows of its own reader.

A condition is true for exactly the rows for which the filter's tree is true, and null where that
is null, so that any part of it can be negated.  A filter that contains a part without such an
equivalent has no condition: pyhudi applies it.  NaN and zeros differ most: Spark's NaN equals
itself and is the greatest number, and its Parquet reader tells the two zeros apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column
from pyspark.sql import functions as F

from pyhudi.read.predicate import (
    COMPARISONS,
    And,
    Call,
    IsNull,
    IsValid,
    Literal,
    Node,
    Not,
    Or,
    Unknown,
)
from pyhudi.read.predicate import (
    Column as Named,
)
from pyhudi.read.skipping.filter_values import Comparison, comparison
from pyhudi.spark.types import to_spark

_VALUES_MAX: Final = 1000
"""With more values of `in` than this, the Spark plan becomes slow."""

_EPOCH: Final = datetime(1970, 1, 1)


class NoConditionError(Exception):
    """A part of the filter has no equivalent in Spark; the message says which."""


def condition(tree: Node, schema: pa.Schema, columns: Callable[[str], Column]) -> Column:
    """The condition of a filter.

    schema: the columns of the table.  columns: the Spark column of a name.
    Raises NoConditionError.
    """
    return _Conversion(schema, columns).condition(tree)


class _Conversion:
    """Conversion of one filter; methods take nodes of its tree."""

    def __init__(self, schema: pa.Schema, columns: Callable[[str], Column]) -> None:
        self._schema, self._columns = schema, columns

    def condition(self, node: Node) -> Column:
        match node:
            case Named((name,)) if pt.is_boolean(self._schema.field(name).type):
                return self._columns(name)
            case And(sides):
                return reduce(operator.and_, map(self.condition, sides))
            case Or(sides):
                return reduce(operator.or_, map(self.condition, sides))
            case Not(value):
                return ~self.condition(value)
            case IsValid(Named((name,))):
                return self._columns(name).isNotNull()
            case IsNull(Named((name,)), False):
                return self._columns(name).isNull()
            case Call("is_nan", (Named((name,)),)) if pt.is_floating(self._schema.field(name).type):
                column = self._columns(name)
                return F.when(column.isNotNull(), F.isnan(column))
            case Literal(value) if pt.is_boolean(value.type):
                return F.lit(value.as_py()).cast("boolean")
            case Call(name, (Named((column_name,)),)) if name in _TEXT_MATCHES:
                return self._text_match(node, column_name)
            case Unknown(_, why):
                raise NoConditionError(f"the filter {why}")
        found = comparison(node)
        if found is None:
            noun = node.name if isinstance(node, Call) else type(node).__name__
            raise NoConditionError(f"the filter uses {noun} of other than a column and values")
        return self._compared(found)

    def _compared(self, found: Comparison) -> Column:
        kind = self._schema.field(found.name).type
        column = self._columns(found.name)
        if found.operator == "in":
            return self._in(column, found.values, kind)
        value = _as_type(found.values, kind)
        if pt.is_floating(kind):
            return _compared_floats(column, found.operator, value[0].as_py(), kind)
        compared: Column = COMPARISONS[found.operator](column, _literal(value[0], kind))
        return compared

    def _in(self, column: Column, values: pa.Array, kind: pa.DataType) -> Column:
        if pt.is_floating(kind) or len(values) > _VALUES_MAX:
            raise NoConditionError(f"the filter has a list of {len(values)} values of type {kind}")
        literals = [_literal(value, kind) for value in _as_type(values, kind)]
        return column.isin(*literals) & column.isNotNull() if literals else F.lit(False)

    def _text_match(self, call: Call, column: str) -> Column:
        if not pt.is_string(self._schema.field(column).type) or call.option("ignore_case"):
            raise NoConditionError(f"the filter uses {call.name}")
        pattern = call.option("pattern")
        text = pattern.decode() if isinstance(pattern, bytes) else str(pattern)
        return _TEXT_MATCHES[call.name](self._columns(column), F.lit(text))


_TEXT_MATCHES: Final[Mapping[str, Callable[[Column, Column], Column]]] = {
    "starts_with": lambda column, text: column.startswith(text),
    "ends_with": lambda column, text: column.endswith(text),
    "match_substring": lambda column, text: column.contains(text),
}


def _compared_floats(column: Column, operator: str, value: float, kind: pa.DataType) -> Column:
    """The comparison of Arrow: NaN is not equal to itself, not less and not greater.

    Spark's Parquet reader finds -0.0 and 0.0 by the greater and smaller of both.
    """
    if value != value:
        raise NoConditionError("the filter compares with NaN")

    def literal(number: float) -> Column:
        return _literal(pa.scalar(number, kind), kind)

    if operator in ("==", "!="):
        low, high = (-0.0, 0.0) if value == 0 else (value, value)
        equal = (column >= literal(low)) & (column <= literal(high)) & ~F.isnan(column)
        return equal if operator == "==" else ~equal
    if value == 0:
        value = 0.0 if operator in ("<=", ">") else -0.0
    compared: Column = COMPARISONS[operator](column, literal(value)) & ~F.isnan(column)
    return compared


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as the column's type, unchanged.  Raises NoConditionError."""
    if values.null_count:
        raise NoConditionError("the filter compares with null")
    try:
        found = values.cast(kind)
        if values.type == kind:
            return found
        is_same = _is_comparable(values.type, kind) and found.cast(values.type).equals(values)
    except pa.ArrowException:
        is_same = False
    if not is_same:
        raise NoConditionError(f"the filter compares {kind} with {values.type}")
    return found


def _is_comparable(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether equal values of both types compare alike."""
    if given == kind:
        return True
    if pt.is_timestamp(kind):
        return pt.is_timestamp(given) and (given.tz is None) == (kind.tz is None)
    if pt.is_integer(kind):
        return bool(pt.is_integer(given))
    if pt.is_floating(kind) or pt.is_decimal(kind):
        is_number = pt.is_integer(given) or pt.is_floating(given) or pt.is_decimal(given)
        return bool(is_number) and (
            pt.is_integer(given) or pt.is_decimal(given) == pt.is_decimal(kind)
        )
    text = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)
    return any(is_kind(given) for is_kind in text) and any(is_kind(kind) for is_kind in text)


def _literal(value: pa.Scalar, kind: pa.DataType) -> Column:
    """A value of a column type as a literal that Spark folds and its reader uses."""
    if pt.is_date32(kind):
        return F.date_from_unix_date(F.lit(value.cast(pa.int32()).as_py()))
    if pt.is_timestamp(kind):
        micros = value.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).as_py()
        if kind.tz is not None:
            return F.timestamp_micros(F.lit(micros).cast("long"))
        return F.expr(f"TIMESTAMP_NTZ '{_wall_time(micros)}'")
    known = (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_string,
             pt.is_binary)  # fmt: skip
    if not any(is_kind(kind) for is_kind in known):
        raise NoConditionError(f"the filter compares values of type {kind}")
    target = to_spark(pa.schema([("value", kind)])).fields[0].dataType
    return F.lit(value.as_py()).cast(target)


def _wall_time(micros: int) -> str:
    try:
        return str(_EPOCH + timedelta(microseconds=micros))
    except OverflowError as error:
        raise NoConditionError("the filter compares with a time beyond the year 9999") from error
