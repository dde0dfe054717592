"""The commit protocol of a write: begin -> plan -> write -> publish.

```
                 WHOLE_WRITE                      BEGIN_AND_END
begin            lock                             lock
plan_on          -                                T requested, heartbeat, lock released
  (plan)
request          T requested                      -
begin_metadata   delta commit T begins            -
start            T inflight                       T inflight
  (write)
ending           no conflicts                     lock; no conflicts
begin_metadata   -                                delta commit T begins
complete         T completed                      T completed
  (error, lost)  T rolled back                    lock; T rolled back
end              lock released
```

Only the lock policy differs: under BEGIN_AND_END other writers begin, commit and run services
during the work.  A lost race is a value, `Overtaken`: the caller plans the write again, or raises
its error.  docs/transactions.md describes the guarantees of both policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import (
    FileMissingError,
    Overtaken,
    OvertakenError,
    PyhudiError,
    SnapshotExpiredError,
)
from pyhudi.metadata.compaction import run_services
from pyhudi.metadata.delta_commit import MetadataCommit
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.writer import begin_metadata
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import claimed, table_lock, undoing
from pyhudi.transaction.conflicts import WriteSet
from pyhudi.transaction.deferred_publish import DeferredWrite, store_deferred
from pyhudi.transaction.finish import Ending, complete, ending
from pyhudi.transaction.heartbeat import Heartbeat


class LockPolicy(Enum):
    """When a write holds the table's lock."""

    WHOLE_WRITE = "whole write"
    BEGIN_AND_END = "begin and end"


Rollback = Callable[[FileSystem, TableConfig, TimelineLog, Timeline, WriteOptions, Engine], object]


