"""Copies of a table: a snapshot with its timeline, at another place.

```
1  lock the source: pin the snapshot, read its timeline and archive; unlock
2  DST/.hoodie/.pyhudi.copy     the source and the snapshot: a copy is under way
3  the data files of the snapshot, and the metafiles of its partitions
4  the timeline up to the snapshot, then a clean of the files that are not copied
5  the properties: from now on there is a table
6  the metadata table, built from the copied files
7  delete .pyhudi.copy, and release the pin
```

The clean tells readers of the copy which older snapshots it lacks.  Savepoints and pending writes
are not copied; pending compactions are, as plans, because the file names of version 6 depend on
them.  A run that was stopped is continued by the next one with the same source: files of the right
size are not copied again, everything else is written again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError, FileMissingError, UnsupportedTableError, UserError
from pyhudi.filenames import (
    HOODIE,
    PARTITION_METAFILE,
    PROPERTIES,
    PROPERTIES_COPY,
    SCHEMA_FOLDER,
    parse_data_file,
)
from pyhudi.formats.log_file import read_blocks
from pyhudi.health.doctor import examine
from pyhudi.health.metadata_rebuild import rebuild_metadata
from pyhudi.index.selection import stored_index
from pyhudi.markup import plural
from pyhudi.options import IndexKind, Options
from pyhudi.planning.cleaning import result_record
from pyhudi.read.positions import SnapshotInstant, moment_at, pending_of
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import InstantTime
from pyhudi.reports import Report
from pyhudi.services.snapshot_pins import place_pin
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.path_remap import files_below
from pyhudi.table.file_group_view import DataFile, FileSlice, Visibility
from pyhudi.table.log import create_timeline_folder, timeline_log
from pyhudi.table.properties import load_config
from pyhudi.table.timeline_facts import check_not_bootstrapped
from pyhudi.timeline.instant import COMMITS, Action, Instant, State, file_name
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.service_payloads import CLEAN_METADATA, write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import table_lock

STATE: Final = ".hoodie/.pyhudi.copy"
_CHUNK: Final = 8 << 20
_FOLDERS: Final = (f"{HOODIE}/.index_defs", f"{HOODIE}/.bucket_index", SCHEMA_FOLDER)
"""Folders of facts about the table that are neither data, timeline nor metadata table."""
_PLANNED: Final = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})
_INSTANT_FILE: Final = re.compile(r"([0-9]{14,20})[._].*")
_EXTERNAL: Final = (IndexKind.ROCKSDB, IndexKind.HBASE, IndexKind.ELASTIC)
"""Indexes whose entries are not in the metadata table."""


@dataclass(frozen=True, slots=True)
class CopyReport(Report):
    """What a copy did, or (dry_run) would do.

    snapshot: the newest commit of the copy.  files, bytes: of its data; copied: files that this run
    wrote, the others were there from a run that was stopped.  instants: of its timeline.
    """

    source: str
    target: str
    snapshot: str
    files: int = 0
    bytes: int = 0
    copied: int = 0
    instants: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """A file to copy: its first `size` bytes."""

    source: FileSystem
    target: FileSystem
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class _Source:
    """What is copied.

    small: contents of the timeline, the archive and the properties by path.  times: modification
    times of timeline files.  others: files of commits that the snapshot does not have, by
    partition.
    """

    fs: FileSystem
    state: TableState
    snapshot: SnapshotInstant
    slices: tuple[FileSlice, ...]
    instants: Timeline
    visibility: Visibility
    small: Mapping[str, bytes]
    times: Mapping[str, float]
    others: Mapping[str, tuple[str, ...]]
    saved: int


def copy_table(
    source: FileSystem,
    target: FileSystem,
    options: Options,
    engine: Engine,
    *,
    as_of: PointInTime | None = None,
    dry_run: bool = False,
) -> CopyReport:
    """Copy the snapshot of a table, or continue a copy that was stopped.

    Writers of the source go on: its lock is held while the timeline is read, and its snapshot is
    pinned until the end.  The copy is examined as `doctor` does.
    Raises UserError if the target has a table or files of others, or a copy of another source or
    snapshot; UnsupportedTableError, SnapshotExpiredError; CorruptFileError if the copy has errors.
    """
    _check_places(source, target)
    begun = _begun(source, target, as_of)
    with table_lock(source, options.write, "copy"):
        state = load_state(source, options.read, for_reading=True)
        _check(state)
        pin = place_pin(state, as_of if begun is None else begun, options.write)
        try:
            found = _read_source(state, pin.instant)
        except BaseException:
            pin.release()
            raise
    with pin:
        return _copied(found, target, options, engine, as_of=as_of, dry_run=dry_run)


def _check_places(source: FileSystem, target: FileSystem) -> None:
    """Engines that walk the folders of a table would list the partitions of one inside it too."""
    if target.url.startswith(f"{source.url.rstrip('/')}/"):
        raise UserError(
            "the folder of the copy is inside the table",
            path=source.url,
            target=target.url,
            hint="choose a path outside the table",
        )


def _begun(
    source: FileSystem, target: FileSystem, as_of: PointInTime | None
) -> SnapshotInstant | None:
    """The snapshot of the copy that was stopped at the target; None if the target is empty."""
    if not target.exists(STATE):
        if any(not info.name.startswith(".pyhudi") for info in _entries(target)):
            raise UserError(
                "the folder of the copy holds other files",
                path=target.url,
                hint="choose another path",
            )
        return None
    facts = json.loads(target.read(STATE))
    if facts["source"] != source.url or (as_of is not None and str(as_of) != facts["as_of"]):
        raise UserError(
            "a copy of another table or snapshot was begun here",
            path=target.url,
            source=facts["source"],
            as_of=facts["as_of"],
            hint="continue it with the same arguments, or delete the folder",
        )
    return SnapshotInstant(facts["snapshot"], pending_of(facts))


def _entries(target: FileSystem) -> Iterator[Any]:
    for info in target.children():
        if info.name == HOODIE:
            yield from target.children(HOODIE)
        else:
            yield info


def _check(state: TableState) -> None:
    check_not_bootstrapped(state.config)
    kind = stored_index(state.config)
    if kind in _EXTERNAL:
        raise UnsupportedTableError(
            "tables with this index are not copied",
            path=state.fs.url,
            index=kind.value,
            hint="create a table and write the rows to it",
        )
    if not state.timeline.commits:
        raise UserError("the table has no commit to copy", path=state.fs.url)


def _read_source(state: TableState, snapshot: SnapshotInstant) -> _Source:
    """The caller holds the lock of the source."""
    moment, limit = moment_at(state, snapshot)
    view = moment.view(limit=limit)
    seen = _instants(moment.timeline, limit)
    planned = Timeline(tuple(i for i in moment.timeline.pending if i.action in _PLANNED))
    saved = state.timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    _check_archive(state, seen)
    folder = state.log.layout.timeline_folder
    listed = [info for info in state.fs.children(folder) if not info.is_folder]
    in_root = listed if folder == HOODIE else state.fs.children(HOODIE)
    small = dict(_timeline_files(state, seen, planned, [info.name for info in listed]))
    for other in (_archive_folder(state), *_FOLDERS):
        small |= {info.path: state.fs.read(info.path) for info in files_below(state.fs, other)}
    for info in in_root:
        if not info.is_folder and info.name.startswith(".pyhudi.rolled_back."):
            small[info.path] = state.fs.read(info.path)
    for path in (PROPERTIES, PROPERTIES_COPY):
        if state.fs.exists(path):
            small[path] = state.fs.read(path)
    slices = tuple(view.latest_slices())
    times = {info.path: info.modified for info in listed if info.modified}
    others = _others(state, seen, slices)
    return _Source(
        state.fs, state, snapshot, slices, seen, view.visibility, small, times, others, len(saved)
    )


def _others(
    state: TableState, seen: Timeline, slices: tuple[FileSlice, ...]
) -> dict[str, tuple[str, ...]]:
    """Names by partition of the files of commits that are not part of the snapshot."""
    copied = {file.path for one in slices for file in (*one.files, *one.cdc_logs)}
    found: dict[str, dict[str, None]] = {}
    for instant in seen.commits:
        for stat in state.log.commit(instant).stats:
            if stat.path not in copied and parse_data_file(stat.file_name) is not None:
                found.setdefault(stat.partition, {})[stat.file_name] = None
    return {partition: tuple(names) for partition, names in found.items()}


def _instants(timeline: Timeline, limit: InstantTime | None) -> Timeline:
    """The completed instants of the copy: those up to the snapshot, without savepoints."""
    return Timeline(
        tuple(
            i
            for i in timeline
            if i.is_completed
            and i.action is not Action.SAVEPOINT
            and (limit is None or i.time <= limit or i.action not in COMMITS)
        )
    )


def _check_archive(state: TableState, seen: Timeline) -> None:
    newest = seen.commits.last
    archived = state.archive.commit_instants
    if newest is None or (archived and max(i.time for i in archived) > newest.time):
        raise UserError(
            "later commits than the snapshot are archived",
            path=state.fs.url,
            hint="copy a later snapshot",
        )


def _archive_folder(state: TableState) -> str:
    history = f"{state.log.layout.timeline_folder}/history"
    return history if state.log.layout.has_completion_times else state.config.archive_folder


def _timeline_files(
    state: TableState, seen: Timeline, planned: Timeline, names: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Files of completed instants, in order of their completion, and plans of pending ones.

    names: of the files in the timeline's folder.
    """
    folder = state.log.layout.timeline_folder
    order = sorted(seen, key=lambda i: (i.completion, i.time))
    plans = {file_name(replace(i, state=State.REQUESTED)) for i in planned}
    for instant in order:
        mine = [n for n in names if (m := _INSTANT_FILE.fullmatch(n)) and m[1] == instant.time]
        for name in sorted(mine, key=lambda n: n == file_name(instant)):
            yield f"{folder}/{name}", state.fs.read(f"{folder}/{name}")
    for name in sorted(plans & set(names)):
        yield f"{folder}/{name}", state.fs.read(f"{folder}/{name}")


