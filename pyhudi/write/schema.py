"""Does a batch fit the table: checked before anything is written.

A batch may leave out nothing, may bring new nullable columns, and may hold narrower types than
the table's.  Everything else is refused with a message that reads like a diff.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.conform import widens
from pyhudi.records import META_COLUMNS, OPERATION, without_meta


@dataclass(frozen=True, slots=True)
class FittedSchema:
    """`table` is what the table's schema becomes; `added` names the columns it gains."""

    table: pa.Schema
    added: tuple[str, ...] = ()


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in the form tables hold it: no views, no dictionaries, lists of `element`."""
    if pt.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_int8(kind) or pt.is_int16(kind) or pt.is_uint8(kind) or pt.is_uint16(kind):
        return pa.int32()
    if pt.is_uint32(kind):
        return pa.int64()
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_date64(kind):
        return pa.date32()
    if pt.is_timestamp(kind) and kind.unit in ("s", "ns"):
        return pa.timestamp("ms" if kind.unit == "s" else "us", "UTC" if kind.tz else None)
    if pt.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pt.is_time(kind):
        return pa.time32("ms") if kind.bit_width == 32 else pa.time64("us")
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type)))
    if pt.is_struct(kind):
        return pa.struct([f.with_type(plain_type(f.type)).with_nullable(True) for f in kind])
    if pt.is_map(kind):
        return pa.map_(pa.string(), plain_type(kind.item_type))
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """User columns in the form tables hold them, all nullable; meta columns are left out."""
    return pa.schema(
        [pa.field(f.name, plain_type(f.type)) for f in without_meta(schema) if f.name != OPERATION]
    )


def fit_schema(batch: pa.Schema, table: pa.Schema) -> FittedSchema:
    """What the table's schema (user columns) becomes with this batch.

    Raises SchemaError listing every difference that cannot be bridged.
    """
    given = {f.name: plain_type(f.type) for f in without_meta(batch)}
    lines: list[str] = []
    for field in table:
        if field.name not in given:
            lines.append(f"- {field.name}: {field.type} (missing in the batch)")
        elif not fits(given[field.name], field.type):
            lines.append(
                f"~ {field.name}: the table has {field.type}, the batch {given[field.name]}"
            )
    known = set(table.names)
    added = [name for name in given if name not in known and name != OPERATION]
    if lines:
        lines += [f"+ {name}: {given[name]} (new)" for name in added]
        raise SchemaError(
            "the batch does not fit the table:\n  " + "\n  ".join(lines) + "\n",
            hint="cast the columns or add the missing ones; nothing was written",
        )
    folded = {name.lower(): name for name in table.names}
    for name in added:
        if name.lower() in folded or name in META_COLUMNS:
            raise SchemaError(
                "a new column differs from another only in case", column=name,
                other=folded.get(name.lower()),
            )  # fmt: skip
        folded[name.lower()] = name
    return FittedSchema(
        pa.schema([*table, *(pa.field(name, given[name]) for name in added)]), tuple(added)
    )


def fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` can stand in a column of `target`, nested ones by name."""
    if source.equals(target) or pt.is_null(source):
        return True
    if pt.is_struct(source) and pt.is_struct(target):
        names = {f.name: f.type for f in target}
        return len(source) > 0 and all(
            f.name in names and fits(f.type, names[f.name]) for f in source
        )
    if pt.is_list(source) and pt.is_list(target):
        return fits(source.value_type, target.value_type)
    if pt.is_map(source) and pt.is_map(target):
        return fits(source.item_type, target.item_type)
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        return (source.tz is None) == (target.tz is None) and (
            source.unit == target.unit or target.unit == "us"
        )
    if pt.is_time(source) or pt.is_time(target):
        return False
    text = pt.is_string(source) == pt.is_string(target)
    return bool(text and widens(source, target))
