"""Build of the record index from the table's keys, for a table without one or to replace one.

```
keys     stage all keys by bucket (`sorted_key_runs`)   without the lock, in the table's .temp
buckets  write one base HFile a bucket, in key order    under it, in the metadata table's .temp
check    verify each file against the keys, as `verify` does
swap     unlist and remove the old partition -> move the new files into place -> list it
```

Names of staged files are derived from their input, so a build that was killed resumes where it
stopped, and reads again only what has changed.  Memory: one file slice and one chunk of a bucket a
task.  A crash during the swap leaves the table without a listed record index; another build, or
the next write, completes it.  Source: table_format 9.1, 9.8.
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
from pyhudi.index.selection import BUILD_PROPERTY, BUILDING
from pyhudi.metadata.bootstrap import create_metadata, first_stat, publish_partition, unlist
from pyhudi.metadata.compaction import finish_pending
from pyhudi.metadata.definitions import define_record_index
from pyhudi.metadata.elastic.create import drop_elastic
from pyhudi.metadata.file_writers import HFILE, write_base_in_chunks
from pyhudi.metadata.hfile_slices import MapSlice, StoredFile
from pyhudi.metadata.payloads import RECORD_INDEX, MetadataPartition
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.locations import encode_locations
from pyhudi.metadata.record_index.lookup import IndexBucket
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import DurableStaging, FileStaged
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import State

BUILD_FOLDER: Final = "index-build"

_ROWS: Final = 1 << 19
_COPY_BYTES: Final = 4 << 20
_WAVES: Final = 4

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a build.  phase: "keys", "buckets", "check" or "swap"; done, total: its tasks."""

    phase: str
    done: int
    total: int
    seconds: float


ReportProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignore progress reports."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The work of a build, and what it can reuse of an earlier one."""

    hash: KeyHash
    tasks: tuple[RunTask, ...]
    staged: dict[str, str]  # names of tasks whose keys are already staged, and their files
    groups: tuple[FileGroupId, ...]

    @property
    def bucket_count(self) -> int:
        return self.hash.count


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build.  reused: tasks of the key phase done by an earlier build."""

    entries: int
    bytes_written: int
    reused: int


def plan_build(
    state: TableState, hash: KeyHash, slices: Sequence[FileSlice] | None = None
) -> BuildPlan:
    """The plan of a build.  slices: those to index; None: all.  Cost: one listing.  Changes
    nothing."""
    if slices is None:
        slices = state.view().latest_slices()
    store = DurableStaging(state.fs, f"{TEMP}/{BUILD_FOLDER}-{hash.facts.replace(' ', '-')}")
    tasks = run_tasks(state, slices, hash, store) if slices else []
    found = store.found()
    staged = {task.name: found[task.name] for task in tasks if task.name in found}
    return BuildPlan(hash, tuple(tasks), staged, tuple(s.group for s in slices))


def gather_keys(plan: BuildPlan, engine: Engine, report: ReportProgress) -> list[KeyRun]:
    """The runs of a plan: those of an earlier build, and the others made now."""
    missing = [task for task in plan.tasks if task.name not in plan.staged]
    made = {
        task.name: run
        for task, run in zip(
            missing, in_waves(engine, make_run, missing, "keys", report), strict=True
        )
    }
    return [
        made.get(task.name)
        or KeyRun(FileStaged(task.fs, plan.staged[task.name]), task.slices[0][0])
        for task in plan.tasks
    ]


def build_now(
    state: TableState, bucket_count: int, engine: Engine, report: ReportProgress
) -> Built:
    """Build, check and swap the index of the current table.  The caller holds the lock.

    Raises IndexNotReadyError while a write is pending.
    """
    config = create_metadata(state.fs, state.config, state.log, records=None)
    metadata = open_metadata(state.fs, config, state.log, state.timeline)
    assert metadata is not None
    finish_pending(metadata, engine)  # its plans refer to files of the old index
    made = build_files(state, KeyHash(bucket_count), METADATA_TABLE, engine, report)
    config = unlist_former(state.fs, config)
    config = as_built(define_record_index(state.fs, config))

    def put(target: FileSystem, time: InstantTime) -> list[WriteStat]:
        return put_files([(RECORD_INDEX, made)], target, time, engine, report)

    ids = [RECORD_INDEX.file_id(number) for number in range(bucket_count)]
    config = publish_partition(state.fs, config, state.timeline, RECORD_INDEX, ids, put)
    drop_elastic(state.fs, config)
    made.forget(state.fs)
    return made.built


def unlist_former(fs: FileSystem, config: TableConfig) -> TableConfig:
    """Remove the former record index, and store that a new one is being built."""
    return unlist(fs, config.with_properties({BUILD_PROPERTY: BUILDING}), RECORD_INDEX)


def as_built(config: TableConfig) -> TableConfig:
    """The properties with a new token of their index, by which open tables notice it."""
    return config.with_properties({BUILD_PROPERTY: new_write_token()})


def put_files(
    made: Sequence[tuple[MetadataPartition, MadeFiles]],
    target: FileSystem,
    time: InstantTime,
    engine: Engine,
    report: ReportProgress,
) -> list[WriteStat]:
    """Copy built files into their place; returns their stats.  made: file groups and their files.
    target: the metadata table."""
    moves = [
        _Move(target, groups, file, time)
        for groups, files in made
        for file in files.files
        if file.entries
    ]
    stats = in_waves(engine, _moved, moves, "swap", report)
    used = {stat.path for stat in stats}
    there = (f.path for f in target.children(RECORD_INDEX.path) if f.name.endswith(HFILE))
    target.delete(path for path in there if path not in used)  # of failed task attempts
    return stats


@dataclass(frozen=True, slots=True)
class MadeFiles:
    """Staged base files of all buckets, verified against the table."""

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
        """Remove the staged files."""
        fs.delete_folder(f"{self.root}/{self.folder}")
        remove_build(fs)


def build_files(
    state: TableState,
    hash: KeyHash,
    root: str,
    engine: Engine,
    report: ReportProgress,
    *,
    slices: Sequence[FileSlice] | None = None,
) -> MadeFiles:
    """The files of a new index, with the keys that readers of the table see now.

    root: the folder of the index, relative to the table's.  slices: those to index; None: all.
    The caller holds the lock.
    """
    plan = plan_build(state, hash, slices)
    runs = tuple(gather_keys(plan, engine, report))
    index_fs = state.fs.sub(root)
    folder = f"{TEMP}/{BUILD_FOLDER}-{_digest(plan, state)}"
    done = {
        f.name.split(".")[0]: f.path for f in index_fs.children(folder) if f.name.endswith(HFILE)
    }
    last = state.timeline.where(None, State.COMPLETED).last
    millis = epoch_millis(last.time, state.log.zone) if last else 0
    tasks = [
        BucketTask(index_fs, folder, number, runs, plan.groups, millis, done.get(f"{number:05d}"))
        for number in range(plan.bucket_count)
    ]
    files = in_waves(engine, build_index_bucket, tasks, "buckets", report)
    _check(state, plan, runs, files, root, engine, report=report)
    return MadeFiles(root, folder, tuple(files), len(plan.staged))


def remove_build(fs: FileSystem) -> None:
    """Remove the staged files of all builds."""
    for entry in fs.children(TEMP):
        if entry.is_folder and entry.name.startswith(BUILD_FOLDER):
            fs.delete_folder(entry.path)


def _digest(plan: BuildPlan, state: TableState) -> str:
    """A digest of everything that determines the content of the buckets."""
    last = state.timeline.where(None, State.COMPLETED).last
    facts = [plan.hash.facts, last.time if last else "", *(t.name for t in plan.tasks)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """One bucket to build.  fs: rooted at the metadata table.  built: its earlier file."""

    fs: FileSystem
    folder: str
    number: int
    runs: tuple[KeyRun, ...]
    groups: tuple[FileGroupId, ...]
    epoch_millis: int
    built: str | None


@dataclass(frozen=True, slots=True)
class BucketFile:
    """A bucket's staged base file."""

    number: int
    file: StoredFile
    entries: int