def _copied(
    found: _Source,
    target: FileSystem,
    options: Options,
    engine: Engine,
    *,
    as_of: PointInTime | None,
    dry_run: bool,
) -> CopyReport:
    parts = list(_parts(found, target))
    report = CopyReport(
        found.fs.url,
        target.url,
        str(found.snapshot),
        len(parts),
        sum(p.size for p in parts),
        instants=len(found.instants),
        dry_run=dry_run,
        notes=tuple(_notes(found, target)),
    )
    if dry_run:
        return report
    facts = {
        "source": found.fs.url, "snapshot": str(found.snapshot),
        "as_of": None if as_of is None else str(as_of),
        "pending": [file_name(i) for i in found.snapshot.pending],
    }  # fmt: skip
    target.create(STATE, json.dumps(facts).encode())
    _check_unwritten(found, target)
    copied = sum(engine.run(_copy, parts, label="copy"))
    _write_timeline(found, target)
    for path in (PROPERTIES_COPY, PROPERTIES):
        if path in found.small:
            target.replace(path, found.small[path])
    _finish(target, options, engine)
    return replace(report, copied=copied)


def _notes(found: _Source, target: FileSystem) -> Iterator[str]:
    if found.saved:
        yield f"{plural(found.saved, 'savepoint')} not copied"
    times_matter = not found.state.log.layout.has_completion_times
    if times_matter and not isinstance(target, LocalFileSystem):
        yield (
            "Apache Hudi 1.x reads completion times of version 6 from modification times, which "
            "this store sets itself: upgrade the copy before 1.x reads it"
        )


