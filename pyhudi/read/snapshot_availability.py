"""Availability of the snapshots of old instants.

Cleaning deletes old slices.  The snapshot at Q has expired if, for some file group, the slice a
reader at Q would see is among the deleted ones and the group had not been replaced at Q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.filenames import BaseFileName, parse_data_file
from pyhudi.layouts.table_layout import LogInstant
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import TableView
from pyhudi.table.timeline_facts import replaced_groups
from pyhudi.timeline.instant import Action, State


def check_reached(state: TableState, limit: InstantTime) -> None:
    """Raise UserError for a time before the table's first commit; an empty table raises nothing.

    Reads the archive only where no active commit is old enough.
    """
    times = [i.time for i in state.timeline.commits]
    if times and times[0] <= limit:
        return
    archived = () if state.archive.is_empty else state.archive.timeline.commits
    times = [*(commit.time for commit in archived), *times]
    if times and times[0] > limit:
        raise UserError(
            "the table has no commit at or before this time", as_of=limit, first_commit=times[0],
            hint="times without a zone are in the table's time zone",
        )  # fmt: skip


def check_not_expired(
    state: TableState,
    view: TableView,
    limit: InstantTime | None,
    *,
    until: InstantTime | None = None,
    groups: frozenset[FileGroupId] | None = None,
    pruned: frozenset[str] = frozenset(),
) -> None:
    """Raise SnapshotExpiredError if files that a reader at `limit` needs have been cleaned.

    state: the current one.  view: the table as of `limit`, or, where that is None, at `until`, a
    completion time.  groups: the requested file groups (None: all).  pruned:
    partitions left out of the view.  Reads the metadata of cleans, including archived ones.
    """

    def sees(time: InstantTime) -> bool:
        return view.visibility.sees(time) if limit is None else time <= limit

    cleaned = _cleaned_slices(state, sees, until if limit is None else None)
    if not cleaned:
        return
    replaced = _replaced(state)
    for group, time in cleaned.items():
        if group.partition in pruned or (groups is not None and group not in groups):
            continue
        gone = replaced.get(group)
        if gone is not None and sees(gone):
            continue
        known = view.groups.get(group)
        if known is None or known.slices[0].instant < time:
            raise SnapshotExpiredError(
                "files of this snapshot have been cleaned",
                as_of=limit or until,
                partition=group.partition,
                file_id=group.file_id,
                hint="read a later instant, or keep snapshots with a savepoint",
            )


def _cleaned_slices(
    state: TableState, sees: Callable[[InstantTime], bool], until: InstantTime | None
) -> dict[FileGroupId, InstantTime]:
    """For each group, the newest slice that the reader sees and of which a file was deleted."""
    newest: dict[FileGroupId, InstantTime] = {}
    by_slice = state.log.layout.log_instant is LogInstant.SLICE
    for record in _clean_records(state, until):
        for partition, part in (record.get("partitionMetadata") or {}).items():
            for path in part.get("successDeleteFiles") or ():
                name = parse_data_file(path.rsplit("/", 1)[-1])
                if name is None or not sees(name.instant):
                    continue
                if isinstance(name, BaseFileName) or by_slice:
                    group = FileGroupId(partition, name.file_id)
                    newest[group] = max(newest.get(group, name.instant), name.instant)
    return newest


def _clean_records(state: TableState, until: InstantTime | None) -> Iterator[Mapping[str, Any]]:
    """Records of the cleans that may have removed a slice of the snapshot: of those begun after
    `until`, as a clean retains the newest slices at its time.  None: of all cleans."""
    cleans = state.timeline.where({Action.CLEAN}, State.COMPLETED)
    for instant in cleans if until is None else cleans.after(until):
        yield state.log.record(instant)
    if until is None or state.is_archived(until):
        for entry in state.archive.cleans:
            yield entry.record


def _replaced(state: TableState) -> dict[FileGroupId, InstantTime]:
    """File groups that replace commits, including archived ones, replaced, and when."""
    gone = replaced_groups(state.log, state.timeline)
    for entry in state.archive.commits:
        for partition, ids in (entry.metadata.replaced or {}).items():
            for file_id in ids:
                gone.setdefault(FileGroupId(partition, file_id), entry.time)
    return gone
