"""Apache Hudi's HBase index: a row a key in an HBase table, outside the Hudi table.

An entry is valid if its commit is completed (or archived) and its file group is in the table.  So
entries of new keys are written before the commit, and a failed commit leaves entries that are
ignored.  Changes and deletes of valid entries wait for the commit.  Where writers run concurrently,
entries of new keys wait too, until the writer holds the lock and has found no conflict: an entry
written earlier could replace that of a writer which commits first.

```
.hoodie/.pyhudi_hbase/<instant>/*.arrow   [key, partition, file_id: string]; null: the key ended
.hoodie/.pyhudi_hbase/<instant>/new-*.arrow   the same, of new keys; written before the commit
.hoodie/.pyhudi_hbase/<instant>/reread    JSON, file groups whose keys have moved: those listed by
                                          a rollback of the instant, or (null) those it wrote
```

Staged entries are written to HBase right after the commit.  If the writer crashes before, the next
writer does so before its first lookup.  Staged entries of a failed instant are removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Longs
from pyhudi.engine import Engine
from pyhudi.errors import StorageError
from pyhudi.filenames import HOODIE, new_write_token
from pyhudi.index.contract import Located, one_array
from pyhudi.index.external_index import Changes, are_live, only_live, places
from pyhudi.index.hbase.hbase_table import Entry, HBasePlace
from pyhudi.index.key_join import SpilledTable
from pyhudi.options import IndexKind
from pyhudi.records import RECORD_KEY, FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import Visibility

PENDING_FOLDER: Final = f"{HOODIE}/.pyhudi_hbase"
REREAD: Final = "reread"
_NEW: Final = "new-"
_WAITING: Final = pa.schema({"key": pa.string(), "partition": pa.string(), "file_id": pa.string()})
_LOG: Final = logging.getLogger("pyhudi")


def look_up_hbase(
    place: HBasePlace, visibility: Visibility, keys: pa.Array
) -> tuple[Located, Longs]:
    """(places of keys, the commit of each), of entries whose commits are visible, including file
    groups that the table no longer has.  Cost: some Python objects a key."""
    raw_keys = keys.cast(pa.binary()).to_pylist()
    found = place.get(list(dict.fromkeys(raw_keys)))
    groups: dict[tuple[bytes, bytes], int] = {}
    sees: dict[bytes, bool] = {}
    rows, homes, times = [], [], []
    for row, key in enumerate(raw_keys):
        entry = found.get(key)
        if entry is None:
            continue
        if entry.commit not in sees:
            sees[entry.commit] = visibility.sees(InstantTime(entry.commit.decode()))
        if sees[entry.commit]:
            rows.append(row)
            homes.append(groups.setdefault((entry.partition, entry.file_id), len(groups)))
            times.append(int(entry.commit))
    named = tuple(FileGroupId(p.decode(), f.decode()) for p, f in groups)
    located = Located(np.array(rows, np.int64), np.array(homes, np.int32), named)
    return located, np.array(times, np.int64)


@dataclass(frozen=True, slots=True)
class HBaseFinder:
    """Looks up the rows of one hash part."""

    place: HBasePlace
    visibility: Visibility
    live: SpilledTable

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        if not rows.num_rows:
            return Located.nothing()
        found, _ = look_up_hbase(self.place, self.visibility, one_array(rows.column(RECORD_KEY)))
        return only_live(found, self.live)


@dataclass(frozen=True, slots=True)
class PutTask:
    """One hash part's changes.  fs: rooted at the data table; all_wait: stage entries of new keys,
    too."""

    fs: FileSystem
    place: HBasePlace
    changes: SpilledTable
    groups: tuple[FileGroupId, ...]
    instant: InstantTime
    all_wait: bool = False


def put_entries(task: PutTask) -> int:
    """Write entries of new keys, and stage those that have to wait; returns how many wait for the
    commit.  May run twice: staged entries are then written twice."""
    table = task.changes.load()
    waits = np.asarray(table.column("has_entry").to_numpy(), np.bool_)
    key, new = one_array(table.column("key")), np.flatnonzero(~waits)
    target = np.asarray(table.column("target").to_numpy())
    if task.all_wait:
        _stage(task, _NEW, key.take(pa.array(new)), target[new])
    else:
        commit = task.instant.encode()
        values = [Entry(commit, g.file_id.encode(), g.partition.encode()) for g in task.groups]
        some = key.take(pa.array(new)).cast(pa.binary()).to_pylist()
        task.place.put((k, values[t]) for k, t in zip(some, target[new].tolist(), strict=True))
    _stage(task, "", key.filter(pa.array(waits)), target[waits])
    return int(waits.sum())


def _stage(task: PutTask, prefix: str, keys: pa.Array, target: Any) -> None:
    """Stage the entries of some keys.  target: positions in the groups, negative: ended."""
    if not len(keys):
        return
    at = pa.array(target, pa.int32(), mask=target < 0)
    partitions = pa.array([g.partition for g in task.groups], pa.string())
    ids = pa.array([g.file_id for g in task.groups], pa.string())
    path = f"{PENDING_FOLDER}/{task.instant}/{prefix}{new_write_token()}.arrow"
    with (
        task.fs.open_sink(path) as sink,
        pa.ipc.new_file(pa.PythonFile(sink, mode="w"), _WAITING) as writer,
    ):
        columns = [keys, partitions.take(at), ids.take(at)]
        writer.write_table(pa.Table.from_arrays(columns, schema=_WAITING))


@dataclass(frozen=True, slots=True)
class DeferredPutTask:
    """One file of staged entries."""

    fs: FileSystem
    place: HBasePlace
    path: str
    instant: InstantTime


def put_waiting(task: DeferredPutTask) -> None:
    """Write staged entries to HBase.  May run twice."""
    table = pa.ipc.open_file(task.fs.arrow_file(task.path)).read_all()
    task.place.put(_entries(table, task.instant))


def _entries(table: pa.Table, instant: InstantTime) -> Iterator[tuple[bytes, Entry | None]]:
    commit = instant.encode()
    for batch in table.to_batches():
        columns = (column.cast(pa.binary()).to_pylist() for column in batch.columns)
        for key, partition, file_id in zip(*columns, strict=True):
            yield key, None if file_id is None else Entry(commit, file_id, partition)


@dataclass(frozen=True)
class HBaseStore:
    """The index of one table.  fs: rooted at the data table; visibility: the visible commits.

    concurrent: whether other writers write at the same time.
    """

    fs: FileSystem
    place: HBasePlace
    visibility: Visibility
    engine: Engine
    concurrent: bool = False
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> IndexKind:
        return IndexKind.HBASE

    @property
    def part_count(self) -> None:
        return None

    def finder(self, part: int, part_count: int, live: SpilledTable) -> HBaseFinder:
        return HBaseFinder(self._shared(part_count), self.visibility, live)

    def _shared(self, tasks: int) -> HBasePlace:
        return replace(self.place, share=max(1, min(tasks, self.engine.parallelism)))

    def write(self, changes: Changes, instant: InstantTime, engine: Engine) -> InstantTime:
        place = self._shared(len(changes.tables))
        tasks = [
            PutTask(self.fs, place, table, changes.groups, instant, self.concurrent)
            for table in changes.tables
        ]
        engine.run(put_entries, tasks, label="index")
        return instant

    def publish(self, written: InstantTime) -> None:
        """Write staged entries of new keys, which become valid once their commit is completed.  The
        caller holds the table's lock, and no conflicting commit has completed."""
        if self.concurrent:
            self.fs.delete(put_laid_down(self, written, new=True))

    def apply_deferred(self, written: InstantTime) -> None:
        try:
            put_committed(self, written)
        except StorageError as error:
            _LOG.warning("entries of %s are deferred to the next write: %s", written, error)

    def lookup(self, keys: pa.Array, live: SpilledTable, engine: Engine) -> pa.Table:
        valid = np.flatnonzero(np.asarray(keys.is_valid()))
        found, commits = look_up_hbase(self.place, self.visibility, keys.take(pa.array(valid)))
        keep = are_live(found, live)
        rows = valid[found.rows[keep]]
        return places(keys, Located(rows, found.homes[keep], found.groups), commits[keep])


