"""One bucket of the RocksDB index: a store on this machine, as of one checkpoint.

In the store, keys and values are

    record key, UTF-8              u32 number of its file group, i64 its commit, little-endian
    0xff, u32 number, big-endian   file group: partition path, 0x00, file id; no text has 0xff

A store is never changed where it is: `advance` links its tables into a folder of its own, writes
there, and what comes of it is another checkpoint.  So any number of processes read one store, none
waits for another, and what a failed write made is a folder that nobody asks for.

On the machine, below `<folder>/<table>/<bucket>`:

    <checkpoint id>/    a RocksDB folder: tables (hard links), and its small files
    pool/<stored name>  the tables, by the names that they have on the table's storage

On the table's storage, below `.hoodie/.pyhudi_rocksdb/<bucket>`:

    <instant>-<token>-<table>.sst   a table, written once
    <checkpoint id>.state           the small files, as JSON

Needs `pip install "pyhudi[rocksdb]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native import argsort
from pyhudi.errors import CorruptFileError, OptionError
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem

STATE: Final = ".state"
TABLE: Final = ".sst"
_POOL: Final = "pool"
_GROUP: Final = b"\xff"
_VALUE: Final = np.dtype([("group", "<u4"), ("instant", "<i8")])
_ABSENT: Final = np.iinfo(np.uint32).max
_COPIED: Final = 4 << 20
_TABLES_MAX: Final = 8
"""Tables of a bucket before they are merged into one: each is asked by a look-up."""
_OPEN_MAX: Final = 64
_KEPT: Final = 3
"""Stores of a bucket that stay on the machine: of readers, and of writes that failed."""

Longs = npt.NDArray[np.int64]


_ID: Final = r"\d{14,17}-[0-9a-f]{12}"
_TABLE_NAME: Final = re.compile(r"\d{1,20}\.sst", re.ASCII)
_STORED_NAME: Final = re.compile(_ID + r"-\d{1,20}\.sst", re.ASCII)
_STATE_ID: Final = re.compile(_ID + "|", re.ASCII)
_SMALL_NAME: Final = re.compile(r"CURRENT|MANIFEST-\d{1,20}|rocksdict-config\.json", re.ASCII)


def _check_name(pattern: re.Pattern[str], name: object) -> None:
    """Raise ValueError for a name that is not ours: it becomes one of this machine's files."""
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise ValueError(f"not a name of the index: {name!r}")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table of a store: its name there, and on the table's storage.

    Raises ValueError for names that no index gives.
    """

    name: str
    stored: str
    size_bytes: int

    def __post_init__(self) -> None:
        _check_name(_TABLE_NAME, self.name)
        _check_name(_STORED_NAME, self.stored)


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket as of a checkpoint.  id: another for every state; empty: no key is in it.

    Raises ValueError for an id that no index gives.
    """

    number: int
    id: str = ""
    tables: tuple[StoredTable, ...] = ()

    def __post_init__(self) -> None:
        _check_name(_STATE_ID, self.id)
        if not isinstance(self.number, int) or self.number < 0:
            raise ValueError(f"not the number of a bucket: {self.number!r}")

    @property
    def folder(self) -> str:
        return f"{self.number:05d}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table's stores are.  fs: rooted at the index's folder on the table's storage;
    folder: on every machine, None: its user's cache; table: one name for one table."""

    fs: FileSystem
    folder: str | None
    table: str

    def root(self, state: BucketState) -> Path:
        """Of a bucket, on this machine."""
        return Path(self.folder or default_folder(), self.table, state.folder)

    def here(self, state: BucketState) -> Path:
        return self.root(state) / state.id

    def pool(self, state: BucketState) -> Path:
        return self.root(state) / _POOL


def default_folder() -> Path:
    """PYHUDI_STORES; else `rocksdb` in the folder PYHUDI_CACHE names; else in ~/.cache/pyhudi."""
    if stores := os.environ.get("PYHUDI_STORES"):
        return Path(stores)
    return Path(os.environ.get("PYHUDI_CACHE") or Path.home() / ".cache" / "pyhudi", "rocksdb")


@dataclass(frozen=True, slots=True)
class BucketChanges:
    """keys: string, distinct.  targets: position in groups, or a negative number: ended."""

    keys: pa.Array
    targets: npt.NDArray[np.int32]
    groups: tuple[FileGroupId, ...]


