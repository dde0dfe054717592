"""The columns of a table by id, and their names in files that were written before a rename.

A table whose columns were renamed or dropped has Apache Hudi's internal schema.  Commits state it
in `latest_schema`, and each of them stores all schemas, newest first, in
`.hoodie/.schema/<instant>.schemacommit`:

```
{"schemas": [schema]}   schema: {"max_column_id", "version_id", "type": "record", "fields": [field]}
field: {"id", "name", "optional", "type", "doc"}
type: "int", "decimal(10, 2)", ... or
      {"type": "record", "fields": [field]}
      {"type": "array", "element_id", "element": type, "element_optional"}
      {"type": "map", "key_id", "key": type, "value_id", "value": type, "value_optional"}
```

A version is the instant that changed the schema, 0 for the one before the first change.  A file has
the schema of the newest version that is not after its instant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.filenames import SCHEMA_FOLDER
from pyhudi.formats.schema_conform import with_children
from pyhudi.records import META_COLUMNS

LATEST_SCHEMA: Final = "latest_schema"
"""The entry of a commit's extra metadata."""

JsonType: TypeAlias = Any
"""The type of a field, as the JSON states it."""


@dataclass(frozen=True, slots=True)
class ColumnHistory:
    """latest: the schema of the rows to return, all: every schema; both JSON.  Can be pickled."""

    latest: str
    all: str

    def stored(self, instant: str) -> StoredNames | None:
        """The names in files of an instant; None if they are those of `latest`."""
        return _stored(self, _version(self, instant))

    @property
    def moved(self) -> frozenset[str]:
        """Columns of `latest` that have another name, or contain one, in files of some version.

        Statistics and indexes state names of columns, so they do not apply to these.
        """
        return _moved(self)

    def is_current(self, instant: str) -> bool:
        """Whether files of an instant have the newest schema."""
        return _version(self, instant) == _versions(self.all)[-1][0]


@dataclass(frozen=True, slots=True)
class NextHistory:
    """The history after a write.  before: the one before it, or the schema that the table had
    before its first internal schema.  fields: of the columns after the write."""

    before: ColumnHistory
    fields: JsonType
    max_id: int

    def at(self, instant: str) -> ColumnHistory:
        """The history after the write of an instant; the same one if no column has changed."""
        if _parsed(self.before.latest)["fields"] == self.fields:
            return self.before
        latest = _schema_text(int(instant), self.max_id, self.fields)
        older = self.before.all.removeprefix(_ALL_OPENED).removesuffix(_ALL_CLOSED)
        return ColumnHistory(latest, f"{_ALL_OPENED}{latest},{older}{_ALL_CLOSED}")


_ALL_OPENED: Final = '{"schemas":['
_ALL_CLOSED: Final = "]}"


def next_history(
    known: ColumnHistory | None,
    before: str,
    after: str,
    moves: Sequence[tuple[str, str | None]],
) -> NextHistory | None:
    """The history after a write; None for a table without one of which no column moves.

    before, after: the schemas as Avro JSON.  moves: columns that are renamed, or dropped (None), in
    order.  Raises UnsupportedTableError for a type that internal schemas cannot express.
    """
    if known is None:
        if not moves:
            return None
        first = _Ids(-1)
        fields = first.fields(json.loads(before)["fields"], [])
        text = _schema_text(0, first.newest, fields)
        known = ColumnHistory(text, f"{_ALL_OPENED}{text}{_ALL_CLOSED}")
    schemas = [schema for _, schema in _versions(known.all)]
    ids = _Ids(max(int(schema["max_column_id"]) for schema in schemas))
    fields = list(_parsed(known.latest)["fields"])
    for name, new in moves:
        if new is None:
            fields = [field for field in fields if field["name"] != name]
        else:
            fields = [f | {"name": new} if f["name"] == name else f for f in fields]
    meta = [field for field in fields if field["name"] in META_COLUMNS]
    named = [field for field in json.loads(after)["fields"] if field["name"] not in META_COLUMNS]
    found = [*meta, *ids.fields(named, fields)]
    return NextHistory(known, found, ids.newest)


