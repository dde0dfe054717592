"""The HBase index opened for a table as it is: what dead writers have left to be put is put first.

What waits of a commit that stands is put, what waits of one that came to nothing is removed, and
file groups whose keys have moved without HBase knowing (clustering) are read again.  HBase's own
state is shared with Apache Hudi's writers, so nothing else tells what it has seen.
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
    """The index as it is.  Raises OptionError, IndexNotReadyError, StorageError."""
    place = HBasePlace.of(rules, engine.parallelism)
    place.check()
    return HBaseStore(state.fs, place, Visibility.of(state.timeline), engine)


def open_hbase(
    state: TableState, rules: HBaseRules, engine: Engine, *, concurrent: bool = False
) -> HBaseStore:
    """The index of the table, with nothing left to be put.  The caller holds the table's lock.

    concurrent: whether other writers write at the same time.  Cost: a listing where nothing waits.
    """
    store = replace(opened_hbase(state, rules, engine), concurrent=concurrent)
    for time in waiting(state.fs):
        if time in state.timeline.pending.times:
            continue
        done = _commit_of(state, time)
        asked, groups = to_reread(state.fs, time)
        if done is not None:
            put_committed(store, time)
            groups = groups or done.groups
        if asked and groups:
            put_groups(state, store, groups)
        state.fs.delete_folder(f"{PENDING_FOLDER}/{time}")
    return store


def _commit_of(state: TableState, time: InstantTime) -> CommitMetadata | None:
    """What a commit says; None if it came to nothing.  Cost: the archive, for an old one."""
    for instant in state.timeline.commits:
        if instant.time == time:
            return state.log.commit(instant)
    found = (old.metadata for old in state.archive.commits if old.time == time)
    return next(found, None)


def put_groups(state: TableState, store: HBaseStore, groups: Iterable[FileGroupId] | None) -> int:
    """Put an entry for each key of some file groups (None: of all); how many.

    Cost: their key columns, a put a key.  Entries are of the newest commit.
    """
    newest = state.timeline.commits.last
    if newest is None:
        return 0
    wanted = None if groups is None else frozenset(groups)
    slices = state.view().latest_slices()
    spec = SliceSpec(state.schema(), (RECORD_KEY,), state.rules, state.view().visibility)
    tasks = [
        GroupTask(state.fs, spec, store.place, piece, newest.time)
        for piece in slices
        if wanted is None or piece.group in wanted
    ]
    return sum(store.engine.run(put_group, tasks, label="index"))


@dataclass(frozen=True, slots=True)
class GroupTask:
    """One file slice whose keys get entries."""

    fs: FileSystem
    spec: SliceSpec
    place: HBasePlace
    slice: FileSlice
    instant: InstantTime


def put_group(task: GroupTask) -> int:
    """Put the entries of a slice; how many.  May run twice."""
    keys = read_slice(task.fs, task.slice, spec=task.spec).column(RECORD_KEY)
    value = Entry(task.instant.encode(), task.slice.file_id.encode(), task.slice.partition.encode())
    for chunk in keys.chunks:
        task.place.put((key, value) for key in chunk.cast(pa.binary()).to_pylist())
    return len(keys)
