"""How good bytes are made bad: flips, splices, cuts, and numbers at their limits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_LIMITS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
           (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip


def flip(data: bytearray, rnd: random.Random) -> None:
    """One bit, or a few."""
    for _ in range(rnd.choice((1, 1, 1, 2, 8))):
        data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)


def put(data: bytearray, rnd: random.Random) -> None:
    """One byte at a limit."""
    data[rnd.randrange(len(data))] = rnd.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))


def splice(data: bytearray, rnd: random.Random) -> None:
    """A piece out, doubled, zeroed, or moved elsewhere."""
    start = rnd.randrange(len(data))
    chunk = data[start : start + rnd.choice((1, 2, 4, 8, 64, 512))]
    match rnd.randrange(4):
        case 0:
            del data[start : start + len(chunk)]
        case 1:
            data[start:start] = chunk
        case 2:
            data[start : start + len(chunk)] = bytes(len(chunk))
        case _:
            at = rnd.randrange(len(data))
            data[at : at + len(chunk)] = chunk


def cut(data: bytearray, rnd: random.Random) -> None:
    """The end away, or the beginning."""
    at = rnd.randrange(len(data))
    if rnd.random() < 0.8:
        del data[at:]
    else:
        del data[:at]


def number(data: bytearray, rnd: random.Random) -> None:
    """A 4- or 8-byte integer where one seems to be (small, big-endian), set to a limit."""
    width = rnd.choice((4, 8))
    places = [
        at
        for at in range(max(0, len(data) - width))
        if data[at : at + width - 2] == bytes(width - 2)
    ]
    at = rnd.choice(places) if places else rnd.randrange(len(data))
    value = rnd.choice((*_LIMITS, len(data), len(data) - at)) % (1 << (8 * width))
    data[at : at + width] = value.to_bytes(width, "big")


def varint(data: bytearray, rnd: random.Random) -> None:
    """A variable-length integer of up to ten bytes, as Avro and protobuf have them."""
    at, value = rnd.randrange(len(data)), rnd.choice(_LIMITS)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    data[at : at + rnd.choice((1, len(out)))] = out


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip, flip, put, splice, cut, number, varint,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes [start, end) of a good file, and what stands there instead."""

    start: int
    end: int
    data: bytes

    def applied(self, good: bytes) -> bytes:
        return good[: self.start] + self.data + good[self.end :]

    @property
    def is_cut(self) -> bool:
        return not self.data and self.end > self.start


def changed(data: bytes, rnd: random.Random) -> tuple[bytes, list[Edit]]:
    """Other bytes than `data`, and how they differ."""
    while True:
        bad = bytearray(data)
        origins = list(range(len(data) + 1))
        edits: list[Edit] = []
        for _ in range(rnd.choice((1, 1, 1, 2, 4))):
            if bad:
                before = bytes(bad)
                rnd.choice(CHANGES)(bad, rnd)
                for start, end, new in _differences(before, bytes(bad)):
                    edits.append(Edit(origins[start], origins[end], new))
                    if len(bad) != len(before):
                        origins[start:end] = [origins[start]] * len(new)
        if bytes(bad) != data:
            return bytes(bad), edits


def _differences(before: bytes, after: bytes) -> list[tuple[int, int, bytes]]:
    """(start, end, bytes instead): runs of differing bytes, one run where the length differs."""
    shared = min(len(before), len(after))
    a, b = (np.frombuffer(each, np.uint8) for each in (before, after))
    if len(a) == len(b):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], a != b, [False]])))
        runs = edges.reshape(-1, 2).tolist()
        return [(start, end, after[start:end]) for start, end in runs]
    start = _equal(a[:shared], b[:shared])
    end = _equal(a[::-1][: shared - start], b[::-1][: shared - start])
    return [(start, len(before) - end, after[start : len(after) - end])]


def _equal(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> int:
    """How many bytes are equal from the first on."""
    differing = np.flatnonzero(a != b)
    return int(differing[0]) if len(differing) else len(a)
