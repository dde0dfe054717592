"""Views of a table: file groups, their slices, and which of them a reader may see.

Pure: built from files and timeline facts; a view is immutable.

A slice is a base file and its logs.  At table version 6 a log names the instant of
its slice; at 8 and 9 it names the delta commit that wrote it and belongs to the slice with the
newest base instant at or before that commit's completion.  While a compaction C of a group is
pending, new logs of version 6 start a slice named C; readers merge it with the preceding slice,
also if the plan of C is lost.
Source: table_format 5.3, 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import (
    BaseFileName,
    DataFileName,
    LogFileName,
    is_native_log,
    join,
    parse_data_file,
)
from pyhudi.formats.column_history import ColumnHistory
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.records import FileGroupId, InstantTime, is_before_all
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.instant import WRITES, Action, State
from pyhudi.timeline.timeline import Timeline

Completions: TypeAlias = Callable[[], Mapping[InstantTime, InstantTime]]
_Files: TypeAlias = dict[tuple[str, str], list["DataFile"]]  # by partition and file id


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The Parquet file with the data columns of a skeleton file, in the same row order.

    fs: rooted at the folder that the table was bootstrapped from, outside the table; only read.
    size_bytes: its length when the table was bootstrapped; None if the index does not state it.
    """

    fs: FileSystem = field(compare=False)
    path: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A base or log file on the store.

    source: set for the base files of a bootstrapped table that contain only meta columns.
    """

    name: DataFileName
    partition: str
    size_bytes: int
    source: SourceFile | None = None

    @property
    def path(self) -> str:
        """Path from the table's root."""
        return join(self.partition, str(self.name))


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group: a base file (if any) and its logs, oldest first.

    cdc_logs: logs of the changes made by the base file, which row queries do not read.
    """

    group: FileGroupId
    instant: InstantTime
    base: DataFile | None = None
    logs: tuple[DataFile, ...] = ()
    cdc_logs: tuple[DataFile, ...] = ()

    @property
    def partition(self) -> str:
        return self.group.partition

    @property
    def file_id(self) -> str:
        return self.group.file_id

    @property
    def source(self) -> SourceFile | None:
        """The file with the base file's data columns, if that is a skeleton file."""
        return None if self.base is None else self.base.source

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*((self.base,) if self.base else ()), *self.logs)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def log_bytes(self) -> int:
        return sum(file.size_bytes for file in self.logs)


@dataclass(frozen=True, slots=True)
class Visibility:
    """The instants visible to a reader: completed ones, and those archived before them.

    `limit` is the newest instant to consider (None: no limit).  unfinished: writes that are
    pending or were rolled back; they are never visible, also before `start`.  columns: the names of
    the table's columns in files, if they have changed.
    """

    completed: frozenset[InstantTime]
    start: InstantTime | None
    limit: InstantTime | None = None
    unfinished: frozenset[InstantTime] = frozenset()
    columns: ColumnHistory | None = None

    @classmethod
    def of(cls, timeline: Timeline, *, limit: InstantTime | None = None) -> Visibility:
        """Instants before the first commit of the active timeline count as archived, and so as
        completed.  Commits retained there by a savepoint are not counted as the first, nor those
        that created a part of a metadata table: both may stay longer than later ones."""
        saved = timeline.where({Action.SAVEPOINT}, State.COMPLETED).times
        commits = timeline.commits
        start = next(
            (i.time for i in commits if i.time not in saved and not is_before_all(i.time)), None
        )
        if start is None and commits.first:
            start = commits.first.time
        unfinished = timeline.pending.where(WRITES).times | timeline.rolled_back
        return cls(commits.times, start, limit, unfinished - commits.times)

    def sees(self, time: InstantTime) -> bool:
        if self.limit is not None and time > self.limit:
            return False
        if time in self.completed:
            return True
        return self.start is not None and time < self.start and time not in self.unfinished