class _Ids:
    """Numbers the columns of Avro schemas.  newest: the last number that is in use."""

    def __init__(self, newest: int) -> None:
        self.newest = newest

    def fields(self, named: Sequence[JsonType], known: Sequence[JsonType]) -> list[JsonType]:
        """Fields with the ids of known ones of their names, and new ids."""
        by_name = {field["name"]: field for field in known}
        found: list[JsonType] = []
        for field in named:
            same = by_name.get(field["name"])
            found.append({"id": self._next() if same is None else same["id"]})
        for field, entry in zip(named, found, strict=True):
            same = by_name.get(field["name"], {})
            kind, optional = _unwrapped(field["type"])
            entry |= {"name": field["name"], "optional": optional}
            entry["type"] = self._type(kind, same.get("type"), field["name"])
            if field.get("doc") is not None:
                entry["doc"] = field["doc"]
        return found

    def _next(self) -> int:
        self.newest += 1
        return self.newest

    def _type(self, kind: JsonType, known: JsonType, name: str) -> JsonType:
        if not isinstance(kind, dict) or kind["type"] not in ("record", "array", "map"):
            return _primitive(kind, name)
        same = known if isinstance(known, dict) and known["type"] == kind["type"] else {}
        if kind["type"] == "record":
            return {"type": "record", "fields": self.fields(kind["fields"], same.get("fields", []))}
        if kind["type"] == "array":
            element_id = same["element_id"] if same else self._next()
            items, optional = _unwrapped(kind["items"])
            element = self._type(items, same.get("element"), name)
            return {
                "type": "array", "element_id": element_id, "element": element,
                "element_optional": optional,
            }  # fmt: skip
        key_id = same["key_id"] if same else self._next()
        value_id = same["value_id"] if same else self._next()
        values, optional = _unwrapped(kind["values"])
        value = self._type(values, same.get("value"), name)
        return {
            "type": "map", "key_id": key_id, "key": "string", "value_id": value_id, "value": value,
            "value_optional": optional,
        }  # fmt: skip


_PRIMITIVES: Final = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double",
    "string": "string", "bytes": "binary", "date": "date", "timestamp-micros": "timestamp",
}  # fmt: skip
"""Types of Avro, and logical ones, with the names that internal schemas have for them."""


def _unwrapped(kind: JsonType) -> tuple[JsonType, bool]:
    """A type without null, and whether it was optional."""
    if not isinstance(kind, list):
        return kind, False
    others = [one for one in kind if one != "null"]
    return others[0] if len(others) == 1 else kind, "null" in kind


def _primitive(kind: JsonType, name: str) -> str:
    if isinstance(kind, dict) and kind.get("logicalType") == "decimal":
        return f"decimal({kind['precision']}, {kind.get('scale', 0)})"
    stated = kind.get("logicalType", kind["type"]) if isinstance(kind, dict) else kind
    found = _PRIMITIVES.get(stated) if isinstance(stated, str) else None
    if found is None:
        raise UnsupportedTableError(
            "columns of a table with a column of this type cannot be renamed or dropped",
            column=name,
            type=json.dumps(kind),
            hint="the internal schema of Apache Hudi has no name for the type",
        )
    return found


def _schema_text(version: int, max_id: int, fields: JsonType) -> str:
    schema = {"max_column_id": max_id, "version_id": version, "type": "record", "fields": fields}
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


