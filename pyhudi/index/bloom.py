"""The bloom index: files pruned by key ranges, then by bloom filters, then searched for keys.

Ranges and filters are in the footers of base files.  The metadata table may store them too
(`column_stats`, `bloom_filters`); `hoodie.bloom.index.use.metadata` reads them from there.
Slices are always searched if they have no base file, if it has no range or filter, or if their logs
got new keys while the table had another index: writers with this index put new keys into base
files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native import BloomFilter
from pyhudi.errors import IndexNotReadyError
from pyhudi.filenames import METADATA_TABLE, join
from pyhudi.formats.base_file import footer
from pyhudi.index.key_join import (
    FileStats,
    Joined,
    KeyMatches,
    Probes,
    ProbeWork,
    by_partition,
    match_slice,
)
from pyhudi.metadata.file_stats.collect import bloom_filter_slices, read_filters, read_ranges
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS
from pyhudi.metadata.reader import MetadataTable
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.table.file_group_view import FileSlice

_AT_ONCE: Final = 64
"""Number of files whose filters are in memory at one time."""


@dataclass(frozen=True, slots=True)
class FileLens:
    """The key range and bloom filter of a base file; None where unknown."""

    bounds: tuple[str, str] | None
    bloom: BloomFilter | None


def filter_slices(work: ProbeWork) -> pa.Table:
    """As `simple.join_slices`, after pruning by ranges and filters."""
    return _filtered(work, prune=True)


def filter_slices_unpruned(work: ProbeWork) -> pa.Table:
    """As `filter_slices`, without ranges."""
    return _filtered(work, prune=False)


def _filtered(work: ProbeWork, *, prune: bool) -> pa.Table:
    hits = KeyMatches(len(work.runs))
    for probes, slices in by_partition(work):
        for number, slice_, lens in lenses_of(work, slices):
            left = [some for p in probes if (some := candidates(p, lens, prune=prune))]
            if not left:
                continue
            match_slice(work, slice_, Joined(left), hits, number)
    return hits.table()


def lenses_of(
    work: ProbeWork, slices: Sequence[tuple[int, FileSlice]]
) -> Iterator[tuple[int, FileSlice, FileLens]]:
    """The key range and filter of each slice's base file.

    Cost: its footer; or with the metadata table a lookup, in batches, and the footer of a file that
    it does not list.
    """
    for start in range(0, len(slices), _AT_ONCE):
        some = slices[start : start + _AT_ONCE]
        known = _from_metadata(work, [s for _, s in some])
        for number, slice_ in some:
            if slice_.group in work.unpruned:
                yield number, slice_, FileLens(None, None)
            else:
                yield number, slice_, known.get(slice_.group) or _by_footer(work, slice_)


def _from_metadata(work: ProbeWork, slices: Sequence[FileSlice]) -> dict[FileGroupId, FileLens]:
    """Lenses of the slices whose range and filter the metadata table has."""
    if work.file_stats is None:
        return {}
    based = [s for s in slices if s.base is not None and s.base.path in work.file_stats.bounds]
    names = [(s.partition, str(s.base.name)) for s in based if s.base is not None]
    found = read_filters(work.fs.sub(METADATA_TABLE), work.file_stats.filters, names)
    return {
        based[at].group: FileLens(work.file_stats.bounds[join(*names[at])], bloom)
        for at, bloom in found
    }


def _by_footer(work: ProbeWork, slice_: FileSlice) -> FileLens:
    if slice_.base is None:
        return FileLens(None, None)
    found = footer(work.fs, slice_.base.path)
    bounds = None
    if found.min_key is not None and found.max_key is not None:
        bounds = (found.min_key, found.max_key)
    return FileLens(bounds, found.bloom)


def file_stats_of(metadata: MetadataTable, slices: Iterable[FileSlice]) -> FileStats:
    """Ranges and filters of base files from the metadata table.

    Cost: a lookup a file.  Raises IndexNotReadyError if it does not store both.
    """
    lacking = {COLUMN_STATS.path, BLOOM_FILTERS.path} - metadata.partitions_listed
    if lacking:
        raise IndexNotReadyError(
            "the metadata table lacks partitions that the bloom index requires",
            path=metadata.data_fs.url,
            partitions=",".join(sorted(lacking)),
            hint="leave hoodie.bloom.index.use.metadata out to read footers instead",
        )
    bases = [s.base for s in slices if s.base is not None]
    names = [(base.partition, str(base.name)) for base in bases]
    ranges = read_ranges(metadata, names, {RECORD_KEY: pa.string()}).get(RECORD_KEY)
    bounds = {}
    if ranges is not None:
        lows, highs = ranges.low.to_pylist(), ranges.high.to_pylist()
        for at in np.flatnonzero(ranges.is_bounded).tolist():
            bounds[bases[at].path] = (lows[at], highs[at])
    return FileStats(bounds, bloom_filter_slices(metadata))


def candidates(probes: Probes, lens: FileLens, *, prune: bool) -> Probes | None:
    """The keys that the file may contain; None if there are none."""
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
    """Positions of the keys within bounds, and of wide keys, which bounds do not cover."""

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
