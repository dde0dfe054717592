"""Preparation of a write: recovery, index creation, and the write context.

```
make_ready     crashed writers rolled back -> stream batch not yet written -> index ready
make_context   current table state -> schema fitted -> index opened
```

The caller holds the table's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import OptionError, UserError
from pyhudi.formats.avro_schema import (
    arrow_to_avro,
    docs_of,
    table_record_name,
    with_docs,
    with_meta_fields,
)
from pyhudi.formats.column_history import NextHistory, next_history
from pyhudi.index.maintenance.partitioned_build import build_records
from pyhudi.index.selection import (
    PARTITIONED_INDEX,
    choose_index,
    listed_record_index,
    no_index,
    store_kinds,
)
from pyhudi.keygen.table_key_rule import rule_of
from pyhudi.metadata.bootstrap import create_metadata
from pyhudi.metadata.definitions import define_column_stats
from pyhudi.metadata.file_stats.build import create_facts, stats_partitions
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    RECORD_INDEX,
    MetadataPartition,
)
from pyhudi.metadata.reader import missing_metadata, open_metadata, outdated_metadata
from pyhudi.metadata.record_index.by_partition import PartitionedRecordIndex, check_by_partition
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.options import ConcurrencyMode, IndexKind, Options, WriteOptions
from pyhudi.read.table_schema import schema_text
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import META_COLUMNS
from pyhudi.recovery.crashed_writers import roll_back_crashed
from pyhudi.recovery.rollback_plan import RolledBack
from pyhudi.services.indexing.elastic import ready_elastic
from pyhudi.services.indexing.external_indexes import Opening, open_store
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import SpillPlace, Staging, lock_folder, new_staging_folder, spill, sweep
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.instant import PLANS
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import check_table
from pyhudi.transaction.deferred_publish import check_none_deferred
from pyhudi.write.input.batch import Rows, StreamRows
from pyhudi.write.input.schema_check import FittedSchema, check_no_logs, fit_schema, schema_rules
from pyhudi.write.input.staged_rows import StagedRows
from pyhudi.write.input.stream_idempotency import StreamBatch, written_before
from pyhudi.write.partial_update import partial_update
from pyhudi.write.placement.index_lookup import WriteIndex
from pyhudi.write.schema_changes import altered
from pyhudi.write.secondary_entries import check_expressions, maintained_indexes
from pyhudi.write.write_context import WriteContext, WriteRequest
from pyhudi.write.write_report import WriteReport


def needed_record_index(index: IndexKind, options: Options) -> IndexKind | None:
    """The record index that the table needs, to be queried or maintained next to another index;
    None: it needs none.  Raises OptionError for options that conflict."""
    by_record, keep = index.traits.is_default, options.write.keep_record_index
    if by_record and keep is False:
        raise OptionError(
            "the record index is the table's index",
            value=False,
            option="hoodie.metadata.record.index.enable",
            hint="choose another index, or leave it",
        )
    shadow = options.write.shadow
    by_partition = index.traits.by_partition or options.write.keep_partitioned_index
    is_global = by_record or bool(keep) or (shadow is not None and shadow.traits.is_default)
    if by_partition and (is_global or index.is_global):
        raise OptionError(
            "a table cannot have both a record index by partition and a global index",
            option=PARTITIONED_INDEX,
            value=True,
            index=index.option,
            hint="use hoodie.index.type=RECORD_LEVEL_INDEX, or an index that is not global",
        )
    if by_partition:
        return IndexKind.PARTITIONED_RECORD
    return IndexKind.RECORD if is_global else None


def with_facts(
    fs: FileSystem, config: TableConfig, options: Options, engine: Engine
) -> TableConfig:
    """Create the column statistics and bloom filters that the options enable."""
    facts = options.write.facts
    group_counts: dict[MetadataPartition, int] = {}
    if facts.column_stats:
        group_counts |= stats_partitions(config, facts.column_stats_groups)
        if COLUMN_STATS.path not in config.metadata_partitions:
            schema = load_state(fs, options.read).schema()
            config = define_column_stats(
                fs, config, schema, facts.stats_columns, facts.stats_columns_max
            )
    if facts.bloom_filters:
        group_counts[BLOOM_FILTERS] = facts.bloom_filters_groups
    return create_facts(
        fs, config, timeline_log(fs, config), group_counts=group_counts, engine=engine
    )


@dataclass(frozen=True, slots=True)
class Ready:
    """A table that is ready for a write; its lock is held.

    timeline: as listed under the lock; None if it must be listed again.
    """

    config: TableConfig
    rolled_back: tuple[RolledBack, ...]
    timeline: Timeline | None


def make_ready(fs: FileSystem, request: WriteRequest) -> Ready | WriteReport:
    """Recover from crashed writers and create index and statistics; or the report of a write that
    is already in the table.  The caller holds the table's lock."""
    config = load_config(fs)
    check_table(config)
    check_by_partition(fs, config)
    _check_mode(fs, config, request)
    log = timeline_log(fs, config)
    timeline = log.load()
    check_none_deferred(fs, timeline)
    options = request.options.write
    recovered = roll_back_crashed(fs, config, log, timeline, options, request.engine)
    sweep(fs)
    if request.advance is not None:
        request.advance.check(log, _archive(fs, config))
    known = _replayed(fs, config, request)
    if known is not None:
        return known
    config = _ensure_index(fs, recovered.config, request)
    config = with_facts(fs, config, request.options, request.engine)
    is_as_it_was = config == recovered.config
    return Ready(config, recovered.rolled_back, recovered.timeline if is_as_it_was else None)


