"""The public API on Spark: tables whose methods take and return DataFrames."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from pyhudi.api import table as api
from pyhudi.api.input_conversion import (
    IndexName,
    ScanModeName,
    SchemaModeName,
    TableTypeName,
    keys_to_delete,
    selected_columns,
)
from pyhudi.api.option_consistency import agreed, check_function, with_merge
from pyhudi.api.other_arguments import leads_on, methods_lead_on
from pyhudi.engine import LocalEngine
from pyhudi.errors import TableNotFoundError, UserError
from pyhudi.formats.column_names import check_names
from pyhudi.formats.nested_fields import has_fields, type_at
from pyhudi.keygen.generators import KeyRule, PythonKeys
from pyhudi.keygen.new_table_keys import PartitionBy
from pyhudi.merge.merge_rules import MergeFunction
from pyhudi.options import Options, parse_options
from pyhudi.read.scan import Scan
from pyhudi.read.scan_plan import ScanRequest, plan_scan
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import META_COLUMNS, RECORD_KEY, without_meta
from pyhudi.spark.engine import SparkEngine
from pyhudi.spark.frames import collected, in_structs, is_frame, quoted, with_type, with_values
from pyhudi.spark.fresh_views import MakeFrame, View, register
from pyhudi.spark.row_staging import SparkKeys, SparkRows
from pyhudi.spark.scan import SparkScanPlan, explain_scan, scan_frame
from pyhudi.spark.types import arrow_schema_of, to_arrow, to_spark
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import load_config
from pyhudi.write.input.batch import Rows
from pyhudi.write.write_report import WriteReport


@leads_on
def open_table(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    merge: MergeFunction | None = None,
) -> SparkTable:
    """The table at a path that every worker can access under the same name.

    options: `hoodie.*` keys.  merge: the merge function the table was created with, if any.
    Raises TableNotFoundError, UnsupportedTableError, OptionError.
    """
    fs = _shared(locate(path, storage_options=storage_options))
    parsed = Options()
    if options or merge is not None:
        config = load_config(fs)
        parsed = with_merge(agreed(parse_options(options), config), merge)
        check_function(merge, config)
    return SparkTable(spark, fs, options=parsed)


@leads_on
def create_table(
    spark: SparkSession,
    path: str | os.PathLike[str],
    schema: Any,
    *,
    record_key: str | Sequence[str],
    partition_by: PartitionBy = (),
    ordering: str | Sequence[str] | None = None,
    table_type: TableTypeName = "cow",
    index: IndexName = "record",
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    merge: MergeFunction | None = None,
    version: int | None = None,
    other_files: bool = False,
) -> SparkTable:
    """A new, empty table; see `pyhudi.create_table`.

    schema: StructType, DataFrame, pyarrow.Schema or anything with `__arrow_c_schema__`.
    partition_by: columns and TimestampPartition; PythonKeys are not supported on Spark
    (UserError).
    """
    if isinstance(partition_by, PythonKeys):
        raise UserError(
            "custom key functions are not supported on Spark",
            path=os.fspath(path),
            hint="compute a column of partition paths and partition by it",
        )
    _shared(locate(path, storage_options=storage_options))
    api.create_table(
        path,
        arrow_schema_of(schema),
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        table_type=table_type,
        index=index,
        name=name,
        options=options,
        storage_options=storage_options,
        merge=merge,
        version=version,
        other_files=other_files,
    )
    return open_table(spark, path, options=options, storage_options=storage_options, merge=merge)


@leads_on
def upsert(
    frame: DataFrame,
    path: str | os.PathLike[str],
    *,
    record_key: str | Sequence[str] | None = None,
    partition_by: PartitionBy = (),
    ordering: str | Sequence[str] | None = None,
    table_type: TableTypeName = "cow",
    index: IndexName = "record",
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    schema_mode: SchemaModeName | None = None,
) -> WriteReport:
    """Upsert a DataFrame into the table at `path`; create the table if it does not exist.

    The arguments between path and options describe the new table; they do not change an existing
    one.
    """
    if not hasattr(frame, "sparkSession"):
        raise UserError(
            "the rows of an upsert must be a Spark DataFrame",
            type=type(frame).__name__,
            hint="upsert(df, path, ...); pyhudi.upsert takes rows of this process",
        )
    spark = frame.sparkSession
    try:
        table = open_table(spark, path, options=options, storage_options=storage_options)
    except TableNotFoundError as absent:
        if record_key is None:
            absent.hint = "upsert(..., record_key=...) creates it"
        if record_key is None or dry_run:
            raise
        table = create_table(
            spark,
            path,
            frame,
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            index=index,
            name=name,
            options=options,
            storage_options=storage_options,
        )
    return table.upsert(frame, dry_run=dry_run, schema_mode=schema_mode)


@leads_on
def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    columns: str | Sequence[str] | None = None,
    where: Filter | Column | None = None,
    *,
    as_of: PointInTime | None = None,
    mode: ScanModeName = "snapshot",
    with_meta: bool = True,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """A snapshot of the table at `path`; arguments as for `SparkTable.scan`."""
    table = open_table(spark, path, options=options, storage_options=storage_options)
    return table.scan(columns, where, as_of=as_of, mode=mode, with_meta=with_meta)


@leads_on
def register_views(
    spark: SparkSession,
    views: Mapping[str, str | os.PathLike[str]],
    *,
    fresh: bool = False,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Make tables available to SQL of the session as temporary views: name -> path of the table.

    A view reads the snapshot of the call, without meta columns; a later call replaces it by the
    newest.  fresh: `spark.sql` and `spark.table` of this session replace it first if the table has
    a newer snapshot, so each query reads the newest; queries of other languages do not.  Logs are
    merged once, and stored, when a statement names a fresh view; by each query of other views.
    Raises UserError for a name that is not an identifier, before any view is made.
    """
    for name in views:
        if not isinstance(name, str) or not name.isidentifier():
            raise UserError(
                "the name of a view must be an identifier",
                name=name,
                hint="letters, digits and underscores, such as trips_2026",
            )
    made = {}
    for name, path in views.items():
        opened = partial(open_table, spark, path, options=options, storage_options=storage_options)
        made[name] = View(partial(_viewed, opened), opened)
    register(spark, made, fresh=fresh)