def _parts(found: _Source, target: FileSystem) -> Iterator[_Part]:
    """Data files and metafiles of the snapshot."""
    shared = found.state.log.layout.logs_are_shared
    for one in found.slices:
        for file in (*one.files, *one.cdc_logs):
            size = file.size_bytes
            if shared and file in one.logs:
                size = _log_end(found, file)
                if size == 0:  # all its blocks are later; readers list files, also empty ones
                    continue
            yield _Part(found.fs, target, file.path, size)
    for partition in sorted({one.partition for one in found.slices}):
        for info in found.fs.children(partition):
            if info.name.startswith(PARTITION_METAFILE):
                yield _Part(found.fs, target, info.path, info.size_bytes)


def _log_end(found: _Source, file: DataFile) -> int:
    """Where the blocks of a shared log end that belong to the snapshot.  Those of writes that were
    rolled back belong to it: the copy knows that they were.

    Raises UserError if blocks of a write that is not part of it precede others.
    """
    opened = found.fs.open(file.path)
    try:
        blocks = [b for b in read_blocks(opened, path=file.path) if b.offset < file.size_bytes]
    finally:
        opened.close()
    known = found.instants.times | found.state.timeline.rolled_back
    foreign = [
        b.instant is not None
        and b.instant not in known
        and not found.visibility.sees(InstantTime(b.instant))
        for b in blocks
    ]
    if True not in foreign:
        return file.size_bytes
    first = foreign.index(True)
    if not all(foreign[first:]):
        raise UserError(
            "a log has rows of a write that is not completed between others",
            path=file.path,
            hint="run table.services.run(), which rolls it back, then compact and copy again",
        )
    return blocks[first].offset


