"""Incremental queries: the commits in a range and the rows that they wrote.

    since            until
      |  T1  T2  T3   |        rows of the snapshot at `until` whose commit is T1, T2 or T3

since is exclusive, until inclusive.  Both are positions: completion times, in layout 1 instants.
A range holds the commits whose positions are in it, also archived ones: archival goes by instants,
so a commit that began early and completed late can be archived before others that completed before.

The cost depends on the commits in the range, not on the size of the table: their metadata names the
file groups and, for a copy-on-write table, the exact files; nothing is listed.  Layout 2 also reads
the instants of the archive, once.  Only a range that begins before the active timeline and has no
end, or begins before all known commits, reads all file groups.

A hollow commit (hole) is a write that is still pending before a completed one.  When it completes,
its rows belong to an instant that readers have already passed.  FAIL rejects such a range, BLOCK
ends it before the hollow commit, USE_TRANSITION_TIME uses completion times, which version 6 does
not record.
Source: table_format 7.10; TimelineUtils.handleHollowCommitIfNeeded of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import pyarrow as pa

from pyhudi.errors import HollowCommitError, UnsupportedTableError, UserError
from pyhudi.filenames import BaseFileName, parse_data_file
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.payload_classes import Keeps
from pyhudi.options import HollowCommitPolicy
from pyhudi.read.positions import as_position
from pyhudi.read.predicate import (
    And,
    Column,
    Compare,
    In,
    Node,
    Not,
    Predicate,
    both,
    literal,
)
from pyhudi.read.scan_tasks import Older, ReadTask
from pyhudi.read.snapshot_availability import check_not_expired
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import COMMIT_TIME, FileGroupId, InstantTime, Position
from pyhudi.table.file_group_view import DataFile, FileSlice, TableView, Visibility
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import COMMITS, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Commits after `since` up to `until` (None: the newest), compared as text.

    partitions: a glob that partition paths must match.  hide_unchanged: leave out rows whose
    columns have the same values as at `since`.  falls_back: where files of the range have been
    cleaned, return those of its rows that no later commit has overwritten.  schema_of_end: columns
    as of `until`.
    """

    since: PointInTime
    until: PointInTime | None = None
    hollow_commits: HollowCommitPolicy = HollowCommitPolicy.FAIL
    partitions: str | None = None
    hide_unchanged: bool = False
    falls_back: bool = False
    schema_of_end: bool = False


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """A range, resolved against the timeline.

    state: the table as visible to the range.  limit: the newest visible instant.  commits: those
    in the range, in the order of their positions; None where they may be archived or unknown.
    where: the filter for rows of the range if `reaches_archive`; None: all rows.
    """

    state: TableState
    since: Position
    limit: InstantTime | None
    commits: tuple[tuple[Instant, CommitMetadata], ...] | None
    partitions: str | None = None
    where: Predicate | None = None
    reaches_archive: bool = False

    def allows(self, partition: str) -> bool:
        return self.partitions is None or fnmatchcase(partition, self.partitions)

    @property
    def groups(self) -> frozenset[FileGroupId] | None:
        """File groups that the commits wrote or replaced; None if unknown."""
        if self.commits is None:
            return None
        found = (group for _, commit in self.commits for group in commit.groups)
        return frozenset(group for group in found if self.allows(group.partition))

    @property
    def replaced(self) -> frozenset[FileGroupId]:
        """File groups that the commits replaced."""
        return frozenset(
            FileGroupId(partition, file_id)
            for _, commit in self.commits or ()
            for partition, ids in (commit.replaced or {}).items()
            for file_id in ids
        )

    def filter(self) -> Predicate | None:
        """The filter that selects the rows of the range from the snapshot at `limit`; None: all."""
        if self.reaches_archive:
            return self.where
        return _commit_filter(self.state, self.since, self.limit)

    def written_slices(self) -> list[FileSlice] | None:
        """The newest base files that the commits wrote, from their metadata alone.

        None where that is not sufficient: the range reaches into the archive, or there are logs.
        """
        if self.commits is None or self.state.config.is_merge_on_read:
            return None
        newest: dict[FileGroupId, FileSlice] = {}
        gone = self.replaced
        for _, commit in self.commits:
            for stat in commit.stats:
                name = parse_data_file(stat.file_name)
                if not isinstance(name, BaseFileName):
                    return None
                base = DataFile(name, stat.partition, stat.size_bytes)
                known = newest.get(stat.group)
                if known is None or known.instant <= name.instant:
                    newest[stat.group] = FileSlice(stat.group, name.instant, base)
        found = [newest[g] for g in sorted(newest) if g not in gone and self.allows(g.partition)]
        return found if self.state.sources is None else self.state.sources.attach(found)

    def is_in_logs(self, slice: FileSlice) -> bool:
        """Whether only the logs of a slice can contain rows of the range: a base file has rows of
        its own commit and of earlier ones."""
        base = slice.base
        if base is None or not slice.logs or slice.source is not None or not self.commits:
            return False
        is_parquet = isinstance(base.name, BaseFileName) and base.name.extension == ".parquet"
        return is_parquet and base.name.instant < min(instant.time for instant, _ in self.commits)

    def trimmed(self, slices: Iterable[FileSlice]) -> list[FileSlice]:
        """The slices without files that cannot affect a row of the range.

        Where the later write wins, the files of the range's commits determine its rows.  Under
        partial updates a row has only the values that those commits wrote, as in Apache Hudi.
        """
        is_whole = not self.state.log.layout.has_partial_logs
        if self.commits is None or not (is_whole and _is_determined_by_range(self.state.rules)):
            return list(slices)
        times = {instant.time for instant, _ in self.commits}
        paths = {stat.path for _, commit in self.commits for stat in commit.stats}
        found = []
        for file_slice in slices:
            base = (
                file_slice.base
                if file_slice.base and file_slice.base.name.instant in times
                else None
            )
            logs = tuple(log for log in file_slice.logs if log.path in paths)
            if base or logs:
                found.append(replace(file_slice, base=base, logs=logs))
        return found


