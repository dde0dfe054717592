"""CREATE, DROP, ALTER and TRUNCATE TABLE, and statements about indexes, as calls of the API.

A table is created at the path that its name stands for: a child of the connected folder, an entry
of the call's tables, hudi.`path`, or LOCATION.  Only files of the table itself are ever deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from pyhudi.api.found_rows import alter_columns
from pyhudi.api.table import Table
from pyhudi.arrays import exact_cast
from pyhudi.errors import OptionError, SchemaError, TableNotFoundError, UserError
from pyhudi.filenames import PARTITION_METAFILE
from pyhudi.formats.avro_schema import COMMENT
from pyhudi.keygen.generators import partition_paths
from pyhudi.metadata.definitions import read_definitions
from pyhudi.metadata.payloads import EXPRESSION_PREFIX, RECORD_INDEX, SECONDARY_PREFIX
from pyhudi.near_names import near_names
from pyhudi.operations.create import add_partitions
from pyhudi.operations.drop_table import DropReport, drop_table
from pyhudi.operations.table_properties import PropertyChanges, rename_folder, set_properties
from pyhudi.options.option_row import Fate
from pyhudi.options.registry import BY_NAME
from pyhudi.records import without_meta
from pyhudi.reports import Report
from pyhudi.sql.engine import QueryEngine
from pyhudi.sql.procedures import empty_table
from pyhudi.sql.relations import Binder
from pyhudi.sql.statements import (
    AddColumns,
    AddPartitions,
    ChangeColumn,
    Column,
    CreateIndex,
    CreateTable,
    Definition,
    DropIndex,
    DropPartitions,
    DropTable,
    MoveColumns,
    Name,
    PartitionSpec,
    RefreshIndex,
    RenameTable,
    SetProperties,
    Truncate,
)
from pyhudi.sql.trees import alike, as_column, as_select, column_named
from pyhudi.storage.url_resolver import locate
from pyhudi.write.schema_changes import AddedColumn, ChangedColumn, MovedColumn

_PROPERTIES: Final = {
    "type": "hoodie.datasource.write.table.type",
    "primarykey": "hoodie.datasource.write.recordkey.field",
    "precombinefield": "hoodie.table.ordering.fields",
    "orderingfields": "hoodie.table.ordering.fields",
    "payloadclass": "hoodie.datasource.write.payload.class",
    "recordmergemode": "hoodie.record.merge.mode",
    "recordmergestrategyid": "hoodie.record.merge.strategy.id",
}
"""Names of TBLPROPERTIES, in lower case, that stand for an option."""
_KEY: Final = "hoodie.datasource.write.recordkey.field"
_ORDERING: Final = "hoodie.table.ordering.fields"
_TYPE: Final = "hoodie.datasource.write.table.type"
_PARTITIONS: Final = "hoodie.datasource.write.partitionpath.field"
_NAME: Final = "hoodie.table.name"
_HIVE_STYLE: Final = "hoodie.datasource.write.hive_style_partitioning"
_STORED: Final = (
    "table.", "keygen.", "request.key_generator", "read.merging.", "write.facts.",
    "write.bucket_count", "write.partition_groups.", "write.keep_", "write.index_rules.bucket_",
    "write.index_rules.growth", "write.index_rules.hash",
)  # fmt: skip
"""Settings that a new table keeps in its properties, files or indexes; `write.index` is one."""


@dataclass(frozen=True, slots=True)
class TableCreation(Report):
    """Result of CREATE TABLE.  created: False if IF NOT EXISTS found a table.  inserted: rows of
    the query of CREATE TABLE AS SELECT."""

    name: str
    path: str
    table_type: str
    version: int
    created: bool = True
    inserted: int = 0
    notes: tuple[str, ...] = ()


def define(statement: Definition, binder: Binder, engine: QueryEngine) -> Any:
    """Run a statement that defines tables; returns its report, or rows."""
    match statement:
        case CreateTable():
            return _create(statement, binder, engine)
        case DropTable(target, if_exists):
            return _drop(target, binder, if_exists=if_exists)
        case Truncate(target, partition):
            return _truncate(_changeable(target, binder), partition, binder, engine)
        case CreateIndex() | DropIndex() | RefreshIndex():
            return _index(statement, binder.table(statement.target), engine)
        case RenameTable(target, new):
            return _rename(binder.table(target), target, new, binder)
        case SetProperties(target, changes, if_exists):
            return _set_properties(binder.table(target), changes, if_exists=if_exists)
        case AddPartitions(target, specs, if_not_exists):
            return _add_partitions(binder.table(target), specs, if_not_exists, binder, engine)
        case DropPartitions(target, specs, if_exists):
            table = binder.table(target)
            paths = existing(table, specs, binder, engine, if_exists=if_exists)
            return table.delete_partitions(paths) if paths else _rows(engine, partition=paths)
        case AddColumns(target, columns):
            added = [AddedColumn(c.path, c.type, c.after, c.comments) for c in columns]
            return alter_columns(_changeable(target, binder), tuple(added))
        case ChangeColumn(target, path, kind, comment):
            change = ChangedColumn(path, kind, comment)
            return alter_columns(_changeable(target, binder), (change,))
        case MoveColumns(target, paths, name, if_exists):
            table = _changeable(target, binder)
            known = {column.lower() for column in without_meta(table.schema).names}
            moved = [p for p in paths if not if_exists or p[0].lower() in known]
            if not moved:
                return _rows(engine, column=())
            report = alter_columns(table, tuple(MovedColumn(path, name) for path in moved))
            notes = _OLDER_FILES if table._options.catalog.inline else f"{_ENTRIES}; {_OLDER_FILES}"
            return replace(report, notes=(*report.notes, notes))


_ENTRIES: Final = "entries in catalogs have the former columns until table.sync()"
_OLDER_FILES: Final = "readers by names of columns find nulls in files older than this commit"
"""What a rename or drop leaves to others."""


def _changeable(target: Name, binder: Binder) -> Table:
    """The table.  Raises the error of one without record keys before anything begins."""
    table = binder.table(target)
    table.key_rule()
    return table


# ---- CREATE TABLE -------------------------------------------------------------------------------


def _create(statement: CreateTable, binder: Binder, engine: QueryEngine) -> TableCreation:
    path, existing = binder.names.place(statement.target, statement.location)
    if existing is not None:
        if not statement.if_not_exists:
            raise UserError(
                "a table with this name already exists",
                table=str(statement.target),
                path=existing.path,
                hint="CREATE TABLE IF NOT EXISTS leaves it as it is",
            )
        return _found(existing, statement)
    if statement.query is None:
        return _created(_made(statement, path, _schema(statement.columns), engine))
    tree = as_select(statement.query)
    stated = [name.lower() for name in tree.named_selects if name != "*"]
    if twice := sorted({name for name in stated if name and stated.count(name) > 1}):
        raise SchemaError("a column is defined twice", columns=", ".join(twice))
    query = binder.bound(tree)
    schema = engine.schema(query)
    table = _made(statement, path, schema, engine)
    columns = without_meta(table.schema)
    ordered = exp.Subquery(this=query.tree.copy(), alias=exp.TableAlias(this=_identifier("q")))
    columns_of = [as_column(exp.column(_identifier(n), table="q"), n) for n in columns.names]
    rows = replace(query, tree=exp.select(*columns_of).from_(ordered))
    finished = False
    try:
        report = table.bulk_insert(engine.rows(rows, columns))
        finished = True
    finally:  # a table without the rows of its query would look complete
        if not finished:
            drop_table(table._fs, table._options)
    return _created(table, inserted=report.inserted)


def _identifier(name: str) -> Any:
    return exp.to_identifier(name, quoted=True)


def _created(table: Table, *, inserted: int = 0) -> TableCreation:
    config = table.config
    return TableCreation(
        config.name, table.path, config.table_type.value, config.version, inserted=inserted
    )


def _found(table: Table, statement: CreateTable) -> TableCreation:
    """The report on a table that exists, with a note if its columns are others."""
    notes = []
    if statement.query is None:
        stated = {c.path[0].lower() for c in statement.columns}
        stored = {name.lower() for name in without_meta(table.schema).names}
        if stated != stored:
            notes.append(f"the table has other columns: {', '.join(sorted(stated ^ stored))}")
    return replace(_created(table), created=False, notes=tuple(notes))


def _schema(columns: Sequence[Column]) -> pa.Schema:
    names = [column.path[0].lower() for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError("a column is defined twice", columns=", ".join(twice))
    return pa.schema([commented(column) for column in columns])


def commented(column: Column) -> pa.Field:
    """A column as an Arrow field, whose metadata have the comments."""
    name = column.path[-1]
    return _with_comments(pa.field(name, column.type), ".".join(column.path), column.comments)


def _with_comments(found: pa.Field, path: str, comments: Mapping[str, str]) -> pa.Field:
    kind = found.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_comments(f, f"{path}.{f.name}", comments) for f in kind])
    elif pa.types.is_list(kind):
        inner = _with_comments(kind.value_field, f"{path}.element", comments)
        kind = pa.list_(inner)
    elif pa.types.is_map(kind):
        inner = _with_comments(pa.field("value", kind.item_type), f"{path}.value", comments)
        kind = pa.map_(kind.key_type, inner.type)
    text = comments.get(path)
    metadata = None if text is None else {COMMENT: text}
    return pa.field(found.name, kind, found.nullable, metadata)


def _made(statement: CreateTable, path: str, schema: pa.Schema, engine: QueryEngine) -> Table:
    """The new, empty table."""
    options, own = _divided(statement)
    keys = [_resolved(name, schema) for name in _listed(options.pop(_KEY, ""))]
    if not keys:
        raise UserError(
            "a table needs a record key",
            table=str(statement.target),
            hint="TBLPROPERTIES (primaryKey = 'id'); tables without one are not supported",
        )
    partition_by = [column_named(name, schema) for name in statement.partition_by]
    stated = [_resolved(name, schema) for name in _listed(options.pop(_PARTITIONS, ""))]
    if stated and stated != partition_by:
        raise OptionError(
            "the option conflicts with PARTITIONED BY",
            option=_PARTITIONS,
            value=",".join(stated),
            partitioned_by=",".join(partition_by) or None,
        )
    for column in statement.columns:
        if column.is_required and column.path[0] not in keys:
            raise SchemaError(
                "a column that is not a record key cannot be NOT NULL",
                column=column.path[0],
                hint="columns of tables are nullable",
            )
    ordering = [_resolved(name, schema) for name in _listed(options.pop(_ORDERING, ""))]
    last = dict.fromkeys(partition_by)
    fields = [f for f in schema if f.name not in last] + [schema.field(name) for name in last]
    if partition_by:
        options.setdefault(_HIVE_STYLE, "true")  # as Apache Hudi's SQL creates tables
    table = engine.create(
        path,
        pa.schema(fields),
        record_key=keys,
        partition_by=partition_by,
        ordering=ordering,
        table_type=options.pop(_TYPE, "cow"),
        name=options.pop(_NAME, None) or _name(statement.target, path),
        options=options,
    )
    if statement.comment:
        own["comment"] = statement.comment
    if own:
        set_properties(table._fs, table._options, own)
    return table


def _name(target: Name, path: str) -> str:
    """The name of a new table."""
    last = target.parts[-1]
    return last.rstrip("/").rsplit("/", 1)[-1] if "/" in last else last


def _resolved(name: str, schema: pa.Schema) -> str:
    """A column regardless of case; another name, such as a field of a struct, as it is."""
    return alike(name, schema.names) or name


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _divided(statement: CreateTable) -> tuple[dict[str, str], dict[str, str]]:
    """(options of the new table by their first name, properties of the user).

    Raises OptionError for unknown options, and for those that writes have and tables do not store.
    """
    options: dict[str, str] = {}
    own: dict[str, str] = {}
    for given, value in statement.properties.items():
        name = _PROPERTIES.get(given.lower(), given)
        if name == given and not name.startswith(("hoodie.", "pyhudi.")):
            near = near_names(name, ("primaryKey", "orderingFields", "preCombineField"))
            if near:
                raise OptionError(
                    "unknown property of a table", property=given, hint=f"did you mean {near[0]}?"
                )
            own[given] = value
            continue
        name = _checked_option(name)
        if options.get(name, value) != value:
            raise OptionError("two properties conflict", option=name, values=value)
        options[name] = value
    return options, own


def _checked_option(name: str) -> str:
    """The first name of an option that a table stores, or that is rejected elsewhere."""
    row = BY_NAME.get(name)
    if row is None or row.fate not in (Fate.HONOURED, Fate.MAPPED):
        return name
    is_own = row.name in (_KEY, _ORDERING, _TYPE, _PARTITIONS, _NAME)
    stays = row.to is None or row.to == "write.index" or row.to.startswith(_STORED)
    if not is_own and not stays:
        raise OptionError(
            "the table does not store this option",
            option=name,
            hint="pass it in options= of the calls that write",
        )
    return row.name


# ---- DROP TABLE, TRUNCATE TABLE, partitions -----------------------------------------------------


def _drop(target: Name, binder: Binder, *, if_exists: bool) -> DropReport:
    try:
        table = binder.table(target)
    except TableNotFoundError:
        if if_exists:
            return DropReport(str(target), 0, 0)
        raise
    return drop_table(table._fs, table._options)


def _truncate(
    table: Table, partition: PartitionSpec | None, binder: Binder, engine: QueryEngine
) -> Any:
    """Empty the table, or one partition; earlier snapshots stay readable until they are cleaned."""
    if partition is None:
        return empty_table(table)
    return table.delete_partitions(existing(table, [partition], binder, engine))


def path_of(table: Table, spec: PartitionSpec, binder: Binder, engine: QueryEngine) -> str:
    """The partition path of PARTITION (...).  Raises UserError unless all partition columns have
    a value, which fits."""
    schema, fields = without_meta(table.schema), table.config.partition_fields
    if not fields:
        raise UserError("the table has no partitions", path=table.path)
    values = {column_named(name, schema): value for name, value in spec.items()}
    others = [name for name in fields if values.get(name) is None]
    others += [name for name in values if name not in fields]
    if others:
        raise UserError(
            "PARTITION needs a value for each partition column, and no other column",
            columns=", ".join(others),
            partition_columns=", ".join(fields),
        )
    columns = pa.schema([schema.field(name) for name in fields])
    tree = exp.select(*(as_column(values[name], name) for name in fields))
    found = engine.collected(binder.bound(tree))
    return str(partition_paths(fitted(found, columns), table.key_rule())[0].as_py())


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the types of a schema.  Raises UserError for values that do not fit."""
    try:
        columns = [exact_cast(rows.column(field.name), field.type) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)
    except pa.ArrowException as error:
        raise UserError(
            "a value does not fit its column", columns=", ".join(schema.names), reason=str(error)
        ) from None


