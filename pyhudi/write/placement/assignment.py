"""Assignment of rows to file groups, and how each group is written.  Pure.

Updates go to the file groups of their records.  Inserts of a partition first fill its smallest
files below the limit, then new file groups of the target size.

copy-on-write   a changed group is rewritten, a new group created
merge-on-read   updates and deletes are appended to the group's logs; inserts go to base files,
                because Apache Hudi's base-file indexes find keys only there: to a small group
                without logs if rewriting it is cheap, else to a new group; to the logs of small
                groups with a record index, if enabled
bucket index    every row has a fixed group; a bucket without a group gets one, with a base file;
                on merge-on-read all other rows, including new keys, are appended to the logs;
                under non-blocking concurrency control a new group consists of logs only, and its
                file id is the same for every writer
Source: table_format 7.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pyhudi.errors import WriteConflictError
from pyhudi.index.bucket import begun, is_new_bucket, shared_bucket
from pyhudi.options import FileSizing
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.write.placement.tagging import BucketTags


class Mode(Enum):
    """How a target's file is written."""

    CREATE = "create"
    REWRITE = "rewrite"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Target:
    """One file group of the commit.  `slice` is None for a new group, also if it gets a log.

    compacting: the instant of the group's pending compaction, if any.
    """

    group: FileGroupId
    mode: Mode
    slice: FileSlice | None
    update_count: int = 0
    insert_count: int = 0
    compacting: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """How the rows of one bucket reach their targets.

    homes[i] is the target of home i, which has home_counts[i] rows.  inserts[p] lists (row count,
    target) in order for path p: the bucket's first new rows of that partition go to the first
    target, and so on.
    """

    homes: tuple[int, ...]
    home_counts: tuple[int, ...]
    inserts: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """targets: ordered by partition and file id; routes: by bucket position."""

    targets: tuple[Target, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class AssignRules:
    """Settings of one write."""

    sizing: FileSizing
    merge_on_read: bool
    record_bytes: int
    small_files: bool  # False for bulk insert: always new groups
    logs_inserts: bool = False  # MOR: small groups take inserts in their logs
    fills_files: bool = False  # full new files and a remainder, not files of even size
    into_clustered: bool = False  # groups of a pending clustering take updates
    non_blocking: bool = False  # writers share new buckets, without base files
    replaced: frozenset[FileGroupId] = frozenset()  # groups whose file ids cannot be used again


def assign(
    buckets: Sequence[BucketTags],
    view: TableView,
    rules: AssignRules,
    *,
    new_file_id: Callable[[], str],
) -> Assignment:
    """Targets for every tagged row.  Equal inputs (and ids) give equal assignments."""
    targets: list[Target] = []
    number: dict[FileGroupId, int] = {}
    slices = {s.group: s for s in view.latest_slices()}
    updates: dict[FileGroupId, int] = {}
    inserts: dict[str, int] = {}
    for bucket in buckets:
        for group, count in zip(bucket.homes, bucket.update_counts, strict=True):
            if count:
                updates[group] = updates.get(group, 0) + count
        for path, count in zip(bucket.paths, bucket.insert_counts, strict=True):
            if count:
                inserts[path] = inserts.get(path, 0) + count
    if not rules.into_clustered:
        _check_not_clustered(updates, view)
    for group in sorted(updates):
        number[group] = len(targets)
        if group not in slices:
            targets.append(_new_target(group, updates[group], rules, new_file_id=new_file_id))
            continue
        mode = Mode.APPEND if rules.merge_on_read else Mode.REWRITE
        claim = view.pending.compacting.get(group)
        targets.append(
            Target(group, mode, slices[group], update_count=updates[group], compacting=claim)
        )
    bins: dict[str, list[tuple[int, int]]] = {}
    stored: dict[str, list[FileSlice]] = {}
    for slice_ in slices.values() if inserts and rules.small_files else ():
        stored.setdefault(slice_.partition, []).append(slice_)
    for path in sorted(inserts):
        there = stored.get(path, [])
        plan = _bins(path, inserts[path], there, updates, view, rules, new_file_id=new_file_id)
        bins[path] = []
        for group, count in plan:
            at = number.get(group)
            if at is None:
                at = number[group] = len(targets)
                joins = Mode.APPEND if rules.logs_inserts else Mode.REWRITE
                mode = joins if group in slices else Mode.CREATE
                targets.append(Target(group, mode, slices.get(group)))
            targets[at] = replace(targets[at], insert_count=targets[at].insert_count + count)
            bins[path].append((count, at))
    return Assignment(tuple(targets), tuple(_routes(buckets, number, bins)))


def _new_target(
    group: FileGroupId, count: int, rules: AssignRules, *, new_file_id: Callable[[], str]
) -> Target:
    """The target of an index's file group that has no files yet."""
    if not is_new_bucket(group):
        return Target(group, Mode.CREATE, None, insert_count=count)
    if not rules.non_blocking:
        return Target(begun(group, new_file_id()), Mode.CREATE, None, insert_count=count)
    mode = Mode.APPEND if rules.small_files else Mode.CREATE
    started = shared_bucket(group)
    if started in rules.replaced:  # a new id: two writers that create it conflict
        started = begun(group, new_file_id())
    return Target(started, mode, None, insert_count=count)


def _check_not_clustered(groups: Iterable[FileGroupId], view: TableView) -> None:
    """Raise WriteConflictError for groups of a pending clustering: writes to them would be lost."""
    claimed = sorted(view.pending.clustering.keys() & set(groups))
    if claimed:
        raise WriteConflictError(
            "records to change are in file groups that a pending clustering will replace",
            instant=view.pending.clustering[claimed[0]],
            file_groups=", ".join(f"{g.partition}/{g.file_id}" for g in claimed),
            hint="finish the clustering or roll it back, then write again; "
            "hoodie.clustering.updates.strategy=SparkAllowUpdateStrategy allows such writes",
        )


def _bins(
    path: str,
    count: int,
    slices: Sequence[FileSlice],
    updates: Mapping[FileGroupId, int],
    view: TableView,
    rules: AssignRules,
    *,
    new_file_id: Callable[[], str],
) -> list[tuple[FileGroupId, int]]:
    """(group, row count) for the inserts of one partition: small files of its slices first, then
    new ones."""
    plan: list[tuple[FileGroupId, int]] = []
    left = count
    if rules.small_files:
        for small in _small_files(count, slices, updates, view, rules):
            room = (rules.sizing.file_bytes_max - small.size_bytes) // rules.record_bytes
            taken = min(left, max(0, room))
            if taken:
                plan.append((small.group, taken))
                left -= taken
            if not left:
                return plan
    per_file = max(1, rules.sizing.file_bytes_max // rules.record_bytes)
    if rules.sizing.rows_per_file is not None and rules.small_files:
        per_file = rules.sizing.rows_per_file
    files = -(-left // per_file)
    for index in range(files):
        share = left // files + (index < left % files)
        if rules.fills_files:
            share = min(per_file, left - index * per_file)
        plan.append((FileGroupId(path, new_file_id()), share))
    return plan


def _small_files(
    count: int,
    slices: Sequence[FileSlice],
    updates: Mapping[FileGroupId, int],
    view: TableView,
    rules: AssignRules,
) -> list[FileSlice]:
    """Those of a partition's slices that may take inserts, smallest first."""
    pending = view.pending
    small = [
        s
        for s in slices
        if (s.base is not None or rules.logs_inserts)
        and s.size_bytes < rules.sizing.small_file_bytes
        and s.group not in pending.clustering
        and s.group not in pending.compacting
    ]
    small.sort(key=lambda s: (s.size_bytes, s.group))
    if not rules.merge_on_read or rules.logs_inserts:
        return small
    sizing = rules.sizing
    worth = sizing.rewrite_ratio_max * count * rules.record_bytes
    budget = max(worth, sizing.rewrite_bytes_free)
    affordable = [
        s
        for s in small
        if not s.logs and s.group not in updates and s.base and s.base.size_bytes <= budget
    ]
    return affordable[: sizing.small_files_max]


def _routes(
    buckets: Sequence[BucketTags],
    number: Mapping[FileGroupId, int],
    bins: Mapping[str, list[tuple[int, int]]],
) -> list[Route]:
    """Distribute each partition's bins over the buckets in order."""
    left = {path: [list(b) for b in plan] for path, plan in bins.items()}
    routes = []
    for bucket in buckets:
        inserts = []
        for path, count in zip(bucket.paths, bucket.insert_counts, strict=True):
            dealt: list[tuple[int, int]] = []
            while count:
                first = left[path][0]
                taken = min(count, first[0])
                dealt.append((taken, first[1]))
                first[0] -= taken
                count -= taken
                if not first[0]:
                    left[path].pop(0)
            inserts.append(tuple(dealt))
        homes = tuple(number.get(group, -1) for group in bucket.homes)
        routes.append(Route(homes, bucket.update_counts, tuple(inserts)))
    return routes
