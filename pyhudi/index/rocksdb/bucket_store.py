"""A bucket of the RocksDB index: a local store as of one checkpoint.

Keys and values of the store:

    record key, UTF-8              u32 number of its file group, i64 its commit, little-endian
    0xff, u32 number, big-endian   file group: partition path, 0x00, file id; UTF-8 has no 0xff

Stores are immutable: `advance` links the tables into a new folder, writes there, and the result is
a new checkpoint.  So any number of processes read a store without waiting for each other, and a
failed write leaves only an unused folder.

Needs `pip install "pyhudi[rocksdb]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native import argsort
from pyhudi.arrays import Longs
from pyhudi.errors import CorruptFileError
from pyhudi.index.rocksdb.store_files import (
    BucketState,
    Place,
    link_all,
    new_folder,
    placed,
    prune,
    published,
    restore_bucket,
)
from pyhudi.libraries import load_library
from pyhudi.records import FileGroupId, InstantTime

_GROUP: Final = b"\xff"
_VALUE: Final = np.dtype([("group", "<u4"), ("instant", "<i8")])
_ABSENT: Final = np.iinfo(np.uint32).max
_TABLES_MAX: Final = 8
"""Maximum number of tables of a bucket before they are merged: a lookup reads each table."""
_OPEN_MAX: Final = 64
_CACHE_BYTES: Final = 128 << 20
"""Size of the block cache for all open stores of a process."""


@dataclass(frozen=True, slots=True)
class BucketChanges:
    """keys: string, distinct.  targets: position in groups, or a negative number: ended."""

    keys: pa.Array
    targets: npt.NDArray[np.int32]
    groups: tuple[FileGroupId, ...]


class OpenBucket:
    """A store opened for reading; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        rocks = _library()
        self._db = rocks.Rdict(
            str(folder), _options(rocks), access_type=rocks.AccessType.read_only()
        )
        self.groups = _groups(self._db)

    def find(self, keys: pa.Array) -> tuple[npt.NDArray[np.int32], Longs]:
        """(position in groups or -1, commit) of each key.  Cost: a Python object a key and one a
        result, as the library's interface uses lists."""
        order = np.asarray(argsort(keys), np.int64)  # adjacent keys share blocks
        sorted_keys = keys.take(pa.array(order)).cast(pa.binary()).to_pylist()
        absent = np.array([(_ABSENT, 0)], _VALUE).tobytes()
        answer = b"".join(value or absent for value in self._db.get(sorted_keys))
        values = np.empty(len(keys), _VALUE)
        values[order] = np.frombuffer(answer, _VALUE)
        return values["group"].astype(np.int32), values["instant"].astype(np.int64)

    def chunks(self, rows: int) -> Iterator[tuple[pa.Array, npt.NDArray[np.int32], Longs]]:
        """(keys in byte order, position in groups, commit) of every entry, `rows` at a time.

        Raises CorruptFileError for an entry without a valid group."""
        items = ((key, value) for key, value in self._db.items() if key[:1] != _GROUP)
        while some := list(islice(items, rows)):
            keys, raw = zip(*some, strict=True)
            values = np.frombuffer(b"".join(raw), _VALUE)
            if len(values) != len(keys) or values["group"].max() >= len(self.groups):
                raise CorruptFileError(
                    "an entry of the RocksDB index has no valid file group",
                    key=keys[0],
                    hint="run table.index.rebuild() to build the index from the table's keys",
                )
            found = pa.array(keys, pa.binary()).cast(pa.string())
            yield found, values["group"].astype(np.int32), values["instant"].astype(np.int64)

    @property
    def entries_estimated(self) -> int:
        """The store's estimate of its entries: a key in several tables may count in each."""
        count = self._db.property_int_value("rocksdb.estimate-num-keys") or 0
        return max(0, count - len(self.groups))

    def keys_of(self, positions: Sequence[int]) -> pa.Array:
        """The keys in some of the groups.  Cost: a pass over the store."""
        numbers = frozenset(int(number).to_bytes(4, "little") for number in positions)
        items = self._db.items()
        found = [key for key, value in items if value[:4] in numbers and key[:1] != _GROUP]
        return pa.array(found, pa.binary()).cast(pa.string())


_opened: OrderedDict[str, OpenBucket] = OrderedDict()
_lock = threading.Lock()


def open_bucket(place: Place, state: BucketState) -> OpenBucket | None:
    """The bucket's store, restored first if it is not on this machine; None if it has no keys.

    Cost: about 40 ms the first time in a process; the bytes of tables that are not on this machine.
    """
    if not state.id:
        return None
    folder = restore_bucket(place, state)
    with _lock:
        found = _opened.pop(str(folder), None) or OpenBucket(folder)
        _opened[str(folder)] = found
        while len(_opened) > _OPEN_MAX:
            _opened.popitem(last=False)
    return found


def advance(
    place: Place, state: BucketState, changes: BucketChanges, instant: InstantTime
) -> BucketState:
    """The bucket with some changes: a new state on the table's storage and on this machine.

    May run twice: each attempt's files have unique names.  Cost: a Python object a key; the bytes
    of the new tables.
    """
    rocks = _library()
    making = new_folder(place, state)
    if state.id:
        link_all(restore_bucket(place, state), making)
    db = rocks.Rdict(str(making), _options(rocks))
    _apply(rocks, db, changes, instant)
    db.flush()
    if len(db.live_files()) > _TABLES_MAX:
        db.compact_range(None, None)
    names = {file["name"].lstrip("/") for file in db.live_files()}
    db.close()
    del db
    after = published(place, state, making, names, instant)
    placed(making, place.here(after))
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
    no_log.disable_wal = True  # the checkpoint provides durability
    db.write(batch, no_log)


def _groups(db: Any) -> list[FileGroupId]:
    """The file groups that values refer to, by number."""
    found = []
    for value in db.values(from_key=_GROUP):
        partition, _, file_id = value.decode().partition("\0")
        found.append(FileGroupId(partition, file_id))
    return found


def _options(rocks: Any) -> Any:
    options = rocks.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)  # tables are merged in `advance` only
    options.set_compression_type(rocks.DBCompressionType.lz4())
    options.set_keep_log_file_num(1)
    blocks = rocks.BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    blocks.set_block_cache(_block_cache())
    options.set_block_based_table_factory(blocks)
    return options


@cache
def _block_cache() -> Any:
    return _library().Cache(_CACHE_BYTES)


def _library() -> Any:
    return load_library("rocksdict", extra="rocksdb", needed_for="the RocksDB index")
