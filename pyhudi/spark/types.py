"""Conversion between Spark types and Arrow types.

Spark to Arrow yields the types that `mapInArrow` passes to Python.  Arrow to Spark yields the
types of a table's columns in a DataFrame; `as_spark` returns exactly the Arrow types that Spark
then expects.

    timestamp with zone   TimestampType       timestamp without   TimestampNTZType
    timestamp[ms]         as microseconds     time                TimeType where PySpark has it
    VECTOR                ArrayType           VARIANT             VariantType

The metadata of the Spark column of a vector has its Hudi type under `hudi_type`, as Apache Hudi
reads and writes it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as sql

from pyhudi.errors import SchemaError
from pyhudi.formats.logical_types import HUDI_TYPE, VARIANT
from pyhudi.formats.schema_conform import conform
from pyhudi.spark.frames import is_frame

_TO_ARROW = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "VarcharType": pa.string(),
    "CharType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "TimeType": pa.time64("us"),
    "NullType": pa.null(),
}


_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""The Arrow type in which Spark exchanges variants, which it detects by the field metadata."""


def arrow_schema_of(schema: Any) -> Any:
    """The Arrow schema of a StructType or DataFrame; any other value is returned unchanged."""
    if is_frame(schema):
        schema = schema.schema
    if isinstance(schema, sql.StructType):
        return to_arrow(schema)
    return schema


def to_arrow(schema: sql.StructType) -> pa.Schema:
    """The Arrow schema of a StructType.  Raises SchemaError for a type that tables cannot store."""
    return pa.schema([_field(field, field.name) for field in schema.fields])


def _field(field: sql.StructField, path: str) -> pa.Field:
    hudi_type = (field.metadata or {}).get(HUDI_TYPE.decode())
    if hudi_type is None and path == field.name and _is_variant(field.dataType):
        hudi_type = VARIANT
    more = None if hudi_type is None else {HUDI_TYPE: str(hudi_type)}
    return pa.field(field.name, _arrow(field.dataType, path), field.nullable, more)


def _is_variant(kind: sql.DataType) -> bool:
    return type(kind).__name__ == "VariantType"


def _arrow(kind: sql.DataType, path: str) -> pa.DataType:
    match kind:
        case sql.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case sql.StructType():
            return pa.struct([_field(f, f"{path}.{f.name}") for f in kind.fields])
        case sql.ArrayType():
            return pa.list_(pa.field("element", _arrow(kind.elementType, f"{path}.element")))
        case sql.MapType():
            return pa.map_(
                _arrow(kind.keyType, f"{path}.key"), _arrow(kind.valueType, f"{path}.value")
            )
        case sql.UserDefinedType():
            return _arrow(kind.sqlType(), path)
    if _is_variant(kind):
        return _VARIANT
    found = _TO_ARROW.get(type(kind).__name__)
    if found is None:
        raise SchemaError(
            "column type not supported by tables", column=path, type=kind.simpleString()
        )
    return found


def to_spark(schema: pa.Schema) -> sql.StructType:
    """The StructType of an Arrow schema.  Raises SchemaError for a type that Spark lacks."""
    return sql.StructType([_spark_field(field, field.name) for field in schema])


def _spark_field(field: pa.Field, path: str) -> sql.StructField:
    hudi_type = (field.metadata or {}).get(HUDI_TYPE, b"").decode()
    if hudi_type == VARIANT and hasattr(sql, "VariantType"):
        return sql.StructField(field.name, sql.VariantType(), True)
    more = {HUDI_TYPE.decode(): hudi_type} if hudi_type else None
    return sql.StructField(field.name, _spark(field.type, path), True, more)


def _spark(kind: pa.DataType, path: str) -> sql.DataType:
    if pt.is_decimal(kind):
        return sql.DecimalType(kind.precision, kind.scale)
    if pt.is_timestamp(kind):
        return sql.TimestampNTZType() if kind.tz is None else sql.TimestampType()
    if pt.is_struct(kind):
        return sql.StructType([_spark_field(f, f"{path}.{f.name}") for f in kind])
    if pt.is_list(kind) or pt.is_large_list(kind):
        return sql.ArrayType(_spark(kind.value_type, f"{path}.element"), True)
    if pt.is_map(kind):
        key, value = _spark(kind.key_type, f"{path}.key"), _spark(kind.item_type, f"{path}.value")
        return sql.MapType(key, value, True)
    if pt.is_dictionary(kind):
        return _spark(kind.value_type, path)
    if pt.is_fixed_size_binary(kind):
        return sql.BinaryType()
    name = _SPARK_NAMES.get(kind)
    if name is None or not hasattr(sql, name):
        raise SchemaError("this Spark release lacks the type", column=path, type=str(kind))
    found: sql.DataType = getattr(sql, name)()
    return found


_SPARK_NAMES = {kind: name for name, kind in reversed(_TO_ARROW.items())} | {
    pa.large_string(): "StringType",
    pa.large_binary(): "BinaryType",
    pa.time32("ms"): "TimeType",
}


def as_spark(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema in which Spark accepts the columns of `schema`."""
    return to_arrow(to_spark(schema))


def spark_batches(table: pa.Table, schema: pa.Schema, *, rows: int) -> list[pa.RecordBatch]:
    """A table in the types of `as_spark`, in batches of at most `rows` rows."""
    found: list[pa.RecordBatch] = conform(_widened(table), schema).to_batches(max_chunksize=rows)
    return found


def _widened(table: pa.Table) -> pa.Table:
    """Cast fixed-size binary columns to binary, a cast that `conform` does not do."""
    for position, field in enumerate(table.schema):
        if pt.is_fixed_size_binary(field.type) and not pt.is_decimal(field.type):
            table = table.set_column(position, field.name, table.column(position).cast(pa.binary()))
    return table


def check_types(
    stored: pa.Schema, schema: sql.StructType, *, hint: str = "omit schema(), or cast afterwards"
) -> None:
    """Raise SchemaError unless Spark's types are those of the stored columns."""
    pairs = [
        (theirs.name, theirs.dataType, ours.dataType)
        for theirs, ours in zip(schema.fields, to_spark(stored).fields, strict=True)
    ]
    wrong = [
        f"{name}: {theirs.simpleString()}, the table has {ours.simpleString()}"
        for name, theirs, ours in pairs
        if theirs != ours
    ]
    if wrong:
        raise SchemaError(
            "the given schema does not match the table",
            columns="; ".join(wrong),
            hint=hint,
        )
