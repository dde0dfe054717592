"""The table's writer lock: one writer at a time among threads and processes.

Every writer of this package takes the table's own lock, which the store provides: on local disk
an advisory lock of the operating system (flock) on `.hoodie/.pyhudi.lock`, which the end of its
holder releases; elsewhere a lease, see `lease.py`.  The holder's signature is stored next to it
for the error message of waiting writers; it has no other effect.  Apache Hudi and hudi-rs ignore
these names and do not take this lock.

If options name a lock provider of Apache Hudi, its lock is taken too, inside the table's own one:
writers of both packages then exclude each other, and at most one of this package waits for it.

A store or a provider has a `Mutex`; TableLock adds re-entrance, the wait and the message.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    LockError,
    SnapshotExpiredError,
    StorageError,
    TableNotFoundError,
)
from pyhudi.filenames import HEARTBEATS, HOLDS
from pyhudi.options import LockRules
from pyhudi.storage.filesystem import FileSystem, Mutex
from pyhudi.storage.locks.providers import provided

LOCK: Final = ".hoodie/.pyhudi.lock"
WAIT_SECONDS: Final = 60.0
_NOTICE_SECONDS: Final = 2.0
_NOTICES_SECONDS: Final = 15.0
_UNFENCED: Final = (LOCK, HEARTBEATS, HOLDS)
# What a holder may meet that goes on with state which the next holder has replaced.
_OUTDATED: Final = (
    FileMissingError, SnapshotExpiredError, CorruptFileError, IndexNotReadyError,
    TableNotFoundError,
)  # fmt: skip

_log = logging.getLogger("pyhudi")
_SIGNED: Final = ("pid", "host", "thread", "purpose", "since")


class TableLock:
    """The writer lock of the table at the root of `fs`.

    A context manager, re-entrant in a thread, also through another TableLock of the same table.
    Leaving the outermost `with` releases it; so does the end of the process, also by a crash.
    wait_seconds: how long to wait for other writers before LockError.  rules: the additional lock
    of Apache Hudi, if any.
    """

    def __init__(
        self,
        fs: FileSystem,
        *,
        purpose: str = "write",
        wait_seconds: float = WAIT_SECONDS,
        rules: LockRules | None = None,
    ) -> None:
        self._purpose = purpose
        self._wait_seconds = wait_seconds
        self._own = _gate_of(fs.mutex(LOCK), f"{fs.url}/{LOCK}")
        other = provided(fs, rules) if rules else None
        self._gates = [self._own]
        if other is not None:
            self._gates.append(_gate_of(other, other.key.partition(":")[2]))

    @property
    def is_held(self) -> bool:
        """Whether the calling thread holds the lock."""
        return self._own.owner == threading.get_ident()

    def __enter__(self) -> Self:
        end = time.monotonic() + self._wait_seconds
        entered: list[_Gate] = []
        try:
            for gate in self._gates:
                self._enter(gate, end)
                entered.append(gate)
        except BaseException:
            for gate in reversed(entered):
                gate.leave()
            raise
        self._own.inner.extend(self._gates[1:])
        return self

    def _enter(self, gate: _Gate, end: float) -> None:
        """Raises LockError.  A wait is logged: soon, and then at times."""
        began, pause = time.monotonic(), _NOTICE_SECONDS
        while not gate.enter(max(min(pause, end - time.monotonic()), 0)):
            holder, pause = gate.signature(), _NOTICES_SECONDS
            if time.monotonic() >= end:
                raise LockError(
                    "another writer holds the table's lock",
                    path=gate.where,
                    waited_seconds=self._wait_seconds,
                    **holder,
                    hint="wait for it to finish, or allow a longer wait",
                )
            _log.warning(
                "waiting for a lock since %.0f s, for at most %.0f s (%s): %s; %s",
                time.monotonic() - began,
                self._wait_seconds,
                "hoodie.write.lock.wait_time_ms",
                gate.where,
                ", ".join(f"{k}={v}" for k, v in holder.items()) or "holder unknown",
            )
        if gate.depth == 1:
            gate.wait_seconds = self._wait_seconds
            gate.sign(self._purpose)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises LockError for a missing or damaged file, index or table after the lock was lost:
        others have changed the table, and what is left of the files that were listed may look
        damaged, or like no table."""
        is_lost = not self._own.seconds_left()
        for gate in self._gates[1:]:
            self._own.inner.remove(gate)
        for gate in reversed(self._gates):
            gate.leave()
        if is_lost and isinstance(error, _OUTDATED):
            raise lock_lost(self._own.where) from error


def check_lock(fs: FileSystem) -> None:
    """Raise LockError if this process held the lock of the table at `fs` and has lost it.

    Called right before a commit is published, and before anything is rolled back.  Requests the
    current holder from the store or the provider, and renews a lease: for one lease from now,
    this process is the holder.
    """
    for gate in _held_gates(fs):
        if not gate.confirm():
            raise lock_lost(gate.where)


def check_lease(fs: FileSystem) -> None:
    """`check_lock` by the clock only, without a request to the store: an expired lock is lost."""
    for gate in _held_gates(fs):
        if not gate.seconds_left():
            raise lock_lost(gate.where)


def check_fence(fs: FileSystem, path: str) -> None:
    """`check_lease` before a file of the table at `fs` is created, replaced or deleted: a process
    that stood still for longer than its lease changes nothing, whatever it was doing.

    Locks (`lock` is that of Apache Hudi) and heartbeats state who writes them, and are exempt.
    File systems whose locks can expire call it.  A request that has begun cannot be stopped.
    """
    if not path.startswith(_UNFENCED) and path.rpartition("/")[2] != "lock":
        check_lease(fs)