class OpenBucket:
    """A store that answers; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        rocks = _library()
        self._db = rocks.Rdict(
            str(folder), _options(rocks), access_type=rocks.AccessType.read_only()
        )
        self.groups = _groups(self._db)

    def find(self, keys: pa.Array) -> tuple[npt.NDArray[np.int32], Longs]:
        """(position in groups or -1, commit) of each key.  Cost: a Python object a key and one an
        answer, as the library takes and gives lists."""
        order = np.asarray(argsort(keys), np.int64)  # neighbours share blocks
        asked = keys.take(pa.array(order)).cast(pa.binary()).to_pylist()
        absent = np.array([(_ABSENT, 0)], _VALUE).tobytes()
        answer = b"".join(value or absent for value in self._db.get(asked))
        values = np.empty(len(keys), _VALUE)
        values[order] = np.frombuffer(answer, _VALUE)
        return values["group"].astype(np.int32), values["instant"].astype(np.int64)

    def keys_of(self, wanted: Sequence[int]) -> pa.Array:
        """The keys in some of the groups.  Cost: a pass over the store."""
        held = frozenset(int(number).to_bytes(4, "little") for number in wanted)
        items = self._db.items()
        found = [key for key, value in items if value[:4] in held and key[:1] != _GROUP]
        return pa.array(found, pa.binary()).cast(pa.string())


_opened: OrderedDict[str, OpenBucket] = OrderedDict()
_lock = threading.Lock()


def open_bucket(place: Place, state: BucketState) -> OpenBucket | None:
    """The bucket's store, brought here first where it is not; None if no key is in it.

    Cost: the first time in a process some 40 ms; the bytes of tables that are not here.
    """
    if not state.id:
        return None
    folder = restore(place, state)
    with _lock:
        found = _opened.pop(str(folder), None) or OpenBucket(folder)
        _opened[str(folder)] = found
        while len(_opened) > _OPEN_MAX:
            _opened.popitem(last=False)
    return found


def restore(place: Place, state: BucketState) -> Path:
    """The folder of the bucket's store on this machine; made of what the table's storage has."""
    folder = place.here(state)
    if folder.exists():
        return folder
    making = _making(place, state)
    for name, content in _small_files(place, state).items():
        (making / name).write_bytes(content)
    for table in state.tables:
        os.link(_fetched(place, state, table), making / table.name)
    return _placed(making, folder)


def _small_files(place: Place, state: BucketState) -> dict[str, bytes]:
    """Raises CorruptFileError."""
    path = f"{state.folder}/{state.id}{STATE}"
    try:
        found = json.loads(place.fs.read(path))
        for name in found:
            _check_name(_SMALL_NAME, name)
        return {name: base64.b64decode(text) for name, text in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            "the small files of a RocksDB store cannot be read", path=path,
            hint="table.index.rebuild() builds the index out of the table's keys",
        ) from error  # fmt: skip


def advance(
    place: Place, state: BucketState, changes: BucketChanges, instant: InstantTime
) -> BucketState:
    """The bucket with some changes: a checkpoint more on the table's storage and on this machine.

    May run twice: each attempt's files have names of their own.  Cost: a Python object a key; the
    bytes of the tables that are new.
    """
    rocks = _library()
    making = _making(place, state)
    if state.id:
        _link_all(restore(place, state), making)
    db = rocks.Rdict(str(making), _options(rocks))
    _apply(rocks, db, changes, instant)
    db.flush()
    if len(db.live_files()) > _TABLES_MAX:
        db.compact_range(None, None)
    names = {file["name"].lstrip("/") for file in db.live_files()}
    db.close()
    del db
    after = _published(place, state, making, names, instant)
    _placed(making, place.here(after))
    prune(place, after)
    return after


def _apply(rocks: Any, db: Any, changes: BucketChanges, instant: InstantTime) -> None:
    known = {group: number for number, group in enumerate(_groups(db))}
    batch = rocks.WriteBatch(raw_mode=True)
    values: list[bytes] = []
    for group in changes.groups:
        number = known.get(group)
        if number is None:
            number = known[group] = len(known)
            text = f"{group.partition}\0{group.file_id}".encode()
            batch.put(_GROUP + number.to_bytes(4, "big"), text)
        values.append(np.array([(number, int(instant))], _VALUE).tobytes())
    keys = changes.keys.cast(pa.binary()).to_pylist()
    for key, target in zip(keys, changes.targets.tolist(), strict=True):
        if target < 0:
            batch.delete(key)
        else:
            batch.put(key, values[target])
    no_log = rocks.WriteOptions()
    no_log.disable_wal = True  # what counts is the checkpoint
    db.write(batch, no_log)


def _groups(db: Any) -> list[FileGroupId]:
    """The file groups that values name, by number."""
    found = []
    for value in db.values(from_key=_GROUP):
        partition, _, file_id = value.decode().partition("\0")
        found.append(FileGroupId(partition, file_id))
    return found


def _published(
    place: Place, state: BucketState, making: Path, names: set[str], instant: InstantTime
) -> BucketState:
    """Put what is new on the table's storage."""
    token = f"{instant}-{secrets.token_hex(6)}"
    before = {table.name: table for table in state.tables}
    tables = []
    for name in sorted(names):
        table = before.get(name)
        if table is None:
            stored = f"{token}-{name}"
            table = StoredTable(name, stored, (making / name).stat().st_size)
            _copy(making / name, place.fs, f"{state.folder}/{stored}")
            _link(making / name, place.pool(state) / stored)
        tables.append(table)
    small = {
        entry.name: base64.b64encode(entry.read_bytes()).decode()
        for entry in making.iterdir()
        if _is_small(entry.name)
    }
    place.fs.replace(f"{state.folder}/{token}{STATE}", json.dumps(small).encode())
    return BucketState(state.number, token, tuple(tables))