def existing(
    table: Table,
    specs: Sequence[PartitionSpec],
    binder: Binder,
    engine: QueryEngine,
    *,
    if_exists: bool = False,
) -> list[str]:
    """The paths of partitions that the table has.  Raises UserError for other ones, unless
    if_exists."""
    known, found = set(table.partitions()), []
    for spec in specs:
        path = path_of(table, spec, binder, engine)
        if "*" in path:
            raise UserError(
                "a partition with * in its name cannot be named here",
                partition=path,
                hint="delete its rows: DELETE FROM t WHERE ...",
            )
        if path in known:
            found.append(path)
        elif not if_exists:
            raise UserError(
                "the table has no such partition",
                partition=path,
                hint="SHOW PARTITIONS lists them; IF EXISTS ignores it",
            )
    return found


def _rows(engine: QueryEngine, **columns: Sequence[str]) -> Any:
    """Texts as rows, the result of statements that have no report."""
    named = {name: pa.array(texts, pa.string()) for name, texts in columns.items()}
    return engine.answer(pa.table(named))


def _add_partitions(
    table: Table,
    specs: Sequence[PartitionSpec],
    if_not_exists: bool,
    binder: Binder,
    engine: QueryEngine,
) -> Any:
    """The new partitions as rows."""
    paths = [path_of(table, spec, binder, engine) for spec in specs]
    known, fs = set(table.partitions()), table._fs
    there = [p for p in paths if p in known or fs.exists(f"{p}/{PARTITION_METAFILE}")]
    if there and not if_not_exists:
        raise UserError(
            "the partition already exists",
            partition=there[0],
            hint="ADD IF NOT EXISTS leaves it as it is",
        )
    added = add_partitions(fs, table._options, [p for p in paths if p not in there])
    return _rows(engine, partition=added)


