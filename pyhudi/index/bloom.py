"""The bloom index: files by their key ranges, then by their bloom filters, then by their keys.

A slice without a base file, and one whose base file tells no range or has no filter, is always
looked through.  As in Apache Hudi, a key that is in a slice's logs only is not found if the slice
has a base file: writers put new keys of such tables into base files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native import BloomFilter
from pyhudi.formats.parquet import footer
from pyhudi.index.probe import Hits, Joined, Probes, ProbeWork, by_partition, match_slice
from pyhudi.table.view import FileSlice


@dataclass(frozen=True, slots=True)
class FileLens:
    """What a base file tells of its keys; None where it tells nothing."""

    bounds: tuple[str, str] | None
    bloom: BloomFilter | None


def filter_slices(work: ProbeWork) -> pa.Table:
    """As `simple.join_slices`, with every range and filter asked first."""
    return _filtered(work, prune=True)


def filter_slices_unpruned(work: ProbeWork) -> pa.Table:
    """As `filter_slices`, without asking for ranges."""
    return _filtered(work, prune=False)


def _filtered(work: ProbeWork, *, prune: bool) -> pa.Table:
    hits = Hits(len(work.runs))
    for probes, slices in by_partition(work):
        for number, slice_ in slices:
            lens = lens_of(work, slice_)
            left = [some for p in probes if (some := candidates(p, lens, prune=prune))]
            if not left:
                continue
            match_slice(work, slice_, Joined(left), hits, number)
    return hits.table()


def lens_of(work: ProbeWork, slice_: FileSlice) -> FileLens:
    """Range and filter of a slice's base file.  Cost: its footer."""
    if slice_.base is None:
        return FileLens(None, None)
    found = footer(work.fs, slice_.base.path)
    bounds = None
    if found.min_key is not None and found.max_key is not None:
        bounds = (found.min_key, found.max_key)
    return FileLens(bounds, found.bloom)


def candidates(probes: Probes, lens: FileLens, *, prune: bool) -> Probes | None:
    """The keys that the file may hold; None if there are none."""
    at = np.arange(len(probes.keys))
    if lens.bounds is not None and prune:
        at = _within(probes, *lens.bounds)
    keys = probes.keys if len(at) == len(probes.keys) else _some(probes.keys, at)
    if lens.bloom is not None and len(at):
        maybe = np.asarray(lens.bloom.contains(keys).to_numpy(zero_copy_only=False))
        if not maybe.all():
            at, keys = at[maybe], keys.filter(pa.array(maybe))
    if not len(at):
        return None
    return Probes(probes.run, keys, probes.rows[at], probes.wide[at])


def _within(probes: Probes, low: str, high: str) -> npt.NDArray[np.int64]:
    """Positions of the keys within bounds, and of those that bounds say nothing of."""

    def key_at(position: int) -> bytes:
        text: str = probes.keys[position].as_py()
        return text.encode()

    span = range(len(probes.keys))
    begin = bisect_left(span, low.encode(), key=key_at)
    end = bisect_right(span, high.encode(), key=key_at)
    mask = probes.wide.copy()
    mask[begin:end] = True
    return np.flatnonzero(mask) if probes.wide.any() else np.arange(begin, end)


def _some(keys: pa.Array, at: npt.NDArray[np.int64]) -> pa.Array:
    if len(at) and at[-1] - at[0] + 1 == len(at):
        return keys.slice(at[0], len(at))
    return keys.take(pa.array(at))
