"""Avro schemas of tables: conversion from and to Arrow, with and without the meta columns.

Names and unions follow what Spark writes to commits (table_format 1.6, 5.8), so that a schema
created here equals the one that Apache Hudi creates for the same columns:

    table t            record `t_record`, namespace `hoodie.t`
    column             union ["null", T], default null
    struct column      record named by the column, namespace the full name of the enclosing record;
                       the same name for a struct in the column's lists and maps
    decimal column     fixed named `fixed`, namespace <ns>.<record>.<column>, fewest bytes
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pyhudi._native.avro.types import NAME_PATTERN, parse_schema
from pyhudi.errors import CorruptFileError, SchemaError, UnsupportedTableError
from pyhudi.formats.logical_types import avro_of, logical_type

META_FIELD_NAMES: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
OPERATION_FIELD_NAME: Final = "_hoodie_operation"

COMMENT: Final = b"comment"
"""The key of a comment in the metadata of an Arrow field, as Spark and Arrow name it."""

_DIGITS_MAX: Final = 38
_ILLEGAL_FIRST: Final = re.compile(r"[^A-Za-z_]")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_]")
_ILLEGAL_MASK: Final = "__"


class Nullability(Enum):
    """Which columns are nullable in the Avro schema."""

    ALL = "all"  # as Spark writes: regardless of the Arrow schema
    DECLARED = "declared"  # as in the Arrow schema


def table_record_name(table_name: str) -> tuple[str, str]:
    """Record name and namespace of a table's rows; illegal characters become `__`, as in Hudi."""
    if not table_name:
        raise SchemaError("the name of a table must not be empty")
    name = table_name
    if _ILLEGAL_FIRST.match(name):
        name = _ILLEGAL_FIRST.sub(_ILLEGAL_MASK, name, count=1)
    name = _ILLEGAL.sub(_ILLEGAL_MASK, name)
    return f"{name}_record", f"hoodie.{name}"


def avro_to_arrow(schema_json: str) -> pa.Schema:
    """Arrow fields of a record schema; errors as in `pyhudi._native.avro.types.parse_schema`."""
    return pa.schema([field.arrow for field in parse_schema(schema_json).fields])


