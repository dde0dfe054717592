"""Archival: old instants leave the active timeline, so that listing it stays cheap.

```
instants written to the archive -> their requested and inflight files deleted
-> their completed files, oldest first -> the metadata table's timeline likewise
-> small files of the archive merged, where asked for
```

What a run that died had written is found in the newest file of the archive, and only deleted then.
Cost: the files that are archived, a listing of both timelines, one file of the archive, and where
replacements are due a listing of each partition that they replaced file groups of.  The caller
holds the table's lock.  Source: table_format 7.6, 9.10.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.filenames import METADATA_TABLE, parse_data_file
from pyhudi.metadata.reader import own_log
from pyhudi.options import Options, ServiceOptions
from pyhudi.planning.archival import (
    NO_INSTANT,
    ArchivePlan,
    Bounds,
    archivable,
    before_pending,
    needed_to_trigger,
    replacements,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.reports import Report
from pyhudi.services.cleaning import earliest_retained
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.listing import StoreListing
from pyhudi.table.properties import load_config
from pyhudi.timeline.archive_files import ArchiveFiles, state_files
from pyhudi.timeline.instant import COMPLETES_AS, WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.checks import is_partition
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.placement.hashing_metadata import mark_rings

_CLOCK_SECONDS: Final = 2.0  # some stores keep times of whole seconds
_REPLACED: Final = "replaced files not cleaned"


@dataclass(frozen=True, slots=True)
class ArchiveReport(Report):
    """What was archived, or (dry_run) would be.

    instants: of the table.  metadata_instants: how many of its metadata table.  files: written to
    the archive.  merged: files of the archive that were made into one.  held_by: what keeps more
    commits than asked for.
    """

    instants: tuple[str, ...] = ()
    metadata_instants: int = 0
    files: int = 0
    merged: int = 0
    held_by: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def is_archival_due(timeline: Timeline, rules: ServiceOptions) -> bool:
    """Whether there is more of some kind than is kept at most.  No I/O."""
    most = rules.commits_kept_max
    return len(timeline.commits) > most or any(
        len(timeline.where({action}, State.COMPLETED)) > most
        for action in (Action.CLEAN, Action.ROLLBACK)
    )


def propose_archival(state: TableState, options: Options) -> ArchivePlan:
    """What leaves the table's timeline now."""
    rules = options.services
    least, most = rules.commits_kept_min, rules.commits_kept_max
    earliest = earliest_retained(state.timeline, rules, state.zone)
    if earliest is not None:  # what cleaning keeps readable stays where it is looked up
        needed = len(state.timeline.commits.after(earliest.time)) + 2
        least, most = max(least, needed), max(most, needed + most - least)
    bounds = _bounds(state, rules)
    plan = archivable(state.timeline, bounds, commits_min=least, commits_max=most)
    needed_for = _first_needed(state, replacements(plan))
    if needed_for is None:
        return plan
    held = replace(bounds, commits={**bounds.commits, _REPLACED: needed_for})
    return archivable(state.timeline, held, commits_min=least, commits_max=most)


def _first_needed(state: TableState, going: Iterable[Instant]) -> InstantTime | None:
    """The first of these instants that replaced a file group of which a file is still there.

    Only the instant says that the group has left the table, so no clean, plan or listing of the
    metadata table is believed here: the store is asked.  Later instants stay, too: to Apache Hudi
    a commit that is neither on the timeline nor older than all of it has never completed.
    Cost: one listing for each partition that the instants replaced file groups of.
    """
    store = StoreListing(state.fs)
    there: dict[str, frozenset[str]] = {}
    for instant in going:
        for partition, file_ids in (state.log.commit(instant).replaced or {}).items():
            if partition not in there:
                there[partition] = _file_ids(store, partition)
            if not there[partition].isdisjoint(file_ids):
                return instant.time
    return None


def _file_ids(store: StoreListing, partition: str) -> frozenset[str]:
    """File groups of which the partition's folder holds a file; none outside the table."""
    if partition and not is_partition(partition):
        return frozenset()
    (infos,) = store.files([partition]).values()
    names = (parse_data_file(info.name) for info in infos)
    return frozenset(name.file_id for name in names if name is not None)


