"""Writing of archives; here of layout 1: instants are appended, small files merged.

```
<archive folder>/.commits_.archive.N_1-0-1   one run's instants; N grows, a file is never changed
                 mergeArchivePlan            while N files are merged: their names, and the new name
```

A merged file is the concatenation of its parts: a log file is a sequence of independent
blocks.  Memory: one block, or one chunk of a file.  Source: table_format 7.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, Protocol

from pyhudi.errors import FileMissingError
from pyhudi.filenames import archive_number, join
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.layouts.table_layout import ArchiveKind
from pyhudi.options import ServiceOptions
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.archive import HISTORY, archived_times
from pyhudi.timeline.archive_entries import MERGE_PLAN, blocks, entry
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import read_avro, write_avro
from pyhudi.timeline.state_files import remove_archived, state_files
from pyhudi.timeline.timeline import Timeline

_TOKEN: Final = "1-0-1"
_PLAN: Final = "mergeArchivePlan"
_CHUNK_BYTES: Final = 4 << 20


class ArchiveWriter(Protocol):
    """The archive of one timeline, written by one process at a time: it holds the table's lock."""

    @property
    def fs(self) -> FileSystem: ...

    def recorded(self, done: Timeline) -> frozenset[tuple[InstantTime, Action]]:
        """Those of the completed instants of the active timeline that are archived as well."""
        ...

    def append(self, instants: Iterable[Instant], *, batch: int) -> str:
        """Archive completed instants; returns the path of the file.  batch: records in memory."""
        ...

    def remove(self, instants: Collection[Instant]) -> None:
        """Remove archived instants from the active timeline."""
        ...

    def maintain(self, rules: ServiceOptions) -> int:
        """Merge small files; returns how many were merged."""
        ...


def has_history(log: TimelineLog) -> bool:
    """Whether completion times are recorded, and archived instants kept in a history folder."""
    return log.layout.archive is ArchiveKind.LSM_TREE


def archive_of(log: TimelineLog, folder: str) -> ArchiveWriter:
    """The archive of a timeline.  folder: of archive files of layout 1."""
    return HistoryFiles(log, HISTORY) if has_history(log) else ArchiveFiles(log, folder)


class ArchiveFiles:
    """The archive folder of one timeline of layout 1."""

    def __init__(self, log: TimelineLog, folder: str) -> None:
        self._log = log
        self.fs: FileSystem = log.fs
        self._folder = folder

    def listed(self) -> list[FileInfo]:
        """The archive's files, oldest number first."""
        found = [
            (number, info)
            for info in self.fs.children(self._folder)
            if (number := archive_number(info.name)) is not None
        ]
        return [info for _, info in sorted(found, key=lambda each: each[0])]

    def recorded(self, done: Timeline) -> frozenset[tuple[InstantTime, Action]]:
        """Those in the newest file, the only one that a stopped run may have written.

        Cost: reading that file."""
        files = self.listed()
        found = archived_times(self.fs, files[-1].path) if files else frozenset()
        return found & {(instant.time, instant.action) for instant in done}

    def append(self, instants: Iterable[Instant], *, batch: int) -> str:
        """Write completed instants, with all their states, as the next file; returns its path.

        Cost: one listing of the timeline, and each file of the instants read once.
        """
        return self.write(self._entries(instants), batch=batch)

    def write(self, entries: Iterable[Mapping[str, Any]], *, batch: int) -> str:
        """Write records of instants as the next file; returns its path."""
        path = self._next()
        with self.fs.open_sink(path) as sink:
            for block in blocks(entries, batch=batch):
                sink.write(block)
        return path

    def _next(self) -> str:
        files = self.listed()
        last = archive_number(files[-1].name) if files else 0
        return join(self._folder, f".commits_.archive.{(last or 0) + 1}_{_TOKEN}")

    def _entries(self, instants: Iterable[Instant]) -> Iterator[dict[str, Any]]:
        files = state_files(self._log)
        for instant in instants:
            for info, state in files.get((instant.time, COMPLETES_AS[instant.action]), ()):
                content = self.fs.read(info.path)
                yield entry(
                    state, content, path=info.path, modified=info.modified, zone=self._log.zone
                )

    def remove(self, instants: Collection[Instant]) -> None:
        """Remove archived instants from the active timeline."""
        remove_archived(self._log, instants)

    def maintain(self, rules: ServiceOptions) -> int:
        """Merge small files if the options request it; returns how many were merged."""
        if not rules.merges_archive:
            return 0
        return self.merge(count=rules.archive_merge_count, bytes_max=rules.archive_merge_bytes)

    def merge(self, *, count: int, bytes_max: int) -> int:
        """Merge the oldest `count` files below `bytes_max`, if that many exist; returns how many
        files were merged.  Completes an interrupted merge first."""
        self._finish_merge()
        small = [info for info in self.listed() if info.size_bytes < bytes_max]
        if len(small) < count:
            return 0
        parts = [info for info in small[:count] if self._is_whole(info)]
        if len(parts) < 2:
            return 0
        path = self._next()
        plan = {
            "version": 1,
            "candidate": [info.name for info in parts],
            "mergedArchiveFileName": path.rpartition("/")[2],
        }
        self.fs.create(join(self._folder, _PLAN), write_avro(MERGE_PLAN, plan))
        with self.fs.open_sink(path) as sink:
            for info in parts:
                with closing(self.fs.open(info.path)) as file:
                    for offset in range(0, file.size, _CHUNK_BYTES):
                        sink.write(file.read_at(offset, min(_CHUNK_BYTES, file.size - offset)))
        self._finish_merge()
        return len(parts)

    def _finish_merge(self) -> None:
        """Delete the parts of a merged file that exists, then the plan."""
        plan_path = join(self._folder, _PLAN)
        try:
            plan = read_avro(self.fs.read(plan_path), path=plan_path)
        except FileMissingError:
            return
        if self.fs.exists(join(self._folder, plan.get("mergedArchiveFileName") or _PLAN + "?")):
            names = [n.rsplit("/", 1)[-1] for n in plan.get("candidate") or ()]
            self.fs.delete(join(self._folder, n) for n in names if archive_number(n) is not None)
        self.fs.delete([plan_path])

    def _is_whole(self, info: FileInfo) -> bool:
        """Whether a file consists of valid blocks from start to end."""
        with closing(self.fs.open(info.path)) as file:
            return all(b.kind is not BlockKind.CORRUPT for b in read_blocks(file, path=info.path))