def _replayed(fs: FileSystem, config: TableConfig, request: WriteRequest) -> WriteReport | None:
    """The report of a stream batch that is already in the table; None for any other write."""
    batch = StreamBatch.of(request.options.write.commit_metadata)
    if batch is None:
        return None
    done = written_before(batch, timeline_log(fs, config), _archive(fs, config))
    if done is None:
        return None
    note = f"batch {batch.number} of stream {batch.identifier} was already written by {done[0]}"
    return WriteReport(request.operation.value.lower(), notes=(note,))


def _archive(fs: FileSystem, config: TableConfig) -> Archive:
    return Archive(fs, layout=config.layout, folder=config.archive_folder)


def _ensure_index(fs: FileSystem, config: TableConfig, request: WriteRequest) -> TableConfig:
    """Create the metadata table, and the record index if it is the write's index.

    An empty table without a configured index gets a record index.  Raises IndexNotReadyError for
    any other table without one.
    """
    choice = choose_index(fs, config, request.options.write)
    kind = IndexKind.RECORD if choice is None else choice.kind
    needed = needed_record_index(kind, request.options)
    records = listed_record_index(fs, config) or needed
    with_records = records is not None
    partitions = {FILES.path, RECORD_INDEX.path} if with_records else {FILES.path}
    if choice is not None and partitions <= config.metadata_partitions:
        elastic = kind.traits.grows
        return ready_elastic(fs, request.options, request.engine) if elastic else config
    state = load_state(fs, request.options.read)
    if choice is None and len(state.timeline.commits):
        raise no_index(fs)
    if not with_records or RECORD_INDEX.path in config.metadata_partitions:
        config = create_metadata(fs, config, timeline_log(fs, config), records=None)
        return _ensure_index(fs, config, request) if kind.traits.grows else config
    build_records(state, request.options.write, request.engine, records)
    return load_config(fs)


def _check_mode(fs: FileSystem, config: TableConfig, request: WriteRequest) -> None:
    """Raise OptionError, with the reason, for a concurrency mode that the table or operation does
    not allow.

    Under non-blocking concurrency control several writers append logs to one file group, and
    neither waits for the other.  That takes logs that belong to a slice by their completion, and an
    index that assigns equal keys to one file group without a look-up, which is the simple bucket
    index.  Source: writer_v8_v9 14.
    """
    if not request.options.write.concurrency.is_non_blocking:
        return
    reason = next(_obstacles(fs, config, request), None)
    if reason is not None:
        raise OptionError(
            f"non-blocking concurrency control {reason}",
            option="hoodie.write.concurrency.mode",
            value=ConcurrencyMode.NON_BLOCKING.value,
            operation=request.operation.value.lower(),
            hint=f"use {ConcurrencyMode.OPTIMISTIC.value}",
        )


def _obstacles(fs: FileSystem, config: TableConfig, request: WriteRequest) -> Iterator[str]:
    if config.layout.logs_name_slices:
        yield f"is for tables of version 8 or later; this table has version {config.version}"
    if not config.is_merge_on_read:
        yield "is for merge-on-read tables: writers of base files conflict"
    if not _has_simple_buckets(fs, config, request.options.write):
        yield "is for tables with a simple bucket index: others assign new keys by a look-up"
    if request.operation.replaces:
        yield "does not allow operations that replace file groups"


def _has_simple_buckets(fs: FileSystem, config: TableConfig, options: WriteOptions) -> bool:
    choice = choose_index(fs, config, options)
    return choice is not None and choice.bucket is not None and not choice.bucket.is_consistent


