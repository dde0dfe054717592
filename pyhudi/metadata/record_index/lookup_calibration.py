"""Calibration of the lookup cost model on this machine.

Each constant is the difference between two lookups that differ only in that cost: scans of a
file without and with GZ (decompression), a scan and a lookup of every key (cost per key), a
lookup of few keys in as many blocks (cost per block).

Other work on the machine distorts the measurement.  Each lookup is therefore timed several
times, in wall clock time and in CPU time of this process; if these differ too much, nothing is
returned and nothing can be stored.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import pyarrow as pa

from pyhudi._native import HFileReader, HFileWriter
from pyhudi._native.hfile.costs import LookupCosts
from pyhudi.errors import MeasurementError

SPREAD_MAX: Final = 0.25
"""Maximum difference between repeated measurements, as a fraction of the least."""
_ROUNDS: Final = 7
_TRIES: Final = 3
_STEP: Final = 0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that all keys differ

Timer = Callable[[], tuple[float, float]]
"""Returns seconds of wall clock time and of CPU time of this process."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Cost constants, and the largest spread of the lookups they were computed from (0.1: 10%)."""

    costs: LookupCosts
    spread: float


@dataclass(frozen=True, slots=True)
class _Timing:
    """The least of several rounds, in seconds, and the spread of the others relative to it."""

    seconds: float
    spread: float

    @classmethod
    def of(cls, rounds: list[tuple[float, float]]) -> _Timing:
        walls = [wall for wall, _ in rounds]
        least = max(min(walls), 1e-9)
        waited = max(0.0, min(wall - worked for wall, worked in rounds))
        return cls(least, max(median(walls) - least, waited) / least)


def _clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def measure_costs(
    entries: int = 200_000, *, spread_max: float | None = None, clock: Timer = _clock
) -> Measured:
    """Measure the cost constants.

    Runs for seconds; writes two files of `entries` 36-character keys to a temporary folder.
    spread_max: the largest accepted spread; None is 0.25.  Raises MeasurementError where every
    attempt exceeds it, or a lookup that does more work took less time.
    """
    allowed = SPREAD_MAX if spread_max is None else spread_max
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "none.hfile", Path(folder) / "gz.hfile"
        keys = _write(plain, packed, entries)
        spread = float("inf")
        for _ in range(_TRIES):
            measured = _measured(plain, packed, keys, clock)
            spread = min(spread, measured.spread)
            if measured.spread <= allowed:
                return measured
    raise MeasurementError(
        "this machine is too busy to measure lookup costs",
        spread=f"{spread:.0%}",
        allowed=f"{allowed:.0%}",
        hint="stop other processes and calibrate again; the constants in use are unchanged",
    )


def _write(plain: Path, packed: Path, entries: int) -> pa.Array:
    """Write the same entries without and with GZ compression.  Returns their keys."""
    spread = (i * _STEP % (1 << 128) for i in range(entries))
    keys = pa.array(sorted(str(uuid.UUID(int=number)) for number in spread))
    values = pa.array([b"%060d" % (i % 50) for i in range(entries)], pa.binary())
    for path, codec in ((plain, "none"), (packed, "gz")):
        with HFileWriter(path, compression=codec) as writer:
            writer.add(keys, values)
    return keys


def _measured(plain: Path, packed: Path, keys: pa.Array, clock: Timer) -> Measured:
    """The constants of one attempt; the spread is infinite where the times are contradictory."""
    entries = len(keys)
    few = keys.take(pa.array(range(0, entries, max(1, entries // 50))))
    one = keys.slice(entries // 2, 1)
    scanned = _timed(plain, one, "scan", clock)
    inflated = _timed(packed, one, "scan", clock)
    sought = _timed(plain, keys, "seek", clock)
    probed = _timed(plain, few, "seek", clock)
    cell = scanned.seconds / entries
    key = (sought.seconds - scanned.seconds) / entries
    per_block = entries / HFileReader(plain).plan(keys).blocks * cell
    block = probed.seconds / len(few) - per_block - max(key, 0.0)
    inflating = inflated.seconds - scanned.seconds
    spread = max(t.spread for t in (scanned, inflated, sought, probed))
    if min(key, inflating) <= 0:
        spread = float("inf")
    size = packed.stat().st_size
    costs = LookupCosts(size / max(1e-9, inflating), cell, max(1e-9, key), max(1e-7, block))
    return Measured(costs, spread)


def _timed(path: Path, keys: pa.Array, method: str, clock: Timer) -> _Timing:
    """Time of several lookups, each with a new reader, on one thread."""
    rounds = []
    for _ in range(_ROUNDS):
        reader = HFileReader(path, threads=1, hash_after=None, cache_bytes=0)
        began = clock()
        reader.get_many(keys, method=method)
        ended = clock()
        rounds.append((ended[0] - began[0], ended[1] - began[1]))
    return _Timing.of(rounds)