# ---- ALTER TABLE --------------------------------------------------------------------------------


def _set_properties(
    table: Table, changes: Mapping[str, str | None], *, if_exists: bool
) -> PropertyChanges:
    known = table.config.properties
    absent = [name for name, value in changes.items() if value is None and name not in known]
    if absent and not if_exists:
        raise UserError(
            "the table has no such property",
            property=absent[0],
            hint="UNSET TBLPROPERTIES IF EXISTS ignores it",
        )
    return set_properties(table._fs, table._options, changes)


def _rename(table: Table, target: Name, new: Name, binder: Binder) -> TableCreation:
    """A table in the connected folder gets another folder."""
    names = binder.names
    if names.folder is None or table.path != names.folder_of(target):
        raise UserError(
            "only tables in a connected folder are renamed",
            table=str(target),
            path=table.path,
            hint="ALTER TABLE t SET TBLPROPERTIES ('hoodie.table.name' = '...') sets the name",
        )
    path, existing_ = names.place(new, None)
    if existing_ is not None:
        raise UserError(
            "a table with this name already exists", table=str(new), path=existing_.path
        )
    store = locate(path, storage_options=names.storage_options)
    rename_folder(table._fs, table._options, new.parts[-1], store)
    return _created(names.open(path))


# ---- indexes ------------------------------------------------------------------------------------


