"""Plans of compactions: which slices they merge, as a record of the timeline and back.  Pure.

A plan names files, so what is merged does not depend on when it is carried out.
Source: table_format 4 (HoodieCompactionPlan), 7.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from pyhudi.errors import OptionError, UnsupportedTableError
from pyhudi.options import CompactionOptions, CompactionStrategy
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.timeline.plans.compaction import CompactionOperation, CompactionPlan

_MIB: Final = 1 << 20
NEW_BASE_BYTES: Final = 120 * _MIB  # what Apache Hudi expects of a slice without a base file


def compactable(view: TableView, options: CompactionOptions, *, today: date) -> list[FileSlice]:
    """Slices with logs that the strategy takes, in its order.

    Groups that a pending service has claimed are left out.  Raises OptionError for a pattern
    that is none.
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
    """Slices of the partitions that are latest by the values in their paths, those first."""
    by_values: dict[str, list[FileSlice]] = {}
    for piece in found:
        by_values.setdefault(_values(piece.partition), []).append(piece)
    latest = sorted(by_values, reverse=True)[: options.days]
    return [piece for values in latest for piece in by_values[values]]


def _values(partition: str) -> str:
    """A path without the names of its columns."""
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
    """As many as the bytes allow that are read and written; the one that crosses is taken."""
    chosen = []
    left = options.mib_max << 20
    for piece in found:
        if left <= 0:
            break
        chosen.append(piece)
        left -= piece.size_bytes + _written(piece)
    return chosen


def _written(piece: FileSlice) -> int:
    return piece.base.size_bytes if piece.base else NEW_BASE_BYTES


def compaction_plan(slices: Iterable[FileSlice], *, runs_at_once: bool = False) -> CompactionPlan:
    """The plan that merges these slices."""
    return CompactionPlan(tuple(map(_operation, slices)), runs_at_once)


def _operation(piece: FileSlice) -> CompactionOperation:
    return CompactionOperation(
        piece.group,
        piece.instant,
        str(piece.base.name) if piece.base else None,
        tuple(str(log.name) for log in piece.logs),
        metrics_of(piece),
    )


def metrics_of(piece: FileSlice) -> dict[str, float]:
    """What rewriting a slice costs, by Apache Hudi's names."""
    written = _written(piece)
    return {
        "TOTAL_LOG_FILES": float(len(piece.logs)),
        "TOTAL_LOG_FILES_SIZE": float(piece.log_bytes),
        "TOTAL_IO_READ_MB": float(piece.size_bytes // _MIB),
        "TOTAL_IO_WRITE_MB": float(written // _MIB),
        "TOTAL_IO_MB": float((piece.size_bytes + written) // _MIB),
    }


def planned_slices(
    view: TableView, operations: Iterable[CompactionOperation], *, at: InstantTime
) -> list[FileSlice]:
    """The slices a plan names, each with the logs it names.

    Raises UnsupportedTableError if one is not there any more.
    """
    found = []
    for operation in operations:
        group = operation.group
        slices = view.groups[group].slices if group in view.groups else ()
        piece = next((s for s in slices if s.instant == operation.base_instant), None)
        planned = set(operation.log_files)
        logs = tuple(log for log in piece.logs if str(log.name) in planned) if piece else ()
        if piece is None or len(logs) < len(planned):
            raise UnsupportedTableError(
                "a pending compaction cannot be carried out: files it names are not there",
                instant=at,
                partition=group.partition,
                file_id=group.file_id,
            )
        found.append(replace(piece, logs=logs))
    return found