def _bounds(state: TableState, rules: ServiceOptions) -> Bounds:
    timeline = state.timeline
    commits: dict[str, InstantTime | None] = {
        "a pending instant": before_pending(timeline),
        "a write under way": _completed_beside(state.log, timeline),
    }
    saved = timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    kept = saved.times if rules.archives_beyond_savepoint else frozenset()
    if not kept and saved.first is not None:
        commits["a savepoint"] = saved.first.time
    if state.config.is_merge_on_read:
        commits["the next compaction"] = needed_to_trigger(timeline, rules.compaction.after_commits)
    if rules.archives_behind_clean:
        commits["the last clean"] = _cleaned_before(state)
    compacted = None
    if "files" in state.config.metadata_partitions:
        last = own_log(state.fs, state.config).load().where({Action.COMMIT}, State.COMPLETED).last
        compacted = last.time if last else NO_INSTANT
        commits["the metadata table's compaction"] = compacted
    known = {why: time for why, time in commits.items() if time is not None}
    return Bounds(known, compacted, kept)


def _completed_beside(log: TimelineLog, timeline: Timeline) -> InstantTime | None:
    """The oldest commit that may have completed since a pending write began: that write has to
    find it when it looks for conflicts.  Where the store tells no times, the oldest of all."""
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
    """What the last clean retained from; its own time where it names none."""
    last = state.timeline.where({Action.CLEAN}, State.COMPLETED).last
    if last is None:
        return None
    return InstantTime(state.log.record(last).get("earliestCommitToRetain") or last.time)


def propose_metadata(state: TableState, going: Iterable[Instant], options: Options) -> ArchivePlan:
    """What leaves the metadata table's timeline when `going` has left the table's own.

    Nothing from the table's first commit on: it tells that the metadata table has kept up, and
    what a restore takes back there.
    """
    if "files" not in state.config.metadata_partitions:
        return ArchivePlan()
    gone = {i.time for i in going}
    first = next((i.time for i in state.timeline.commits if i.time not in gone), NO_INSTANT)
    own = own_log(state.fs, state.config).load()
    bounds = {
        "the table's first commit": first,
        "a pending instant": before_pending(own),
        "the next compaction": needed_to_trigger(own, options.write.metadata_compact_after),
    }
    known = {why: time for why, time in bounds.items() if time is not None}
    rules = options.services
    return archivable(
        own,
        Bounds(known, min(known.values())),
        commits_min=rules.commits_kept_min + 1,
        commits_max=rules.commits_kept_max + 1,
    )


def execute_archival(state: TableState, options: Options) -> ArchiveReport:
    """Archive what can go, of the table and of its metadata table."""
    rules = options.services
    files = ArchiveFiles(state.log, state.config.archive_folder)
    plan = propose_archival(state, options)
    mark_rings(state, replacements(plan))
    gone, written = _archive(files, state.timeline, plan, rules)
    merged = _merge(files, rules)
    told = propose_metadata(state, gone, options)
    count = 0
    if "files" in state.config.metadata_partitions:
        log = own_log(state.fs, state.config)
        folder = load_config(state.fs.sub(METADATA_TABLE)).archive_folder
        own = ArchiveFiles(log, folder)
        theirs, more = _archive(own, log.load(), told, rules)
        count, written = len(theirs), written + more
        merged += _merge(own, rules)
    return ArchiveReport(
        instants=tuple(i.time for i in gone),
        metadata_instants=count,
        files=written,
        merged=merged,
        held_by=plan.held_by,
        notes=() if gone or count else ("nothing is old enough",),
    )


def _archive(
    files: ArchiveFiles, timeline: Timeline, plan: ArchivePlan, rules: ServiceOptions
) -> tuple[list[Instant], int]:
    """(instants gone, files written).  What is in the newest file already is only removed."""
    there = files.newest_times()
    saved = timeline.where({Action.SAVEPOINT}).times
    done = timeline.where(None, State.COMPLETED)
    left = [i for i in done if (i.time, i.action) in there and i.time not in saved]
    fresh = [i for i in plan.instants if (i.time, i.action) not in there]
    if fresh:
        files.append(fresh, batch=rules.archive_batch)
    going = [*left, *fresh]
    if going:
        check_lock(files.fs)
        files.remove(going)
    return going, bool(fresh)


def _merge(files: ArchiveFiles, rules: ServiceOptions) -> int:
    if not rules.merges_archive:
        return 0
    return files.merge(count=rules.archive_merge_count, bytes_max=rules.archive_merge_bytes)


def describe_archival(state: TableState, options: Options) -> ArchiveReport:
    """What `execute_archival` would do now; nothing changes."""
    plan = propose_archival(state, options)
    told = propose_metadata(state, plan.instants, options)
    return ArchiveReport(
        instants=tuple(i.time for i in plan.instants),
        metadata_instants=len(told.instants),
        files=bool(plan.instants) + bool(told.instants),
        held_by=plan.held_by,
        dry_run=True,
    )