def make_context(
    fs: FileSystem,
    now: Timeline | None,
    request: WriteRequest,
    staging: Staging,
) -> tuple[WriteContext, FittedSchema]:
    """now: the timeline, listed under a lock that is still held; None: it is listed here."""
    state = load_state(fs, request.options.read, now=now)
    check_table(state.config)
    _check_mode(state.fs, state.config, request)
    stored = pa.schema([f for f in state.schema() if f.name not in META_COLUMNS])
    fitted, partial = FittedSchema(stored), None
    if request.operation.brings_rows:
        rules = schema_rules(state.config, request.options.write, request.schema_mode)
        partial = partial_update(state, request, stored)
        rules = rules if partial is None else partial.schema_rules(rules)
        fitted = fit_schema(request.rows.schema, stored, rules)
    elif request.changes:
        rules = schema_rules(state.config, request.options.write)
        fitted = altered(stored, request.changes, rules, state.config.partition_fields)
    if fitted.widened:
        check_no_logs(fitted, state.view().latest_slices())
    if fitted.moves:
        _check_no_plans(state)
    check_expressions(state, fitted.table)
    index = _index(state, request, staging)
    avro_schema = _avro_text(state, fitted)
    return (
        WriteContext(
            state,
            request.engine,
            staging,
            request.options.write,
            index,
            fitted.table,
            avro_schema,
            rule_of(
                state,
                request.options,
                functions=request.functions,
                with_paths=request.operation.brings_rows,
            ),
            request.skip_unchanged,
            maintained_indexes(state, index.metadata, stored, fitted.table),
            advance=request.advance,
            partial_schema=None if partial is None else partial.log_schema(avro_schema),
            history=_history(state, fitted, avro_schema),
        ),
        fitted,
    )


def _index(state: TableState, request: WriteRequest, staging: Staging) -> WriteIndex:
    options = request.options.write
    choice = choose_index(state.fs, state.config, options)
    if choice is None:
        raise no_index(state.fs)
    metadata = state.metadata or open_metadata(state.fs, state.config, state.log, state.timeline)
    records = None
    if metadata is not None and (choice.kind.is_record_index or metadata.maintained_index()):
        if not metadata.is_up_to_date:  # a delete that finds no key would change nothing
            raise outdated_metadata(state.fs)
        records = metadata.locations(method=request.options.read.lookup)
    if choice.kind.is_record_index and records is None:
        raise missing_metadata(state.fs)
    opening = Opening(
        options.index_rules,
        staging,
        request.engine,
        records.bucket_count if isinstance(records, RecordIndex) else None,
        publishes=not request.dry_run,
        concurrent=options.concurrency.optimistic,
    )
    stores = tuple(open_store(state, kind, opening) for kind in store_kinds(choice, options))
    part_count = next((s.part_count for s in stores if s.part_count), request.engine.parallelism)
    if isinstance(records, PartitionedRecordIndex):
        part_count = max(part_count, *records.group_counts.values(), 1)
    hash = records.hash if isinstance(records, RecordIndex) else KeyHash(part_count)
    rules, shadow = options.index_rules, options.shadow
    return WriteIndex(choice, rules, records, hash, metadata, stores, shadow)


def _check_no_plans(state: TableState) -> None:
    """Raise UserError where a table service has yet to write files with the present names."""
    plans = state.timeline.pending.where(PLANS)
    if plans:
        raise UserError(
            "columns cannot be renamed or dropped while a table service is pending",
            instants=", ".join(i.time for i in plans),
            hint="run the service first: pyhudi table compact, or cluster",
        )


def _history(state: TableState, fitted: FittedSchema, avro_schema: str) -> NextHistory | None:
    """The history of the columns after the write; None if the table has none."""
    known = state.columns()
    if known is None and not fitted.moves:
        return None
    before = schema_text(state.log, state.timeline, state.archive, state.config)
    if before is None:  # a table without commits, of which no file has other names
        before = avro_schema
    if state.config.has_meta_columns:
        before = with_meta_fields(before)
    return next_history(known, before, avro_schema, fitted.moves)


def _avro_text(state: TableState, fitted: FittedSchema) -> str:
    """The schema text of the commit: the table's existing text if the schema is unchanged.
    Comments stay."""
    text = schema_text(state.log, state.timeline, state.archive, state.config)
    if text is not None and not fitted.has_changed:
        return text
    name, namespace = table_record_name(state.config.name)
    changed = arrow_to_avro(fitted.table, name=name, namespace=namespace)
    docs = {} if text is None else docs_of(text)
    for old, new in fitted.moves:
        moved = {p: t for p, t in docs.items() if p.split(".")[0] == old}
        docs = {p: t for p, t in docs.items() if p not in moved}
        if new is not None:
            docs |= {new + p.removeprefix(old): t for p, t in moved.items()}
    return with_docs(changed, {**docs, **fitted.comments})


def _fits_memory(rows: Rows) -> bool:
    """Whether a write may hold its incoming rows in memory."""
    if isinstance(rows, StagedRows):
        return rows.fits_memory
    return not isinstance(rows, StreamRows)


@contextmanager
def write_spill(
    fs: FileSystem, request: WriteRequest, given: Staging | None = None
) -> Iterator[Staging]:
    """Where the write stages its rows: in memory if tasks share it and the rows are in memory;
    else in a temporary folder, on this machine if only its tasks read it and the table is
    remote."""
    if given is not None:
        yield given
        return
    place = SpillPlace.of(
        fs,
        shares_memory=request.engine.shares_memory,
        in_memory=_fits_memory(request.rows),
    )
    optimistic = request.options.write.concurrency.optimistic
    with spill(fs, place, new_staging_folder() if optimistic else lock_folder()) as staging:
        yield staging
