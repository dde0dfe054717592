"""Conversion of Arrow columns to the exact types of an Avro schema, for the encoder.

Columns are matched to fields by name, in any order.  Lossless casts are applied; dictionaries
and extension types become their values; a missing column is null if nullable, else the
field's default.  Everything else is rejected with the column's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pyhudi._native.avro.types import AvroField, Kind, Node
from pyhudi.errors import SchemaError

_FEW_ROWS: Final = 256
_SHAPED_KINDS: Final = frozenset({Kind.ENUM, Kind.ARRAY, Kind.MAP, Kind.RECORD, Kind.UNION})


@dataclass(frozen=True, slots=True)
class Shaped:
    """An array of a node's Arrow type (of an enum: int32 positions) and its children, as compiled.

    Children: of a record or union one per field, as long as the array; of a list items; of a map
    its keys and its values, both addressed by the array's offsets.
    """

    array: pa.Array
    children: tuple[Shaped, ...] = ()


def shape_rows(rows: pa.RecordBatch | pa.StructArray, root: Node) -> Shaped:
    """Rows fitted to a record schema.  Raises SchemaError."""
    if isinstance(rows, pa.RecordBatch):
        rows = rows.to_struct_array()
    if not isinstance(rows, pa.StructArray):
        raise SchemaError("rows come as a record batch or a struct array", type=type(rows).__name__)
    return _struct(rows, root, "")


def _shape(array: pa.Array, node: Node, path: str) -> Shaped:
    if node.kind not in _SHAPED_KINDS and array.type == node.arrow:
        return Shaped(array)
    if isinstance(array, pa.ExtensionArray):
        return _shape(array.storage, node, path)
    if isinstance(array, pa.DictionaryArray):
        return _shape(array.dictionary_decode(), node, path)
    if types.is_run_end_encoded(array.type):
        return _shape(pc.run_end_decode(array), node, path)
    if types.is_null(array.type) and node.kind is not Kind.NULL:
        return _shape(pa.nulls(len(array), node.arrow), node, path)
    match node.kind:
        case Kind.RECORD | Kind.UNION:
            if not types.is_struct(array.type):
                raise _mismatch(array.type, node, path)
            return _struct(array, node, path)
        case Kind.ARRAY:
            return _list(array, node, path)
        case Kind.MAP:
            return _map(array, node, path)
        case Kind.ENUM:
            return Shaped(_positions(array, node, path))
        case _:
            return Shaped(_cast(array, node.arrow, path))


def _struct(array: pa.StructArray, node: Node, path: str) -> Shaped:
    positions = {field.name: i for i, field in enumerate(array.type)}
    expected = {field.name for field in node.fields}
    unknown = [name for name in positions if name not in expected]
    if unknown or len(positions) != array.type.num_fields:
        raise SchemaError(
            "the rows have columns that the Avro schema has not, or one twice",
            record=path or None,
            columns=unknown or list(positions),
        )
    children = []
    for field in node.fields:
        inner = f"{path}.{field.name}" if path else field.name
        position = positions.get(field.name)
        if position is not None:
            children.append(_shape(array.field(position), field.node, inner))
        elif field.optional or field.node.nullable:
            of_few = len(array) <= _FEW_ROWS
            children.append((_few_nulls if of_few else _nulls)(field.node, len(array)))
        else:
            children.append(_shape(_default(field, len(array), inner), field.node, inner))
    return Shaped(array, tuple(children))


def _nulls(node: Node, count: int) -> Shaped:
    return _shape(pa.nulls(count, node.arrow), node, "")


_few_nulls = lru_cache(64)(_nulls)
"""Columns that rows of the metadata table lack: dozens, of small batches."""


def _default(field: AvroField, count: int, path: str) -> pa.Array:
    """A column that the rows lack."""
    if isinstance(field.default, bool | int | float | str):
        return pa.repeat(pa.scalar(field.default, field.node.arrow), count)
    raise SchemaError("the rows lack a column that the Avro schema needs", column=path)


def _list(array: pa.Array, node: Node, path: str) -> Shaped:
    if not types.is_list(array.type):
        if not _is_list(array.type):
            raise _mismatch(array.type, node, path)
        array = _cast(array, pa.list_(array.type.value_field), path)
    return Shaped(array, (_shape(array.values, node.fields[0].node, f"{path}.element"),))


def _map(array: pa.Array, node: Node, path: str) -> Shaped:
    if not types.is_map(array.type):
        raise _mismatch(array.type, node, path)
    keys = Shaped(_cast(array.keys, pa.string(), f"{path}.key"))
    return Shaped(array, (keys, _shape(array.items, node.fields[0].node, f"{path}.value")))


def _positions(array: pa.Array, node: Node, path: str) -> pa.Array:
    text = _cast(array, pa.string(), path)
    positions = pc.index_in(text, value_set=pa.array(node.symbols, pa.string()))
    unknown = positions.null_count - text.null_count
    if unknown:
        odd = pc.and_(pc.is_null(positions), pc.is_valid(text))
        raise SchemaError(
            "a value is not a symbol of its enum",
            column=path,
            value=text.filter(odd)[0].as_py(),
            symbols=node.symbols,
        )
    return positions


def _cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type == target:
        return array
    cast: Callable[[pa.Array, pa.DataType], pa.Array] = pc.cast
    try:
        return cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            "a column does not fit its Avro type",
            column=path,
            type=array.type,
            expected=target,
            reason=str(error),
        ) from error


def _is_list(arrow: pa.DataType) -> bool:
    return bool(
        types.is_large_list(arrow)
        or types.is_fixed_size_list(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )


def _mismatch(arrow: pa.DataType, node: Node, path: str) -> SchemaError:
    return SchemaError(
        "a column does not fit its Avro type", column=path, type=arrow, expected=node.arrow
    )