def _copy(part: _Part) -> int:
    """Copy a file unless it is there; 1 if it was copied.  Raises StorageError."""
    try:
        if part.target.size(part.path) == part.size:
            return 0
        part.target.delete([part.path])
    except FileMissingError:
        pass
    opened = part.source.open(part.path)
    try:
        with part.target.open_sink(part.path) as sink:
            for offset in range(0, part.size, _CHUNK):
                sink.write(opened.read_at(offset, min(_CHUNK, part.size - offset)))
    finally:
        opened.close()
    return 1


def _check_unwritten(found: _Source, target: FileSystem) -> None:
    """Raise UserError if a writer has used the copy that is continued."""
    if not target.exists(PROPERTIES):
        return
    known = found.instants.times | {i.time for i in found.state.timeline}
    timeline = timeline_log(target, load_config(target)).load()
    others = [i for i in timeline.commits if i.time not in known]
    if others:
        raise UserError(
            "the copy was written to before it was complete",
            path=target.url,
            instant=others[0].time,
            hint="delete the folder and copy again",
        )


def _write_timeline(found: _Source, target: FileSystem) -> None:
    """The timeline and what belongs to it, and a clean of the files that are not copied."""
    layout = found.state.log.layout
    folders = (layout.timeline_folder, _archive_folder(found.state), *_FOLDERS)
    for folder in folders:
        listed = target.children(folder) if folder == HOODIE else files_below(target, folder)
        target.delete(i.path for i in listed if not i.is_folder and _is_small(i.path))
    target.delete([p for p in (PROPERTIES, PROPERTIES_COPY) if target.exists(p)])
    create_timeline_folder(target, layout)
    for path, content in found.small.items():
        if path not in (PROPERTIES, PROPERTIES_COPY):
            target.create(path, content)
    _clean_others(found, target)
    if not layout.has_completion_times and isinstance(target, LocalFileSystem):
        _restore_times(found, target)


def _restore_times(found: _Source, target: LocalFileSystem) -> None:
    """The modification times of the source's timeline: Apache Hudi 1.x reads those of version 6 as
    completion times."""
    for path, modified in found.times.items():
        if path in found.small and _INSTANT_FILE.fullmatch(path.rpartition("/")[2]):
            os.utime(Path(target.url, path), (modified, modified))


def _is_small(path: str) -> bool:
    """Whether a file below `.hoodie` is written again by each run."""
    name = path.rpartition("/")[2]
    return path != STATE and not name.startswith((".pyhudi.lock", "hoodie.properties"))


def _clean_others(found: _Source, target: FileSystem) -> None:
    """Record that the files of commits which are not copied are gone."""
    if not found.others:
        return
    newest = found.instants.commits.last
    assert newest is not None
    plan = CleanPlan(
        files=found.others,
        retained_from=Instant(newest.time, newest.action, State.COMPLETED),
        newest=newest.time,
    )
    own = timeline_log(target, found.state.config)  # the copy has no properties yet
    content = plan.to_avro(root=target.url.removeprefix("file://"))
    requested = own.request(Action.CLEAN, content)
    inflight = own.start(requested, content)
    result = result_record(plan, started=requested.time, took_millis=0, deleted=plan.files)
    own.complete(inflight, write_avro(CLEAN_METADATA, result))


def _finish(target: FileSystem, options: Options, engine: Engine) -> None:
    """Build the metadata table, examine the copy, and end the state of being copied."""
    if load_config(target).metadata_partitions:
        with table_lock(target, options.write, "copy"):
            rebuild_metadata(target, options, engine)
    found = examine(target, quick=True, engine=engine)
    if found.problems:
        raise CorruptFileError(
            "the copy has problems",
            path=target.url,
            problems=str(found.problems[0]),
            hint="run the command again; if it stays, run doctor on the source",
        )
    target.delete([STATE])
