"""The timeline's files: the only module that creates instant times and instant files.

requested -> inflight -> completed, each by create-if-absent.  The completed file is the commit
point: it appears completely or not at all and is never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError, WriteConflictError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.layouts.table_layout import CommitEncoding, MetadataInstants, TableLayout
from pyhudi.layouts.v6 import V6
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.timeline.clock import Clock, following, next_instant, system_clock, wait_until
from pyhudi.timeline.commit_avro import to_avro
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import (
    COMMITS,
    COMPLETES_AS,
    Action,
    Instant,
    State,
    file_name,
    parse_instant_name,
)
from pyhudi.timeline.late_commits import (
    UNDO_ACTIONS,
    repeated_completions,
    suspects,
    undone_instants,
)
from pyhudi.timeline.own_files import (
    ATTEMPT,
    add_to_list,
    announced_attempts,
    attempt_name,
    newest_list,
    outdated_names,
    read_list,
)
from pyhudi.timeline.plans.clustering import is_clustering
from pyhudi.timeline.service_payloads import read_avro, read_commit
from pyhudi.timeline.timeline import Timeline

_ATTEMPTS = 1000


T_co = TypeVar("T_co", covariant=True)


class PlanReader(Protocol[T_co]):
    """`from_record` of a plan in `timeline/plans`."""

    def __call__(self, record: Mapping[str, Any], *, path: str) -> T_co: ...


_PLANNED = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT"})  # operations of planned services
_SPARE = 20  # archived commits that stay in memory


@lru_cache(maxsize=16)
def _timeline(names: tuple[str, ...]) -> Timeline:
    """The timeline of files with these names; cached, as most loads find the same names."""
    found = map(parse_instant_name, names)
    return Timeline.of(instant for instant in found if instant is not None)


class TimelineLog:
    """The active timeline of one table.

    `fs` is rooted at the table; `layout` decides about the folder, the names of completed
    instants and the content of commits.  Commit metadata is cached, as completed files never
    change, for about as many commits as the timeline has.
    """

    def __init__(
        self,
        fs: FileSystem,
        *,
        layout: TableLayout = V6,
        zone: tzinfo | None = None,
        clock: Clock = system_clock,
        archived: Callable[[Instant], CommitMetadata | None] | None = None,
    ) -> None:
        """archived: the content of a completed commit whose file archival has removed; None for
        one that the archive lacks."""
        self.fs = fs
        self._archived = archived
        self.layout = layout
        self.zone = zone
        self.folder = layout.timeline_folder
        self._clock = clock
        self._commits: dict[Instant, CommitMetadata] = {}
        self._assumed: dict[Instant, CommitMetadata] = {}
        self._rolled_back: tuple[str, frozenset[InstantTime]] = ("", frozenset())
        self._taken_back: dict[Instant, frozenset[InstantTime]] = {}
        self._drawn: dict[Instant, InstantTime] = {}
        self.late: tuple[Instant, ...] = ()
        """Commits that the last `load` omitted: published after they had been rolled back."""

    def path(self, instant: Instant) -> str:
        """Path of the instant's file, from the table's root."""
        return f"{self.folder}/{file_name(instant)}"

    def load(self, walked: FileSystem | None = None) -> Timeline:
        """The current timeline in the store, without commits that were published after they
        had been rolled back.  One listing; walked: the table's store with its listings from
        one moment.  Raises FileMissingError if a file has left such a listing since: files of the
        table must not be older than its timeline."""
        names = tuple((walked or self.fs).names(self.folder))
        for _ in range(_ATTEMPTS):
            try:
                rolled_back = self._known_rolled_back(newest_list(names))
                self.late = self._late(names, rolled_back)
            except FileMissingError:  # a newer list has replaced it, or an instant was removed
                if walked is not None:
                    raise
                names = tuple(self.fs.names(self.folder))
                continue
            if self.late:
                hidden = {file_name(instant) for instant in self.late}
                names = tuple(name for name in names if name not in hidden)
            found = _timeline(names)
            self._free_archived(found)
            return Timeline(found.instants, rolled_back) if rolled_back else found
        raise StorageError("the list of rolled-back instants keeps changing", path=self.folder)

    def _free_archived(self, now: Timeline) -> None:
        """Drop cached commits that have left the timeline, once they are as many as those on it.

        Older views may still need some of them, and would find their files archived.
        """
        if len(self._commits) > 2 * len(now) + _SPARE:
            there = frozenset(now.instants)
            self._commits = {i: commit for i, commit in self._commits.items() if i in there}

    def _known_rolled_back(self, name: str | None) -> frozenset[InstantTime]:
        """The content of this list; read once, as lists never change."""
        if name is None:
            return frozenset()
        if self._rolled_back[0] != name:
            self._rolled_back = (name, read_list(self.fs, f"{self.folder}/{name}"))
        return self._rolled_back[1]

    def remember_rolled_back(self, times: Iterable[InstantTime]) -> None:
        """Record permanently the writes that are rolled back, and rollbacks that were examined.

        Must be called before the instant's files leave the timeline, under the table's lock.
        """
        add_to_list(self.fs, self.folder, times)

    def _late(
        self, names: tuple[str, ...], rolled_back: frozenset[InstantTime]
    ) -> tuple[Instant, ...]:
        """Cost: nothing in most cases; otherwise one small read per rollback, once.

        rolled_back: those recorded permanently.
        """
        found = suspects(names)
        again = announced_attempts(names)
        repeated = repeated_completions(names)
        if not found and not again and not repeated:
            return ()
        timeline = _timeline(names)
        gone = set(rolled_back)
        for instant in timeline.where(UNDO_ACTIONS):
            with suppress(CorruptFileError, FileMissingError):  # truncated, or archived meanwhile
                gone.update(self.taken_back(instant))
        late = {
            instant
            for instant in found
            if instant.time in rolled_back
            or (instant.time in gone and not self._is_leaving(instant, names))
        }
        for instant in filter(None, map(parse_instant_name, names) if again else ()):
            is_commit = instant.is_completed and instant.action in COMMITS and instant.time in again
            if is_commit and self._is_of_other(instant, again[instant.time], timeline):
                late.add(instant)
        for instants in repeated:
            late.update(self._superseded(instants, timeline))
        return tuple(sorted(late))

    def _is_leaving(self, instant: Instant, names: tuple[str, ...]) -> bool:
        """Whether archival is removing a plan that has run again since its rollback: only archival
        removes the request of a plan, and it does so first."""
        requested = (i for i in map(parse_instant_name, names) if i and i.state is State.REQUESTED)
        if any(i.time == instant.time for i in requested):
            return False
        return read_commit(self.read(instant), path=self.path(instant)).operation in _PLANNED

    def _superseded(self, instants: Iterable[Instant], timeline: Timeline) -> Iterator[Instant]:
        """All but one of several completed files of an instant: that of its newest attempt, or the
        one with the latest completion time."""
        ranked = sorted(
            instants, key=lambda i: (self._is_newest(i, timeline), i.completed_at or "")
        )
        yield from ranked[:-1]

    def _is_newest(self, instant: Instant, timeline: Timeline) -> bool:
        """Whether the newest attempt at an instant completed it with this file."""
        if instant.action not in COMMITS:
            return True
        try:
            mark = read_commit(self.read(instant), path=self.path(instant)).extra.get(ATTEMPT)
        except CorruptFileError:
            return False
        return mark == self.last_rollback(instant.time, timeline)

    def _is_of_other(self, instant: Instant, after: InstantTime, timeline: Timeline) -> bool:
        """Whether another attempt than the announced one completed a plan.  Only the content of the
        announced one is cached, as the other file will be removed."""
        if self.last_rollback(instant.time, timeline) != after:
            return False
        known = self._commits.get(instant)
        if known is None or known.extra.get(ATTEMPT) != after:
            known = read_commit(self.read(instant), path=self.path(instant))
            if known.extra.get(ATTEMPT) == after:
                self._commits[instant] = known
        return known.extra.get(ATTEMPT) != after

    def last_rollback(self, time: InstantTime, timeline: Timeline) -> InstantTime | None:
        """The newest rollback of an instant on the timeline; None if there is none."""
        for instant in reversed(timeline.where(UNDO_ACTIONS).instants):
            with suppress(CorruptFileError, FileMissingError):
                if instant.time > time and time in self.taken_back(instant):
                    return instant.time
        return None

    def announce_attempt(self, time: InstantTime, timeline: Timeline) -> None:
        """Announce that a plan runs, if it was rolled back before: from now on only the commit
        of this attempt completes it.  The caller holds the table's lock."""
        after = self.last_rollback(time, timeline)
        if after is None:
            return
        attempt = attempt_name(time, after)
        self.fs.create(f"{self.folder}/{attempt}", b"")
        names = outdated_names(self.fs.names(self.folder), time, timeline.pending.times)
        self.fs.delete(f"{self.folder}/{name}" for name in names if name != attempt)

    def end_attempt(self, time: InstantTime, timeline: Timeline) -> None:
        """Remove the announcement of a completed plan.  timeline: the one it was announced on."""
        after = self.last_rollback(time, timeline)
        if after is not None:
            self.fs.delete([f"{self.folder}/{attempt_name(time, after)}"])

    def attempt_mark(self, time: InstantTime, timeline: Timeline) -> dict[str, str]:
        """The entry of the completed instant's extra metadata that names its attempt."""
        after = self.last_rollback(time, timeline)
        return {} if after is None else {ATTEMPT: after}

    def taken_back(self, instant: Instant) -> frozenset[InstantTime]:
        """The instants that a rollback or restore undoes, or will undo.  Read once.

        Raises CorruptFileError for a truncated plan."""
        known = self._taken_back.get(instant)
        if known is None:
            known = frozenset(
                undone_instants(instant, lambda i, state: self.record(replace(i, state=state)))
            )
            self._taken_back[instant] = known
        return known

    def read(self, instant: Instant) -> bytes:
        return self.fs.read(self.path(instant))

    def record(self, instant: Instant) -> dict[str, Any]:
        """The Avro record of a service's plan or result; {} if the file is empty."""
        return read_avro(self.read(instant), path=self.path(instant))

    def commit(self, instant: Instant) -> CommitMetadata:
        """The metadata of a completed commit, or an inflight one's profile.  Read once.

        Snapshots that are older than `load`, such as a dataset's, find archived commits too.
        """
        known = self._commits.get(instant) or self._assumed.get(instant)
        if known is None:
            try:
                data = self.read(instant)
            except FileMissingError:
                known = self._from_archive(instant)
                if known is None:
                    raise
                return known
            if instant.is_completed and not data.strip():
                raise CorruptFileError(
                    "the file of a completed commit is empty",
                    path=self.path(instant),
                    hint="run table.doctor() to list possible repairs",
                )
            known = read_commit(data, path=self.path(instant))
            if instant.is_completed:
                self._commits[instant] = known
        return known

    def _from_archive(self, instant: Instant) -> CommitMetadata | None:
        if self._archived is None or not instant.is_completed:
            return None
        found = self._archived(instant)
        if found is not None:
            self._commits[instant] = found
        return found

    def assume(self, instant: Instant, content: bytes) -> None:
        """Cache a completed instant's content before its file exists."""
        assert instant.is_completed
        self._assumed[instant] = read_commit(content, path=self.path(instant))

    def requested(self, instant: Instant) -> dict[str, Any]:
        """The plan of a pending instant: the record of its requested file, {} if there is none.

        Raises CorruptFileError for an empty plan of a compaction that logs may be based on."""
        requested = replace(instant, state=State.REQUESTED)
        try:
            found = self.record(requested)
        except FileMissingError:
            return {}
        if not found and instant.action is Action.COMPACTION and self.layout.logs_name_slices:
            raise CorruptFileError(
                "the plan of a compaction is empty",
                path=self.path(requested),
                hint="run table.doctor() to list possible repairs",
            )
        return found

    def plan(self, instant: Instant, read: PlanReader[T_co]) -> T_co:
        """The plan of a service, from its requested file; an empty one if there is no file.

        Raises CorruptFileError."""
        requested = replace(instant, state=State.REQUESTED)
        return read(self.requested(instant), path=self.path(requested))

    def is_clustering(self, instant: Instant) -> bool:
        """Whether an instant is a clustering, which rewrites rows and adds none: by its action,
        or by the operation in its requested file."""
        if instant.action is Action.CLUSTERING:
            return True
        if instant.action is not Action.REPLACE_COMMIT:
            return False
        actions: list[Action] = [instant.action]
        if instant.is_completed:  # its requested file may have the name of a pending clustering
            actions = list(dict.fromkeys([Action(self.layout.clustering_action), *actions]))
        return any(is_clustering(self.requested(replace(instant, action=a))) for a in actions)

    def encode(self, commit: CommitMetadata) -> bytes:
        """The content of a commit's completed or inflight file in this table's layout."""
        is_avro = self.layout.commit_encoding is CommitEncoding.AVRO
        return to_avro(commit) if is_avro else commit.to_json()

    def request(
        self,
        action: Action,
        content: bytes = b"",
        *,
        now: Timeline | None = None,
        after: InstantTime | None = None,
    ) -> Instant:
        """Reserve a new instant, later than every other on the timeline, and than `after`.

        now: the timeline, listed under the current lock; None: it is listed here.  The writer that
        creates the requested file owns the time; after a lost race, another time is tried.
        """
        for _ in range(_ATTEMPTS):
            known = (now or self.load()).newest_time
            newest = max(filter(None, (known, after)), default=None)
            now = None
            instant = Instant(self._free_time(newest), action, State.REQUESTED)
            if self._create_requested(instant, content):
                return instant
        raise StorageError("could not reserve an instant time", attempts=_ATTEMPTS, retryable=True)

    def _free_time(self, newest: InstantTime | None) -> InstantTime:
        """A time after `newest` that no service of the metadata table has.

        Where those have times of their own, they follow the newest one of both timelines, as this
        does if the clock is behind it.
        """
        time = next_instant(newest, self._clock, self.zone)
        is_fresh = self.layout.metadata_instants is MetadataInstants.FRESH
        if newest is None or time != following(newest) or not is_fresh:
            return time
        own = _timeline(tuple(self.fs.names(f"{METADATA_TABLE}/{self.layout.timeline_folder}")))
        return next_instant(max(newest, own.newest_time or newest), self._clock, self.zone)

    def new_time(self, *, after: InstantTime | None = None) -> InstantTime:
        """A time later than every other on the timeline and than `after`, not reserved yet."""
        newest = max(filter(None, (self.load().newest_time, after)), default=None)
        return next_instant(newest, self._clock, self.zone)

    def request_at(self, time: InstantTime, action: Action, content: bytes = b"") -> Instant:
        """Reserve an instant at a given time, as the metadata table does for its data table."""
        instant = Instant(time, action, State.REQUESTED)
        if not self._create_requested(instant, content):
            raise WriteConflictError(
                "another writer has taken this instant", instant=time, action=action.value
            )
        return instant

    def _create_requested(self, instant: Instant, content: bytes) -> bool:
        """A plan is durable immediately.  An empty file becomes durable with the inflight file,
        which is created before the instant writes anything.

        Raises LockError for a plan if the table's lock was lost: others may have changed what it
        was made for."""
        if content:
            check_lock(self.fs)
        return self.fs.create(self.path(instant), content, durable=bool(content))

    def start(self, instant: Instant, content: bytes = b"") -> Instant:
        """requested -> inflight."""
        assert instant.state is State.REQUESTED
        inflight = replace(instant, state=State.INFLIGHT)
        if not self.fs.create(self.path(inflight), content):
            raise WriteConflictError("another writer has started this instant", instant=instant)
        return inflight

    def complete(
        self, instant: Instant, content: bytes, *, after: InstantTime | None = None
    ) -> Instant:
        """inflight -> completed: the commit point.  Raises WriteConflictError if it is taken.

        Every file that `content` names must already be durable.  after: a time of another timeline
        that the completion time has to exceed.
        """
        assert instant.state is State.INFLIGHT and content
        at = self._completion_time(instant, after) if self.layout.has_completion_times else None
        completed = replace(instant, state=State.COMPLETED, completed_at=at)
        if not self.fs.create(self.path(completed), content):
            raise WriteConflictError("another writer has completed this instant", instant=instant)
        if at is not None:
            wait_until(at, self._clock, self.zone)
        return completed

    def _completion_time(self, instant: Instant, after: InstantTime | None) -> InstantTime:
        """A time after every requested and completion time on the timeline.  A repeated request
        for the same instant gets the same time, and so the same file, if it is still the newest.

        Cost: a listing of the timeline.
        """
        now = self.load()
        if any(late.time == instant.time for late in self.late):
            raise WriteConflictError("another attempt has completed this instant", instant=instant)
        done = now.completed(instant)
        if done is not None and done.completed_at is not None:
            return done.completed_at
        newest = max(filter(None, (now.newest_time, after)), default=None)
        drawn = self._drawn.get(instant)
        if drawn is None or (newest is not None and drawn <= newest):
            drawn = next_instant(newest, self._clock, self.zone)
            self._drawn = {instant: drawn}
        return drawn

    def unpublish(self, instant: Instant) -> None:
        """completed -> inflight: the instant becomes invisible.  The first step of its rollback.

        instant: its completion time may be unknown; it is then looked up on the store.
        """
        assert instant.is_completed
        self._commits.pop(instant, None)
        self._assumed.pop(instant, None)
        if self.layout.has_completion_times and instant.completed_at is None:
            self.fs.delete(map(self.path, self._completions(instant)))
        else:
            self.fs.delete([self.path(instant)])

    def _completions(self, instant: Instant) -> list[Instant]:
        """The completed files of an instant on the store."""
        ends = COMPLETES_AS[instant.action]
        found = filter(None, map(parse_instant_name, self.fs.names(self.folder)))
        return [i for i in found if i.is_completed and (i.time, i.action) == (instant.time, ends)]

    def reopen(self, instant: Instant) -> None:
        """inflight -> requested: a failed planned service waits for its next run."""
        assert not instant.is_completed
        self.fs.delete([self.path(replace(instant, state=State.INFLIGHT))])

    def forget(self, instant: Instant) -> None:
        """Remove a pending instant's files, inflight first; the last step of a rollback."""
        assert not instant.is_completed
        for state in (State.INFLIGHT, State.REQUESTED):
            self.fs.delete([self.path(replace(instant, state=state))])
