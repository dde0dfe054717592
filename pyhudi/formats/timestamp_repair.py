"""Correction of timestamps whose label in the file is wrong or missing.

Apache Hudi before 1.1 wrote milliseconds into Parquet columns and Avro fields labelled as
microseconds, and local timestamps as plain longs.  The table's schema has the right type:

    stored                  in the table            read as
    timestamp[us, UTC]      timestamp[ms, UTC]      the same number, in milliseconds
    int64                   local timestamp         the same number, in the table's unit

at any depth of structs, lists and maps.  Source: SchemaRepair and HoodieSchemaRepair of Apache
Hudi 1.2.0, which repair both base files and log blocks on read.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.formats.schema_conform import with_children


def relabelled(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Stored rows, with mislabelled columns in the types of `table`; others are unchanged."""
    if rows.schema.equals(table):
        return rows
    for index, found in enumerate(rows.schema):
        position = table.get_field_index(found.name)
        if position < 0:
            continue
        target = relabelled_type(found.type, table.field(position).type)
        if target != found.type:
            column = rows.column(index)
            chunks = [_relabelled(chunk, target) for chunk in column.chunks]
            field = pa.field(found.name, target, found.nullable)
            rows = rows.set_column(index, field, pa.chunked_array(chunks, target))
    return rows


def relabelled_type(stored: pa.DataType, table: pa.DataType) -> pa.DataType:
    """The type of values stored as `stored` in a column of type `table`."""
    if pt.is_struct(stored) and pt.is_struct(table):
        return pa.struct([_relabelled_field(field, table) for field in stored])
    if pt.is_list(stored) and pt.is_list(table):
        element = stored.value_field
        return pa.list_(element.with_type(relabelled_type(element.type, table.value_type)))
    if pt.is_map(stored) and pt.is_map(table):
        item = stored.item_field
        value = item.with_type(relabelled_type(item.type, table.item_type))
        return pa.map_(stored.key_field, value)
    return table if _is_mislabelled(stored, table) else stored


def may_be_mislabelled(table: pa.DataType) -> bool:
    """Whether files may contain values of this type under another label."""
    if pt.is_struct(table):
        return any(may_be_mislabelled(field.type) for field in table)
    if pt.is_list(table):
        return may_be_mislabelled(table.value_type)
    if pt.is_map(table):
        return may_be_mislabelled(table.item_type)
    return bool(pt.is_timestamp(table) and (table.tz is None or table.unit == "ms"))


def _relabelled_field(field: pa.Field, table: pa.StructType) -> pa.Field:
    position = table.get_field_index(field.name)
    if position < 0:
        return field
    return field.with_type(relabelled_type(field.type, table.field(position).type))


def _is_mislabelled(stored: pa.DataType, table: pa.DataType) -> bool:
    if not pt.is_timestamp(table):
        return False
    if pt.is_int64(stored):
        return table.tz is None
    return bool(
        pt.is_timestamp(stored)
        and stored.tz is not None
        and table.tz is not None
        and (stored.unit, table.unit) == ("us", "ms")
    )


def _relabelled(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values with types of the same widths."""
    if array.type == target:
        return array
    if pt.is_struct(target):
        children = [
            _relabelled(array.field(n), target.field(n).type) for n in range(target.num_fields)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pt.is_list(target):
        return with_children(array, target, [_relabelled(array.values, target.value_type)])
    if pt.is_map(target):
        entries = pa.StructArray.from_arrays(
            [array.keys, _relabelled(array.items, target.item_type)],
            fields=[target.key_field, target.item_field],
        )
        return with_children(array, target, [entries])
    return array.view(target)