def _viewed(opened: Callable[[], SparkTable]) -> tuple[str, MakeFrame]:
    table = opened()
    return table.position(), table.view_frame


@methods_lead_on
class SparkTable(api.Table):
    """A table whose methods take and return DataFrames.

    Writes and scans run on the session's executors; lookups by key run on the driver.
    """

    def __init__(self, spark: SparkSession, fs: FileSystem, *, options: Options) -> None:
        super().__init__(fs, options=options, engine=SparkEngine(spark))
        self._spark = spark

    def scan(  # type: ignore[override]
        self,
        columns: str | Sequence[str] | None = None,
        where: Filter | Column | None = None,
        *,
        as_of: PointInTime | None = None,
        mode: ScanModeName = "snapshot",
        with_meta: bool = True,
    ) -> DataFrame:
        """Rows of a snapshot; arguments as for `pyhudi.Table.scan`.

        The frame reads the snapshot it was planned on.  Pass the columns and the filter here:
        Spark does not push its own down.  where: also a Column, which Spark evaluates.
        """
        scan: Any = super().scan
        if not isinstance(where, Column):
            found: DataFrame = scan(columns, where, as_of=as_of, mode=mode, with_meta=with_meta)
            return found
        whole: DataFrame = scan(None, None, as_of=as_of, mode=mode, with_meta=True)
        return _projected(whole.where(where), columns, with_meta)

    def changes(  # type: ignore[override]
        self,
        since: PointInTime,
        until: PointInTime | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        where: Filter | Column | None = None,
        with_meta: bool = True,
    ) -> DataFrame:
        """Rows of the snapshot at `until` written by commits after `since`."""
        changes: Any = super().changes
        if isinstance(where, Column):
            whole: DataFrame = changes(since, until)
            return _projected(whole.where(where), columns, with_meta)
        found: DataFrame = changes(since, until, columns=columns, where=where, with_meta=with_meta)
        return found

    def to_arrow(self) -> pa.Table:
        """All rows, collected on the driver, without meta columns."""
        return collected(self.scan(with_meta=False))

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, in no defined order.  Raises UserError for a negative number."""
        if rows < 0:
            raise UserError("the number of rows is negative", rows=rows)
        return collected(self.view_frame(merges=False).limit(rows))

    def _scan(self, request: ScanRequest) -> Any:
        return read_current(
            self._state, lambda state: scan_frame(self._spark, state, plan_scan(state, request))
        )

    def view_frame(self, *, merges: bool) -> DataFrame:
        """The newest snapshot without meta columns; `merges` as for `scan_frame`."""
        request = ScanRequest(with_meta=False, data_skipping=self._options.read.data_skipping)
        return read_current(
            self._state,
            lambda s: scan_frame(self._spark, s, plan_scan(s, request), merges=merges),
        )

    def explain(
        self,
        columns: str | Sequence[str] | None = None,
        where: Filter | None = None,
        *,
        as_of: PointInTime | None = None,
        mode: ScanModeName = "snapshot",
        since: PointInTime | None = None,
        until: PointInTime | None = None,
    ) -> SparkScanPlan:
        """The plan of a scan with these arguments, or with `since` of `changes`: what is read and
        skipped, and which reader reads each slice and why."""
        local = api.Table(self._fs, options=self._options, engine=LocalEngine())
        if since is None:
            plan = local.scan(columns, where, as_of=as_of, mode=mode).plan
        elif as_of is None and mode == "snapshot":
            plan = local.changes(since, until, columns=columns, where=where).plan
        else:
            raise UserError("as_of and mode do not apply to changes", as_of=as_of, mode=mode)
        return explain_scan(self._spark, self._state(), plan)

    def lookup(self, keys: Any = None, *, where: Filter | None = None) -> pa.Table:
        return self._lookup(keys, where, LocalEngine())

    def fetch(self, keys: Any, columns: str | Sequence[str] | None = None) -> pa.Table:
        return self._fetch(keys, selected_columns(columns), LocalEngine())

    def _key_texts(self, keys: Any, state: TableState | None = None) -> pa.Array:
        """Keys as text; a DataFrame of keys is collected, as lookups run on the driver."""
        return super()._key_texts(collected(keys) if is_frame(keys) else keys, state)

    def delete(
        self,
        rows: Any = None,
        *,
        keys: Any = None,
        where: Filter | None = None,
        dry_run: bool = False,
        publish: bool = True,
    ) -> WriteReport:
        """Delete records as `pyhudi.Table.delete` does: by `keys` (as for `lookup`, or a DataFrame
        of one column or of the key columns), by rows (a DataFrame with the key columns), or by a
        predicate."""
        return super().delete(rows, keys=keys, where=where, dry_run=dry_run, publish=publish)

    def _doomed(self, rows: Any, keys: Any, where: Filter | None) -> Rows:
        given = [value for value in (rows, keys, where) if value is not None]
        if len(given) == 1 and is_frame(rows):
            schema = arrow_schema_of(rows)
            check_names(schema)
            known = has_fields(schema, self.config.partition_fields)
            return SparkKeys(rows, self.key_rule(with_paths=known), has_partition_columns=known)
        if len(given) == 1 and is_frame(keys):
            return self._frame_keys(keys)
        return keys_to_delete(self, rows, keys, where)

    def _places_to_delete(self, rows: Any) -> Rows:
        if not is_frame(rows):
            return super()._places_to_delete(rows)
        return SparkKeys(rows, _text_rule(RECORD_KEY))

    def _frame_keys(self, keys: DataFrame) -> SparkKeys:
        """A DataFrame of the key columns, or of one column of keys."""
        fields = self.config.record_key_fields
        plain = [field for field in keys.schema.fields if "." not in field.name]
        if not fields or not has_fields(to_arrow(StructType(plain)), fields):
            if len(keys.columns) != 1:
                raise UserError(
                    "keys must be one column or the key columns",
                    columns=", ".join(keys.columns),
                    key_columns=", ".join(fields),
                )
            values = keys[quoted(keys.columns[0])]
            if len(fields) != 1 or isinstance(keys.schema[0].dataType, StringType):
                return SparkKeys(keys.select(values.alias("key")), _text_rule("key"))
            keys = keys.select(in_structs(values, fields[0]))
        types = pa.schema([(name, type_at(self.schema, name)) for name in fields])
        for field in to_spark(types):
            keys = with_type(keys, field.name, field.dataType)
        return SparkKeys(keys, self.key_rule(with_paths=False))

    def _updates(
        self, values: Mapping[str, Any], where: Filter | None, schema: pa.Schema
    ) -> Callable[[TableState], Rows]:
        skips = self._options.read.data_skipping

        def updated(state: TableState) -> SparkRows:
            schema = without_meta(state.schema())
            request = ScanRequest(tuple(schema.names), where, data_skipping=skips)
            plan = plan_scan(state, request)
            frame = scan_frame(self._spark, state, plan, merges=False)  # the slices change anyway
            return SparkRows(with_values(frame, values))

        return updated

    def _incoming(self, rows: Any) -> Rows:
        return SparkRows(rows) if is_frame(rows) else super()._incoming(rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        scan = Scan(self._state, ScanRequest(), engine=LocalEngine())
        return scan.__arrow_c_stream__(requested_schema)


def _projected(frame: DataFrame, columns: str | Sequence[str] | None, with_meta: bool) -> DataFrame:
    """The requested columns of a scan of all columns."""
    names = selected_columns(columns)
    if names is None:
        names = tuple(n for n in frame.columns if with_meta or n not in META_COLUMNS)
    return frame.select(*(quoted(name) for name in names))


def _text_rule(column: str) -> KeyRule:
    """A key rule that uses a column unchanged as the record key."""
    return KeyRule((column,), (), composite=False, hive_style=False, url_encoded=False)


def _shared(fs: FileSystem) -> FileSystem:
    """A file system that workers can access too.  Raises UserError."""
    if fs.url.startswith("memory:"):
        raise UserError(
            "Spark workers cannot access a table in the driver's memory",
            path=fs.url,
            hint="use a path that every worker can access",
        )
    return fs