def check_range(state: TableState, since: PointInTime, until: PointInTime | None) -> None:
    """Raise UserError for bounds that are no times, and a range that ends before it begins."""
    first = as_position(state, since)
    if until is not None and first > as_position(state, until):
        raise UserError(
            "the range of changes ends before it begins",
            since=since,
            until=until,
            hint="since is exclusive, until inclusive",
        )


def open_window(state: TableState, changes: ChangeRange) -> ChangeWindow:
    """Resolve a range.  Reads the metadata of its commits.

    Raises UserError (no meta columns), HollowCommitError, UnsupportedTableError.
    """
    if not state.config.has_meta_columns:
        raise UserError("changes need the meta columns, which this table does not store")
    since = as_position(state, changes.since)
    until = None if changes.until is None else as_position(state, changes.until)
    if _is_newest_of_archive(state, since, until):
        where = range_filter(state, changes)
        return ChangeWindow(state, since, None, None, changes.partitions, where, True)
    moment, limit = (state, None) if until is None else state.until(until)
    limit = _before_hollow_commits(moment, changes.hollow_commits, limit)
    return ChangeWindow(
        moment,
        since,
        limit,
        commits_between(moment, since, limit),
        changes.partitions,
    )


def _is_newest_of_archive(state: TableState, since: Position, until: Position | None) -> bool:
    """Whether a range that begins before the active timeline, has archived commits and ends with
    the newest commit (layout 2): the newest snapshot has its rows, whatever was cleaned.

    Commits that a savepoint retains do not begin the timeline."""
    if not state.log.layout.has_completion_times:
        return False
    if until is not None and any(i.position > until for i in state.commits):
        return False
    start = Visibility.of(state.timeline).start
    active = [i.position for i in state.timeline.commits if start is not None and i.time >= start]
    if not active or since >= min(active):
        return False
    return any(i.position > since and i.time not in state.timeline.times for i in state.commits)


def range_filter(state: TableState, changes: ChangeRange) -> Predicate | None:
    """The filter that selects the rows of a range from the newest snapshot; None: all."""
    if not state.log.layout.has_completion_times:
        return open_window(state, changes).filter()
    since = as_position(state, changes.since)
    until = None if changes.until is None else as_position(state, changes.until)
    later = [i.time for i in state.commits if until is not None and i.position > until]
    where = Predicate(Not(_among(later)), (COMMIT_TIME,)) if later else None
    return both(where, _commit_filter(state, since, None))


