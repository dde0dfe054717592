"""Archival: moves old instants out of the active timeline, so that listing it stays cheap.

```
instants written to the archive -> their requested and inflight files deleted
-> their completed files, oldest first -> small files of the archive merged
-> the metadata table's timeline likewise
```

Instants that a crashed run has archived are found in the archive; they are only deleted then.
Cost: the files that are archived, a listing of both timelines, the files of the archive that may
hold active instants, and for replacements one listing of each partition whose file groups they
replaced.  The caller holds the table's lock.  Source: table_format 7.6, 9.10, writer_v8_v9 10.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE, parse_data_file
from pyhudi.metadata.partition_creation import still_needed
from pyhudi.metadata.reader import own_log
from pyhudi.metadata.visible_instants import is_creation
from pyhudi.options import Options, ServiceOptions
from pyhudi.planning.archival import (
    NO_INSTANT,
    SERVICES_ARCHIVED,
    ArchivePlan,
    Bounds,
    archivable,
    before_pending,
    completed_after,
    completed_while_pending,
    needed_to_trigger,
    replacements,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.reports import Report
from pyhudi.services.cleaning import earliest_retained
from pyhudi.services.snapshot_pins import pinned_snapshots
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.listing import StoreListing
from pyhudi.table.properties import load_config
from pyhudi.table.timeline_facts import files_going
from pyhudi.timeline.archive_files import ArchiveWriter, archive_of, has_history
from pyhudi.timeline.instant import COMPLETES_AS, WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.checks import is_partition
from pyhudi.timeline.state_files import state_files
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.placement.hashing_metadata import mark_rings

_CLOCK_SECONDS: Final = 2.0  # some stores have modification times of whole seconds
_REPLACED: Final = "replaced files not cleaned"


@dataclass(frozen=True, slots=True)
class ArchiveReport(Report):
    """What was archived, or (dry_run) would be.

    instants: of the table.  metadata_instants: number of instants of its metadata table.  files:
    written to the archive.  merged: files of the archive that were merged.  held_by: what retains
    more commits than requested.
    """

    instants: tuple[str, ...] = ()
    metadata_instants: int = 0
    files: int = 0
    merged: int = 0
    held_by: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def is_archival_due(log: TimelineLog, timeline: Timeline, rules: ServiceOptions) -> bool:
    """Whether a kind of instants that is counted exceeds the number to retain at most.  No I/O."""
    most = rules.commits_retained_max
    if len(timeline.commits) > most:
        return True
    return not has_history(log) and any(
        len(timeline.where({action}, State.COMPLETED)) > most for action in SERVICES_ARCHIVED
    )


def propose_archival(state: TableState, options: Options) -> ArchivePlan:
    """The instants of the table's timeline that can be archived now."""
    rules = options.services
    least, most = rules.commits_retained_min, rules.commits_retained_max
    earliest = earliest_retained(state.timeline, rules, state.zone)
    if earliest is not None:  # instants that cleaning keeps readable stay on the active timeline
        needed = len(state.timeline.commits.after(earliest.time)) + 2
        least, most = max(least, needed), max(most, needed + most - least)
    bounds = _bounds(state, options)
    choose = partial(
        archivable,
        state.timeline,
        commits_min=least,
        commits_max=most,
        services_follow=has_history(state.log),
    )
    plan = choose(bounds)
    needed_for = _first_needed(state, replacements(plan))
    if needed_for is None:
        return plan
    bounded = replace(bounds, commits={**bounds.commits, _REPLACED: needed_for})
    return choose(bounded)


def _first_needed(state: TableState, instants: Iterable[Instant]) -> InstantTime | None:
    """The first of these instants that replaced a file group which still has a file.

    Only the instant records that the group was replaced, so this lists the store and does not rely
    on cleans that have ended.  Files of a pending clean count too: the metadata table lists them
    until it ends.  Later instants stay as well: for Apache Hudi a commit that is neither on the
    timeline nor older than all of its instants has never completed.
    Cost: one listing for each partition whose file groups the instants replaced.
    """
    store = StoreListing(state.fs)
    going = _file_ids_going(state)
    there: dict[str, frozenset[str]] = {}
    for instant in instants:
        for partition, file_ids in (state.log.commit(instant).replaced or {}).items():
            if partition not in there:
                there[partition] = _file_ids(store, partition) | going.get(partition, frozenset())
            if not there[partition].isdisjoint(file_ids):
                return instant.time
    return None


