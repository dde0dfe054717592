"""Staged index entries: written concurrently with other writers, moved to the metadata table last.

```
.hoodie/.temp/<T>/.pyhudi/<log of a bucket>    written outside the table's lock
.hoodie/metadata/record_index/<the same bytes> named after the newest slice, under the lock
```

The metadata table therefore never contains a log that its compaction or cleaning could miss or
delete before the log's commit.  Staged files of crashed writers are deleted with their markers.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from pyhudi.engine import Engine
from pyhudi.errors import Overtaken, OvertakenError
from pyhudi.filenames import join
from pyhudi.metadata.delta_commit import (
    BucketTarget,
    GroupTarget,
    MetadataCommit,
    bucket_targets_of,
)
from pyhudi.metadata.file_writers import write_log
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.by_partition import PartitionedRecordIndex, partition_groups
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.commit_metadata import WriteStat


@dataclass(frozen=True, slots=True)
class WaitingIndex:
    """The staging folder of one commit's entries.  folder: relative to the data table's root.

    hash: of a global record index; None for a table without one.  group_counts: of a record index
    by partition; None: it is not.  chosen: how many groups the partitions written to have.
    """

    folder: str
    time: InstantTime
    zone: tzinfo | None
    hash: KeyHash | None
    group_counts: Mapping[str, int] | None = None
    chosen: dict[str, int] = field(default_factory=dict)

    def bucket_targets(self) -> tuple[BucketTarget, ...]:
        """Like `MetadataCommit.bucket_targets`, for `write_bucket`."""
        stage, millis = secrets.randbelow(1 << 31), epoch_millis(self.time, self.zone)
        groups = (
            GroupTarget(RECORD_INDEX, number, self.time, "", (), 1, stage)
            for number in range(self.hash.count if self.hash else 0)
        )
        return tuple(BucketTarget(group, millis, self.folder) for group in groups)

    def partition_targets(self, counts: Mapping[str, int]) -> dict[str, tuple[BucketTarget, ...]]:
        """Like `MetadataCommit.partition_targets`."""
        stage, millis = secrets.randbelow(1 << 31), epoch_millis(self.time, self.zone)
        known = self.group_counts or {}
        self.chosen.update({name: known.get(name, count) for name, count in counts.items()})
        return {
            name: bucket_targets_of(
                partition_groups(name), self.chosen[name], self.time, millis, stage, self.folder
            )
            for name in counts
            if self.chosen[name]
        }

    def overtaken(self, stats: Sequence[WriteStat], metadata: MetadataCommit) -> Overtaken | None:
        """The reason why these logs cannot be handed over: the buckets of the index have changed
        since they were written.  None if they have not."""
        if not stats or self._is_current(metadata):
            return None
        return Overtaken(
            OvertakenError("the buckets of the index have changed since the write began")
        )

    def _is_current(self, metadata: MetadataCommit) -> bool:
        if self.group_counts is None:
            return self.hash is None or metadata.hash.facts == self.hash.facts
        targets = metadata.partition_targets(self.chosen)
        return all(len(targets.get(name, ())) == n for name, n in self.chosen.items())

    def hand_over(
        self,
        fs: FileSystem,
        stats: Sequence[WriteStat],
        metadata: MetadataCommit,
        engine: Engine,
    ) -> list[WriteStat]:
        """Copy the logs of successful attempts into the metadata table; returns their stats there.

        fs: rooted at the data table.  The buckets of the index are unchanged: see `overtaken`.
        Cost: reads and writes the logs.
        """
        targets = self._final_targets(metadata)
        tasks = [
            _Copy(fs, join(self.folder, stat.file_name), targets[stat.file_id], stat)
            for stat in stats
        ]
        return engine.run(_copy, tasks, label="index")

    def _final_targets(self, metadata: MetadataCommit) -> dict[str, GroupTarget]:
        """The file groups in the metadata table, by file id of the staged logs."""
        if self.group_counts is None:
            return {RECORD_INDEX.file_id(t.number): t.group for t in metadata.bucket_targets()}
        return {
            partition_groups(name).file_id(target.number): target.group
            for name, targets in metadata.partition_targets(self.chosen).items()
            for target in targets
        }


@dataclass(frozen=True, slots=True)
class _Copy:
    fs: FileSystem
    source: str
    target: GroupTarget
    stat: WriteStat


def _copy(task: _Copy) -> WriteStat:
    """Copy one log.  May run twice: each run uses a separate name."""
    content = task.fs.read(task.source)
    log = task.target.new_log()
    target = task.target
    size = write_log(task.fs.sub(target.root), target.partition.path, log, [content])
    stat = task.stat
    return task.target.stat(
        log, values=stat.write_count, deletes=stat.delete_count, size_bytes=size
    )


def waiting_index(
    folder: str,
    time: InstantTime,
    zone: tzinfo | None,
    index: RecordIndex | PartitionedRecordIndex | None,
) -> WaitingIndex:
    """Where the entries of one commit are staged; index: the table's record index, if any."""
    if isinstance(index, PartitionedRecordIndex):
        return WaitingIndex(folder, time, zone, None, index.group_counts)
    return WaitingIndex(folder, time, zone, None if index is None else index.hash)
