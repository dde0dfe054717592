"""How good bytes are made bad: flips, splices, cuts, and numbers at their limits."""

from __future__ import annotations

import random
from collections.abc import Callable

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
    piece = data[start : start + rnd.choice((1, 2, 4, 8, 64, 512))]
    match rnd.randrange(4):
        case 0:
            del data[start : start + len(piece)]
        case 1:
            data[start:start] = piece
        case 2:
            data[start : start + len(piece)] = bytes(len(piece))
        case _:
            at = rnd.randrange(len(data))
            data[at : at + len(piece)] = piece


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


def changed(data: bytes, rnd: random.Random) -> bytes:
    """Other bytes than `data`."""
    while True:
        bad = bytearray(data)
        for _ in range(rnd.choice((1, 1, 1, 2, 4))):
            if bad:
                rnd.choice(CHANGES)(bad, rnd)
        if bytes(bad) != data:
            return bytes(bad)
