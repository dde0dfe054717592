"""Facts of the files of a table: sizes, partitions, logs, and what cleaning deletes.  Pure, but for
the results of the newest cleans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import parse_data_file
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.report.facts import (
    RUNS_MAX,
    TOP,
    CleaningFacts,
    CleanRun,
    LogFacts,
    PartitionFacts,
    SizeFacts,
    SizeRange,
    SliceFacts,
)
from pyhudi.report.timeline_parts import Commits
from pyhudi.services.cleaning import propose_clean
from pyhudi.services.compaction import deltas_since, pending_compactions
from pyhudi.storage.filesystem import FileInfo
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.instant import Action, State

_MIB: Final = 1 << 20
_RANGES: Final = (_MIB, 8 * _MIB, 32 * _MIB, 64 * _MIB, 100 * _MIB, 128 * _MIB, 256 * _MIB, None)
"""Ends of the ranges of sizes, among them the default of a small file."""

Files = Mapping[str, Sequence[FileInfo]]


def size_facts(slices: Iterable[FileSlice], small_limit: int) -> SizeFacts:
    """Sizes of the newest file slices.  small_limit: base files below it are small."""
    partitions: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    ranges = [[0, 0] for _ in _RANGES]
    groups = bases = small = total = 0
    for each in slices:
        base = each.base.size_bytes if each.base else None
        is_small = base is not None and base < small_limit
        row = partitions[each.partition]
        for place, value in enumerate((1, int(is_small), each.size_bytes, each.log_bytes)):
            row[place] += value
        groups, small, total = groups + 1, small + is_small, total + each.size_bytes
        if base is not None:
            at = next(n for n, end in enumerate(_RANGES) if end is None or base < end)
            ranges[at][0] += 1
            ranges[at][1] += base
            bases += 1
    found = [PartitionFacts(path, *row) for path, row in partitions.items()]
    found.sort(key=lambda p: (-p.small_files, -p.size, p.path))
    return SizeFacts(
        groups,
        bases,
        total,
        small,
        small_limit,
        tuple(SizeRange(end, *row) for end, row in zip(_RANGES, ranges, strict=True)),
        len(found),
        tuple(found[:TOP]),
    )


def log_facts(state: TableState, slices: Iterable[FileSlice]) -> LogFacts:
    """The logs that a compaction would merge.  Pure."""
    found, groups, bases = [], 0, 0
    for each in slices:
        groups, bases = groups + 1, bases + (each.base.size_bytes if each.base else 0)
        if each.logs:
            base = each.base.size_bytes if each.base else 0
            row = SliceFacts(each.partition, each.file_id, len(each.logs), each.log_bytes, base)
            found.append(row)
    top = sorted(found, key=lambda s: (-s.log_bytes, s.partition, s.file_id))[:TOP]
    return LogFacts(
        state.config.is_merge_on_read,
        groups,
        len(found),
        sum(s.log_files for s in found),
        sum(s.log_bytes for s in found),
        bases,
        sum(s.log_bytes + s.base_bytes for s in found),
        deltas_since(state.timeline) if state.config.is_merge_on_read else 0,
        tuple(i.time for i in pending_compactions(state.timeline)[:TOP]),
        tuple(top),
    )


def cleaning_facts(
    state: TableState,
    options: Options,
    slices: Sequence[FileSlice],
    files: Files,
    commits: Commits,
    *,
    plans: bool,
) -> CleaningFacts:
    """Data files before and after cleaning.  plans: also what a clean would delete now, which may
    read commits."""
    sizes = {
        (partition, info.name): info.size_bytes
        for partition, infos in files.items()
        for info in infos
        if parse_data_file(info.name) is not None
    }
    newest = [(f.partition, str(f.name)) for each in slices for f in each.files]
    snapshot = sum(sizes.get(name, 0) for name in newest)
    removable = None
    if plans:
        plan = propose_clean(state, options)
        removable = [sizes.get((p, n), 0) for p, names in plan.files.items() for n in names]
    return CleaningFacts(
        len(newest),
        snapshot,
        len(sizes) - len(newest),
        sum(sizes.values()) - snapshot,
        None if removable is None else len(removable),
        sum(removable or ()),
        _runs(state, commits),
        "" if plans else "not planned for a table of this size",
    )


def _runs(state: TableState, commits: Commits) -> tuple[CleanRun, ...]:
    """The newest completed cleans; sizes of deleted files as the newest commits state them."""
    stated = {s.file_name: s.size_bytes for commit in commits.values() for s in commit.stats}
    found = []
    cleans = state.timeline.where({Action.CLEAN}, State.COMPLETED)
    for instant in cleans.instants[-RUNS_MAX:]:
        try:
            names = list(_deleted(state.log.record(instant)))
        except (CorruptFileError, FileMissingError):
            continue
        known = [stated[name] for name in names if name in stated]
        found.append(CleanRun(instant.time, len(names), len(known), sum(known)))
    return tuple(found)


def _deleted(record: Mapping[str, Any]) -> Iterable[str]:
    """Names of the files that a clean deleted."""
    for partition in (record.get("partitionMetadata") or {}).values():
        for path in partition.get("successDeleteFiles") or ():
            yield str(path).rsplit("/", 1)[-1]
