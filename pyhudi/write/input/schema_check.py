"""Schema check of a batch against the table, before anything is written.

A batch may have narrower types than the table and, depending on the schema mode, new nullable
columns and fields and wider types.  Everything else is rejected with a message in the form of a
diff.  docs/schema_evolution.md lists the result for every pair of types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.column_names import check_names
from pyhudi.formats.logical_types import check_nested, declared, logical_type, vector_of
from pyhudi.formats.schema_conform import is_any_list, widens
from pyhudi.near_names import near_names
from pyhudi.options import SchemaMode, WriteOptions
from pyhudi.records import IS_DELETED, META_COLUMNS, OPERATION, without_meta
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig

_DECIMAL_DIGITS: Final = 38
_ADDS: Final = 'schema_mode="widen" adds the new columns to the table'
_WIDENS: Final = 'cast the columns, or give the table\'s the wider type by schema_mode="widen"'
_NEEDS: Final = "add the columns of keys, partitions and record order to the rows"
_LACKS: Final = (
    "for rows that lack columns table.merge(rows).when_matched_update() leaves these as stored, "
    "hoodie.write.set.null.for.missing.columns=true writes nulls"
)
_LACKS_FIELD: Final = (
    "a struct is written as a whole: add its missing fields, or let "
    "hoodie.write.set.null.for.missing.columns=true write nulls"
)


@dataclass(frozen=True, slots=True)
class FittedSchema:
    """The table's schema after the write (`table`).

    added: new columns and nested fields; widened: those whose type changes; as dotted paths.
    comments: other comments, by dotted path; "" removes one.  moves: columns that are renamed, or
    dropped (None), in order.
    """

    table: pa.Schema
    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    moves: tuple[tuple[str, str | None], ...] = ()

    @property
    def has_changed(self) -> bool:
        return bool(self.added or self.widened or self.comments or self.moves)


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The schema changes that a batch may make.

    fills_missing: columns missing in the batch are null in its rows.  fixed: columns whose type
    cannot change, because keys, paths and the order of records derive from their values.
    optional: columns that the batch may leave out.
    """

    mode: SchemaMode = SchemaMode.WIDEN
    fills_missing: bool = False
    fixed: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


def schema_rules(
    config: TableConfig, options: WriteOptions, mode: SchemaMode | None = None
) -> SchemaRules:
    """The rules of one write.  mode: the requested mode; None: the mode of the options."""
    fixed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
    fills = options.null_for_missing or options.reconcile_schema
    return SchemaRules(mode or options.schema_mode, fills, frozenset(fixed))


@dataclass(slots=True)
class _Differences:
    """Differences found: added and widened paths, the lines of the diff that reject, and what can
    be done about them."""

    added: list[str] = field(default_factory=list)
    widened: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    cures: dict[str, None] = field(default_factory=dict)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type as stored in tables: no views, no dictionaries, lists of `element`."""
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pt.is_nested(kind):
        return _plain_nested(kind)
    if pt.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
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
    return kind


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if is_any_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type)))
    if pt.is_struct(kind):
        return pa.struct([f.with_type(plain_type(f.type)).with_nullable(True) for f in kind])
    if pt.is_map(kind):
        keys = pa.string() if pt.is_null(kind.key_type) else plain_type(kind.key_type)
        return pa.map_(keys, plain_type(kind.item_type))  # null: maps without entries
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """User columns as stored in tables, all nullable; without meta columns.

    Raises SchemaError for a Hudi type (`formats.logical_types`) that a column cannot have.
    """
    return pa.schema([_plain(f) for f in without_meta(schema) if f.name != OPERATION])


def _plain(column: pa.Field) -> pa.Field:
    check_nested(column)
    logical = logical_type(column)
    plain = pa.field(column.name, plain_type(column.type))
    return plain if logical is None else declared(plain, logical)


def fit_schema(
    batch: pa.Schema, table: pa.Schema, rules: SchemaRules = SchemaRules()
) -> FittedSchema:
    """The table's schema (user columns) after this batch.

    Raises SchemaError listing every incompatible difference.
    """
    check_names(batch)
    found = _Differences()
    given = pa.schema([_as_vector(f, batch, table, found) for f in plain_schema(batch)])
    fields = list(_merged(given, table, rules, found, path=""))
    if found.lines:
        raise SchemaError(
            "the batch does not fit the table:\n  " + "\n  ".join(found.lines) + "\n",
            schema_mode=rules.mode.value,
            hint="; ".join((*(found.cures or ("cast the columns",)), "nothing was written")),
        )
    return FittedSchema(pa.schema(fields), tuple(found.added), tuple(found.widened))


def _as_vector(
    given: pa.Field, batch: pa.Schema, table: pa.Schema, found: _Differences
) -> pa.Field:
    """A column of the batch with its original number type if the table has vectors: int8 stays.

    A vector or list of another size is a difference.
    """
    known, raw = _field(table, given.name), batch.field(given.name)
    vector = None if known is None else vector_of(known)
    if known is None or (vector is None and vector_of(given) is None):
        return given
    sized = pt.is_fixed_size_list(raw.type)
    provided = vector_of(given) or (f"lists of {raw.type.list_size}" if sized else None)
    of_size = sized and vector is not None and raw.type.list_size == vector.dimension
    if provided is not None and provided != vector and not of_size:
        found.lines.append(
            f"~ {given.name}: the table has {vector or known.type}, the batch {provided}"
        )
        return known
    if is_any_list(raw.type) and raw.type.value_type == (vector and vector.kind):
        return known
    return given


def _field(schema: pa.Schema, name: str) -> pa.Field | None:
    return schema.field(name) if name in schema.names else None


def _merged(
    given: pa.Schema | pa.StructType,
    known: pa.Schema | pa.StructType,
    rules: SchemaRules,
    found: _Differences,
    *,
    path: str,
) -> Iterator[pa.Field]:
    """The table's fields with the changes of the batch: existing ones in order, then new."""
    theirs = {f.name: f for f in given}
    for column in known:
        name = f"{path}{column.name}"
        if column.name in theirs:
            kind = _merged_type(theirs[column.name].type, column.type, rules, found, path=name)
            yield column.with_type(kind)
        else:
            # null: not deleted
            if not rules.fills_missing and name not in {IS_DELETED, *rules.optional}:
                found.lines.append(f"- {name}: {column.type} (missing in the batch)")
                lacks = _LACKS_FIELD if path else _LACKS
                found.cures[_NEEDS if name in rules.fixed else lacks] = None
            yield column
    names = {f.name for f in known}
    folded = {name.lower(): name for name in names}
    for name in [name for name in theirs if name not in names]:
        if name.lower() in folded or (not path and name in META_COLUMNS):
            found.lines.append(
                f"+ {path}{name}: differs from {folded.get(name.lower(), name)} only in case"
            )
        elif pt.is_null(theirs[name].type):
            found.lines.append(f"+ {path}{name}: null (new, without a type)")
        elif rules.mode is SchemaMode.STRICT and name != IS_DELETED:
            near = near_names(name, names)
            meant = f"; did you mean {path}{near[0]}?" if near else ""
            found.lines.append(f"+ {path}{name}: {theirs[name].type} (not in the table{meant})")
            found.cures[_ADDS] = None
        folded[name.lower()] = name
        found.added.append(f"{path}{name}")
        yield theirs[name].with_nullable(True)


