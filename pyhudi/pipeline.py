"""One write from the lock to the report: what surrounds the steps of `write/`.

lock -> remains of the dead rolled back -> index ready -> batch fitted and planned -> instant drawn
     -> files and index written -> metadata table -> data commit -> markers gone

The table's lock is held throughout; `optimistic` holds it at the begin and the end only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import IndexNotReadyError, OptionError, UnsupportedTableError, UserError
from pyhudi.filenames import HOODIE, TEMP
from pyhudi.formats.avro_schema import arrow_to_avro, table_record_name
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.index.selection import choose_index, no_index, store_kinds
from pyhudi.keygen.generators import PythonKeys
from pyhudi.keygen.key_generator_config import rule_of
from pyhudi.metadata.bootstrap import create_metadata
from pyhudi.metadata.elastic.create import create_elastic
from pyhudi.metadata.file_stats.build import create_facts
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.rebuild import finish_swap
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.writer import check_version, check_writable
from pyhudi.options import IndexKind, Options, SchemaMode
from pyhudi.read.table_schema import schema_text
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import META_COLUMNS
from pyhudi.services.commit_writes import Done, commit, prepare
from pyhudi.services.indexing.elastic import ready_elastic
from pyhudi.services.indexing.external_indexes import Opening, open_store, told_mismatches
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem, scratch_disk
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.storage.spill import FileStaging, MemoryStaging, Staging
from pyhudi.table.cdc_properties import cdc_mode
from pyhudi.table.properties import TableConfig, load_config, store_config
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import roll_back_dead, table_lock
from pyhudi.transaction.deferred_publish import Kept, check_none_kept, store_kept
from pyhudi.transaction.rollback_plan import RolledBack
from pyhudi.write.input.batch import Rows, StreamRows
from pyhudi.write.input.schema_check import FittedSchema, check_no_logs, fit_schema, schema_rules
from pyhudi.write.input.staged_rows import parking_folder, sweep_parked
from pyhudi.write.input.stream_idempotency import StreamBatch, written_before
from pyhudi.write.placement.index_lookup import WriteIndex
from pyhudi.write.table_creation import NewTable as NewTable
from pyhudi.write.table_creation import config_of
from pyhudi.write.write_report import WriteReport
from pyhudi.write.write_steps import Operation, PlannedWrite, Setting, Stopwatch, plan_write
from pyhudi.write.write_tasks import report_of

_SCRATCH = "pyhudi-"


def create(fs: FileSystem, table: NewTable) -> TableConfig:
    """Create an empty table with its index.  Raises UserError if there is a table already."""
    config = config_of(table)
    wait, rules = table.options.write.lock_seconds, table.options.write.lock
    with TableLock(fs, purpose="create", wait_seconds=wait, rules=rules):
        if fs.children(HOODIE) and fs.exists(f"{HOODIE}/hoodie.properties"):
            raise UserError(
                "there is a table here already", path=fs.url, hint="open_table opens it"
            )
        config = store_config(fs, config)
        if table.index is IndexKind.ELASTIC:
            config = create_elastic(fs, config, Timeline(), table.options.write)
        config = create_metadata(
            fs,
            config,
            timeline_log(fs, config),
            shard_count=table.options.write.shard_count,
            records=() if _wants_records(table.index, table.options) else None,
        )
        return with_facts(fs, config, table.options, LocalEngine())


def _wants_records(index: IndexKind, options: Options) -> bool:
    """Whether the table has to have a record index: to be asked, or to be kept beside another."""
    by_record, keep = index is IndexKind.RECORD, options.write.keep_record_index
    if by_record and keep is False:
        raise OptionError(
            "the record index is the table's index", value=False,
            option="hoodie.metadata.record.index.enable", hint="choose another index, or leave it",
        )  # fmt: skip
    return by_record or bool(keep) or options.write.tee is IndexKind.RECORD


def with_facts(
    fs: FileSystem, config: TableConfig, options: Options, engine: Engine
) -> TableConfig:
    """The table with the column statistics and blooms that the options ask for."""
    facts = options.write.facts
    wanted = {}
    if facts.column_stats:
        wanted[COLUMN_STATS] = facts.column_stats_groups
    if facts.bloom_filters:
        wanted[BLOOM_FILTERS] = facts.bloom_filters_groups
    return create_facts(fs, config, timeline_log(fs, config), group_counts=wanted, engine=engine)


def timeline_log(fs: FileSystem, config: TableConfig) -> TimelineLog:
    return TimelineLog(fs, layout=config.layout, zone=zone_of(config.timezone))


@dataclass(frozen=True)
class WriteRequest:
    """One write as asked for."""

    operation: Operation
    rows: Rows
    options: Options
    engine: Engine
    dry_run: bool = False
    partitions: tuple[str, ...] = ()  # to delete, or to overwrite statically
    functions: PythonKeys | None = None  # keys and paths of the caller's own making
    skip_unchanged: bool = False  # rows equal to the stored ones are not written
    publish: bool = True
    schema_mode: SchemaMode | None = None  # None: as the options say
    chooses: Callable[[TableState], tuple[str, ...]] | None = None  # partitions, as planned on
    finds: Callable[[TableState], Rows] | None = None  # the rows, in the state that is planned on


def dry_run(fs: FileSystem, request: WriteRequest) -> WriteReport:
    """What the write would do to the table as it is now."""
    with scratch(fs, request) as staging:
        setting, _ = make_setting(fs, None, request, staging, Stopwatch())
        planned = plan_request(setting, request)
        notes = replace_notes(planned)
        return report_of(setting, planned, instant=None, files=None, dry_run=True, notes=notes)


@dataclass(frozen=True, slots=True)
class Ready:
    """A table that a write can begin on, its lock held.

    timeline: as listed under the lock; None if it has to be listed anew.
    """

    config: TableConfig
    rolled_back: tuple[RolledBack, ...]
    timeline: Timeline | None


def make_ready(fs: FileSystem, request: WriteRequest) -> Ready | WriteReport:
    """Remains of the dead gone, index and facts there; or the report of a write that is in the
    table already.  The caller holds the table's lock."""
    config = load_config(fs)
    check_table(config)
    log = timeline_log(fs, config)
    timeline = log.load()
    check_none_kept(fs, timeline)
    recovered = roll_back_dead(fs, config, log, timeline, request.options.write)
    sweep(fs)
    known = replayed(fs, config, request)
    if known is not None:
        return known
    config = ensure_index(fs, recovered.config, request)
    config = with_facts(fs, config, request.options, request.engine)
    is_as_it_was = config == recovered.config
    return Ready(config, recovered.rolled_back, recovered.timeline if is_as_it_was else None)


