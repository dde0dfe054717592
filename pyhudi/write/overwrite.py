"""Overwrite operations: replacement of file groups by a replace commit.

A replace commit lists the replaced file groups; their files remain for older snapshots until they
are cleaned.  The record index removes each key that it maps to a replaced group and that is not
written again in the same commit; a key that also exists elsewhere keeps its index entry.

insert_overwrite         the partitions of the batch, or the given partitions (static)
insert_overwrite_table   every partition, including those without a row in the batch
delete_partitions        the given partitions; nothing is written
Source: table_format 7.1, 9.6, 9.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.formats.base_file import footer
from pyhudi.index.record import RecordFinder
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import IndexBucket
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.write.input.batch import BatchChunk, key_part, rows_of_bucket


@dataclass(frozen=True, slots=True)
class Replaced:
    """The contents of the table that an overwrite replaces.

    partitions: emptied partitions, in order; slices: the latest slice of each of their file
    groups; row_count: the rows in them.  ended: per index bucket the keys to remove (a table of
    one column, the record key), or None; empty if the table has no record index.
    unknown: given names that match no partition.
    keys: of a record index by partition: partition and record keys of each slice.
    """

    partitions: tuple[str, ...] = ()
    slices: tuple[FileSlice, ...] = ()
    row_count: int = 0
    ended: tuple[Staged | None, ...] = ()
    unknown: tuple[str, ...] = ()
    keys: tuple[tuple[str, Staged], ...] = ()

    @property
    def groups(self) -> frozenset[FileGroupId]:
        return frozenset(slice_.group for slice_ in self.slices)

    def file_ids(self) -> dict[str, tuple[str, ...]]:
        """Partition -> ids of its replaced file groups, as listed in the commit."""
        return {
            partition: tuple(s.file_id for s in self.slices if s.partition == partition)
            for partition in self.partitions
        }


NOTHING_REPLACED = Replaced()


@dataclass(frozen=True, slots=True)
class TakeOut:
    """How to replace slices.  buckets: of the record index, empty if none; hash: its key hash.
    by_partition: whether there is a record index by partition."""

    fs: FileSystem
    spec: SliceSpec
    buckets: tuple[IndexBucket, ...]
    hash: KeyHash
    staging: Staging
    by_partition: bool = False


def take_out(
    plan: TakeOut, slices: Sequence[FileSlice], partitions: Sequence[str], engine: Engine
) -> Replaced:
    """Count the rows of the slices and find the index entries that refer to them.

    Cost: reads the record keys of every slice and looks up each key; without a record index,
    reads one footer per slice (the keys of slices with logs).
    """
    found = engine.run(_drain, [_Drain(plan, s) for s in slices], label="replaced")
    parts = tuple(part for _, part in found if part is not None)
    groups = frozenset(s.group for s in slices)
    ended: list[Staged | None] = []
    if parts:
        tasks = [_End(plan, bucket, parts, groups) for bucket in plan.buckets]
        ended = engine.run(_end, tasks, label="replaced")
    rows = sum(count for count, _ in found)
    replaced = Replaced(tuple(partitions), tuple(slices), rows, tuple(ended))
    if not plan.by_partition:
        return replaced
    drained = zip(slices, found, strict=True)
    keys = tuple((s.partition, part.staged) for s, (_, part) in drained if part is not None)
    return replace(replaced, keys=keys)


@dataclass(frozen=True, slots=True)
class _Drain:
    plan: TakeOut
    slice: FileSlice


def _drain(task: _Drain) -> tuple[int, BatchChunk | None]:
    """Row count of a slice, and its keys by index bucket if there is an index."""
    plan, slice_ = task.plan, task.slice
    needs_keys = bool(plan.buckets) or plan.by_partition
    if not needs_keys and slice_.base is not None and not slice_.logs:
        return footer(plan.fs, slice_.base.path).rows, None
    keys = read_slice(plan.fs, slice_, spec=plan.spec).column(RECORD_KEY)
    if not needs_keys or not len(keys):
        return len(keys), None
    return len(keys), key_part(keys, plan.hash, plan.staging)


@dataclass(frozen=True, slots=True)
class _End:
    plan: TakeOut
    bucket: IndexBucket
    parts: tuple[BatchChunk, ...]
    groups: frozenset[FileGroupId]


def _end(task: _End) -> Staged | None:
    """Keys of the bucket that the index maps to one of the groups."""
    columns = [
        part.staged.load().column(RECORD_KEY).take(pa.array(rows))
        for part in task.parts
        if len(rows := rows_of_bucket(part, task.bucket.number))
    ]
    if not columns:
        return None
    keys = pa.concat_arrays([chunk for column in columns for chunk in column.chunks])
    places = RecordFinder(task.bucket).locate(task.plan.fs, pa.table({RECORD_KEY: keys}))
    leaves = np.array([group in task.groups for group in places.groups], np.bool_)
    gone = keys.take(pa.array(places.rows[leaves[places.homes]]))
    if not len(gone):
        return None
    return task.plan.staging.put(f"ended-{task.bucket.number:05d}", pa.table({RECORD_KEY: gone}))


def check_unclaimed(
    view: TableView,
    slices: Iterable[FileSlice],
    *,
    clusterings: bool = True,
    compactions: bool = False,
) -> None:
    """Raise WriteConflictError if a pending service will rewrite rows of these slices.

    A clustering would bring the rows back in new file groups, unless the write cancels its plan
    (clusterings: False).  A compaction writes into the replaced group, which is harmless;
    compactions: check them too, as Apache Hudi does when partitions are deleted.
    """
    claims = []
    if clusterings:
        claims.append(("clustering", view.pending.clustering))
    if compactions:
        claims.append(("compaction", view.pending.compacting))
    groups = sorted(slice_.group for slice_ in slices)
    for service, claimed in claims:
        if taken := [group for group in groups if group in claimed]:
            raise WriteConflictError(
                f"a pending {service} covers file groups that would be replaced",
                instant=claimed[taken[0]],
                file_groups=", ".join(f"{g.partition}/{g.file_id}" for g in taken),
                hint=f"finish the {service} or roll it back first",
            )


def partitions_named(
    patterns: Sequence[str], listed: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """(listed partitions that match the patterns, in order; patterns without a match).

    A pattern is a partition path; in one that is not listed, `*` matches any characters and `\\*`
    an asterisk, as in the result of `literal`.
    """
    named: set[str] = set()
    missing = []
    for pattern in patterns:
        glob = None if pattern in listed else _glob(pattern)
        hits = [p for p in listed if (p == pattern if glob is None else fnmatchcase(p, glob))]
        if not hits:
            missing.append(pattern)
        named.update(hits)
    return sorted(named), tuple(missing)


def literal(path: str) -> str:
    """The pattern that matches this partition path only."""
    return path.replace("*", r"\*")  # a path has no backslash


def _glob(pattern: str) -> str:
    """Only `*` is special: partition values may contain brackets and question marks."""
    return re.sub(r"\\\*|[?\[]", lambda found: f"[{found[0][-1]}]", pattern)


def check_within(parts: Sequence[BatchChunk], partitions: Sequence[str]) -> None:
    """Raise UserError for rows outside the partitions that a static overwrite replaces."""
    paths = {path for part in parts for path, _ in part.partition_counts}
    if outside := sorted(paths - set(partitions)):
        raise UserError(
            "rows are outside the partitions to overwrite",
            partitions=", ".join(outside[:5]),
            hint="add their partitions, or remove the rows from the batch",
        )
