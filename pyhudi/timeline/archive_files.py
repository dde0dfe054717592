"""Writing of layout 1 archive files: instants are appended, small files merged.

```
<archive folder>/.commits_.archive.N_1-0-1   one run's instants; N grows, a file is never changed
                 mergeArchivePlan            while N files are merged: their names, and the new name
```

A merged file is the concatenation of its parts: a log file is a sequence of independent
blocks.  Memory: one block, or one chunk of a file.  Source: table_format 7.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from pyhudi.errors import FileMissingError
from pyhudi.filenames import archive_number, join
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.archive import archived_times
from pyhudi.timeline.archive_entries import MERGE_PLAN, blocks, entry
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant, State, parse_instant_name
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import read_avro, write_avro

_TOKEN: Final = "1-0-1"
_PLAN: Final = "mergeArchivePlan"
_CHUNK_BYTES: Final = 4 << 20


class ArchiveFiles:
    """The archive folder of one timeline."""

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

    def newest_times(self) -> frozenset[tuple[InstantTime, Action]]:
        """The content of the newest file.  Cost: reading that file."""
        files = self.listed()
        return archived_times(self.fs, files[-1].path) if files else frozenset()

    def append(self, instants: Iterable[Instant], *, batch: int) -> str:
        """Write completed instants, with all their states, as the next file; returns its path.

        Cost: one listing of the timeline, and each file of the instants read once.
        """
        path = self._next()
        with self.fs.open_sink(path) as sink:
            for block in blocks(self._entries(instants), batch=batch):
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
        """Remove archived instants from the active timeline.

        Completed files are deleted one at a time, oldest first: the rest of the timeline never has
        a gap, which readers would treat as an instant that never completed.
        """
        files = state_files(self._log)
        keys = [(i.time, COMPLETES_AS[i.action]) for i in instants]
        pending = [
            info.path
            for key in keys
            for info, state in files.get(key, ())
            if not state.is_completed
        ]
        self.fs.delete(pending)
        for instant in instants:
            self.fs.delete([self._log.path(replace(instant, state=State.COMPLETED))])

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


def state_files(
    log: TimelineLog,
) -> dict[tuple[InstantTime, Action], list[tuple[FileInfo, Instant]]]:
    """Every file of the active timeline, by instant and the action it completes as, in order
    of states.  One listing."""
    found: dict[tuple[InstantTime, Action], list[tuple[FileInfo, Instant]]] = {}
    for info in log.fs.children(log.folder):
        instant = None if info.is_folder else parse_instant_name(info.name)
        if instant is not None:
            key = (instant.time, COMPLETES_AS[instant.action])
            found.setdefault(key, []).append((info, instant))
    return {key: sorted(files, key=lambda f: f[1].state) for key, files in found.items()}