def lock_lost(where: str) -> LockError:
    return LockError(
        "the table's lock was lost during the write",
        path=where,
        hint="the process was stopped or disconnected for longer than a lease, or the lock was"
        " removed by hand; write again",
    )


def lock_seconds_left(fs: FileSystem) -> float:
    """How long from now the lock of the table at `fs` is certainly held; infinity if
    only the end of this process releases it, or if it is not held."""
    return min((gate.seconds_left() for gate in _held_gates(fs)), default=math.inf)


def was_held_throughout(fs: FileSystem) -> bool:
    """Whether no other process can have held the lock since it was last confirmed.

    A lease is judged by the clock only; a lock of Apache Hudi by a request to its provider.
    """
    gates = _held_gates(fs)
    return all(gate.seconds_left() > 0 for gate in gates[:1]) and all(
        gate.confirm() for gate in gates[1:]
    )


def retake_lock(fs: FileSystem, wait_seconds: float) -> None:
    """Take the lock again that this thread has lost, and hold it until its `with` ends.

    Others may have written meanwhile: cached state of the table is invalid.  Raises LockError.
    """
    gates = _held_gates(fs)
    for gate in reversed(gates):
        gate.give_back()
    end = time.monotonic() + wait_seconds
    for gate in gates:
        if not gate.retake(max(end - time.monotonic(), 0)):
            raise lock_lost(gate.where)


def lock_wait_seconds(fs: FileSystem) -> float:
    """How long the holder of the lock was willing to wait for it."""
    return max((gate.wait_seconds for gate in _held_gates(fs)), default=0.0)


def lock_signature(fs: FileSystem) -> dict[str, Any]:
    """What the last holder of the lock of the table at `fs` has stated: its process, host, purpose
    and start; empty if nothing is stored.  Takes no lock; the holder may have ended."""
    return _gate_of(fs.mutex(LOCK), f"{fs.url}/{LOCK}").signature()


def is_locked_by_another(fs: FileSystem) -> bool:
    """Whether another process or thread holds the lock of the table at `fs` now; takes no lock.

    Cost: one or two requests.
    """
    mutex = fs.mutex(LOCK)
    gate = _gate_of(mutex, f"{fs.url}/{LOCK}")
    if gate.owner == threading.get_ident():
        return False
    return bool(gate.depth) or mutex.is_held()


def _held_gates(fs: FileSystem) -> list[_Gate]:
    """The gates of the table's lock that this process has entered, outermost first."""
    table_gate = _gate_of(fs.mutex(LOCK), f"{fs.url}/{LOCK}")
    return [gate for gate in (table_gate, *table_gate.inner) if gate.depth]


class _Gate:
    """One mutex of this process: threads queue at an RLock, the process at the store's mutex."""

    def __init__(self, mutex: Mutex, where: str) -> None:
        self.where = where
        self.depth = 0
        self.owner: int | None = None
        self.inner: list[_Gate] = []  # of providers, held together with this one
        self._mutex = mutex
        self._threads = threading.RLock()
        self._turn = threading.Lock()  # waiting threads pass one by one, before a returning holder
        self._is_gone = False  # released before the end, and not retaken
        self.wait_seconds = 0.0  # of the holder

    def confirm(self) -> bool:
        return not self._is_gone and self._mutex.confirm()

    def seconds_left(self) -> float:
        return 0.0 if self._is_gone else self._mutex.seconds_left()

    def give_back(self) -> None:
        """Release the mutex, if it is still held, before the gate is left."""
        if not self._is_gone:
            self._is_gone = True
            with suppress(StorageError):
                self._mutex.release()

    def retake(self, wait_seconds: float) -> bool:
        self._is_gone = not self._mutex.acquire(wait_seconds)
        return not self._is_gone

    def enter(self, wait_seconds: float) -> bool:
        """Whether the gate was entered within the wait."""
        end = time.monotonic() + wait_seconds
        if self.owner != threading.get_ident() and not self._turn.acquire(timeout=wait_seconds):
            return False
        try:
            if not self._threads.acquire(timeout=max(end - time.monotonic(), 0)):
                return False
        finally:
            if self.owner != threading.get_ident():
                self._turn.release()
        if self.depth == 0:
            taken = False
            try:
                taken = self._mutex.acquire(max(end - time.monotonic(), 0))
            finally:
                if not taken:
                    self._threads.release()
            if not taken:
                return False
        self.depth += 1
        self.owner = threading.get_ident()
        return True

    def leave(self) -> None:
        assert self.owner == threading.get_ident()
        self.depth -= 1
        try:
            if self.depth == 0:
                self.owner = None
                if not self._is_gone:
                    self._mutex.release()
                self._is_gone = False
        except StorageError as error:  # the work done under it is complete
            _log.warning("a lock could not be released: %s; %s", self.where, error)
        finally:
            self._threads.release()

    def sign(self, purpose: str) -> None:
        facts = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "thread": threading.current_thread().name,
            "purpose": purpose,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._mutex.sign(json.dumps(facts))

    def signature(self) -> dict[str, Any]:
        """The last signature.  A crashed holder's remains: it is only a hint."""
        try:
            facts = json.loads(self._mutex.signature())
        except ValueError:
            return {}
        return {k: facts[k] for k in _SIGNED if k in facts} if isinstance(facts, dict) else {}


_GATES: WeakValueDictionary[str, _Gate] = WeakValueDictionary()
_GATES_LOCK = threading.Lock()


def _gate_of(mutex: Mutex, where: str) -> _Gate:
    with _GATES_LOCK:
        gate = _GATES.get(mutex.key)
        if gate is None:
            gate = _GATES[mutex.key] = _Gate(mutex, where)
        return gate


def _forget_gates() -> None:
    """A forked child does not hold the locks of its parent."""
    global _GATES, _GATES_LOCK
    _GATES, _GATES_LOCK = WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_gates)
