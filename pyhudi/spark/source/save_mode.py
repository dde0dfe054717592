"""The table that a save of `format("pyhudi")` is to reach: made, matched or made anew.

append               the table there, or a new one
overwrite            a new table in place of the one there, all its history gone, as Apache Hudi
                     does; insert_overwrite and insert_overwrite_table keep the table
ignore               nothing where there is a table
errorifexists        an error where there is a table
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from pyhudi.api import table as api
from pyhudi.api.input_conversion import table_name
from pyhudi.api.option_consistency import agreed
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, SchemaError, TableNotFoundError, UserError
from pyhudi.filenames import HOODIE, PROPERTIES, TEMP
from pyhudi.options import Options, QueryRequest, parse_options
from pyhudi.options.names import read
from pyhudi.records import without_meta
from pyhudi.spark.source.source_options import Given, given
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import LOCK, TableLock
from pyhudi.storage.spill import is_parked, sweep_parked
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.write.input.batch import Rows
from pyhudi.write.input.schema_check import fit_schema, schema_rules
from pyhudi.write.input.staged_rows import Parked, ParkedKeys, ParkedRows, partitions_of
from pyhudi.write.write_report import WriteReport
from pyhudi.write.write_steps import Operation

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
    """The largest batch one process writes."""

    rows_max: int
    bytes_max: int

    def allow(self, files: Sequence[Parked]) -> bool:
        rows = sum(file.row_count for file in files)
        return rows <= self.rows_max and sum(f.byte_count for f in files) <= self.bytes_max


@dataclass(frozen=True, slots=True)
class SaveAsked:
    """A save as its options ask for it."""

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
    def goes_beside(self) -> bool:
        """Whether a table that is there is written to beside other writers."""
        asks = self.mode in (SaveMode.IGNORE, SaveMode.ERROR)
        return self.keeps_table and not asks and self.options.write.concurrency.optimistic

    @property
    def options(self) -> Options:
        """The `hoodie.*` options; those of reads mean nothing to a save."""
        return replace(parse_options(self.hoodie), query=QueryRequest())


def save_asked(options: Mapping[str, str], *, overwrite: bool) -> SaveAsked:
    """What a save asks for.  Raises OptionError."""
    found = given(options)
    operation = parse_options(found.hoodie).request.operation or "upsert"
    mode = _mode(found, overwrite)
    if operation == "delete" and mode is not SaveMode.APPEND:
        raise OptionError("deletes are appended only", option=_OPERATION, mode=mode.value)
    limits = SaveLimits(
        found.size("maxBatchRows", 10_000_000), found.size("maxBatchBytes", 1 << 30)
    )
    return SaveAsked(found.path, mode, operation, limits, found.hoodie, found.storage)


def _mode(found: Given, overwrite: bool) -> SaveMode:
    text = found.own.get("savemode")
    if text is None:
        return SaveMode.OVERWRITE if overwrite else SaveMode.APPEND
    plain = {"error": "errorifexists"}.get(text.strip().lower(), text.strip().lower())
    try:
        mode = SaveMode(plain)
    except ValueError:
        raise OptionError(
            "impossible value", option="saveMode", value=text,
            hint="allowed: " + ", ".join(mode.value for mode in SaveMode),
        ) from None  # fmt: skip
    if overwrite and mode is not SaveMode.OVERWRITE:
        raise OptionError("two save modes", option="saveMode", value=text, mode="overwrite")
    return mode


def check(asked: SaveAsked, schema: pa.Schema) -> None:
    """Raise what can be told from the options, the table and the schema of the rows alone."""
    fs = asked.fs
    config = existing(fs)
    if config is not None and asked.mode is SaveMode.ERROR:
        raise UserError("there is a table here already", path=fs.url, mode=asked.mode.value)
    if config is not None and asked.mode is SaveMode.IGNORE:
        return
    if config is None or not asked.keeps_table:
        _rehearse(asked, schema, ())
        return
    table = Receiver(fs, options=agreed(asked.options, config), engine=LocalEngine())
    if asked.operation not in _WITHOUT_ROWS:
        rules = schema_rules(config, asked.options.write)
        fit_schema(schema, without_meta(table.schema), rules)
        return
    wanted = config.record_key_fields if asked.operation == "delete" else ()
    absent = [name for name in wanted if name not in schema.names]
    if absent:
        raise SchemaError(
            "the rows to delete lack key columns", columns=", ".join(absent),
            schema=", ".join(schema.names),
        )  # fmt: skip


def existing(fs: FileSystem) -> TableConfig | None:
    """The properties of the table that is there; None if there is none."""
    try:
        return load_config(fs)
    except TableNotFoundError:
        return None


def save(
    fs: FileSystem, asked: SaveAsked, schema: pa.Schema, files: tuple[Parked, ...]
) -> WriteReport:
    """Write parked rows.  Raises what the verb of the table raises, with the table as it was;
    but where a table is overwritten, what was there is gone once its first file is."""
    config = existing(fs)
    if config is not None and asked.goes_beside:
        return _written(_receiver(fs, asked, config), asked, schema, files)
    with TableLock(
        fs,
        purpose="save",
        wait_seconds=asked.options.write.lock_seconds,
        rules=asked.options.write.lock,
    ):
        config = existing(fs)
        if config is not None and asked.mode is SaveMode.IGNORE:
            return WriteReport(asked.operation, notes=("there is a table: nothing written",))
        if config is not None and asked.mode is SaveMode.ERROR:
            raise UserError("there is a table here already", path=fs.url, mode=asked.mode.value)
        if config is None or not asked.keeps_table:
            _rehearse(asked, schema, files)
            clear(fs)
            config = _create(asked.path, asked, schema)
        sweep_parked(fs)
        return _written(_receiver(fs, asked, config), asked, schema, files)


class Receiver(api.Table):
    """A table whose verbs take rows as `Rows`."""

    def _incoming(self, rows: Any) -> Rows:
        found: Rows = rows
        return found

    def delete_rows(self, rows: Rows) -> WriteReport:
        return self._write(Operation.DELETE, rows, dry_run=False)


def _receiver(fs: FileSystem, asked: SaveAsked, config: TableConfig) -> Receiver:
    return Receiver(fs, options=agreed(asked.options, config), engine=LocalEngine())


def _written(
    table: Receiver, asked: SaveAsked, schema: pa.Schema, files: tuple[Parked, ...]
) -> WriteReport:
    if asked.operation == "delete":
        told = set(table.config.partition_fields) <= set(schema.names)
        return table.delete_rows(ParkedKeys(files, told))
    if asked.operation == "delete_partition":
        named = asked.options.request.partitions_to_delete
        return table.delete_partitions(named or partitions_of(files, table.key_rule()))
    verb = getattr(table, asked.operation)
    report: WriteReport = verb(ParkedRows(schema, files))
    return report


def _rehearse(asked: SaveAsked, schema: pa.Schema, files: tuple[Parked, ...]) -> None:
    """Make the new table in memory and plan the write there, so that what is wrong with either is
    said while the place is as it was."""
    if asked.operation in _WITHOUT_ROWS:
        raise TableNotFoundError("no table here to delete from", path=asked.path)
    alone = {n: v for n, v in asked.hoodie.items() if not n.startswith(_CONCURRENCY)}
    asked = replace(asked, hoodie=alone, storage={})  # nobody else is there
    stage = f"memory://rehearsal-{secrets.token_hex(8)}"
    try:
        config = _create(f"{stage}/table", asked, schema)
        if files:
            table = _receiver(locate(f"{stage}/table"), asked, config)
            getattr(table, asked.operation)(ParkedRows(schema, files), dry_run=True)
    finally:
        locate(stage).delete_folder("table")


def _create(path: str, asked: SaveAsked, schema: pa.Schema) -> TableConfig:
    """A new table as the options describe it."""
    request = asked.options.request
    if not request.record_key:
        raise OptionError(
            "a new table needs a record key", path=asked.path,
            hint="option hoodie.datasource.write.recordkey.field",
        )  # fmt: skip
    table = api.create_table(
        path,
        without_meta(schema),
        record_key=request.record_key,
        partition_by=request.partition_by or (),
        ordering=request.ordering,
        table_type=request.table_type or "cow",
        name=request.name or table_name(asked.path),
        options={name: value for name, value in asked.hoodie.items() if name not in _OF_READS},
        storage_options=asked.storage,
    )
    return table.config


def clear(fs: FileSystem) -> None:
    """Remove a table, all but what its writers hold: data first and the properties last, so that
    what a crash leaves is a table that is visibly broken, and cleared by the next overwrite."""
    if not fs.exists(PROPERTIES):
        return
    for entry in fs.children():
        if entry.name != HOODIE:
            _remove(fs, entry.path, is_folder=entry.is_folder)
    for entry in fs.children(HOODIE):
        if entry.path not in (TEMP, PROPERTIES) and not entry.path.startswith(_LOCKS):
            _remove(fs, entry.path, is_folder=entry.is_folder)
    for entry in fs.children(TEMP):
        if not is_parked(entry.name):
            _remove(fs, entry.path, is_folder=entry.is_folder)
    fs.delete([PROPERTIES])


def _remove(fs: FileSystem, path: str, *, is_folder: bool) -> None:
    if is_folder:
        fs.delete_folder(path)
    else:
        fs.delete([path])
