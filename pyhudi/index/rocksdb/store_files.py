"""Files of the stores of the RocksDB index, on this machine and on the table's storage.

On the machine, below `<folder>/<table>/<bucket>`:

    <checkpoint id>/    a RocksDB folder: tables (hard links), and its small files
    pool/<stored name>  the tables, with their names on the table's storage

On the table's storage, below `.hoodie/.pyhudi_rocksdb/<bucket>`:

    <instant>-<token>-<table>.sst   a table, written once
    <checkpoint id>.state           the small files, as JSON

A table is copied between the two only once; stores on one machine share it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyhudi.errors import CorruptFileError
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.operating_system import link_or_copy, publish

STATE: Final = ".state"
TABLE: Final = ".sst"
_POOL: Final = "pool"
_COPY_BYTES: Final = 4 << 20
_RETAINED_STORES: Final = 3
"""Stores of a bucket retained on the machine, for readers and failed writes."""
_ABANDONED_SECONDS: Final = 86_400.0
_ATTEMPTS: Final = 5


_ID: Final = r"\d{14,17}-[0-9a-f]{12}"
_TABLE_NAME: Final = re.compile(r"\d{1,20}\.sst", re.ASCII)
_STORED_NAME: Final = re.compile(_ID + r"-\d{1,20}\.sst", re.ASCII)
_STATE_ID: Final = re.compile(_ID + "|", re.ASCII)
_SMALL_NAME: Final = re.compile(r"CURRENT|MANIFEST-\d{1,20}|rocksdict-config\.json", re.ASCII)


def _check_name(pattern: re.Pattern[str], name: object) -> None:
    """Raise ValueError for an invalid name, because it becomes a file name on this machine."""
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise ValueError(f"invalid file name in the index: {name!r}")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table of a store.  name: in the store; stored: on the table's storage.

    Raises ValueError for invalid names.
    """

    name: str
    stored: str
    size_bytes: int

    def __post_init__(self) -> None:
        _check_name(_TABLE_NAME, self.name)
        _check_name(_STORED_NAME, self.stored)


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket as of a checkpoint.  id: unique for every state; empty: the bucket has no keys.

    Raises ValueError for an invalid id or number.
    """

    number: int
    id: str = ""
    tables: tuple[StoredTable, ...] = ()

    def __post_init__(self) -> None:
        _check_name(_STATE_ID, self.id)
        if not isinstance(self.number, int) or self.number < 0:
            raise ValueError(f"invalid bucket number: {self.number!r}")

    @property
    def folder(self) -> str:
        return f"{self.number:05d}"


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a table's stores.  fs: rooted at the index's folder on the table's storage;
    folder: on every machine, None: `default_folder()`; table: a unique name of the table.  copies:
    whether new stores are copied to the table's storage; else only this machine can read them.
    """

    fs: FileSystem
    folder: str | None
    table: str
    copies: bool = True

    def root(self, state: BucketState) -> Path:
        """The folder of a bucket on this machine."""
        return Path(self.folder or default_folder(), self.table, state.folder)

    def here(self, state: BucketState) -> Path:
        return self.root(state) / state.id

    def pool(self, state: BucketState) -> Path:
        return self.root(state) / _POOL


def default_folder() -> Path:
    """$PYHUDI_STORES, else `rocksdb` in $PYHUDI_CACHE, else `rocksdb` in ~/.cache/pyhudi."""
    if stores := os.environ.get("PYHUDI_STORES"):
        return Path(stores)
    return Path(os.environ.get("PYHUDI_CACHE") or Path.home() / ".cache" / "pyhudi", "rocksdb")


def restore_bucket(place: Place, state: BucketState) -> Path:
    """The folder of the bucket's store on this machine; restored from the table's storage."""
    folder = place.here(state)
    if folder.exists():
        return folder
    making = new_folder(place, state)
    for name, content in _small_files(place, state).items():
        (making / name).write_bytes(content)
    for table in state.tables:
        _link_fetched(place, state, table, making / table.name)
    return placed(making, folder)


def _small_files(place: Place, state: BucketState) -> dict[str, bytes]:
    """The small files of a store by name.  Raises CorruptFileError."""
    path = f"{state.folder}/{state.id}{STATE}"
    try:
        found = json.loads(place.fs.read(path))
        for name in found:
            _check_name(_SMALL_NAME, name)
        return {name: base64.b64decode(text) for name, text in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            "the small files of a RocksDB store cannot be read",
            path=path,
            hint="run table.index.rebuild() to build the index from the table's keys",
        ) from error


