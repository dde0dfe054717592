"""Where a write keeps what its steps hand on: in memory on one machine, in files on a cluster.

Staging a table once and reading it by memory map is also what pins the rows: profile and write
see the same ones, however often tasks run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pyhudi.filenames import TEMP, new_write_token
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.seekable_file import map_scratch


class Staged(Protocol):
    """A table that was put aside.  Picklable where its staging is."""

    def load(self) -> pa.Table: ...


class Staging(Protocol):
    """Somewhere to put tables aside."""

    def put(self, name: str, table: pa.Table) -> Staged: ...


@dataclass(frozen=True, slots=True)
class MemoryStaged:
    table: pa.Table

    def load(self) -> pa.Table:
        return self.table


@dataclass(frozen=True, slots=True)
class MemoryStaging:
    """Tables stay where they are; for engines whose tasks share this process."""

    def put(self, name: str, table: pa.Table) -> Staged:
        return MemoryStaged(table)


@dataclass(frozen=True, slots=True)
class FileStaged:
    """An Arrow IPC file below the table; `load` maps it, and reads what is touched."""

    fs: FileSystem
    path: str

    def load(self) -> pa.Table:
        return pa.ipc.open_file(map_scratch(self.fs, self.path)).read_all()


@dataclass(frozen=True, slots=True)
class FileStaging:
    """Arrow files in one temporary folder that every worker reaches.

    A task that runs twice writes two files; only the one whose `Staged` came back is read.
    """

    fs: FileSystem
    folder: str

    def put(self, name: str, table: pa.Table) -> Staged:
        path = f"{self.folder}/{name}-{new_write_token()}.arrow"
        with (
            self.fs.open_scratch(path) as sink,
            pa.ipc.new_file(pa.PythonFile(sink, mode="w"), table.schema) as writer,
        ):
            writer.write_table(table)
        return FileStaged(self.fs, path)


def staging_folder(instant: InstantTime) -> str:
    """The folder a write stages into; removed with its markers."""
    return f"{TEMP}/{instant}/.pyhudi"
