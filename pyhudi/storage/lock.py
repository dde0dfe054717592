"""The table's writer lock: one writer at a time among threads and processes of this package.

On the local disk it is an advisory lock of the operating system (flock) on `.hoodie/.pyhudi.lock`,
so the death of its holder frees it; nothing is ever judged by age.  Who holds it is signed beside
it, for the message of those who wait in vain; that text decides nothing.  Apache Hudi and hudi-rs
pass over both names, and they do not take this lock: it guards pyhudi's writers against each
other.

A store offers a `Mutex`; TableLock adds re-entrance, the wait and the message.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from datetime import UTC, datetime
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from pyhudi.errors import LockError
from pyhudi.storage.filesystem import FileSystem, Mutex

LOCK: Final = ".hoodie/.pyhudi.lock"
WAIT_SECONDS: Final = 60.0

_SIGNED: Final = ("pid", "host", "thread", "purpose", "since")


class TableLock:
    """The writer lock of the table that `fs` is rooted at.

    A context manager, re-entrant in a thread, also through another TableLock of the same table.
    Leaving the outermost `with` frees it; so does the end of the process, however it comes.
    wait_seconds: how long to wait for another writer before LockError.
    """

    def __init__(
        self, fs: FileSystem, *, purpose: str = "write", wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._where = f"{fs.url}/{LOCK}"
        self._purpose = purpose
        self._wait_seconds = wait_seconds
        self._gate = _gate_of(fs.mutex(LOCK))

    @property
    def is_held(self) -> bool:
        """Whether the calling thread holds it."""
        return self._gate.owner == threading.get_ident()

    def __enter__(self) -> Self:
        if not self._gate.enter(self._wait_seconds):
            raise LockError(
                "another writer holds the table's lock",
                path=self._where,
                waited_seconds=self._wait_seconds,
                **self._gate.signature(),
                hint="wait for it to end, or allow a longer wait",
            )
        if self._gate.depth == 1:
            self._gate.sign(self._purpose)
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.leave()


def check_lock(fs: FileSystem) -> None:
    """Raise LockError if this process held the lock of the table at `fs` and has lost it.

    Asked right before a commit is published: only leases can be lost, see `lease.py`.
    """
    if _gate_of(fs.mutex(LOCK)).is_lost:
        raise LockError(
            "the table's lock was lost while the write went on",
            path=f"{fs.url}/{LOCK}",
            hint="the process stood still or was cut off for longer than a lease; write again",
        )


class _Gate:
    """One mutex of this process: threads queue at an RLock, the process at the store's mutex."""

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._threads = threading.RLock()
        self.depth = 0
        self.owner: int | None = None

    @property
    def is_lost(self) -> bool:
        return self._mutex.is_lost

    def enter(self, wait_seconds: float) -> bool:
        """Whether it was entered within the wait."""
        end = time.monotonic() + wait_seconds
        if not self._threads.acquire(timeout=max(wait_seconds, 0)):
            return False
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
                self._mutex.release()
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


def _gate_of(mutex: Mutex) -> _Gate:
    with _GATES_LOCK:
        gate = _GATES.get(mutex.key)
        if gate is None:
            gate = _GATES[mutex.key] = _Gate(mutex)
        return gate


def _forget_gates() -> None:
    """A forked child holds nothing that its parent held."""
    global _GATES, _GATES_LOCK
    _GATES, _GATES_LOCK = WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_gates)
