"""Tagging: one record of each key, and the file group it belongs to.

One task per shard of the record index.  It gathers the keys of its shard from every part, keeps
one row a key (a global index has one row a key, whatever the partition), asks the index, and says
for each row kept where it goes.

Columns of the tags put aside:
`part: int32`, `row: int32`, `home: int32` (position in `homes`; -1: a new record),
`path: int32` (position in `paths`), `action: uint8` (Action).
Rows of one home stand together, homes in order; then new rows, those of one path together, paths
in order.  Within these, in order of (part, row).  So a target's rows are a few slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import latest
from pyhudi.metadata.reader import IndexShard, lookup_shard
from pyhudi.records import IS_DELETED, PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.ordering import ordering_ranks
from pyhudi.write.batch import Part, rows_of_shard
from pyhudi.write.staging import Staged, Staging

Ints = npt.NDArray[np.int32]
NEW: Final = -1


class Action(IntEnum):
    """What a tagged row does to its file group."""

    PUT = 0
    DELETE = 1
    LEAVE = 2  # the record moves to another partition: delete it where it was


class Duplicates(IntEnum):
    """What happens to several rows of one key in a batch."""

    NEWEST = 0  # keep the last one
    GREATEST = 1  # keep the one with the greatest ordering value, the last of equals
    KEEP = 2


@dataclass(frozen=True, slots=True)
class TagTask:
    """What one shard's task needs.  `index` is None where the index is not asked (inserts)."""

    fs: FileSystem
    parts: tuple[Part, ...]
    shard: int
    index: IndexShard | None
    duplicates: Duplicates
    ordering: tuple[str, ...]
    deletes_all: bool  # a delete operation: every row names a key to delete
    moves: bool  # a key that comes with another partition moves there
    staging: Staging


@dataclass(frozen=True, slots=True)
class ShardTags:
    """Where the rows of one shard go, and the counts a plan needs.

    update_counts, insert_counts are indexed as `homes`, `paths`.
    """

    shard: int
    tags: Staged
    homes: tuple[FileGroupId, ...]
    paths: tuple[str, ...]
    update_counts: tuple[int, ...]
    insert_counts: tuple[int, ...]
    contested: tuple[int, ...]  # positions in homes with rows whose effect depends on stored order
    duplicate_count: int = 0
    missing_count: int = 0
    delete_count: int = 0


