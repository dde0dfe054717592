"""Which files no reader needs any more, and the records that say so on the timeline.  Pure.

```
slices of a group, newest first     E: the earliest instant to retain
[S5] [S4] | E | [S3] [S2] [S1]      S5, S4 stay; S3 is what a reader at E sees; S2, S1 go
```

A slice goes by what replaced it, not by its own age.  Source: table_format 7.5, 4.
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
    """What must stay: slices needed at or after `since`, or, where that is None, the newest
    `versions` slices of each group."""

    since: InstantTime | None
    versions: int = 1


@dataclass(frozen=True, slots=True)
class Claims:
    """Files that somebody needs whatever their age.

    saved: names per partition that a savepoint or a reader holds.  compacting: instant of the
    slice that a planned compaction of the group will read.
    """

    saved: Mapping[str, Collection[str]] = field(default_factory=dict)
    compacting: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)

    def holds(self, piece: FileSlice) -> bool:
        saved = self.saved.get(piece.partition, ())
        needed = self.compacting.get(piece.group)
        return (needed is not None and piece.instant >= needed) or any(
            str(file.name) in saved for file in piece.files
        )


def newest_kept(commits: Timeline, pending: Timeline, *, retained: int) -> Instant | None:
    """The earliest instant to retain so that the newest `retained` commits stay readable.

    None if there are no more than that.  What is pending may still read the commit before it.
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
    kept_from: Instant,
    last: Mapping[str, Any] | None,
    kept: Mapping[str, Collection[InstantTime]],
) -> Timeline | None:
    """Commits whose partitions are all that can hold something new to delete; None: all can.

    last: HoodieCleanMetadata of the clean before.  kept: `CleanPlan.kept`.  A slice is outdated by
    the one after it, and that one is passed by now but was not then.  A savepoint or a hold that
    has ended since lets go of slices anywhere.
    """
    since = (last or {}).get("earliestCommitToRetain")
    then = (last or {}).get("extraMetadata") or {}
    ended = any(
        set(filter(None, (then.get(name) or "").split(","))) - set(now)
        for name, now in kept.items()
    )
    if not since or ended or all(i.time != since for i in commits):
        return None
    return Timeline(tuple(i for i in commits if since <= i.time < kept_from.time))


def outdated(group: FileGroup, retention: Retention, claims: Claims) -> list[FileSlice]:
    """Slices of a live group that can go, newest first."""
    if retention.since is None:
        return [s for s in group.slices[retention.versions :] if not claims.holds(s)]
    older = [s for s in group.slices if s.instant < retention.since]
    return [s for s in older[1:] if s is not group.slices[0] and not claims.holds(s)]


def outdated_replaced(
    group: FileGroup, gone: InstantTime, retention: Retention, claims: Claims
) -> list[FileSlice]:
    """Slices that can go of a group replaced at `gone`: all, once nobody reads before that."""
    if retention.since is not None and gone >= retention.since:
        return []
    return [s for s in group.slices if not claims.holds(s)]


def file_names(slices: Iterable[FileSlice]) -> dict[str, tuple[str, ...]]:
    """Names by partition, in the order of the slices."""
    found: dict[str, list[str]] = {}
    for piece in slices:
        files = (*piece.files, *piece.cdc_logs)
        found.setdefault(piece.partition, []).extend(str(file.name) for file in files)
    return {partition: tuple(names) for partition, names in sorted(found.items())}


def result_record(
    plan: CleanPlan,
    *,
    started: InstantTime,
    took_millis: int,
    deleted: Mapping[str, Sequence[str]],
    partitions: Collection[str] = (),
) -> dict[str, Any]:
    """HoodieCleanMetadata of a plan that was carried out."""
    return {
        "startCleanTime": started,
        "timeTakenInMillis": took_millis,
        "totalFilesDeleted": sum(map(len, deleted.values())),
        "earliestCommitToRetain": plan.kept_from.time if plan.kept_from else "",
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
