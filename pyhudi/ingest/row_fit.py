"""Columns of a source as columns of a table: what is converted, and which values have no place.

The schema of a table changes as a write would change it; what a write would refuse as a whole
(a name that cannot be stored, a type that does not fit) concerns only the rows that have a value
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.avro_schema import arrow_to_avro
from pyhudi.formats.logical_types import logical_type
from pyhudi.formats.schema_conform import Loss, fit, is_any_list, map_values, widens, with_children
from pyhudi.ingest.exact_values import exact
from pyhudi.ingest.source import failing_places
from pyhudi.options import SchemaMode
from pyhudi.records import IS_DELETED, META_COLUMNS, OPERATION
from pyhudi.write.input.schema_check import SchemaRules, fit_schema, fits, plain_type, promotes

_ITEM: Final = "element"
_VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Refused:
    """A field that the table cannot have: the names that lead to it, and the reason."""

    steps: tuple[str, ...]
    reason: str


@dataclass(slots=True)
class ColumnsFit:
    """types: of the rows' columns in the table.  refused: fields without a place in it."""

    schema: pa.Schema
    refused: list[Refused] = field(default_factory=list)

    def shaped(self, rows: pa.Table) -> pa.Table:
        """`rows` with these columns.  Raises ArrowException or SchemaError for a value that its
        column does not have."""
        columns = [shaped(rows.column(f.name), f.type, f.name) for f in self.schema]
        if not columns:
            return rows.select([])
        return pa.Table.from_arrays(columns, schema=self.schema)


