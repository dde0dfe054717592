"""Removal of no-op changes: adds to each task the slices that stored its keys before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyhudi.read.changes.incremental import ChangeWindow
from pyhudi.read.scan_tasks import Older, ReadTask
from pyhudi.read.snapshot_availability import check_not_expired
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId
from pyhudi.table.file_group_view import FileSlice, TableView


def against_before(
    state: TableState, window: ChangeWindow, tasks: Sequence[ReadTask]
) -> list[ReadTask]:
    """The tasks, each with the slices that stored its keys at the start of the window.

    A group that existed then is compared with its earlier state; a newer one with the groups of its
    partition that the window's commits replaced.  state: the current one.  Raises
    SnapshotExpiredError where those slices have been cleaned.
    """
    partitions = sorted({task.slice.partition for task in tasks})
    moment, limit = window.state.until(window.since)
    view = moment.view(partitions=partitions, limit=limit)
    groups = frozenset({task.slice.group for task in tasks} | window.replaced)
    check_not_expired(state, moment, view, limit, groups=groups)
    found = []
    for task in tasks:
        slices = _before(view, task.slice.group, window.replaced)
        found.append(replace(task, older=Older(slices, view.visibility)) if slices else task)
    return found


def _before(
    view: TableView, group: FileGroupId, replaced: frozenset[FileGroupId]
) -> tuple[FileSlice, ...]:
    file_group = view.groups.get(group)
    groups = [file_group] if file_group is not None else [
        view.groups[other]
        for other in sorted(replaced)
        if other.partition == group.partition and other in view.groups
    ]  # fmt: skip
    return tuple(s for g in groups if (s := g.latest()) is not None)
