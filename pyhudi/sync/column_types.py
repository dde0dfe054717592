"""Types of Arrow as catalogs write them: names of Hive, and schemas of Spark as JSON.

The JSON has the spaces that Apache Hudi writes, so that entries compare equal as text.
"""

from __future__ import annotations

import json

import pyarrow as pa
from pyarrow import types

from pyhudi.errors import SchemaError


def hive_type(arrow: pa.DataType, *, timestamps: bool) -> str:
    """The name of a type in Hive, in lower case.

    timestamps: whether times are `timestamp`; otherwise they are `bigint`, as stored.
    Raises SchemaError for a type that Hive lacks.
    """

    def of(inner: pa.DataType) -> str:
        return hive_type(inner, timestamps=timestamps)

    if types.is_timestamp(arrow):
        return "timestamp" if timestamps else "bigint"
    if types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if _is_list(arrow):
        return f"array<{of(arrow.value_type)}>"
    if types.is_map(arrow):
        return f"map<{of(arrow.key_type)},{of(arrow.item_type)}>"
    if types.is_struct(arrow):
        return f"struct<{','.join(f'{f.name.lower()}:{of(f.type)}' for f in arrow)}>"
    return _leaf(arrow)[0]


def spark_schema(schema: pa.Schema) -> str:
    """The JSON of a schema as Spark stores it in the properties of a table."""
    return _struct(schema)


def _struct(fields: pa.Schema | pa.StructType) -> str:
    return f'{{"type":"struct","fields":[{",".join(map(_field, fields))}]}}'


def _field(field: pa.Field) -> str:
    name, nullable = json.dumps(field.name, ensure_ascii=False), _flag(field.nullable)
    return f'{{"name":{name},"type":{_spark(field.type)},"nullable":{nullable},"metadata":{{}}}}'


def _spark(arrow: pa.DataType) -> str:
    if _is_list(arrow):
        item = arrow.value_field
        return (
            f'{{"type":"array", "elementType":{_spark(item.type)},'
            f'"containsNull":{_flag(item.nullable)}}}'
        )
    if types.is_map(arrow):
        return (
            f'{{"type":"map", "keyType":{_spark(arrow.key_type)},'
            f'"valueType":{_spark(arrow.item_type)},'
            f'"valueContainsNull":{_flag(arrow.item_field.nullable)}}}'
        )
    if types.is_struct(arrow):
        return _struct(arrow)
    if types.is_timestamp(arrow):
        return '"timestamp"' if arrow.tz else '"timestamp_ntz"'
    if types.is_decimal(arrow):
        return f'"decimal({arrow.precision},{arrow.scale})"'
    return f'"{_leaf(arrow)[1]}"'


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _leaf(arrow: pa.DataType) -> tuple[str, str]:
    """The names of a type without fields in Hive and in Spark."""
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return "string", "string"
    if types.is_time(arrow):
        return ("int", "integer") if arrow.bit_width == 32 else ("bigint", "long")
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_fixed_size_binary(arrow):
        return "binary", "binary"
    if types.is_integer(arrow):
        return ("bigint", "long") if arrow.bit_width == 64 else ("int", "integer")
    if types.is_floating(arrow):
        return ("double", "double") if arrow.bit_width == 64 else ("float", "float")
    if types.is_boolean(arrow):
        return "boolean", "boolean"
    if types.is_date(arrow):
        return "date", "date"
    raise SchemaError("a catalog has no type for this column", type=str(arrow))


def _is_list(arrow: pa.DataType) -> bool:
    """Whether a type is one of Arrow's types of lists."""
    return bool(
        types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow)
    )
