"""Resizing of consistent hashing buckets by clustering, as in Apache Hudi.

```
split   a bucket larger than split.threshold * hoodie.parquet.max.file.size becomes two, each with
        half of its hashes, while the partition has fewer than max.num.buckets
merge   adjacent buckets whose total size is below merge.threshold * that size become one, while
        the partition has more than min.num.buckets
```

The plan names the new nodes and their file groups.  The clustering writes each row to the node of
its key's hash.  The new hashing metadata is a file with the clustering's instant and takes effect
when the clustering completes.  Until then writes to these buckets are rejected.
Source: BaseConsistentHashingBucketClusteringPlanStrategy, ConsistentBucketIdentifier and
SparkConsistentBucketIndex of Apache Hudi 0.15.0; a pending plan of 0.15.0.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyhudi.errors import UserError, WriteConflictError
from pyhudi.index.bucket import BucketRule
from pyhudi.index.consistent_hashing import Ring, RingShare
from pyhudi.index.selection import choose_index
from pyhudi.options import Options
from pyhudi.planning.clustering import ClusterGroup, ClusteringInput, SortOrder
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.services.clustering_tasks import ClusterWork, OutputTask, Stretch
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.plans.clustering import ChildNode
from pyhudi.write.placement.hashing_metadata import rings_of

_HASHES: Final = 1 << 31


def resize_plan(
    state: TableState, options: Options, rule: BucketRule, partitions: Sequence[str]
) -> ClusteringInput:
    """The splits and merges that are due.  Cost: one listing and one read per partition."""
    view = state.view(partitions=partitions)
    rings = rings_of(state, view, rule, partitions)
    claimed = view.pending.claimed
    by_partition: dict[str, dict[str, FileSlice]] = {}
    for slice_ in view.latest_slices():
        if slice_.group not in claimed:
            by_partition.setdefault(slice_.partition, {})[slice_.file_id] = slice_
    groups: list[ClusterGroup] = []
    for partition in sorted(by_partition):
        ring = rings[partition]
        if ring.is_stored:
            groups += resized(ring, by_partition[partition], options, rule)
    settings = options.services.clustering
    return ClusteringInput(tuple(groups[: settings.groups_max]), SortOrder(settings.sort_columns))


def resized(
    ring: Ring, slices: Mapping[str, FileSlice], options: Options, rule: BucketRule
) -> list[ClusterGroup]:
    """The groups of one partition.  slices: by file id.  Pure, except for random file ids."""
    rules, target = options.write.index_rules, options.write.sizing.file_bytes_max
    nodes = [slices.get(group.file_id) for group in ring.groups()]
    count = len(nodes)
    most = rules.bucket_count_max or max(rule.count, count)
    least = rules.bucket_count_min or min(rule.count, count)
    groups: list[ClusterGroup] = []
    for number, slice_ in enumerate(nodes):
        if slice_ is None or slice_.size_bytes <= rules.split_threshold * target or count >= most:
            continue
        children = _halves(ring, number)
        if children:
            groups.append(ClusterGroup((slice_,), 2, children, ring.sequence))
            count += 1
    split = {slice_.group for group in groups for slice_ in group.slices}
    spare = count - least
    for run in _runs(nodes, rules.merge_threshold * target, split):
        members = run[: max(0, spare) + 1]
        if len(members) > 1:
            groups.append(_merged(ring, nodes, members))
            spare -= len(members) - 1
    return groups


def _halves(ring: Ring, number: int) -> tuple[ChildNode, ...]:
    """The two halves of a node; empty if it owns a single hash."""
    former, value = ring.ends[number - 1], ring.ends[number]
    middle = ((former + value + (0 if former < value else _HASHES)) >> 1) % _HASHES
    if middle in (former, value):
        return ()
    return ChildNode(middle, str(uuid.uuid4())), ChildNode(value, str(uuid.uuid4()))


def _runs(
    nodes: Sequence[FileSlice | None], small: float, split: set[FileGroupId]
) -> Iterable[list[int]]:
    """Numbers of adjacent nodes whose total size is below `small`."""
    run: list[int] = []
    size = 0
    for number, slice_ in enumerate(nodes):
        more = None if slice_ is None or slice_.group in split else slice_.size_bytes
        if more is None or size + more >= small:
            yield run
            run, size = [], 0
        if more is not None and more < small:
            run.append(number)
            size += more
    yield run


def _merged(ring: Ring, nodes: Sequence[FileSlice | None], members: Sequence[int]) -> ClusterGroup:
    children = [ChildNode(ring.ends[number], None) for number in members[:-1]]
    children.append(ChildNode(ring.ends[members[-1]], str(uuid.uuid4())))
    slices = tuple(slice_ for n in members if (slice_ := nodes[n]) is not None)
    return ClusterGroup(slices, 1, tuple(children), ring.sequence)


def resized_rings(
    state: TableState, plan: ClusteringInput, options: Options, time: InstantTime
) -> tuple[dict[str, Ring], tuple[str, ...]]:
    """(the hash ring of each partition after a plan, hash fields).  time: of the clustering.

    Raises UserError if the table's index does not use consistent hashing, WriteConflictError if a
    ring has changed since the plan was created.
    """
    if not plan.resizes:
        return {}, ()
    choice = choose_index(state.fs, state.config, options.write)
    rule = None if choice is None else choice.bucket
    if rule is None or not rule.is_consistent:
        raise UserError(
            "a pending clustering resizes consistent hashing buckets, but the table's index has "
            "none",
            instant=time,
            hint="set hoodie.index.type and hoodie.index.bucket.engine",
        )
    partitions = sorted({group.partition for group in plan.groups})
    rings = rings_of(state, state.view(partitions=partitions), rule, partitions)
    after = {}
    for partition, ring in rings.items():
        groups = [group for group in plan.groups if group.partition == partition]
        if any(group.sequence != ring.sequence for group in groups):
            raise WriteConflictError(
                "the buckets of a pending clustering have been resized since",
                instant=time,
                partition=partition,
                hint="table.unschedule_clustering removes the plan",
            )
        children = [child for group in groups for child in group.children]
        after[partition] = _after(ring, children, time)
    return after, rule.fields


def _after(ring: Ring, children: Iterable[ChildNode], time: InstantTime) -> Ring:
    prefixes = dict(zip(ring.ends, ring.prefixes, strict=True))
    for child in children:
        if child.prefix is None:
            prefixes.pop(child.value, None)
        else:
            prefixes[child.value] = child.prefix
    ends = tuple(sorted(prefixes))
    return replace(
        ring,
        instant=str(time),
        sequence=ring.sequence + 1,
        ends=ends,
        prefixes=tuple(prefixes[end] for end in ends),
    )


def resize_tasks(
    work: ClusterWork, plan: ClusteringInput, rings: Mapping[str, Ring], fields: tuple[str, ...]
) -> list[OutputTask]:
    """A task for each new node: reads the slices of its group and writes the rows of its keys."""
    tasks: list[OutputTask] = []
    for group in plan.groups:
        ring = rings[group.partition]
        for child in group.children:
            if child.prefix is None:
                continue
            share = RingShare(ring, ring.ends.index(child.value), fields)
            home = FileGroupId(group.partition, f"{child.prefix}-0")
            stretches = tuple(Stretch(slice_) for slice_ in group.slices)
            tasks.append(OutputTask(work, home, len(tasks), stretches=stretches, share=share))
    return tasks
