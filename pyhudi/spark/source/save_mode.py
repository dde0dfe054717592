"""Save modes of `format("pyhudi")`: creation, check and replacement of the target table.

append               writes to the existing table, or creates a new one
overwrite            replaces the existing table and its history by a new one, as Apache Hudi
                     does; insert_overwrite and insert_overwrite_table keep the table
ignore               does nothing if a table exists
errorifexists        raises an error if a table exists
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from pyhudi.api import table as api
from pyhudi.api.input_conversion import table_name, table_type_name
from pyhudi.api.option_consistency import agreed
from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import OptionError, SchemaError, TableNotFoundError, UserError
from pyhudi.filenames import HOODIE, PROPERTIES, TEMP
from pyhudi.formats.nested_fields import has_fields, type_at
from pyhudi.options import Options, QueryRequest, SchemaMode, parse_options
from pyhudi.options.names import read
from pyhudi.records import without_meta
from pyhudi.spark.source.save_input import SaveInput
from pyhudi.spark.source.source_options import Given, given
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import LOCK, TableLock
from pyhudi.storage.spill import is_writer_staging, sweep_staging
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.write.input.batch import Rows
from pyhudi.write.input.schema_check import fit_schema, schema_rules
from pyhudi.write.overwrite import literal
from pyhudi.write.write_context import Operation
from pyhudi.write.write_report import WriteReport

_OPERATION: Final = "hoodie.datasource.write.operation"
_CONCURRENCY: Final = ("hoodie.write.lock.", "hoodie.write.concurrency.")
_WITHOUT_ROWS: Final = frozenset({"delete", "delete_partition"})
_OF_READS: Final = frozenset(
    name
    for row in read.ROWS
    if row.to is not None and row.to.startswith("query.")
    for name in (row.name, *row.aliases)
)
_LOCKS: Final = (LOCK, f"{HOODIE}/lock")  # of this package, and Apache Hudi's lock file
_KEEP_TABLE: Final = frozenset({"insert_overwrite", "insert_overwrite_table", "delete_partition"})


class SaveMode(Enum):
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "errorifexists"


@dataclass(frozen=True, slots=True)
class SaveLimits:
    """The largest batch that one process writes in its memory."""

    rows_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """A save as its options describe it."""

    path: str
    mode: SaveMode
    operation: str
    limits: SaveLimits
    hoodie: Mapping[str, str]
    storage: Mapping[str, Any]

    @property
    def fs(self) -> FileSystem:
        return locate(self.path, storage_options=self.storage)

    @property
    def keeps_table(self) -> bool:
        return self.mode is not SaveMode.OVERWRITE or self.operation in _KEEP_TABLE

    @property
    def is_concurrent(self) -> bool:
        """Whether an existing table is written concurrently with other writers."""
        must_not_exist = self.mode in (SaveMode.IGNORE, SaveMode.ERROR)
        optimistic = self.options.write.concurrency.optimistic
        return self.keeps_table and not must_not_exist and optimistic

    @property
    def options(self) -> Options:
        """The `hoodie.*` options, without the read options."""
        return replace(parse_options(self.hoodie), query=QueryRequest())


def save_request(options: Mapping[str, str], *, overwrite: bool) -> SaveRequest:
    """The save described by options.  Raises OptionError."""
    found = given(options)
    operation = parse_options(found.hoodie).request.operation or "upsert"
    mode = _mode(found, overwrite)
    if operation == "delete" and mode is not SaveMode.APPEND:
        raise OptionError(
            "operation delete requires save mode append", option=_OPERATION, mode=mode.value
        )
    limits = SaveLimits(
        found.size("maxBatchRows", 10_000_000), found.size("maxBatchBytes", 1 << 30)
    )
    return SaveRequest(found.path, mode, operation, limits, found.hoodie, found.storage)


def _mode(found: Given, overwrite: bool) -> SaveMode:
    text = found.source.get("savemode")
    if text is None:
        return SaveMode.OVERWRITE if overwrite else SaveMode.APPEND
    plain = {"error": "errorifexists"}.get(text.strip().lower(), text.strip().lower())
    try:
        mode = SaveMode(plain)
    except ValueError:
        raise OptionError(
            "invalid option value",
            option="saveMode",
            value=text,
            hint="allowed: " + ", ".join(mode.value for mode in SaveMode),
        ) from None
    if overwrite and mode is not SaveMode.OVERWRITE:
        raise OptionError(
            "saveMode conflicts with mode()", option="saveMode", value=text, mode="overwrite"
        )
    return mode


def table_exists(fs: FileSystem) -> UserError:
    """The error of the mode that Spark takes if none is given."""
    return UserError(
        "a table already exists here",
        path=fs.url,
        mode=SaveMode.ERROR.value,
        hint='mode("append") writes to it, mode("overwrite") replaces it',
    )


def check(settings: SaveRequest, schema: pa.Schema) -> None:
    """Raise errors that can be detected from the options, the table and the schema of the rows."""
    fs = settings.fs
    config = existing(fs)
    if config is not None and settings.mode is SaveMode.ERROR:
        raise table_exists(fs)
    if config is not None and settings.mode is SaveMode.IGNORE:
        return
    if config is None or not settings.keeps_table:
        _rehearse(settings, schema, None)
        return
    table = Receiver(fs, options=agreed(settings.options, config), engine=LocalEngine())
    if settings.operation not in _WITHOUT_ROWS:
        rules = schema_rules(config, settings.options.write)
        fit_schema(schema, without_meta(table.schema), rules)
        return
    required = config.record_key_fields if settings.operation == "delete" else ()
    absent = [name for name in required if type_at(schema, name) is None]
    if absent:
        raise SchemaError(
            "key columns are missing in the rows to delete",
            columns=", ".join(absent),
            schema=", ".join(schema.names),
        )


def existing(fs: FileSystem) -> TableConfig | None:
    """The configuration of the existing table; None if there is no table."""
    try:
        return load_config(fs)
    except TableNotFoundError:
        return None


def save(fs: FileSystem, settings: SaveRequest, batch: SaveInput) -> WriteReport:
    """Write a batch.  Raises the errors of the table's write method, after which the table is
    unchanged; but a table that is being overwritten is lost once its first file is deleted."""
    config = existing(fs)
    if config is not None and settings.is_concurrent:
        return _written(_receiver(fs, settings, config, batch.engine), settings, batch)
    with TableLock(
        fs,
        purpose="save",
        wait_seconds=settings.options.write.lock_seconds,
        rules=settings.options.write.lock,
    ):
        config = existing(fs)
        if config is not None and settings.mode is SaveMode.IGNORE:
            return WriteReport(settings.operation, notes=("a table exists: nothing written",))
        if config is not None and settings.mode is SaveMode.ERROR:
            raise table_exists(fs)
        if config is None or not settings.keeps_table:
            _rehearse(settings, batch.schema, batch)
            clear(fs)
            config = _create(settings.path, settings, batch.schema)
        sweep_staging(fs)
        return _written(_receiver(fs, settings, config, batch.engine), settings, batch)


class Receiver(api.Table):
    """A table whose methods take rows as `Rows`, and change its columns as Apache Hudi does."""

    _unstated_mode = SchemaMode.WIDEN

    def _incoming(self, rows: Any) -> Rows:
        found: Rows = rows
        return found

    def delete_rows(self, rows: Rows) -> WriteReport:
        return self._write(Operation.DELETE, rows, dry_run=False)


def _receiver(
    fs: FileSystem, settings: SaveRequest, config: TableConfig, engine: Engine
) -> Receiver:
    return Receiver(fs, options=agreed(settings.options, config), engine=engine)


def _written(table: Receiver, settings: SaveRequest, batch: SaveInput) -> WriteReport:
    if settings.operation == "delete":
        has_paths = has_fields(batch.schema, table.config.partition_fields)
        return table.delete_rows(batch.keys(table.key_rule(with_paths=has_paths), has_paths))
    if settings.operation == "delete_partition":
        named = settings.options.request.partitions_to_delete
        paths = named or [literal(path) for path in batch.partitions(table.key_rule())]
        return table.delete_partitions(paths)
    verb = getattr(table, settings.operation)
    report: WriteReport = verb(batch.rows())
    return report


def _rehearse(settings: SaveRequest, schema: pa.Schema, batch: SaveInput | None) -> None:
    """Create the new table in memory and plan the write there, so that errors of either are raised
    before the path is changed.  batch: None if no row is computed yet."""
    if settings.operation in _WITHOUT_ROWS:
        raise TableNotFoundError("no table to delete from", path=settings.path)
    alone = {n: v for n, v in settings.hoodie.items() if not n.startswith(_CONCURRENCY)}
    settings = replace(settings, hoodie=alone, storage={})  # there are no other writers
    stage = f"memory://rehearsal-{secrets.token_hex(8)}"
    try:
        config = _create(f"{stage}/table", settings, schema)
        if batch is not None and not batch.is_empty:
            # the same parallelism as the write gives the same key plan: rows are keyed once
            engine = LocalEngine(batch.engine.parallelism)
            table = _receiver(locate(f"{stage}/table"), settings, config, engine)
            getattr(table, settings.operation)(batch.rows(), dry_run=True)
    finally:
        locate(stage).delete_folder("table")


def _create(path: str, settings: SaveRequest, schema: pa.Schema) -> TableConfig:
    """Create the table that the options describe."""
    request = settings.options.request
    if not request.record_key:
        raise OptionError(
            "a new table requires a record key",
            path=settings.path,
            hint="set option hoodie.datasource.write.recordkey.field",
        )
    table = api.create_table(
        path,
        without_meta(schema),
        record_key=request.record_key,
        partition_by=request.partition_by or (),
        ordering=request.ordering,
        table_type=table_type_name(request.table_type),
        name=request.name or table_name(settings.path),
        options={name: value for name, value in settings.hoodie.items() if name not in _OF_READS},
        storage_options=settings.storage,
        other_files=True,  # as Apache Hudi
    )
    return table.config


def clear(fs: FileSystem) -> None:
    """Remove a table, except for locks and spilled rows of writers: data first and properties last,
    so that a crash leaves a visibly broken table, which the next overwrite removes."""
    if not fs.exists(PROPERTIES):
        return
    for entry in fs.children():
        if entry.name != HOODIE:
            _remove(fs, entry.path, is_folder=entry.is_folder)
    for entry in fs.children(HOODIE):
        if entry.path not in (TEMP, PROPERTIES) and not entry.path.startswith(_LOCKS):
            _remove(fs, entry.path, is_folder=entry.is_folder)
    for entry in fs.children(TEMP):
        if not is_writer_staging(entry.name):
            _remove(fs, entry.path, is_folder=entry.is_folder)
    fs.delete([PROPERTIES])


def _remove(fs: FileSystem, path: str, *, is_folder: bool) -> None:
    if is_folder:
        fs.delete_folder(path)
    else:
        fs.delete([path])
