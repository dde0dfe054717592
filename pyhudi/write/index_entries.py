"""Tasks that write the record index entries of a write, one per index shard."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyhudi.metadata.delta_commit import ShardTarget
from pyhudi.metadata.writer import write_shard
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.write.index_changes import entry_rows, keys_of
from pyhudi.write.input.batch import BatchChunk
from pyhudi.write.placement.assignment import Route
from pyhudi.write.placement.tagging import RECORDS


@dataclass(frozen=True, slots=True)
class EntryTask:
    """Input of one shard's task.  groups: the file group of each target, by target number."""

    fs: FileSystem
    instant: Instant
    target: ShardTarget
    parts: tuple[BatchChunk, ...]
    tags: Staged
    route: Route
    lost: Staged | None
    groups: tuple[FileGroupId, ...]
    ended: Staged | None = None  # keys of file groups that the write replaces


def write_entries(task: EntryTask) -> WriteStat | None:
    """Write the shard's entries; None if the batch changes none.  May run more than once."""
    rows = entry_rows(task.tags, task.route, task.lost, RECORDS)
    if rows.is_empty and task.ended is None:
        return None
    paths = pa.array([group.partition for group in task.groups], pa.string())
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    at = pa.array(rows.target)
    return write_shard(
        task.fs,
        task.target,
        task.instant,
        keys=keys_of(task.parts, rows.part, rows.row),
        partition_path=pa.DictionaryArray.from_arrays(at, paths),
        file_id=pa.DictionaryArray.from_arrays(at, ids),
        deleted=_and_ended(keys_of(task.parts, rows.ended_part, rows.ended_row), task.ended),
    )


def _and_ended(keys: pa.Array, ended: Staged | None) -> pa.Array:
    if ended is None:
        return keys
    return pa.concat_arrays([keys, *ended.load().column(RECORD_KEY).chunks])


@dataclass(frozen=True, slots=True)
class EndTask:
    """Input of one shard's task of a write without rows.  ended: keys to remove."""

    fs: FileSystem
    instant: Instant
    target: ShardTarget
    ended: Staged


def end_entries(task: EndTask) -> WriteStat:
    """Write the shard's tombstones.  May run more than once."""
    none = pa.array([], pa.string())
    return write_shard(
        task.fs,
        task.target,
        task.instant,
        keys=none,
        partition_path=none,
        file_id=none,
        deleted=task.ended.load().column(RECORD_KEY),
    )
