"""Methods that write to a table, on one machine and on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pyhudi.api.ingest_methods import IngestVerbs
from pyhudi.api.input_conversion import (
    SchemaModeName,
    incoming_rows,
    names_of,
    schema_mode_of,
    selected_columns,
)
from pyhudi.api.merge_builder import TableMerge
from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import UserError
from pyhudi.keygen.generators import PythonKeys
from pyhudi.operations.publish import as_if_published, discard_deferred
from pyhudi.operations.write import publish, write
from pyhudi.options import Options, SchemaMode
from pyhudi.read.filters import as_predicate
from pyhudi.read.scan import Scan
from pyhudi.read.scan_plan import ScanRequest
from pyhudi.read.sql.sql_filter import Filter, as_value
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime, without_meta
from pyhudi.storage.filesystem import FileSystem
from pyhudi.transaction.deferred_publish import deferred_writes
from pyhudi.write.input.batch import NoRows, Rows, StreamRows
from pyhudi.write.input.row_replay import ReplayedRows
from pyhudi.write.input.source_checkpoint import SourceAdvance
from pyhudi.write.matched_rows import matched_rows
from pyhudi.write.merge_clauses import Clause, ConditionalMerge, compiled, source_schema
from pyhudi.write.schema_changes import SchemaChange
from pyhudi.write.updated_rows import check_assignments, updated_rows
from pyhudi.write.write_context import Operation, WriteRequest
from pyhudi.write.write_report import WriteReport


class WritingVerbs(IngestVerbs):
    """Write methods of a table."""

    _fs: FileSystem
    _options: Options
    _engine: Engine
    _functions: PythonKeys | None
    _unstated_mode: ClassVar[SchemaMode] = SchemaMode.STRICT
    """The schema mode of a call that states none."""

    def _state(self) -> TableState:
        raise NotImplementedError

    def upsert(
        self,
        rows: Any,
        *,
        skip_unchanged: bool = False,
        dry_run: bool = False,
        publish: bool = True,
        schema_mode: SchemaModeName | None = None,
    ) -> WriteReport:
        """Insert rows with new keys; merge the others with the stored records.

        rows: any object with `__arrow_c_stream__`.  Rows with `_hoodie_is_deleted` delete records.
        skip_unchanged: do not write rows that would not change their record; reads the file groups
        of the rows.  dry_run: plan only; nothing changes.
        publish: False writes everything but leaves it invisible until `publish(report.instant)` or
        `discard(report.instant)`.  schema_mode: which changes of the table's columns are allowed:
        "strict" (none, the default), "add" (new columns), "widen" (also wider types).
        Raises SchemaError, UserError before anything is written; LockError, WriteConflictError,
        after which the table is unchanged.

        >>> report = trips.upsert(pa.table({"id": ["b", "c"], "fare": [25.0, 30.0]}))
        >>> report.updated, report.inserted
        (1, 1)
        """
        return self._write(
            Operation.UPSERT,
            self._incoming(rows),
            dry_run=dry_run,
            publish=publish,
            schema_mode=schema_mode,
            skip_unchanged=skip_unchanged,
        )

    def insert(
        self,
        rows: Any,
        *,
        dry_run: bool = False,
        publish: bool = True,
        schema_mode: SchemaModeName | None = None,
    ) -> WriteReport:
        """Add rows without looking up their keys: existing keys become duplicates.

        >>> trips.insert(pa.table({"id": ["d"], "fare": [40.0]})).inserted
        1
        """
        return self._write(
            Operation.INSERT,
            self._incoming(rows),
            dry_run=dry_run,
            publish=publish,
            schema_mode=schema_mode,
        )

    def bulk_insert(
        self,
        rows: Any,
        *,
        dry_run: bool = False,
        publish: bool = True,
        schema_mode: SchemaModeName | None = None,
    ) -> WriteReport:
        """`insert` into new file groups only: fastest for large loads."""
        return self._write(
            Operation.BULK_INSERT,
            self._incoming(rows),
            dry_run=dry_run,
            publish=publish,
            schema_mode=schema_mode,
        )

    def insert_overwrite(
        self,
        rows: Any,
        *,
        dry_run: bool = False,
        publish: bool = True,
        schema_mode: SchemaModeName | None = None,
    ) -> WriteReport:
        """Replace all partitions that the rows belong to.

        With `hoodie.datasource.overwrite.mode=static` every partition is replaced, as by
        `insert_overwrite_table`; with `hoodie.static.overwrite.partition.paths` the listed ones.
        The report counts the replaced rows as `deleted`.
        """
        operation, incoming = Operation.INSERT_OVERWRITE, self._incoming(rows)
        requested = self._options.request
        partitions = requested.partitions_to_overwrite
        if requested.is_overwrite_static and not partitions:
            operation = Operation.INSERT_OVERWRITE_TABLE
        return self._write(
            operation,
            incoming,
            dry_run=dry_run,
            publish=publish,
            schema_mode=schema_mode,
            partitions=partitions,
        )

    def insert_overwrite_table(
        self,
        rows: Any,
        *,
        dry_run: bool = False,
        publish: bool = True,
        schema_mode: SchemaModeName | None = None,
    ) -> WriteReport:
        """Replace all rows of the table; an empty batch empties it."""
        return self._write(
            Operation.INSERT_OVERWRITE_TABLE,
            self._incoming(rows),
            dry_run=dry_run,
            publish=publish,
            schema_mode=schema_mode,
        )

    def delete_partitions(
        self, paths: str | Sequence[str], *, dry_run: bool = False, publish: bool = True
    ) -> WriteReport:
        r"""Delete whole partitions by their paths; `*` matches any characters and `\*` an
        asterisk, unless the table has a partition of that very path.

        Paths that match no partition are listed in the report's notes.
        """
        named = names_of(paths)
        if not named:
            raise UserError("no partitions given", hint="delete_partitions(['city=sf'])")
        return self._write(
            Operation.DELETE_PARTITION, NoRows(), dry_run=dry_run, publish=publish, partitions=named
        )

    def delete(
        self,
        rows: Any = None,
        *,
        keys: Any = None,
        where: Filter | None = None,
        dry_run: bool = False,
        publish: bool = True,
    ) -> WriteReport:
        """Delete records by `keys` (as for `lookup`), by rows with the key columns, or by a
        predicate.

        Deletes every row with a key, including duplicates; a predicate deletes rows of the file
        groups in which it matches.  Keys that do not exist are counted as `missing_keys`.  A
        predicate applies to the rows as of the commit of the delete: rows that another writer
        changes concurrently are evaluated again.

        >>> trips.delete(keys=["a", "nobody"]).missing_keys
        1
        >>> trips.delete(where="fare > 15").deleted
        1
        """
        finds: Callable[[TableState], Rows] | None = None
        doomed: Rows = NoRows()
        if where is not None and rows is None and keys is None:
            finds = self._finds(where)
        else:
            doomed = self._doomed(rows, keys, where)
        return self._write(Operation.DELETE, doomed, dry_run=dry_run, publish=publish, finds=finds)

    def update(
        self,
        set: Mapping[str, Any],
        where: Filter | None = None,
        *,
        dry_run: bool = False,
        publish: bool = True,
    ) -> WriteReport:
        """Change columns of the rows that match a predicate, or of all rows.

        set: column -> new value: SQL text over the columns of the row (`"fare * 2"`, `"'sf'"`), an
        Arrow expression, or any other value.  Key and partition columns cannot change.
        Reads the file groups with matching rows, and upserts the rows.  The predicate applies to
        the rows as of the commit of the update, as for `delete`.
        Raises UserError for unknown columns and for values that do not fit.

        >>> trips.update({"fare": "fare * 2"}, where="id = 'a'").updated
        1
        """
        state, stored = self._current_schema()
        schema = without_meta(stored)
        check_assignments(set, schema, state.config)
        if where is not None:
            as_predicate(where, stored)
        none = StreamRows(pa.RecordBatchReader.from_batches(schema, ()))
        return self._write(
            Operation.UPSERT,
            none,
            dry_run=dry_run,
            publish=publish,
            finds=self._updates(set, where, schema),
        )

    def _updates(
        self, values: Mapping[str, Any], where: Filter | None, schema: pa.Schema
    ) -> Callable[[TableState], Rows]:
        """A search for the rows to update.  schema: the table's user columns.

        Raises UserError if a value does not fit its column.
        """
        for name, value in values.items():
            as_value(value, schema, schema.field(name).type)
        skips = self._options.read.data_skipping
        return lambda state: updated_rows(state, values, where, data_skipping=skips)

    def merge(self, rows: Any) -> TableMerge:
        """A merge of rows by clauses: which matched records to update or delete, and which new
        rows to insert.  `execute` writes all of it as one commit.

        rows: as for `upsert`, with the columns of the record key and the partition; other columns
        need not be the table's.

        >>> events = pa.table({"id": ["a", "c"], "fare": [0.0, 30.0], "op": ["D", "U"]})
        >>> merge = trips.merge(events).when_matched_delete("op = 'D'").when_not_matched_insert()
        >>> report = merge.execute()
        >>> report.deleted, report.inserted
        (1, 1)
        """
        incoming = self._incoming(rows)

        def execute(clauses: tuple[Clause, ...], *, dry_run: bool, publish: bool) -> WriteReport:
            state, stored = self._current_schema()
            schema = without_meta(stored)
            fills = self._options.write.null_for_missing
            given = incoming.schema
            source = source_schema(given, schema, state.config, fills_missing=fills)
            compiled(clauses, source, schema, state.config)
            return self._write(
                Operation.UPSERT,
                StreamRows(pa.RecordBatchReader.from_batches(schema, ())),
                dry_run=dry_run,
                publish=publish,
                merge=ConditionalMerge(ReplayedRows(incoming), clauses),
            )

        return TableMerge(execute, is_stream=isinstance(incoming, StreamRows))

    def publish(self, instant: str) -> WriteReport:
        """Make a write with `publish=False` visible to readers.  Returns its report.

        Raises UserError if no deferred write exists at this instant, WriteConflictError if a writer
        that does not support deferred writes has committed since.
        """
        return publish(self._fs, self._options, self._engine, instant)

    def preview(
        self,
        instant: str,
        columns: str | Sequence[str] | None = None,
        where: Filter | None = None,
        *,
        with_meta: bool = True,
    ) -> Scan:
        """Rows of the snapshot as if a deferred write were published, for audits."""
        state = as_if_published(self._state(), InstantTime(instant))
        request = ScanRequest(columns=selected_columns(columns), where=where, with_meta=with_meta)
        return Scan(lambda: state, request, engine=LocalEngine())

    def discard(self, instant: str) -> WriteReport:
        """Roll back a write with `publish=False`.  Raises UserError if there is none."""
        return discard_deferred(self._fs, instant, self._options.write, self._engine)

    def unpublished(self) -> list[str]:
        """Instants of unpublished writes.  While there is one, pyhudi begins no other."""
        return [i.time for i in deferred_writes(self._fs, self._state().timeline)]

    def _doomed(self, rows: Any, keys: Any, where: Filter | None) -> Rows:
        """The keys of the records to delete, given by exactly one of the arguments."""
        raise NotImplementedError

    def _finds(self, where: Filter) -> Callable[[TableState], Rows]:
        """A search for matching rows.  Raises UserError if `where` does not match the schema."""
        _, schema = self._current_schema()
        as_predicate(where, schema)
        skips = self._options.read.data_skipping
        return lambda state: matched_rows(state, where, data_skipping=skips)

    def _incoming(self, rows: Any) -> Rows:
        return incoming_rows(rows)

    def _write(
        self,
        operation: Operation,
        rows: Rows,
        *,
        dry_run: bool,
        partitions: tuple[str, ...] = (),
        skip_unchanged: bool = False,
        publish: bool = True,
        schema_mode: SchemaModeName | None = None,
        finds: Callable[[TableState], Rows] | None = None,
        merge: ConditionalMerge | None = None,
        advance: SourceAdvance | None = None,
        changes: tuple[SchemaChange, ...] = (),
    ) -> WriteReport:
        request = WriteRequest(
            operation,
            rows,
            self._options,
            self._engine,
            dry_run,
            partitions=partitions,
            functions=self._functions,
            schema_mode=schema_mode_of(schema_mode) or self._unstated_mode,
            skip_unchanged=skip_unchanged,
            publish=publish,
            finds=finds,
            merge=merge,
            advance=advance,
            changes=changes,
        )
        return write(self._fs, request)
