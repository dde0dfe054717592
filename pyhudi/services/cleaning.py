"""Cleaning: files that no reader needs any more leave the table.

```
C.clean.requested   the plan: names by partition
C.clean.inflight    the same; files are being deleted
C.clean             what was deleted; the metadata table has forgotten the files by then
```

A plan left pending is carried out as it stands: deleting twice changes nothing.  Names in a plan
that are not those of data files are passed over, and nothing outside the table is touched.
The table's lock is held while a plan is made or claimed and while its end is published; files are
deleted beside writers.  Source: table_format 7.5.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo

from pyhudi.errors import OptionError
from pyhudi.filenames import PARTITION_METAFILE, join, parse_data_file
from pyhudi.metadata.reader import open_metadata
from pyhudi.options import CleaningPolicy, Options, ServiceOptions
from pyhudi.planning.cleaning import (
    Claims,
    Retention,
    file_names,
    looked_at_since,
    newest_kept,
    outdated,
    outdated_replaced,
    result_record,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.reports import Report
from pyhudi.services.snapshot_pins import HeldSnapshot, held_snapshots
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice, TableView, build_view
from pyhudi.table.timeline_facts import pending_plans, replaced_groups
from pyhudi.timeline.clock import format_instant, system_clock
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

    kept_from: the earliest instant whose readers still find all they need, None for all there is.
    held: snapshots that readers hold, which stay besides.  dropped: a line for each hold that
    ended because its reader is gone.
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
    """Whether a clean after a write may find files to delete, and enough commits have completed
    since the last clean.  No I/O."""
    if pending_cleans(timeline):
        return True
    last = timeline.where({Action.CLEAN}, State.COMPLETED).last
    since = timeline.commits if last is None else timeline.commits.after(last.time)
    if len(since) < rules.clean_after_commits:
        return False
    by_versions = rules.cleaning is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS
    return by_versions or earliest_retained(timeline, rules, zone) is not None


def propose_clean(state: TableState, options: Options) -> CleanPlan:
    """What can be deleted now."""
    rules = options.services
    newest = state.timeline.commits.last
    saved = state.timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    holds = _held(state, options)
    held = _files_held(state, holds)
    replaced = replaced_groups(state.log, state.timeline)
    kept_from = _not_past(
        earliest_retained(state.timeline, rules, state.zone),
        state.timeline.commits,
        _replaced_under(held, replaced),
    )
    plan = CleanPlan(
        rules.cleaning.value,
        {},
        # a clean of some partitions does not say what all of them retain
        kept_from=None if rules.filters_cleaning else kept_from,
        newest=newest.time if newest else None,
        savepoints=tuple(i.time for i in saved),
        holds=tuple(sorted({held.instant for held in holds})),
    )
    if kept_from is None and rules.cleaning is not CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        return plan
    retention = Retention(kept_from.time if kept_from else None, rules.versions_retained)
    view = _view(state, _partitions(state, rules, plan))
    claims = Claims(_saved(state, held), _needed(state))
    useless = list(_useless(view, replaced, retention, claims))
    files = file_names(useless)
    return replace(plan, files=files, partitions=_emptied(view, useless, replaced, retention))


def earliest_retained(
    timeline: Timeline, rules: ServiceOptions, zone: tzinfo | None
) -> Instant | None:
    """The earliest instant whose readers find all they need after a clean; None: all of them."""
    commits, pending = timeline.commits, _writing(timeline)
    match rules.cleaning:
        case CleaningPolicy.KEEP_LATEST_COMMITS:
            return newest_kept(commits, pending, retained=rules.commits_retained)
        case CleaningPolicy.KEEP_LATEST_BY_HOURS:
            oldest = system_clock() - timedelta(hours=rules.hours_retained)
            limit = format_instant(oldest, zone)
            recent = [i for i in commits if i.time >= limit]
            return newest_kept(commits, pending, retained=max(1, len(recent)))
        case CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
            return None


def _writing(timeline: Timeline) -> Timeline:
    """Pending instants that read what is in the table: all but cleans and rollbacks."""
    ignored = {Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT}
    return Timeline(tuple(i for i in timeline.pending if i.action not in ignored))


def _partitions(state: TableState, rules: ServiceOptions, plan: CleanPlan) -> list[str]:
    """Partitions that can hold something to delete: those that commits have come to since the
    last clean looked, or all."""
    everywhere = _selected(state.listing.partitions(), rules)
    last = state.timeline.where({Action.CLEAN}, State.COMPLETED).last
    if not rules.cleans_incrementally or plan.kept_from is None or last is None:
        return everywhere
    since = looked_at_since(
        state.timeline.commits, plan.kept_from, state.log.record(last), plan.kept
    )
    if since is None:
        return everywhere
    touched = {g.partition for i in since for g in state.log.commit(i).groups}
    return [partition for partition in everywhere if partition in touched]


def _selected(listed: list[str], rules: ServiceOptions) -> list[str]:
    """The partitions that the options name.  Raises OptionError for a pattern that is none."""
    if rules.clean_partitions:
        listed = [path for path in listed if path in rules.clean_partitions]
    if rules.clean_pattern is None:
        return listed
    try:
        pattern = re.compile(rules.clean_pattern)
    except re.error as error:
        raise OptionError(
            "not a regular expression", value=rules.clean_pattern,
            option="hoodie.clean.partition.filter.regex",
        ) from error  # fmt: skip
    return [path for path in listed if pattern.fullmatch(path)]


def _view(state: TableState, partitions: list[str]) -> TableView:
    """Every file group of some partitions, those that were replaced too."""
    files = ((p, info) for p, infos in state.listing.files(partitions).items() for info in infos)
    visibility = state.view(partitions=[]).visibility
    return build_view(files, visibility, pending=pending_plans(state.log, state.timeline))


def _held(state: TableState, options: Options) -> list[HeldSnapshot]:
    """Snapshots that living readers hold."""
    rules = options.write.concurrency.heartbeats
    return [held for held in held_snapshots(state.fs, rules) if held.is_alive]


def _files_held(state: TableState, holds: Iterable[HeldSnapshot]) -> dict[str, set[str]]:
    """Names by partition of the files that readers hold."""
    found: dict[str, set[str]] = {}
    for held in holds:
        for partition, names in held.files(state):
            found.setdefault(partition, set()).update(names)
    return found


def _replaced_under(
    held: Mapping[str, Iterable[str]], replaced: Mapping[FileGroupId, InstantTime]
) -> InstantTime | None:
    """The oldest replacement of a file group of which a reader holds a file."""
    groups = {
        FileGroupId(partition, parsed.file_id)
        for partition, names in held.items()
        for name in names
        if (parsed := parse_data_file(name)) is not None
    }
    return min((replaced[group] for group in groups if group in replaced), default=None)


def _not_past(
    kept_from: Instant | None, commits: Timeline, replacement: InstantTime | None
) -> Instant | None:
    """The instant to retain from, or the replacement if that is older.

    Apache Hudi archives replacements older than the instant that the last clean retains from, and
    does not know of holds: the file groups that a reader holds would come back.
    """
    if kept_from is None or replacement is None or replacement >= kept_from.time:
        return kept_from
    return next((i for i in commits if i.time == replacement), kept_from)


def _saved(state: TableState, held: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Names by partition that savepoints and readers hold.  held: those of readers."""
    found = {partition: set(names) for partition, names in held.items()}
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