def put_committed(store: HBaseStore, instant: InstantTime) -> None:
    """Write the staged entries of a completed commit.  Raises StorageError where HBase is not
    available."""
    put_laid_down(store, instant, new=False)
    store.fs.delete_folder(f"{PENDING_FOLDER}/{instant}")


def put_laid_down(store: HBaseStore, instant: InstantTime, *, new: bool) -> list[str]:
    """Write staged entries, of new keys or else all; returns the paths of their files."""
    found = [
        f for f in store.fs.children(f"{PENDING_FOLDER}/{instant}") if f.name.endswith(".arrow")
    ]
    files = [f.path for f in found if f.name.startswith(_NEW) or not new]
    place = store._shared(len(files))
    tasks = [DeferredPutTask(store.fs, place, path, instant) for path in files]
    store.engine.run(put_waiting, tasks, label="index")
    return files


def waiting(fs: FileSystem) -> list[InstantTime]:
    """Instants with staged entries or requests to read file groups again."""
    return [InstantTime(f.name) for f in fs.children(PENDING_FOLDER) if f.is_folder]


def request_reread(
    fs: FileSystem, time: InstantTime, groups: Iterable[FileGroupId] | None = None
) -> None:
    """Request that file groups are read again before the next lookup in HBase, because their keys
    move without an update of HBase.  groups: None: those that the commit `time` writes, once it has
    completed."""
    listed = None if groups is None else sorted((g.partition, g.file_id) for g in groups)
    fs.replace(f"{PENDING_FOLDER}/{time}/{REREAD}", json.dumps(listed).encode())


def to_reread(fs: FileSystem, time: InstantTime) -> tuple[bool, frozenset[FileGroupId] | None]:
    """(whether this was requested, the requested groups or None)."""
    path = f"{PENDING_FOLDER}/{time}/{REREAD}"
    if not fs.exists(path):
        return False, None
    groups = json.loads(fs.read(path))
    return True, None if groups is None else frozenset(FileGroupId(*group) for group in groups)
