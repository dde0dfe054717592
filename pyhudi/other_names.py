"""Names of Delta Lake, Iceberg, hudi-rs, pandas and Spark, and what is written for them here.

`unknown_name` is the AttributeError of objects of the API for a name that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyhudi.near_names import near_names

_OPEN: Final = "pyhudi.open_table(path)"
_EXISTS: Final = "pyhudi.open_table(path) raises TableNotFoundError where no table is"

TABLE: Final[Mapping[str, str]] = {
    "add_column": "table.upsert(rows, schema_mode='widen') adds the columns of the rows",
    "add_columns": "table.upsert(rows, schema_mode='widen') adds the columns of the rows",
    "alter": "table.upsert(rows, schema_mode='widen') adds the columns of the rows",
    "append": "table.insert(rows), or table.upsert(rows) by key",
    "as_of": "table.scan(as_of='2026-11-21')",
    "cleanup_metadata": "table.archive()",
    "collect": "table.to_arrow()",
    "columns": "table.schema.names",
    "create_checkpoint": "table.archive() shortens the timeline",
    "current_snapshot": "table.timeline.commits.last",
    "drop": "pyhudi.connect(folder).sql('drop table trips')",
    "drop_columns": "columns are not dropped; scan(columns) leaves them out",
    "expire_snapshots": "table.clean()",
    "file_uris": "table.file_slices()",
    "files": "table.file_slices()",
    "filter": "table.scan(where=\"city = 'sf'\")",
    "get": "table.fetch(keys)",
    "get_file_slices": "table.file_slices()",
    "insert_into": "table.insert(rows)",
    "inspect": "table.timeline, table.file_slices(), table.partitions()",
    "load": "table.scan(as_of=instant); each call reads the current state",
    "load_as_version": "table.scan(as_of=instant); table.timeline lists instants",
    "load_cdf": "table.changes(since=instant)",
    "location": "table.path",
    "merge_into": "table.merge(rows)",
    "name": "table.config.name",
    "num_rows": "table.count()",
    "optimize": "table.cluster() rewrites files, table.compact() merges logs",
    "overwrite": "table.insert_overwrite_table(rows), or table.insert_overwrite(rows) by partition",
    "properties": "table.config",
    "query": "pyhudi.sql(text, tables={'trips': table})",
    "read": "table.to_arrow(), or table.scan(columns, where)",
    "read_snapshot": "table.to_arrow(), or table.scan(columns, where)",
    "rename_column": "columns are not renamed; write the rows to a new table",
    "rows": "table.to_arrow()",
    "select": "table.scan(columns=['id', 'fare'])",
    "show": "table.head(10)",
    "snapshot": "table.timeline.commits.last",
    "snapshots": "table.timeline.commits",
    "sql": "pyhudi.sql(text, tables={'trips': table})",
    "toDF": "table.scan()",
    "to_duckdb": "pyhudi.duckdb.attach(connection, tables)",
    "to_pyarrow_table": "table.to_arrow()",
    "to_pylist": "table.to_arrow().to_pylist()",
    "to_table": "table.to_arrow()",
    "to_csv": "pyarrow.csv.write_csv(table.to_arrow(), path)",
    "to_parquet": "pyarrow.parquet.write_table(table.to_arrow(), path)",
    "transaction": "each write is one; table.upsert(rows, publish=False) waits for table.publish()",
    "uri": "table.path",
    "update_schema": "table.upsert(rows, schema_mode='widen') adds the columns of the rows",
    "vacuum": "table.clean()",
    "version": "table.timeline.commits.last.time, or table.config.version of the format",
    "where": "table.scan(where=\"city = 'sf'\")",
    "write": "table.upsert(rows), table.insert(rows)",
}
SCAN: Final[Mapping[str, str]] = {
    "collect": "scan.to_arrow()",
    "fetchall": "scan.to_arrow().to_pylist()",
    "filter": "table.scan(where=\"city = 'sf'\")",
    "limit": "scan.head(10)",
    "num_rows": "scan.count()",
    "select": "table.scan(columns=['id', 'fare'])",
    "show": "scan.head(10)",
    "sort": "scan.to_arrow().sort_by('id')",
    "sort_by": "scan.to_arrow().sort_by('id')",
    "to_duckdb": "pyhudi.duckdb.attach(connection, tables)",
    "to_pylist": "scan.to_arrow().to_pylist()",
    "to_table": "scan.to_arrow()",
    "where": "table.scan(where=\"city = 'sf'\")",
}
MERGE: Final[Mapping[str, str]] = {
    "when_matched_update_all": "when_matched_update() without arguments updates all columns",
    "when_not_matched_insert_all": "when_not_matched_insert() without arguments inserts whole rows",
}
SPARK: Final[Mapping[str, str]] = {
    "DeltaTable": "hudi.open_table(spark, path)",
    "load": "hudi.read(spark, path)",
    "merge": "hudi.open_table(spark, path).merge(df)",
    "write": "hudi.upsert(df, path, record_key=...)",
}
PACKAGE: Final[Mapping[str, str]] = {
    "Catalog": "pyhudi.open_table('hive://host:9083/db.table')",
    "DeltaTable": _OPEN,
    "HudiTable": _OPEN,
    "HudiTableBuilder": _OPEN,
    "append": "pyhudi.open_table(path).insert(rows)",
    "create": "pyhudi.create_table(path, schema, record_key=...)",
    "delete": "pyhudi.open_table(path).delete(keys=...)",
    "drop_table": "pyhudi.connect(folder).sql('drop table trips')",
    "exists": _EXISTS,
    "insert": "pyhudi.open_table(path).insert(rows)",
    "is_table": _EXISTS,
    "load_catalog": "pyhudi.open_table('hive://host:9083/db.table')",
    "load_table": _OPEN,
    "open": _OPEN,
    "query": "pyhudi.duckdb.sql(text)",
    "read_parquet": "pyhudi.read(path)",
    "read_table": "pyhudi.read(path)",
    "scan": "pyhudi.read(path, columns, where)",
    "table_exists": _EXISTS,
    "write_deltalake": "pyhudi.upsert(path, rows, record_key=...)",
    "write_hudi": "pyhudi.upsert(path, rows, record_key=...)",
    "write_table": "pyhudi.upsert(path, rows, record_key=...)",
}


def unknown_name(
    owner: str, name: str, known: Iterable[str], others: Mapping[str, str]
) -> AttributeError:
    """The error for a name that an object or module lacks.  others: what to write for names of
    other packages, which may be in camel case."""
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    for spelling in (name, snake):
        if spelling in others:
            return AttributeError(f"{text}; {others[spelling]}")
    public = [one for one in known if not one.startswith("_")]
    near = [snake] if snake in public else near_names(name, public)
    return AttributeError(f"{text}; did you mean {near[0]}?" if near else text)