def _is_small(name: str) -> bool:
    """A file that says what the store is made of; logs and the lock are left out."""
    return _SMALL_NAME.fullmatch(name) is not None


def _making(place: Place, state: BucketState) -> Path:
    """A folder to make a store in."""
    place.pool(state).mkdir(parents=True, exist_ok=True)
    folder = place.root(state) / f".{secrets.token_hex(8)}"
    folder.mkdir()
    return folder


def _placed(making: Path, folder: Path) -> Path:
    """The folder made, under its name; the same one if another process was faster."""
    try:
        making.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _link_all(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.name.endswith(TABLE):
            os.link(entry, target / entry.name)
        elif _is_small(entry.name):
            shutil.copyfile(entry, target / entry.name)


def _link(source: Path, target: Path) -> None:
    with suppress(FileExistsError):
        os.link(source, target)


def _fetched(place: Place, state: BucketState, table: StoredTable) -> Path:
    """The table in the pool, copied there if it is not."""
    path = place.pool(state) / table.stored
    if path.exists():
        return path
    making = path.with_name(f".{secrets.token_hex(8)}")
    source = place.fs.open(f"{state.folder}/{table.stored}")
    if source.size != table.size_bytes:
        raise CorruptFileError(
            "a table of the RocksDB index has another size than its checkpoint says",
            path=table.stored, bytes=source.size, expected=table.size_bytes,
            hint="table.index.rebuild() builds the index out of the table's keys",
        )  # fmt: skip
    with making.open("wb") as sink:
        for start in range(0, table.size_bytes, _COPIED):
            sink.write(source.read_at(start, min(_COPIED, table.size_bytes - start)))
    source.close()
    making.rename(path)
    return path


def _copy(path: Path, fs: FileSystem, name: str) -> None:
    with path.open("rb") as source, fs.open_sink(name) as sink:
        while data := source.read(_COPIED):
            sink.write(data)


def prune(place: Place, state: BucketState) -> None:
    """Remove this machine's older stores of a bucket.  One that is open is read on: its files
    are there until it is closed."""
    stores = [
        p for p in place.root(state).iterdir() if p.name != _POOL and not p.name.startswith(".")
    ]
    for old in sorted(stores, key=_age)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    for table in place.pool(state).iterdir():
        with suppress(FileNotFoundError):
            if table.stat().st_nlink == 1 and not table.name.startswith("."):
                table.unlink()


def _age(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def _options(rocks: Any) -> Any:
    options = rocks.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)  # merged when a checkpoint is made, or not at all
    options.set_compression_type(rocks.DBCompressionType.lz4())
    options.set_keep_log_file_num(1)
    blocks = rocks.BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    options.set_block_based_table_factory(blocks)
    return options


def _library() -> Any:
    try:
        import rocksdict
    except ImportError:
        raise OptionError(
            "the RocksDB index needs the library rocksdict", hint="pip install 'pyhudi[rocksdb]'"
        ) from None
    return rocksdict
