"""How many nanoseconds a key do hashing, bloom filters, key tables and key sorting cost?

Beside each the same work by pyarrow or a Python dict, where there is one.
`python -m bench.bloom_and_keys [--smoke]`
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import (
    BloomFilter,
    KeyTable,
    argsort,
    bucket_of,
    fold,
    java_string_hash,
    latest,
    murmur3_32,
)

FULL, SMOKE = 500_000, 5_000


def nanoseconds(work: Callable[[], Any], keys: int, *, runs: int = 5) -> float:
    """Best of some runs, for each key."""
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds) / keys * 1e9


def key_column(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"user-{number:020d}" for number in numbers.tolist()])


def run(*, smoke: bool = False) -> dict[str, tuple[float, float | None]]:
    """Nanoseconds a key of pyhudi and of its peer, by what was measured."""
    size = SMOKE if smoke else FULL
    numbers = np.random.default_rng(7).permutation(4 * size)
    base, other = key_column(numbers[:size]), key_column(numbers[size : 2 * size])
    half = key_column(np.random.default_rng(8).permutation(numbers[size // 2 : size * 3 // 2]))
    log = pa.concat_arrays([base, half])
    ranks = np.random.default_rng(9).integers(0, 100, len(log))
    kinds = (ranks < 10).astype(np.uint8)
    table, bloom = KeyTable(base), BloomFilter(size, 1e-9)
    folded = fold(log, kinds, ranks, None, True)
    bloom.add(base)
    rows = dict(zip(base.to_pylist(), range(size), strict=True))
    probes = half.to_pylist()

    def timed(work: Callable[[], Any], keys: int = size) -> float:
        return nanoseconds(work, keys)

    return {
        "java_string_hash": (timed(lambda: java_string_hash(base)), None),
        "bucket_of": (timed(lambda: bucket_of(base, 10)), None),
        "murmur3_32": (timed(lambda: murmur3_32(base)), None),
        "bloom add, 1e-9": (timed(lambda: BloomFilter(size, 1e-9).add(base)), None),
        "bloom contains, absent": (timed(lambda: bloom.contains(other)), None),
        "bloom contains, present": (timed(lambda: bloom.contains(base)), None),
        "KeyTable build; dict": (
            timed(lambda: KeyTable(base)),
            timed(lambda: dict(zip(base.to_pylist(), range(size), strict=True))),
        ),
        "KeyTable find, half there; dict": (
            timed(lambda: table.find(half)),
            timed(lambda: [rows.get(key, -1) for key in probes]),
        ),
        "KeyTable find, absent": (timed(lambda: table.find(other)), None),
        "build and find; pyarrow index_in": (
            timed(lambda: KeyTable(base).find(half)),
            timed(lambda: pc.index_in(half, base)),
        ),
        "latest": (timed(lambda: latest(log, ranks), len(log)), None),
        "fold": (timed(lambda: fold(log, kinds, ranks, None, True), len(log)), None),
        "fold against base": (timed(lambda: folded.against_base(half, ranks[:size])), None),
        "argsort; pyarrow sort_indices": (
            timed(lambda: argsort(base)),
            timed(lambda: pc.array_sort_indices(base)),
        ),
        "result hash": (result_hash(table, bloom, folded.winner, half), None),
    }


def result_hash(table: KeyTable, bloom: BloomFilter, winner: np.ndarray, probes: pa.Array) -> float:
    """A short number of all results: equal on every machine for one size."""
    digest = hashlib.sha256(table.find(probes).tobytes())
    digest.update(bloom.to_base64().encode())
    digest.update(winner.tobytes())
    digest.update(argsort(probes).tobytes())
    return float(int.from_bytes(digest.digest()[:4], "big"))


def main() -> None:
    for name, (own, peer) in run(smoke="--smoke" in sys.argv[1:]).items():
        unit = "" if name == "result hash" else " ns a key"
        peer_text = "" if peer is None else f"; {peer:.1f}"
        print(f"{name}: {own:.1f}{peer_text}{unit}")


if __name__ == "__main__":
    main()
