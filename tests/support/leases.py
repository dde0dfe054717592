"""Processes of one test that share a table whose lock is a lease; each can stand still."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pyhudi.storage.filesystem import Bytes
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.numbered_lease import NumberedLease
from pyhudi.storage.locks.table_lock import check_fence
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore

LEASE_SECONDS = 0.5


class Process:
    """A process: between `stop` and `resume` none of its threads changes the store.

    before, after: called with the path of each file it creates or replaces, around that, in the
    thread that does so.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.before: Callable[[str], None] = lambda path: None
        self.after: Callable[[str], None] = lambda path: None
        self._running = threading.Event()
        self._running.set()
        self._resumed = threading.Event()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stand still, with all threads, until another thread resumes the process."""
        self._running.clear()
        self._stopped.set()
        self._running.wait(60)

    def pause(self) -> None:
        """Stand still in this thread alone: the lease is renewed meanwhile."""
        self._resumed.clear()
        self._stopped.set()
        self._resumed.wait(60)

    def resume(self) -> None:
        self._stopped.clear()
        self._running.set()
        self._resumed.set()

    def wait_for_stop(self) -> None:
        assert self._stopped.wait(60), f"{self.name} did not come to where it should stop"

    def go_on(self) -> None:
        self._running.wait(60)


class LeasedFileSystem(MemoryFileSystem):
    """A MemoryFileSystem as one process sees it, whose lock is a lease on numbered files."""

    def __init__(self, store: MemoryStore, process: Process, root: str = "") -> None:
        super().__init__(store, root)
        self.process = process
        self._parent: LeasedFileSystem | None = None

    def sub(self, folder: str) -> LeasedFileSystem:
        deeper = LeasedFileSystem(self.store, self.process, super().sub(folder).root)
        deeper._parent = self._parent or self
        return deeper

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        self.process.go_on()
        check_fence(self._parent or self, path)
        full = self._file(path)
        self.process.before(full)
        done = super().create(path, data, durable=durable)
        self.process.after(full)
        return done

    def replace(self, path: str, data: Bytes) -> None:
        self.process.go_on()
        check_fence(self._parent or self, path)
        self.process.before(self._file(path))
        super().replace(path, data)
        self.process.after(self._file(path))

    def delete(self, paths: Iterable[str]) -> None:
        self.process.go_on()
        for path in paths:
            check_fence(self._parent or self, path)
            super().delete([path])

    def mutex(self, path: str) -> LeaseMutex:  # type: ignore[override]
        key = f"{id(self.store)}/{self.process.name}/{self._file(path)}"
        return LeaseMutex(NumberedLease(self, path), key, lease_seconds=LEASE_SECONDS)


class Call(threading.Thread):
    """One call in a thread of its own: what came of it after `ended`."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self.result: object = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._act()
        except Exception as error:
            self.error = error

    def ended(self) -> Call:
        self.join(60)
        assert not self.is_alive(), "the call does not end"
        return self
