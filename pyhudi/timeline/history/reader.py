"""Archived instants of layout 2: those of a range of instant times, and completion times.

A file is opened only if the range in its name can hold what is requested, and only the
columns that are needed are read.  Memory: the rows of the requested range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.history.manifest import HistoryFile, Manifest, load_manifest
from pyhudi.timeline.history.rows import INSTANT, read_history_file
from pyhudi.timeline.instant import COMMITS, COMPLETES_AS, Action, Instant, State

_ACTIONS: Final = {action.value: action for action in Action}
_ATTEMPTS: Final = 10
T = TypeVar("T")


class TimelineHistory:
    """The archived instants of one table, in the version of the first use.

    Deleted files of an old version are those of a newer one merged: the reader then continues
    with the newest version.  Raises CorruptFileError for invalid files.
    """

    def __init__(
        self, fs: FileSystem, folder: str, *, previous: TimelineHistory | None = None
    ) -> None:
        """previous: of the same folder, read earlier; what it has read of files is used again."""
        self._fs = fs
        self._folder = folder
        self._loaded: Manifest | None = None
        self._known: dict[HistoryFile, tuple[Instant, ...]] = previous._known if previous else {}
        self.completions: Mapping[InstantTime, InstantTime] = _Completions(self)

    @property
    def manifest(self) -> Manifest:
        if self._loaded is None:
            self._loaded = load_manifest(self._fs, self._folder)
        return self._loaded

    def instants(
        self, since: InstantTime | None = None, until: InstantTime | None = None
    ) -> list[Instant]:
        """Archived instants of any action from `since` to `until`, in time order, each once."""
        found: dict[tuple[str, str, str], Instant] = {}
        for table in self._read(INSTANT, since, until):
            for times in zip(*(table[name].to_pylist() for name in INSTANT), strict=True):
                instant = _instant(*times)
                if instant is not None:
                    key = instant.time, instant.action.value, instant.completed_at or ""
                    found.setdefault(key, instant)
        return [found[key] for key in sorted(found) if _within(found[key].time, since, until)]

    def commits(self) -> list[Instant]:
        """Every archived commit, in time order.  A file is read once."""

        def read(manifest: Manifest) -> list[Instant]:
            new = [file for file in manifest.files if file not in self._known]
            self._known |= {file: tuple(self._commits_of(file)) for file in new}
            return [commit for file in manifest.files for commit in self._known[file]]

        found: dict[InstantTime, Instant] = {}
        for commit in self.in_one_version(read):
            found.setdefault(commit.time, commit)
        return [found[time] for time in sorted(found)]

    def _commits_of(self, file: HistoryFile) -> Iterator[Instant]:
        for table in self.tables(file, INSTANT):
            for times in zip(*(table[name].to_pylist() for name in INSTANT), strict=True):
                instant = _instant(*times)
                if instant is not None and instant.action in COMMITS:
                    yield instant

    def contents(
        self, since: InstantTime | None = None, until: InstantTime | None = None
    ) -> list[tuple[Instant, bytes]]:
        """The same with the content of the completed file; empty if none is recorded."""
        found: dict[tuple[str, str], tuple[Instant, bytes]] = {}
        for table in self._read((*INSTANT, "metadata"), since, until):
            columns = [table[name].to_pylist() for name in (*INSTANT, "metadata")]
            for time, done, action, content in zip(*columns, strict=True):
                instant = _instant(time, done, action)
                if instant is not None:
                    key = (instant.time, instant.action.value)
                    found.setdefault(key, (instant, content or b""))
        return [found[key] for key in sorted(found) if _within(InstantTime(key[0]), since, until)]

    def _read(
        self, columns: Sequence[str], since: InstantTime | None, until: InstantTime | None
    ) -> list[pa.Table]:
        def read(manifest: Manifest) -> list[pa.Table]:
            selected = [file for file in manifest.files if file.may_hold(since, until)]
            return [table for file in selected for table in self.tables(file, columns)]

        return self.in_one_version(read)

    def in_one_version(self, read: Callable[[Manifest], T]) -> T:
        """The result of `read`, which opens only files that the manifest lists."""
        for _ in range(_ATTEMPTS):
            manifest = self.manifest
            try:
                return read(manifest)
            except FileMissingError as missing:
                self._loaded = None
                if self.manifest.number == manifest.number:
                    raise CorruptFileError(
                        "the archived timeline names a file that is missing",
                        path=missing.facts.get("path"),
                        hint="restore the file from a copy of the table",
                    ) from missing
        raise CorruptFileError("the archived timeline keeps changing", path=self._folder)

    def tables(self, file: HistoryFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        return read_history_file(self._fs, self._folder, file, columns)


class _Completions(Mapping[InstantTime, InstantTime]):
    """Completion times of archived instants of all actions; the instant time if none is recorded.

    A look-up reads the files whose range holds the time, each once; iteration reads all files.
    """

    def __init__(self, history: TimelineHistory) -> None:
        self._history = history
        self._known: dict[InstantTime, InstantTime] = {}
        self._seen: frozenset[str] = frozenset()

    def __getitem__(self, time: InstantTime) -> InstantTime:
        if time not in self._known:
            self._load(time, time)
        return self._known[time]

    def __iter__(self) -> Iterator[InstantTime]:
        self._load(None, None)
        return iter(self._known)

    def __len__(self) -> int:
        self._load(None, None)
        return len(self._known)

    def _load(self, since: InstantTime | None, until: InstantTime | None) -> None:
        def read(manifest: Manifest) -> None:
            for file in manifest.files:
                if file.name not in self._seen and file.may_hold(since, until):
                    for table in self._history.tables(file, INSTANT):
                        self._add(table)
                    self._seen |= {file.name}

        self._history.in_one_version(read)

    def _add(self, table: pa.Table) -> None:
        """Of two actions at one time, the completion of the commit is used."""
        done = pc.coalesce(table["completionTime"], table["instantTime"])
        is_commit = pc.is_in(table["action"], pa.array([a.value for a in COMMITS]))
        rows = pa.table([table["instantTime"], done], names=["time", "done"])
        for mask in (is_commit, pc.invert(is_commit)):
            chosen = rows.filter(mask)
            times, ends = (column.to_pylist() for column in chosen.columns)
            self._known = {**dict(zip(times, ends, strict=True)), **self._known}


def _instant(time: str, done: str | None, action: str | None) -> Instant | None:
    """None for an action that this package does not know."""
    known = _ACTIONS.get(action or "")
    if known is None:
        return None
    ended = InstantTime(done) if done else None
    return Instant(InstantTime(time), COMPLETES_AS[known], State.COMPLETED, ended)


def _within(time: InstantTime, since: InstantTime | None, until: InstantTime | None) -> bool:
    return (since is None or time >= since) and (until is None or time <= until)