@dataclass(frozen=True, slots=True)
class PendingPlans:
    """File groups claimed by services that have not completed; in a view also by compactions whose
    plans are lost, but not the logs that are based on them."""

    compacting: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    clustering: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    log_compacting: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)

    @property
    def claimed(self) -> frozenset[FileGroupId]:
        """Groups that other services must not plan for."""
        return frozenset((*self.compacting, *self.clustering, *self.log_compacting))


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The slices of a file group that a reader may see, newest first.

    `compacting` is the instant of its pending compaction, if any.
    """

    id: FileGroupId
    slices: tuple[FileSlice, ...]
    compacting: InstantTime | None = None

    def latest(self) -> FileSlice | None:
        """The newest slice, merged over a pending compaction."""
        if not self.slices:
            return None
        newest = self.slices[0]
        if newest.instant != self.compacting or len(self.slices) == 1:
            return newest
        before = self.slices[1]
        return replace(before, logs=(*before.logs, *newest.logs))

    def latest_base(self) -> FileSlice | None:
        """The newest slice that has a base file, as seen by read-optimized queries."""
        return next((s for s in self.slices if s.base is not None), None)


@dataclass(frozen=True)
class TableView:
    """Every file group that a reader may see, in one state of a table."""

    groups: Mapping[FileGroupId, FileGroup]
    visibility: Visibility
    pending: PendingPlans = field(default_factory=PendingPlans)

    def latest_slices(self) -> list[FileSlice]:
        """The newest slice of each group, in order of partition and file id."""
        found = (self.groups[id].latest() for id in sorted(self.groups))
        return [s for s in found if s is not None and s.files]

    def latest_base_slices(self) -> list[FileSlice]:
        found = (self.groups[id].latest_base() for id in sorted(self.groups))
        return [replace(s, logs=()) for s in found if s is not None]


def build_view(
    files: Iterable[tuple[str, FileInfo]],
    visibility: Visibility,
    *,
    layout: TableLayout,
    replaced: Mapping[FileGroupId, InstantTime] | None = None,
    pending: PendingPlans | None = None,
    completions: Mapping[InstantTime, InstantTime] | None = None,
    archived: Completions | None = None,
) -> TableView:
    """Group files into slices and retain those that `visibility` allows.

    files: (partition, file) in any order; other file names are ignored.
    replaced: groups removed from the table, and when.  completions: completion times (layout 2);
    archived: returns those of archived commits, called only if a log may need them.
    Raises UnsupportedTableError for logs of table version 10.
    """
    pending = pending or PendingPlans()
    bases, logs, cdc_logs = _by_group(files, visibility)
    gone = replaced or {}
    by_name = layout.logs_name_slices
    groups: dict[FileGroupId, FileGroup] = {}
    lost: dict[FileGroupId, InstantTime] = {}
    for place in bases.keys() | logs.keys():
        group = FileGroupId(*place)
        at = gone.get(group)
        if at is not None and visibility.sees(at):
            continue
        compacting = pending.compacting.get(group)
        slices = (_cut_by_name if by_name else _cut_by_completion)(
            group,
            bases.get(place, []),
            logs.get(place, []),
            visibility,
            compacting=compacting,
            completions=completions or {},
            archived=archived,
        )
        if place in cdc_logs:
            slices = tuple(_with_cdc_logs(file_slice, cdc_logs[place]) for file_slice in slices)
        if slices:
            if by_name and compacting is None and not visibility.sees(slices[0].instant):
                compacting = lost[group] = slices[0].instant
            groups[group] = FileGroup(group, slices, compacting if by_name else None)
    if lost:
        pending = replace(pending, compacting={**pending.compacting, **lost})
    return TableView(groups, visibility, pending)


def _by_group(
    files: Iterable[tuple[str, FileInfo]], visibility: Visibility
) -> tuple[_Files, _Files, _Files]:
    """The visible base files, the logs, and the logs of changes."""
    bases: _Files = {}
    logs: _Files = {}
    cdc_logs: _Files = {}
    for partition, info in files:
        name = parse_data_file(info.name)
        if name is None:
            if is_native_log(info.name):
                raise UnsupportedTableError("log files of table version 10", path=info.path)
            continue
        of = bases
        if isinstance(name, BaseFileName):
            if not visibility.sees(name.instant):
                continue
        elif name.is_cdc:
            of = cdc_logs
        else:
            of = logs
        file = DataFile(name, partition, info.size_bytes)
        of.setdefault((partition, name.file_id), []).append(file)
    return bases, logs, cdc_logs


def _with_cdc_logs(file_slice: FileSlice, logs: list[DataFile]) -> FileSlice:
    mine = [log for log in logs if log.name.instant == file_slice.instant]
    return replace(file_slice, cdc_logs=_in_order(mine)) if mine else file_slice


def _cut_by_name(
    group: FileGroupId,
    bases: list[DataFile],
    logs: list[DataFile],
    visibility: Visibility,
    *,
    compacting: InstantTime | None,
    completions: Mapping[InstantTime, InstantTime],
    archived: Completions | None,
) -> tuple[FileSlice, ...]:
    """Version 6: a log's name holds the instant of its slice.

    Logs of an instant that nothing states are based on a compaction whose plan is lost; without an
    older slice they are those of a group's first write, which failed.
    """
    base_at = {file.name.instant: file for file in bases}
    logs_at: dict[InstantTime, list[DataFile]] = {}
    unknown: dict[InstantTime, list[DataFile]] = {}
    for file in logs:
        time = file.name.instant
        within = visibility.limit is None or time <= visibility.limit
        if (time == compacting and within) or visibility.sees(time):
            logs_at.setdefault(time, []).append(file)
        elif within and time not in visibility.unfinished:
            unknown.setdefault(time, []).append(file)
    times = sorted(base_at.keys() | logs_at.keys(), reverse=True)
    if unknown and times and compacting is None and (newest := max(unknown)) > times[0]:
        logs_at[newest] = unknown[newest]
        times.insert(0, newest)
    if not logs_at:
        return tuple([FileSlice(group, time, base_at[time]) for time in times])
    return tuple(
        FileSlice(group, time, base_at.get(time), _in_order(logs_at.get(time, [])))
        for time in times
    )


def _cut_by_completion(
    group: FileGroupId,
    bases: list[DataFile],
    logs: list[DataFile],
    visibility: Visibility,
    *,
    compacting: InstantTime | None,
    completions: Mapping[InstantTime, InstantTime],
    archived: Completions | None,
) -> tuple[FileSlice, ...]:
    """Versions 8 and 9: a log belongs to the newest base instant at or before its completion."""
    base_at = {file.name.instant: file for file in bases}
    starts = sorted(base_at)
    logs_at: dict[InstantTime, list[DataFile]] = {}
    first: InstantTime | None = None
    seen = sorted(
        (f for f in logs if visibility.sees(f.name.instant)), key=lambda f: f.name.instant
    )
    for file in seen:
        time = file.name.instant
        done = completions.get(time, time)
        if done == time and archived is not None and starts and starts[-1] > time:
            done = archived().get(time, time)
        home = max((t for t in starts if t <= done), default=None)
        if home is None:
            first = home = first or time
        logs_at.setdefault(home, []).append(file)
    times = sorted(base_at.keys() | logs_at.keys(), reverse=True)
    return tuple(
        FileSlice(
            group,
            time,
            base_at.get(time),
            _in_order(logs_at.get(time, [])),
        )
        for time in times
    )


def _in_order(logs: list[DataFile]) -> tuple[DataFile, ...]:
    """Logs in merge order: of their names.  Completion times decide about the slice only, as in
    Apache Hudi 1.2.0."""
    if len(logs) < 2:
        return tuple(logs)

    def key(file: DataFile) -> tuple[str, int, str, bool]:
        assert isinstance(file.name, LogFileName)
        return file.name.order

    return tuple(sorted(logs, key=key))