@dataclass(slots=True)
class Transaction:
    """One instant of the table, from the lock to its commit point; a context manager.

    purpose: shown to writers that wait for the lock.  roll_back: of the failed writes of the
    table, a layer above.  now: the timeline as last listed under the
    lock.  metadata: the delta commit of the metadata table, once begun.  lost: the race that this
    transaction lost.  A lost race or an error within the `with` rolls the instant back; if that
    fails too, the next writer does it.
    """

    fs: FileSystem
    options: WriteOptions
    engine: Engine
    policy: LockPolicy
    purpose: str
    roll_back: Rollback
    now: Timeline = field(default_factory=Timeline, init=False)
    metadata: MetadataCommit | None = field(default=None, init=False)
    lost: Overtaken | None = field(default=None, init=False)
    _lock: ExitStack = field(default_factory=ExitStack, init=False)
    _state: TableState | None = field(default=None, init=False)
    _request_args: tuple[Action, bytes] | None = field(default=None, init=False)
    _instant: Instant | None = field(default=None, init=False)
    _beat: Heartbeat | None = field(default=None, init=False)
    _has_ended: bool = field(default=False, init=False)

    @property
    def instant(self) -> Instant:
        """The instant, after it was requested."""
        assert self._instant is not None
        return self._instant

    @property
    def state(self) -> TableState:
        """The table that the write is planned on."""
        assert self._state is not None
        return self._state

    @property
    def is_whole(self) -> bool:
        return self.policy is LockPolicy.WHOLE_WRITE

    def __enter__(self) -> Self:
        purpose = self.purpose if self.is_whole else f"begin {self.purpose}"
        self._lock.enter_context(table_lock(self.fs, self.options, purpose))
        return self

    def plan_on(self, state: TableState, action: Action, content: bytes) -> None:
        """Plan the write on `state`, which was read under the lock.

        content: of the requested instant's file.  Under BEGIN_AND_END this requests the instant
        and releases the lock; due services of the metadata table run before that.
        """
        self._state, self._request_args = state, (action, content)
        if self.is_whole:
            return
        metadata = open_metadata(state.fs, state.config, state.log, state.timeline)
        if metadata is not None:
            after = self.options.metadata_compact_after
            run_services(metadata, compact_after=after, engine=self.engine)
        self._request(state.timeline, beats=True)
        self._lock.close()

    def request(self) -> None:
        """Request the instant, unless `plan_on` has done so."""
        if self._instant is None:
            beats = self.options.concurrency.always_beats
            self._request(self.state.log.load(), beats=beats)

    def _request(self, now: Timeline, *, beats: bool) -> None:
        assert self._request_args is not None
        action, content = self._request_args
        self._instant = self.state.log.request(action, content, now=now)
        self.now = now.having(self._instant)
        if beats:
            self._beat = claimed(self.fs, self._instant, self.options)

    def forget(self) -> None:
        """Remove the instant of a write that has nothing to do."""
        if self._instant is not None:
            self.state.log.forget(self._instant)
        self._has_ended = True

    def relist(self) -> None:
        """List the timeline again, after changing it under the lock."""
        self.now = self.state.log.load()

    def begin_metadata(self) -> MetadataCommit:
        """Begin the delta commit of the metadata table, under the lock; finish it, then
        `complete`."""
        state = self.state
        self.metadata = begin_metadata(
            state.fs,
            state.config,
            state.log,
            self.now,
            self.instant,
            engine=self.engine,
            compact_after=self.options.metadata_compact_after,
        )
        return self.metadata

    def start(self, profile: CommitMetadata) -> None:
        """Make the instant inflight; its files may be written from now on."""
        self._instant = self.state.log.start(self.instant, self.state.log.encode(profile))

    @contextmanager
    def ending(self, touched: WriteSet) -> Iterator[Ending | Overtaken]:
        """The end, under the lock, or the concurrent change that conflicts.  Raises LockError."""
        with ending(self.state, self.instant, self.options, touched=touched) as ended:
            if isinstance(ended, Ending):
                self.now = ended.now
            yield ended

    def complete(self, content: bytes) -> None:
        """The commit point; see `finish.complete`."""
        self._instant = complete(self.state, self.instant, content)
        self._has_ended = True

    def defer(self, content: bytes, report: dict[str, object]) -> None:
        """Stop one step before the commit point, until the write is published or discarded."""
        store_deferred(self.fs, self.instant, DeferredWrite(self.state.timeline, content, report))
        self._has_ended = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool:
        """Roll back after an error or a lost race.  True, which ends an error, only if the error
        is a lost race: see `lost`."""
        try:
            if error is not None and isinstance(error, PyhudiError | OSError | pa.ArrowException):
                self._roll_back(error)
                self.lost = self._race_lost_by(error)
                return self.lost is not None
            if self.lost is not None:
                self._roll_back(self.lost.error)
            return False
        finally:
            if self._beat is not None:
                self._beat.stop()
            if self.lost is None:
                self._lock.__exit__(kind, error, at)
            else:
                self._lock.close()

    def _roll_back(self, error: BaseException) -> None:
        if self._instant is None or self._has_ended:
            return
        with undoing(error), table_lock(self.fs, self.options, "rollback"):
            check_lock(self.fs)
            if self._beat is not None:
                self._beat.stop()
            log, config = self.state.log, self.state.config
            self.roll_back(self.fs, config, log, log.load(), self.options, self.engine)

    def _race_lost_by(self, error: BaseException) -> Overtaken | None:
        """Whether a file is missing because concurrent processes have cleaned it."""
        if self._instant is None or self._has_ended or self.is_whole:
            return None
        if not isinstance(error, FileMissingError | SnapshotExpiredError) or not self._has_moved():
            return None
        reason = OvertakenError(
            "files that this write was planned on were cleaned", path=error.facts.get("path")
        )
        reason.__cause__ = error
        return Overtaken(reason)

    def _has_moved(self) -> bool:
        """Whether other processes have committed or cleaned since."""
        now, then = self.state.log.load(), self.state.timeline
        return now.where(None, State.COMPLETED) != then.where(None, State.COMPLETED)