def _index(
    statement: CreateIndex | DropIndex | RefreshIndex, table: Table, engine: QueryEngine
) -> Any:
    known = {str(name) for name in table.index.list()["name"].to_pylist()}
    listed = {name.lower() for name in known}
    partition = next((n for n in _partitions_of(statement.name) if n in listed), None)
    match statement:
        case CreateIndex():
            if partition is not None:
                if statement.if_not_exists:
                    return _rows(engine, index=[partition])
                raise UserError(
                    "an index with this name already exists",
                    index=statement.name,
                    hint="CREATE INDEX IF NOT EXISTS leaves it as it is",
                )
            return _create_index(statement, table)
        case DropIndex(name, _, if_exists):
            if partition is None and if_exists:
                return _rows(engine, index=())
            return _rows(engine, index=[table.index.drop(partition or name)])
    if partition is None:
        raise UserError(
            "the table has no such index",
            index=statement.name,
            hint=f"it has {', '.join(sorted(known)) or 'none'}",
        )
    return _refresh_index(table, partition)


def _partitions_of(name: str) -> tuple[str, ...]:
    """The metadata partitions that an index of this name may be, in lower case."""
    lower = name.lower()
    return (lower, f"{SECONDARY_PREFIX}{lower}", f"{EXPRESSION_PREFIX}{lower}")


