"""The catalog entries of a table, as Apache Hudi's HiveSyncTool writes them.

A copy-on-write table has one entry.  A merge-on-read table has `<name>_ro` (base files only),
`<name>_rt` (the merged snapshot), and the snapshot also under its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from pyhudi.errors import SchemaError, UserError
from pyhudi.options.catalogs import CatalogOptions, MergeOnReadTables
from pyhudi.records import META_COLUMNS
from pyhudi.sync.catalog_entry import AS_READ_OPTIMIZED, CatalogColumn, CatalogTable
from pyhudi.sync.column_types import hive_type, spark_schema
from pyhudi.table.properties import KeyGeneratorKind, TableConfig

READ_OPTIMIZED_SUFFIX: Final = "_ro"
SNAPSHOT_SUFFIX: Final = "_rt"
BASE_FILES: Final = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
MERGED: Final = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
INPUT_FORMATS: Final = frozenset({BASE_FILES, MERGED})
OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PROVIDER: Final = "spark.sql.sources.provider"
EXTERNAL: Final = {"EXTERNAL": "TRUE"}
_SCHEMA: Final = "spark.sql.sources.schema."


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """What entries depend on.  location: where engines find the table, a URL or a local path.

    schema: meta columns first, with nullability.  comments: by the names of columns.  avro: the
    Avro JSON that the schema comes from, without meta fields; None if no commit states one.
    """

    config: TableConfig
    schema: pa.Schema
    location: str
    comments: Mapping[str, str] = field(default_factory=dict)
    avro: str | None = None


def table_entries(facts: EntryFacts, options: CatalogOptions) -> tuple[CatalogTable, ...]:
    """The entries of a table.  Raises UserError, SchemaError for a table that has no entry."""
    check_format(facts.config)
    entry = _entry(facts, options)
    if not facts.config.is_merge_on_read:
        return (entry,)
    return tuple(_merge_on_read(entry, options))


def entry_names(config: TableConfig, options: CatalogOptions) -> tuple[str, ...]:
    """Names of the entries, without their database."""
    name = entry_table(config, options)
    if not config.is_merge_on_read or options.merge_on_read is not MergeOnReadTables.ALL:
        return (name,)
    read_optimized = name if options.read_optimized_plain else name + READ_OPTIMIZED_SUFFIX
    also_plain = options.plain_snapshot and not options.read_optimized_plain
    return (read_optimized, name + SNAPSHOT_SUFFIX, *((name,) if also_plain else ()))


def _merge_on_read(entry: CatalogTable, options: CatalogOptions) -> Iterator[CatalogTable]:
    """The entries of a merge-on-read table, from the read-optimized one without a suffix."""
    read_optimized = _as_query(entry, entry.name, BASE_FILES, "true", options)
    snapshot = _as_query(entry, entry.name, MERGED, "false", options)
    match options.merge_on_read:
        case MergeOnReadTables.READ_OPTIMIZED:
            yield read_optimized
        case MergeOnReadTables.SNAPSHOT:
            yield snapshot
        case MergeOnReadTables.ALL:
            suffix = "" if options.read_optimized_plain else READ_OPTIMIZED_SUFFIX
            yield replace(read_optimized, name=entry.name + suffix)
            yield replace(snapshot, name=entry.name + SNAPSHOT_SUFFIX)
            if options.plain_snapshot and not options.read_optimized_plain:
                yield snapshot


def _as_query(
    entry: CatalogTable, name: str, input_format: str, flag: str, options: CatalogOptions
) -> CatalogTable:
    properties = dict(entry.serde_properties)
    if options.spark_properties:
        properties[AS_READ_OPTIMIZED] = flag
    return replace(entry, name=name, input_format=input_format, serde_properties=properties)


def check_format(config: TableConfig) -> None:
    """Raises UserError for base files that have no input format of Hive."""
    if config.base_file_format.upper() != "PARQUET":
        raise UserError(
            "only tables with Parquet base files have catalog entries",
            base_file_format=config.base_file_format,
        )


def _entry(facts: EntryFacts, options: CatalogOptions) -> CatalogTable:
    keys = partition_keys(facts, options)
    names = {key.name for key in keys}
    shown = _shown_columns(facts.schema, options)
    columns = tuple(c for c in _columns(shown, facts, options) if c.name not in names)
    _check_unique(columns)
    path = facts.location
    serde = {"path": path, **dict(options.serde_properties)}
    properties = {**dict(options.table_properties), **({} if options.managed else EXTERNAL)}
    if options.spark_properties:
        serde[AS_READ_OPTIMIZED] = "false"
        properties |= _spark_properties(shown, keys, options)
    return CatalogTable(
        entry_database(facts.config, options),
        entry_table(facts.config, options),
        columns,
        keys,
        as_url(path),
        BASE_FILES,
        OUTPUT_FORMAT,
        SERDE,
        serde,
        properties,
        options.managed,
    )


def entry_table(config: TableConfig, options: CatalogOptions) -> str:
    """The name of the entry, in lower case as metastores store it."""
    return (options.table or config.name).lower()


def entry_database(config: TableConfig, options: CatalogOptions) -> str:
    """The database of the entry, in lower case as metastores store it."""
    return (options.database or config.database or "default").lower()


def as_url(path: str) -> str:
    """A location with a scheme; paths are plain, because readers do not decode them."""
    return f"file:{path}" if path.startswith("/") else path


def _shown_columns(schema: pa.Schema, options: CatalogOptions) -> pa.Schema:
    if not options.omits_meta_columns:
        return schema
    return pa.schema([f for f in schema if f.name not in META_COLUMNS])


def _columns(
    schema: pa.Schema, facts: EntryFacts, options: CatalogOptions
) -> Iterator[CatalogColumn]:
    for column in schema:
        comment = facts.comments.get(column.name, "") if options.comments else ""
        yield CatalogColumn(column.name.lower(), _type(column, options), comment)


def _type(column: pa.Field, options: CatalogOptions) -> str:
    try:
        return hive_type(column.type, timestamps=options.timestamps)
    except SchemaError as error:
        raise SchemaError(error.what, column=column.name, type=str(column.type)) from None


def _check_unique(columns: tuple[CatalogColumn, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise UserError(
                "two columns have names that differ only in case, which catalogs do not store",
                column=column.name,
            )
        seen.add(column.name)


def partition_keys(facts: EntryFacts, options: CatalogOptions) -> tuple[CatalogColumn, ...]:
    """The partition columns of the entry, with the types of the table's columns.

    A key without a column is text, and so are the texts that a timestamp key generator makes.
    """
    fields = {f.name.lower(): f for f in facts.schema}
    texts = _generated(facts.config)

    def key(name: str) -> CatalogColumn:
        stored = fields.get(name.lower())
        is_text = stored is None or name in texts
        return CatalogColumn(name.lower(), "string" if is_text else _type(stored, options))

    return tuple(map(key, partition_fields(facts.config, options)))


def partition_fields(config: TableConfig, options: CatalogOptions) -> tuple[str, ...]:
    """Names of the partition columns of the entry, without their types in custom generators."""
    if not config.partition_fields:
        return ()
    given = options.partition_fields or config.partition_fields
    return tuple(name.partition(":")[0] for name in given)


def _generated(config: TableConfig) -> frozenset[str]:
    """Partition columns whose paths are texts made from times."""
    if config.key_generator is KeyGeneratorKind.TIMESTAMP:
        return frozenset(config.partition_fields)
    pairs = [name.partition(":") for name in config.partition_fields]
    return frozenset(name for name, _, kind in pairs if kind.strip().upper() == "TIMESTAMP")


def _spark_properties(
    schema: pa.Schema, keys: tuple[CatalogColumn, ...], options: CatalogOptions
) -> dict[str, str]:
    """What Spark needs to read the entry as a table of Apache Hudi's data source."""
    ordered = _partitions_last(schema, keys)
    text = spark_schema(ordered)
    size = options.schema_part
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    found = {PROVIDER: "hudi", _SCHEMA + "numParts": str(len(parts))}
    found |= {f"{_SCHEMA}part.{number}": part for number, part in enumerate(parts)}
    if keys:
        found[_SCHEMA + "numPartCols"] = str(len(keys))
        names = ordered.names[-len(keys) :]
        found |= {f"{_SCHEMA}partCol.{n}": name for n, name in enumerate(names)}
    if options.spark_version:
        found["spark.sql.create.version"] = options.spark_version
    return found


def _partitions_last(schema: pa.Schema, keys: tuple[CatalogColumn, ...]) -> pa.Schema:
    """The columns in the order of Spark's tables; a partition key without a column is text."""
    stored = {field.name.lower(): field for field in schema}
    names = {key.name for key in keys}
    last = [stored.get(k.name, pa.field(k.name, pa.string(), nullable=False)) for k in keys]
    return pa.schema([*(f for f in schema if f.name.lower() not in names), *last])
