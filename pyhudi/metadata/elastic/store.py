"""Stored states of an elastic index, and their visibility.

```
.hoodie/.elastic_index/states/<sequence>-<instant>-<token>.json   one per commit; never changed
                      /record_index/<files>                       named by states, never changed
```

A commit's state is stored before the commit completes, and names every file of the index.  It is
visible while every commit that it covers is complete: data and index become visible together, and
a rollback or restore removes its commits from the index at the same moment.  Commits that no state
covers were made by writers without support for this index: look-ups then raise
`IndexNotReadyError`, as results could be wrong.  Compactions do not change locations of keys and
need not be covered.  Apache Hudi ignores the folder.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    UnsupportedTableError,
)
from pyhudi.filenames import HOODIE, join, parse_data_file
from pyhudi.metadata.elastic.state import IndexState, state_of
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant import COMMITS, WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

ROOT: Final = f"{HOODIE}/.elastic_index"
STATES: Final = "states"
PYHUDI_INDEX_TYPE: Final = "pyhudi.index.type"
"""A separate property for an index type that Apache Hudi does not have: its writers fail on unknown
index types."""

ELASTIC_PROPERTIES: Final = {PYHUDI_INDEX_TYPE: "ELASTIC"}

STATES_RETAINED: Final = 20
"""Number of states whose files are retained for time travel and restores."""

_KEEPS_PLACES: Final = frozenset({"COMPACT", "LOG_COMPACT"})


def is_elastic(config: TableConfig) -> bool:
    """Whether the table has an elastic index."""
    return config.properties.get(PYHUDI_INDEX_TYPE, "").strip().upper() == "ELASTIC"


def check_one(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table with an additional record index of another writer,
    which would become stale as only the elastic index is maintained."""
    if is_elastic(config) and RECORD_INDEX.path in config.metadata_partitions:
        raise UnsupportedTableError(
            "the table has both an elastic index and a record index of another writer",
            hint="table.index.rebuild() keeps only the elastic index; with "
            "hoodie.index.type=RECORD_INDEX it keeps only a record index",
        )


@dataclass(frozen=True, slots=True)
class StateName:
    """The sequence and instant ("" for none) of a state, parsed from its file name."""

    sequence: int
    instant: str
    path: str


def state_names(fs: FileSystem) -> list[StateName]:
    """The names of all states, newest first.  fs: rooted at the index.  Cost: one listing."""
    found = []
    for info in fs.children(STATES):
        sequence, _, rest = info.name.removesuffix(".json").partition("-")
        instant = rest.partition("-")[0]
        if info.name.endswith(".json") and sequence.isdecimal():
            found.append(StateName(int(sequence), "" if instant == "0" else instant, info.path))
    return sorted(found, key=lambda name: (-name.sequence, name.path))


def read_state(fs: FileSystem, path: str) -> IndexState:
    """Read a state by its path; the result is cached.  fs: rooted at the index."""
    return _read(_Keyed(fs.url, path, fs))


class _Keyed:
    """A cache key of a file's URL and path, with the file system that contains it."""

    def __init__(self, url: str, path: str, fs: FileSystem) -> None:
        self.name = (url, path)
        self.fs = fs

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.name == other.name


@lru_cache(maxsize=16)
def _read(key: _Keyed) -> IndexState:
    path = key.name[1]
    return state_of(key.fs.read(path), path)


def first_write(data: Timeline) -> str:
    """The oldest write that is not archived; "" where there is none."""
    first = data.where(COMMITS | WRITES).first
    return first.time if first else ""


def is_visible(state: IndexState, data: Timeline) -> bool:
    """Whether every commit that the state covers is complete.  data: the table's timeline."""
    done, first = data.commits.times, first_write(data)
    if state.instant and state.instant not in done:
        return False
    return all(time in done for time in state.covered if time >= first)


def visible_states(fs: FileSystem, data: Timeline) -> Iterator[IndexState]:
    """The visible states, newest first.  fs: rooted at the index.  Cost: one read per state."""
    for name in state_names(fs):
        if name.instant and name.instant not in data.commits.times:
            continue
        try:
            state = read_state(fs, name.path)
        except FileMissingError:  # deleted by a concurrent clean
            continue
        if is_visible(state, data):
            yield state


