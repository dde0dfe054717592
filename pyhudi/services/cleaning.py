"""Cleaning: deletion of files that no reader needs any more.

```
C.clean.requested   the plan: names by partition
C.clean.inflight    the same; files are being deleted
C.clean             the deleted files; the metadata table has removed their entries by then
```

A pending plan runs unchanged: deleting a file twice has no effect.  Names in a plan that are not
names of data files are skipped, and nothing outside the table is deleted.
The table's lock is held while a plan is made or claimed and while its completion is published;
files are deleted concurrently with writers.  Source: table_format 7.5.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

from pyhudi.engine import Engine
from pyhudi.errors import OptionError
from pyhudi.filenames import PARTITION_METAFILE, join, parse_data_file
from pyhudi.metadata.reader import open_metadata
from pyhudi.options import CleaningPolicy, Options, ServiceOptions
from pyhudi.planning.cleaning import (
    Claims,
    Retention,
    earliest_to_retain,
    file_names,
    looked_at_since,
    outdated,
    outdated_replaced,
    result_record,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.reports import Report
from pyhudi.services.snapshot_pins import PinnedSnapshot, pinned_snapshots
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice, TableView, build_view
from pyhudi.table.timeline_facts import completion_times, pending_plans, replaced_groups
from pyhudi.timeline.clock import days_before, format_instant, system_clock
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.plans.compaction import CompactionPlan
from pyhudi.timeline.service_payloads import CLEAN_METADATA, write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import claimed, is_claimed
from pyhudi.transaction.conflicts import WriteSet
from pyhudi.transaction.finish import complete, finishing
from pyhudi.transaction.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class CleanReport(Report):
    """What a clean deleted, or (instants empty) would delete.

    kept_from: the earliest instant that stays readable, None for all instants.  held: snapshots
    pinned by readers, which stay as well.  dropped: a line for each pin that was removed because
    its reader is no longer alive.
    """

    instants: tuple[str, ...] = ()
    files: int = 0
    partitions: int = 0
    kept_from: str | None = None
    held: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def pending_cleans(timeline: Timeline) -> list[Instant]:
    return list(timeline.where({Action.CLEAN}, State.REQUESTED, State.INFLIGHT))


def is_clean_due(timeline: Timeline, rules: ServiceOptions, zone: tzinfo | None) -> bool:
    """Whether enough commits have completed since the last clean and files may be eligible for
    cleaning, or a clean is pending.  No I/O."""
    if pending_cleans(timeline):
        return True
    last = timeline.where({Action.CLEAN}, State.COMPLETED).last
    since = timeline.commits if last is None else timeline.commits.after(last.time)
    if len(since) < rules.clean_after_commits:
        return False
    by_versions = rules.cleaning is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS
    return by_versions or earliest_retained(timeline, rules, zone) is not None


def propose_clean(state: TableState, options: Options) -> CleanPlan:
    """The files that can be deleted now."""
    rules = options.services
    newest = state.timeline.commits.last
    saved = state.timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    pins = _pinned(state, options)
    pinned_files = _pinned_files(state, pins)
    replaced = replaced_groups(state.log, state.timeline)
    earliest = _at_most(
        earliest_retained(state.timeline, rules, state.zone),
        state.timeline.commits,
        _oldest_replacement(pinned_files, replaced),
    )
    plan = CleanPlan(
        rules.cleaning.value,
        {},
        # a clean of some partitions does not state what all of them retain
        retained_from=None if rules.filters_cleaning else earliest,
        newest=newest.time if newest else None,
        savepoints=tuple(i.time for i in saved),
        holds=tuple(sorted({pin.instant for pin in pins})),
    )
    if earliest is None and rules.cleaning is not CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        return plan
    retention = Retention(earliest.time if earliest else None, rules.versions_retained)
    view = _view(state, _partitions(state, rules, plan))
    claims = Claims(_saved(state, pinned_files), _needed(state))
    eligible = list(_eligible(view, replaced, retention, claims))
    files = file_names(eligible)
    return replace(plan, files=files, partitions=_emptied(view, eligible, replaced, retention))


def earliest_retained(
    timeline: Timeline, rules: ServiceOptions, zone: tzinfo | None
) -> Instant | None:
    """The earliest instant that stays readable after a clean; None: all instants."""
    commits, pending = timeline.commits, _writing(timeline)
    match rules.cleaning:
        case CleaningPolicy.KEEP_LATEST_COMMITS:
            return earliest_to_retain(commits, pending, retained=rules.commits_retained)
        case CleaningPolicy.KEEP_LATEST_BY_HOURS:
            oldest = days_before(system_clock(), rules.hours_retained / 24)
            limit = format_instant(oldest, zone)
            recent = [i for i in commits if i.time >= limit]
            return earliest_to_retain(commits, pending, retained=max(1, len(recent)))
        case CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
            return None


def _writing(timeline: Timeline) -> Timeline:
    """Pending instants that read files of the table: all but cleans, rollbacks and savepoints."""
    ignored = {Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT}
    return Timeline(tuple(i for i in timeline.pending if i.action not in ignored))


def _partitions(state: TableState, rules: ServiceOptions, plan: CleanPlan) -> list[str]:
    """Partitions that may have files to delete: those written by commits since the last clean,
    or all."""
    everywhere = _selected(state.listing.partitions(), rules)
    last = state.timeline.where({Action.CLEAN}, State.COMPLETED).last
    if not rules.cleans_incrementally or plan.retained_from is None or last is None:
        return everywhere
    since = looked_at_since(
        state.timeline.commits, plan.retained_from, state.log.record(last), plan.retained
    )
    if since is None:
        return everywhere
    touched = {g.partition for i in since for g in state.log.commit(i).groups}
    return [partition for partition in everywhere if partition in touched]


def _selected(listed: list[str], rules: ServiceOptions) -> list[str]:
    """The partitions that the options select.  Raises OptionError for an invalid pattern."""
    if rules.clean_partitions:
        listed = [path for path in listed if path in rules.clean_partitions]
    if rules.clean_pattern is None:
        return listed
    try:
        pattern = re.compile(rules.clean_pattern)
    except re.error as error:
        raise OptionError(
            "not a regular expression",
            value=rules.clean_pattern,
            option="hoodie.clean.partition.filter.regex",
        ) from error
    return [path for path in listed if pattern.fullmatch(path)]


def _view(state: TableState, partitions: list[str]) -> TableView:
    """Every file group of some partitions, including replaced ones."""
    files = ((p, info) for p, infos in state.listing.files(partitions).items() for info in infos)
    return build_view(
        files,
        state.view(partitions=[]).visibility,
        layout=state.log.layout,
        pending=pending_plans(state.log, state.timeline),
        completions=completion_times(state.log, state.timeline),
        archived=lambda: state.archive.completions,
    )


def _pinned(state: TableState, options: Options) -> list[PinnedSnapshot]:
    """Snapshots pinned by readers that are alive."""
    rules = options.write.concurrency.heartbeats
    return [pin for pin in pinned_snapshots(state.fs, rules) if pin.is_alive]


def _pinned_files(state: TableState, pins: Iterable[PinnedSnapshot]) -> dict[str, set[str]]:
    """Names by partition of the files that readers have pinned."""
    found: dict[str, set[str]] = {}
    for pin in pins:
        for partition, names in pin.files(state):
            found.setdefault(partition, set()).update(names)
    return found


def _oldest_replacement(
    pinned: Mapping[str, Iterable[str]], replaced: Mapping[FileGroupId, InstantTime]
) -> InstantTime | None:
    """The oldest replacement of a file group of which a reader has pinned a file."""
    groups = {
        FileGroupId(partition, parsed.file_id)
        for partition, names in pinned.items()
        for name in names
        if (parsed := parse_data_file(name)) is not None
    }
    return min((replaced[group] for group in groups if group in replaced), default=None)


def _at_most(
    earliest: Instant | None, commits: Timeline, replacement: InstantTime | None
) -> Instant | None:
    """The earliest instant to retain, or the replacement if that is older.

    Apache Hudi archives replacements older than the earliest instant that the last clean retained,
    and ignores pins: file groups whose files are pinned would become visible again.
    """
    if earliest is None or replacement is None or replacement >= earliest.time:
        return earliest
    return next((i for i in commits if i.time == replacement), earliest)


def _saved(state: TableState, pinned: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Names by partition of files of savepoints and pins.  pinned: those of pins."""
    found = {partition: set(names) for partition, names in pinned.items()}
    for instant in state.timeline.where({Action.SAVEPOINT}, State.COMPLETED):
        for partition, part in (state.log.record(instant).get("partitionMetadata") or {}).items():
            found.setdefault(partition, set()).update(part.get("savepointDataFile") or ())
    return found


