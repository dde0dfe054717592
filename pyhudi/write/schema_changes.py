"""Changes of a table's columns by a commit without rows: new columns, wider types, comments, names.

The commit's schema is the only thing that changes: files are read by the names of their columns, in
which a new one is null.  After a rename or a drop the history of the columns states the names in
older files (`formats/column_history.py`).  Apache Hudi changes schemas by commits of the same
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.column_names import check_names
from pyhudi.near_names import columns_hint
from pyhudi.records import META_COLUMNS
from pyhudi.write.input.schema_check import FittedSchema, SchemaRules, plain_type, promotes


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A new column or field of a struct.

    path: its name, after those of the columns that it is in; the items of a list are `element`,
    the values of a map `value`.  after: the column or field that it follows; "": it is the first
    one; None: the last one, but before partition columns at the end of the table.
    comments: by dotted path, of it and its fields.
    """

    path: tuple[str, ...]
    type: pa.DataType
    after: str | None = None
    comments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """Another type or comment of a column; None: as it is.  comment: "" removes it."""

    path: tuple[str, ...]
    type: pa.DataType | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MovedColumn:
    """A column that gets another name; name: None drops it."""

    path: tuple[str, ...]
    name: str | None = None


SchemaChange: TypeAlias = AddedColumn | ChangedColumn | MovedColumn
_Fields: TypeAlias = list[pa.Field]


def altered(
    table: pa.Schema,
    changes: Sequence[SchemaChange],
    rules: SchemaRules,
    partition_fields: Sequence[str],
) -> FittedSchema:
    """The user columns of a table after the changes, which apply in order.

    Names are found regardless of case.  rules: with the columns whose type is fixed.
    Raises SchemaError for unknown columns, existing ones, and types that older files would have to
    be rewritten for.
    """
    fields = list(table)
    added: list[str] = []
    widened: list[str] = []
    comments: dict[str, str] = {}
    moves: list[tuple[str, str | None]] = []
    for change in changes:
        if isinstance(change, MovedColumn):
            old, fields = _moved(fields, change, rules)
            moves.append((old, change.name))
            continue
        parent, fields_of = _resolved(fields, change.path[:-1])
        if isinstance(change, AddedColumn):
            last = () if parent else partition_fields
            fields = _edited(fields, parent, partial(_with, change=change, last=last))
            path = ".".join((*parent, change.path[-1]))
            added.append(path)
            given = ".".join(change.path)
            comments |= {path + p.removeprefix(given): t for p, t in change.comments.items()}
            continue
        (*_, name), _ = _resolved(fields, change.path)
        path = ".".join((*parent, name))
        old = next(f for f in fields_of if f.name == name)
        if change.type is not None and (kind := plain_type(change.type)) != old.type:
            _check_type(path, old.type, kind, rules)
            fields = [f.with_type(kind) if f.name == name else f for f in fields]
            widened.append(path)
        if change.comment is not None:
            comments[path] = change.comment
    found = pa.schema(fields)
    check_names(found)
    check_names(found, folded=True)
    return FittedSchema(found, tuple(added), tuple(widened), comments, tuple(moves))


def _moved(fields: _Fields, change: MovedColumn, rules: SchemaRules) -> tuple[str, _Fields]:
    """(the present name of a column, the fields without it or with its new name)."""
    if len(change.path) > 1:
        raise SchemaError(
            "a field of a struct cannot be renamed or dropped",
            column=".".join(change.path),
            hint="Apache Hudi cannot read older files with other nested names",
        )
    found = _one(fields, change.path[0])
    if found.name in rules.fixed:
        raise SchemaError(
            "the column cannot be renamed or dropped",
            column=found.name,
            hint="keys, partitions or record order depend on it",
        )
    others = [f for f in fields if f.name != found.name]
    if change.name is None:
        return found.name, others
    if change.name.lower() in {f.name.lower() for f in others}:
        raise SchemaError("the column already exists", column=change.name)
    if change.name in META_COLUMNS:
        raise SchemaError("the name is that of a meta column", column=change.name)
    return found.name, [f.with_name(change.name) if f.name == found.name else f for f in fields]


def _with(fields: _Fields, change: AddedColumn, last: Sequence[str]) -> _Fields:
    """Fields with a new one.  last: columns that stay at the end if they are there."""
    name = change.path[-1]
    if name.lower() in {f.name.lower() for f in fields}:
        raise SchemaError("the column already exists", column=".".join(change.path))
    if name in META_COLUMNS:
        raise SchemaError("the name is that of a meta column", column=name)
    at = len(fields)
    if change.after is None:
        while at and fields[at - 1].name in last:
            at -= 1
    elif change.after == "":
        at = 0
    else:
        at = 1 + fields.index(_one(fields, change.after))
    return [*fields[:at], pa.field(name, plain_type(change.type)), *fields[at:]]


def _one(fields: _Fields, name: str) -> pa.Field:
    """The field with a name, regardless of case.  Raises SchemaError."""
    found = [f for f in fields if f.name == name] or [
        f for f in fields if f.name.lower() == name.lower()
    ]
    if len(found) != 1:
        raise SchemaError(
            "the table has no such column",
            column=name,
            hint=columns_hint([name], [f.name for f in fields]),
        )
    return found[0]


def _children(kind: pa.DataType) -> _Fields:
    """What a type has in it, by the names in paths."""
    if pt.is_struct(kind):
        return list(kind)
    if pt.is_list(kind):
        return [pa.field("element", kind.value_type)]
    if pt.is_map(kind):
        return [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]
    return []


def _resolved(fields: _Fields, path: Sequence[str]) -> tuple[tuple[str, ...], _Fields]:
    """(a path with the names of the table, the fields in its last column)."""
    names = []
    for name in path:
        found = _one(fields, name)
        names.append(found.name)
        fields = _children(found.type)
    return tuple(names), fields


def _edited(fields: _Fields, path: Sequence[str], edit: Callable[[_Fields], _Fields]) -> _Fields:
    """Fields in which those in a column have been edited."""
    if not path:
        return edit(fields)

    def inner(kind: pa.DataType) -> pa.DataType:
        rest = path[1:]
        if pt.is_struct(kind):
            return pa.struct(_edited(list(kind), rest, edit))
        if rest and pt.is_list(kind):
            return pa.list_(_edited(_children(kind), rest, edit)[0])
        if rest and pt.is_map(kind) and rest[0] == "value":
            return pa.map_(kind.key_type, _edited([_children(kind)[1]], rest, edit)[0].type)
        raise SchemaError(
            "a field can only be added to a struct", column=".".join(path), type=str(kind)
        )

    return [f.with_type(inner(f.type)) if f.name == path[0] else f for f in fields]


def _check_type(path: str, old: pa.DataType, new: pa.DataType, rules: SchemaRules) -> None:
    facts = {"column": path, "type": str(old), "new": str(new)}
    if path in rules.fixed:
        raise SchemaError(
            "the type of the column is fixed",
            **facts,
            hint="keys, partitions or record order depend on it",
        )
    if "." in path:
        raise SchemaError(
            "the type of a field cannot change",
            **facts,
            hint="Apache Hudi cannot read older files with other nested types",
        )
    if not promotes(old, new):
        raise SchemaError(
            "the column cannot have this type without a rewrite of its files",
            **facts,
            hint="int becomes bigint or double, float double, decimals get more digits",
        )