def newest_state(
    fs: FileSystem, log: TimelineLog, data: Timeline, *, limit: str | None = None
) -> IndexState:
    """The newest visible state; limit: as of the time when that instant was the newest.

    fs: rooted at the data table; log, data: of the data table.  Raises IndexNotReadyError where
    there is no visible state, or where the state lacks commits.
    """
    for state in visible_states(fs.sub(ROOT), data):
        if limit is not None and max(state.instant, *state.covered, "") > limit:
            continue
        missed = missed_commits(state, log, data, limit=limit)
        if missed:
            raise IndexNotReadyError(
                "the elastic index lacks commits of other writers",
                path=fs.url,
                commits=len(missed),
                first=missed[0].time,
                hint="run table.index.rebuild() or pyhudi index rebuild",
            )
        return state
    raise IndexNotReadyError(
        "the elastic index has no state that matches the table's timeline",
        path=fs.url,
        as_of=limit,
        hint="run table.index.rebuild() or pyhudi index rebuild",
    )


def missed_commits(
    state: IndexState, log: TimelineLog, data: Timeline, *, limit: str | None = None
) -> list[Instant]:
    """Commits that are not in the index, oldest first.  Cost: one small read per commit."""
    return [
        i
        for i in data.commits
        if i.time >= state.since
        and i.time not in state.covered
        and (limit is None or i.time <= limit)
        and log.commit(i).operation not in _KEEPS_PLACES
    ]


def last_state(fs: FileSystem) -> IndexState | None:
    """The newest readable state, visible or not.  fs: rooted at the data table."""
    index_fs = fs.sub(ROOT)
    for name in state_names(index_fs):
        try:
            return read_state(index_fs, name.path)
        except (CorruptFileError, FileMissingError):
            continue
    return None


def publish_state(fs: FileSystem, state: IndexState) -> str:
    """Store a state; returns its path.  fs: rooted at the index."""
    while True:
        name = f"{state.sequence:010d}-{state.instant or '0'}-{secrets.token_hex(4)}.json"
        path = join(STATES, name)
        if fs.create(path, state.to_json()):
            return path


def next_sequence(fs: FileSystem) -> int:
    """A sequence number greater than that of every stored state, visible or not."""
    return max((name.sequence for name in state_names(fs)), default=0) + 1


def remove_undone(fs: FileSystem, instants: Iterable[str]) -> None:
    """Delete states and logs of undone writes, which are no longer visible.

    fs: rooted at the data table.  May be repeated.
    """
    gone, index_fs = frozenset(instants), fs.sub(ROOT)
    index_fs.delete(name.path for name in state_names(index_fs) if name.instant in gone)
    undone = []
    for info in index_fs.children(RECORD_INDEX.path):
        name = parse_data_file(info.name)
        if name is not None and not info.name.endswith(".hfile") and name.instant in gone:
            undone.append(info.path)
    index_fs.delete(undone)


def remove_outdated_states(fs: FileSystem, data: Timeline) -> tuple[int, int]:
    """Delete outdated states and unreferenced files; returns numbers of (states, files) deleted.

    fs: rooted at the index.  data: the table's current timeline; the caller holds the table's
    lock.  Retained: the newest STATES_RETAINED visible states, those of savepoints, and states and
    files of pending writes.
    """
    pending = data.pending.times
    savepoints = data.where({Action.SAVEPOINT}, State.COMPLETED).times
    retained: list[IndexState] = []
    for count, state in enumerate(visible_states(fs, data)):
        if count < STATES_RETAINED or state.instant in savepoints:
            retained.append(state)
    paths = {state.path for state in retained}
    names = {name for state in retained for name in state.file_names()}
    outdated = []
    for stored in state_names(fs):
        if stored.instant in pending:
            names |= read_state(fs, stored.path).file_names()
        elif stored.path not in paths:
            outdated.append(stored.path)
    fs.delete(outdated)
    lost = []
    for info in fs.children(RECORD_INDEX.path):
        parsed = parse_data_file(info.name)
        if parsed is not None and info.name not in names and parsed.instant not in pending:
            lost.append(info.path)
    fs.delete(lost)
    return len(outdated), len(lost)