def published(
    place: Place, state: BucketState, making: Path, names: set[str], instant: InstantTime
) -> BucketState:
    """Copy new tables and the small files to the table's storage; returns the new state."""
    token = f"{instant}-{secrets.token_hex(6)}"
    before = {table.name: table for table in state.tables}
    tables = []
    for name in sorted(names):
        table = before.get(name)
        if table is None:
            stored = f"{token}-{name}"
            table = StoredTable(name, stored, (making / name).stat().st_size)
            if place.copies:
                _copy(making / name, place.fs, f"{state.folder}/{stored}")
            _link(making / name, place.pool(state) / stored)
        tables.append(table)
    small = {
        entry.name: base64.b64encode(entry.read_bytes()).decode()
        for entry in making.iterdir()
        if _is_small(entry.name)
    }
    if place.copies:
        place.fs.replace(f"{state.folder}/{token}{STATE}", json.dumps(small).encode())
    return BucketState(state.number, token, tuple(tables))


def _is_small(name: str) -> bool:
    """Whether a file describes the content of the store; logs and the lock do not."""
    return _SMALL_NAME.fullmatch(name) is not None


def new_folder(place: Place, state: BucketState) -> Path:
    """A new temporary folder for a store."""
    place.pool(state).mkdir(parents=True, exist_ok=True)
    folder = place.root(state) / f".{secrets.token_hex(8)}"
    folder.mkdir()
    return folder


def placed(making: Path, folder: Path) -> Path:
    """Rename a new store to its final folder; if another process was first, discard the new one."""
    try:
        making.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(making, ignore_errors=True)
    return folder


def link_all(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.name.endswith(TABLE):
            link_or_copy(entry, target / entry.name)
        elif _is_small(entry.name):
            shutil.copyfile(entry, target / entry.name)


def _link(source: Path, target: Path) -> None:
    with suppress(FileExistsError):
        link_or_copy(source, target)


def _link_fetched(place: Place, state: BucketState, table: StoredTable, target: Path) -> None:
    """Link a table to `target`, with retries as another process may prune it from the pool."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            link_or_copy(_fetched(place, state, table), target)
            return
    link_or_copy(_fetched(place, state, table), target)


def _fetched(place: Place, state: BucketState, table: StoredTable) -> Path:
    """The table in the pool, copied there first if it is missing."""
    path = place.pool(state) / table.stored
    if path.exists():
        return path
    making = path.with_name(f".{secrets.token_hex(8)}")
    source = place.fs.open(f"{state.folder}/{table.stored}")
    if source.size != table.size_bytes:
        raise CorruptFileError(
            "a table of the RocksDB index differs in size from its checkpoint",
            path=table.stored,
            bytes=source.size,
            expected=table.size_bytes,
            hint="run table.index.rebuild() to build the index from the table's keys",
        )
    with making.open("wb") as sink:
        for start in range(0, table.size_bytes, _COPY_BYTES):
            sink.write(source.read_at(start, min(_COPY_BYTES, table.size_bytes - start)))
    source.close()
    with suppress(FileExistsError):  # another process was first
        publish(str(making), str(path))
    making.unlink(missing_ok=True)
    return path


def _copy(path: Path, fs: FileSystem, name: str) -> None:
    with path.open("rb") as source, fs.open_sink(name) as sink:
        while data := source.read(_COPY_BYTES):
            sink.write(data)


def prune(place: Place, state: BucketState) -> None:
    """Remove this machine's older stores of a bucket.  Files of an open store remain readable until
    it is closed."""
    there = [path for path in place.root(state).iterdir() if path.name != _POOL]
    stores = [path for path in there if not path.name.startswith(".")]
    for unfinished in (path for path in there if path.name.startswith(".")):
        if 0 < _modified(unfinished) < time.time() - _ABANDONED_SECONDS:
            shutil.rmtree(unfinished, ignore_errors=True)
    for old in sorted(stores, key=_modified)[:-_RETAINED_STORES]:
        shutil.rmtree(old, ignore_errors=True)
    for table in place.pool(state).iterdir():
        with suppress(FileNotFoundError, PermissionError):  # pruned by another, or open (Windows)
            if table.stat().st_nlink == 1 and not table.name.startswith("."):
                table.unlink()


def _modified(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