def _file_ids_going(state: TableState) -> dict[str, frozenset[str]]:
    """File groups by partition of which a pending clean deletes files."""
    found: dict[str, frozenset[str]] = {}
    pending = State.REQUESTED, State.INFLIGHT
    for _, partition, names in files_going(state.log, state.timeline, *pending):
        parsed = [name for name in map(parse_data_file, names) if name is not None]
        there = found.get(partition, frozenset())
        found[partition] = there | {name.file_id for name in parsed}
    return found


def _file_ids(store: StoreListing, partition: str) -> frozenset[str]:
    """File groups that have a file in the partition's folder; none outside the table."""
    if partition and not is_partition(partition):
        return frozenset()
    (infos,) = store.files([partition]).values()
    names = (parse_data_file(info.name) for info in infos)
    return frozenset(name.file_id for name in names if name is not None)


def _bounds(state: TableState, options: Options) -> Bounds:
    timeline, rules = state.timeline, options.services
    concurrent = completed_while_pending(timeline)
    if not has_history(state.log):
        concurrent = _oldest_concurrent_commit(state.log, timeline)
    commits: dict[str, InstantTime | None] = {
        "a pending instant": before_pending(timeline),
        "a concurrent write": concurrent,
        "a snapshot pin": _pending_for_pins(state, options),
    }
    saved = timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    exempt = saved.times if rules.archives_beyond_savepoint else frozenset()
    if not exempt and saved.first is not None:
        commits["a savepoint"] = saved.first.time
    if state.config.is_merge_on_read:
        commits["the next compaction"] = needed_to_trigger(timeline, rules.compaction.after_commits)
    if rules.archives_behind_clean:
        commits["the last clean"] = _cleaned_before(state)
    compacted = None
    if "files" in state.config.metadata_partitions:
        compacted = _not_compacted(state)
        commits["the metadata table's compaction"] = compacted
    known = {why: time for why, time in commits.items() if time is not None}
    return Bounds(known, compacted, exempt)


def _pending_for_pins(state: TableState, options: Options) -> InstantTime | None:
    """The oldest instant that was pending when a snapshot was pinned whose reader is alive: the
    reader needs the plan of a compaction that has completed since.  Cost: one listing."""
    pins = pinned_snapshots(state.fs, options.write.concurrency.heartbeats)
    return min((i.time for pin in pins if pin.is_alive for i in pin.pending), default=None)


def _not_compacted(state: TableState) -> InstantTime | None:
    """The time from which on instants may not be in base files of the metadata table; None if all
    are."""
    compactions = own_log(state.fs, state.config).load()
    last = compactions.where({Action.COMMIT}, State.COMPLETED).last
    if last is None:
        return NO_INSTANT
    return completed_after(state.timeline, last.time) if has_history(state.log) else last.time


def _oldest_concurrent_commit(log: TimelineLog, timeline: Timeline) -> InstantTime | None:
    """The oldest commit that may have completed since a pending write began; None if there is none.

    That write has to find it when it checks for conflicts.  The oldest commit of the timeline if
    the store reports no modification times.
    """
    pending = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT)
    if not pending:
        return None
    files = state_files(log)

    def modified(instant: Instant, *, first: bool) -> float | None:
        infos = [info for info, _ in files.get((instant.time, COMPLETES_AS[instant.action]), ())]
        return infos[0 if first else -1].modified if infos else None

    begins = [modified(instant, first=True) for instant in pending]
    known = [begin for begin in begins if begin is not None]
    for commit in timeline.commits:
        ended = modified(commit, first=False)
        if len(known) < len(begins) or ended is None or ended >= min(known) - _CLOCK_SECONDS:
            return commit.time
    return None


def _cleaned_before(state: TableState) -> InstantTime | None:
    """The earliest instant that the last clean retained; its own time if it names none."""
    last = state.timeline.where({Action.CLEAN}, State.COMPLETED).last
    if last is None:
        return None
    return InstantTime(state.log.record(last).get("earliestCommitToRetain") or last.time)


