"""The record index built out of the table's keys: for a table without one, or beside the old one.

```
keys     every key put aside by bucket (`keyruns`)   without the lock, in the table's .temp
buckets  one base HFile a bucket, in key order       under it, in the metadata table's .temp
check    each held against the keys, as `verify` does
swap     old partition unlisted and removed -> new files in their places -> listed
```

What is put aside has a name of what it was made of, so a build that was killed goes on where it
stopped, and reads again only what changed since.  Memory: one file slice and one piece of a bucket
a task.  A crash during the swap leaves the table without a listed record index: building again
finishes it.  Source: table_format 9.1, 9.8.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from pyhudi._native import HFileReader, argsort, is_strictly_sorted, latest
from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import METADATA_TABLE, TEMP, BaseFileName, join, new_write_token
from pyhudi.index.maintenance.sorted_key_runs import (
    BucketKeys,
    KeyRun,
    RunTask,
    make_run,
    run_tasks,
)
from pyhudi.index.maintenance.verify import CheckTask, check_bucket
from pyhudi.metadata.bootstrap import create_metadata, first_stat, publish_partition, unlist
from pyhudi.metadata.compaction import finish_pending
from pyhudi.metadata.elastic.create import drop_elastic
from pyhudi.metadata.file_writers import HFILE, write_base_in_pieces
from pyhudi.metadata.hfile_slices import MapSlice, StoredFile
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.locations import encode_locations
from pyhudi.metadata.record_index.lookup import IndexShard
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import DurableStaging, FileStaged
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import State

BUILD_FOLDER: Final = "index-build"
BUILD_PROPERTY: Final = "pyhudi.index.build"
"""Other with every build; other engines pass it over."""

_ROWS: Final = 1 << 19
_COPIED: Final = 4 << 20
_WAVES: Final = 4

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is.  phase: "keys", "buckets", "check" or "swap"; done, total: its tasks."""

    phase: str
    done: int
    total: int
    seconds: float


ReportProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """For those who do not want to be told."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What a build has to read, and what an earlier one has left for it."""

    hash: KeyHash
    tasks: tuple[RunTask, ...]
    kept: dict[str, str]  # names of tasks whose keys are put aside already, and their files
    groups: tuple[FileGroupId, ...]

    @property
    def bucket_count(self) -> int:
        return self.hash.count


@dataclass(frozen=True, slots=True)
class Built:
    """A build done.  reused: tasks of the key phase that an earlier build had done."""

    entries: int
    bytes_written: int
    reused: int


def plan_build(state: TableState, hash: KeyHash) -> BuildPlan:
    """Cost: one listing.  Pure otherwise."""
    slices = state.view().latest_slices()
    store = DurableStaging(state.fs, f"{TEMP}/{BUILD_FOLDER}-{hash.facts.replace(' ', '-')}")
    tasks = run_tasks(state, slices, hash, store) if slices else []
    found = store.found()
    kept = {task.name: found[task.name] for task in tasks if task.name in found}
    return BuildPlan(hash, tuple(tasks), kept, tuple(s.group for s in slices))


def gather_keys(plan: BuildPlan, engine: Engine, tell: ReportProgress) -> list[KeyRun]:
    """The runs of a plan: those kept, and the others made now."""
    lacking = [task for task in plan.tasks if task.name not in plan.kept]
    made = {
        task.name: run
        for task, run in zip(
            lacking, in_waves(engine, make_run, lacking, "keys", tell), strict=True
        )
    }
    return [
        made.get(task.name) or KeyRun(FileStaged(task.fs, plan.kept[task.name]), task.slices[0][0])
        for task in plan.tasks
    ]


def build_now(state: TableState, bucket_count: int, engine: Engine, tell: ReportProgress) -> Built:
    """Build, check and put into its place, for a table as it is.  The caller holds the lock.

    Raises IndexNotReadyError while a write is pending.
    """
    config = create_metadata(state.fs, state.config, state.log, records=None)
    metadata = open_metadata(state.fs, config, state.log, state.timeline)
    assert metadata is not None
    finish_pending(metadata, engine)  # its plans name files of the old index
    made = build_files(state, KeyHash(bucket_count), METADATA_TABLE, engine, tell)
    # readers with the table open see by its properties that they have to look anew
    config = config.with_properties({BUILD_PROPERTY: new_write_token(bucket_count)})
    config = unlist(state.fs, config, RECORD_INDEX)

    def put(target: FileSystem, time: InstantTime) -> list[WriteStat]:
        moves = [_Move(target, file, time) for file in made.files if file.entries]
        stats = in_waves(engine, _moved, moves, "swap", tell)
        kept = {stat.path for stat in stats}
        there = (f.path for f in target.children(RECORD_INDEX.path) if f.name.endswith(HFILE))
        target.delete(path for path in there if path not in kept)  # of attempts that were lost
        return stats

    config = publish_partition(
        state.fs, config, state.timeline, RECORD_INDEX, bucket_count, put
    )  # fmt: skip
    drop_elastic(state.fs, config)
    made.forget(state.fs)
    return made.built


@dataclass(frozen=True, slots=True)
class MadeFiles:
    """Base files of all buckets, beside their places, held against the table."""

    root: str
    folder: str
    files: tuple[BucketFile, ...]
    reused: int

    @property
    def built(self) -> Built:
        files = self.files
        size = sum(f.file.size_bytes for f in files)
        return Built(sum(f.entries for f in files), size, self.reused)

    def forget(self, fs: FileSystem) -> None:
        """Remove what was put aside."""
        fs.delete_folder(f"{self.root}/{self.folder}")
        remove_build(fs)