def _needed(state: TableState) -> dict[FileGroupId, InstantTime]:
    """The slice that each planned compaction will read, by file group."""
    found = {}
    actions = {Action.COMPACTION, Action.LOG_COMPACTION}
    for pending in state.timeline.where(actions, State.REQUESTED, State.INFLIGHT):
        for operation in state.log.plan(pending, CompactionPlan.from_record).operations:
            found[operation.group] = operation.base_instant
    return found


def _eligible(
    view: TableView,
    replaced: Mapping[FileGroupId, InstantTime],
    retention: Retention,
    claims: Claims,
) -> Iterator[FileSlice]:
    for id, group in sorted(view.groups.items()):
        replaced_at = replaced.get(id)
        if replaced_at is None:
            yield from outdated(group, retention, claims)
        else:
            yield from outdated_replaced(group, replaced_at, retention, claims)


def _emptied(
    view: TableView,
    eligible: Iterable[FileSlice],
    replaced: Mapping[FileGroupId, InstantTime],
    retention: Retention,
) -> tuple[str, ...]:
    """Partitions that have no file left after the clean."""
    deleted = {(s.group, s.instant) for s in eligible}
    stays = {
        id.partition
        for id, group in view.groups.items()
        if any((id, s.instant) not in deleted for s in group.slices)
    }
    since = retention.since
    late = {g.partition for g, at in replaced.items() if since is not None and at >= since}
    touched = {group.partition for group, _ in deleted}
    return tuple(sorted(touched - stays - late - {""}))


