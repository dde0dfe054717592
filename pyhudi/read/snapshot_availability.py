"""Availability of the snapshots of old instants.

Cleaning deletes old slices.  The snapshot at Q has expired if, for some file group, the slice a
reader at Q would see is among the deleted ones and the group had not been replaced at Q.  A pending
clean runs as planned: what needs its files later must not begin (`check_not_going`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.filenames import BaseFileName, parse_data_file
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import BEFORE_ALL_INSTANTS, FileGroupId, InstantTime, Position
from pyhudi.table.file_group_view import FileSlice, TableView, Visibility
from pyhudi.table.timeline_facts import files_going, replaced_groups
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


def check_reached(
    state: TableState, moment: TableState, limit: InstantTime | None, as_of: PointInTime
) -> None:
    """Raise UserError for a time before the table's first commit; an empty table raises nothing,
    nor does the position before all commits.

    moment, limit: the table as of that time.  Layout 1 reads the archive only where no active
    commit is old enough.
    """
    if as_of == BEFORE_ALL_INSTANTS:
        return
    if moment.past is not None:
        times = [i.time for i in state.commits]
        reached = bool(moment.commits)
    else:
        times = [i.time for i in state.timeline.commits]
        reached = limit is None or bool(times and times[0] <= limit)
        if not reached and not state.archive.is_empty:
            times = [*(commit.time for commit in state.archive.commit_instants), *times]
            reached = bool(times) and limit is not None and times[0] <= limit
    if times and not reached:
        raise UserError(
            "the table has no commit at or before this time",
            as_of=limit or (moment.past and moment.past.position),
            first_commit=min(times),
            hint="times without a zone are in the table's time zone",
        )


def check_not_expired(
    state: TableState,
    moment: TableState,
    view: TableView,
    limit: InstantTime | None,
    *,
    groups: frozenset[FileGroupId] | None = None,
    pruned: frozenset[str] = frozenset(),
) -> None:
    """Raise SnapshotExpiredError if files that a reader of a moment needs have been cleaned.

    state: the current one.  moment, limit, view: the table of the reader.  groups: the requested
    file groups (None: all).  pruned: partitions left out of the view.  Reads the metadata of
    cleans, including archived ones, and the plans of those that run.
    """
    sees = view.visibility.sees
    until = None if moment.past is None else moment.past.position
    cleaned = _cleaned_slices(state, sees, until)
    if not cleaned:
        return
    replaced = _replaced(state)
    for group, needed in cleaned.items():
        if group.partition in pruned or (groups is not None and group not in groups):
            continue
        gone = replaced.get(group)
        if gone is not None and sees(gone):
            continue
        known = view.groups.get(group)
        if known is None or needed.is_missing(known.slices[0]):
            raise SnapshotExpiredError(
                "files of this snapshot have been cleaned",
                as_of=limit or until,
                partition=group.partition,
                file_id=group.file_id,
                hint="read a later instant, or keep snapshots with a savepoint",
            )


def check_not_cleaned(
    state: TableState, moment: TableState, limit: InstantTime | None, slices: Iterable[FileSlice]
) -> None:
    """Raise SnapshotExpiredError if a base file of a range that ends in the past was cleaned.

    Reads the metadata of the cleans after the range, including archived ones.
    """
    last = state.timeline.commits.last
    is_past = moment.past is not None and bool(moment.past.later)
    if not is_past and (limit is None or last is None or last.time <= limit):
        return
    assert moment.past is not None or limit is not None
    until = Position(limit or "") if moment.past is None else moment.past.position
    cleaned = {(partition, name) for partition, name, _ in _deleted_files(state, until)}
    for file_slice in slices:
        if file_slice.base and (file_slice.partition, str(file_slice.base.name)) in cleaned:
            raise SnapshotExpiredError(
                "files of this range have been cleaned",
                until=until,
                path=file_slice.base.path,
                hint="read up to the newest commit, or set "
                "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
            )


def check_not_going(
    log: TimelineLog,
    timeline: Timeline,
    instant: InstantTime,
    files: Mapping[str, Collection[str]],
) -> None:
    """Raise UserError if a pending clean deletes files of the snapshot at `instant`.

    files: names by partition.
    """
    for clean, partition, names in files_going(log, timeline, State.REQUESTED, State.INFLIGHT):
        if not set(names).isdisjoint(files.get(partition, ())):
            raise UserError(
                "a planned clean deletes files of this snapshot",
                instant=instant,
                clean=clean.time,
                partition=partition,
                hint="run clean, then use a later commit",
            )


@dataclass(slots=True)
class _Cleaned:
    """Of the files of a group that were deleted and that a reader sees: the newest slice, the
    newest one that a running clean may have deleted in part, and the latest completion of a log
    that belongs to the slice before it (layout 2)."""

    slice: InstantTime = BEFORE_ALL_INSTANTS
    going: InstantTime = BEFORE_ALL_INSTANTS
    logged: InstantTime = BEFORE_ALL_INSTANTS

    def is_missing(self, newest: FileSlice) -> bool:
        """Whether some of the files were of the newest slice, or of a newer one."""
        if newest.instant < self.slice or newest.instant <= self.going:
            return True
        is_logged = self.logged > BEFORE_ALL_INSTANTS
        return is_logged and (newest.base is None or newest.base.name.instant <= self.logged)


def _cleaned_slices(
    state: TableState, sees: Callable[[InstantTime], bool], until: Position | None
) -> dict[FileGroupId, _Cleaned]:
    """For each group, what was deleted of the slices that the reader sees."""
    found: dict[FileGroupId, _Cleaned] = {}
    by_slice = state.log.layout.logs_name_slices
    done: dict[InstantTime, InstantTime] = {}
    for partition, file, is_running in _deleted_files(state, until):
        name = parse_data_file(file)
        if name is None or not sees(name.instant):
            continue
        of = found.setdefault(FileGroupId(partition, name.file_id), _Cleaned())
        if isinstance(name, BaseFileName) or by_slice:
            of.slice = max(of.slice, name.instant)
            of.going = max(of.going, name.instant) if is_running else of.going
        elif not name.is_cdc:
            done = done or {i.time: InstantTime(i.position) for i in state.commits}
            of.logged = max(of.logged, done.get(name.instant, name.instant))
    return found


def _deleted_files(state: TableState, until: Position | None) -> Iterator[tuple[str, str, bool]]:
    """Partitions and names of files that cleans have deleted, or that a running one deletes, and
    whether it is running."""
    for record in _clean_records(state, until):
        for partition, part in (record.get("partitionMetadata") or {}).items():
            for path in part.get("successDeleteFiles") or ():
                yield partition, path.rsplit("/", 1)[-1], False
    for _, partition, names in files_going(state.log, state.timeline, State.INFLIGHT):
        yield from ((partition, name, True) for name in names)


def _clean_records(state: TableState, until: Position | None) -> Iterator[Mapping[str, Any]]:
    """Records of the cleans that may have removed a slice of the snapshot: of those begun after
    `until`, as a clean retains the newest slices at its time.  None: of all cleans."""
    for instant in state.timeline.where({Action.CLEAN}, State.COMPLETED):
        if until is None or instant.time > until:
            yield state.log.record(instant)
    start = Visibility.of(state.timeline).start
    if until is None or start is None or until < start:
        for entry in state.archive.cleans:
            if until is None or entry.time > until:
                yield entry.record


def _replaced(state: TableState) -> dict[FileGroupId, InstantTime]:
    """File groups that replace commits, including archived ones, replaced, and when."""
    gone = replaced_groups(state.log, state.timeline)
    for entry in state.archive.commits:
        for partition, ids in (entry.metadata.replaced or {}).items():
            for file_id in ids:
                gone.setdefault(FileGroupId(partition, file_id), entry.time)
    return gone
