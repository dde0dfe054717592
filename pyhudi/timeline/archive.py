"""The archived timeline: completed instants removed from the active one.

```
layout 1   .hoodie/<archive folder>/.commits_.archive.N_<token>   a log file with Avro blocks of
           HoodieArchivedMetaEntry records, one per state of an instant
layout 2   .hoodie/timeline/history/   a log-structured merge tree of Parquet files, see
           `timeline.history`
```

Only what readers of old snapshots need is loaded: commits (schema, replaced file
groups) and cleans (deleted files).  Loaded once, on first use; writes do not load it.  In layout 2,
`timeline` and `completions` read only the instants, and look-ups of completion times only the files
that may hold them.
Source: table_format 4, 11.2.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import HOODIE, archive_number
from pyhudi.formats.log_file import BlockKind, LogBlock, read_blocks
from pyhudi.layouts.table_layout import ArchiveKind, TableLayout
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem, RandomAccess
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.instant import COMMITS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import read_avro, read_commit
from pyhudi.timeline.timeline import Timeline

HISTORY: Final = f"{HOODIE}/timeline/history"
_ACTIONS: Final = {action.value: action for action in Action}
_BROKEN: Final = (ValueError, EOFError, KeyError, TypeError, IndexError, OverflowError,
                  AttributeError, struct.error, UnicodeDecodeError, StopIteration,
                  AssertionError, RecursionError, ArithmeticError,
                  SchemaParseException, UnknownType)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArchivedCommit:
    """A completed commit, delta commit or replace commit."""

    time: InstantTime
    action: Action
    metadata: CommitMetadata
    completed_at: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class ArchivedClean:
    """A completed clean; `record` is its HoodieCleanMetadata."""

    time: InstantTime
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArchivedOther:
    """A completed instant of another kind: a rollback."""

    time: InstantTime
    action: Action


_Entry = ArchivedCommit | ArchivedClean | ArchivedOther


class Archive:
    """Archived instants, oldest first.  Reads every archive file on first use.

    folder: of layout 1.
    """

    def __init__(
        self, fs: FileSystem, *, layout: TableLayout, folder: str, previous: Archive | None = None
    ) -> None:
        """previous: of the same table, read earlier; what it has read of files is used again."""
        self._fs = fs
        self._folder = folder
        self._history: TimelineHistory | None = None
        if layout.archive is not ArchiveKind.LOG_FILES:
            read = None if previous is None else previous._history
            self._history = TimelineHistory(fs, HISTORY, previous=read)

    @cached_property
    def is_empty(self) -> bool:
        """Whether nothing has been archived.  One listing; no archive file is read."""
        if self._history is not None:
            return not self._history.manifest.files
        return all(archive_number(name) is None for name in self._fs.names(self._folder))

    @property
    def has_commits(self) -> bool:
        return not self.is_empty and bool(len(self.timeline.commits))

    @property
    def commits(self) -> tuple[ArchivedCommit, ...]:
        return tuple(e for e in self._entries if isinstance(e, ArchivedCommit))

    @property
    def cleans(self) -> tuple[ArchivedClean, ...]:
        return tuple(e for e in self._entries if isinstance(e, ArchivedClean))

    @cached_property
    def completions(self) -> Mapping[InstantTime, InstantTime]:
        """Completion times of archived commits (layout 2: of all instants); the instant time where
        none is recorded."""
        if self._history is not None:
            return self._history.completions
        return {entry.time: entry.time for entry in self.commits}

    @cached_property
    def commit_instants(self) -> tuple[Instant, ...]:
        """Every archived commit, oldest first.  Layout 2 reads no metadata of commits for it."""
        if self._history is not None:
            return tuple(self._history.commits())
        return self.timeline.commits.instants

    def metadata_of(self, commits: Collection[Instant]) -> dict[InstantTime, CommitMetadata]:
        """The metadata of these archived commits.  Layout 2 opens only files that may hold them."""
        times = {commit.time for commit in commits}
        if not times:
            return {}
        if self._history is None:
            return {entry.time: entry.metadata for entry in self.commits if entry.time in times}
        found = self._history.contents(min(times), max(times))
        chosen = [(i, body) for i, body in found if i.time in times and i.action in COMMITS]
        return {entry.time: entry.metadata for entry in map(_archived_commit, chosen)}

    @cached_property
    def timeline(self) -> Timeline:
        """Every archived instant, as completed."""
        if self._history is not None:
            return Timeline.of(self._history.instants())
        return Timeline.of(
            Instant(
                e.time,
                Action.CLEAN if isinstance(e, ArchivedClean) else e.action,
                State.COMPLETED,
            )
            for e in self._entries
        )

    @cached_property
    def _entries(self) -> tuple[_Entry, ...]:
        read = _log_entries(archived_records(self._fs, self._folder), self._folder)
        if self._history is not None:
            read = _history_entries(self._history)
        found = {(entry.time, type(entry)): entry for entry in read}
        return tuple(sorted(found.values(), key=lambda entry: entry.time))


def commits_newest_first(
    log: TimelineLog, timeline: Timeline, archive: Archive
) -> Iterator[tuple[InstantTime, CommitMetadata]]:
    """The commits of a table in the order of their times, each read when it is due.

    Archived commits come after the active ones, except after those of savepoints: archival may
    have passed them, so an active commit can be older than archived ones.
    """
    active, between = timeline.commits, dict[InstantTime, CommitMetadata]()
    saved = max(timeline.where({Action.SAVEPOINT}).times, default=InstantTime(""))
    for instant in reversed(active.after(saved).instants):
        yield instant.time, log.commit(instant)
    if passed := active.up_to(saved).instants:
        found = [i for i in archive.commit_instants if i.time > passed[0].time]
        between = archive.metadata_of([i for i in found if i.time not in active.times])
        by_time = {instant.time: instant for instant in passed}
        for time in sorted({*by_time, *between}, reverse=True):
            yield time, between.get(time) or log.commit(by_time[time])
    for archived in reversed(archive.commits):
        if archived.time not in between and archived.time not in active.times:
            yield archived.time, archived.metadata


def archived_records(fs: FileSystem, folder: str) -> Iterator[Mapping[str, Any]]:
    """The records of every file of layout 1: one for each state of an instant, oldest file first.

    Raises CorruptFileError."""
    numbered = [
        (number, info.path)
        for info in fs.children(folder)
        if (number := archive_number(info.name)) is not None
    ]
    for _, path in sorted(numbered):
        yield from _file_records(fs, path)


def _file_records(fs: FileSystem, path: str) -> Iterator[Mapping[str, Any]]:
    file = fs.open(path)
    try:
        for block in read_blocks(file, path=path):
            if block.kind is BlockKind.AVRO:
                yield from _records(block, file, path)
    finally:
        file.close()


def archived_times(fs: FileSystem, path: str) -> frozenset[tuple[InstantTime, Action]]:
    """The completed instants of one file of layout 1."""
    return frozenset(
        (InstantTime(record["commitTime"]), _ACTIONS[record["actionType"]])
        for record in _file_records(fs, path)
        if record.get("actionState") == "COMPLETED" and record.get("actionType") in _ACTIONS
    )


def _records(block: LogBlock, file: RandomAccess, path: str) -> Iterator[Mapping[str, Any]]:
    """The records of an Avro block; blocks are small, so plain Python is fast enough."""
    content = file.read_at(block.content_offset, block.content_length)
    try:
        schema = fastavro.parse_schema(json.loads(block.schema or ""))
        count = struct.unpack_from(">i", content, 4)[0]
        at = 8
        for _ in range(count):
            (length,) = struct.unpack_from(">i", content, at)
            if not 0 <= length <= len(content) - at - 4:
                raise CorruptFileError("truncated archive record", path=path, offset=at)
            datum = io.BytesIO(content[at + 4 : at + 4 + length])
            yield fastavro.schemaless_reader(datum, schema, None)  # type: ignore[misc]
            at += 4 + length
    except _BROKEN as error:
        raise CorruptFileError(
            "unreadable archive block", path=path, offset=block.offset
        ) from error


def _log_entries(records: Iterator[Mapping[str, Any]], path: str) -> Iterator[_Entry]:
    for record in records:
        action = _ACTIONS.get(record.get("actionType") or "")
        if record.get("actionState") != "COMPLETED" or action is None:
            continue
        time = InstantTime(record["commitTime"])
        if action is Action.CLEAN and record.get("hoodieCleanMetadata"):
            yield ArchivedClean(time, record["hoodieCleanMetadata"])
        elif action in COMMITS:
            body = record.get("hoodieReplaceCommitMetadata") or record.get("hoodieCommitMetadata")
            yield ArchivedCommit(time, action, _metadata(body or {}, path))
        else:
            yield ArchivedOther(time, action)


def _metadata(body: Mapping[str, Any], path: str) -> CommitMetadata:
    try:
        return CommitMetadata.from_object(body)
    except _BROKEN as error:
        raise CorruptFileError("an archived commit has an unknown shape", path=path) from error


def _history_entries(history: TimelineHistory) -> Iterator[_Entry]:
    """Entries of layout 2; a row without metadata is a commit or clean that lists no files."""
    for instant, content in history.contents():
        path = f"{HISTORY}/{instant}"
        if instant.action is Action.CLEAN:
            yield ArchivedClean(instant.time, read_avro(content, path=path))
        elif instant.action in COMMITS:
            yield _archived_commit((instant, content))
        else:
            yield ArchivedOther(instant.time, instant.action)


def _archived_commit(found: tuple[Instant, bytes]) -> ArchivedCommit:
    instant, content = found
    path = f"{HISTORY}/{instant}"
    commit = read_commit(content, path=path) if content else CommitMetadata()
    return ArchivedCommit(instant.time, instant.action, commit, instant.completed_at)
