"""Cleanup of files that writers create after their instant was rolled back.

```
rollback of X         .hoodie/.temp/<X>/MARKERS0: files of X with markers that did not exist yet
next writers          delete those files, and others with markers created since, when they appear
an hour later         the markers are removed; readers ignore files that appear later
```

A file is deleted only if its instant is known to be rolled back, and a log file only if all of its
blocks are of that instant and the metadata table does not list it.  The caller holds the
table's lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import TEMP, BaseFileName, LogFileName, parse_data_file
from pyhudi.formats.log_file import read_blocks
from pyhudi.metadata.reader import open_metadata
from pyhudi.records import InstantTime
from pyhudi.recovery.rollback_plan import RolledBack
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.path_remap import files_below
from pyhudi.table.file_group_view import Visibility
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.markers import Marker, announce_together, list_markers, remove_markers

LINGERS_SECONDS: Final = 3600.0
"""How long the markers of a rolled-back writer are used to find its files."""
_WRITES: Final = frozenset({"commit", "deltacommit", "replacecommit"})


def note_rollbacks(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> None:
    """Record the instants undone by completed rollbacks, including those of other writers, before
    archival can remove the rollbacks.

    Cost: none if all are recorded; else a small read for each that is not, and a read of the
    archive if one of them undid an instant older than the timeline.
    """
    rollbacks = timeline.where({Action.ROLLBACK}, State.COMPLETED)
    fresh = [i for i in rollbacks if i.time not in timeline.rolled_back]
    if not fresh:
        return
    gone = {undone for i in fresh for undone in _undone_by(log, i)} - timeline.times
    start = Visibility.of(timeline).start
    if any(start is not None and undone < start for undone in gone):
        archive = Archive(fs, layout=config.layout, folder=config.archive_folder)
        gone -= archive.timeline.commits.times  # a service that was run again
    log.remember_rolled_back({i.time for i in fresh} | gone)


def _undone_by(log: TimelineLog, instant: Instant) -> Iterator[InstantTime]:
    """The writes that a completed rollback undid; none if it cannot be read."""
    try:
        record = log.record(instant)
    except CorruptFileError:  # the doctor reports it
        return
    for each in record.get("instantsRollback") or ():
        if each.get("action") in _WRITES:
            yield InstantTime(each["commitTime"])


def leave_markers_of_unseen(fs: FileSystem, done: RolledBack) -> None:
    """Replace a rolled-back write's markers by those of files that did not exist yet: a task that
    outlived its write may still write them."""
    seen = {*done.deleted, *done.failed_logs}
    logs = {
        (path.rpartition("/")[0], name.file_id, name.instant, name.write_token)
        for path in seen
        if isinstance(name := parse_data_file(path.rpartition("/")[2]), LogFileName)
    }
    unseen = [
        marker
        for marker in list_markers(fs, done.failed.time)
        if marker.path not in seen
        and (marker.partition, marker.file.file_id, marker.file.instant, marker.file.write_token)
        not in logs
    ]
    remove_markers(fs, done.failed.time)
    if unseen:
        announce_together(fs, done.failed.time, unseen)


def sweep_markers(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    marked: Iterable[InstantTime],
    timeline: Timeline,
) -> list[str]:
    """Delete files that writers created after they were rolled back, and markers no longer needed;
    returns the paths of the files.

    marked: instants with markers.  Instants newer than the whole timeline are skipped, because
    they may have begun since.
    """
    pending, last = timeline.pending.times, timeline.last
    deleted: list[str] = []
    for instant in marked:
        if last is None or instant > last.time or instant in pending:
            continue
        if instant in timeline.rolled_back:
            markers = list_markers(fs, instant)
            appeared = _appeared(fs, config, log, timeline, instant, markers)
            fs.delete(appeared)
            deleted += appeared
            if _is_watched(fs, instant):
                continue
        remove_markers(fs, instant)
    return deleted


def _appeared(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    instant: InstantTime,
    markers: list[Marker],
) -> list[str]:
    """Existing files of a rolled-back instant, in the partitions of its markers."""
    announced = {(m.partition, m.file.file_id, m.file.instant) for m in markers}
    bases: list[str] = []
    logs: dict[str, list[FileInfo]] = {}
    for partition in sorted({marker.partition for marker in markers}):
        for info in fs.children(partition):
            name = parse_data_file(info.name)
            if name is None or (partition, name.file_id, name.instant) not in announced:
                continue
            if isinstance(name, BaseFileName):
                bases += [info.path] if name.instant == instant else []
            elif _is_all_of(fs, info.path, instant):
                logs.setdefault(partition, []).append(info)
    if logs:
        metadata = open_metadata(fs, config, log, timeline)
        listed = metadata.listing().files(list(logs)) if metadata is not None else {}
        known = {info.path for infos in listed.values() for info in infos}
        bases += [i.path for infos in logs.values() for i in infos if i.path not in known]
    return bases


def _is_all_of(fs: FileSystem, path: str, instant: InstantTime) -> bool:
    """Whether a log contains only blocks of the instant."""
    try:
        with closing(fs.open(path)) as file:
            blocks = read_blocks(file, path=path)
    except (CorruptFileError, FileMissingError):
        return False
    return bool(blocks) and all(b.instant == instant and not b.is_rollback for b in blocks)


def _is_watched(fs: FileSystem, instant: InstantTime) -> bool:
    """Whether a rolled-back instant is still watched for files: its markers were written within
    the last `LINGERS_SECONDS`."""
    times = [info.modified for info in files_below(fs, f"{TEMP}/{instant}")]
    now = time.time()
    return any(at is not None and now - at < LINGERS_SECONDS for at in times)
