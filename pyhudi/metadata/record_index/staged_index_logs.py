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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from pyhudi.engine import Engine
from pyhudi.errors import Overtaken, OvertakenError
from pyhudi.filenames import join
from pyhudi.metadata.delta_commit import GroupTarget, MetadataCommit, ShardTarget
from pyhudi.metadata.file_writers import write_log
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.commit_metadata import WriteStat


@dataclass(frozen=True, slots=True)
class WaitingIndex:
    """The staging folder of one commit's entries.  folder: relative to the data table's root.

    hash: of the record index; None for a table without one.
    """

    folder: str
    time: InstantTime
    zone: tzinfo | None
    hash: KeyHash | None

    def shard_targets(self) -> tuple[ShardTarget, ...]:
        """Like `MetadataCommit.shard_targets`, for `write_shard`."""
        stage, millis = secrets.randbelow(1 << 31), epoch_millis(self.time, self.zone)
        groups = (
            GroupTarget(RECORD_INDEX, number, self.time, "", (), 1, stage)
            for number in range(self.hash.count if self.hash else 0)
        )
        return tuple(ShardTarget(group, millis, self.folder) for group in groups)

    def overtaken(self, stats: Sequence[WriteStat], metadata: MetadataCommit) -> Overtaken | None:
        """The reason why these logs cannot be handed over: the buckets of the index have changed
        since they were written.  None if they have not."""
        if self.hash is None or not stats or metadata.hash.facts == self.hash.facts:
            return None
        return Overtaken(
            OvertakenError("the buckets of the index have changed since the write began")
        )

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
        targets = {
            RECORD_INDEX.file_id(target.number): target.group for target in metadata.shard_targets()
        }
        tasks = [
            _Copy(fs, join(self.folder, stat.file_name), targets[stat.file_id], stat)
            for stat in stats
        ]
        return engine.run(_copy, tasks, label="index")


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
