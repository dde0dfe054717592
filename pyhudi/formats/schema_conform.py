"""Conversion of rows to a schema: fields matched by name, missing ones null, types widened.

`Table.cast` is unsuitable: it matches nested fields by position and rejects added ones.
Source: table_format 5.8 (columns are resolved by name, list styles), 7 (schema evolution).
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.java_text import as_text, through_text

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
"""The smallest signed type that contains each."""
_FLOATS = (pa.float16(), pa.float32(), pa.float64())


class Loss(Enum):
    """Treatment of whole numbers that a floating-point type cannot represent."""

    ROUNDED = "rounded"  # as Java reads older files
    REFUSED = "refused"  # as incoming rows must not change


def conform(table: pa.Table, schema: pa.Schema, *, loss: Loss = Loss.ROUNDED) -> pa.Table:
    """`table` with exactly the fields of `schema`, in its order; other columns are dropped.

    Columns that already fit are shared, not copied.  Raises SchemaError for a type that does not
    widen to the requested one, or a value that would be lost.
    """
    if table.schema.equals(schema, check_metadata=True):
        return table
    columns = []
    for field in schema:
        position = table.schema.get_field_index(field.name)
        if position < 0:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(fit(table.column(position), field.type, name=field.name, loss=loss))
    return pa.Table.from_arrays(columns, schema=schema)


def fit(
    column: pa.ChunkedArray, target: pa.DataType, *, name: str, loss: Loss = Loss.ROUNDED
) -> pa.ChunkedArray:
    """One column as `target`.  Raises SchemaError with the column's name."""
    if column.type.equals(target, check_metadata=True):  # names of list elements are compared too
        return column
    chunks = [_fit(chunk, target, name, loss) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=target)


def normal_type(data_type: pa.DataType) -> pa.DataType:
    """The type with every list in pyhudi's style: `list<element>`, elements nullable."""
    if not data_type.num_fields:
        return data_type
    if is_any_list(data_type):
        return pa.list_(pa.field("element", normal_type(data_type.value_type)))
    if pt.is_struct(data_type):
        return pa.struct(
            [pa.field(field.name, normal_type(field.type), field.nullable) for field in data_type]
        )
    if pt.is_map(data_type):
        return pa.map_(normal_type(data_type.key_type), normal_type(data_type.item_type))
    return data_type


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """`normal_type` of every field; metadata of the schema and its fields is dropped."""
    return pa.schema(
        [pa.field(field.name, normal_type(field.type), field.nullable) for field in schema]
    )


def _fit(array: pa.Array, target: pa.DataType, name: str, loss: Loss) -> pa.Array:
    source = array.type
    if source.equals(target, check_metadata=True):
        return array
    if pt.is_null(source):
        return pa.nulls(len(array), target)
    if pt.is_dictionary(source) and not pt.is_dictionary(target):
        return _fit(array.dictionary_decode(), target, name, loss)
    if pt.is_dictionary(target) and not pt.is_dictionary(source):
        return _fit(array, target.value_type, name, loss).dictionary_encode()
    if isinstance(source, pa.BaseExtensionType):
        return _fit(array.storage, target, name, loss)
    if pt.is_run_end_encoded(source):
        return _fit(pc.run_end_decode(array), target, name, loss)
    if pt.is_struct(source) and pt.is_struct(target):
        return _fit_struct(array, target, name, loss)
    if is_any_list(source) and pt.is_list(target) and not pt.is_list(source):
        return _fit(_as_list(array, name), target, name, loss)
    if pt.is_list(source) and pt.is_list(target):
        values = _fit(array.values, target.value_type, name, loss)
        return with_children(array, target, [values])
    if pt.is_map(source) and pt.is_map(target):
        return _fit_map(array, target, name, loss)
    if loss is Loss.ROUNDED and pt.is_fixed_size_binary(source) and pt.is_list(target):
        return _as_vectors(array, target, name)
    if loss is Loss.ROUNDED and pt.is_list(source) and pt.is_fixed_size_binary(target):
        return _as_bytes(array, target, name)
    if not widens(source, target):
        raise SchemaError(
            "a column's values do not fit the requested type",
            column=name,
            found=str(source),
            expected=str(target),
        )
    return _cast(array, target, name, loss)


def is_any_list(data_type: pa.DataType) -> bool:
    return bool(
        pt.is_list(data_type)
        or pt.is_large_list(data_type)
        or pt.is_fixed_size_list(data_type)
        or pt.is_list_view(data_type)
        or pt.is_large_list_view(data_type)
    )


def _as_list(array: pa.Array, name: str) -> pa.ListArray:
    """A list of another layout as one with 32-bit offsets."""
    try:
        if pt.is_list_view(array.type) or pt.is_large_list_view(array.type):
            lengths = array.value_lengths().fill_null(0).cast(pa.int64())
            ends = pc.cumulative_sum(lengths).cast(pa.int32())
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
            kind = pa.list_(array.type.value_field)
            return pa.ListArray.from_arrays(
                offsets, array.flatten(), type=kind, mask=array.is_null()
            )
        return array.cast(pa.list_(array.type.value_field))
    except pa.ArrowException as error:
        raise SchemaError(
            "a column's lists are too long for one batch",
            column=name,
            found=str(array.type),
            why=str(error),
        ) from None


