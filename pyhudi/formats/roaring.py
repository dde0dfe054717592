"""Sets of row numbers as 64-bit Roaring bitmaps in their portable serialisation.

All integers little-endian:

    buckets       u64 n, then n x {u32 high 32 bits of the values, 32-bit bitmap}, ascending
    32-bit bitmap cookie, [run flags], descriptions, [offsets], containers
      cookie      u32 12346, u32 number of containers k; or, if any container is of runs,
                  u16 12347, u16 k - 1, and run flags: one bit a container, (k + 7) / 8 bytes
      description u16 bits 16..31 of the values, u16 cardinality - 1; ascending
      offset      u32 of each container from the cookie; absent if there are run flags and k < 4
      container   runs:   u16 count, then count x {u16 first, u16 length - 1}
                  array:  u16 values, ascending; up to 4,096 of them
                  bitmap: 65,536 bits

Source: storage_format 2.3; RoaringFormatSpec, `Roaring64NavigableMap.serializePortable`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pyhudi.arrays import Longs, Mask
from pyhudi.errors import CorruptFileError, UserError

_PLAIN: Final = 12346
_WITH_RUNS: Final = 12347
_OFFSETS_FROM: Final = 4  # containers; bitmaps with run flags and fewer have no offsets
_ARRAY_MAX: Final = 4096
_BITMAP_BYTES: Final = 8192
_SPAN: Final = 1 << 16

_Shorts = npt.NDArray[np.uint16]
_Words = npt.NDArray[np.uint32]
_Number = TypeVar("_Number", bound=np.generic)


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """The bitmap of ascending, distinct, non-negative values, each container in its smallest form.

    Raises UserError for other values.
    """
    numbers = np.ascontiguousarray(values, np.int64)
    if len(numbers) and (numbers[0] < 0 or not (np.diff(numbers) > 0).all()):
        raise UserError("values of a bitmap must be ascending, distinct and not negative")
    chunks = [(int(part[0]) >> 32, part) for part in _split(numbers, numbers >> 32)]
    buckets = [
        struct.pack("<I", high) + _encode_bucket((part & 0xFFFFFFFF).astype(np.uint32))
        for high, part in chunks
    ]
    return struct.pack("<Q", len(buckets)) + b"".join(buckets)


def decode(data: bytes, *, count_max: int) -> Longs:
    """The values of a bitmap, ascending.

    count_max: bound on their number, which is checked before they are created, since a few bytes
    may stand for 65,536 values.  Raises CorruptFileError for anything that is not such a bitmap,
    and for values of 2^63 or more.
    """
    reader = _Reader(data)
    buckets = reader.integer(8)
    if buckets * 12 > len(data):
        raise CorruptFileError("a bitmap has an invalid number of buckets", buckets=buckets)
    parts = [np.zeros(0, np.int64)]
    last = -1
    for _ in range(buckets):
        high = reader.integer(4)
        if not last < high < 1 << 31:
            raise CorruptFileError("buckets of a bitmap are out of order or range", bucket=high)
        low = np.concatenate(list(_containers(reader, count_max)))
        count_max -= len(low)
        parts.append(low.astype(np.int64) | np.int64(high) << np.int64(32))
        last = high
    reader.end()
    return np.concatenate(parts)


def _split(
    values: npt.NDArray[_Number], groups: npt.NDArray[np.generic]
) -> list[npt.NDArray[_Number]]:
    """The values cut where the group changes."""
    cuts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    return np.split(values, cuts) if len(values) else []


def _encode_bucket(values: _Words) -> bytes:
    parts = _split(values, values >> np.uint32(16))
    keys = np.array([int(part[0]) >> 16 for part in parts], "<u2")
    bodies, runs = [], []
    for part in parts:
        body, is_runs = _encode_container(part.astype(np.uint16))
        bodies.append(body)
        runs.append(is_runs)
    counts = np.array([len(part) - 1 for part in parts], "<u2")
    described: bytes = np.stack([keys, counts], 1).tobytes()
    head = _cookie(np.array(runs, np.bool_)) + described
    if any(runs) and len(parts) < _OFFSETS_FROM:
        return head + b"".join(bodies)
    first = len(head) + 4 * len(parts)
    sizes = np.array([len(body) for body in bodies])
    offsets: bytes = (first + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    return head + offsets + b"".join(bodies)


def _cookie(runs: Mask) -> bytes:
    if not runs.any():
        return struct.pack("<II", _PLAIN, len(runs))
    flags = np.packbits(runs, bitorder="little").tobytes()
    return struct.pack("<HH", _WITH_RUNS, len(runs) - 1) + flags


def _encode_container(values: _Shorts) -> tuple[bytes, bool]:
    """(content, whether it is of runs).  Runs only if they take less space, as Java does."""
    wide = values.astype(np.int32)
    starts = np.flatnonzero(np.diff(wide, prepend=-2) != 1)
    if 2 + 4 * len(starts) < min(2 * len(values), _BITMAP_BYTES):
        lengths = np.diff(np.r_[starts, len(values)]) - 1
        pairs = np.stack([wide[starts], lengths], 1).astype("<u2")
        return struct.pack("<H", len(starts)) + pairs.tobytes(), True
    if len(values) <= _ARRAY_MAX:
        return values.astype("<u2").tobytes(), False
    bits = np.zeros(_SPAN, np.bool_)
    bits[values] = True
    packed: bytes = np.packbits(bits, bitorder="little").tobytes()
    return packed, False


class _Reader:
    """Reads forward in untrusted bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise CorruptFileError("a bitmap is truncated", offset=self.at, expected=size)
        self.at += size
        return self._data[self.at - size : self.at]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def shorts(self, count: int) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.take(2 * count), "<u2").astype(np.int64)

    def end(self) -> None:
        if self.at != len(self._data):
            raise CorruptFileError("a bitmap is followed by other bytes", offset=self.at)


