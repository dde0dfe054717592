"""Values of JSON as the types of a table.

JSON has text, numbers, booleans, lists and objects; the parser reads columns of these types
directly.  Other types are read as what the text has and then converted.
Source: MercifulJsonConverter of Apache Hudi (numbers of times count the unit of the column).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError


def parse_type(field: pa.Field) -> pa.DataType:
    """The type with which the parser reads a column; null: that of its values."""
    return _parse_type(field.type, field.name)


def _parse_type(kind: pa.DataType, name: str) -> pa.DataType:
    if pt.is_string(kind) or pt.is_large_string(kind):
        return pa.string()
    if pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_float32(kind) or pt.is_float64(kind):
        return kind
    if pt.is_map(kind):
        raise SchemaError(
            "JSON messages cannot fill a map column", column=name,
            hint="use a struct column, or a format with a schema",
        )  # fmt: skip
    if pt.is_list(kind) or pt.is_large_list(kind):
        item = _parse_type(kind.value_type, name)
        return pa.null() if pt.is_null(item) else pa.list_(item)
    if pt.is_struct(kind):
        fields = [(child.name, _parse_type(child.type, name)) for child in kind]
        return pa.struct([pair for pair in fields if not pt.is_null(pair[1])])
    return pa.null()


def converted(column: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray:
    """Raises SchemaError with the column's name, or ArrowInvalid, for a value that does not fit."""
    if column.type.equals(target):
        return column
    chunks = [_converted(chunk, target, name) for chunk in column.chunks]
    return pa.chunked_array(chunks, chunks[0].type if chunks else target)


def _converted(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    if array.type.equals(target):
        return array
    if pt.is_struct(target) and pt.is_struct(array.type):
        return _struct(array, target, name)
    if (pt.is_list(target) or pt.is_large_list(target)) and pt.is_list(array.type):
        items = _converted(array.values, target.value_type, name)
        whole = pa.ListArray.from_arrays(array.offsets, items, mask=array.is_null())
        return whole.cast(target)
    if pt.is_timestamp(target):
        return _timestamp(array, target)
    if pt.is_date(target):
        return array.cast(pa.int32() if pt.is_integer(array.type) else target).cast(target)
    if pt.is_time(target) and pt.is_integer(array.type):
        return array.cast(pa.int32() if target.bit_width == 32 else pa.int64()).cast(target)
    if pt.is_time(target) and pt.is_string(array.type):
        moment = pc.binary_join_element_wise("1970-01-01 ", array, "")
        return moment.cast(pa.timestamp(target.unit)).cast(target)
    if pt.is_decimal(target) and pt.is_integer(array.type):
        return array.cast(pa.string()).cast(target)
    if pt.is_decimal(target) and pt.is_floating(array.type):
        return _decimal(array, target, name)
    if pt.is_null(array.type) or not pt.is_nested(array.type):
        return array.cast(target)
    raise SchemaError(
        "the value is not of the column's type", column=name, expected=target, found=array.type
    )


def _struct(array: pa.StructArray, target: pa.DataType, name: str) -> pa.Array:
    """The fields of the target, and those that the values have beyond it."""
    found = {field.name: array.field(field.name) for field in array.type}
    columns, fields = [], []
    for field in target:
        values = found.pop(field.name, None)
        fields.append(pa.field(field.name, field.type))
        columns.append(
            pa.nulls(len(array), field.type)
            if values is None
            else _converted(values, field.type, f"{name}.{field.name}")
        )
    for extra, values in found.items():
        fields.append(pa.field(extra, values.type))
        columns.append(values)
    return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())


def _timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pt.is_integer(array.type):
        return array.cast(pa.int64()).cast(target)
    if pt.is_string(array.type) and target.tz is not None:
        has_zone = pc.match_substring_regex(array, r"(Z|[+-]\d\d:?\d\d)$")
        zoned = pc.if_else(has_zone, array, pc.binary_join_element_wise(array, "Z", ""))
        return zoned.cast(target)
    return array.cast(pa.timestamp(target.unit)).cast(target)


def _decimal(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    exact = array.cast(target)
    back = exact.cast(array.type)
    near = pc.less_equal(
        pc.abs(pc.subtract(back, array)), pc.multiply(pc.abs(array), pa.scalar(1e-12, array.type))
    )
    if pc.all(near, min_count=0).as_py():
        return exact
    raise SchemaError("the number has more digits than the column", column=name, type=target)