def selectable(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The rows without views and run ends, of which Arrow cannot take rows."""
    fields = [f.with_type(_selectable(f.type)) for f in rows.schema]
    schema = pa.schema(fields, rows.schema.metadata)
    if schema.equals(rows.schema):
        return rows

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            table = pa.Table.from_batches([batch])
            columns = [
                fit(values, f.type, name=f.name, loss=Loss.REFUSED)
                for values, f in zip(table.columns, schema, strict=True)
            ]
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, converted())


def _selectable(kind: pa.DataType) -> pa.DataType:
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_run_end_encoded(kind):
        return _selectable(kind.value_type)
    if pt.is_struct(kind):
        return pa.struct([f.with_type(_selectable(f.type)) for f in kind])
    if pt.is_map(kind):
        return pa.map_(_selectable(kind.key_type), _selectable(kind.item_type))
    if pt.is_list_view(kind) or pt.is_large_list_view(kind):
        return pa.list_(pa.field(_ITEM, _selectable(kind.value_type)))
    if is_any_list(kind) and not (item := _selectable(kind.value_type)).equals(kind.value_type):
        return pa.list_(pa.field(_ITEM, item))
    return kind


def columns_fit(rows: pa.Schema, table: pa.Schema, rules: SchemaRules) -> ColumnsFit:
    """How columns of rows become those of a table; all columns are new for one without columns."""
    found = ColumnsFit(pa.schema([]))
    fields: list[pa.Field] = []
    taken = {field.name.lower() for field in table} | {name.lower() for name in META_COLUMNS}
    seen: set[str] = set()
    for column in rows:
        name = column.name
        if name in META_COLUMNS or name == OPERATION:
            continue
        if name in seen:
            found.refused.append(Refused((name,), "the rows have two columns of this name"))
            continue
        seen.add(name)
        if name in table.names:
            kind = _known(column, table.field(name), rules, found)
        else:
            kind = _new(column.type, (name,), taken, rules if len(table) else SchemaRules(), found)
        if kind is not None:
            fields.append(column if kind.equals(column.type) else column.with_type(kind))
    found.schema = pa.schema(fields)
    return found


def _known(
    column: pa.Field, stored: pa.Field, rules: SchemaRules, found: ColumnsFit
) -> pa.DataType:
    given = column.type
    value = given.value_type if pt.is_dictionary(given) else given
    if given.equals(stored.type) or logical_type(stored) is not None:
        return given
    if pt.is_nested(given):
        return _merged(given, stored.type, (column.name,), rules, found)
    try:
        whole = fit_schema(pa.schema([column]), pa.schema([stored]), rules)
    except SchemaError:
        return _merged(given, stored.type, (column.name,), rules, found)
    if whole.widened or isinstance(given, pa.BaseExtensionType):
        return given
    # a write may refuse values of other units and lengths, and integers that a float rounds
    may_fail = pt.is_temporal(value) or pt.is_fixed_size_binary(stored.type)
    may_fail |= pt.is_integer(value) and pt.is_floating(stored.type)
    return stored.type if may_fail else given


def _merged(
    given: pa.DataType,
    known: pa.DataType,
    steps: tuple[str, ...],
    rules: SchemaRules,
    found: ColumnsFit,
) -> pa.DataType:
    """The type of a column whose type a write does not take as it is."""
    if pt.is_struct(given) and pt.is_struct(known):
        taken = {field.name.lower() for field in known}
        fields = []
        for child in given:
            at = known.get_field_index(child.name)
            if at < 0:
                kind = _new(child.type, (*steps, child.name), taken, rules, found)
            else:
                kind = _merged(child.type, known.field(at).type, (*steps, child.name), rules, found)
            if kind is not None:
                fields.append(pa.field(child.name, kind))
        return pa.struct(fields) if fields else known
    if is_any_list(given) and is_any_list(known):
        return pa.list_(
            pa.field(
                _ITEM, _merged(given.value_type, known.value_type, (*steps, _ITEM), rules, found)
            )
        )
    if pt.is_map(given) and pt.is_map(known):
        steps = (*steps, _VALUE)
        return pa.map_(
            known.key_type, _merged(given.item_type, known.item_type, steps, rules, found)
        )
    if pt.is_nested(given) or pt.is_nested(known):
        return known
    name = steps[0]
    if len(steps) == 1 and rules.mode is SchemaMode.WIDEN and name not in rules.fixed:
        plain = plain_type(given)
        if not fits(plain, known) and promotes(known, plain):
            return given
    return known


def _new(
    kind: pa.DataType,
    steps: tuple[str, ...],
    taken: set[str],
    rules: SchemaRules,
    found: ColumnsFit,
) -> pa.DataType | None:
    """The type of a new field; None: it is left out.  taken: names in lower case, gets this one."""
    name = steps[-1]
    if rules.mode is SchemaMode.STRICT:
        reason = "the table has no such column, and its schema_mode is strict"
    elif name.lower() in taken:
        reason = "the name differs from that of another column only in case"
    else:
        reason = ""
    storable = None if reason else _storable(kind, steps, rules, found)
    if storable is None and not reason and _is_empty(kind):
        return None  # it waits for a value
    if storable is not None:
        try:
            arrow_to_avro(pa.schema([(name, plain_type(storable))]), name="row", namespace="")
        except SchemaError as error:
            reason = str(error)
    if reason:
        found.refused.append(Refused(steps, reason))
        return None
    taken.add(name.lower())
    return storable


def _storable(
    kind: pa.DataType, steps: tuple[str, ...], rules: SchemaRules, found: ColumnsFit
) -> pa.DataType | None:
    """The type without fields that cannot be stored; None if nothing is left."""
    if pt.is_null(kind):
        return None
    if pt.is_struct(kind):
        taken: set[str] = set()
        fields = [
            pa.field(child.name, inner)
            for child in kind
            if (inner := _new(child.type, (*steps, child.name), taken, rules, found)) is not None
        ]
        if not fields:
            return None
        return kind if len(fields) == kind.num_fields and _same(fields, kind) else pa.struct(fields)
    if is_any_list(kind):
        inner = _storable(kind.value_type, (*steps, _ITEM), rules, found)
        if inner is None or inner.equals(kind.value_type):
            return None if inner is None else kind
        return pa.list_(pa.field(_ITEM, inner))
    # a write refuses values of other units, and all rows with them
    return plain_type(kind) if pt.is_temporal(kind) or pt.is_map(kind) else kind


def _same(fields: Sequence[pa.Field], kind: pa.DataType) -> bool:
    return all(a.type.equals(b.type) for a, b in zip(fields, kind, strict=True))


def _is_empty(kind: pa.DataType) -> bool:
    """Whether no value of the type says anything: null, `[]`, `{}`."""
    if is_any_list(kind):
        return _is_empty(kind.value_type)
    if pt.is_struct(kind):
        return all(_is_empty(child.type) for child in kind)
    return bool(pt.is_null(kind))


def rows_with(rows: pa.Table, steps: Sequence[str]) -> np.ndarray:
    """The mask of rows with a value in a field."""
    positions = [n for n, name in enumerate(rows.column_names) if name == steps[0]]
    mask = np.zeros(rows.num_rows, np.bool_)
    first = 0
    for chunk in rows.column(positions[-1]).chunks:
        mask[first + _present(chunk, steps[1:])] = True
        first += len(chunk)
    return mask


def _present(array: pa.Array, steps: Sequence[str]) -> np.ndarray:
    """Places of the values that have a field."""
    if not steps:
        places: np.ndarray = np.flatnonzero(np.asarray(array.is_valid()))
        return places
    if pt.is_map(array.type):
        array = map_values(array)
    if is_any_list(array.type):
        parents = np.asarray(pc.list_parent_indices(array))
        return np.unique(parents[_present(pc.list_flatten(array), steps[1:])])
    valid = np.asarray(array.is_valid())
    inside = _present(pc.struct_field(array, [array.type.get_field_index(steps[0])]), steps[1:])
    found: np.ndarray = inside[valid[inside]]
    return found


def shaped(column: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray:
    """One column as another type, without fields that the type lacks; every value exactly, or the
    nearest of a narrower floating-point type.  Raises ArrowException or SchemaError."""
    if column.type.equals(target):
        return column
    return pa.chunked_array([_shaped(chunk, target, name) for chunk in column.chunks], target)


def _shaped(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    source = array.type
    if source.equals(target):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    if pt.is_dictionary(source) and not pt.is_dictionary(target):
        return _shaped(array.dictionary_decode(), target, name)
    if pt.is_struct(source) and pt.is_struct(target):
        parts, children = [], array.flatten()  # without values below a null
        for child in target:
            at = source.get_field_index(child.name)
            parts.append(
                pa.nulls(len(array), child.type)
                if at < 0
                else _shaped(children[at], child.type, name)
            )
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    if is_any_list(source) and pt.is_list(target) and not pt.is_list(source):
        plain = fit(pa.chunked_array([array]), pa.list_(source.value_field), name=name)
        return _shaped(plain.combine_chunks(), target, name)
    if pt.is_list(source) or pt.is_map(source):
        array = _whole(array)
    if pt.is_map(source) and pt.is_map(target):
        pair = zip((array.keys, array.items), (target.key_field, target.item_field), strict=True)
        parts = [_shaped(values, each.type, name) for values, each in pair]
        fields = [target.key_field, target.item_field]
        return with_children(array, target, [pa.StructArray.from_arrays(parts, fields=fields)])
    if pt.is_list(source) and pt.is_list(target):
        return with_children(array, target, [_shaped(array.values, target.value_type, name)])
    if pt.is_nested(source) or pt.is_nested(target) or widens(source, target):
        return fit(pa.chunked_array([array]), target, name=name, loss=Loss.REFUSED).combine_chunks()
    return exact(array, target)


def _whole(array: pa.Array) -> pa.Array:
    """Without elements of other rows, which a slice of lists has, and of null lists: they may have
    no place."""
    lengths = np.diff(np.asarray(array.offsets))
    used = lengths[np.asarray(array.is_valid())].sum()
    if used == len(array.keys if pt.is_map(array.type) else array.values):
        return array
    return array.take(pa.array(np.arange(len(array))))


def common_columns(schemas: Iterable[pa.Schema], table: pa.Schema) -> pa.Schema:
    """The columns of several parts of a batch: the type of the table where it has the values of
    all, or a type that it widens to; else that of the first part that has one."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for column in schema:
            fields[column.name] = _common(fields.get(column.name), column, table)
    return pa.schema(list(fields.values()))


def _common(known: pa.Field | None, column: pa.Field, table: pa.Schema) -> pa.Field:
    plain = pa.field(column.name, column.type)
    if known is None or known.type.equals(column.type):
        return plain if known is None else known
    at = table.get_field_index(column.name)
    stored = None if at < 0 else table.field(at).type
    try:
        pair = [pa.schema([known]), pa.schema([plain])]
        found = pa.unify_schemas(pair, promote_options="permissive").field(0)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.field(column.name, _common_parts(known.type, plain.type, stored))
    if stored is None or pt.is_nested(found.type) or promotes(stored, plain_type(found.type)):
        return found
    return pa.field(column.name, stored)


def _common_parts(
    known: pa.DataType, given: pa.DataType, stored: pa.DataType | None
) -> pa.DataType:
    """The type of two that have none in common: of structs, lists and maps, whose fields may."""
    kinds = [known, given] if stored is None else [known, given, stored]
    if all(map(pt.is_struct, kinds)):
        fields = {field.name: field for field in known}
        table = pa.schema([] if stored is None else list(stored))
        for field_ in given:
            fields[field_.name] = _common(fields.get(field_.name), field_, table)
        return pa.struct(list(fields.values()))
    if all(map(is_any_list, kinds)):
        known_item, item, *own = (pa.field(_ITEM, kind.value_type) for kind in kinds)
        return pa.list_(_common(known_item, item, pa.schema(own)))
    if all(map(pt.is_map, kinds)):
        known_item, item, *own = (pa.field(_VALUE, kind.item_type) for kind in kinds)
        return pa.map_(known.key_type, _common(known_item, item, pa.schema(own)).type)
    return plain_type(known) if stored is None else stored


def check_parts(
    parts: Mapping[pa.Schema, str], batch: pa.Schema, table: pa.Schema, rules: SchemaRules
) -> None:
    """Raises SchemaError for a part without a column, or field of a struct, that the table and
    other parts of the batch have: alone it would be refused, and its nulls would replace values."""
    if rules.fills_missing:
        return
    optional = {IS_DELETED, *rules.optional}
    others = [pa.struct(list(batch)), pa.struct(list(table))]
    for schema, name in parts.items():
        found = [p for p in lacking_fields(pa.struct(list(schema)), others) if p not in optional]
        if found:
            raise SchemaError(
                "a file lacks columns of the table that other files of its batch have",
                path=name,
                columns=", ".join(found),
                hint="hoodie.write.set.null.for.missing.columns=true writes nulls; nothing was "
                "written of this batch",
            )


def lacking_fields(
    part: pa.DataType, others: Sequence[pa.DataType], path: str = ""
) -> Iterator[str]:
    """The paths of fields that all other types have, also in lists and maps, and `part` lacks."""
    kinds = [part, *others]
    if all(map(is_any_list, kinds)):
        inner = [kind.value_type for kind in others]
        yield from lacking_fields(part.value_type, inner, f"{path}.{_ITEM}")
    elif all(map(pt.is_map, kinds)):
        inner = [kind.item_type for kind in others]
        yield from lacking_fields(part.item_type, inner, f"{path}.{_VALUE}")
    elif all(map(pt.is_struct, kinds)):
        for name in (field.name for field in others[0]):
            if any(kind.get_field_index(name) < 0 for kind in others):
                continue
            at, steps = part.get_field_index(name), f"{path}.{name}" if path else name
            if at < 0:
                yield steps
            else:
                inner = [kind.field(name).type for kind in others]
                yield from lacking_fields(part.field(at).type, inner, steps)


def with_fields(kind: pa.DataType, known: pa.DataType) -> pa.DataType:
    """`kind` with the fields of structs, also in lists and maps, that only `known` has."""
    if next(lacking_fields(kind, [known]), None) is None:
        return kind
    if is_any_list(kind):
        return pa.list_(pa.field(_ITEM, with_fields(kind.value_type, known.value_type)))
    if pt.is_map(kind):
        return pa.map_(kind.key_type, with_fields(kind.item_type, known.item_type))
    fields = [
        f.with_type(with_fields(f.type, known.field(f.name).type))
        if known.get_field_index(f.name) >= 0
        else f
        for f in kind
    ]
    return pa.struct([*fields, *(f for f in known if kind.get_field_index(f.name) < 0)])


def fitting(rows: pa.Table, columns: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """The rows with these columns, null where they lack one, without those that have a value that
    its column does not have; of these, the places and reasons."""
    bad: dict[int, str] = {}
    known = [column for column in columns if column.name in rows.column_names]
    for column in known:
        convert = partial(_whole_values, target=column.type, name=column.name)
        for place in failing_places(rows.column(column.name), convert):
            bad.setdefault(place, f"column {column.name}: not a value of type {column.type}")
    if bad:
        good = np.ones(rows.num_rows, np.bool_)
        good[list(bad)] = False
        rows = rows.filter(pa.array(good))
    values = [
        shaped(rows.column(column.name), column.type, column.name)
        if column in known
        else pa.chunked_array([pa.nulls(rows.num_rows, column.type)])
        for column in columns
    ]
    return pa.Table.from_arrays(values, schema=columns), bad


def _whole_values(column: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray:
    """As `shaped`.  Raises SchemaError for a value of a field that the type lacks, too."""
    for chunk in column.chunks:
        if _has_more(chunk, target):
            raise SchemaError("a value has a field that its column lacks", column=name)
    return shaped(column, target, name)


def _has_more(array: pa.Array, target: pa.DataType) -> bool:
    """Whether some struct of an array has a value of a field that a type lacks."""
    source = array.type
    if source.equals(target) or array.null_count == len(array):
        return False
    if pt.is_struct(source) and pt.is_struct(target):
        for field_, values in zip(source, array.flatten(), strict=True):
            at = target.get_field_index(field_.name)
            if values.null_count < len(values) if at < 0 else _has_more(values, target[at].type):
                return True
    elif pt.is_map(source) and pt.is_map(target):
        return _has_more(map_values(array).flatten(), target.item_type)
    elif is_any_list(source) and is_any_list(target):
        return _has_more(array.flatten(), target.value_type)
    return False


def unified(
    parts: Sequence[tuple[pa.Table, np.ndarray]], table: pa.Schema
) -> tuple[pa.Table, np.ndarray, dict[int, str]]:
    """Parts of a batch in the order of their places, which come with each; columns that a part
    lacks are null.  And the places of rows with values that a common column does not have."""
    if len(parts) == 1:
        return (*parts[0], {})
    schema = common_columns([rows.schema for rows, _ in parts], table)
    faults: dict[int, str] = {}
    tables, where = [], []
    for rows, places in parts:
        bad: set[int] = set()
        for name in rows.column_names:
            kind = schema.field(name).type
            for row in failing_places(rows.column(name), partial(shaped, target=kind, name=name)):
                bad.add(row)
                faults.setdefault(int(places[row]), f"column {name}: not a value of type {kind}")
        if bad:
            good = np.ones(rows.num_rows, np.bool_)
            good[list(bad)] = False
            rows, places = rows.filter(pa.array(good)), places[good]
        columns = [
            shaped(rows.column(f.name), f.type, f.name)
            if f.name in rows.column_names
            else pa.chunked_array([pa.nulls(rows.num_rows, f.type)])
            for f in schema
        ]
        tables.append(pa.Table.from_arrays(columns, schema=schema))
        where.append(places)
    found = np.concatenate(where)
    order = np.argsort(found, kind="stable")
    rows = pa.concat_tables(tables)
    if not (order == np.arange(len(order))).all():
        rows = rows.take(pa.array(order))
    return rows, found[order], faults