def _merged_type(
    given: pa.DataType, known: pa.DataType, rules: SchemaRules, found: _Differences, *, path: str
) -> pa.DataType:
    if pt.is_struct(given) and pt.is_struct(known):
        return pa.struct(_merged(given, known, rules, found, path=f"{path}."))
    if pt.is_list(given) and pt.is_list(known):
        inner = (given.value_type, known.value_type)
        kind = _merged_type(*inner, rules, found, path=f"{path}.element")
        return pa.list_(pa.field("element", kind))
    if pt.is_map(given) and pt.is_map(known):
        if given.key_type != known.key_type:
            found.lines.append(
                f"~ {path}.key: the table has {known.key_type}, not {given.key_type}"
            )
        inner = (given.item_type, known.item_type)
        kind = _merged_type(*inner, rules, found, path=f"{path}.value")
        return pa.map_(known.key_type, kind)
    if fits(given, known):
        return known
    line = f"~ {path}: the table has {known}, the batch {given}"
    if promotes(known, given):
        if path in rules.fixed:
            line += " (keys, partitions or record order depend on this column: its type is fixed)"
        elif "." in path:
            line += " (Apache Hudi cannot read older files with other nested types)"
        elif rules.mode is SchemaMode.WIDEN:
            found.widened.append(path)
            return given
        else:
            line += " (a wider type)"
            found.cures[_WIDENS] = None
    found.lines.append(line)
    return known


def fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of `target` can hold every value of `source`; neither is nested."""
    if source.equals(target) or pt.is_null(source):
        return True
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        return (source.tz is None) == (target.tz is None) and (
            source.unit == target.unit or target.unit == "us"
        )
    if pt.is_time(source) or pt.is_time(target):
        return False
    text = pt.is_string(source) == pt.is_string(target)  # no text as bytes, no number as text
    return bool(text and widens(source, target))


def promotes(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of `source` can become `target` without rewriting its older files.

    No value changes, and every release of Apache Hudi reads the same values.
    """
    if pt.is_int32(source):
        return target in (pa.int64(), pa.float64())
    if pt.is_float32(source):
        return bool(pt.is_float64(target))
    both = pt.is_decimal(source) and pt.is_decimal(target) and target.precision <= _DECIMAL_DIGITS
    return bool(both and not source.equals(target) and widens(source, target))


def check_no_logs(fitted: FittedSchema, slices: Iterable[FileSlice]) -> None:
    """Raise SchemaError if a type would be widened while log files have the older type.

    Apache Hudi 0.15.0 reads neither Parquet blocks nor decimals of an older type.
    """
    logged = next((slice_ for slice_ in slices if slice_.logs), None)
    if logged is not None:
        raise SchemaError(
            "a column cannot be widened while log files have the older type",
            columns=", ".join(fitted.widened),
            file_group=logged.group.file_id,
            hint="compact the table first, or cast the columns; nothing was written",
        )