def write_alone(
    fs: FileSystem, request: WriteRequest, *, staging: Staging | None = None
) -> WriteReport:
    """Do one write under the table's lock and report it.

    staging: where its rows are put aside; None: somewhere for this write.  Raises SchemaError,
    UserError before anything changes; LockError, WriteConflictError, StorageError with the table
    as it was.
    """
    with table_lock(fs, request.options.write, request.operation.value.lower()):
        ready = make_ready(fs, request)
        if isinstance(ready, WriteReport):
            return ready
        with nullcontext(staging) if staging else scratch(fs, request) as place:
            watch = Stopwatch()
            setting, fitted = make_setting(fs, ready.timeline, request, place, watch)
            planned = plan_request(setting, request)
            if planned.is_empty and not fitted.has_changed:
                return nothing_to_write(setting, planned)
            carry_out = commit if request.publish else prepare
            done = carry_out(setting, planned)
            report = full_report(setting, planned, done, request, fitted, ready)
            if not request.publish:
                _keep(setting, done, report)
            return report


def nothing_to_write(setting: Setting, planned: PlannedWrite) -> WriteReport:
    notes = ("nothing to write", *replace_notes(planned))
    return report_of(setting, planned, instant=None, files=None, notes=notes)


def full_report(
    setting: Setting,
    planned: PlannedWrite,
    done: Done,
    request: WriteRequest,
    fitted: FittedSchema,
    ready: Ready,
) -> WriteReport:
    report = report_of(
        setting,
        planned,
        instant=done.instant,
        files=done.files,
        rolled_back=tuple(str(done.failed.time) for done in ready.rolled_back),
        added_columns=fitted.added,
        notes=(
            *notes_of(request, fitted),
            *replace_notes(planned),
            *_index_notes(setting, planned),
            *(f"planned clustering {time} was rolled back for this write" for time in done.dropped),
        ),
        published=request.publish,
    )
    return replace(report, notes=(*report.notes, *_lost_notes(report, request)))