def commits_between(
    state: TableState, since: Position, limit: InstantTime | None
) -> tuple[tuple[Instant, CommitMetadata], ...] | None:
    """Completed commits after `since` up to `limit` with their metadata, in the order of their
    positions; None where older ones than all known commits may be among them."""
    if not _is_known(state, since, limit):
        return None
    seen = state.visibility(limit=limit)
    found = [i for i in state.commits if i.position > since and seen.sees(i.time)]
    active = state.timeline.times
    archived = state.archive.metadata_of([i for i in found if i.time not in active])
    return tuple((i, archived.get(i.time) or state.log.commit(i)) for i in found)


def _is_known(state: TableState, since: Position, limit: InstantTime | None) -> bool:
    """Whether every commit after `since` is among `state.commits`."""
    if state.log.layout.has_completion_times:
        return bool(state.commits) and since >= state.commits[0].position
    start = state.visibility(limit=limit).start
    return start is not None and since >= start


def _before_hollow_commits(
    state: TableState, policy: HollowCommitPolicy, limit: InstantTime | None
) -> InstantTime | None:
    """The newest visible instant given the policy; layout 2 has no hollow commits in a range."""
    if state.log.layout.has_completion_times:
        return limit
    if policy is HollowCommitPolicy.USE_TRANSITION_TIME:
        raise UnsupportedTableError(
            "tables of version 6 do not record when a commit completed",
            policy=policy.value,
            hint="use BLOCK or FAIL",
        )
    hollow = _first_hollow_commit(state.log, state.timeline, limit)
    if hollow is None:
        return limit
    if policy is HollowCommitPolicy.BLOCK:
        return hollow.time
    raise HollowCommitError(
        "a commit inside the range is still pending, its rows would be missed",
        instant=hollow.time,
        action=hollow.action.value,
        hint="read up to an earlier instant, or set hollow_commits='block' to wait for it",
    )


def _first_hollow_commit(
    log: TimelineLog, timeline: Timeline, limit: InstantTime | None
) -> Instant | None:
    """The oldest pending write that precedes a completed one (up to `limit`)."""
    commits = timeline.commits if limit is None else timeline.commits.up_to(limit)
    newest = commits.last
    if newest is None:
        return None
    for instant in timeline.where(COMMITS, State.REQUESTED, State.INFLIGHT):
        if instant.time > newest.time:
            return None
        if instant.time not in commits.times and not log.is_clustering(instant):
            return instant
    return None


def _commit_filter(
    state: TableState, since: Position, limit: InstantTime | None
) -> Predicate | None:
    """The filter for rows of commits after `since` that the state sees; None: all of its rows."""
    if not state.log.layout.has_completion_times:
        later = _compared(">", since)
        sides = (later,) if limit is None else (later, _compared("<=", limit))
        return Predicate(And(sides), (COMMIT_TIME,))
    if not _is_known(state, since, limit):
        return None
    times = sorted(i.time for i in state.commits if i.position > since)
    bounds = (_compared(">=", times[0]), _compared("<=", times[-1])) if times else ()
    return Predicate(And((_among(times), *bounds)), (COMMIT_TIME,))


def _compared(operator: str, time: str) -> Node:
    return Compare(operator, Column((COMMIT_TIME,)), literal(time))


def _among(times: Sequence[str]) -> Node:
    return In(Column((COMMIT_TIME,)), pa.array(times, pa.string()))


def _is_determined_by_range(rules: MergeRules) -> bool:
    """Whether the files of a range determine its rows: the later of two writes of a key replaces
    the whole record, or the payload class applies partial updates."""
    if not rules.takes_stored_values:
        return False
    if rules.picks:
        return not rules.is_event_time
    return not rules.tombstones and rules.keeps is Keeps.NULLS


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
    groups = (
        [file_group]
        if file_group is not None
        else [
            view.groups[other]
            for other in sorted(replaced)
            if other.partition == group.partition and other in view.groups
        ]
    )
    return tuple(s for g in groups if (s := g.latest()) is not None)


__all__ = [
    "ChangeRange",
    "ChangeWindow",
    "HollowCommitPolicy",
    "against_before",
    "commits_between",
    "open_window",
    "range_filter",
]
