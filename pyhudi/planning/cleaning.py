"""Selection of files that no reader needs any more, and the records of cleans.  Pure.

```
slices of a group, newest first     E: the earliest instant to retain
[S5] [S4] | E | [S3] [S2] [S1]      S5, S4 stay; a reader at E sees S3; S2, S1 are deleted
```

The age of the next slice of the group decides whether a slice is deleted, not its own age.
Source: table_format 7.5, 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import FileGroup, FileSlice
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Retention:
    """Slices to retain: those needed at or after `since`, or, if that is None, the newest
    `versions` slices of each group."""

    since: InstantTime | None
    versions: int = 1


@dataclass(frozen=True, slots=True)
class Claims:
    """Files that are needed regardless of their age.

    saved: names by partition of files that a savepoint or a reader pins.  compacting: instant of
    the slice that a planned compaction of the group will read.
    """

    saved: Mapping[str, Collection[str]] = field(default_factory=dict)
    compacting: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)

    def holds(self, slice_: FileSlice) -> bool:
        saved = self.saved.get(slice_.partition, ())
        needed = self.compacting.get(slice_.group)
        return (needed is not None and slice_.instant >= needed) or any(
            str(file.name) in saved for file in slice_.files
        )


def earliest_to_retain(commits: Timeline, pending: Timeline, *, retained: int) -> Instant | None:
    """The earliest instant to retain so that the newest `retained` commits stay readable.

    None if there are no more than that.  A pending instant may still read the newest commit that
    completed before it began, so that commit stays readable.
    """
    done = commits.instants
    if len(done) <= retained:
        return None
    first = pending.first
    chosen = done[len(done) - retained]
    if first is not None and chosen.time > first.time:
        before = [i for i in done if i.time < first.time]
        return before[-1] if before else None
    return chosen


def looked_at_since(
    commits: Timeline,
    earliest: Instant,
    last: Mapping[str, Any] | None,
    protected: Mapping[str, Collection[InstantTime]],
) -> Timeline | None:
    """Commits whose partitions may have newly outdated files; None: any partition may.

    earliest: the earliest instant to retain.  last: HoodieCleanMetadata of the previous clean.
    protected: `CleanPlan.kept`.  The next slice of its group makes a slice outdated; only commits
    between the two retained instants can have newly done so.  A savepoint or a snapshot pin that
    was removed since releases slices in any partition.
    """
    since = (last or {}).get("earliestCommitToRetain")
    then = (last or {}).get("extraMetadata") or {}
    ended = any(
        set(filter(None, (then.get(name) or "").split(","))) - set(now)
        for name, now in protected.items()
    )
    if not since or ended or all(i.time != since for i in commits):
        return None
    return Timeline(tuple(i for i in commits if since <= i.time < earliest.time))


def outdated(group: FileGroup, retention: Retention, claims: Claims) -> list[FileSlice]:
    """Slices of a live group that can be deleted, newest first."""
    if retention.since is None:
        return [s for s in group.slices[retention.versions :] if not claims.holds(s)]
    older = [s for s in group.slices if s.instant < retention.since]
    return [s for s in older[1:] if s is not group.slices[0] and not claims.holds(s)]


def outdated_replaced(
    group: FileGroup, replaced_at: InstantTime, retention: Retention, claims: Claims
) -> list[FileSlice]:
    """Slices of a replaced group to delete: all, unless `replaced_at` is at or after `since`."""
    if retention.since is not None and replaced_at >= retention.since:
        return []
    return [s for s in group.slices if not claims.holds(s)]


def file_names(slices: Iterable[FileSlice]) -> dict[str, tuple[str, ...]]:
    """File names by partition, in the order of the slices."""
    found: dict[str, list[str]] = {}
    for slice_ in slices:
        files = (*slice_.files, *slice_.cdc_logs)
        found.setdefault(slice_.partition, []).extend(str(file.name) for file in files)
    return {partition: tuple(names) for partition, names in sorted(found.items())}


def result_record(
    plan: CleanPlan,
    *,
    started: InstantTime,
    took_millis: int,
    deleted: Mapping[str, Sequence[str]],
    partitions: Collection[str] = (),
) -> dict[str, Any]:
    """HoodieCleanMetadata of an executed plan."""
    return {
        "startCleanTime": started,
        "timeTakenInMillis": took_millis,
        "totalFilesDeleted": sum(map(len, deleted.values())),
        "earliestCommitToRetain": plan.retained_from.time if plan.retained_from else "",
        "lastCompletedCommitTimestamp": plan.newest or "",
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "policy": plan.policy,
                "deletePathPatterns": list(names),
                "successDeleteFiles": list(names),
                "failedDeleteFiles": [],
                "isPartitionDeleted": partition in partitions,
            }
            for partition, names in deleted.items()
        },
        "version": 2,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": plan.extra_metadata,
    }
