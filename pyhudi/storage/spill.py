"""Tables staged outside memory while an operation runs: places, lifecycle and cleanup.

```
MEMORY    tasks share this process
MACHINE   Arrow files in a folder of this machine's disk
TABLE     Arrow files below the table, readable by tasks on other machines:
          .hoodie/.temp/pyhudi-<token>                         under the lock (`lock_folder`)
          .hoodie/.temp/parked-<begun, ms since 1970>-<owner>  without it (`new_staging_folder`)
          .hoodie/.temp/<T>/.pyhudi                            deleted with the instant's markers
```

`spill` deletes the folder at the end.  `sweep` deletes what crashed writers left: folders of
the first kind by the next holder of the lock, of the second kind when they are days old, because
only their age shows that their tasks have ended.  A table that is staged once and memory-mapped
is the same for every task, however often it runs.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import Final, Protocol

import pyarrow as pa

from pyhudi.filenames import TEMP, new_write_token
from pyhudi.records import InstantTime
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileSystem, Sink
from pyhudi.storage.local import LocalFileSystem, local_errors, scratch_disk

AGE_DAYS_MAX: Final = 3
_UNDER_LOCK: Final = "pyhudi-"
_FOLDER: Final = re.compile(r"parked-(\d{13})-([0-9a-f]{16})")


class Staged(Protocol):
    """A staged table.  Picklable if its staging is."""

    def load(self) -> pa.Table: ...


class Staging(Protocol):
    """A place where tables are staged."""

    def put(self, name: str, table: pa.Table) -> Staged: ...


@dataclass(frozen=True, slots=True)
class MemoryStaged:
    table: pa.Table

    def load(self) -> pa.Table:
        return self.table


@dataclass(frozen=True, slots=True)
class MemoryStaging:
    """Tables stay in memory; for engines whose tasks share this process."""

    def put(self, name: str, table: pa.Table) -> Staged:
        return MemoryStaged(table)


@dataclass(frozen=True, slots=True)
class FileStaged:
    """An Arrow IPC file below the table.

    `load` maps it on a local disk, and reads only the pages used; from a store it reads the file in
    one request.
    """

    fs: FileSystem
    path: str

    def load(self) -> pa.Table:
        local_path = getattr(self.fs, "local_path", None)
        if local_path is None:
            return _FETCHED.table(self.fs, self.path)
        # Only its writer knows the name, so no process truncates the file.
        with local_errors(local_path(self.path)) as place:
            return pa.ipc.open_file(pa.memory_map(place)).read_all()


class FetchedTables:
    """The staged tables that this process read last from stores: a task needs the same rows for
    each file that it writes.  Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()
        self._lock = Lock()

    def table(self, fs: FileSystem, path: str) -> pa.Table:
        """The table of an Arrow IPC file, whose name is never used again."""
        url = f"{fs.url}/{path}"
        with self._lock:
            if url in self._tables:
                self._tables.move_to_end(url)
                return self._tables[url]
        found = pa.ipc.open_file(pa.BufferReader(fs.read(path))).read_all()
        with self._lock:
            self._tables[url] = found
            while sum(table.nbytes for table in self._tables.values()) > self._max_bytes:
                self._tables.popitem(last=False)
        return found


_FETCHED: Final = FetchedTables(64 << 20)


@dataclass(frozen=True, slots=True)
class FileStaging:
    """Arrow files in one temporary folder that every worker can read.

    A task that runs twice writes two files; only the one whose `Staged` was returned is read.
    """

    fs: FileSystem
    folder: str

    def put(self, name: str, table: pa.Table) -> Staged:
        path = f"{self.folder}/{name}-{new_write_token()}.arrow"
        return _written(self.fs, path, self.fs.open_scratch(path), table)


