"""Plans and results of rollbacks: the files of a failed write, and what happens to them.

The rollback of a failed write X deletes the files that only X wrote, and appends a command block
to each slice to which X only appended log files, because its logs may contain blocks of other
writes.  `build_rollback_plan` derives both from the files found on the store; the plan is stored in
`R.rollback.requested`, from where any later writer can run it.

Markers name the partitions and slices to search; a completed commit's metadata lists its files
exactly; a pending write without markers is searched for in all partitions.  Only the framing of
logs is read.  Source: table_format 4 (HoodieRollbackPlan), 5.1, 6.1, 7.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import DataFileName, LogFileName, join, parse_data_file
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import StoreListing
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.compaction import CompactionPlan
from pyhudi.timeline.plans.rollback import KEEPS_REQUEST, Removal, RollbackPlan
from pyhudi.transaction.markers import Marker, MarkerKind, list_markers


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file on the store.  has_blocks: a log that contains blocks of the failed write."""

    partition: str
    name: DataFileName
    size_bytes: int
    has_blocks: bool = False


def build_rollback_plan(failed: Instant, found: Iterable[FoundFile]) -> RollbackPlan:
    """The plan for undoing `failed`, given the files that may belong to it.  Pure.

    Files at its instant are deleted, except the logs of rows that later writes added to the slice
    of a failed compaction.  A slice with a log that contains its blocks gets one command block.
    """
    deletable: dict[FileGroupId, list[str]] = {}
    undone: dict[tuple[FileGroupId, InstantTime], dict[str, int]] = {}
    for file in found:
        group = FileGroupId(file.partition, file.name.file_id)
        is_log = isinstance(file.name, LogFileName) and not file.name.is_cdc
        if file.name.instant == failed.time:
            if not (is_log and failed.action is Action.COMPACTION):
                deletable.setdefault(group, []).append(join(file.partition, str(file.name)))
        elif is_log and file.has_blocks:
            logs = undone.setdefault((group, file.name.instant), {})
            logs[str(file.name)] = file.size_bytes
    deletions = [
        Removal(g, failed.time, tuple(sorted(set(paths)))) for g, paths in deletable.items()
    ]
    commands = [
        Removal(group, base_instant, (), dict(sorted(logs.items())))
        for (group, base_instant), logs in undone.items()
    ]
    removals = sorted([*deletions, *commands], key=lambda r: (r.group, r.base_instant))
    return RollbackPlan(failed.time, failed.action, tuple(removals), failed.action in KEEPS_REQUEST)


def files_of_pending(
    fs: FileSystem, log: TimelineLog, failed: Instant, *, by_markers: bool = True
) -> Iterator[FoundFile]:
    """Files that may belong to a pending write: by its markers, or by a full listing if it has
    none or they must not be used (by_markers False); or those of a planned compaction."""
    if failed.action is Action.COMPACTION:
        return _files_of_compaction(fs, log, failed)
    markers = list_markers(fs, failed.time) if by_markers else []
    if markers:
        return _files_by_markers(fs, log, failed, markers)
    if failed.state is State.REQUESTED:  # data files are written after the inflight file
        return iter(())
    try:
        profile = log.commit(failed)
    except CorruptFileError:  # a partial file of a writer without atomic creation
        profile = CommitMetadata()
    return _files_by_listing(fs, log, failed, profile)


def _files_by_markers(
    fs: FileSystem, log: TimelineLog, failed: Instant, markers: Iterable[Marker]
) -> Iterator[FoundFile]:
    markers = list(markers)
    appended = {(m.group, m.base_instant) for m in markers if m.kind is MarkerKind.APPEND}

    def is_suspect(group: FileGroupId, base_instant: InstantTime) -> bool:
        return (group, base_instant) in appended

    partitions = sorted({marker.partition for marker in markers})
    for partition in partitions:
        yield from _files_in(fs, failed, partition, is_suspect)


def _files_by_listing(
    fs: FileSystem, log: TimelineLog, failed: Instant, profile: CommitMetadata
) -> Iterator[FoundFile]:
    """Files by listing every partition.  Opens logs of groups with updates in the profile, and of
    partitions for which it has inserts only: an index that finds rows in logs inserts into
    existing groups, which no profile lists.  Opens all logs if the profile is empty.
    """
    named = {group for group in profile.groups if group.file_id}
    inserts = {stat.partition for stat in profile.stats if not stat.file_id}
    shares = failed.action is Action.DELTA_COMMIT and log.layout.logs_are_shared

    def is_suspect(group: FileGroupId, base_instant: InstantTime) -> bool:
        return shares and (not (named or inserts) or group in named or group.partition in inserts)

    for partition in StoreListing(fs).partitions():
        yield from _files_in(fs, failed, partition, is_suspect)