def propose_metadata(
    state: TableState, archived: Iterable[Instant], options: Options
) -> ArchivePlan:
    """The instants of the metadata table to archive once `archived` instants of the table are.

    Retains everything from the table's first commit on: those instants show that the metadata table
    is up to date, and a restore rolls them back there.  An instant that created a partition stays,
    with all later ones, while a commit that completed before it does: it tells that the partition
    contains that commit, and that files which it wrote to a dropped one are gone.
    """
    if "files" not in state.config.metadata_partitions:
        return ArchivePlan()
    times = {i.time for i in archived}
    first = next((i.time for i in state.timeline.commits if i.time not in times), NO_INSTANT)
    metadata_timeline = own_log(state.fs, state.config).load()
    bounds = {
        "the table's first commit": first,
        "a pending instant": before_pending(metadata_timeline),
        "the next compaction": needed_to_trigger(
            metadata_timeline, options.write.metadata_compact_after
        ),
    }
    known = {why: time for why, time in bounds.items() if time is not None}
    rules = options.services

    def choose() -> ArchivePlan:
        return archivable(
            metadata_timeline,
            Bounds(known, min(known.values())),
            commits_min=rules.commits_retained_min + 1,
            commits_max=rules.commits_retained_max + 1,
            services_follow=has_history(state.log),
        )

    plan = choose()
    if has_history(state.log):
        gone = {*archived, *plan.instants}
        stays = [i for i in (*state.timeline.commits, *metadata_timeline.commits) if i not in gone]
        others = [i for i in stays if not is_creation(i.time)]
        needed = still_needed((i for i in plan.instants if is_creation(i.time)), others)
        if needed:
            known["a commit before the creation of a partition"] = min(i.time for i in needed)
            return choose()
    return plan


def execute_archival(state: TableState, options: Options) -> ArchiveReport:
    """Archive the instants that can be archived, of the table and of its metadata table."""
    rules = options.services
    files = archive_of(state.log, state.config.archive_folder)
    plan = propose_archival(state, options)
    mark_rings(state, replacements(plan))
    archived, written = _archive(files, state.timeline, plan, rules)
    merged = files.maintain(rules)
    metadata_plan = propose_metadata(state, archived, options)
    count = 0
    if "files" in state.config.metadata_partitions:
        log = own_log(state.fs, state.config)
        folder = load_config(state.fs.sub(METADATA_TABLE)).archive_folder
        archive_files = archive_of(log, folder)
        theirs, more = _archive(archive_files, log.load(), metadata_plan, rules)
        count, written = len(theirs), written + more
        merged += archive_files.maintain(rules)
    return ArchiveReport(
        instants=tuple(i.time for i in archived),
        metadata_instants=count,
        files=written,
        merged=merged,
        held_by=plan.held_by,
        notes=() if archived or count else ("no instants are eligible for archival",),
    )


def _archive(
    files: ArchiveWriter, timeline: Timeline, plan: ArchivePlan, rules: ServiceOptions
) -> tuple[list[Instant], int]:
    """(archived instants, files written).  Instants that are already archived are only removed."""
    done = timeline.where(None, State.COMPLETED)
    if done.first is None:
        return [], 0
    there = files.recorded(done)
    saved = timeline.where({Action.SAVEPOINT}).times
    chosen = frozenset(plan.instants)
    left = [i for i in done if (i.time, i.action) in there and (i.time not in saved or i in chosen)]
    fresh = [i for i in plan.instants if (i.time, i.action) not in there]
    if fresh:
        files.append(fresh, batch=rules.archive_batch)
    archived = [*left, *fresh]
    if archived:
        check_lock(files.fs)
        files.remove(archived)
    return archived, bool(fresh)


def archive_saved(state: TableState, saved: InstantTime, rules: ServiceOptions) -> None:
    """Archive the commit of a savepoint that is about to be deleted, where a later commit is.

    Without its savepoint the commit would be the start of the timeline, and readers would take the
    archived commits after it for ones that never completed.  Raises UserError for a replacement of
    file groups that still have files.
    """
    start = state.visibility().start
    commits = tuple(i for i in state.timeline.commits if i.time == saved)
    if start is None or saved >= start:
        return
    if all(archived.time <= saved for archived in state.archive.commit_instants):
        return
    if _first_needed(state, replacements(ArchivePlan(commits))) is not None:
        raise UserError(
            "later commits are archived, and files of groups that this commit replaced still exist",
            savepoint=saved,
            hint="table.clean() deletes them; then delete the savepoint",
        )
    files = archive_of(state.log, state.config.archive_folder)
    _archive(files, state.timeline, ArchivePlan(commits), rules)


def plan_archival(state: TableState, options: Options) -> ArchiveReport:
    """Report what `execute_archival` would do now; nothing changes."""
    plan = propose_archival(state, options)
    metadata_plan = propose_metadata(state, plan.instants, options)
    return ArchiveReport(
        instants=tuple(i.time for i in plan.instants),
        metadata_instants=len(metadata_plan.instants),
        files=bool(plan.instants) + bool(metadata_plan.instants),
        held_by=plan.held_by,
        dry_run=True,
    )
