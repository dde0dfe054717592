"""Methods of the index of a table: `table.index`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from pyhudi.api.input_conversion import count_of, text_of
from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.index.expression_build import ExpressionRequest
from pyhudi.index.index_creation import IndexCreation
from pyhudi.index.maintenance.rebuild import ReportProgress, silent
from pyhudi.index.maintenance.reports import IndexCheck, IndexRebuild, IndexRepair
from pyhudi.index.maintenance.stats import IndexStats, index_entries, index_stats
from pyhudi.metadata.record_index.lookup_explain import explain_lookup
from pyhudi.operations import (
    expression_index,
    external_indexes,
    record_index,
    secondary_index,
)
from pyhudi.operations.external_indexes import rebuild_store, rebuild_store_plan
from pyhudi.options import IndexKind, Options
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.read.time_travel import PointInTime, as_bound, as_instant
from pyhudi.services.indexing.index_lookup import index_that_answers, lookup
from pyhudi.storage.filesystem import FileSystem


class TableIndex:
    """The record index of one table.  Every call sees the current state of the table."""

    def __init__(
        self,
        fs: FileSystem,
        options: Options,
        engine: Engine,
        state: Callable[[], TableState],
        key_texts: Callable[[Any, TableState], pa.Array],
    ) -> None:
        self._fs = fs
        self._options = options
        self._engine = engine
        self._state = state
        self._key_texts = key_texts

    def lookup(self, keys: Any, *, as_of: PointInTime | None = None) -> pa.Table:
        """Location of each key: [record_key, partition_path, file_id, instant_time, found].

        as_of: the location when that instant was the newest.  Raises IndexNotReadyError without an
        index, SnapshotExpiredError where the files of the index do not reach back to that time.
        """
        return read_current(self._state, lambda state: self._lookup(state, keys, as_of))

    def _lookup(self, state: TableState, keys: Any, as_of: PointInTime | None) -> pa.Table:
        keys = self._key_texts(keys, state)
        if as_of is None:
            return lookup(state, self._options, keys, self._engine)
        now = state.record_index  # raises where there is none
        assert state.metadata is not None and now.shard_count
        time = as_instant(as_of, state.zone)
        return state.metadata.record_index_as_of(time).lookup(keys, engine=self._engine)

    def explain(self, keys: Any) -> pa.Table:
        """Look up keys, and report for each file that was read the method (seek or scan), the
        estimated cost of both methods and the actual cost, in seconds.

        Returns [bucket, file, entries, keys, found, method, seek_seconds, scan_seconds, seconds].
        """
        state = self._state()
        texts = self._key_texts(keys, state)
        return explain_lookup(state.fs, state.record_index, texts.drop_null())

    def entries(self, since: PointInTime, until: PointInTime | None = None) -> pa.Table:
        """Index entries written by commits after `since` up to `until` (None: the newest).

        Returns [record_key, commit, ended, partition_path, file_id]: ended marks deleted keys.
        "000" precedes all commits.  After a compaction of the index, only the newest entry of each
        key is returned, and tombstones that the compaction dropped are not.
        """
        state = self._state()
        newest = state.timeline.commits.last
        upto = as_bound(until, state.zone) if until is not None else newest.time if newest else "0"
        return index_entries(state, self._engine, as_bound(since, state.zone), upto)

    def stats(self) -> IndexStats:
        """Entries, bytes, load and skew by bucket, and recommendations.

        Cost: the trailer of each file; for the HBase index a scan of its table.  Entry counts of
        the RocksDB index are the estimates of its stores.
        """
        state = self._state()
        kind = index_that_answers(state, self._options)
        if kind.is_store:
            return external_indexes.stats_of_store(state, self._options, self._engine, kind)
        return index_stats(state, self._engine)

    def verify(self, sample: int | None = None) -> IndexCheck:
        """Verify the index against the table, in both directions.

        sample: None checks every key and every entry; a number checks that many of each, drawn at
        random, and the report states the share of faults that may remain undetected.
        Cost: reads the key column of the table and every file of the index once; memory for a few
        file slices.  Takes no lock and changes nothing.  The RocksDB and HBase indexes are always
        checked in full.  Raises IndexNotReadyError without an index or if it is behind the table.
        """
        count, state = count_of(sample, "sample"), self._state()
        kind = index_that_answers(state, self._options)
        if kind.is_store:
            return external_indexes.verify_store(state, self._options, self._engine, kind)
        return record_index.verify(state, self._engine, sample=count)

    def compare(self, since: PointInTime, until: PointInTime | None = None) -> IndexCheck:
        """Verify the index against only the changes of commits after `since` up to `until` (None:
        the newest).  A job that runs concurrently with writers passes the `instant` of its last
        check.

        Cost is proportional to the changes: their rows, a lookup of each, and the key columns of
        their file slices.
        """
        state = self._state()
        upto = None if until is None else str(as_bound(until, state.zone))
        return record_index.compare(state, self._engine, str(as_bound(since, state.zone)), upto)

    def repair(self, *, dry_run: bool = False) -> IndexRepair:
        """Check every key and repair wrong entries: the record index by one commit without rows,
        RocksDB by another checkpoint of the newest commit, HBase by puts and deletes of rows.

        dry_run: report only.  Raises LockError, WriteConflictError; the table is then unchanged.
        """
        kind = index_that_answers(self._state(), self._options)
        if kind.is_store and dry_run:
            return external_indexes.repair_store_plan(
                self._state(), self._options, self._engine, kind
            )
        if kind.is_store:
            return external_indexes.repair_faults(self._fs, self._options, self._engine, kind)
        if dry_run:
            return record_index.repair_plan(self._state(), self._engine)
        return record_index.repair_index(self._fs, self._options, self._engine)

    def rebuild(
        self,
        buckets: int | None = None,
        *,
        kind: str | None = None,
        dry_run: bool = False,
        progress: ReportProgress | None = None,
    ) -> IndexRebuild:
        """Build the index from the table's keys: if it is missing or damaged, or to change the
        number of buckets.

        buckets: None keeps the current number; a first index takes it from the options, or a
        greater one if the table has more than a million rows per bucket.  The new index is built
        next to the old one, verified against the table, and then replaces it.  Keys are read
        without the lock; a build that was killed resumes where it stopped.  progress: called after
        every few tasks.  kind: "record", "elastic", "rocksdb" or "hbase"; None: the kind in
        `hoodie.index.type` or else of the table, or the record index if that kind stores no
        entries.  A table has either a record index or an elastic one: the other is removed.
        dry_run: report only.  Raises IndexNotReadyError while a write is pending.
        """
        buckets = count_of(buckets, "buckets")
        built = self._kind(text_of(kind, "kind"))
        if built.is_store:
            if dry_run:
                return rebuild_store_plan(self._state(), self._options, built, buckets)
            return rebuild_store(
                self._fs, self._options, self._engine, built, buckets, progress or silent
            )
        if dry_run:
            return record_index.rebuild_plan(self._state(), self._options, built, buckets)
        report_progress = progress or silent
        return record_index.rebuild_index(
            self._fs, self._options, self._engine, built, buckets, report_progress
        )

    def create(
        self,
        kind: str,
        column: str,
        *,
        name: str | None = None,
        expression: str | None = None,
        using: str = "column_stats",
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> IndexCreation:
        """Create an index on a column; kind: "secondary" or "expression" (table versions 8 and 9).

        name: of the index; None: one made of the column's.  The index is built from the newest
        snapshot, and every later write maintains it.  A secondary index needs a record index.
        expression: the function of the column that an expression index describes, such as
        "from_unixtime"; options: its arguments, such as {"format": "yyyy-MM-dd"}; using:
        "column_stats" for ranges, "bloom_filters" for filters of the function's values in a file.
        Cost: reads the key column and the indexed column of the table.  Raises UserError,
        SchemaError, UnsupportedTableError, and IndexNotReadyError while a write is pending.
        """
        match text_of(kind, "kind"):
            case "secondary":
                return secondary_index.create_index(
                    self._fs, self._options, self._engine, column, text_of(name, "name"),
                    dry_run=dry_run,
                )  # fmt: skip
            case "expression":
                request = _expression_request(column, name, expression, using, options or {})
                return expression_index.create_on_expression(
                    self._fs, self._options, self._engine, request, dry_run=dry_run
                )
        raise UserError(
            "no index of this kind can be created", kind=kind, hint="'secondary', 'expression'"
        )

    def drop(self, name: str, *, dry_run: bool = False) -> str:
        """Remove a secondary or expression index; name: with or without its prefix.

        Returns the name of its metadata partition.  Raises UserError where the table has no such
        index.
        """
        return secondary_index.drop_index(self._fs, self._options, name, dry_run=dry_run)

    def list(self) -> pa.Table:
        """The indexes in the metadata table: [name, columns, version]."""
        return secondary_index.listed_indexes(self._state())

    def _kind(self, name: str | None) -> IndexKind:
        requested = self._options.write.index
        if name is None and requested is not None and requested.is_record_index:
            return requested
        if name is None:
            return index_that_answers(self._state(), self._options)
        kinds = [kind for kind in IndexKind if kind.stores_entries]
        found = next((kind for kind in kinds if kind.value == name.lower()), None)
        if found is None:
            raise UserError(
                "no index of this kind can be built from keys", kind=name,
                hint="use " + ", ".join(kind.value for kind in kinds),
            )  # fmt: skip
        return found

    def __repr__(self) -> str:
        return f"TableIndex({self._fs.url!r})"


def _expression_request(
    column: str, name: str | None, expression: str | None, using: str, options: Mapping[str, Any]
) -> ExpressionRequest:
    function = text_of(expression, "expression")
    if not function:
        raise UserError(
            "an expression index needs an expression", column=column,
            hint="expression='from_unixtime', options={'format': 'yyyy-MM-dd'}",
        )  # fmt: skip
    own_name, entries = text_of(name, "name"), text_of(using, "using") or ""
    given = {str(key): str(value) for key, value in options.items()}
    return ExpressionRequest(column, function, entries, own_name, given)
