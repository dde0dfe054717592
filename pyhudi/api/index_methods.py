"""Methods of the index of a table: `table.index`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.input_conversion import count_of, names_of, required_text, text_of
from pyhudi.api.other_arguments import methods_lead_on
from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.index.expression_build import ExpressionRequest
from pyhudi.index.file_stats_build import StatsRequest
from pyhudi.index.index_creation import IndexCreation, IndexRequest, RecordRequest
from pyhudi.index.maintenance.rebuild import ReportProgress, silent
from pyhudi.index.maintenance.reports import IndexCheck, IndexRebuild, IndexRepair
from pyhudi.index.maintenance.stats import IndexStats, index_entries, index_stats
from pyhudi.index.secondary.build import SecondaryRequest
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from pyhudi.metadata.record_index.lookup_explain import explain_lookup
from pyhudi.operations import external_indexes, metadata_indexes, record_index
from pyhudi.operations.external_indexes import plan_store_rebuild, rebuild_store
from pyhudi.options import IndexKind, Options
from pyhudi.read.positions import moment_at
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import BEFORE_ALL_INSTANTS
from pyhudi.services.indexing.location_lookup import index_that_answers, lookup
from pyhudi.storage.filesystem import FileSystem

INDEX_KINDS: Final = (
    "record", "partitioned_record", "column_stats", "partition_stats", "bloom_filters", "secondary",
    "expression",
)  # fmt: skip
"""Kinds of index that `TableIndex.create` builds."""
_LARGEST_SAMPLE: Final = 100_000_000
"""Rows are drawn with replacement and held in memory."""


@methods_lead_on
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
        assert state.metadata is not None and now.bucket_count
        moment, limit = moment_at(state, as_of)
        if limit is None:
            limit = moment.commits[-1].time if moment.commits else BEFORE_ALL_INSTANTS
        return state.metadata.record_index_as_of(limit).lookup(keys, engine=self._engine)

    def explain(self, keys: Any) -> pa.Table:
        """Look up keys, and report for each file that was read the method (seek or scan), the
        estimated cost of both methods and the actual cost, in seconds.

        Returns [bucket, file, entries, keys, found, method, seek_seconds, scan_seconds, seconds].
        """

        def read(state: TableState) -> pa.Table:
            texts = self._key_texts(keys, state)
            return explain_lookup(state.fs, state.record_index, texts.drop_null())

        return read_current(self._state, read)

    def entries(self, since: PointInTime, until: PointInTime | None = None) -> pa.Table:
        """Index entries written by commits after `since` up to `until` (None: the newest).

        Returns [record_key, commit, ended, partition_path, file_id]: ended marks deleted keys.
        "000" precedes all commits.  After a compaction of the index, only the newest entry of each
        key is returned, and tombstones that the compaction dropped are not.
        """
        return read_current(
            self._state, lambda state: index_entries(state, self._engine, since, until)
        )

    def stats(self) -> IndexStats:
        """Entries, bytes, load and skew by bucket, and recommendations.

        Cost: the trailer of each file; for the HBase index a scan of its table.  Entry counts of
        the RocksDB index are the estimates of its stores.
        """

        def read(state: TableState) -> IndexStats:
            kind = index_that_answers(state, self._options)
            if kind.is_store:
                return external_indexes.stats_of_store(state, self._options, self._engine, kind)
            return index_stats(state, self._engine)

        return read_current(self._state, read)

    def verify(self, sample: int | None = None) -> IndexCheck:
        """Verify the index against the table, in both directions.

        sample: None checks every key and every entry; a number checks that many of each, drawn at
        random, and the report states the share of faults that may remain undetected.
        Cost: reads the key column of the table and every file of the index once; memory for a few
        file slices.  Takes no lock and changes nothing.  The RocksDB and HBase indexes are always
        checked in full.  Raises IndexNotReadyError without an index or if it is behind the table.
        """
        count = count_of(sample, "sample")
        if count is not None and count > _LARGEST_SAMPLE:
            raise UserError(
                "the sample is too large",
                sample=count,
                largest=_LARGEST_SAMPLE,
                hint="leave sample out: that checks every key and every entry",
            )

        def read(state: TableState) -> IndexCheck:
            kind = index_that_answers(state, self._options)
            if kind.is_store:
                return external_indexes.verify_store(state, self._options, self._engine, kind)
            return record_index.verify(state, self._engine, sample=count)

        return read_current(self._state, read)

    def compare(self, since: PointInTime, until: PointInTime | None = None) -> IndexCheck:
        """Verify the index against only the changes of commits after `since` up to `until` (None:
        the newest).  A job that runs concurrently with writers passes the `instant` of its last
        check.

        Cost is proportional to the changes: their rows, a lookup of each, and the key columns of
        their file slices.
        """
        return read_current(
            self._state, lambda state: record_index.compare(state, self._engine, since, until)
        )

    def repair(self, *, dry_run: bool = False) -> IndexRepair:
        """Check every key and repair wrong entries: the record index by one commit without rows,
        RocksDB by another checkpoint of the newest commit, HBase by puts and deletes of rows.

        dry_run: report only.  Raises LockError, WriteConflictError; the table is then unchanged.
        """
        kind = index_that_answers(self._state(), self._options)
        if kind.is_store and dry_run:
            return external_indexes.plan_store_repair(
                self._state(), self._options, self._engine, kind
            )
        if kind.is_store:
            return external_indexes.repair_faults(self._fs, self._options, self._engine, kind)
        if dry_run:
            return record_index.plan_repair(self._state(), self._engine)
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
        every few tasks.  kind: "record", "partitioned_record", "elastic", "rocksdb" or "hbase";
        None: the kind in `hoodie.index.type` or else of the table, or the record index if that kind
        stores no entries.  A table has one of the first three: the others are removed, except that
        an index by partition is never replaced by a global one.  buckets of an index by partition:
        of each partition.
        dry_run: report only.  Raises IndexNotReadyError while a write is pending.
        """
        buckets = count_of(buckets, "buckets")
        built = self._kind(text_of(kind, "kind"))
        if built.is_store:
            if dry_run:
                return plan_store_rebuild(self._state(), self._options, built, buckets)
            return rebuild_store(
                self._fs, self._options, self._engine, built, buckets, progress or silent
            )
        if dry_run:
            return record_index.plan_rebuild(self._state(), self._options, built, buckets)
        report_progress = progress or silent
        return record_index.rebuild_index(
            self._fs, self._options, self._engine, built, buckets, report_progress
        )

    def create(
        self,
        kind: str,
        column: str | Sequence[str] | None = None,
        *,
        name: str | None = None,
        expression: str | None = None,
        using: str | None = None,
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> IndexCreation:
        """Create an index of the metadata table, which every later write maintains.

        kind: "record", "bloom_filters" or "column_stats"; at table versions 8 and 9 also
        "partition_stats", "secondary" or "expression", and at version 9 "partitioned_record", a
        record index with file groups for each partition, where a key in two partitions is two
        records.  column: of a secondary or expression index;
        one or several of column statistics at 8 and 9, where None means those in
        `hoodie.metadata.index.column.stats.column.list` or else the first 32.  The index is built
        from the newest snapshot.  A secondary index needs a record index, partition statistics need
        column statistics.
        name: of a secondary or expression index; None: one made of the column's.
        expression: the function of the column that an expression index describes, such as
        "from_unixtime"; options: its arguments, such as {"format": "yyyy-MM-dd"}; using:
        "column_stats" (the default) for ranges, "bloom_filters" for filters of the function's
        values in a file.
        Cost: record: reads the key column; secondary and expression: also the indexed column;
        others: the footer of every base file and every log.  Raises UserError, SchemaError,
        UnsupportedTableError, and IndexNotReadyError while a write is pending.
        """
        given = _Given(name, expression, using, options)
        request = self._request(required_text(kind, "kind"), column, given)
        return metadata_indexes.create_index(
            self._fs, self._options, self._engine, request, dry_run=dry_run
        )

    def _request(
        self, kind: str, column: str | Sequence[str] | None, given: _Given
    ) -> IndexRequest:
        facts = self._options.write.facts
        if kind == "expression":
            return _expression_request(_one_column(column, kind), given)
        given.check_none(kind, "expression", "using", "options")
        if kind == "secondary":
            return SecondaryRequest(_one_column(column, kind), text_of(given.name, "name"))
        given.check_none(kind, "name")
        if kind == "column_stats":
            return StatsRequest(
                COLUMN_STATS,
                facts.column_stats_groups,
                _columns(column),
                facts.stats_columns,
                facts.stats_columns_max,
            )
        if column is not None:
            raise UserError("an index of this kind has no columns to choose", kind=kind)
        match kind:
            case "partition_stats":
                return StatsRequest(PARTITION_STATS, 1)
            case "bloom_filters":
                return StatsRequest(BLOOM_FILTERS, facts.bloom_filters_groups)
            case "record":
                return RecordRequest(self._options.write)
            case "partitioned_record":
                return RecordRequest(self._options.write, partitioned=True)
        raise UserError(
            "no index of this kind can be created", kind=kind, hint=", ".join(INDEX_KINDS)
        )

    def drop(self, name: str, *, dry_run: bool = False) -> str:
        """Remove an index of the metadata table; name: as in `list`, with or without its prefix.

        Returns the name of its metadata partition.  Without a record index, a table for which no
        other index is configured cannot be written.  Raises UserError where the table has no such
        index, or where another index needs it.
        """
        return metadata_indexes.drop_index(
            self._fs, self._options, self._engine, required_text(name, "name"), dry_run=dry_run
        )

    def list(self) -> pa.Table:
        """The indexes in the metadata table: [name, columns, version]."""
        return metadata_indexes.listed_indexes(self._state())

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
                "no index of this kind can be built from keys",
                kind=name,
                hint="use " + ", ".join(kind.value for kind in kinds),
            )
        return found

    def __repr__(self) -> str:
        return f"TableIndex({self._fs.url!r})"