def _lost_notes(report: WriteReport, request: WriteRequest) -> Iterator[str]:
    """How many rows of the batch changed nothing, and whether the commit has a file at all."""
    if not report.unchanged:
        return
    what = (
        "lost to stored records or equal them"
        if request.skip_unchanged
        else ("lost to stored records with greater ordering values")
    )
    text = f"rows that {what}: {report.unchanged}"
    yield text if report.files else f"{text}; the commit has no files"


def _index_notes(setting: Setting, planned: PlannedWrite) -> tuple[str, ...]:
    opened = tuple(note for store in setting.index.stores for note in store.notes)
    return (*opened, *(told_mismatches(n, c) for n, c in planned.mismatches.items() if c))


def _keep(setting: Setting, done: Done, report: WriteReport) -> None:
    kept = Kept(setting.state.timeline, done.content, report.to_dict())
    store_kept(setting.state.fs, done.instant, kept)


def replayed(fs: FileSystem, config: TableConfig, request: WriteRequest) -> WriteReport | None:
    """The report of a stream's batch that is in the table already; None for any other write."""
    batch = StreamBatch.of(request.options.write.commit_metadata)
    if batch is None:
        return None
    archive = Archive(fs, layout=config.layout, folder=config.archive_folder)
    done = written_before(batch, timeline_log(fs, config), archive)
    if done is None:
        return None
    note = f"batch {batch.number} of stream {batch.identifier} is in the table, by {done[0]}"
    return WriteReport(request.operation.value.lower(), notes=(note,))


def plan_request(setting: Setting, request: WriteRequest) -> PlannedWrite:
    partitions = request.partitions
    if request.chooses is not None:
        partitions = request.chooses(setting.state)
    rows = request.rows
    if request.finds is not None:
        with setting.watch.phase("find"):
            rows = request.finds(setting.state)
    return plan_write(setting, rows, request.operation, partitions=partitions)


def check_table(config: TableConfig) -> None:
    """Raise UnsupportedTableError, saying why, for a table that cannot be written."""
    check_version(config)
    if not config.has_meta_columns:
        raise UnsupportedTableError("a table without meta columns cannot be written")
    if config.drops_partition_columns:
        raise UnsupportedTableError("a table that drops partition columns cannot be written")
    cdc_mode(config)  # raises for one that is not known
    if config.partition_metafile_in_base_format:
        raise UnsupportedTableError("partition metafiles in Parquet are not written")
    check_writable(config)


def ensure_index(fs: FileSystem, config: TableConfig, request: WriteRequest) -> TableConfig:
    """The table with a metadata table, and with a record index where that is the write's index.

    An empty table of which nobody says its index gets a record index.  Raises IndexNotReadyError
    for any other such table.
    """
    if FILES.path not in config.metadata_partitions:
        config = finish_swap(fs, config)
    choice = choose_index(config, request.options.write)
    kind = IndexKind.RECORD if choice is None else choice.kind
    with_records = _wants_records(kind, request.options)
    wanted = {FILES.path, RECORD_INDEX.path} if with_records else {FILES.path}
    if choice is not None and wanted <= config.metadata_partitions:
        elastic = kind is IndexKind.ELASTIC
        return ready_elastic(fs, request.options, request.engine) if elastic else config
    state = load_state(fs, request.options.read)
    if choice is None and len(state.timeline.commits):
        raise no_index(fs.url)
    if not with_records or RECORD_INDEX.path in config.metadata_partitions:
        config = create_metadata(fs, config, timeline_log(fs, config), records=None)
        return ensure_index(fs, config, request) if kind is IndexKind.ELASTIC else config
    build_now(state, request.options.write.shard_count, request.engine, silent)
    return load_config(fs)