def build_index_bucket(task: BucketTask) -> BucketFile:
    """Write one bucket in key order.  May run twice; all its files are equal."""
    if task.built is not None:
        reader = HFileReader(task.fs.open(task.built))
        file = StoredFile(task.built, task.fs.size(task.built))
        return BucketFile(task.number, file, reader.entry_count)
    keys = BucketKeys(task.runs, task.number)
    name = BaseFileName(f"{task.number:05d}", new_write_token(), InstantTime("0"), HFILE)
    chunks = _rows(keys, task)
    size, entries = write_base_in_chunks(task.fs, task.folder, name, chunks, entries_max=keys.left)
    return BucketFile(task.number, StoredFile(join(task.folder, str(name)), size), entries)


def _rows(keys: BucketKeys, task: BucketTask) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Sorted, distinct keys and their values, a chunk at a time; the last of equal keys wins."""
    partitions = pa.array([group.partition for group in task.groups], pa.string())
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    for key, home in keys.chunks(_ROWS):
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
    report: ReportProgress,
) -> None:
    """Verify the new files against the keys.  Raises CorruptFileError, before anything changes."""
    store = DurableStaging(state.fs, f"{TEMP}/{BUILD_FOLDER}-faults")
    tasks = [
        CheckTask(
            state.fs,
            IndexBucket(
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
    for check in in_waves(engine, check_bucket, tasks, "check", report):
        if check.counts:
            raise CorruptFileError(
                "a bucket of the new index differs from the table",
                bucket=check.bucket,
                faults=dict(check.counts),
                hint="rebuild again; the old index is unchanged",
            )


@dataclass(frozen=True, slots=True)
class _Move:
    fs: FileSystem
    groups: MetadataPartition
    file: BucketFile
    time: InstantTime


def _moved(task: _Move) -> WriteStat:
    """Copy a bucket's file into its place."""
    number, file = task.file.number, task.file.file
    token = new_write_token(number)
    name = BaseFileName(task.groups.file_id(number), token, task.time, HFILE)
    copy_built(task.fs, file, join(RECORD_INDEX.path, str(name)))
    return first_stat(
        task.groups, number, name, entries=task.file.entries, size_bytes=file.size_bytes
    )


def copy_built(fs: FileSystem, file: StoredFile, path: str) -> None:
    source = fs.open(file.path)
    with fs.open_sink(path) as sink:
        for start in range(0, file.size_bytes, _COPY_BYTES):
            sink.write(source.read_at(start, min(_COPY_BYTES, file.size_bytes - start)))
    source.close()


def in_waves(
    engine: Engine,
    task: Callable[[_T], _R],
    items: Sequence[_T],
    phase: str,
    report: ReportProgress,
) -> list[_R]:
    """`engine.run` in waves of tasks, with a progress report after each."""
    began, step = time.monotonic(), _WAVES * engine.parallelism
    found: list[_R] = []
    for start in range(0, len(items), step):
        found += engine.run(task, items[start : start + step], label=phase)
        report(Progress(phase, len(found), len(items), time.monotonic() - began))
    return found