def _create_index(statement: CreateIndex, table: Table) -> Any:
    """An index by the kind that USING, or the name and the columns, state."""
    schema = without_meta(table.schema)
    columns = [_resolved(name, schema) for name in statement.columns]
    options = {key: value for key, value in statement.options.items() if key != "expr"}
    is_key = set(columns) == set(table.config.record_key_fields)
    kind = statement.using or ("record_index" if is_key else "secondary_index")
    if kind in ("column_stats", "bloom_filters"):
        expression = statement.options.get("expr", "identity")
        return table.index.create(
            "expression",
            columns,
            name=statement.name,
            using=kind,
            expression=expression,
            options=options,
        )
    if statement.options:
        raise UserError(
            "an index of this kind has no options",
            using=kind,
            options=", ".join(statement.options),
        )
    if kind == "record_index":
        if not is_key:
            raise UserError(
                "a record index is of the record key",
                columns=", ".join(columns),
                record_key=", ".join(table.config.record_key_fields),
            )
        return table.index.create("record")
    if kind == "secondary_index":
        return table.index.create("secondary", columns, name=statement.name)
    raise UserError(
        "no index of this kind can be created",
        using=kind,
        hint="record_index, secondary_index, column_stats or bloom_filters",
    )


def _refresh_index(table: Table, partition: str) -> Any:
    """Build an index again.  Cost: as its creation."""
    if partition == RECORD_INDEX.path:
        return table.index.rebuild()
    state = table._state()
    found = read_definitions(state.fs, state.config).get(partition)
    if found is None or not partition.startswith((SECONDARY_PREFIX, EXPRESSION_PREFIX)):
        raise UserError(
            "an index of this kind is not refreshed",
            index=partition,
            hint="pyhudi metadata rebuild builds the metadata table again",
        )
    columns = [str(name) for name in found["sourceFields"]]
    is_secondary = partition.startswith(SECONDARY_PREFIX)
    name = partition.removeprefix(SECONDARY_PREFIX).removeprefix(EXPRESSION_PREFIX)
    table.index.drop(partition)
    if is_secondary:
        return table.index.create("secondary", columns, name=name)
    options = {key: value for key, value in found["indexOptions"].items() if key != "expr"}
    return table.index.create(
        "expression",
        columns,
        name=name,
        using=str(found["indexType"]).lower(),
        expression=str(found["indexFunction"]),
        options=options,
    )


__all__ = ["TableCreation", "define"]
