"""The public API: opening, creating and reading tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from pyhudi import other_names
from pyhudi.api.catalog_methods import CatalogVerbs
from pyhudi.api.health_methods import CareVerbs
from pyhudi.api.index_methods import TableIndex
from pyhudi.api.input_conversion import (
    IndexName,
    ScanModeName,
    TableTypeName,
    arrow_schema,
    arrow_table,
    hollow_commit_policy,
    index_of,
    keys_to_delete,
    names_of,
    scan_mode,
    selected_columns,
    table_name,
    table_type_of,
    text_of,
)
from pyhudi.api.option_consistency import agreed, check_function, with_merge, with_version
from pyhudi.api.other_arguments import leads_on, methods_lead_on
from pyhudi.api.row_methods import RowVerbs
from pyhudi.api.service_methods import ServiceVerbs
from pyhudi.api.table_description import described
from pyhudi.api.write_methods import WritingVerbs
from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import PyhudiError, UserError
from pyhudi.health.doctor import examine
from pyhudi.health.findings import Diagnosis
from pyhudi.health.repair import RepairReport, execute_repair
from pyhudi.keygen.generators import KeyRule, PythonKeys
from pyhudi.keygen.key_generator_config import may_have_names
from pyhudi.keygen.key_values import key_texts, one_key_text
from pyhudi.keygen.new_table_keys import PartitionBy, partitioned
from pyhudi.keygen.table_key_rule import rule_of
from pyhudi.markup import card_html, facts_html, facts_text
from pyhudi.merge.merge_rules import MergeFunction
from pyhudi.operations.create import check_empty, create
from pyhudi.options import Options, parse_options
from pyhudi.other_names import unknown_name
from pyhudi.read.changes.cdc import capture_rows
from pyhudi.read.changes.incremental import ChangeRange, check_range
from pyhudi.read.changes.snapshot_diff import diff_rows
from pyhudi.read.fetch import fetch_rows
from pyhudi.read.positions import current_position
from pyhudi.read.record_history import history_rows
from pyhudi.read.scan import Scan
from pyhudi.read.scan_plan import ScanRequest
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.table_snapshot import TableState, load_state, read_current
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import PARTITION_PATH, RECORD_KEY
from pyhudi.services.indexing.location_lookup import lookup
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate
from pyhudi.sync.open_catalog import location_of
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.input.batch import KeyRows, Rows
from pyhudi.write.table_creation import NewTable, config_of


@leads_on
def open_table(
    path: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    key_generator: PythonKeys | None = None,
    merge: MergeFunction | None = None,
) -> Table:
    """The table at a path or URL, or with a name: `hive://host:9083/db.table`, `glue://db.table`.

    options: `hoodie.*` keys.  key_generator, merge: functions that the table was created with.
    Raises TableNotFoundError, UnsupportedTableError, OptionError, CatalogError.
    """
    fs = locate(location_of(path), storage_options=storage_options)
    parsed = Options()
    if options or merge is not None:
        config = load_config(fs)
        parsed = with_merge(agreed(parse_options(options), config), merge)
        check_function(merge, config)
    return Table(fs, options=parsed, engine=engine or LocalEngine(), functions=key_generator)


def _reopened(fs: FileSystem, options: Options, functions: PythonKeys | None) -> Table:
    return Table(fs, options=options, engine=LocalEngine(), functions=functions)


@leads_on
def create_table(
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
    engine: Engine | None = None,
    merge: MergeFunction | None = None,
    version: int | None = None,
    other_files: bool = False,
) -> Table:
    """A new, empty table.

    schema: pyarrow.Schema, anything with `__arrow_c_schema__`, or rows (pyarrow, polars, pandas,
    DuckDB), which give their columns only: `upsert` writes them.  partition_by: columns, with
    TimestampPartition for levels made of times; PythonKeys for custom paths.
    ordering: columns whose greater value wins (event time); None: the later write wins.
    table_type: "cow" or "mor".  name: defaults to the last component of the path.
    index: how writes find a key: "record", "partitioned_record", "bloom", "global_bloom",
    "simple", "global_simple", "bucket", "rocksdb", "hbase" or "elastic"; stored in the table's
    properties.
    merge: a function `merge(old, new)` of record batches that merges stored and newer records.
    Row i of `old`, of `new` and of the result have the same key and the same columns.  The table
    stores the function's name; writes and log merges must be given the function again.
    version: of the table's format, 9 (the default), 8 or 6; docs/compatibility.md says who reads
    which: Apache Hudi 0.x reads 6 only.  "partitioned_record" needs version 9.
    other_files: create it although its folder holds other files.
    Raises UserError (the table already exists, invalid arguments), SchemaError, OptionError.
    """
    fs = locate(path, storage_options=storage_options)
    if not other_files:
        check_empty(fs)
    functions = partition_by if isinstance(partition_by, PythonKeys) else None
    parsed = with_version(with_merge(parse_options(options), merge), version)
    fields, parsed = partitioned(parsed, partition_by)
    table = NewTable(
        arrow_schema(schema),
        text_of(name, "name") or parsed.request.name or table_name(os.fspath(path)),
        table_type_of(table_type),
        names_of(record_key),
        fields,
        names_of(ordering),
        parsed,
        index_of(index, parsed),
        functions,
    )
    checked = agreed(parsed, config_of(table))
    engine = engine or LocalEngine()
    create(fs, table, engine)
    return Table(fs, options=checked, engine=engine, functions=functions)


@leads_on
def doctor(
    path: str | os.PathLike[str],
    *,
    quick: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """`Table.doctor` for a table that may be too damaged to be opened."""
    return examine(locate(path, storage_options=storage_options), quick=quick)


@leads_on
def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    allow_loss: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> RepairReport:
    """`Table.repair` for a table that may be too damaged to be opened."""
    fs = locate(path, storage_options=storage_options)
    return execute_repair(fs, dry_run=dry_run, allow_loss=allow_loss)


@methods_lead_on
class Table(RowVerbs, WritingVerbs, ServiceVerbs, CareVerbs, CatalogVerbs):
    """A Hudi table.  Every call sees the current state; a Scan keeps the state it first saw."""

    def __init__(
        self,
        fs: FileSystem,
        *,
        options: Options,
        engine: Engine,
        functions: PythonKeys | None = None,
    ) -> None:
        self._fs = fs
        self._functions = functions
        self._options = options
        self._engine = engine
        self._last = load_state(fs, options.read, for_reading=True)
        self._fixed: TableState | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, a table is its place and options: opened again on the local engine."""
        return (_reopened, (self._fs, self._options, self._functions))

    def __copy__(self) -> Self:
        """The same table, of the same class and engine."""
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        return found

    def _state(self) -> TableState:
        if self._fixed is not None:
            return self._fixed
        self._last = load_state(self._fs, self._options.read, previous=self._last, for_reading=True)
        return self._last

    def frozen(self) -> Self:
        """This table as it is now: reads of the result see no later commit, so that several of them
        see one snapshot.  Its writes are those of the table.

        >>> now = trips.frozen()
        >>> _ = trips.delete(keys=["b"])
        >>> now.count(), trips.count()
        (2, 1)
        """
        return self._at(self._state())

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """This table with further `hoodie.*` options, which win over those it was opened with.

        Raises OptionError for unknown ones, and for those that conflict with the table's
        properties.

        >>> _ = trips.with_options({"hoodie.clean.commits.retained": 3}).clean()
        """
        found = copy(self)
        found._options = agreed(parse_options(options, self._options), self.config)
        return found

    def _at(self, state: TableState) -> Self:
        """This table as of a state."""
        found = copy(self)
        found._fixed = state
        return found

    def key_rule(self, *, with_paths: bool = True) -> KeyRule:
        """The rule that derives record keys and partition paths from rows."""
        return read_current(
            self._state,
            lambda state: rule_of(
                state, self._options, functions=self._functions, with_paths=with_paths
            ),
        )

    @property
    def path(self) -> str:
        """Where the table is, as `open_table` accepts it: an absolute path on the local disk, else
        a URL."""
        return self._fs.url

    @property
    def url(self) -> str:
        """The URL of the table, with a scheme: `file:///data/trips`, `s3://bucket/trips`."""
        return self.path if ":" in self.path.partition("/")[0] else Path(self.path).as_uri()

    @property
    def config(self) -> TableConfig:
        """The table's properties: name, table_type, version, record_key_fields, ..."""
        return self._state().config

    @property
    def schema(self) -> pa.Schema:
        """Columns of the newest snapshot, meta columns first."""
        return read_current(self._state, lambda state: state.schema())

    @property
    def timeline(self) -> Timeline:
        """The instants of the table, oldest first: `timeline.commits`, `.pending`, `.last`."""
        return self._state().timeline

    def position(self) -> str:
        """Where a reader that has seen the table up to now goes on: the `until` of this step, the
        `since` of the next, and an `as_of`.

        No commit that has completed is after it, and no pending one completes before it, so no
        change is missed.  At versions 8 and 9 it is a completion time.  At version 6 it is an
        instant before the oldest pending write; later commits are read again from there.
        "00000000000000" before the first commit.

        >>> position = trips.position()
        >>> _ = trips.upsert(pa.table({"id": ["d"], "fare": [40.0]}))
        >>> trips.changes(position, trips.position(), columns=["id"]).to_arrow().to_pylist()
        [{'id': 'd'}]
        """
        return read_current(self._state, current_position)

    def partitions(self) -> list[str]:
        """Partition paths; `[""]` for a non-partitioned table that has rows."""
        return read_current(self._state, lambda state: state.partitions())

    def file_slices(self, partition: str | None = None) -> list[FileSlice]:
        """The newest slice of every file group, of one partition or of all."""
        return read_current(self._state, lambda state: state.slices(partition))

    def scan(
        self,
        columns: str | Sequence[str] | None = None,
        where: Filter | None = None,
        *,
        as_of: PointInTime | None = None,
        mode: ScanModeName = "snapshot",
        with_meta: bool = True,
    ) -> Scan:
        """Rows of a snapshot.

        columns: in the requested order; None selects all.  as_of: an instant or a position,
        `2026-11-21`, `2026-11-21 09:30:00[.123]` in the table's time zone, ISO 8601 with a zone, a
        datetime, or `instant` or `name` of a pinned snapshot; not before the table's first commit
        (UserError).  Versions 8 and 9 return what had completed then.
        mode: "snapshot" or "read_optimized".  with_meta: whether `columns=None` includes
        `_hoodie_*`.

        >>> trips.scan(["id"], "fare > 15").to_arrow().to_pylist()
        [{'id': 'b'}]
        """
        return self._scan(
            ScanRequest(
                columns=selected_columns(columns),
                where=where,
                as_of=as_of,
                mode=scan_mode(mode),
                with_meta=with_meta,
                data_skipping=self._options.read.data_skipping,
            )
        )

    def changes(
        self,
        since: PointInTime,
        until: PointInTime | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        where: Filter | None = None,
        with_meta: bool = True,
        partitions: str | None = None,
        hollow_commits: str | None = None,
        hide_unchanged: bool = False,
    ) -> Scan:
        """Rows of the snapshot at `until` written by commits after `since`: the latest state of
        each key, without deleted keys (`capture` returns every change, including deletes).

        since is exclusive, until inclusive (None: the newest commit); "000" precedes all commits.
        Both are positions, as `position()` returns them: completion times at versions 8 and 9,
        instants at version 6.  An instant is converted to the position after it.
        partitions: a glob for partition paths.  hollow_commits: how to handle a pending write that
        precedes a completed one: "fail" (HollowCommitError), "block" (end before it) or
        "use_transition_time" (not supported by version 6); None takes it from the options.
        hide_unchanged: omit rows that are equal to those at `since`.

        >>> since = trips.timeline.commits.last.time
        >>> _ = trips.upsert(pa.table({"id": ["c"], "fare": [30.0]}))
        >>> trips.changes(since, columns=["id"]).to_arrow().to_pylist()
        [{'id': 'c'}]
        """
        options = self._options.read
        check_range(self._state(), since, until)
        change_range = ChangeRange(
            since,
            until,
            options.hollow_commits
            if hollow_commits is None
            else hollow_commit_policy(hollow_commits),
            partitions or options.partition_glob,
            hide_unchanged,
            options.incremental_fallback,
            options.schema_of_end,
        )
        return self._scan(
            ScanRequest(
                columns=selected_columns(columns),
                where=where,
                with_meta=with_meta,
                data_skipping=self._options.read.data_skipping,
                changes=change_range,
            )
        )

    def diff(
        self,
        a: PointInTime,
        b: PointInTime | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        where: Filter | None = None,
    ) -> pa.Table:
        """The row differences between the snapshots at `a` and at `b` (None: now), positions or
        instants as for `changes`.

        Returns [record_key, partition_path, change, before, after]: change is "insert", "update"
        or "delete"; before and after are structs of the columns, null if there is no row.
        Reads only file groups written by commits between the two.  where: selects rows that match
        before or after.

        >>> first = trips.timeline.commits.last.time
        >>> _ = trips.update({"fare": 11.0}, where="id = 'a'")
        >>> trips.diff(first, columns=["fare"]).select(["change", "after"]).to_pylist()
        [{'change': 'update', 'after': {'fare': 11.0}}]
        """
        names = selected_columns(columns)
        return read_current(
            self._state,
            lambda state: diff_rows(state, a, b, columns=names, where=where, engine=self._engine),
        )

    def capture(self, since: PointInTime, until: PointInTime | None = None) -> pa.Table:
        """Every change by every commit after `since` up to `until`, positions or instants as for
        `changes`; for tables that log changes (`hoodie.table.cdc.enabled`).

        Returns [op, ts_ms, partition_path, before, after]: op is "i", "u" or "d", ts_ms the
        commit's instant, before and after are structs of the columns.
        """
        change_range = ChangeRange(since, until, self._options.read.hollow_commits)

        def read(state: TableState) -> pa.Table:
            check_range(state, since, until)
            return capture_rows(state, change_range, engine=self._engine)

        return read_current(self._state, read)

    def history(self, key: Any) -> pa.Table:
        """All versions of one record whose files still exist, oldest first.

        key: as for `lookup`, of one record.  Returns [instant, operation, change, partition_path,
        file_id, row]: change is "insert", "update", "delete", or "gone" for commits whose files
        have been cleaned, so that their change to the record is unknown.

        >>> _ = trips.update({"fare": 11.0}, where="id = 'a'")
        >>> trips.history("a")["change"].to_pylist()
        ['insert', 'update']
        """

        def read(state: TableState) -> pa.Table:
            text = one_key_text(key, **self._keyed(state))
            return history_rows(state, text, engine=self._engine)

        return read_current(self._state, read)

    def _rows(self, where: Filter | None = None) -> Scan:
        return self.scan(where=where, with_meta=False)

    def _lazy(self) -> Scan:
        return Scan(self._state, ScanRequest(with_meta=False), engine=LocalEngine())

    def _scan(self, request: ScanRequest) -> Scan:
        return Scan(self._state, request, engine=self._engine)

    def lookup(self, keys: Any = None, *, where: Filter | None = None) -> pa.Table:
        """Location of each key: [record_key, partition_path, file_id, instant_time, found], one
        row per key in the given order.

        keys: one or several.  A string is a record key as stored, or, where keys are `id:value`
        and it does not begin with `id:`, the value; other values are values of the
        key column, formatted by the table's key generator; tuples and dicts have a value for each
        key column, as does a table of these columns.  where: instead of keys, the rows to locate;
        uses secondary indexes like `scan`.  Raises IndexNotReadyError without an index that stores
        entries, UserError for keys that do not match the key columns.

        >>> trips.lookup(["a", "nobody"])["found"].to_pylist()
        [True, False]
        """
        return self._lookup(keys, where, self._engine)

    def _lookup(self, keys: Any, where: Filter | None, engine: Engine) -> pa.Table:
        if (keys is None) == (where is None):
            raise UserError("pass exactly one of keys and where=")
        return read_current(self._state, lambda state: self._places(state, keys, where, engine))

    def _places(
        self, state: TableState, keys: Any, where: Filter | None, engine: Engine
    ) -> pa.Table:
        if where is not None:
            skips = self._options.read.data_skipping
            request = ScanRequest((state.rules.key_column,), where, data_skipping=skips)
            keys = Scan(lambda: state, request, engine=engine).to_arrow().column(0)
        return lookup(state, self._options, self._key_texts(keys, state), engine)

    def fetch(self, keys: Any, columns: str | Sequence[str] | None = None) -> pa.Table:
        """The rows with these keys; reads only their file groups.  keys: as for `lookup`.

        >>> trips.fetch("b", ["fare"]).to_pylist()
        [{'fare': 20.0}]
        """
        return self._fetch(keys, selected_columns(columns), self._engine)

    def _fetch(self, keys: Any, columns: tuple[str, ...] | None, engine: Engine) -> pa.Table:
        if keys is None:
            raise UserError("no keys given", hint="fetch(['k1', 'k2'])")

        def read(state: TableState) -> pa.Table:
            places = self._places(state, keys, None, engine)
            return fetch_rows(state, places, columns=columns, engine=engine)

        return read_current(self._state, read)

    def _key_texts(self, keys: Any, state: TableState | None = None) -> pa.Array:
        """Record keys as strings, from keys in any accepted form.  state: loaded if None."""
        return key_texts(keys, **self._keyed(state or self._state()))

    def _keyed(self, state: TableState) -> dict[str, Any]:
        return {
            "fields": state.config.record_key_fields,
            "schema": state.schema(),
            "rule": lambda: self.key_rule(with_paths=False),
            "may_have_names": may_have_names(state.config),
        }

    @property
    def index(self) -> TableIndex:
        """The table's record index: lookup, statistics, verification, repair and rebuild."""
        return TableIndex(self._fs, self._options, self._engine, self._state, self._key_texts)

    def _doomed(self, rows: Any, keys: Any, where: Filter | None) -> Rows:
        return keys_to_delete(self, rows, keys, where)

    def _places_to_delete(self, rows: Any) -> Rows:
        """Records given by their keys and partition paths, in columns of these names."""
        found = arrow_table(rows)
        paths = found.column(PARTITION_PATH).combine_chunks().dictionary_encode()
        return KeyRows(found.column(RECORD_KEY), pa.chunked_array([paths]))

    def __getitem__(self, name: Any) -> Any:
        """Raises TypeError: a table is read by `scan`."""
        reads = f"table.scan([{name!r}]) reads columns"
        if isinstance(name, int | slice):  # an iteration asks for the item 0
            reads = "table.head(10) and table.scan().to_batches() read rows"
        raise TypeError(f"a Table has no items; {reads}")

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scan().__arrow_c_stream__(requested_schema)

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise unknown_name("a Table", name, dir(type(self)), other_names.TABLE)

    def __repr__(self) -> str:
        try:
            title, facts = read_current(self._state, self._described)
        except (PyhudiError, OSError):  # damaged, deleted or out of reach
            return f"{type(self).__name__}({self._fs.url!r})"
        return facts_text(title, facts)

    def _repr_html_(self) -> str:
        title, facts = read_current(self._state, self._described)
        return card_html(title, facts_html(facts)) + self.timeline._repr_html_()

    def _described(self, state: TableState) -> tuple[str, dict[str, str]]:
        return described(self._fs.url, state)
