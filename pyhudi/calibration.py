"""The constants of look-ups, measured on this machine.

Each is told apart by two look-ups that differ in it alone: scans of a file without and with GZ
(inflating), a scan against a look-up of every key (a key), few keys in as many blocks (a block).
"""

from __future__ import annotations

import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa

from pyhudi._native import HFileReader, HFileWriter
from pyhudi._native.hfile_costs import LookupCosts

_ROUNDS = 5
_STEP = 0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that all keys differ


def measure_costs(entries: int = 200_000) -> LookupCosts:
    """Seconds of work; writes two files of `entries` 36-character keys into a temporary folder."""
    spread = (i * _STEP % (1 << 128) for i in range(entries))
    keys = pa.array(sorted(str(uuid.UUID(int=number)) for number in spread))
    values = pa.array([b"%060d" % (i % 50) for i in range(entries)], pa.binary())
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "none.hfile", Path(folder) / "gz.hfile"
        for path, codec in ((plain, "none"), (packed, "gz")):
            with HFileWriter(path, compression=codec) as writer:
                writer.add(keys, values)
        few = keys.take(pa.array(range(0, entries, max(1, entries // 50))))
        one = keys.slice(entries // 2, 1)
        size = packed.stat().st_size
        scanned = _seconds(plain, one, "scan")
        cell = scanned / entries
        key = max(1e-9, (_seconds(plain, keys, "seek") - scanned) / entries)
        blocks = HFileReader(plain).plan(keys).blocks
        per_block = entries / blocks * cell
        block = _seconds(plain, few, "seek") / len(few) - per_block - key
        inflate = size / max(1e-9, _seconds(packed, one, "scan") - scanned)
    return LookupCosts(inflate, cell, key, max(1e-7, block))


def _seconds(path: Path, keys: pa.Array, method: str) -> float:
    """The least of several look-ups by a new reader each, on one thread."""
    best = float("inf")
    for _ in range(_ROUNDS):
        reader = HFileReader(path, threads=1, hash_after=None, cache_bytes=0)
        began = time.perf_counter()
        reader.get_many(keys, method=method)
        best = min(best, time.perf_counter() - began)
    return best
