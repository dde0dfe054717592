"""The columns that a JSON Schema describes.

| JSON Schema | column |
|---|---|
| `string`, and `enum` or `const` of texts | string, of any `format` |
| `integer` | int64 |
| `number`, `integer` with `number` | float64 |
| `boolean` | bool |
| `object` with `properties` | struct |
| `array` with `items` | list |
| `null`, or `oneOf` or `anyOf` of it, with another type | as the other type |

Keywords that only restrict values are not read.  Anything else, such as an object without
properties or a choice of several types, has no type here: its column gets the type of its values.
Source: JsonToAvroSchemaConverter of Apache Hudi.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError
from pyhudi.ingest.message_formats.schema_registry import RegisteredSchema

_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(),
}  # fmt: skip
_DEPTH_MAX: Final = 32
_COLUMNS_MAX: Final = 10_000


def columns_of_json_schema(registered: RegisteredSchema) -> pa.Schema:
    """Columns without a type of the schema have the type null.

    Raises CorruptFileError for a text that is not the schema of an object.
    """
    try:
        document = json.loads(registered.text)
        others = {name: json.loads(text) for name, text in registered.references.items()}
    except (ValueError, RecursionError) as error:
        raise CorruptFileError("the schema is not JSON", reason=str(error)) from None
    found = _Types(document, others).of(document, document, 0)
    if not pt.is_struct(found):
        raise CorruptFileError(
            "the schema does not describe an object with properties", found=found
        )
    return pa.schema(list(found))


def fitted(columns: pa.Schema, table: pa.Schema) -> pa.Schema:
    """`columns` with the types of a table where JSON has no such type: times, decimals, numbers of
    other widths."""
    return pa.schema(_fitted_fields(columns, table))


def _fitted_fields(found: Iterable[pa.Field], known: Any) -> list[pa.Field]:
    types = {field.name: field.type for field in known}
    return [
        pa.field(field.name, _fitted(field.type, types.get(field.name, field.type)))
        for field in found
    ]


def _fitted(found: pa.DataType, known: pa.DataType) -> pa.DataType:
    if pt.is_struct(found) and pt.is_struct(known):
        return pa.struct(_fitted_fields(found, known))
    if pt.is_list(found) and (pt.is_list(known) or pt.is_large_list(known)):
        return pa.list_(_fitted(found.value_type, known.value_type))
    is_timed = pt.is_temporal(known) or pt.is_decimal(known)
    if pt.is_string(found):
        return known if is_timed or pt.is_large_string(known) else found
    if pt.is_integer(found):
        return known if is_timed or pt.is_integer(known) or pt.is_floating(known) else found
    if pt.is_floating(found):
        return known if pt.is_decimal(known) or pt.is_floating(known) else found
    return known if pt.is_null(found) and not pt.is_map(known) else found


class _Types:
    """documents: by the names that references use.  Each node comes with the document it is in."""

    def __init__(self, document: Any, others: Mapping[str, Any]) -> None:
        self._documents = dict(others)
        for each in (document, *others.values()):
            if isinstance(each, dict) and isinstance(each.get("$id"), str):
                self._documents.setdefault(each["$id"], each)
        self._count = 0

    def of(self, node: Any, document: Any, depth: int) -> pa.DataType:
        """Raises CorruptFileError for references that lead nowhere, and for too many columns."""
        self._count += 1
        if self._count > _COLUMNS_MAX:
            raise CorruptFileError("the schema has too many columns", limit=_COLUMNS_MAX)
        if not isinstance(node, dict) or depth > _DEPTH_MAX:
            return pa.null()  # of a recursive schema, too
        if "$ref" in node:
            return self.of(*self._target(str(node["$ref"]), document), depth + 1)
        for choice in ("oneOf", "anyOf", "allOf"):
            if isinstance(node.get(choice), list):
                parts = [
                    self.of(part, document, depth + 1)
                    for part in node[choice]
                    if not isinstance(part, dict) or part.get("type") != "null"
                ]
                own = {key: value for key, value in node.items() if key != choice}
                if "type" in own or "properties" in own:
                    parts.append(self.of(own, document, depth + 1))
                return _common(parts)
        stated = node.get("type", "object" if "properties" in node else None)
        names = {name for name in (stated if isinstance(stated, list) else [stated]) if name}
        return self._of_names(names - {"null"}, node, document, depth)

    def _of_names(
        self, names: set[str], node: Mapping[str, Any], document: Any, depth: int
    ) -> pa.DataType:
        if names == {"object"}:
            properties = node.get("properties")
            if not isinstance(properties, dict) or not properties:
                return pa.null()
            fields = {n: self.of(each, document, depth + 1) for n, each in properties.items()}
            return pa.struct(list(fields.items()))
        if names == {"array"}:
            item = self.of(node.get("items"), document, depth + 1)
            return pa.null() if pt.is_null(item) else pa.list_(item)
        if not names:
            values = node.get("enum", [node["const"]] if "const" in node else [])
            is_text = values and all(value is None or isinstance(value, str) for value in values)
            return pa.string() if is_text else pa.null()
        return _common([_SIMPLE.get(name, pa.null()) for name in sorted(names)])

    def _target(self, reference: str, document: Any) -> tuple[Any, Any]:
        name, _, path = reference.partition("#")
        found = whole = self._documents.get(name) if name else document
        for part in (unquote(p) for p in path.split("/")[1:]):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise CorruptFileError("a reference of the schema leads nowhere", reference=reference)
        return found, whole


def _common(types: list[pa.DataType]) -> pa.DataType:
    """Of a choice of types; null if they have none in common."""
    kinds = list(dict.fromkeys(types))
    if len(kinds) == 1:
        return kinds[0]
    if set(kinds) == {pa.int64(), pa.float64()}:
        return pa.float64()
    if kinds and all(pt.is_struct(kind) for kind in kinds):
        fields: dict[str, list[pa.DataType]] = {}
        for field in (field for kind in kinds for field in kind):
            fields.setdefault(field.name, []).append(field.type)
        return pa.struct([(name, _common(found)) for name, found in fields.items()])
    return pa.null()
