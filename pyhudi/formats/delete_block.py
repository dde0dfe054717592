"""The content of a delete block.

    i32 version 3, i32 length, Avro datum of HoodieDeleteRecordList

Source: storage_format 2.5; the branches of a delete's ordering value are those of the schema in
Apache Hudi's code, not of the published one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native import AvroCodec
from pyhudi.arrays import exact_cast
from pyhudi.errors import CorruptFileError, UnsupportedTableError, UserError

DELETE_VERSION: Final = 3
_HEAD = struct.Struct(">ii")

NATURAL: Final = 0
"""`ordering_kind` of a delete without an ordering value."""

_WRAPPERS: Final[tuple[tuple[str, object], ...]] = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", "string"),
    ("DateWrapper", {"type": "int", "logicalType": "date"}),
    (
        "DecimalWrapper",
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    ),
    ("TimeMicrosWrapper", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicrosWrapper", {"type": "long", "logicalType": "timestamp-micros"}),
)
"""Branches 1 to 11 of the union, in order.  Branch 12, ArrayWrapper, is used by Apache Hudi 1.2
for tables ordered by several fields."""

_BYTES: Final = (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
_KINDS: Final = {name: kind for kind, (name, _) in enumerate(_WRAPPERS, start=1)}
_INT, _LONG, _ARRAY = _KINDS["IntWrapper"], _KINDS["LongWrapper"], len(_WRAPPERS) + 1


def _wrapper(name: str, value: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": value}]}


def _delete_schema() -> str:
    branches: list[object] = ["null", *(_wrapper(name, value) for name, value in _WRAPPERS)]
    elements = ["null", *(name for name, _ in _WRAPPERS), _wrapper("LocalDateWrapper", "int")]
    several = {
        "type": "record",
        "name": "ArrayWrapper",
        "fields": [
            {"name": "wrappedValues", "type": ["null", {"type": "array", "items": elements}]}
        ],
    }
    record = {
        "type": "record",
        "name": "HoodieDeleteRecord",
        "fields": [
            {"name": "recordKey", "type": ["null", "string"]},
            {"name": "partitionPath", "type": ["null", "string"]},
            {"name": "orderingVal", "type": [*branches, several]},
        ],
    }
    return json.dumps(
        {
            "type": "record",
            "name": "HoodieDeleteRecordList",
            "namespace": "org.apache.hudi.avro.model",
            "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": record}}],
        }
    )


@lru_cache(maxsize=1)
def _delete_codec() -> AvroCodec:
    return AvroCodec(_delete_schema())


def encode_deletes(keys: Any, partition_path: Any, ordering: pa.Array | None) -> bytes:
    """The content of a delete block, version 3.

    keys: column of strings.  partition_path: one string, or a column.  ordering: the deletes'
    values of the table's ordering field; None, or null in a row, deletes unconditionally
    (IntWrapper 0).  Values of several fields are a struct of them (ArrayWrapper).  Raises UserError
    for an ordering type Apache Hudi cannot log; values must be `loggable`, or null.
    """
    key_column = _one_array(keys, pa.string())
    count = len(key_column)
    if isinstance(partition_path, str):
        paths = pa.repeat(pa.scalar(partition_path), count)
    else:
        paths = _one_array(partition_path, pa.string())
    codec = _delete_codec()
    list_type = codec.arrow_schema.field("deleteRecordList").type
    record_type = list_type.value_type
    records = pa.StructArray.from_arrays(
        [key_column, paths, _ordering_union(ordering, count, record_type.field(2).type)],
        fields=list(record_type),
    )
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), records, type=list_type)
    batch = pa.record_batch([lists], schema=codec.arrow_schema)
    payload = codec.encode_column(batch)[0].as_buffer()
    return b"".join((_HEAD.pack(DELETE_VERSION, payload.size), payload))


def decode_deletes(
    content: bytes,
    *,
    path: str,
    ordering_type: pa.DataType | Sequence[pa.DataType] | None = None,
) -> pa.RecordBatch:
    """The deletes of a block, in block order.

    Returns [record_key: string, partition_path: string, ordering_kind: int8], and with
    `ordering_type` also [ordering: that type].  ordering_kind is the branch on disk: 0 null,
    1 boolean, 2 int, 3 long, ... as `_WRAPPERS`.  ordering is null where the delete has no
    ordering value (null, or IntWrapper 0) and so wins by commit time only.  For several ordering
    types it is a struct with a field for each.
    Raises CorruptFileError; UnsupportedTableError for blocks of Hudi before 0.14 (Kryo).
    """
    records = _delete_records(content, path)
    union = records.field("orderingVal")
    kinds = _ordering_kinds(union)
    columns = {
        "record_key": records.field("recordKey"),
        "partition_path": records.field("partitionPath"),
        "ordering_kind": kinds,
    }
    if isinstance(ordering_type, pa.DataType):
        columns["ordering"] = _ordering_values(union, ordering_type, path)
    elif ordering_type is not None:
        columns["ordering"] = _several_values(union.field(_ARRAY - 1), ordering_type, path)
    return pa.RecordBatch.from_pydict(columns)


def loggable(ordering: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bool_]:
    """Which rows have ordering values, one of each column, that every reader can read from a
    delete block.

    Excluded: null, 0 of an int32 (which means "no value"), a decimal beyond (30, 15), a
    date (1.2.0 compares it with the day number of a row, and fails).
    """
    mask = np.ones(len(ordering[0]), np.bool_)
    for column in ordering:
        kind, wire = _branch(column.type)
        mask &= np.asarray(pc.is_valid(column).to_numpy(), np.bool_)
        if pt.is_date32(wire) or (pt.is_decimal(wire) and not _fits(column, wire)):
            mask[:] = False
        elif kind == _INT and len(ordering) == 1:
            zero = pc.equal(_wired(column.combine_chunks(), wire), 0)
            mask &= ~np.asarray(pc.fill_null(zero, True).to_numpy(zero_copy_only=False), np.bool_)
    return mask


def _fits(column: pa.ChunkedArray, wire: pa.DataType) -> bool:
    try:
        exact_cast(column, wire)
    except pa.ArrowInvalid:
        return False
    return True


def _ordering_union(ordering: pa.Array | None, count: int, union: pa.StructType) -> pa.StructArray:
    """A struct with one child per branch, of which one is set in each row."""
    natural = pa.repeat(pa.scalar(0, pa.int32()), count)
    if ordering is None:
        return _branches({_INT: natural}, count, union)
    column = ordering.combine_chunks() if isinstance(ordering, pa.ChunkedArray) else ordering
    without = pa.repeat(pa.scalar(None, pa.int32()), count)
    without = pc.if_else(column.is_null(), natural, without) if column.null_count else without
    if pt.is_struct(column.type):
        values = {_ARRAY: _wrapped_several(column, union.field(_ARRAY - 1).type.field(0).type)}
        return _branches({**values, _INT: without}, count, union)
    kind, wire = _branch(column.type)
    wired = _wired(column, wire)
    if kind == _INT:
        return _branches({_INT: pc.coalesce(wired, without)}, count, union)
    return _branches({kind: wired, _INT: without}, count, union)


def _branches(values: dict[int, pa.Array], count: int, union: pa.StructType) -> pa.StructArray:
    """values: by branch, null in rows of other branches."""
    children = []
    for kind, field in enumerate(union, start=1):
        column = values.get(kind)
        if column is None or column.null_count == count:
            children.append(pa.nulls(count, field.type))
            continue
        mask = column.is_null() if column.null_count else None
        children.append(pa.StructArray.from_arrays([column], fields=list(field.type), mask=mask))
    return pa.StructArray.from_arrays(children, fields=list(union))


def _wrapped_several(column: pa.StructArray, kind: pa.ListType) -> pa.ListArray:
    """The values of several ordering fields as ArrayWrapper stores them, one list per row."""
    count, fields = len(column), column.type.num_fields
    elements = []
    for values in column.flatten():
        branch, wire = _branch(values.type)
        if pt.is_date32(values.type):
            branch, wire = _ARRAY, pa.int32()  # LocalDateWrapper
        elements.append(_branches({branch: _wired(values, wire)}, count, kind.value_type))
    by_row = np.arange(count * fields).reshape(fields, count).T.ravel()
    flat = pa.concat_arrays(elements).take(pa.array(by_row))
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    flat = flat.filter(pa.array(np.repeat(present, fields)))
    offsets = np.r_[0, np.cumsum(present * fields)].astype(np.int32)
    mask = pa.array(~present)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=kind, mask=mask)


def _wired(column: pa.Array, wire: pa.DataType) -> pa.Array:
    """Values in the stored type of a branch."""
    if column.type == wire:
        return column
    if pt.is_temporal(column.type) and pt.is_integer(wire):
        return column.view(wire)
    return exact_cast(column, wire)


def _branch(data_type: pa.DataType) -> tuple[int, pa.DataType]:
    """The branch Apache Hudi uses for values of this type, and their type on disk."""
    if pt.is_boolean(data_type):
        return _KINDS["BooleanWrapper"], pa.bool_()
    if pt.is_int64(data_type) or pt.is_timestamp(data_type) or pt.is_time64(data_type):
        return _LONG, pa.int64()
    if pt.is_signed_integer(data_type) or pt.is_time32(data_type):
        return _INT, pa.int32()
    if pt.is_float32(data_type):
        return _KINDS["FloatWrapper"], pa.float32()
    if pt.is_float64(data_type):
        return _KINDS["DoubleWrapper"], pa.float64()
    if pt.is_string(data_type) or pt.is_large_string(data_type):
        return _KINDS["StringWrapper"], pa.string()
    if pt.is_date32(data_type):
        return _KINDS["DateWrapper"], pa.date32()
    if pt.is_decimal(data_type):
        return _KINDS["DecimalWrapper"], pa.decimal128(30, 15)
    if any(is_bytes(data_type) for is_bytes in _BYTES):
        return _KINDS["BytesWrapper"], pa.binary()
    raise UserError("deletes cannot be ordered by a column of this type", type=str(data_type))


def _delete_records(content: bytes, path: str) -> pa.StructArray:
    if len(content) < _HEAD.size:
        raise CorruptFileError("truncated head of a delete block", path=path)
    version, length = _HEAD.unpack_from(content)
    if version in (1, 2):
        raise UnsupportedTableError(
            f"delete blocks of version {version} (Kryo) are not supported",
            hint="compact the table with the Apache Hudi version that wrote it",
            path=path,
        )
    if version != DELETE_VERSION:
        raise CorruptFileError("unknown version of a delete block", path=path, version=version)
    if length != len(content) - _HEAD.size:
        raise CorruptFileError("a delete block's length is wrong", path=path, length=length)
    datum = pa.Array.from_buffers(
        pa.binary(),
        1,
        [None, pa.py_buffer(struct.pack("=ii", 0, length)), pa.py_buffer(content)[_HEAD.size :]],
    )
    lists = _delete_codec().decode_column(datum, path=path).field(0)
    return lists.flatten()


def _ordering_kinds(union: pa.StructArray) -> pa.Array:
    kinds = pa.repeat(pa.scalar(NATURAL, pa.int8()), len(union))
    for kind in range(1, union.type.num_fields + 1):
        child = union.field(kind - 1)
        if child.null_count < len(child):
            kinds = pc.if_else(child.is_valid(), pa.scalar(kind, pa.int8()), kinds)
    return kinds


def _several_values(
    arrays: pa.StructArray, expected: Sequence[pa.DataType], path: str
) -> pa.StructArray:
    """Values of ArrayWrapper, null if a delete has none or not one per type."""
    lists = arrays.flatten()[0]
    whole = pc.fill_null(pc.equal(pc.list_value_length(lists), len(expected)), False)
    elements = lists.filter(whole).flatten()
    count = pc.cumulative_sum(whole.cast(pa.int64()))
    back = pc.if_else(whole, pc.subtract(count, 1), pa.scalar(None, pa.int64()))
    columns = []
    for number, kind in enumerate(expected):
        mine = elements.take(pa.array(np.arange(number, len(elements), len(expected))))
        columns.append(_ordering_values(mine, kind, path, in_array=True).take(back))
    names = [str(number) for number in range(len(expected))]
    return pa.StructArray.from_arrays(columns, names, mask=pc.invert(whole))


def _ordering_values(
    union: pa.StructArray, expected: pa.DataType, path: str, *, in_array: bool = False
) -> pa.Array:
    """in_array: values of ArrayWrapper, whose branch 12 is a date, and where 0 is a number."""
    result = pa.nulls(len(union), expected)
    for kind in range(1, _ARRAY + 1):
        child = union.field(kind - 1)
        if child.null_count == len(child):
            continue
        if kind == _ARRAY and not in_array:
            raise UnsupportedTableError("deletes ordered by several fields", path=path)
        values = child.flatten()[0]
        if kind == _ARRAY:
            values = pc.cast(values, pa.date32())
        if kind == _INT and not in_array:
            values = pc.if_else(pc.equal(values, 0), pa.scalar(None, pa.int32()), values)
        if values.null_count < len(values):
            result = pc.coalesce(result, _as_ordering(values, expected, path))
    return result


def _as_ordering(values: pa.Array, expected: pa.DataType, path: str) -> pa.Array:
    """Values of one branch in the type of the ordering field.

    A bare int or long for a date, time or timestamp field is in the field's unit.  A number
    that a decimal field can represent is one of its values, whatever the number's type.
    """
    if pt.is_temporal(expected) and expected.bit_width == 64 and pt.is_int32(values.type):
        values = pc.cast(values, pa.int64())
    try:
        return exact_cast(values, expected)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as unfit:
        raise UnsupportedTableError(
            "a delete's ordering value does not fit the table's ordering field",
            path=path,
            found=str(values.type),
            expected=str(expected),
        ) from unfit


def _one_array(column: Any, expected: pa.DataType) -> pa.Array:
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column, expected)
    if column.type != expected:
        column = column.cast(expected)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