def write_clean_plan(state: TableState, options: Options) -> Instant | None:
    """Write a plan to the timeline; None if no files are eligible for cleaning."""
    plan = propose_clean(state, options)
    if not plan.file_count:
        return None
    content = plan.to_avro(root=_root(state))
    return state.log.request(Action.CLEAN, content, now=state.timeline)


def _root(state: TableState) -> str:
    """The table's path without a scheme, as Apache Hudi names files of a data table."""
    return state.fs.url.removeprefix("file://")


def claim_clean(state: TableState, pending: Instant, options: Options) -> Heartbeat | None:
    """Claim a plan: its heartbeat, for `execute_clean`; None if another process runs it.

    The caller holds the table's lock.
    """
    if is_claimed(state.fs, pending, options.write):
        return None
    return claimed(state.fs, pending, options.write)


def forget_outdated(state: TableState, pending: Instant, options: Options) -> bool:
    """Remove a plan that nobody has begun and that is older than a rollback or restore, whether it
    arrived late or was left behind: files that it names may be of current slices again.

    The caller holds the table's lock.
    """
    undone = state.timeline.where({Action.ROLLBACK, Action.RESTORE}, State.COMPLETED)
    if pending.state is not State.REQUESTED or not undone.after(pending.time).instants:
        return False
    if is_claimed(state.fs, pending, options.write):
        return False
    state.log.forget(pending)
    return True


def execute_clean(
    state: TableState, pending: Instant, beat: Heartbeat, options: Options, engine: Engine
) -> CleanReport:
    """Run a plan, or continue an interrupted run; writers can commit concurrently."""
    began = time.monotonic()
    fs, log = state.fs, state.log
    with beat:
        plan = log.plan(pending, CleanPlan.from_record)
        is_new = pending.state is State.REQUESTED
        if is_new:
            pending = log.start(pending, log.read(replace(pending, state=State.REQUESTED)))
        for partition, names in plan.files.items():
            fs.delete(join(partition, name) for name in names)
        with finishing(state, pending, options.write, touched=WriteSet(frozenset())) as ending:
            ended = _ended(fs, plan.partitions)
            if is_new or not _is_in_metadata(state, pending, ending.now):
                metadata = ending.begin_metadata(engine)
                metadata.finish((), (), deleted=plan.files, dropped_partitions=ended)
            result = result_record(
                plan,
                started=pending.time,
                took_millis=round((time.monotonic() - began) * 1000),
                deleted=plan.files,
                partitions=ended,
            )
            complete(state, pending, write_avro(CLEAN_METADATA, result))
    return CleanReport(
        instants=(str(pending.time),),
        files=plan.file_count,
        partitions=len(plan.files),
        kept_from=plan.retained_from.time if plan.retained_from else None,
        held=plan.holds,
    )


def _ended(fs: FileSystem, planned: Iterable[str]) -> tuple[str, ...]:
    """Delete the metafiles of emptied partitions, except those written to in the meantime.

    The caller holds the table's lock, as do writers when they commit.
    """
    ended = tuple(
        partition
        for partition in planned
        if not any(parse_data_file(info.name) for info in fs.children(partition))
    )
    fs.delete(join(partition, PARTITION_METAFILE) for partition in ended)
    return ended


def _is_in_metadata(state: TableState, pending: Instant, now: Timeline) -> bool:
    """Whether the metadata table has already removed the files: only the last step is missing."""
    metadata = open_metadata(state.fs, state.config, state.log, now)
    return metadata is not None and any(
        i.time == pending.time and i.is_completed for i in metadata.timeline
    )
