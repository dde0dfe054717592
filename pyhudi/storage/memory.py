"""An in-memory store that passes the same contract tests as the others."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left, insort
from collections import UserDict, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError
from pyhudi.storage.filesystem import Bytes, FileInfo, checked, checked_file
from pyhudi.storage.sink import PublishedOnClose

LAST = "\U0010ffff"
"""Sorts after every name."""


class NamedFiles(UserDict[str, bytes]):
    """Content by name, in name order.  A name is inserted in time linear in their number, by one
    move of memory."""

    def __init__(self) -> None:
        self._names: list[str] = []
        super().__init__()

    def __setitem__(self, name: str, content: bytes) -> None:
        if name not in self.data:
            insort(self._names, name)
        self.data[name] = content

    def __delitem__(self, name: str) -> None:
        del self.data[name]
        del self._names[bisect_left(self._names, name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def irange(self, first: str, end: str) -> Iterator[str]:
        """Names from `first` to `end`, both included, as long as no name is added or removed."""
        for at in range(bisect_left(self._names, first), len(self._names)):
            name = self._names[at]
            if name > end:
                return
            yield name


class MemoryStore:
    """The content shared by several MemoryFileSystems (roots): names to bytes, in name order."""

    def __init__(self) -> None:
        self.files = NamedFiles()
        self.times: dict[str, float] = {}
        self.lock = threading.RLock()
        self.mutexes: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self.signatures: dict[str, str] = {}

    def copy(self) -> MemoryStore:
        """Another store with the same files and no lock held."""
        twin = MemoryStore()
        with self.lock:
            twin.files.update(self.files)
            twin.times.update(self.times)
        return twin


class MemoryFileSystem:
    """FileSystem over a MemoryStore.  Does not pickle: it exists in one process."""

    def __init__(self, store: MemoryStore | None = None, root: str = "") -> None:
        self.store = store or MemoryStore()
        self.root = root

    @property
    def url(self) -> str:
        return f"memory://{self.root}"

    def sub(self, folder: str) -> MemoryFileSystem:
        return MemoryFileSystem(self.store, self._name(checked(folder)))

    def _name(self, path: str) -> str:
        checked(path)
        return f"{self.root}/{path}" if self.root and path else path or self.root

    def _file(self, path: str) -> str:
        return self._name(checked_file(path))

    def read(self, path: str) -> bytes:
        with self._missing(path):
            return self.store.files[self._file(path)]

    @contextmanager
    def _missing(self, path: str) -> Iterator[None]:
        try:
            yield
        except KeyError:
            raise FileMissingError("no such file", path=f"{self.url}/{path}") from None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.open(path).read_at(offset, length)

    def open(self, path: str) -> MemoryFile:
        return MemoryFile(self.read(path), f"{self.url}/{path}")

    def arrow_file(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def size(self, path: str) -> int:
        return len(self.read(path))

    def exists(self, path: str) -> bool:
        name = self._name(path)
        return name in self.store.files or bool(self._below(name))

    def _below(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        with self.store.lock:
            return list(self.store.files.irange(prefix, prefix + LAST))

    def children(self, folder: str = "") -> list[FileInfo]:
        name = self._name(folder)
        prefix = f"{name}/" if name else ""
        found = []
        with self.store.lock:
            files = self.store.files
            start: str | None = prefix
            while start is not None:
                begun, start = start, None
                for full in files.irange(begun, prefix + LAST):
                    first, below, _ = full[len(prefix) :].partition("/")
                    path = f"{folder}/{first}" if folder else first
                    if below:  # skip the content of the folder
                        found.append(FileInfo(path, 0, is_folder=True))
                        start = f"{prefix}{first}/{LAST}"
                        break
                    at = self.store.times.get(full)
                    found.append(FileInfo(path, len(files[full]), modified=at))
        return sorted(found, key=lambda info: info.path)

    def names(self, folder: str = "") -> list[str]:
        return [info.name for info in self.children(folder) if not info.is_folder]

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        with self.store.lock:
            name = self._file(path)
            if name in self.store.files:
                return False
            self.store.files[name] = bytes(data)
            self.store.times[name] = time.time()
            return True

    def replace(self, path: str, data: Bytes) -> None:
        with self.store.lock:
            name = self._file(path)
            self.store.files[name] = bytes(data)
            self.store.times[name] = time.time()

    def open_sink(self, path: str) -> MemorySink:
        if self._file(path) in self.store.files:
            raise StorageError("the file already exists", path=f"{self.url}/{path}")
        return MemorySink(self, path)

    def open_scratch(self, path: str) -> MemorySink:
        return self.open_sink(path)

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing survives the process."""

    def delete(self, paths: Iterable[str]) -> None:
        with self.store.lock:
            for path in paths:
                self.store.files.pop(self._file(path), None)

    def delete_folder(self, folder: str) -> None:
        with self.store.lock:
            for full in self._below(self._file(folder)):
                self.store.files.pop(full, None)

    def mutex(self, path: str) -> MemoryMutex:
        return MemoryMutex(self.store, self._file(path))


class MemoryMutex:
    """Mutex among the threads that share a MemoryStore."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        with store.lock:
            self._lock = store.mutexes[name]
        self._store, self._name = store, name
        self.key = f"memory:{id(store)}:{name}"

    def acquire(self, wait_seconds: float) -> bool:
        return self._lock.acquire(timeout=wait_seconds)

    def confirm(self) -> bool:
        return self._lock.locked()

    def seconds_left(self) -> float:
        return math.inf

    def is_held(self) -> bool:
        return self._lock.locked()

    def release(self) -> None:
        self._store.signatures.pop(self._name, None)
        self._lock.release()

    def sign(self, text: str) -> None:
        self._store.signatures[self._name] = text

    def signature(self) -> str:
        return self._store.signatures.get(self._name, "")


class MemoryFile:
    """RandomAccess over bytes."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data, self._path = data, path

    @property
    def size(self) -> int:
        return len(self._data)

    def read_at(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > len(self._data):
            raise CorruptFileError(
                "read past the end of the file", path=self._path, offset=offset, length=length
            )
        return self._data[offset : offset + length]

    def close(self) -> None:
        pass


class MemorySink(PublishedOnClose):
    """A file that appears when it is closed."""

    def __init__(self, fs: MemoryFileSystem, path: str) -> None:
        super().__init__()
        self._fs, self._path = fs, path
        self._data = bytearray()

    def write(self, data: Any) -> int:
        self._data += data
        return memoryview(data).nbytes

    def tell(self) -> int:
        return len(self._data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            if not self.abandoned and not self._fs.create(self._path, self._data):
                raise StorageError("the file already exists", path=f"{self._fs.url}/{self._path}")
