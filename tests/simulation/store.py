"""Stores of a simulation: an object store behind the real ObjectStoreFileSystem, and a disk.

The object store stands where the library `obstore` does, so the retries, tokens and leases of
pyhudi are real.  The disk is a FileSystem: whole files, a lock that the end of its holder releases,
and files that a power loss removes unless they were synced.

Every call is a turn of the scheduler.  A call may meet a fault, drawn by the seed:

unavailable  500 or 503, nothing was done
conflict     409, nothing was done (object store, conditional puts)
lost         the store did it, the answer is lost
retried      the same, and the client sent it again: the answer is that a condition does not hold
twice        the same of a put without condition, which takes effect again
cut          the connection ends within the content of an object that is read
late         no answer; the request arrives minutes or hours later, or after a while and twice; if
             a repetition of it has made the object meanwhile, it does not bring that back once it
             is deleted: where the store is listed, no library could tell it from the first one
outlives     the same, and the process has ended
freeze       the process stands still for up to hours before the call
kill         the process ends before or after the call
power        every process of the machine ends, and the disk forgets what was not synced: new
             files, and deletions since anything was synced
forget       the store says that it did it, and did not: no library can stand this; it shows that
             the checks see something

Listings are never stale: no store that pyhudi supports has such ones.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa

from pyhudi.errors import StorageError
from pyhudi.recovery.rolled_back_files import LINGERS_SECONDS
from pyhudi.storage.filesystem import Bytes, FileInfo
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.memory import MemoryFileSystem, MemorySink, MemoryStore
from pyhudi.storage.object_store import ObjectStoreFileSystem, _Lease
from pyhudi.storage.sink import PublishedOnClose
from tests.simulation.scheduler import START, BrokenError, Killed, Process, Scheduler

FAULTS: Final = ("unavailable", "conflict", "lost", "retried", "twice", "cut", "late", "outlives",
                 "freeze", "kill", "power")  # fmt: skip
_LATENCY: Final = (0.001, 0.02)
_MINUTE: Final = 60.0
_FOCUSED: Final = 8.0
_FREEZES: Final = (5.0, 40.0, 10 * _MINUTE, 4 * 60 * _MINUTE)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store."""

    at: float
    task: str
    verb: str
    path: str
    outcome: str = ""

    def __str__(self) -> str:
        place = f"{self.task:<18} {self.verb:<8} {self.path}"
        return f"{self.at - START:12.3f}  {place}  {self.outcome}".rstrip()


@dataclass
class Store:
    """The content, who calls it, and what goes wrong.

    focus: a pattern of paths whose calls meet more faults.  changed: called after each change.
    """

    scheduler: Scheduler
    dice: random.Random
    faults: tuple[str, ...] = ()
    rate: float = 0.0
    focus: str = ""
    content: MemoryStore = field(default_factory=MemoryStore)
    tags: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    undurable: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    deleted: dict[str, bytes] = field(default_factory=dict)
    removals: dict[str, int] = field(default_factory=dict)
    trace: list[Call] = field(default_factory=list)
    met: dict[str, int] = field(default_factory=dict)
    changed: Callable[[str], None] = lambda path: None
    processes: list[Process] = field(default_factory=list)
    holders: dict[str, Process] = field(default_factory=dict)

    def note(self, verb: str, path: str, outcome: str = "") -> None:
        task = self.scheduler.current
        if not self.scheduler.is_quiet:
            name = "-" if task is None else task.name
            self.trace.append(Call(self.scheduler.now, name, verb, path, outcome))

    def turn(self, verb: str, path: str, allowed: Iterable[str]) -> str:
        """Let others run before a call; the fault that the caller must act out, or nothing."""
        task = self.scheduler.current
        if task is None or self.scheduler.is_quiet:
            return ""
        self.scheduler.pause(self.dice.uniform(*_LATENCY))
        fault = ""
        rate = self.rate * (_FOCUSED if self.focus and re.search(self.focus, path) else 1.0)
        if rate and self.dice.random() < rate:
            usable = [name for name in self.faults if name in allowed]
            fault = self.dice.choice(usable) if usable else ""
        if fault:
            self.met[fault] = self.met.get(fault, 0) + 1
        if fault == "freeze":
            seconds = self.dice.uniform(0.5, 1.0) * self.dice.choice(_FREEZES)
            self.note(verb, path, f"frozen for {seconds:.0f} s")
            task.process.frozen_until = self.scheduler.now + seconds
            if seconds > LINGERS_SECONDS:
                self.met["freeze that nobody waits for"] = 1
            self.scheduler.pause()
            fault = ""
        if fault in ("kill", "power") and self.dice.random() < 0.5:
            self.end(fault, verb, path)
        return fault

    def end(self, fault: str, verb: str, path: str) -> None:
        """The process that calls ends, or its machine."""
        task = self.scheduler.current
        assert task is not None
        self.note(verb, path, fault)
        self.scheduler.kill(task.process)
        if fault == "power":
            for process in self.processes:
                self.scheduler.kill(process)
            for name in self.undurable:
                if name in self.named:
                    self.content.files[name] = b""
                else:
                    self.content.files.pop(name, None)
            for name, data in self.deleted.items():
                self.content.files.setdefault(name, data)
            self.undurable.clear()
            self.named.clear()
            self.deleted.clear()
        raise Killed

    def synced(self, names: Iterable[str]) -> None:
        """These files are on the disk, and so are the names in their folders, with bytes or
        without; by the order of its journal all deletions are."""
        names = frozenset(names)
        self.undurable -= names
        folders = {name.rpartition("/")[0] for name in names}
        self.named = {
            name
            for name in self.undurable
            if name in self.named or name.rpartition("/")[0] in folders
        }
        self.deleted.clear()

    def put(self, name: str, data: bytes, token: str = "") -> str:
        """Store an object; its new tag."""
        self.content.files[name] = data
        self.content.times[name] = self.scheduler.now
        self.tags[name] = tag = f"{self.dice.getrandbits(64):016x}"
        self.tokens[name] = token
        self.changed(name)
        return tag

    def remove(self, name: str) -> None:
        if self.content.files.pop(name, None) is not None:
            self.removals[name] = self.removals.get(name, 0) + 1
            self.changed(name)