def make_setting(
    fs: FileSystem,
    now: Timeline | None,
    request: WriteRequest,
    staging: Staging,
    watch: Stopwatch,
) -> tuple[Setting, FittedSchema]:
    """now: the timeline, listed under a lock that is held still; None: it is listed."""
    state = load_state(fs, request.options.read, now=now)
    check_table(state.config)
    stored = pa.schema([f for f in state.schema() if f.name not in META_COLUMNS])
    fitted = FittedSchema(stored)
    if request.operation.brings_rows:
        rules = schema_rules(state.config, request.options.write, request.schema_mode)
        fitted = fit_schema(request.rows.schema, stored, rules)
        if fitted.widened:
            check_no_logs(fitted, state.view().latest_slices())
    return (
        Setting(
            state,
            request.engine,
            staging,
            request.options.write,
            _index(state, request, staging),
            fitted.table,
            _avro_text(state, fitted),
            rule_of(
                state,
                request.options,
                functions=request.functions,
                with_paths=request.operation.brings_rows,
            ),
            request.skip_unchanged,
            watch,
        ),
        fitted,
    )


def _index(state: TableState, request: WriteRequest, staging: Staging) -> WriteIndex:
    options = request.options.write
    choice = choose_index(state.config, options)
    if choice is None:
        raise no_index(state.fs.url)
    metadata = state.metadata or open_metadata(state.fs, state.config, state.log, state.timeline)
    records = None
    if metadata is not None and (choice.kind.is_record_index or metadata.kept_index()):
        records = metadata.record_index(method=request.options.read.lookup)
    if choice.kind.is_record_index and records is None:
        raise IndexNotReadyError("the table has no metadata table", path=state.fs.url)
    opening = Opening(
        options.index_rules, staging, request.engine, records.shard_count if records else None,
        publishes=not request.dry_run, concurrent=options.concurrency.optimistic,
    )  # fmt: skip
    stores = tuple(open_store(state, kind, opening) for kind in store_kinds(choice, options))
    wanted = next((s.part_count for s in stores if s.part_count), request.engine.parallelism)
    hash = records.hash if records else KeyHash(wanted)
    rules, tee = options.index_rules, options.tee
    return WriteIndex(choice, rules, records, hash, metadata, stores, tee)


def _avro_text(state: TableState, fitted: FittedSchema) -> str:
    """The schema text of the commit: the table's own while it stays the same."""
    text = schema_text(state.log, state.timeline, state.archive, state.config)
    if text is not None and not fitted.has_changed:
        return text
    name, namespace = table_record_name(state.config.name)
    return arrow_to_avro(fitted.table, name=name, namespace=namespace)


def notes_of(request: WriteRequest, fitted: FittedSchema) -> tuple[str, ...]:
    notes = [f"option without effect here: {name}" for name in request.options.ignored]
    notes += [f"option {text}" for text in request.options.mapped]
    notes += [f"column added to the table: {name}" for name in fitted.added]
    notes += [f"column widened in the table: {name}" for name in fitted.widened]
    return tuple(notes)


def replace_notes(planned: PlannedWrite) -> tuple[str, ...]:
    return tuple(f"no such partition: {name}" for name in planned.replaced.unknown)


@contextmanager
def scratch(fs: FileSystem, request: WriteRequest) -> Iterator[Staging]:
    """Where the write stages its rows: memory if tasks share it and the rows are in it anyway;
    else a temporary folder, of this machine where only its tasks read it and the table is far."""
    if request.engine.shares_memory and not isinstance(request.rows, StreamRows):
        yield MemoryStaging()
        return
    if request.engine.shares_memory and not isinstance(fs, LocalFileSystem):
        with scratch_disk() as disk:
            yield FileStaging(disk, "staged")
        return
    folder = f"{TEMP}/{_SCRATCH}{secrets.token_hex(8)}"
    if request.options.write.concurrency.optimistic:  # others must not take it for a dead one's
        folder = parking_folder()
    try:
        yield FileStaging(fs, folder)
    finally:
        with tolerating("rows", folder):
            fs.delete_folder(folder)


def sweep(fs: FileSystem) -> None:
    """Remove what dead writers staged."""
    for entry in fs.children(TEMP):
        if entry.is_folder and entry.name.startswith(_SCRATCH):
            fs.delete_folder(entry.path)
    sweep_parked(fs)