def _files_in(
    fs: FileSystem,
    failed: Instant,
    partition: str,
    is_suspect: Callable[[FileGroupId, InstantTime], bool],
) -> Iterator[FoundFile]:
    """Files of a partition at the failed instant, and suspect logs that contain its blocks."""
    for info in fs.children(partition):
        name = parse_data_file(info.name)
        if name is None or info.is_folder:
            continue
        if name.instant == failed.time:
            yield FoundFile(partition, name, info.size_bytes)
        elif (
            isinstance(name, LogFileName)
            and is_suspect(FileGroupId(partition, name.file_id), name.instant)
            and _has_blocks(fs, info.path, failed.time)
        ):
            yield FoundFile(partition, name, info.size_bytes, has_blocks=True)


def _has_blocks(fs: FileSystem, path: str, instant: InstantTime) -> bool:
    """Whether a log contains a block of the instant, or only blocks of unknown instant."""
    with closing(fs.open(path)) as file:
        try:
            blocks = read_blocks(file, path=path)
        except CorruptFileError:
            return True
    return any(b.instant == instant for b in blocks) or all(
        b.kind is BlockKind.CORRUPT for b in blocks
    )


def _files_of_compaction(fs: FileSystem, log: TimelineLog, pending: Instant) -> Iterator[FoundFile]:
    """Files at a planned compaction's instant, in its groups.  `build_rollback_plan` distinguishes
    its base files from the logs that later writes added to its slices."""
    groups = frozenset(log.plan(pending, CompactionPlan.from_record).groups)
    for partition in sorted({group.partition for group in groups}):
        for found in _files_in(fs, pending, partition, lambda *_: False):
            if FileGroupId(partition, found.name.file_id) in groups:
                yield found


def files_of_completed(
    fs: FileSystem, written: CommitMetadata, done: Instant, *, has_logs: bool
) -> Iterator[FoundFile]:
    """A completed commit's files, as listed in its metadata.

    has_logs: for a merge-on-read table.  Then also logs on top of its base files, left by later
    writes that were rolled back: without their base file they could later hide the previous slice.
    Cost in that case: a listing of each partition it wrote to.
    """
    groups = written.groups
    for stat in written.stats:
        for path in (stat.path, *(stat.cdc_sizes or {})):
            name = parse_data_file(path.rpartition("/")[2])
            if name is not None:
                size_bytes = fs.size(path) if fs.exists(path) else stat.size_bytes
                yield FoundFile(stat.partition, name, size_bytes, isinstance(name, LogFileName))
    if has_logs:
        for partition in sorted({group.partition for group in groups}):
            for found in _files_in(fs, done, partition, lambda *_: False):
                if FileGroupId(partition, found.name.file_id) in groups:
                    yield found


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A completed rollback.  Paths from the table's root, sizes in bytes.

    command_blocks: log files written to undo blocks.  failed_logs: log files that contain the
    undone blocks; they stay.
    """

    failed: Instant
    at: InstantTime
    deleted: tuple[str, ...] = ()
    command_blocks: Mapping[str, int] = field(default_factory=dict)
    failed_logs: Mapping[str, int] = field(default_factory=dict)

    def log_files(self) -> dict[str, dict[str, int]]:
        """Partition -> log name -> size: the log files that the metadata table must list."""
        by_partition: dict[str, dict[str, int]] = {}
        for path, size in (*self.failed_logs.items(), *self.command_blocks.items()):
            partition, _, name = path.rpartition("/")
            by_partition.setdefault(partition, {})[name] = size
        return by_partition


def to_metadata(done: RolledBack, *, root: str, took_millis: int) -> dict[str, Any]:
    """The Avro record of a completed rollback."""
    partitions: dict[str, dict[str, Any]] = {}

    def entry(path: str) -> dict[str, Any]:
        partition = path.rpartition("/")[0]
        empty: dict[str, Any] = {
            "partitionPath": partition,
            "successDeleteFiles": [],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        return partitions.setdefault(partition, empty)

    scheme = "" if "://" in root else "file:"
    for path in done.deleted:
        entry(path)["successDeleteFiles"].append(f"{root}/{path}")
    for path, size in done.command_blocks.items():
        entry(path)["rollbackLogFiles"][f"{scheme}{root}/{path}"] = size
    for path, size in done.failed_logs.items():
        entry(path)["logFilesFromFailedCommit"][path.rpartition("/")[2]] = size
    return {
        "startRollbackTime": done.at,
        "timeTakenInMillis": took_millis,
        "totalFilesDeleted": len(done.deleted),
        "commitsRollback": [done.failed.time],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": done.failed.time, "action": done.failed.action.value}],
    }
