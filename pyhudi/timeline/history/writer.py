"""Writing of the archived timeline of layout 2: runs, merges of levels, and old versions.

```
run      <first>_<last>_0.parquet -> manifest_N+1 -> _version_ -> active timeline's files deleted
merge    <min>_<max>_<level+1>.parquet -> manifest_N+2 -> _version_
clean    manifests of old versions deleted -> files that no manifest names deleted
```

A process may stop at any point.  Instants are on the active timeline, in a live file, or both; a
file that no manifest names is replaced or deleted by a later run.  The caller holds the table's
lock.  Source: writer_v8_v9 10.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import TEMP, join
from pyhudi.options import ServiceOptions
from pyhudi.records import InstantTime, is_before_all
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.timeline.commit_avro import to_avro
from pyhudi.timeline.history.manifest import (
    LEVEL_MAX,
    HistoryFile,
    Manifest,
    delete_manifests,
    history_file_name,
    is_history_file,
    load_manifest,
    manifest_numbers,
    publish_manifest,
    read_manifest,
)
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.history.rows import ROW_VERSION, ROWS, concatenated_rows, write_history_file
from pyhudi.timeline.instant import COMMITS, COMPLETES_AS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import is_avro, read_commit
from pyhudi.timeline.state_files import remove_archived, state_files
from pyhudi.timeline.timeline import Timeline

_PLANNED: Final = frozenset({Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION})
_REPLACING: Final = frozenset({Action.REPLACE_COMMIT, Action.CLUSTERING})

_StateFiles = list[tuple[FileInfo, Instant]]


class HistoryFiles:
    """The history folder of one timeline."""

    def __init__(self, log: TimelineLog, folder: str) -> None:
        self._log = log
        self.fs: FileSystem = log.fs
        self._folder = folder

    def recorded(self, done: Timeline) -> frozenset[tuple[InstantTime, Action]]:
        """Those of these completed instants that are archived.  Cost: the files that may hold one.

        An archived instant of the same time that was completed at another moment is another: the
        instants that create partitions of a metadata table are numbered again by Apache Hudi.
        """
        if done.first is None:
            return frozenset()
        found = TimelineHistory(self.fs, self._folder).instants(done.first.time)
        there = {(i.time, i.action, i.completion) for i in found}
        return frozenset(
            (i.time, i.action) for i in done if (i.time, i.action, i.completion) in there
        )

    def append(self, instants: Iterable[Instant], *, batch: int) -> str:
        """Write completed instants, none of which is archived, as a file of level 0 and publish
        it; returns its path.

        Cost: one listing of the timeline, and each recorded file of the instants read once.
        Memory: the content of `batch` instants.  Raises LockError before any change if the table's
        lock was lost; FileMissingError for an instant that is not on the timeline.
        """
        rows = sorted(instants)
        name = history_file_name(rows[0].time, rows[-1].time, 0)
        now = load_manifest(self.fs, self._folder)
        check_lock(self.fs)  # a file of this name may be another process's by now
        _check_free(now, name, self._folder)
        made = write_history_file(self.fs, self._folder, name, self._tables(rows, batch))
        publish_manifest(self.fs, self._folder, now, (*now.files, made))
        return join(self._folder, name)

    def _tables(self, instants: Iterable[Instant], batch: int) -> Iterator[pa.Table]:
        files = state_files(self._log)
        waiting = iter(instants)
        while several := list(islice(waiting, batch)):
            records = [
                self._row(i, files.get((i.time, COMPLETES_AS[i.action]), [])) for i in several
            ]
            yield pa.Table.from_pylist(records, ROWS)

    def _row(self, instant: Instant, files: _StateFiles) -> dict[str, object]:
        done = next((info for info, state in files if state.is_completed), None)
        if done is None:
            raise FileMissingError(
                "an instant to be archived is no longer on the timeline",
                path=self._log.path(instant),
            )
        return {
            "instantTime": instant.time,
            "completionTime": instant.completion,
            "action": COMPLETES_AS[instant.action].value,
            "metadata": self._metadata(instant, done.path) or None,
            "plan": self._plan(files) or None,
            "version": ROW_VERSION,
        }

    def _metadata(self, instant: Instant, path: str) -> bytes:
        """The completed file; as Avro if it is a commit that an older layout left as JSON."""
        content = self.fs.read(path)
        if not content or instant.action not in COMMITS or is_avro(content):
            return content
        return to_avro(read_commit(content, path=path))

    def _plan(self, files: _StateFiles) -> bytes:
        """The plan of a service or the inflight metadata of a replacecommit, empty if neither."""
        at = {state.state: (info, state.action) for info, state in files if not state.is_completed}
        actions = {action for _, action in at.values()}
        selected = []
        if actions & _REPLACING:
            selected = [State.INFLIGHT, State.REQUESTED]
        elif actions & _PLANNED:
            selected = [State.REQUESTED]
        contents = (self.fs.read(at[state][0].path) for state in selected if state in at)
        return next(filter(None, contents), b"")

    def remove(self, instants: Collection[Instant]) -> None:
        """Remove archived instants, and their markers, from the active timeline.

        Instants that created a partition of a metadata table are last: they tell which of the
        others wrote to a partition that was dropped.
        """
        ordered = sorted(instants, key=lambda i: (is_before_all(i.time), i))
        remove_archived(self._log, ordered)
        times = {instant.time for instant in ordered}
        for info in self.fs.children(TEMP):
            if info.is_folder and info.name in times:
                self.fs.delete_folder(info.path)

    def maintain(self, rules: ServiceOptions) -> int:
        """Merge each level that has many files into the next, and delete old versions.

        Returns how many files were merged.
        """
        merged = levels = 0
        for level in range(LEVEL_MAX):
            count = self.merge_level(
                level, count=rules.history_merge_count, bytes_max=rules.history_merge_bytes
            )
            if not count:
                break
            merged, levels = merged + count, levels + 1
        self.delete_old_versions(rules.history_versions + levels)
        return merged

    def merge_level(self, level: int, *, count: int, bytes_max: int) -> int:
        """Merge the first `count` files of a level into one of the next, if there are as many.

        Takes fewer files if their size exceeds bytes_max.  Returns how many were merged.
        Memory: one row group of a file.
        """
        now = load_manifest(self.fs, self._folder)
        files = sorted(file for file in now.files if file.level == level)
        parts = _leading(files[:count], bytes_max)
        if len(files) < count or len(parts) < 2:
            return 0
        first, last = min(file.first for file in parts), max(file.last for file in parts)
        name = history_file_name(first, last, level + 1)
        _check_free(now, name, self._folder)
        made = write_history_file(
            self.fs, self._folder, name, concatenated_rows(self.fs, self._folder, parts)
        )
        rest = [file for file in now.files if file not in parts]
        publish_manifest(self.fs, self._folder, now, sorted([*rest, made]))
        return len(parts)

    def delete_old_versions(self, retained: int) -> None:
        """Delete manifests older than the newest `retained`, and files that no other one names.

        Files with other names stay.
        """
        now = load_manifest(self.fs, self._folder)
        numbers = manifest_numbers(self.fs, self._folder)
        old = [number for number in numbers if number <= now.number][:-retained]
        if not old:
            return
        live = set(now.files)
        for number in numbers:
            if number > old[-1]:
                live |= self._named_by(number)
        names = {file.name for file in live}
        check_lock(self.fs)
        delete_manifests(self.fs, self._folder, old)
        self.fs.delete(
            join(self._folder, name)
            for name in self.fs.names(self._folder)
            if is_history_file(name) and name not in names
        )

    def _named_by(self, number: int) -> set[HistoryFile]:
        """Files of a version; none if it cannot be read, as nothing can be read through it."""
        try:
            return set(read_manifest(self.fs, self._folder, number).files)
        except (CorruptFileError, FileMissingError):
            return set()


def _leading(files: list[HistoryFile], bytes_max: int) -> list[HistoryFile]:
    """The first files, up to the one with which their size exceeds bytes_max."""
    chosen: list[HistoryFile] = []
    for file in files:
        if sum(each.size_bytes for each in chosen) > bytes_max:
            break
        chosen.append(file)
    return chosen


def _check_free(now: Manifest, name: str, folder: str) -> None:
    """Raise CorruptFileError if a live file has this name: writing it would lose its rows."""
    if any(file.name == name for file in now.files):
        raise CorruptFileError(
            "the archived timeline has a file of this name with other instants",
            path=join(folder, name),
        )
