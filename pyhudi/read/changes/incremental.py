"""Incremental queries: the commits in a range and the rows that they wrote.

    since            until
      |  T1  T2  T3   |        rows of the snapshot at `until` whose commit is T1, T2 or T3

since is exclusive, until inclusive.  Layout 1 compares instants, layout 2 completion times.

The cost depends on the commits in the range, not on the size of the table: their metadata names the
file groups and, for a copy-on-write table, the exact files; nothing is listed.  Only a range that
reaches back into the archive reads all file groups; in layout 2 those of the newest snapshot, as
Apache Hudi 1.2.0 does, so that rows that later commits have overwritten are left out.

A hollow commit (hole) is a write that is still pending before a completed one.  When it completes,
its rows belong to an instant that readers have already passed.  FAIL rejects such a range, BLOCK
ends it before the hollow commit, USE_TRANSITION_TIME uses completion times, which version 6 does
not record.
Source: table_format 7.10; TimelineUtils.handleHollowCommitIfNeeded of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import tzinfo
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import HollowCommitError, UnsupportedTableError, UserError
from pyhudi.filenames import BaseFileName, parse_data_file
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.payload_classes import Keeps
from pyhudi.options import HollowCommitPolicy
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime, as_bound
from pyhudi.records import COMMIT_TIME, FileGroupId, InstantTime
from pyhudi.table.file_group_view import DataFile, FileSlice
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

    state: the table as visible to the range.  until: the end of the range where `state` is that of
    an earlier moment, else None.  limit: the newest visible instant.  commits: those
    in the range, oldest first; None where some of them may be archived.  where: the filter for
    rows of the range if `reaches_archive`; None: all rows.
    """

    state: TableState
    since: InstantTime
    limit: InstantTime | None
    commits: tuple[tuple[Instant, CommitMetadata], ...] | None
    partitions: str | None = None
    where: pc.Expression | None = None
    reaches_archive: bool = False
    until: InstantTime | None = None

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

    def filter(self) -> pc.Expression | None:
        """The filter that selects the rows of the range from the snapshot at `limit`; None: all."""
        if self.reaches_archive:
            return self.where
        wheres = _commit_filter(self.state, self.since, self.limit)
        result: pc.Expression | None = None
        for where in wheres:
            result = where if result is None else result & where
        return result

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


def check_range(since: PointInTime, until: PointInTime | None, zone: tzinfo | None) -> None:
    """Raise UserError for bounds that are no times, and a range that ends before it begins."""
    first = as_bound(since, zone)
    if until is not None and first > as_bound(until, zone):
        raise UserError(
            "the range of changes ends before it begins", since=since, until=until,
            hint="since is exclusive, until inclusive",
        )  # fmt: skip


def open_window(state: TableState, changes: ChangeRange) -> ChangeWindow:
    """Resolve a range.  Reads the metadata of its commits.

    Raises UserError (no meta columns), HollowCommitError, UnsupportedTableError.
    """
    if not state.config.has_meta_columns:
        raise UserError("changes need the meta columns, which this table does not store")
    since = as_bound(changes.since, state.zone)
    until = None if changes.until is None else as_bound(changes.until, state.zone)
    if _reaches_archive(state, since, until):
        where = _archived_filter(state, since, until)
        return ChangeWindow(state, since, None, None, changes.partitions, where, True)
    moment, limit = (state, None) if until is None else state.until(until)
    limit = _before_hollow_commits(moment, changes.hollow_commits, limit)
    return ChangeWindow(
        moment,
        since,
        limit,
        commits_between(moment, since, limit),
        changes.partitions,
        until=None if moment is state else until,
    )


def range_filter(state: TableState, changes: ChangeRange) -> pc.Expression | None:
    """The filter that selects the rows of a range from the newest snapshot; None: all."""
    if not state.log.layout.has_completion_times:
        return open_window(state, changes).filter()
    until = None if changes.until is None else as_bound(changes.until, state.zone)
    return _archived_filter(state, as_bound(changes.since, state.zone), until)


def _reaches_archive(state: TableState, since: InstantTime, until: InstantTime | None) -> bool:
    """Whether an archived commit completed in the range (layout 2)."""
    return state.is_archived(since) and any(
        done > since and (until is None or done <= until)
        for done in state.archive.completions.values()
    )


def _archived_filter(
    state: TableState, since: InstantTime, until: InstantTime | None
) -> pc.Expression | None:
    """Rows of commits that completed after `since` up to `until`, archived ones included.

    Commits that are no longer in the archive are older than all commits in it.
    """
    archived = state.archive.completions
    active = {i.time: i.completed_at or i.time for i in state.timeline.commits}
    others = [
        time
        for time, done in {**archived, **active}.items()
        if done <= since or (until is not None and done > until)
    ]
    time = pc.field(COMMIT_TIME)
    where = ~time.isin(pa.array(others, pa.string())) if others else None
    if any(done <= since for done in archived.values()):
        return where & (time >= min(archived))
    return where


def commits_between(
    state: TableState, since: InstantTime, limit: InstantTime | None
) -> tuple[tuple[Instant, CommitMetadata], ...] | None:
    """Completed commits after `since` up to `limit`, oldest first, with their metadata; None
    where some of them may be archived."""
    visibility = state.visibility(limit=limit)
    if visibility.start is None or since < visibility.start:
        return None
    return tuple(
        (instant, state.log.commit(instant))
        for instant in state.timeline.commits
        if (instant.completed_at or instant.time) > since and visibility.sees(instant.time)
    )


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
    state: TableState, since: InstantTime, until: InstantTime | None
) -> list[pc.Expression]:
    """Filters for rows of commits after `since` (completed after it, if that is recorded)."""
    time = pc.field(COMMIT_TIME)
    if not state.log.layout.has_completion_times:
        later = time > since
        return [later if until is None else later & (time <= until)]
    before = [i.time for i in state.timeline.commits if (i.completed_at or i.time) <= since]
    filters = [~time.isin(before)] if before else []
    start = state.start
    if start is not None and (since >= start or state.archive.has_commits):
        filters.append(time >= start)  # no archived commit is in the range
    return filters


def _is_determined_by_range(rules: MergeRules) -> bool:
    """Whether the files of a range determine its rows: the later of two writes of a key replaces
    the whole record, or the payload class applies partial updates."""
    if rules.refused is not None or rules.function is not None:
        return False
    if rules.picks:
        return not rules.is_event_time
    return not rules.tombstones and rules.keeps is Keeps.NULLS


__all__ = [
    "ChangeRange",
    "ChangeWindow",
    "HollowCommitPolicy",
    "commits_between",
    "open_window",
    "range_filter",
]