def tag_shard(task: TagTask) -> ShardTags:
    """Tag the rows of one shard."""
    rows, part, row = _rows_of_shard(task)
    kept, duplicates = _one_per_key(task, rows)
    if kept is not None:
        rows, part, row = rows.take(pa.array(kept)), part[kept], row[kept]
    deleted = _deleted(task, rows)
    path, paths = _codes(rows.column(PARTITION_PATH))
    home, homes = _located(task, rows)
    found = home != NEW
    leaves = np.zeros(rows.num_rows, np.bool_)
    if task.moves and homes:
        numbers = {name: number for number, name in enumerate(paths)}
        place = np.array([numbers.get(group.partition, -1) for group in homes], np.int32)
        leaves = found & ~deleted & (place[home] != path)
    keep = ~(deleted & ~found)
    here = np.where(leaves, np.int32(NEW), home)
    columns = [part[keep], row[keep], here[keep], path[keep], action_of(deleted)[keep]]
    if leaves.any():
        extra = [part[leaves], row[leaves], home[leaves], path[leaves]]
        extra.append(np.full(int(leaves.sum()), Action.LEAVE, np.uint8))
        columns = [np.concatenate(pair) for pair in zip(columns, extra, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        columns = [column[order] for column in columns]
    return _summary(task, columns, homes, paths, duplicates, int((~keep).sum()))


def action_of(deleted: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.where(deleted, np.uint8(Action.DELETE), np.uint8(Action.PUT))


def _located(task: TagTask, rows: pa.Table) -> tuple[Ints, tuple[FileGroupId, ...]]:
    """(position in homes or NEW of each row, homes), as the index says; all NEW if not asked."""
    if task.index is None:
        return np.full(rows.num_rows, NEW, np.int32), ()
    return located(lookup_shard(task.fs, task.index, _one_array(rows.column(RECORD_KEY))))


def _summary(
    task: TagTask,
    columns: Sequence[npt.NDArray[Any]],
    homes: tuple[FileGroupId, ...],
    paths: tuple[str, ...],
    duplicates: int,
    missing: int,
) -> ShardTags:
    home, path = columns[2:4]
    groups = np.where(home >= 0, home, np.int32(len(homes)) + path)
    if len(homes) + len(paths) <= np.iinfo(np.uint16).max:
        groups = groups.astype(np.uint16)  # sorted by radix
    order = np.argsort(groups, kind="stable")
    part, row, home, path, action = (column[order] for column in columns)
    table = pa.table({"part": part, "row": row, "home": home, "path": path, "action": action})
    known = home >= 0
    contested = known & (action != Action.PUT)
    if task.deletes_all:  # a delete by key is not compared with what is stored
        contested[:] = False
    return ShardTags(
        task.shard,
        task.staging.put(f"tags-{task.shard:05d}", table),
        homes,
        paths,
        tuple(np.bincount(home[known], minlength=len(homes)).tolist()),
        tuple(np.bincount(path[~known], minlength=len(paths)).tolist()),
        tuple(np.unique(home[contested]).tolist()) if task.ordering else (),
        duplicates,
        missing,
        int((action == Action.DELETE).sum()),
    )


def _rows_of_shard(task: TagTask) -> tuple[pa.Table, Ints, Ints]:
    """Keys (and what else tagging needs) of the shard's rows, with their part and row numbers."""
    first = task.parts[0].staged.load().schema.names if task.parts else []
    names = [PARTITION_PATH]
    if task.index is not None or task.duplicates is not Duplicates.KEEP:
        names.append(RECORD_KEY)
    if task.duplicates is Duplicates.GREATEST:
        names += task.ordering
    if IS_DELETED in first and IS_DELETED not in names:
        names.append(IS_DELETED)
    tables, parts, rows = [], [], []
    for number, part in enumerate(task.parts):
        at = rows_of_shard(part, task.shard)
        tables.append(part.staged.load().select(names).take(pa.array(at)))
        rows.append(at)
        parts.append(np.full(len(at), number, np.int32))
    return (
        pa.concat_tables(tables, promote_options="default").unify_dictionaries(),
        np.concatenate(parts),
        np.concatenate(rows),
    )


def _one_per_key(task: TagTask, rows: pa.Table) -> tuple[npt.NDArray[np.int64] | None, int]:
    """Positions to keep in ascending order (None: all), and how many rows that drops."""
    if task.duplicates is Duplicates.KEEP or rows.num_rows == 0:
        return None, 0
    ranks = None
    if task.duplicates is Duplicates.GREATEST and task.ordering:
        ranks, _ = ordering_ranks([rows.column(name) for name in task.ordering])
    winners = latest(rows.column(RECORD_KEY), ranks)
    if len(winners) == rows.num_rows:
        return None, 0
    return np.sort(winners), rows.num_rows - len(winners)


def _deleted(task: TagTask, rows: pa.Table) -> npt.NDArray[np.bool_]:
    if task.deletes_all:
        return np.ones(rows.num_rows, np.bool_)
    if IS_DELETED not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    flags = pc.fill_null(rows.column(IS_DELETED), False)
    return np.array(flags.to_numpy(), np.bool_)


def located(answer: pa.RecordBatch) -> tuple[Ints, tuple[FileGroupId, ...]]:
    """(position in homes or NEW, homes) of an index answer; homes in order of first use of their
    dictionary entries."""
    found = np.asarray(answer.column("found").to_numpy(zero_copy_only=False))
    partition, file_id = answer.column("partition_path"), answer.column("file_id")
    width = max(1, len(file_id.dictionary))
    pairs = _indices(partition).astype(np.int64) * width + _indices(file_id)
    partitions, files = partition.dictionary.to_pylist(), file_id.dictionary.to_pylist()
    used = np.zeros(max(1, len(partitions)) * width, np.bool_)
    used[pairs[found]] = True
    distinct = np.flatnonzero(used)
    homes = tuple(
        FileGroupId(partitions[pair // width], files[pair % width]) for pair in distinct.tolist()
    )
    position = (np.cumsum(used, dtype=np.int64) - 1).astype(np.int32)
    return np.where(found, position[pairs], np.int32(NEW)), homes


def _indices(column: pa.DictionaryArray) -> Ints:
    return np.asarray(pc.fill_null(column.indices.cast(pa.int32()), 0).to_numpy(), np.int32)


def _codes(column: pa.ChunkedArray) -> tuple[Ints, tuple[str, ...]]:
    """(position in values of each row, values); values are distinct, as several partition values
    may have one path."""
    if column.num_chunks == 0:
        return np.zeros(0, np.int32), ()
    array = _one_array(column)
    values = array.dictionary.to_pylist()
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    codes = _indices(array)
    if len(numbers) < len(values):
        codes = np.array([numbers[value] for value in values], np.int32)[codes]
    return codes, tuple(numbers)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; concatenated if it is in chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


__all__ = ["Action", "Duplicates", "ShardTags", "TagTask", "located", "tag_shard"]
