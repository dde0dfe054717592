"""SHOW and DESCRIBE: what a table is, as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.formats.avro_schema import docs_of
from pyhudi.near_names import near_names
from pyhudi.options import DEFAULT_TABLE_VERSION
from pyhudi.read.table_schema import schema_text
from pyhudi.records import without_meta
from pyhudi.sql.statements import Topic
from pyhudi.sync.column_types import hive_type
from pyhudi.table.commit_facts import completed_commits
from pyhudi.table.properties import TableConfig


def describe(topic: Topic, table: Table, key: str | None = None) -> pa.Table:
    """The rows of a topic.  key: of a property, for SHOW TBLPROPERTIES."""
    if topic is Topic.PROPERTIES:
        return _properties(table, key)
    return _TOPICS[topic](table)


def listed(names: list[str]) -> pa.Table:
    """The rows of SHOW TABLES."""
    return pa.table(
        {
            "namespace": pa.array([""] * len(names), pa.string()),
            "tableName": pa.array(names, pa.string()),
            "isTemporary": pa.array([False] * len(names), pa.bool_()),
        }
    )


def _types(table: Table) -> dict[str, str]:
    schema = without_meta(table.schema)
    return {field.name: _type(field.type) for field in schema}


def _type(kind: pa.DataType) -> str:
    """The name of a type in Spark SQL: as in Hive, but names of fields keep their case, and a
    timestamp without a zone is a type of its own."""
    if pt.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pt.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_type(field.type)}' for field in kind)}>"
    if pt.is_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pt.is_map(kind):
        return f"map<{_type(kind.key_type)},{_type(kind.item_type)}>"
    return hive_type(kind, timestamps=True)


def column_comments(table: Table) -> dict[str, str]:
    """The comments of the table's columns and fields, by dotted path."""
    state = table._state()
    text = schema_text(state.log, state.timeline, state.archive, state.config)
    return {} if text is None else docs_of(text)


def _texts(columns: Mapping[str, list[str | None]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _columns(table: Table, more: Mapping[str, str] | None = None) -> pa.Table:
    """Columns with their types, the partition columns again, and further facts."""
    types, comments = _types(table), column_comments(table)
    rows = [(name, kind, comments.get(name)) for name, kind in types.items()]
    partitions = [name for name in table.config.partition_fields if name in types]
    if partitions:
        rows += [("# Partition Information", "", None), ("# col_name", "data_type", "comment")]
        rows += [(name, types[name], comments.get(name)) for name in partitions]
    rows += [(name, value, None) for name, value in (more or {}).items()]
    names, kinds, texts = zip(*rows, strict=True)
    return _texts({"col_name": [*names], "data_type": [*kinds], "comment": [*texts]})


def _extended(table: Table) -> pa.Table:
    config = table.config
    facts = {
        "": "",
        "# Detailed Table Information": "",
        "Name": config.name,
        "Type": config.table_type.value,
        "Provider": "hudi",
        "Location": table.path,
        "Version": str(config.version),
        "Record key": ",".join(config.record_key_fields),
        "Ordering fields": ",".join(config.ordering_fields),
    }
    return _columns(table, facts)


def _history(table: Table) -> pa.Table:
    """Completed commits of the active timeline, newest first."""
    return pa.Table.from_pylist(
        [commit.to_dict() for commit in completed_commits(table._fs)[::-1]], _HISTORY
    )


_HISTORY: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("instant", "action", "operation", "completed_at")),
        *((name, pa.int64()) for name in (
            "partitions", "files", "rows", "inserted", "updated", "deleted", "bytes_written",
            "replaced_file_groups")),
    ]
)  # fmt: skip


def _properties(table: Table, key: str | None) -> pa.Table:
    known = dict(sorted(table.config.properties.items()))
    if key is not None:
        if key not in known:
            near = near_names(key, known)
            raise UserError(
                "the table has no such property",
                property=key,
                hint=f"did you mean {near[0]}?" if near else "SHOW TBLPROPERTIES lists them",
            )
        known = {key: known[key]}
    return _texts({"key": list(known), "value": list(known.values())})


def _partitions(table: Table) -> pa.Table:
    if not table.config.partition_fields:
        raise UserError("the table has no partitions", path=table.path)
    return _texts({"partition": list(table.partitions())})


def _creation(table: Table) -> pa.Table:
    """A statement that describes the table: columns, partitions, keys and place."""
    config = table.config
    comments = column_comments(table)
    columns = ",\n".join(
        f"  {_quoted(name)} {kind}"
        + (f" COMMENT {_text(comments[name])}" if name in comments else "")
        for name, kind in _types(table).items()
    )
    properties = {
        "type": "mor" if config.is_merge_on_read else "cow",
        "primaryKey": ",".join(config.record_key_fields),
        "orderingFields": ",".join(config.ordering_fields),
        **_further(config),
    }
    listed_ = ",\n".join(
        f"  {name if name.isidentifier() else _text(name)} = {_text(value)}"
        for name, value in properties.items()
        if value
    )
    parts = [f"CREATE TABLE {_quoted(config.name)} (\n{columns})", "USING hudi"]
    if config.partition_fields:
        parts.append(f"PARTITIONED BY ({', '.join(map(_quoted, config.partition_fields))})")
    if comment := config.properties.get("comment"):
        parts.append(f"COMMENT {_text(comment)}")
    parts += [f"LOCATION {_text(table.path)}", f"TBLPROPERTIES (\n{listed_})"]
    return _texts({"createtab_stmt": ["\n".join(parts)]})


def _further(config: TableConfig) -> dict[str, str]:
    """Properties that differ from those of a table that CREATE TABLE makes without them."""
    known = config.properties
    found = {
        name: value
        for name, value in sorted(known.items())
        if name.startswith(("hoodie.keygen.", "hoodie.index.", "hoodie.bucket.index."))
        or not name.startswith(("hoodie.", "pyhudi.", "comment"))
    }
    if any(name.startswith("hoodie.keygen.") for name in found):
        names = ("hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class")
        found |= {name: known[name] for name in names if name in known}
    plain = {
        "hoodie.table.version": str(DEFAULT_TABLE_VERSION),
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.cdc.supplemental.logging.mode": "",
    }
    if config.partition_fields:
        plain["hoodie.datasource.write.hive_style_partitioning"] = "true"
    return found | {n: known[n] for n, value in plain.items() if known.get(n, value) != value}


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _indexes(table: Table) -> pa.Table:
    return table.index.list()


_TOPICS: Final[Mapping[Topic, Callable[[Table], Any]]] = {
    Topic.COLUMNS: _columns,
    Topic.EXTENDED: _extended,
    Topic.HISTORY: _history,
    Topic.PARTITIONS: _partitions,
    Topic.CREATION: _creation,
    Topic.INDEXES: _indexes,
}
