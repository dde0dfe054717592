"""Planning of compactions: the slices to merge, and plans of the timeline.  Pure.

A plan names files, so its input does not depend on when it runs.
Source: table_format 4 (HoodieCompactionPlan), 7.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from pyhudi.errors import OptionError, UnsupportedTableError
from pyhudi.options import CompactionOptions, CompactionStrategy
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.timeline.plans.compaction import CompactionOperation, CompactionPlan

_MIB: Final = 1 << 20
NEW_BASE_BYTES: Final = 120 * _MIB  # what Apache Hudi assumes for a slice without a base file


def compactable(view: TableView, options: CompactionOptions, *, today: date) -> list[FileSlice]:
    """Slices with log files that the strategy selects, in its order.

    Skips file groups that a pending service has claimed.  Raises OptionError for an invalid
    pattern.
    """
    claimed = view.pending.claimed
    found = [s for s in view.latest_slices() if s.logs and s.group not in claimed]
    match options.strategy:
        case CompactionStrategy.LOG_SIZE:
            found = [s for s in found if s.log_bytes >= options.log_bytes_min]
            found.sort(key=lambda s: (-s.log_bytes, s.group))
            return _bounded(found, options)
        case CompactionStrategy.LOG_COUNT:
            found = [s for s in found if len(s.logs) >= options.log_files_min]
            found.sort(key=lambda s: (-len(s.logs), s.group))
            return _bounded(found, options)
        case CompactionStrategy.BOUNDED:
            return _bounded(found, options)
        case CompactionStrategy.UNBOUNDED:
            return found
        case CompactionStrategy.DAYS:
            return _latest(found, options)
        case CompactionStrategy.DAYS_BOUNDED:
            return _bounded(_latest(found, options), options)
        case CompactionStrategy.RECENT:
            first = _day(today, options)
            return [s for s in found if _values(s.partition) >= first]
        case CompactionStrategy.OLD:
            first = _day(today, options)
            return [s for s in found if _values(s.partition) < first]
        case CompactionStrategy.PATTERN:
            pattern = _pattern(options.pattern)
            return [s for s in found if pattern.fullmatch(s.partition)]


def _latest(found: Iterable[FileSlice], options: CompactionOptions) -> list[FileSlice]:
    """Slices of the latest partitions by the values in their paths, the latest first."""
    by_values: dict[str, list[FileSlice]] = {}
    for slice_ in found:
        by_values.setdefault(_values(slice_.partition), []).append(slice_)
    latest = sorted(by_values, reverse=True)[: options.days]
    return [slice_ for values in latest for slice_ in by_values[values]]


def _values(partition: str) -> str:
    """A partition path without column names."""
    return "/".join(part.partition("=")[2] or part for part in partition.split("/"))


def _day(today: date, options: CompactionOptions) -> str:
    return (today - timedelta(days=options.days)).strftime("%Y/%m/%d")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise OptionError(
            "not a regular expression", option="hoodie.compaction.partition.path.regex", value=text
        ) from error


def _bounded(found: Iterable[FileSlice], options: CompactionOptions) -> list[FileSlice]:
    """The first slices within the limit of bytes read and written; includes the one crossing it."""
    chosen = []
    left = options.mib_max << 20
    for slice_ in found:
        if left <= 0:
            break
        chosen.append(slice_)
        left -= slice_.size_bytes + _written(slice_)
    return chosen


def _written(slice_: FileSlice) -> int:
    return slice_.base.size_bytes if slice_.base else NEW_BASE_BYTES


def compaction_plan(slices: Iterable[FileSlice], *, runs_at_once: bool = False) -> CompactionPlan:
    """The plan that merges these slices."""
    return CompactionPlan(tuple(map(_operation, slices)), runs_at_once)


def _operation(slice_: FileSlice) -> CompactionOperation:
    return CompactionOperation(
        slice_.group,
        slice_.instant,
        str(slice_.base.name) if slice_.base else None,
        tuple(str(log.name) for log in slice_.logs),
        metrics_of(slice_),
    )


def metrics_of(slice_: FileSlice) -> dict[str, float]:
    """The cost of rewriting a slice, under Apache Hudi's metric names."""
    written = _written(slice_)
    return {
        "TOTAL_LOG_FILES": float(len(slice_.logs)),
        "TOTAL_LOG_FILES_SIZE": float(slice_.log_bytes),
        "TOTAL_IO_READ_MB": float(slice_.size_bytes // _MIB),
        "TOTAL_IO_WRITE_MB": float(written // _MIB),
        "TOTAL_IO_MB": float((slice_.size_bytes + written) // _MIB),
    }


def planned_slices(
    view: TableView,
    operations: Iterable[CompactionOperation],
    *,
    at: InstantTime,
    listed_by: str | None = None,
) -> list[FileSlice]:
    """The slices that a plan names, each with the log files it names.  listed_by: for the error.

    Raises UnsupportedTableError if one of them no longer exists.
    """
    found = []
    for operation in operations:
        group, planned = operation.group, set(operation.log_files)
        slice_ = _slice_with(
            view, group, operation.base_instant, planned, operation.base_file is not None
        )
        logs = tuple(log for log in slice_.logs if str(log.name) in planned) if slice_ else ()
        if slice_ is None or len(logs) < len(planned):
            raise UnsupportedTableError(
                "a pending compaction cannot run: files that it names are missing",
                instant=at,
                partition=group.partition,
                file_id=group.file_id,
                missing=sorted(planned - {str(log.name) for log in logs}) or operation.base_file,
                listed_by=listed_by,
            )
        found.append(replace(slice_, instant=operation.base_instant, logs=logs))
    return found


def _slice_with(
    view: TableView,
    group: FileGroupId,
    base_instant: InstantTime,
    logs: Set[str],
    has_base: bool,
) -> FileSlice | None:
    """The slice that a plan means.  One without a base file is known by its logs: a write that
    began before them and completed since gives it another instant."""
    for slice_ in view.groups[group].slices if group in view.groups else ():
        if slice_.instant == base_instant:
            return slice_
        if not has_base and slice_.base is None and logs <= {str(log.name) for log in slice_.logs}:
            return slice_
    return None


def whole_slice(view: TableView, planned: FileSlice) -> FileSlice:
    """A planned slice with all its logs.

    A plan lacks logs that were committed before it appeared if the process that wrote it had lost
    the table's lock: without them the new base file would hide their rows.
    """
    logs = {str(log.name) for log in planned.logs}
    found = _slice_with(view, planned.group, planned.instant, logs, planned.base is not None)
    assert found is not None
    return found
