"""Entries of a record index by partition, whose groups are not those of a write's hash parts.

```
spill_entries   a task a hash part: the entries of its rows, by partition of the table
write_group     a task a file group of the index: its entries from all hash parts, as one log
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.index.maintenance.sizing import partition_group_count
from pyhudi.metadata.delta_commit import BucketTarget
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.writer import write_bucket
from pyhudi.options import WriteOptions
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.write.index_changes import entry_rows, keys_of
from pyhudi.write.input.batch import BatchChunk
from pyhudi.write.placement.assignment import Route

_FILE_ID: Final = "file_id"


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Entries of one partition: rows [begin, end) of a staged table with record keys.

    file_id: of all rows; None: each has its own in the column `file_id`, null where the entry is
    removed; without that column all are removed.  puts: how many rows get an entry.
    """

    staged: Staged
    begin: int
    end: int
    puts: int
    file_id: str | None = None

    def load(self) -> tuple[pa.ChunkedArray, pa.Array]:
        """(keys, file ids)."""
        table = self.staged.load()
        rows = table.slice(self.begin, self.end - self.begin)
        keys = rows.column(RECORD_KEY)
        if self.file_id is None and _FILE_ID in table.schema.names:
            return keys, rows.column(_FILE_ID).combine_chunks().cast(pa.string())
        if self.file_id is None:
            return keys, pa.nulls(len(keys), pa.string())
        return keys, pa.repeat(pa.scalar(self.file_id), len(keys))


@dataclass(frozen=True, slots=True)
class SpillEntries:
    """Input of the task of one hash part.  index: its name in the tags; groups: the file group of
    each target, by target number."""

    index: str
    parts: tuple[BatchChunk, ...]
    tags: Staged
    route: Route
    lost: Staged | None
    groups: tuple[FileGroupId, ...]
    staging: Staging


@dataclass(slots=True)
class PartitionEntries:
    """Staged entries, by partition of the table."""

    ranges: dict[str, list[EntryRange]] = field(default_factory=dict)

    def add(self, partition: str, entries: EntryRange) -> None:
        self.ranges.setdefault(partition, []).append(entries)

    def update(self, other: PartitionEntries) -> None:
        for partition, ranges in other.ranges.items():
            self.ranges.setdefault(partition, []).extend(ranges)


def spill_entries(task: SpillEntries) -> PartitionEntries | None:
    """Spill the entries of a hash part, by partition; None if there are none."""
    rows = entry_rows(task.tags, task.route, task.lost, task.index)
    if rows.is_empty:
        return None
    names = sorted({group.partition for group in task.groups})
    numbers = {name: number for number, name in enumerate(names)}
    partition_of = np.array([numbers[group.partition] for group in task.groups], np.int32)
    keys = pa.concat_arrays(
        [
            keys_of(task.parts, rows.part, rows.row),
            keys_of(task.parts, rows.ended_part, rows.ended_row),
        ]
    )
    target = np.concatenate([rows.target, rows.ended_target])
    is_put = np.arange(len(target)) < len(rows.target)
    partition = partition_of[target]
    order = np.argsort(partition, kind="stable")
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    at = pa.array(target[order], pa.int32(), mask=~is_put[order])
    columns = {
        RECORD_KEY: keys.take(pa.array(order)),
        _FILE_ID: pa.DictionaryArray.from_arrays(at, ids),
    }
    staged = task.staging.put("entries", pa.table(columns))
    ends = np.searchsorted(partition[order], np.arange(len(names) + 1))
    puts = np.bincount(partition[is_put], minlength=len(names))
    found = PartitionEntries()
    for number, name in enumerate(names):
        begin, end = int(ends[number]), int(ends[number + 1])
        if begin < end:
            found.add(name, EntryRange(staged, begin, end, int(puts[number])))
    return found


class PartitionTargets(Protocol):
    """Destination of entries: a `MetadataCommit` or a `WaitingIndex`."""

    def partition_targets(self, counts: Mapping[str, int]) -> dict[str, tuple[BucketTarget, ...]]:
        """The file groups of partitions; counts: for those that have none."""
        ...


@dataclass(frozen=True, slots=True)
class GroupEntriesTask:
    """Input of the task of one file group of the index.  count: groups of its partition."""

    fs: FileSystem
    instant: Instant
    target: BucketTarget
    count: int
    partition: str
    ranges: tuple[EntryRange, ...]


def write_entries_by_partition(
    fs: FileSystem,
    instant: Instant,
    targets: PartitionTargets,
    entries: PartitionEntries,
    options: WriteOptions,
    engine: Engine,
) -> list[WriteStat]:
    """Write the logs of all file groups that have entries; a partition without groups gets some."""
    counts = {
        name: partition_group_count(sum(each.puts for each in ranges), options)
        for name, ranges in sorted(entries.ranges.items())
    }
    tasks = [
        GroupEntriesTask(fs, instant, target, len(groups), name, tuple(entries.ranges[name]))
        for name, groups in targets.partition_targets(counts).items()
        for target in groups
    ]
    written = engine.run(write_group_entries, tasks, label="index")
    return [stat for stat in written if stat is not None]


def write_group_entries(task: GroupEntriesTask) -> WriteStat | None:
    """Write the log of a file group; None if it has no entries.  May run more than once."""
    keys, ids = _of_group(task)
    if not len(keys):
        return None
    put = ids.is_valid()
    ids = ids.filter(put).dictionary_encode()
    return write_bucket(
        task.fs,
        task.target,
        task.instant,
        keys=keys.filter(put),
        partition_path=pa.repeat(pa.scalar(task.partition), len(ids)).dictionary_encode(),
        file_id=ids,
        deleted=keys.filter(pc.invert(put)),
    )


def _of_group(task: GroupEntriesTask) -> tuple[pa.Array, pa.Array]:
    """(keys, file ids) of the group's entries."""
    hash = KeyHash(task.count)
    keys: list[pa.Array] = []
    ids: list[pa.Array] = []
    for each in task.ranges:
        some, files = each.load()
        here = pa.array(hash.buckets(some) == task.target.number)
        keys += some.filter(here).chunks
        ids.append(files.filter(here))
    none = pa.nulls(0, pa.string())
    return pa.concat_arrays([none, *keys]), pa.concat_arrays([none, *ids])


def ended_entries(keys: Iterable[tuple[str, Staged]]) -> PartitionEntries:
    """Entries to remove.  keys: partition, and a table with record keys of it."""
    found = PartitionEntries()
    for partition, staged in keys:
        found.add(partition, EntryRange(staged, 0, len(staged.load()), 0))
    return found


def moved_entries(moved: Sequence[tuple[Staged, FileGroupId]]) -> PartitionEntries:
    """Entries of records that are now in other file groups: their keys, and the group."""
    found = PartitionEntries()
    for staged, group in moved:
        rows = len(staged.load())
        found.add(group.partition, EntryRange(staged, 0, rows, rows, group.file_id))
    return found
