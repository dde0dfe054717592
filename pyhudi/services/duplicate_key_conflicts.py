"""Detection of conflicting inserts: keys that a concurrent commit inserted, and that this write
inserts as new or did not find for a delete.  Written file groups do not show such conflicts.

The check runs under the table's lock before a commit, and only if other commits have completed
since the write began.  With a record index it looks up the new keys in the entries that those
commits added, and nowhere else.  Without one, a commit that inserted rows into a partition of this
write counts as a conflict, with a bucket index one that created a bucket; planning the write again
resolves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import Overtaken, OvertakenError
from pyhudi.metadata.hfile_slices import MapSlice
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.record_index.lookup import IndexBucket, RecordIndex
from pyhudi.read.table_schema import schema_text
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.conflicts import REWRITES, completed_since
from pyhudi.write.input.batch import BatchChunk, rows_of_bucket, take_rows
from pyhudi.write.input.source_checkpoint import moved_by
from pyhudi.write.input.stream_idempotency import StreamBatch, writer_of
from pyhudi.write.placement.routing import lost_of, row_order
from pyhudi.write.placement.tagging import NEW, BucketTags, RowAction
from pyhudi.write.write_context import Operation, PlannedWrite, WriteContext, needs_index_lookup


@dataclass(frozen=True, slots=True)
class Clash:
    """A key that two writers inserted.  instant: a commit that may have inserted it."""

    instant: Instant
    key: str | None = None

    def overtaken(self) -> Overtaken:
        error = OvertakenError(
            "another writer inserted the same keys"
            if self.key
            else "another writer inserted rows that may have the same keys",
            instant=self.instant.time,
            key=self.key,
        )
        return Overtaken(error)


def find_row_conflict(
    context: WriteContext, planned: PlannedWrite, mine: Instant, now: Timeline
) -> Overtaken | None:
    """A conflict that file groups do not show: of columns or new keys; None if none."""
    state = context.state
    since = completed_since(state.timeline, now)
    if not since:
        return None
    batch = StreamBatch.of(context.options.commit_metadata)
    twin = None if batch is None else writer_of(batch, state.log, since)
    if twin is not None:
        return Overtaken(
            OvertakenError("another writer wrote this batch of the stream", instant=twin.time)
        )
    moved = None if context.advance is None else moved_by(state.log, since)
    if moved is not None:
        return Overtaken(
            OvertakenError("another writer moved the checkpoint of the source", instant=moved.time)
        )
    stated = schema_text(state.log, state.timeline, state.archive, state.config)
    if stated != schema_text(state.log, now, state.archive, state.config):
        return Overtaken(
            OvertakenError("another writer changed the table's columns", instant=since[-1].time)
        )
    later = now.commits.after(mine.time).last
    if later is not None and context.avro_schema != stated:
        # the newest commit states the columns, and this write would not be the newest
        return Overtaken(
            OvertakenError(
                "a later write committed before this one, which changes the table's columns",
                instant=later.time,
            )
        )
    clash = _find_clash(context, planned, now)
    return None if clash is None else clash.overtaken()


def _find_clash(context: WriteContext, planned: PlannedWrite, now: Timeline) -> Clash | None:
    """A new key of this write that a commit has inserted since the write began; None if none.

    Cost: one lookup of the new keys in the entries of those commits.
    """
    state = context.state
    since = completed_since(state.timeline, now)
    looks_up = needs_index_lookup(context, planned.operation)
    if not since or not looks_up:
        return None
    if context.index.choice.kind.traits.names_places:
        return _new_bucket(context, planned, since)
    if not (planned.new or planned.missing):
        return None
    known = context.index.records
    if not isinstance(known, RecordIndex):
        return _same_partition(context, planned, since)
    metadata = open_metadata(state.fs, state.config, state.log, now)
    assert metadata is not None
    index = metadata.record_index()
    if index.hash.facts != known.hash.facts:  # the elastic index has changed its buckets
        return Clash(since[-1])
    tasks = list(_tasks(context, planned, known, index))
    found = context.engine.run(_look_up, tasks, label="clash")
    key = next((key for key in found if key is not None), None)
    return None if key is None else Clash(since[-1], key)


def _new_bucket(context: WriteContext, planned: PlannedWrite, since: list[Instant]) -> Clash | None:
    """A commit that created a bucket, which a delete did not see.  Other writes of equal keys write
    to the same file group."""
    deletes = planned.operation is Operation.DELETE or planned.missing
    if not deletes or context.options.concurrency.is_non_blocking:
        return None
    for other in since:
        done = context.state.log.commit(other)
        if done.operation not in REWRITES and any(not s.previous_instant for s in done.stats):
            return Clash(other)
    return None


def _same_partition(
    context: WriteContext, planned: PlannedWrite, since: list[Instant]
) -> Clash | None:
    choice = context.index.choice
    mine = {
        path
        for bucket in planned.buckets
        for path, count in zip(bucket.paths, bucket.insert_counts, strict=True)
        if count
    }
    for other in since:
        stats = context.state.log.commit(other).stats
        fresh = {s.partition for s in stats if s.insert_count or not s.previous_instant}
        if fresh and (choice.is_global or fresh & mine or planned.missing):
            return Clash(other)
    return None


@dataclass(frozen=True, slots=True)
class _LookUp:
    """fs: rooted at the data table.  added: new entries of a bucket.  given: the number of parts
    that are not merged rows."""

    fs: FileSystem
    added: IndexBucket
    parts: tuple[BatchChunk, ...]
    given: int
    bucket: BucketTags
    lost: Staged | None


def _tasks(
    context: WriteContext, planned: PlannedWrite, known: RecordIndex, index: RecordIndex
) -> Iterator[_LookUp]:
    merged = any(bucket.folded is not None for bucket in planned.buckets)
    given = len(planned.parts) - (len(planned.buckets) if merged else 0)
    for bucket, lost in zip(planned.buckets, planned.lost, strict=True):
        if not sum(bucket.insert_counts) and not bucket.missing_count:
            continue
        added = _added(known.buckets[bucket.bucket], index.buckets[bucket.bucket])
        if any(slice_.logs or slice_.base for slice_ in added.slices):
            yield _LookUp(context.state.fs, added, planned.parts, given, bucket, lost)


def _added(before: IndexBucket, now: IndexBucket) -> IndexBucket:
    """The entries added to a bucket, in all of its file groups."""
    old = before.slices
    *sealed, last = (
        _added_to(old[number], slice_) if number < len(old) else slice_
        for number, slice_ in enumerate(now.slices)
    )
    return replace(now, map_slice=last, sealed=tuple(sealed), beneath=None)


def _added_to(before: MapSlice, now: MapSlice) -> MapSlice:
    """The entries added to a file group; all of its entries if it was compacted meanwhile."""
    if now.base != before.base:
        return now
    seen = set(before.logs)
    logs = tuple(log for log in now.logs if log not in seen)
    return replace(now, base=None, logs=logs, valid=now.valid - before.valid)


def _look_up(task: _LookUp) -> str | None:
    """One of the keys not found in the table that the added entries have; None if there is none."""
    if task.bucket.missing_count:  # tags cover only keys that were found: look up all keys
        numbers = [rows_of_bucket(part, task.bucket.bucket) for part in task.parts[: task.given]]
        pairs = zip(task.parts, numbers, strict=False)
        found = [p.staged.load().column(RECORD_KEY).take(pa.array(n)) for p, n in pairs]
        return _first_added(task, pa.concat_arrays([c for column in found for c in column.chunks]))
    tags = task.bucket.tags.load()
    part, row, home, action = (
        tags.column(name).to_numpy() for name in ("part", "row", "home", "action")
    )
    fresh = (action == RowAction.PUT) & (home == NEW)
    if (gone := lost_of(task.lost, tags.num_rows)) is not None:
        fresh &= ~gone
    at = np.flatnonzero(fresh)
    at = at[row_order(part[at], row[at])]
    rows = take_rows(task.parts, part[at], row[at], columns=[RECORD_KEY])
    return _first_added(task, pa.concat_arrays(rows.column(RECORD_KEY).chunks))


def _first_added(task: _LookUp, keys: pa.Array) -> str | None:
    for hits in task.added.look_up(task.fs, keys):
        live = np.flatnonzero(pc.greater(pc.binary_length(hits.values), 0))  # others are tombstones
        if len(live):
            return str(keys[int(hits.positions[live[0]])].as_py())
    return None
