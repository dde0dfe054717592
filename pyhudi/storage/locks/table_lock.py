"""The table's writer lock: one writer at a time among threads and processes.

Every writer of this package takes the table's own lock, which the store gives: on the local disk
an advisory lock of the operating system (flock) on `.hoodie/.pyhudi.lock`, so the death of its
holder frees it; elsewhere a lease, see `lease.py`.  Who holds it is signed beside it, for the
message of those who wait in vain; that text decides nothing.  Apache Hudi and hudi-rs pass over
these names and do not take this lock.

Where options name a lock provider of Apache Hudi, its lock is taken besides, inside the own one:
then writers of both packages exclude each other, and at most one of this package waits for it.

A store or a provider offers a `Mutex`; TableLock adds re-entrance, the wait and the message.
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
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from pyhudi.errors import LockError, StorageError
from pyhudi.options import LockRules
from pyhudi.storage.filesystem import FileSystem, Mutex
from pyhudi.storage.locks.providers import provided

LOCK: Final = ".hoodie/.pyhudi.lock"
WAIT_SECONDS: Final = 60.0

_log = logging.getLogger("pyhudi")
_SIGNED: Final = ("pid", "host", "thread", "purpose", "since")


class TableLock:
    """The writer lock of the table that `fs` is rooted at.

    A context manager, re-entrant in a thread, also through another TableLock of the same table.
    Leaving the outermost `with` frees it; so does the end of the process, however it comes.
    wait_seconds: how long to wait for other writers before LockError.  rules: the lock of Apache
    Hudi that is taken besides, if any.
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
        """Whether the calling thread holds it."""
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
        self._own.beside.extend(self._gates[1:])
        return self

    def _enter(self, gate: _Gate, end: float) -> None:
        if not gate.enter(max(end - time.monotonic(), 0)):
            raise LockError(
                "another writer holds the table's lock",
                path=gate.where,
                waited_seconds=self._wait_seconds,
                **gate.signature(),
                hint="wait for it to end, or allow a longer wait",
            )
        if gate.depth == 1:
            gate.wait_seconds = self._wait_seconds
            gate.sign(self._purpose)

    def __exit__(self, *_: object) -> None:
        for gate in self._gates[1:]:
            self._own.beside.remove(gate)
        for gate in reversed(self._gates):
            gate.leave()


def check_lock(fs: FileSystem) -> None:
    """Raise LockError if this process held the lock of the table at `fs` and has lost it.

    Requested right before a commit is published, and before anything is rolled back.  The store,
    or the provider, is asked who holds the lock now, and a lease is renewed: what follows within
    one lease is done by its holder.
    """
    for gate in _held_gates(fs):
        if not gate.confirm():
            raise lock_lost(gate.where)


def check_lease(fs: FileSystem) -> None:
    """`check_lock` by the clock alone, without asking the store: what has run out is lost."""
    for gate in _held_gates(fs):
        if not gate.seconds_left():
            raise lock_lost(gate.where)


def lock_lost(where: str) -> LockError:
    return LockError(
        "the table's lock was lost while the write went on",
        path=where,
        hint="the process stood still or was cut off for longer than a lease, or the lock was"
        " removed by hand; write again",
    )


def lock_seconds_left(fs: FileSystem) -> float:
    """For how long from now the lock of the table at `fs` is certainly held; infinity where
    only the end of this process frees it, or where it is not held at all."""
    return min((gate.seconds_left() for gate in _held_gates(fs)), default=math.inf)


def was_held_throughout(fs: FileSystem) -> bool:
    """Whether no other process can have held the lock since it was confirmed last.

    A lease is judged by the clock alone; a lock of Apache Hudi's by asking its provider again.
    """
    gates = _held_gates(fs)
    return all(gate.seconds_left() > 0 for gate in gates[:1]) and all(
        gate.confirm() for gate in gates[1:]
    )


def retake_lock(fs: FileSystem, wait_seconds: float) -> None:
    """Take the lock again that this thread has lost, and hold it until its `with` ends.

    Others may have written meanwhile: what was known of the table is void.  Raises LockError.
    """
    gates = _held_gates(fs)
    for gate in reversed(gates):
        gate.give_back()
    end = time.monotonic() + wait_seconds
    for gate in gates:
        if not gate.retake(max(end - time.monotonic(), 0)):
            raise lock_lost(gate.where)


def lock_wait_seconds(fs: FileSystem) -> float:
    """How long the holder of the lock was ready to wait for it."""
    return max((gate.wait_seconds for gate in _held_gates(fs)), default=0.0)


def _held_gates(fs: FileSystem) -> list[_Gate]:
    """The gates of the table's lock that this process is in, outermost first."""
    own = _gate_of(fs.mutex(LOCK), f"{fs.url}/{LOCK}")
    return [gate for gate in (own, *own.beside) if gate.depth]


class _Gate:
    """One mutex of this process: threads queue at an RLock, the process at the store's mutex."""

    def __init__(self, mutex: Mutex, where: str) -> None:
        self.where = where
        self.depth = 0
        self.owner: int | None = None
        self.beside: list[_Gate] = []  # of providers, held with this one
        self._mutex = mutex
        self._threads = threading.RLock()
        self._turn = threading.Lock()  # those who wait, one at a time before who comes back
        self._is_gone = False  # given back before the end, and not retaken
        self.wait_seconds = 0.0  # of the holder

    def confirm(self) -> bool:
        return not self._is_gone and self._mutex.confirm()

    def seconds_left(self) -> float:
        return 0.0 if self._is_gone else self._mutex.seconds_left()

    def give_back(self) -> None:
        """Free the mutex, if it is held still, though the gate is not left yet."""
        if not self._is_gone:
            self._is_gone = True
            with suppress(StorageError):
                self._mutex.release()

    def retake(self, wait_seconds: float) -> bool:
        self._is_gone = not self._mutex.acquire(wait_seconds)
        return not self._is_gone

    def enter(self, wait_seconds: float) -> bool:
        """Whether it was entered within the wait."""
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
        except StorageError as error:  # what was done under it stands
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
        """Who signed last.  One who died leaves it behind: it names a suspect, no more."""
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
    """A forked child holds nothing that its parent held."""
    global _GATES, _GATES_LOCK
    _GATES, _GATES_LOCK = WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_gates)