def _as_vectors(array: pa.FixedSizeBinaryArray, target: pa.ListType, name: str) -> pa.ListArray:
    """Stored vectors (little-endian numbers without gaps) as lists of these numbers."""
    kind = target.value_type
    size = _dimension(array.type, kind, name, found=array.type, expected=target)
    numbers = pa.Array.from_buffers(
        kind, len(array) * size, [None, array.buffers()[1]], 0, array.offset * size
    )
    mask = array.is_null() if array.null_count else None
    return pa.FixedSizeListArray.from_arrays(numbers, size, mask=mask).cast(target)


def _as_bytes(array: pa.ListArray, target: pa.DataType, name: str) -> pa.FixedSizeBinaryArray:
    """The inverse of `_as_vectors`.  Raises SchemaError for a list of another length or with a
    null element."""
    kind = array.type.value_type
    size = _dimension(target, kind, name, found=array.type, expected=target)
    valid = np.asarray(array.is_valid())
    numbers = array.flatten()
    lengths = np.asarray(array.value_lengths().drop_null())
    if numbers.null_count or (lengths != size).any():
        raise SchemaError(
            "a vector contains a null, or its length differs from its column's type",
            column=name,
            values=size,
        )
    given = numbers.to_numpy()
    if array.null_count:
        stored = np.zeros((len(array), size), given.dtype)
        stored[valid] = given.reshape(-1, size)
        given = stored
    validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if array.null_count else None
    data = pa.py_buffer(np.ascontiguousarray(given))
    return pa.Array.from_buffers(target, len(array), [validity, data])


def _dimension(
    stored: pa.DataType, kind: pa.DataType, name: str, *, found: pa.DataType, expected: pa.DataType
) -> int:
    """The number of elements in a vector of fixed bytes."""
    width = kind.bit_width // 8 if pt.is_floating(kind) or pt.is_integer(kind) else 0
    if not width or stored.byte_width % width:
        raise SchemaError(
            "a column's values do not fit the requested type",
            column=name,
            found=str(found),
            expected=str(expected),
        )
    return int(stored.byte_width) // width


def _cast(array: pa.Array, target: pa.DataType, name: str, loss: Loss) -> pa.Array:
    source = array.type
    if pt.is_string(target) and not _is_text(source):
        return as_text(array, name)
    if pt.is_float32(source) and pt.is_float64(target):
        return through_text(array)
    rounds = loss is Loss.ROUNDED and pt.is_integer(source) and pt.is_floating(target)
    try:
        return pc.cast(array, target, safe=not rounds)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "a column's values do not fit the requested type",
            column=name,
            found=str(source),
            expected=str(target),
            why=str(error),
        ) from None


def _fit_struct(array: pa.StructArray, target: pa.StructType, name: str, loss: Loss) -> pa.Array:
    children = []
    for field in target:
        position = array.type.get_field_index(field.name)
        if position < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_fit(array.field(position), field.type, f"{name}.{field.name}", loss))
    mask = array.is_null() if array.null_count else None
    if not children:
        return pa.array([{}] * len(array), target, mask=mask)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _fit_map(array: pa.MapArray, target: pa.MapType, name: str, loss: Loss) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [
            _fit(array.keys, target.key_type, name, loss),
            _fit(array.items, target.item_type, name, loss),
        ],
        fields=[target.key_field, target.item_field],
    )
    return with_children(array, target, [entries])


def with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The same validity and offsets with other children."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets], array.null_count, array.offset, children
    )


def map_values(maps: pa.Array) -> pa.Array:
    """The values of maps as lists: Arrow's functions of lists end the process for maps."""
    return with_children(maps, pa.list_(maps.type.item_type), [maps.items])


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether `target` can represent every value of `source` (schema evolution's promotions)."""
    if source in _UNSIGNED:
        return widens(_UNSIGNED[source], target)
    if source in _INTEGERS:
        if pt.is_string(target):
            return True
        if target in _INTEGERS:
            return bool(source.bit_width <= target.bit_width)
        return target in _FLOATS
    if source in _FLOATS and not pt.is_string(target):
        return target in _FLOATS and bool(source.bit_width <= target.bit_width)
    if pt.is_string(target) and not _is_text(source):
        return _has_text(source)
    if pt.is_decimal(source) and pt.is_decimal(target):
        whole = target.precision - target.scale >= source.precision - source.scale
        return bool(whole and target.scale >= source.scale)
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        return True
    if pt.is_date(source) and pt.is_date32(target):
        return True
    if pt.is_time(source) and pt.is_time(target):
        return True
    return _is_text(source) and _is_text(target)


def _has_text(data_type: pa.DataType) -> bool:
    """Whether Apache Hudi reads older files of this type as text."""
    return bool(data_type in _FLOATS or pt.is_date32(data_type) or pt.is_decimal(data_type))


def _is_text(data_type: pa.DataType) -> bool:
    return bool(
        pt.is_string(data_type)
        or pt.is_large_string(data_type)
        or pt.is_string_view(data_type)
        or pt.is_binary(data_type)
        or pt.is_large_binary(data_type)
        or pt.is_binary_view(data_type)
        or pt.is_fixed_size_binary(data_type)
    )
