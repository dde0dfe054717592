"""The commit of a write, from the lock to the report; see `write` for what follows.

```
commit       attempts, until there is no conflict                    -> Committed | Overtaken
  _attempt   lock -> crashed writers rolled back, index ready      operations/prepare_write
    _plan      batch -> deduplicate, tag -> contest -> assign      write/plan_steps
    _start     T requested, T inflight                             transaction/protocol
    write_files  data files, index entries                         write/write_tasks
    _publish   conflicts -> metadata table -> commit point         transaction/protocol
```

The `LockPolicy` of the transaction determines whether the lock is held for the whole write or only
at begin and end.  An attempt ends as `Committed`, or as `Overtaken` if a concurrent change
conflicts.  Then the write is planned again on the new state, after a random pause; the error is
raised only when no retries are left.  The last attempt holds the lock throughout, so every write
ends however busy the table is.
docs/transactions.md describes the guarantees of both policies.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyhudi.errors import Overtaken, OvertakenError, WriteConflictError
from pyhudi.index.secondary.changes import StagedChanges
from pyhudi.metadata.definitions import follow_schema
from pyhudi.metadata.delta_commit import MetadataCommit
from pyhudi.metadata.record_index.staged_index_logs import WaitingIndex, waiting_index
from pyhudi.operations.precommit_checks import run_checks
from pyhudi.operations.prepare_write import Ready, make_context, make_ready, write_spill
from pyhudi.options import Concurrency
from pyhudi.recovery.crashed_writers import roll_back_crashed
from pyhudi.services.clustering import cancel_clustering
from pyhudi.services.duplicate_key_conflicts import find_row_conflict
from pyhudi.services.indexing.external_indexes import mismatch_note
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staging, staging_folder
from pyhudi.table.listing import ensure_partition
from pyhudi.transaction.conflicts import WriteSet, find_early
from pyhudi.transaction.finish import Ending
from pyhudi.transaction.markers import remove_leftovers, remove_markers
from pyhudi.transaction.protocol import LockPolicy, Transaction
from pyhudi.write import plan_steps as steps
from pyhudi.write.input.row_replay import ReplayedRows
from pyhudi.write.input.schema_check import FittedSchema
from pyhudi.write.instant_content import content_of, profile_of, requested
from pyhudi.write.overwrite import NOTHING_REPLACED
from pyhudi.write.placement.hashing_metadata import store_rings
from pyhudi.write.secondary_entries import find_entries, write_entry_logs
from pyhudi.write.write_context import PlannedWrite, WriteContext, WriteRequest, write_set
from pyhudi.write.write_report import SCHEMA_CHANGES, WriteReport
from pyhudi.write.write_tasks import IndexTargets, WrittenFiles, write_files, write_report


@dataclass(frozen=True, slots=True)
class Committed:
    """An attempt that needs no other: the write is committed or deferred, or nothing was due."""

    report: WriteReport


def commit(fs: FileSystem, request: WriteRequest) -> WriteReport:
    """Run one write; returns its report.

    Raises SchemaError, UserError before any change; LockError; WriteConflictError after all
    retries have failed; StorageError with the table unchanged.
    """
    if request.dry_run:
        return _dry_run(fs, request)
    if not request.options.write.concurrency.optimistic or not request.publish:
        ended = _attempt(fs, request, LockPolicy.WHOLE_WRITE)
        if isinstance(ended, Overtaken):
            raise ended.error
        return ended.report
    with write_spill(fs, request) as staging:
        replayed = replace(request, rows=ReplayedRows(request.rows))
        return _with_retries(fs, replayed, staging)


def _dry_run(fs: FileSystem, request: WriteRequest) -> WriteReport:
    """What the write would do to the current table."""
    with write_spill(fs, request) as staging:
        context, _ = make_context(fs, None, request, staging)
        planned = _plan(context, request)
        notes = _replace_notes(planned)
        return write_report(context, planned, instant=None, files=None, dry_run=True, notes=notes)


def _with_retries(fs: FileSystem, request: WriteRequest, staging: Staging) -> WriteReport:
    rules = request.options.write.concurrency
    lost: list[OvertakenError] = []
    while True:
        last = 0 < rules.retries == len(lost)
        policy = LockPolicy.WHOLE_WRITE if last else LockPolicy.BEGIN_AND_END
        ended = _attempt(fs, request, policy, staging)
        if isinstance(ended, Committed):
            notes = (*ended.report.notes, *(f"planned again: {error}" for error in lost))
            return replace(ended.report, conflicts=len(lost), notes=notes)
        error = ended.error
        lost.append(error)
        if len(lost) > rules.retries:
            raise WriteConflictError(
                error.what, hint=error.hint, attempts=len(lost), **error.facts
            ) from error
        time.sleep(pause_seconds(rules, len(lost)))


def pause_seconds(rules: Concurrency, conflicts: int) -> float:
    """Random wait time after a number of conflicts, so that competing writers separate."""
    longest = min(rules.retry_seconds * 2.0 ** (conflicts - 1), rules.retry_seconds_max)
    return random.uniform(0, longest)


def _attempt(
    fs: FileSystem, request: WriteRequest, policy: LockPolicy, staging: Staging | None = None
) -> Committed | Overtaken:
    """One transaction.  staging: where rows are staged; None: a place for this attempt."""
    options, operation = request.options.write, request.operation
    purpose = operation.value.lower()
    with Transaction(
        fs, options, request.engine, policy, purpose, roll_back_crashed
    ) as transaction:
        ready = make_ready(fs, request)
        if isinstance(ready, WriteReport):
            return Committed(ready)
        with write_spill(fs, request, staging) as place:
            context, fitted = make_context(fs, ready.timeline, request, place)
            action, content = requested(context.state, operation)
            transaction.plan_on(context.state, action, content)
            planned = _plan(context, request)
            if planned.is_empty and not fitted.has_changed and request.advance is None:
                transaction.forget()
                return Committed(_nothing_to_write(context, planned))
            ended = _Write(transaction, request, context, planned, fitted, ready).run()
            if isinstance(ended, Overtaken):
                transaction.lost = ended
            return ended
    assert transaction.lost is not None  # a file that the write was planned on was cleaned
    return transaction.lost


def _plan(context: WriteContext, request: WriteRequest) -> PlannedWrite:
    """Plan the write; only reads the table.  Raises UserError, SchemaError,
    WriteConflictError."""
    operation, watch = request.operation, context.watch
    partitions = request.chooses(context.state) if request.chooses else request.partitions
    rows = request.rows
    if request.finds is not None:
        with watch.phase("find"):
            rows = request.finds(context.state)
    steps.check_rules(context)
    with watch.phase("key"):
        parts = steps.stage_batch(context, rows, operation)
    merged = steps.MergedBatch(parts, 0, ())
    if request.merge is not None:
        with watch.phase("match"):
            merged = steps.merge_batch(context, request.merge)
    parts = merged.parts
    emptied, unknown = steps.emptied(context, parts, operation, partitions)
    with watch.phase("tag"):
        rings = steps.rings_of_batch(context, parts, emptied)
        buckets = steps.tag_batch(context, parts, operation, rings, merged.known)
        parts = steps.with_merged(parts, buckets)
        view = context.state.view(partitions=steps.reached(buckets, emptied))
        lost = steps.losing_rows(context, parts, buckets, view)
    with watch.phase("assign"):
        tags, assigned, order_by = steps.assign_batch(context, parts, buckets, view, operation)
    replaced = NOTHING_REPLACED
    if operation.replaces:
        with watch.phase("replace"):
            replaced = steps.replaced_groups_of(context, operation, view, emptied)
            replaced = replace(replaced, unknown=unknown)
    return PlannedWrite(
        operation,
        parts,
        tuple(tags),
        tuple(lost),
        assigned,
        replaced,
        order_by,
        context.skips_unchanged,
        tuple(rings.values()),
        merged.dropped,
    )


@dataclass
class _Write:
    """A planned write in its transaction.  dropped: clustering plans canceled for it.  secondary:
    its changes of secondary indexes, once its files are written.  warnings: checks that failed."""

    transaction: Transaction
    request: WriteRequest
    context: WriteContext
    planned: PlannedWrite
    fitted: FittedSchema
    ready: Ready
    dropped: tuple[str, ...] = field(default=(), init=False)
    secondary: StagedChanges = field(default_factory=StagedChanges, init=False)
    warnings: tuple[str, ...] = field(default=(), init=False)

    @cached_property
    def changes(self) -> WriteSet:
        return write_set(self.context, self.planned)

    def run(self) -> Committed | Overtaken:
        context = self.context
        entries = self._find_early() or self._start()
        if isinstance(entries, Overtaken):
            return entries
        with context.watch.phase("write"):
            files = write_files(context, self.planned, self.transaction.instant, entries)
            if isinstance(files, Overtaken):
                return files
            at = self.transaction.instant.time
            self.secondary = find_entries(context, self.planned, files, at)
        with context.watch.phase("commit"):
            return self._publish(files, entries)

    def _find_early(self) -> Overtaken | None:
        """A conflict that is known before any file is written, if the options look for it."""
        transaction, state, rules = self.transaction, self.context.state, self.context.options
        if transaction.is_whole or not rules.concurrency.detects_early:
            return None
        return find_early(state, transaction.instant, self.changes, rules.concurrency.heartbeats)

    def _start(self) -> IndexTargets | Overtaken:
        """Make the instant inflight; returns the destination of index entries: the metadata table
        if the lock is held until the commit point, else staged logs."""
        transaction, context = self.transaction, self.context
        transaction.request()
        entries: IndexTargets | None = None
        if transaction.is_whole:
            with context.watch.phase("index"):
                entries = self._begin_metadata()
        transaction.start(profile_of(self.planned))
        at = transaction.instant.time
        lost = store_rings(context.state.fs, self.planned.rings, at)
        if lost is not None:
            return lost
        records = context.index.records
        return entries or waiting_index(staging_folder(at), at, context.state.zone, records)

    def _begin_metadata(self) -> MetadataCommit:
        """Begin the delta commit of the metadata table.  If the options enable it, first cancels
        plans of clusterings of the written groups.  The lock is held."""
        transaction, context = self.transaction, self.context
        if context.options.drops_clusterings:
            groups = self.changes.groups
            self.dropped = cancel_clustering(context.state, groups, context.options, context.engine)
        if self.dropped:
            transaction.relist()
        return transaction.begin_metadata()

    def _publish(self, files: WrittenFiles, entries: IndexTargets) -> Committed | Overtaken:
        """Conflict detection, then metadata table, other indexes and the commit point."""
        transaction, context = self.transaction, self.context
        fs, at = context.state.fs, transaction.instant.time
        remove_leftovers(fs, at, stats=files.stats)
        with transaction.ending(self.changes) as ending:
            if isinstance(ending, Overtaken):
                return ending
            lost = find_row_conflict(context, self.planned, transaction.instant, ending.now)
            lost = lost or self._publish_indexes(files, entries, ending)
            if lost is not None:
                return lost
            content = content_of(context, self.planned, files, transaction.now, at)
            self.warnings = self._check(ending, content)
            if not self.request.publish:
                report = self._report(files)
                transaction.defer(content, report.to_dict())
                return Committed(report)
            transaction.complete(content)
            for store, written in zip(context.index.stores, files.stores, strict=True):
                with tolerating("index entries", fs.url):
                    store.apply_deferred(written)
        with tolerating("markers", transaction.instant):
            remove_markers(fs, at)
        return Committed(self._report(files))

    def _check(self, ending: Ending, content: bytes) -> tuple[str, ...]:
        """Run the checks that the options state; notes of those that only warn."""
        checks = self.context.options.checks
        if not checks.validators:
            return ()
        return run_checks(checks, ending.state, self.transaction.instant, content, self.changes)

    def _publish_indexes(
        self, files: WrittenFiles, entries: IndexTargets, ending: Ending
    ) -> Overtaken | None:
        """Finish the delta commit of the metadata table and publish the external indexes."""
        context, index = self.context, files.index
        self._ensure_partitions(ending)
        metadata = self.transaction.metadata or self._begin_metadata()
        if isinstance(entries, WaitingIndex):
            lost = entries.overtaken(index, metadata)
            if lost is not None:
                return lost
            index = tuple(entries.hand_over(ending.state.fs, index, metadata, context.engine))
        changed = write_entry_logs(self.secondary, metadata)
        if isinstance(changed, Overtaken):
            return changed
        state = ending.state
        follow_schema(state.fs, state.config, self.fitted.table, self.fitted.added)
        metadata.finish(files.stats, index, secondary_stats=changed, computed=files.computed)
        for store, written in zip(context.index.stores, files.stores, strict=True):
            lost = store.publish(written)
            if lost is not None:
                return lost
        return None

    def _ensure_partitions(self, ending: Ending) -> None:
        """Restore metafiles that a concurrent clean of an empty partition may have deleted."""
        if ending.cleaned:
            for partition in sorted(self.changes.written):
                ensure_partition(ending.state.fs, partition, ending.mine.time)

    def _report(self, files: WrittenFiles) -> WriteReport:
        context, planned, request, fitted = self.context, self.planned, self.request, self.fitted
        report = write_report(
            context,
            planned,
            instant=self.transaction.instant,
            files=files,
            rolled_back=tuple(str(done.failed.time) for done in self.ready.rolled_back),
            added_columns=fitted.added,
            notes=(
                *_notes(request, fitted),
                *_replace_notes(planned),
                *_index_notes(context, planned),
                *self.warnings,
                *(f"planned clustering {t} was rolled back for this write" for t in self.dropped),
            ),
            published=request.publish,
        )
        return replace(report, notes=(*report.notes, *_lost_notes(report, request)))


def _nothing_to_write(context: WriteContext, planned: PlannedWrite) -> WriteReport:
    notes = ("nothing to write", *_replace_notes(planned))
    return write_report(context, planned, instant=None, files=None, notes=notes)


def _notes(request: WriteRequest, fitted: FittedSchema) -> Iterator[str]:
    yield from (f"option has no effect: {name}" for name in request.options.ignored)
    yield from (f"option {text}" for text in request.options.mapped)
    yield from (f"{SCHEMA_CHANGES[0]}: {name}" for name in fitted.added)
    yield from (f"{SCHEMA_CHANGES[1]}: {name}" for name in fitted.widened)
    yield from (f"comment of a column changed: {name}" for name in fitted.comments)
    if request.merge is not None:
        unused = [n for n in request.merge.source.schema.names if n not in fitted.table.names]
        yield from (f"column of the rows that the table lacks: {name}" for name in unused)


def _lost_notes(report: WriteReport, request: WriteRequest) -> Iterator[str]:
    """Note on rows of the batch without effect, and on a commit without files."""
    if not report.unchanged:
        return
    what = (
        "lost to stored records or equal them"
        if request.skip_unchanged
        else "lost to stored records with greater ordering values"
    )
    text = f"rows that {what}: {report.unchanged}"
    yield text if report.files else f"{text}; the commit has no files"


def _replace_notes(planned: PlannedWrite) -> tuple[str, ...]:
    return tuple(f"no such partition: {name}" for name in planned.replaced.unknown)


def _index_notes(context: WriteContext, planned: PlannedWrite) -> Iterator[str]:
    for store in context.index.stores:
        yield from store.notes
    yield from (mismatch_note(n, count) for n, count in planned.mismatches.items() if count)
    if planned.stayed:
        yield (
            "rows written to the partition of their record, not to the one that they state "
            f"(update.partition.path of the index is false): {planned.stayed}"
        )
