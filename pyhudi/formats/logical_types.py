"""Logical types of Apache Hudi 1.2 that Avro and Parquet lack: VECTOR, VARIANT, BLOB.

The table's Avro schema declares them.  An Arrow field declares them in its metadata, under
`hudi_type`, as Spark's columns do for Apache Hudi: `VECTOR(128)`, `VECTOR(128, DOUBLE)`,
`VECTOR(128, INT8)`, `VARIANT`.  Only top-level columns can have them, not nested fields.

    VECTOR(n, E)  list of n numbers, none null   Avro fixed, Parquet fixed bytes: little-endian
                                                 numbers without gaps
    VARIANT       struct of metadata and value   record of two bytes fields
    BLOB          not supported
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native.avro.types import FIXED_BYTES_MAX, Node, parse_schema
from pyhudi.errors import CorruptFileError, SchemaError, UnsupportedTableError
from pyhudi.formats.schema_conform import conform, is_any_list

HUDI_TYPE: Final = b"hudi_type"
FOOTER_VECTORS: Final = "hoodie.vector.columns"
"""Footer entry of Parquet files with vectors: `column:VECTOR(3)`, separated by commas."""

_ELEMENTS: Final = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}
_VECTOR: Final = re.compile(r"VECTOR\s*\(\s*(\d{1,7})\s*(?:,\s*(\w+)\s*)?\)", re.IGNORECASE)
VARIANT: Final = "VARIANT"
_VARIANT_STORED: Final = {
    "type": "record",
    "name": "variant",
    "namespace": "",
    "fields": [
        {"name": "metadata", "type": "bytes", "doc": "Variant metadata component"},
        {"name": "value", "type": "bytes", "doc": "Variant value component"},
    ],
    "logicalType": "variant",
}


@dataclass(frozen=True, slots=True)
class Vector:
    """The type of a vector column.  element: FLOAT, DOUBLE or INT8."""

    dimension: int
    element: str = "FLOAT"

    @property
    def kind(self) -> pa.DataType:
        """The Arrow type of a number."""
        return _ELEMENTS[self.element]

    @property
    def list_type(self) -> pa.ListType:
        """The Arrow type of the column."""
        return pa.list_(pa.field("element", self.kind))

    @property
    def byte_count(self) -> int:
        """Size of a stored vector."""
        return self.dimension * int(self.kind.bit_width) // 8

    def __str__(self) -> str:
        more = "" if self.element == "FLOAT" else f", {self.element}"
        return f"VECTOR({self.dimension}{more})"

    @property
    def avro(self) -> dict[str, Any]:
        return {
            "type": "fixed",
            "name": f"vector_{self.element.lower()}_{self.dimension}",
            "namespace": "",
            "size": self.byte_count,
            "logicalType": "vector",
            "dimension": self.dimension,
            "elementType": self.element,
            "storageBacking": "FIXED_BYTES",
        }


Logical = Vector | str
"""A vector, or `VARIANT`."""


def logical_type(field: pa.Field) -> Logical | None:
    """The logical type that a field's metadata declares; None if it has none.

    Raises SchemaError for a type that cannot be stored or does not match the field's Arrow type.
    """
    text = (field.metadata or {}).get(HUDI_TYPE)
    if text is None:
        return None
    declared = text.decode(errors="replace").strip()
    if declared.upper() == VARIANT:
        if set(_names(field.type)) != {"metadata", "value"}:
            raise _refusal(field, declared, "a VARIANT is a struct of metadata and value")
        return VARIANT
    found = _VECTOR.fullmatch(declared)
    if found is None:
        raise _refusal(
            field,
            declared,
            "VECTOR(n), VECTOR(n, DOUBLE), VECTOR(n, INT8) and VARIANT can be stored",
        )
    vector = Vector(int(found[1]), (found[2] or "FLOAT").upper())
    if vector.element not in _ELEMENTS:
        raise _refusal(field, declared, "the elements of a vector must be FLOAT, DOUBLE or INT8")
    if not 0 < vector.byte_count <= FIXED_BYTES_MAX:
        raise _refusal(field, declared, f"a vector must have 1 to {FIXED_BYTES_MAX} bytes")
    if not is_any_list(field.type) or field.type.value_type != vector.kind:
        raise _refusal(field, declared, f"its Arrow type must be a list of {vector.kind}")
    if pt.is_fixed_size_list(field.type) and field.type.list_size != vector.dimension:
        raise _refusal(field, declared, f"its Arrow type must list {vector.dimension} numbers")
    return vector


def vector_of(field: pa.Field) -> Vector | None:
    """The vector type that a field declares; None for other fields.  Raises SchemaError."""
    found = logical_type(field)
    return found if isinstance(found, Vector) else None


def declared(field: pa.Field, logical: Logical) -> pa.Field:
    """`field` with the type and the metadata of a logical type."""
    kind = logical.list_type if isinstance(logical, Vector) else field.type
    return field.with_type(kind).with_metadata({HUDI_TYPE: str(logical)})


def check_nested(field: pa.Field) -> None:
    """Raise SchemaError if a field inside `field` declares a logical type."""
    for path, inner in _inside(field, field.name):
        if HUDI_TYPE in (inner.metadata or {}):
            raise SchemaError(
                "only top-level columns can have a Hudi type, not nested fields",
                column=path,
                type=inner.metadata[HUDI_TYPE].decode(errors="replace"),
            )


def _inside(field: pa.Field, path: str) -> list[tuple[str, pa.Field]]:
    """Every field inside a field, with its dotted path."""
    if pt.is_struct(field.type):
        children = list(field.type)
    elif is_any_list(field.type):
        children = [field.type.value_field]
    elif pt.is_map(field.type):
        children = [field.type.item_field]
    else:
        children = []
    found = [(f"{path}.{child.name}", child) for child in children]
    return found + [deep for name, child in found for deep in _inside(child, name)]


@lru_cache(maxsize=64)
def stored_types(schema_json: str) -> Mapping[str, Logical]:
    """Columns of a record schema (Avro JSON) with a logical type of Apache Hudi.

    Raises UnsupportedTableError for BLOB columns, vectors inside other columns, and vectors not
    stored as fixed bytes; CorruptFileError for text that is not a record schema, and a
    vector whose size does not match its numbers.
    """
    if not any(f'"{name}"' in schema_json for name in ("vector", "variant", "blob")):
        return {}  # most tables; their schemas are not parsed
    found: dict[str, Logical] = {}
    for column in parse_schema(schema_json).fields:
        stored = column.node.annotation or {}
        if "blob" in (stored.get("logicalType"), *_annotated(column.node)):
            raise UnsupportedTableError("BLOB columns cannot be read", column=column.name)
        if "vector" in _annotated(column.node):
            raise UnsupportedTableError(
                "vectors inside other columns cannot be read", column=column.name
            )
        if stored.get("logicalType") == "vector":
            found[column.name] = _stored_vector(stored, column.name)
        elif stored.get("logicalType") == "variant":
            found[column.name] = VARIANT
    return found


def _annotated(node: Node) -> list[str]:
    """The logical types inside a node."""
    inner = [part.node for part in node.fields]
    direct = [str(n.annotation["logicalType"]) for n in inner if n.annotation]
    return direct + [kind for n in inner for kind in _annotated(n)]


def _stored_vector(stored: Mapping[str, Any], column: str) -> Vector:
    element, backing = stored.get("elementType"), stored.get("storageBacking", "FIXED_BYTES")
    if element not in _ELEMENTS or stored.get("type") != "fixed" or backing != "FIXED_BYTES":
        raise UnsupportedTableError(
            "vectors of this kind cannot be read", column=column, element=element, stored_as=backing
        )
    size, dimension = stored.get("size"), stored.get("dimension")
    if not isinstance(dimension, int) or Vector(dimension, str(element)).byte_count != size:
        raise CorruptFileError(
            "the size of a vector does not match its numbers",
            column=column,
            size=size,
            dimension=dimension,
        )
    return Vector(dimension, str(element))


def with_logical_types(columns: pa.Schema, schema_json: str) -> pa.Schema:
    """`columns` with the logical types and metadata that the record schema declares.

    Raises as `stored_types`.
    """
    for name, logical in stored_types(schema_json).items():
        at = columns.get_field_index(name)
        if at >= 0:
            columns = columns.set(at, declared(columns.field(at), logical))
    return columns


def avro_of(logical: Logical, named: set[str]) -> dict[str, Any] | str:
    """The Avro type of a column; only its name if the schema already defines it (`named`)."""
    avro = logical.avro if isinstance(logical, Vector) else _VARIANT_STORED
    name = str(avro["name"])
    if name in named:
        return name
    named.add(name)
    return avro


def check_unshredded(found: pa.Schema, expected: pa.Schema) -> None:
    """Raise UnsupportedTableError if a file (`found`) stores values of a variant column of the
    table (`expected`) in separate typed columns: its bytes alone are not the value."""
    for field in expected:
        is_variant = (field.metadata or {}).get(HUDI_TYPE) == VARIANT.encode()
        if not is_variant or field.name not in found.names:
            continue
        if "typed_value" in _names(found.field(field.name).type):
            raise UnsupportedTableError(
                "shredded variants cannot be read",
                column=field.name,
                hint="write the table with hoodie.parquet.variant.write.shredding.enabled=false",
            )


def packed(rows: pa.Table, schema_json: str) -> pa.Table:
    """`rows` with vectors and variants as stored in files, by the record schema.

    Raises SchemaError for a vector of another size.
    """
    vectors = stored_types(schema_json)
    if not vectors:
        return rows
    rows = filled_variants(rows, schema_json)
    fields = []
    for field in rows.schema:
        vector = vectors.get(field.name)
        if isinstance(vector, Vector) and pt.is_list(field.type):
            field = field.with_type(pa.binary(vector.byte_count))
        fields.append(field)
    stored = pa.schema(fields)
    return rows if stored.equals(rows.schema) else conform(rows, stored.remove_metadata())


def filled_variants(rows: pa.Table, schema_json: str) -> pa.Table:
    """`rows` with empty bytes inside null variants: both fields are required in files."""
    for name, logical in stored_types(schema_json).items():
        at = rows.schema.get_field_index(name)
        if logical == VARIANT and at >= 0:
            kind = pa.struct([field.with_nullable(False) for field in rows.schema.field(at).type])
            column = pa.chunked_array([_filled(c, kind) for c in rows.column(at).chunks], kind)
            rows = rows.set_column(at, rows.schema.field(at).with_type(kind), column)
    return rows


def _filled(variants: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    parts = [pc.fill_null(part, b"") for part in variants.flatten()]
    mask = variants.is_null() if variants.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def footer_entries(schema_json: str) -> dict[str, str]:
    """The footer entry of a Parquet file that lists its vectors; empty if it has none."""
    found = stored_types(schema_json).items()
    vectors = [f"{name}:{kind}" for name, kind in found if isinstance(kind, Vector)]
    return {FOOTER_VECTORS: ",".join(vectors)} if vectors else {}


def _names(kind: pa.DataType) -> list[str]:
    return [field.name for field in kind] if pt.is_struct(kind) else []


def _refusal(field: pa.Field, text: str, why: str) -> SchemaError:
    return SchemaError(
        f"a column's Hudi type cannot be stored: {why}",
        column=field.name,
        hudi_type=text,
        type=str(field.type),
    )
