"""Maintenance of an elastic index: compaction of logs, growth, deletion of old files.

The result is a separate state at the same commit as the state before it.  A file group's
tombstones are retained while older files have a location for their keys, and dropped otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyhudi.engine import Engine
from pyhudi.filenames import BaseFileName, new_write_token
from pyhudi.metadata.elastic.reader import OlderGroups, hashes_of
from pyhudi.metadata.elastic.state import (
    BucketGroup,
    ElasticFile,
    IndexState,
    Segment,
    segment_name,
)
from pyhudi.metadata.elastic.store import ROOT, next_sequence, publish_state, remove_outdated_states
from pyhudi.metadata.file_writers import HFILE, write_base_in_chunks
from pyhudi.metadata.hfile_slices import (
    DeleteLayer,
    Layer,
    MapSlice,
    ValueLayer,
    layers,
    look_up_layers,
)
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.k_way_merge import entries_at_most, merged_chunks
from pyhudi.metadata.record_index.locations import transcode_locations
from pyhudi.options import Growth
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.timeline import Timeline

_HEAVY_BYTES: Final = 16 << 20  # logs of one file group

EntryPlace = tuple[int, int, int]
"""Group, bucket, and number in the bucket of a file group."""


def tend(
    fs: FileSystem, state: IndexState, data: Timeline, *, compact_after: int, engine: Engine
) -> IndexState:
    """Compact file groups that are due, then grow full buckets; returns the resulting state.

    fs: rooted at the data table, whose lock the caller holds; state: the newest; data: the data
    table's timeline.  compact_after: logs per file group.  Cost if nothing is due: none.
    """
    due = due_places(state, compact_after)
    done = _compacted(fs, state, due, engine).grown()
    if done is state:
        return state
    index_fs = fs.sub(ROOT)
    done = replace(done, sequence=next_sequence(index_fs))
    done = replace(done, path=publish_state(index_fs, done))
    remove_outdated_states(index_fs, data)
    return done


def due_places(state: IndexState, compact_after: int) -> list[EntryPlace]:
    """File groups to compact: those with many logs, and sealed or full ones with any logs, as only
    a base file gives an exact number of entries."""
    rule, last = state.rule, len(state.groups) - 1
    newest = state.groups[-1]
    full = newest.entries >= rule.load * rule.entries * len(newest.buckets)
    fills = rule.growth is Growth.GROUPS and full
    found = []
    for group, bucket, number, segment in state.segments():
        is_open = group == last and number == len(newest.buckets[bucket]) - 1
        heavy = sum(log.size_bytes for log in segment.logs) >= _HEAVY_BYTES
        many = len(segment.logs) >= compact_after or heavy
        if segment.logs and (many or not is_open or fills or segment.entries >= rule.entries):
            found.append((group, bucket, number))
    return found


def _compacted(
    fs: FileSystem, state: IndexState, places: list[EntryPlace], engine: Engine
) -> IndexState:
    if not places:
        return state
    hashes = hashes_of(state)
    tasks = []
    for group, bucket, number in places:
        segments = state.groups[group].buckets[bucket]
        older_groups = OlderGroups(state.path, hashes[:group]) if group else None
        older = tuple(segment.slice(bucket) for segment in segments[:number])
        file_slice = segments[number].slice(bucket)
        name = segment_name(group, number).file_id(bucket)
        tasks.append(_Rewrite(fs, file_slice, name, state.instant or "0", older, older_groups))
    made = dict(zip(places, engine.run(_rewrite, tasks, label="index-compaction"), strict=True))
    return replace(
        state,
        groups=tuple(
            BucketGroup(
                group.turn,
                tuple(
                    tuple(made.get((g, b, n), segment) for n, segment in enumerate(bucket))
                    for b, bucket in enumerate(group.buckets)
                ),
            )
            for g, group in enumerate(state.groups)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """A file group to rewrite.  older: the bucket's file groups before it; beneath: older groups of
    buckets."""

    fs: FileSystem
    map_slice: MapSlice
    file_id: str
    instant: str
    older: tuple[MapSlice, ...]
    beneath: OlderGroups | None


def _rewrite(task: _Rewrite) -> Segment:
    """Rewrite the file group's entries as a base file.  May run twice."""
    index_fs = task.fs.sub(ROOT)
    found = layers(index_fs, task.map_slice)
    name = BaseFileName(
        task.file_id, new_write_token(task.map_slice.number), InstantTime(task.instant), HFILE
    )
    chunks = _merged_chunks(task, found)
    first = next(chunks, None)
    if first is None:
        return Segment()
    size, count = write_base_in_chunks(
        index_fs, RECORD_INDEX.path, name, chain([first], chunks), entries_max=_at_most(found)
    )
    return Segment(ElasticFile(str(name), size, count, 0))


def _at_most(found: Sequence[Layer]) -> int:
    ended = sum(len(layer.keys) for layer in found if isinstance(layer, DeleteLayer))
    return entries_at_most(found) + ended


def _merged_chunks(task: _Rewrite, found: Sequence[Layer]) -> Iterator[tuple[pa.Array, pa.Array]]:
    index_fs = task.fs.sub(ROOT)
    older = tuple(layer for file_slice in task.older for layer in layers(index_fs, file_slice))

    def is_below(keys: pa.Array) -> NDArray[np.bool_]:
        """Which keys have a location in older files."""
        located = np.zeros(len(keys), np.bool_)
        if not older and task.beneath is None:
            return located
        hits, left = look_up_layers(older, keys, method="auto")
        for hit in hits:
            located[hit.positions] = _is_place(hit.values)
        if task.beneath is not None and len(left):
            below, _ = task.beneath.look_up(task.fs, keys.take(pa.array(left)), method="auto")
            for hit in below:
                located[left[hit.positions]] = _is_place(hit.values)
        return located

    def ours(values: pa.Array, layer: ValueLayer) -> pa.Array:
        return transcode_locations(values, layer.schema, path=layer.path)

    return merged_chunks(found, ours, keeps_ended=is_below)


def _is_place(values: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(
        pc.greater(pc.binary_length(values), 0).to_numpy(zero_copy_only=False), np.bool_
    )