class StoredNames:
    """The names of columns in files of one version.  Columns that neither schema knows, such as
    those that a writer without internal schemas added, keep their names."""

    def __init__(self, stored: JsonType, latest: JsonType) -> None:
        self._old = {str(field["name"]): field for field in stored["fields"]}
        self._by_id = {field["id"]: field for field in stored["fields"]}
        self._new = {str(field["name"]): field for field in latest["fields"]}

    def name_of(self, column: str) -> str | None:
        """The name of a column in these files; None if they lack it."""
        return _stored_name(column, self._new, self._old, self._by_id)

    def moves(self, column: str) -> bool:
        """Whether the column, or a field in it, has another name in these files."""
        if self.name_of(column) != column:
            return True
        old, new = self._old.get(column), self._new.get(column)
        return old is not None and new is not None and _moves(old["type"], new["type"])

    def names_of(self, columns: Sequence[str]) -> list[str]:
        """The names of some columns in these files, without those that they lack."""
        return [name for name in map(self.name_of, columns) if name is not None]

    def renamed(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Rows of these files with the present names, without columns that the rows lack."""
        found = {}
        for column in columns:
            name = self.name_of(column)
            if name is None or name not in rows.column_names:
                continue
            values = rows.column(name)
            old, new = self._old.get(name), self._new.get(column)
            if old is not None and new is not None and _moves(old["type"], new["type"]):
                chunks = [_renamed(chunk, old["type"], new["type"]) for chunk in values.chunks]
                kind = _renamed(pa.nulls(0, values.type), old["type"], new["type"]).type
                values = pa.chunked_array(chunks, kind)
            found[column] = values
        if not found:
            return rows.select([])
        return pa.table(found)


@lru_cache(256)
def _stored(history: ColumnHistory, version: int) -> StoredNames | None:
    stored, latest = dict(_versions(history.all))[version], _parsed(history.latest)
    names = StoredNames(stored, latest)
    columns = [str(field["name"]) for field in (*stored["fields"], *latest["fields"])]
    return names if any(map(names.moves, columns)) else None


@lru_cache(64)
def _moved(history: ColumnHistory) -> frozenset[str]:
    columns = [str(field["name"]) for field in _parsed(history.latest)["fields"]]
    found = [n for version, _ in _versions(history.all) if (n := _stored(history, version))]
    return frozenset(c for c in columns if any(names.moves(c) for names in found))


def _version(history: ColumnHistory, instant: str) -> int:
    """The version of files of an instant."""
    versions = [version for version, _ in _versions(history.all)]
    return max((v for v in versions if v <= int(instant or 0)), default=versions[0])


@lru_cache(64)
def _versions(text: str) -> tuple[tuple[int, JsonType], ...]:
    """Every version with its schema, oldest first."""
    try:
        found = {int(schema["version_id"]): schema for schema in json.loads(text)["schemas"]}
        for schema in found.values():
            StoredNames(schema, schema).names_of(())
    except (ValueError, KeyError, TypeError, RecursionError) as broken:
        raise _corrupt(text, broken) from broken
    if not found:
        raise _corrupt(text, "no schemas")
    return tuple(sorted(found.items()))


@lru_cache(64)
def _parsed(text: str) -> JsonType:
    try:
        schema = json.loads(text)
        StoredNames(schema, schema).names_of(())
    except (ValueError, KeyError, TypeError, RecursionError) as broken:
        raise _corrupt(text, broken) from broken
    return schema


def _corrupt(text: str, reason: object) -> CorruptFileError:
    return CorruptFileError(
        "the history of the table's columns is unreadable",
        path=SCHEMA_FOLDER,
        reason=repr(reason),
        text=text[:60],
    )


def _stored_name(
    column: str,
    new: Mapping[str, JsonType],
    old: Mapping[str, JsonType],
    old_by_id: Mapping[int, JsonType],
) -> str | None:
    if column not in new:
        return None if column in old and column not in META_COLUMNS else column
    same = old_by_id.get(new[column]["id"])
    if same is not None:
        return str(same["name"])
    return None if column in old else column


def _inner(kind: JsonType) -> list[JsonType]:
    """The types in an array or a map."""
    if kind["type"] == "array":
        return [kind["element"]]
    return [kind["key"], kind["value"]]


def _moves(old: JsonType, new: JsonType) -> bool:
    """Whether fields in a type have other names in the older one."""
    if not isinstance(old, dict) or not isinstance(new, dict) or old["type"] != new["type"]:
        return False
    if new["type"] == "record":
        names = StoredNames(old, new)
        return any(names.moves(str(field["name"])) for field in new["fields"])
    return any(_moves(a, b) for a, b in zip(_inner(old), _inner(new), strict=True))


def _renamed(array: pa.Array, old: JsonType, new: JsonType) -> pa.Array:
    """Values with the names of the newer type, without fields that it lacks."""
    kind = array.type
    if not _moves(old, new):
        return array
    if pt.is_struct(kind):
        before = {str(field["name"]): field for field in old["fields"]}
        by_id = {field["id"]: field for field in old["fields"]}
        after = {str(field["name"]): field for field in new["fields"]}
        children, fields = [], []
        for name, field in after.items():
            stored = _stored_name(name, after, before, by_id)
            if stored is None or (at := kind.get_field_index(stored)) < 0:
                continue
            values = array.field(at)
            if stored in before:
                values = _renamed(values, before[stored]["type"], field["type"])
            children.append(values)
            fields.append(pa.field(name, values.type, kind.field(at).nullable))
        mask = array.is_null() if array.null_count else None
        if not fields:
            return pa.array([{}] * len(array), pa.struct([]), mask=mask)
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pt.is_list(kind):
        values = _renamed(array.values, old["element"], new["element"])
        return with_children(array, pa.list_(kind.value_field.with_type(values.type)), [values])
    keys = _renamed(array.keys, old["key"], new["key"])
    items = _renamed(array.items, old["value"], new["value"])
    target = pa.map_(keys.type, kind.item_field.with_type(items.type))
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[target.key_field, target.item_field]
    )
    return with_children(array, target, [entries])