# ---- the object store ------------------------------------------------------------------------

_ALWAYS: Final = ("unavailable", "freeze", "kill")
_PUT: Final = (*_ALWAYS, "lost", "late", "outlives")
_REPLACE: Final = (*_ALWAYS, "lost", "twice")  # nothing tells a late request from a new one
_CREATE: Final = (*_PUT, "conflict", "retried", "forget")
_REWRITE: Final = (*_PUT, "conflict", "retried")
_READ: Final = (*_ALWAYS, "cut")


class _Errors:
    """The exceptions of obstore that pyhudi tells apart."""

    class BaseError(Exception): ...

    class GenericError(BaseError): ...

    class AlreadyExistsError(BaseError): ...

    class PreconditionError(BaseError): ...

    class PermissionDeniedError(BaseError): ...

    class UnauthenticatedError(BaseError): ...


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    meta: dict[str, Any]
    range: tuple[int, int]
    attributes: dict[str, str]
    is_cut: bool

    def bytes(self) -> bytes:
        if self.is_cut:
            raise _Errors.GenericError("the connection was closed within the body")
        return self.body


class _Obstore:
    """The functions of obstore that pyhudi calls, over a Store; a bucket is that store."""

    exceptions = _Errors

    def _call(self, store: Store, verb: str, path: str, allowed: Iterable[str] = _ALWAYS) -> str:
        fault = store.turn(verb, path, allowed)
        if fault == "unavailable":
            store.note(verb, path, "503")
            raise _Errors.GenericError("503 Slow Down")
        if fault == "conflict":
            store.note(verb, path, "409")
            raise _Errors.AlreadyExistsError("409 Conflict")
        return fault

    def _ended(self, store: Store, fault: str, verb: str, path: str, outcome: str = "") -> None:
        """What the caller learns of a call that was carried out."""
        if fault == "kill":
            store.end(fault, verb, path)
        store.note(verb, path, f"{outcome} answer lost" if fault == "lost" else outcome)
        if fault == "lost":
            raise _Errors.GenericError("connection reset")

    def _meta(self, store: Store, name: str) -> dict[str, Any]:
        at = datetime.fromtimestamp(store.content.times[name], UTC)
        size = len(store.content.files[name])
        return {"path": name, "size": size, "last_modified": at, "e_tag": store.tags[name]}

    def _found(self, store: Store, name: str) -> bytes:
        if name not in store.content.files:
            raise FileNotFoundError(name)
        return store.content.files[name]

    def get(self, store: Store, name: str, options: Mapping[str, Any] | None = None) -> _Answer:
        fault = self._call(store, "get", name, _READ)
        body = store.content.files.get(name)
        self._ended(store, fault, "get", name, "missing" if body is None else "")
        body = self._found(store, name)
        first, last = 0, len(body)
        requested = (options or {}).get("range")
        if requested is not None:
            if not body:
                raise _Errors.GenericError("416 Range Not Satisfiable")
            last = len(body)
            if isinstance(requested, Mapping):
                first = max(0, last - requested["suffix"])
            else:
                first, last = requested[0], min(requested[1], last)
        meta, token = self._meta(store, name), store.tokens.get(name, "")
        given = {"pyhudiattempt": token}
        return _Answer(body[first:last], meta, (first, last), given, fault == "cut")

    def get_range(self, store: Store, name: str, *, start: int, length: int) -> bytes:
        fault = self._call(store, "get", name, _READ)
        self._ended(store, "lost" if fault == "cut" else fault, "get", name)
        return self._found(store, name)[start : start + length]

    def head(self, store: Store, name: str) -> dict[str, Any]:
        self._ended(store, self._call(store, "head", name), "head", name)
        self._found(store, name)
        return self._meta(store, name)

    def put(
        self, store: Store, name: str, content: Any, *, mode: Any = "overwrite",
        attributes: Mapping[str, str] | None = None, use_multipart: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        verb = "create" if mode == "create" else "put" if mode == "overwrite" else "put-if"
        data = bytes(content if isinstance(content, bytes) else content.read())
        token = next(iter((attributes or {}).values()), "")

        def refusal() -> Exception | None:
            if mode == "create" and name in store.content.files:
                return _Errors.AlreadyExistsError("412 Precondition Failed")
            if isinstance(mode, Mapping) and store.tags.get(name) != mode["e_tag"]:
                return _Errors.PreconditionError("412 Precondition Failed")
            if isinstance(mode, Mapping) and name not in store.content.files:
                return FileNotFoundError(name)
            return None

        allowed = {"create": _CREATE, "put": _REPLACE}.get(verb, _REWRITE)
        fault = self._call(store, verb, name, allowed)
        if fault in ("late", "outlives"):
            again = store.dice.random() < 0.3
            seconds = store.dice.choice((1.0, *_FREEZES)) * store.dice.uniform(0.5, 1.0)

            before = store.removals.get(name, 0)

            def arrive() -> None:
                if refusal() is None and store.removals.get(name, 0) == before:
                    store.note(verb, name, "arrived late")
                    store.put(name, data, token)

            store.note(verb, name, f"no answer, arrives in {seconds:.0f} s")
            store.scheduler.at(store.scheduler.now + seconds, arrive)
            if fault == "outlives":
                store.end(fault, verb, name)
            if not again:
                raise _Errors.GenericError("request timed out")
        refused = refusal()
        if refused is not None:
            self._ended(store, fault, verb, name, "412")
            raise refused
        if fault == "forget":
            store.note(verb, name, "forgotten")
            return {"e_tag": "forgotten", "version": None}
        tag = store.put(name, data, token)
        if fault == "twice":
            store.note(verb, name, "and once more")
            store.scheduler.pause(store.dice.uniform(*_LATENCY))
            tag = store.put(name, data, token)
        self._ended(store, fault, verb, name)
        if fault == "retried":
            kind = _Errors.AlreadyExistsError if mode == "create" else _Errors.PreconditionError
            raise kind("412 Precondition Failed")
        return {"e_tag": tag, "version": None}

    def delete(self, store: Store, names: str | list[str]) -> None:
        """One request, which the store carries out whole: a process that stands still or ends has
        sent it or not."""
        for number, name in enumerate([names] if isinstance(names, str) else names):
            faults = ("unavailable", "lost") if number else (*_ALWAYS, "lost")
            fault = self._call(store, "delete", name, faults)
            store.remove(name)
            self._ended(store, fault, "delete", name)

    def list(self, store: Store, prefix: str | None, chunk_size: int) -> Iterator[list[Any]]:
        self._ended(store, self._call(store, "list", prefix or ""), "list", prefix or "")
        below = f"{prefix}/" if prefix else ""
        yield [self._meta(store, name) for name in store.content.files if name.startswith(below)]

    def list_with_delimiter(self, store: Store, prefix: str | None) -> dict[str, Any]:
        self._ended(store, self._call(store, "list", prefix or ""), "list", prefix or "")
        below = f"{prefix}/" if prefix else ""
        found: dict[str, Any] = {"common_prefixes": [], "objects": []}
        for name in store.content.files:
            if name.startswith(below):
                head, deeper, _ = name[len(below) :].partition("/")
                if not deeper:
                    found["objects"].append(self._meta(store, name))
                elif f"{below}{head}" not in found["common_prefixes"]:
                    found["common_prefixes"].append(f"{below}{head}")
        return found


class Bucket(ObjectStoreFileSystem):
    """The real file system of object stores, as one process sees it."""

    def __init__(self, store: Store, process: Process, folder: str = "table") -> None:
        super().__init__(f"s3://bucket/{folder}", bucket=store)
        self.store, self.process = store, process

    def sub(self, folder: str) -> Bucket:
        return Bucket(self.store, self.process, self._name(folder)).below_lock_of(self)

    def arrow_file(self, path: str) -> Any:
        """Read here: threads of Arrow are none of the scheduler's."""
        return pa.BufferReader(self.read(path))

    def mutex(self, path: str) -> LeaseMutex:
        return _CheckedLease(self, path, f"{self.process.name}/{self.url}/{path}")


class _CheckedLease(LeaseMutex):
    """A lock that has been renewed when it says so."""

    def __init__(self, bucket: Bucket, path: str, key: str) -> None:
        super().__init__(_Lease(bucket, path), key)
        self._store, self._name = bucket.store, bucket._file(path)

    def confirm(self) -> bool:
        before = self._store.tags.get(self._name)
        is_held = super().confirm()
        if is_held and self._store.tags.get(self._name) == before:
            raise BrokenError("a lock was confirmed that nobody has renewed")
        return is_held


@contextmanager
def simulated_obstore() -> Iterator[None]:
    with (
        patch("pyhudi.storage.object_store._library", lambda: _Obstore()),
        patch("pyhudi.storage.object_store.watched", lambda place: nullcontext()),
    ):
        yield


# ---- the disk --------------------------------------------------------------------------------

_DISK: Final = ("unavailable", "freeze", "kill", "power")


class Disk(MemoryFileSystem):
    """A disk of one machine, as one of its processes sees it."""

    def __init__(self, store: Store, process: Process, root: str = "table") -> None:
        super().__init__(store.content, root)
        self.shared, self.process = store, process

    @property
    def url(self) -> str:
        return f"/{self.root}"

    def sub(self, folder: str) -> Disk:
        return Disk(self.shared, self.process, super().sub(folder).root)

    @contextmanager
    def _turn(self, verb: str, path: str) -> Iterator[None]:
        name = self._name(path)
        fault = self.shared.turn(verb, name, _DISK)
        if fault == "unavailable":
            self.shared.note(verb, name, "input/output error")
            raise StorageError("input/output error", path=name)
        yield
        if fault:
            self.shared.end(fault, verb, name)
        self.shared.note(verb, name)

    def read(self, path: str) -> bytes:
        with self._turn("read", path):
            return super().read(path)

    def exists(self, path: str) -> bool:
        with self._turn("exists", path):
            return super().exists(path)

    def children(self, folder: str = "") -> list[FileInfo]:
        with self._turn("list", folder):
            return super().children(folder)

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        with self._turn("create", path):
            name = self._file(path)
            if name in self.store.files:
                self.shared.note("create", name, "taken")
                return False
            if durable:
                self.shared.synced([name])
            else:
                self.shared.undurable.add(name)
            self.shared.put(name, bytes(data))
            return True

    def replace(self, path: str, data: Bytes) -> None:
        with self._turn("replace", path):
            self.shared.synced([self._file(path)])
            self.shared.put(self._file(path), bytes(data))

    def open_scratch(self, path: str) -> MemorySink:
        return _Scratch(self, path)

    def sync(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        with self._turn("sync", paths[0] if paths else ""):
            self.shared.synced(self._file(path) for path in paths)

    def delete(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            with self._turn("delete", path):
                self._delete(self._file(path))

    def _delete(self, name: str) -> None:
        if name in self.store.files and name not in self.shared.undurable:
            self.shared.deleted[name] = self.store.files[name]
        self.shared.undurable.discard(name)
        self.shared.remove(name)

    def delete_folder(self, folder: str) -> None:
        with self._turn("delete", folder):
            for name in self._below(self._file(folder)):
                self._delete(name)

    def mutex(self, path: str) -> Any:
        return _FileLock(self, self._file(path))


class _Scratch(MemorySink):
    """A file that a power loss removes until it is synced."""

    def close(self) -> None:
        if not self.closed:
            PublishedOnClose.close(self)
            if not self.abandoned and not self._fs.create(self._path, self._data, durable=False):
                raise StorageError("the file already exists", path=f"{self._fs.url}/{self._path}")


class _FileLock:
    """An advisory lock: the end of its holder releases it."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk, self._name, self._holders = disk, name, disk.shared.holders
        self.key = f"file:{disk.process.name}:{name}"

    def _is_free(self) -> bool:
        holder = self._holders.get(self._name)
        return holder is None or holder.has_ended

    def acquire(self, wait_seconds: float) -> bool:
        scheduler = self._disk.shared.scheduler
        scheduler.pause()
        if not self._is_free() and not scheduler.wait(self._is_free, wait_seconds):
            return False
        self._holders[self._name] = self._disk.process
        self._disk.shared.note("lock", self._name)
        return True

    def is_held(self) -> bool:
        return not self._is_free()

    def confirm(self) -> bool:
        return self._holders.get(self._name) is self._disk.process

    def seconds_left(self) -> float:
        return math.inf

    def release(self) -> None:
        if self._disk.process.has_ended:
            raise Killed
        del self._holders[self._name]
        self._disk.shared.note("unlock", self._name)

    def sign(self, text: str) -> None: ...

    def signature(self) -> str:
        return ""


FileSystemOf = Callable[[Store, Process], Any]
STORES: Final[dict[str, FileSystemOf]] = {"bucket": Bucket, "disk": Disk}