def build_files(
    state: TableState, hash: KeyHash, root: str, engine: Engine, tell: ReportProgress
) -> MadeFiles:
    """The files of a new index, as readers of the table see its keys now.

    root: the folder of the index, from the table's.  The caller holds the lock.
    """
    plan = plan_build(state, hash)
    runs = tuple(gather_keys(plan, engine, tell))
    own = state.fs.sub(root)
    folder = f"{TEMP}/{BUILD_FOLDER}-{_digest(plan, state)}"
    done = {f.name.split(".")[0]: f.path for f in own.children(folder) if f.name.endswith(HFILE)}
    last = state.timeline.where(None, State.COMPLETED).last
    millis = epoch_millis(last.time, state.log.zone) if last else 0
    tasks = [
        BucketTask(own, folder, number, runs, plan.groups, millis, done.get(f"{number:05d}"))
        for number in range(plan.bucket_count)
    ]
    files = in_waves(engine, build_index_bucket, tasks, "buckets", tell)
    _check(state, plan, runs, files, root, engine, tell=tell)
    return MadeFiles(root, folder, tuple(files), len(plan.kept))


def remove_build(fs: FileSystem) -> None:
    """Remove what builds have put aside."""
    for entry in fs.children(TEMP):
        if entry.is_folder and entry.name.startswith(BUILD_FOLDER):
            fs.delete_folder(entry.path)


def _digest(plan: BuildPlan, state: TableState) -> str:
    """A name of everything that decides what the buckets hold."""
    last = state.timeline.where(None, State.COMPLETED).last
    facts = [plan.hash.facts, last.time if last else "", *(t.name for t in plan.tasks)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """One bucket to build.  fs: rooted at the metadata table.  kept: of an earlier build."""

    fs: FileSystem
    folder: str
    number: int
    runs: tuple[KeyRun, ...]
    groups: tuple[FileGroupId, ...]
    epoch_millis: int
    kept: str | None


@dataclass(frozen=True, slots=True)
class BucketFile:
    """A bucket's base file beside its place."""

    number: int
    file: StoredFile
    entries: int


def build_index_bucket(task: BucketTask) -> BucketFile:
    """Write one bucket in key order.  May run twice; all its files are equal."""
    if task.kept is not None:
        reader = HFileReader(task.fs.open(task.kept))
        file = StoredFile(task.kept, task.fs.size(task.kept))
        return BucketFile(task.number, file, reader.entry_count)
    keys = BucketKeys(task.runs, task.number)
    name = BaseFileName(f"{task.number:05d}", new_write_token(), InstantTime("0"), HFILE)
    pieces = _rows(keys, task)
    size, entries = write_base_in_pieces(task.fs, task.folder, name, pieces, entries_max=keys.left)
    return BucketFile(task.number, StoredFile(join(task.folder, str(name)), size), entries)


def _rows(keys: BucketKeys, task: BucketTask) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Sorted, distinct keys and their values, a piece at a time; of copies the last counts."""
    partitions = pa.array([group.partition for group in task.groups], pa.string())
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    for key, home in keys.pieces(_ROWS):
        order = pa.array(argsort(key))
        key, home = key.take(order), home.take(order)
        if not is_strictly_sorted(key):
            once = pa.array(np.sort(latest(key)))
            key, home = key.take(once), home.take(once)
        values = encode_locations(
            pa.DictionaryArray.from_arrays(home, partitions),
            pa.DictionaryArray.from_arrays(home, ids),
            task.epoch_millis,
        )
        yield key, values


def _check(
    state: TableState,
    plan: BuildPlan,
    runs: tuple[KeyRun, ...],
    files: Sequence[BucketFile],
    root: str,
    engine: Engine,
    *,
    tell: ReportProgress,
) -> None:
    """Hold the new files against the keys.  Raises CorruptFileError, before anything changes."""
    store = DurableStaging(state.fs, f"{TEMP}/{BUILD_FOLDER}-faults")
    tasks = [
        CheckTask(
            state.fs,
            IndexShard(
                MapSlice(RECORD_INDEX.path, f.number, f.file, (), frozenset()), None, root=root
            ),
            plan.hash,
            runs,
            plan.groups,
            store,
        )
        for f in files
        if f.entries
    ]
    for check in in_waves(engine, check_bucket, tasks, "check", tell):
        if check.counts:
            raise CorruptFileError(
                "a bucket of the new index differs from the table", bucket=check.bucket,
                faults=dict(check.counts), hint="rebuild again; the old index still stands",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Move:
    fs: FileSystem
    file: BucketFile
    time: InstantTime


def _moved(task: _Move) -> WriteStat:
    """Copy a bucket's file into its place."""
    number, file = task.file.number, task.file.file
    token = new_write_token(number)
    name = BaseFileName(RECORD_INDEX.file_id(number), token, task.time, HFILE)
    copy_built(task.fs, file, join(RECORD_INDEX.path, str(name)))
    return first_stat(
        RECORD_INDEX, number, name, entries=task.file.entries, size_bytes=file.size_bytes
    )


def copy_built(fs: FileSystem, file: StoredFile, path: str) -> None:
    source = fs.open(file.path)
    with fs.open_sink(path) as sink:
        for start in range(0, file.size_bytes, _COPIED):
            sink.write(source.read_at(start, min(_COPIED, file.size_bytes - start)))
    source.close()


def in_waves(
    engine: Engine, task: Callable[[_T], _R], items: Sequence[_T], phase: str, tell: ReportProgress
) -> list[_R]:
    """`engine.run`, some tasks at a time, told after each."""
    began, step = time.monotonic(), _WAVES * engine.parallelism
    found: list[_R] = []
    for start in range(0, len(items), step):
        found += engine.run(task, items[start : start + step], label=phase)
        tell(Progress(phase, len(found), len(items), time.monotonic() - began))
    return found