@dataclass(frozen=True, slots=True)
class _Given:
    """Arguments of `create` that only some kinds have."""

    name: str | None
    expression: str | None
    using: str | None
    options: Mapping[str, Any] | None

    def check_none(self, kind: str, *arguments: str) -> None:
        """Raise UserError for an argument that this kind of index does not have."""
        for argument in arguments:
            if getattr(self, argument) is not None:
                raise UserError(
                    "an index of this kind has no such argument", kind=kind, argument=argument
                )


def _columns(column: str | Sequence[str] | None) -> tuple[str, ...]:
    found = names_of(column)
    if not all(found):
        raise UserError("a column is stated by its name", column=column)
    return found


def _one_column(column: str | Sequence[str] | None, kind: str) -> str:
    columns = _columns(column)
    if len(columns) != 1:
        raise UserError(
            "an index of this kind has one column", kind=kind, columns=",".join(columns) or None
        )
    return columns[0]


def _expression_request(column: str, given: _Given) -> ExpressionRequest:
    function = text_of(given.expression, "expression")
    if not function:
        raise UserError(
            "an expression index needs an expression",
            column=column,
            hint="expression='from_unixtime', options={'format': 'yyyy-MM-dd'}",
        )
    using = text_of(given.using, "using") or "column_stats"
    arguments = {str(key): str(value) for key, value in (given.options or {}).items()}
    return ExpressionRequest(column, function, using, text_of(given.name, "name"), arguments)
