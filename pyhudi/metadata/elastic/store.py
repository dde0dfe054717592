"""States of an elastic index on the store, and which of them is believed.

```
.hoodie/.elastic_index/states/<sequence>-<instant>-<token>.json   one a commit; never changed
                      /record_index/<files>                       named by states, never changed
```

A commit's state is put there before the commit completes, and names every file of the index.  It
is believed while each commit that it covers is complete: so data and index appear together, and
what a rollback or restore takes back is out of the index at that moment.  Commits that no state
covers are of writers that do not know this index: it is not asked then (`IndexNotReadyError`), as
its answers could be wrong.  Compactions change no key's place and may be missing.
Apache Hudi does not look at the folder.
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
OWN_INDEX_TYPE: Final = "pyhudi.index.type"
"""Names a kind that Apache Hudi has not: its writers fail over a name they do not know."""

ELASTIC_PROPERTIES: Final = {OWN_INDEX_TYPE: "ELASTIC"}

STATES_RETAINED: Final = 20
"""States whose files are kept for readers of the past and for restores."""

_KEEPS_PLACES: Final = frozenset({"COMPACT", "LOG_COMPACT"})


def is_elastic(config: TableConfig) -> bool:
    """Whether the table has an elastic index."""
    return config.properties.get(OWN_INDEX_TYPE, "").strip().upper() == "ELASTIC"


def check_one(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table that another writer has given a record index, which
    would go stale where only the elastic one is written."""
    if is_elastic(config) and RECORD_INDEX.path in config.metadata_partitions:
        raise UnsupportedTableError(
            "the table has an elastic index, and a record index of another writer",
            hint="table.index.rebuild() leaves the elastic one; opened with "
            "hoodie.index.type=RECORD_INDEX it leaves a record index",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StateName:
    """sequence, instant ("" for none) of a state by its file's name."""

    sequence: int
    instant: str
    path: str


def state_names(fs: FileSystem) -> list[StateName]:
    """Newest first.  fs: rooted at the index.  Cost: a listing."""
    found = []
    for info in fs.children(STATES):
        sequence, _, rest = info.name.removesuffix(".json").partition("-")
        instant = rest.partition("-")[0]
        if info.name.endswith(".json") and sequence.isdigit():
            found.append(StateName(int(sequence), "" if instant == "0" else instant, info.path))
    return sorted(found, key=lambda name: (-name.sequence, name.path))


def read_state(fs: FileSystem, path: str) -> IndexState:
    """A state by its path, kept for the next time.  fs: rooted at the index."""
    return _read(_Keyed(fs.url, path, fs))


class _Keyed:
    """A file's name as a key, with the store that has it."""

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


def is_believed(state: IndexState, data: Timeline) -> bool:
    """Whether all that the state covers stands.  data: the timeline of the table."""
    done, first = data.commits.times, first_write(data)
    if state.instant and state.instant not in done:
        return False
    return all(time in done for time in state.covered if time >= first)


def believed_states(fs: FileSystem, data: Timeline) -> Iterator[IndexState]:
    """Those believed, newest first.  fs: rooted at the index.  Cost: a read each."""
    for name in state_names(fs):
        if name.instant and name.instant not in data.commits.times:
            continue
        try:
            state = read_state(fs, name.path)
        except FileMissingError:  # a clean came between
            continue
        if is_believed(state, data):
            yield state


def newest_state(
    fs: FileSystem, log: TimelineLog, data: Timeline, *, limit: str | None = None
) -> IndexState:
    """The index as readers believe it; limit: as it was when that instant was the newest.

    fs: rooted at the data table; log, data: its own.  Raises IndexNotReadyError where there is
    none, and where commits came without it.
    """
    for state in believed_states(fs.sub(ROOT), data):
        if limit is not None and max(state.instant, *state.covered, "") > limit:
            continue
        missed = missed_commits(state, log, data, limit=limit)
        if missed:
            raise IndexNotReadyError(
                "the elastic index lacks commits of other writers", path=fs.url,
                commits=len(missed), first=missed[0].time,
                hint="table.index.rebuild(), or pyhudi index rebuild",
            )  # fmt: skip
        return state
    raise IndexNotReadyError(
        "the elastic index has no state that goes with the table", path=fs.url, as_of=limit,
        hint="table.index.rebuild(), or pyhudi index rebuild",
    )  # fmt: skip


def missed_commits(
    state: IndexState, log: TimelineLog, data: Timeline, *, limit: str | None = None
) -> list[Instant]:
    """Commits that are not in the index, oldest first.  Cost: a small read each."""
    return [
        i
        for i in data.commits
        if i.time >= state.since
        and i.time not in state.covered
        and (limit is None or i.time <= limit)
        and log.commit(i).operation not in _KEEPS_PLACES
    ]


def last_state(fs: FileSystem) -> IndexState | None:
    """The newest state that can be read, believed or not.  fs: rooted at the data table."""
    own = fs.sub(ROOT)
    for name in state_names(own):
        try:
            return read_state(own, name.path)
        except (CorruptFileError, FileMissingError):
            continue
    return None


def publish_state(fs: FileSystem, state: IndexState) -> str:
    """Put a state on the store; its path.  fs: rooted at the index."""
    while True:
        name = f"{state.sequence:010d}-{state.instant or '0'}-{secrets.token_hex(4)}.json"
        path = join(STATES, name)
        if fs.create(path, state.to_json()):
            return path


def next_sequence(fs: FileSystem) -> int:
    """Greater than that of every state there is, believed or not."""
    return max((name.sequence for name in state_names(fs)), default=0) + 1


def remove_undone(fs: FileSystem, instants: Iterable[str]) -> None:
    """Delete what writes that were taken back have left; nobody believes it any more.

    fs: rooted at the data table.  May be repeated.
    """
    gone, own = frozenset(instants), fs.sub(ROOT)
    own.delete(name.path for name in state_names(own) if name.instant in gone)
    doomed = []
    for info in own.children(RECORD_INDEX.path):
        name = parse_data_file(info.name)
        if name is not None and not info.name.endswith(".hfile") and name.instant in gone:
            doomed.append(info.path)
    own.delete(doomed)


def remove_outdated_states(fs: FileSystem, data: Timeline) -> tuple[int, int]:
    """Delete states that are outdated and files that none names; (states, files) deleted.

    fs: rooted at the index.  data: the table's timeline now; the caller holds the table's lock.
    Kept: the newest RETAINED states that are believed, those of savepoints, and what belongs to
    pending writes.
    """
    pending = data.pending.times
    savepoints = data.where({Action.SAVEPOINT}, State.COMPLETED).times
    kept: list[IndexState] = []
    for count, state in enumerate(believed_states(fs, data)):
        if count < STATES_RETAINED or state.instant in savepoints:
            kept.append(state)
    held = {state.path for state in kept}
    names = {name for state in kept for name in state.file_names()}
    outdated = []
    for stored in state_names(fs):
        if stored.instant in pending:
            names |= read_state(fs, stored.path).file_names()
        elif stored.path not in held:
            outdated.append(stored.path)
    fs.delete(outdated)
    lost = []
    for info in fs.children(RECORD_INDEX.path):
        parsed = parse_data_file(info.name)
        if parsed is not None and info.name not in names and parsed.instant not in pending:
            lost.append(info.path)
    fs.delete(lost)
    return len(outdated), len(lost)