def _useless(
    view: TableView,
    replaced: Mapping[FileGroupId, InstantTime],
    retention: Retention,
    claims: Claims,
) -> Iterator[FileSlice]:
    for id, group in sorted(view.groups.items()):
        gone = replaced.get(id)
        if gone is None:
            yield from outdated(group, retention, claims)
        else:
            yield from outdated_replaced(group, gone, retention, claims)


def _emptied(
    view: TableView,
    useless: Iterable[FileSlice],
    replaced: Mapping[FileGroupId, InstantTime],
    retention: Retention,
) -> tuple[str, ...]:
    """Partitions of which nothing stays."""
    going = {(s.group, s.instant) for s in useless}
    stays = {
        id.partition
        for id, group in view.groups.items()
        if any((id, s.instant) not in going for s in group.slices)
    }
    since = retention.since
    late = {g.partition for g, at in replaced.items() if since is not None and at >= since}
    touched = {group.partition for group, _ in going}
    return tuple(sorted(touched - stays - late - {""}))


def write_clean_plan(state: TableState, options: Options) -> Instant | None:
    """Write a plan down; None if nothing can go."""
    plan = propose_clean(state, options)
    if not plan.file_count:
        return None
    content = plan.to_avro(root=_root(state))
    return state.log.request(Action.CLEAN, content, now=state.timeline)


def _root(state: TableState) -> str:
    """The table's path without a scheme, as Apache Hudi names files of a data table."""
    return state.fs.url.removeprefix("file://")


def claim_clean(state: TableState, pending: Instant, options: Options) -> Heartbeat | None:
    """Take a plan on: its heartbeat, for `execute_clean`; None if another process runs it.

    The caller holds the table's lock.
    """
    if is_claimed(state.fs, pending, options.write):
        return None
    return claimed(state.fs, pending, options.write)


def execute_clean(
    state: TableState, pending: Instant, beat: Heartbeat, options: Options
) -> CleanReport:
    """Run a plan, from wherever it was left; writers go on beside it."""
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
            if is_new or not _is_told(state, pending, ending.now):
                ending.begin_metadata().finish((), (), deleted=plan.files, dropped_partitions=ended)
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
        kept_from=plan.kept_from.time if plan.kept_from else None,
        held=plan.holds,
    )


def _ended(fs: FileSystem, planned: Iterable[str]) -> tuple[str, ...]:
    """Take the metafiles of partitions that end; one that a writer has come to meanwhile stays.

    The caller holds the table's lock, as do writers when they commit.
    """
    ended = tuple(
        partition
        for partition in planned
        if not any(parse_data_file(info.name) for info in fs.children(partition))
    )
    fs.delete(join(partition, PARTITION_METAFILE) for partition in ended)
    return ended


def _is_told(state: TableState, pending: Instant, now: Timeline) -> bool:
    """Whether the metadata table has forgotten the files already: all but the end was done."""
    metadata = open_metadata(state.fs, state.config, state.log, now)
    return metadata is not None and any(
        i.time == pending.time and i.is_completed for i in metadata.timeline
    )