def _containers(reader: _Reader, count_max: int) -> Iterator[Longs]:
    """The low 32 bits of the values of a bucket, container by container."""
    begin = reader.at
    runs = _run_flags(reader)
    keys, counts = reader.shorts(2 * len(runs)).reshape(-1, 2).T
    counts = counts + 1
    if not (np.diff(keys) > 0).all():
        raise CorruptFileError("containers of a bitmap are out of order")
    if int(counts.sum()) > count_max:
        raise CorruptFileError("a bitmap has more values than expected", expected=count_max)
    offsets = None
    if not runs.any() or len(runs) >= _OFFSETS_FROM:
        offsets = np.frombuffer(reader.take(4 * len(runs)), "<u4").tolist()
    for number, (key, count) in enumerate(zip(keys.tolist(), counts.tolist(), strict=True)):
        if offsets is not None and offsets[number] != reader.at - begin:
            raise CorruptFileError("a container of a bitmap is at another offset than stated")
        yield _container(reader, count, is_runs=bool(runs[number])) | key << 16


def _run_flags(reader: _Reader) -> Mask:
    """Whether each container is of runs."""
    cookie = reader.integer(4)
    if cookie == _PLAIN:
        count = reader.integer(4)
        if not 0 < count <= _SPAN:
            raise CorruptFileError("a bitmap has an invalid number of containers", count=count)
        return np.zeros(count, np.bool_)
    if cookie & 0xFFFF != _WITH_RUNS:
        raise CorruptFileError("unknown kind of bitmap", cookie=cookie)
    count = (cookie >> 16) + 1
    flags = np.frombuffer(reader.take((count + 7) // 8), np.uint8)
    return np.unpackbits(flags, count=count, bitorder="little").view(np.bool_)


def _container(reader: _Reader, count: int, *, is_runs: bool) -> Longs:
    """The values of a container, ascending."""
    if is_runs:
        values = _runs(reader, count)
    elif count <= _ARRAY_MAX:
        values = reader.shorts(count)
    else:
        bits = np.frombuffer(reader.take(_BITMAP_BYTES), np.uint8)
        values = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    if len(values) != count or not (np.diff(values) > 0).all():
        raise CorruptFileError("a container of a bitmap contradicts its description")
    return values


def _runs(reader: _Reader, count: int) -> Longs:
    first, length = reader.shorts(2 * reader.integer(2)).reshape(-1, 2).T
    length = length + 1
    is_valid = int(length.sum()) == count and (first + length <= _SPAN).all()
    if not is_valid or not (first[1:] > (first + length)[:-1] - 1).all():
        raise CorruptFileError("a container of a bitmap contradicts its description")
    within = np.arange(count) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(first, length) + within