def arrow_to_avro(
    schema: pa.Schema,
    *,
    name: str,
    namespace: str,
    with_meta: bool = False,
    nullability: Nullability = Nullability.ALL,
) -> str:
    """Avro schema text of Arrow columns, compact JSON.

    Small integers widen to int, seconds to milliseconds, dictionaries become their values;
    columns with a Hudi type in their metadata get it (`logical_types`).  Raises SchemaError, with
    the column, for a type or a name that Apache Hudi does not support.
    """
    _check_name(name, name)
    full_name = f"{namespace}.{name}" if namespace else name
    named: set[str] = set()
    fields = [
        _meta_field(field.name)
        if field.name in META_FIELD_NAMES and _is_text(field.type)
        else _column(field, full_name, nullability, named)
        for field in schema
    ]
    _check_unique([field.name for field in schema], name)
    record = {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    text = _dump(record)
    return with_meta_fields(text) if with_meta else text


def with_meta_fields(schema_json: str) -> str:
    """The schema with the five meta columns in front; existing ones stay unchanged."""
    record = _load(schema_json)
    present = {field["name"]: field for field in record["fields"]}
    meta = [present.get(name, _meta_field(name)) for name in META_FIELD_NAMES]
    others = [field for field in record["fields"] if field["name"] not in META_FIELD_NAMES]
    return _dump({**record, "fields": meta + others})


def without_meta_fields(schema_json: str) -> str:
    """The schema without meta columns, `_hoodie_operation` included."""
    record = _load(schema_json)
    dropped = {*META_FIELD_NAMES, OPERATION_FIELD_NAME}
    fields = [field for field in record["fields"] if field["name"] not in dropped]
    return _dump({**record, "fields": fields})


def comments_of(schema: pa.Schema) -> dict[str, str]:
    """The comments in the metadata of Arrow fields, by dotted path; list items are `element`, map
    values `value`."""
    found: dict[str, str] = {}
    waiting = [(field.name, field) for field in schema]
    while waiting:
        path, field = waiting.pop()
        text = (field.metadata or {}).get(COMMENT)
        if text:
            found[path] = text.decode()
        if types.is_struct(field.type):
            waiting += [(f"{path}.{inner.name}", inner) for inner in field.type]
        elif _is_list(field.type):
            waiting.append((f"{path}.element", field.type.value_field))
        elif types.is_map(field.type):
            waiting.append((f"{path}.value", field.type.item_field))
    return found


def docs_of(schema_json: str) -> dict[str, str]:
    """The comments of an Avro schema, by dotted path as in `comments_of`."""
    fields = _fields_by_path(_load(schema_json))
    return {path: str(field["doc"]) for path, field in fields if field.get("doc")}


def with_docs(schema_json: str, docs: Mapping[str, str]) -> str:
    """The schema with these comments, by dotted path; "" removes one.  Unknown paths are ignored,
    other comments stay."""
    record = _load(schema_json)
    for path, field in _fields_by_path(record):
        if docs.get(path):
            default = {"default": field.pop("default")} if "default" in field else {}
            field |= {"doc": docs[path], **default}
        elif path in docs:
            field.pop("doc", None)
    return _dump(record)


def _fields_by_path(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    waiting: list[tuple[str, Any]] = [("", record)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, list):
            waiting += [(path, kind) for kind in node]
        elif not isinstance(node, dict):
            continue
        elif node.get("type") == "record":
            for field in node.get("fields", ()):
                inner = f"{path}.{field['name']}" if path else field["name"]
                yield inner, field
                waiting.append((inner, field.get("type")))
        elif node.get("type") == "array":
            waiting.append((f"{path}.element", node.get("items")))
        elif node.get("type") == "map":
            waiting.append((f"{path}.value", node.get("values")))


def _meta_field(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "doc": "", "default": None}


def _load(schema_json: str) -> dict[str, Any]:
    try:
        record = json.loads(schema_json)
    except ValueError as error:
        raise CorruptFileError("the Avro schema is not JSON", reason=str(error)) from error
    except RecursionError as error:
        raise UnsupportedTableError("the Avro schema is nested too deeply") from error
    if not isinstance(record, dict) or not isinstance(record.get("fields"), list):
        raise CorruptFileError("the Avro schema is not a record")
    for field in record["fields"]:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str):
            raise CorruptFileError("a field of the Avro schema has no name", field=str(field)[:80])
    return record


def _dump(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _column(
    field: pa.Field, namespace: str, nullability: Nullability, named: set[str]
) -> dict[str, Any]:
    """A field of the table's record.  named: types already defined in its schema."""
    logical = logical_type(field)
    if logical is None:
        return _field(field, namespace, field.name, nullability)
    _check_name(field.name, field.name)
    avro = avro_of(logical, named)
    if nullability is Nullability.DECLARED and not field.nullable:
        return {"name": field.name, "type": avro}
    return {"name": field.name, "type": ["null", avro], "default": None}


def _field(field: pa.Field, namespace: str, path: str, nullability: Nullability) -> dict[str, Any]:
    _check_name(field.name, path)
    avro = _type(field.type, field.name, namespace, path, nullability)
    if nullability is Nullability.DECLARED and not field.nullable:
        return {"name": field.name, "type": avro}
    return {"name": field.name, "type": ["null", avro], "default": None}


def _item(field: pa.Field, name: str, namespace: str, path: str, nullability: Nullability) -> Any:
    """Type of the items of a list or the values of a map of the column `name`."""
    avro = _type(field.type, name, namespace, path, nullability)
    if nullability is Nullability.DECLARED and not field.nullable:
        return avro
    return ["null", avro]


def _type(
    arrow: pa.DataType, name: str, namespace: str, path: str, nullability: Nullability
) -> Any:
    """Avro type of a column `name` inside the record whose full name is `namespace`."""
    if isinstance(arrow, pa.BaseExtensionType):
        return _type(arrow.storage_type, name, namespace, path, nullability)
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return _type(arrow.value_type, name, namespace, path, nullability)
    if types.is_decimal(arrow):
        return _decimal(arrow, name, namespace, path)
    if types.is_struct(arrow):
        full_name = f"{namespace}.{name}" if namespace else name
        _check_unique([arrow.field(i).name for i in range(arrow.num_fields)], path)
        fields = [
            _field(child, full_name, f"{path}.{child.name}", nullability)
            for child in (arrow.field(i) for i in range(arrow.num_fields))
        ]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if types.is_map(arrow):
        if not _is_text(arrow.key_type):
            raise _refusal(arrow, path, "keys of a map must be strings")
        values = _item(arrow.item_field, name, namespace, f"{path}.value", nullability)
        return {"type": "map", "values": values}
    if _is_list(arrow):
        items = _item(arrow.value_field, name, namespace, f"{path}.element", nullability)
        return {"type": "array", "items": items}
    if types.is_fixed_size_binary(arrow):
        if not arrow.byte_width:
            raise _refusal(arrow, path, "values without bytes are not supported; drop the column")
        return _fixed(name, namespace, arrow.byte_width)
    return _leaf(arrow, path)


def _leaf(arrow: pa.DataType, path: str) -> Any:
    if _is_text(arrow):
        return "string"
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow):
        return "bytes"
    if types.is_unsigned_integer(arrow):
        raise _refusal(arrow, path, "unsigned integers are not supported; cast to int32 or int64")
    if types.is_integer(arrow):
        return "long" if arrow.bit_width == 64 else "int"
    if types.is_boolean(arrow):
        return "boolean"
    if types.is_float32(arrow) or types.is_float16(arrow):
        return "float"
    if types.is_float64(arrow):
        return "double"
    if types.is_date(arrow):
        return {"type": "int", "logicalType": "date"}
    if types.is_timestamp(arrow):
        return _timestamp(arrow, path)
    if types.is_time(arrow):
        return _time(arrow, path)
    raise _refusal(arrow, path, "Apache Hudi does not support it")


def _timestamp(arrow: pa.DataType, path: str) -> dict[str, str]:
    if arrow.unit == "ns":
        raise _refusal(arrow, path, "nanoseconds are not supported; cast it to us")
    unit = "micros" if arrow.unit == "us" else "millis"
    prefix = "" if arrow.tz else "local-"
    return {"type": "long", "logicalType": f"{prefix}timestamp-{unit}"}


def _time(arrow: pa.DataType, path: str) -> dict[str, str]:
    if arrow.unit == "ns":
        raise _refusal(arrow, path, "nanoseconds are not supported; cast it to us")
    if arrow.unit == "us":
        return {"type": "long", "logicalType": "time-micros"}
    return {"type": "int", "logicalType": "time-millis"}


def _decimal(arrow: pa.DataType, name: str, namespace: str, path: str) -> dict[str, Any]:
    if arrow.precision > _DIGITS_MAX or not 0 <= arrow.scale <= arrow.precision:
        raise _refusal(arrow, path, "decimals need precision <= 38 and 0 <= scale <= precision")
    return {
        **_fixed(name, namespace, decimal_bytes(arrow.precision)),
        "logicalType": "decimal",
        "precision": arrow.precision,
        "scale": arrow.scale,
    }


def decimal_bytes(precision: int) -> int:
    """Fewest bytes whose two's complement holds every decimal of `precision` digits."""
    bits: int = (10**precision - 1).bit_length() + 1
    return (bits + 7) // 8


def _fixed(name: str, namespace: str, size_bytes: int) -> dict[str, Any]:
    space = f"{namespace}.{name}" if namespace else name
    return {"type": "fixed", "name": "fixed", "namespace": space, "size": size_bytes}


def _is_text(arrow: pa.DataType) -> bool:
    return bool(
        types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow)
    )


def _is_list(arrow: pa.DataType) -> bool:
    return bool(
        types.is_list(arrow)
        or types.is_large_list(arrow)
        or types.is_fixed_size_list(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )


def _check_name(name: str, path: str) -> None:
    if not NAME_PATTERN.fullmatch(name):
        raise SchemaError(
            "column name is invalid in Avro: use letters, digits and _, not starting with a digit",
            column=path or repr(name),
        )


def _check_unique(names: list[str], path: str) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1}) if names else []
    if repeated:
        raise SchemaError("a record has duplicate column names", record=path, columns=repeated)


def _refusal(arrow: pa.DataType, path: str, why: str) -> SchemaError:
    return SchemaError(f"a column has a type that cannot be stored: {why}", column=path, type=arrow)
