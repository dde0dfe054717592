"""Opening of the HBase index; first completes the pending entries of crashed writers.

Pending entries of a completed commit are put into HBase, and those of a failed commit are removed.
File groups whose keys have moved without an HBase update (clustering) are read again.  HBase is
shared with Apache Hudi's writers, so no other state records which commits it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.index.hbase.hbase_index import (
    PENDING_FOLDER,
    HBaseStore,
    put_committed,
    to_reread,
    waiting,
)
from pyhudi.index.hbase.hbase_table import Entry, HBasePlace
from pyhudi.options import HBaseRules
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY, FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice, Visibility
from pyhudi.timeline.commit_metadata import CommitMetadata


def opened_hbase(state: TableState, rules: HBaseRules, engine: Engine) -> HBaseStore:
    """The index without any update.  Raises OptionError, IndexNotReadyError, StorageError."""
    place = HBasePlace.of(rules, engine.parallelism)
    place.check()
    return HBaseStore(state.fs, place, Visibility.of(state.timeline), engine)


def open_hbase(
    state: TableState, rules: HBaseRules, engine: Engine, *, concurrent: bool = False
) -> HBaseStore:
    """The index of the table, without pending entries.  The caller holds the table's lock.

    concurrent: whether other writers may write meanwhile.  Cost: one listing if nothing is pending.
    """
    store = replace(opened_hbase(state, rules, engine), concurrent=concurrent)
    for time in waiting(state.fs):
        if time in state.timeline.pending.times:
            continue
        done = _commit_of(state, time)
        needs_reread, groups = to_reread(state.fs, time)
        if done is not None:
            put_committed(store, time)
            groups = groups or done.groups
        if needs_reread and groups:
            put_groups(state, store, groups)
        state.fs.delete_folder(f"{PENDING_FOLDER}/{time}")
    return store


def _commit_of(state: TableState, time: InstantTime) -> CommitMetadata | None:
    """The metadata of a commit; None if it failed.  Cost: reads the archive for an old commit."""
    for instant in state.timeline.commits:
        if instant.time == time:
            return state.log.commit(instant)
    found = (old.metadata for old in state.archive.commits if old.time == time)
    return next(found, None)


def put_groups(state: TableState, store: HBaseStore, groups: Iterable[FileGroupId] | None) -> int:
    """Put an entry for each key of some file groups (None: of all); the number of entries.

    Entries have the instant of the newest commit.  Cost: their key columns, one put per key.
    """
    newest = state.timeline.commits.last
    if newest is None:
        return 0
    requested = None if groups is None else frozenset(groups)
    slices = state.view().latest_slices()
    spec = SliceSpec(state.schema(), (RECORD_KEY,), state.rules, state.view().visibility)
    tasks = [
        GroupTask(state.fs, spec, store.place, slice_, newest.time)
        for slice_ in slices
        if requested is None or slice_.group in requested
    ]
    return sum(store.engine.run(put_group, tasks, label="index"))


@dataclass(frozen=True, slots=True)
class GroupTask:
    """One file slice whose keys are put."""

    fs: FileSystem
    spec: SliceSpec
    place: HBasePlace
    slice: FileSlice
    instant: InstantTime


def put_group(task: GroupTask) -> int:
    """Put the entries of a slice; the number of entries.  May run twice."""
    keys = read_slice(task.fs, task.slice, spec=task.spec).column(RECORD_KEY)
    value = Entry(task.instant.encode(), task.slice.file_id.encode(), task.slice.partition.encode())
    for chunk in keys.chunks:
        task.place.put((key, value) for key in chunk.cast(pa.binary()).to_pylist())
    return len(keys)
