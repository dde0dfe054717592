"""File groups whose log files contain keys that their base files lack."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId
from pyhudi.table.file_group_view import FileSlice


def groups_with_log_inserts(
    state: TableState, slices: Sequence[FileSlice]
) -> frozenset[FileGroupId]:
    """Groups of these slices where a key may be in the logs alone, so that the key range and bloom
    filter of the base file are not sufficient.

    Found from the commits since the base files; groups whose commits may be archived are included.
    """
    logged = {
        file_slice.group: file_slice.instant
        for file_slice in slices
        if file_slice.base and file_slice.logs
    }
    if not logged:
        return frozenset()
    oldest = min(logged.values())
    commits = [i for i in state.timeline.commits if i.time > oldest]
    inserted = {
        stat.group
        for instant in commits
        for stat in state.log.commit(instant).stats
        if stat.log_version is not None and stat.insert_count
    }
    first = state.timeline.commits.first
    unknown: set[FileGroupId] = set()
    if first is not None and oldest < first.time and not state.archive.is_empty:
        unknown = {group for group, instant in logged.items() if instant < first.time}
    return frozenset(logged.keys() & (inserted | unknown))