@dataclass(frozen=True, slots=True)
class DurableStaging:
    """Durable files with fixed names, which the next process finds and reuses.  The
    folder is deleted by the operation that completes the work."""

    fs: FileSystem
    folder: str

    def put(self, name: str, table: pa.Table) -> FileStaged:
        path = f"{self.folder}/{name}.{new_write_token()}.arrow"
        return _written(self.fs, path, self.fs.open_sink(path), table)

    def found(self) -> dict[str, str]:
        """Name -> path of existing files."""
        files = self.fs.children(self.folder)
        return {f.name.split(".")[0]: f.path for f in files if f.name.endswith(".arrow")}


def _written(fs: FileSystem, path: str, file: Sink, table: pa.Table) -> FileStaged:
    with file as sink, pa.ipc.new_file(pa.PythonFile(sink, mode="w"), table.schema) as writer:
        writer.write_table(table)
    return FileStaged(fs, path)


class SpillPlace(Enum):
    """Where tables are staged."""

    MEMORY = "memory"  # of the process that the tasks share
    MACHINE = "machine"  # a folder of this machine's disk
    TABLE = "table"  # a folder below the table, readable by tasks on other machines

    @classmethod
    def of(cls, fs: FileSystem, *, shares_memory: bool, in_memory: bool) -> SpillPlace:
        """Memory if the tasks share it and the rows fit; this machine's disk if only its tasks
        read the files and the table is elsewhere."""
        if shares_memory and in_memory:
            return cls.MEMORY
        if shares_memory and not isinstance(fs, LocalFileSystem):
            return cls.MACHINE
        return cls.TABLE


@contextmanager
def spill(fs: FileSystem, place: SpillPlace, folder: str) -> Iterator[Staging]:
    """A place for tables, deleted at the end.  folder: below the table, for SpillPlace.TABLE."""
    match place:
        case SpillPlace.MEMORY:
            yield MemoryStaging()
        case SpillPlace.MACHINE:
            with scratch_disk() as disk:
                yield FileStaging(disk, "staged")
        case SpillPlace.TABLE:
            try:
                yield FileStaging(fs, folder)
            finally:
                with tolerating("rows", folder):
                    fs.delete_folder(folder)


def staging_folder(instant: InstantTime) -> str:
    """The staging folder of a write; removed with its markers."""
    return f"{TEMP}/{instant}/.pyhudi"


def lock_folder() -> str:
    """A folder for an operation that holds the table's lock throughout: the next holder of the
    lock deletes it if its writer has crashed."""
    return f"{TEMP}/{_UNDER_LOCK}{secrets.token_hex(8)}"


def new_staging_folder(owner: str | None = None) -> str:
    """A folder for rows; without an owner, a unique one.

    owner: 16 hex digits, under which `staging_folders_of` finds the folder again.
    """
    return f"{TEMP}/parked-{time.time_ns() // 1_000_000:013d}-{owner or secrets.token_hex(8)}"


def staging_folders_of(fs: FileSystem, owner: str) -> list[str]:
    """The folders of an owner."""
    found = ((entry.path, _FOLDER.fullmatch(entry.name)) for entry in fs.children(TEMP))
    return [path for path, match in found if match and match[2] == owner]


def is_writer_staging(name: str) -> bool:
    """Whether a folder of this name contains parked rows."""
    return _FOLDER.fullmatch(name) is not None


def sweep_staging(fs: FileSystem) -> None:
    """Delete folders of operations that started days ago."""
    oldest = time.time() * 1000 - AGE_DAYS_MAX * 86_400_000
    for entry in fs.children(TEMP):
        match = _FOLDER.fullmatch(entry.name)
        if match and int(match[1]) < oldest:
            fs.delete_folder(entry.path)


def sweep(fs: FileSystem) -> None:
    """Delete tables staged by crashed writers.  The caller holds the table's lock."""
    for entry in fs.children(TEMP):
        if entry.is_folder and entry.name.startswith(_UNDER_LOCK):
            fs.delete_folder(entry.path)
    sweep_staging(fs)
