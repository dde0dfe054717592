"""Positions of log entries in the base file of a slice, where every block of its logs has them.

A merge by position reads no record keys.  Blocks without positions, or with positions in another
base file, are merged by key, and so are damaged positions: the result is the same.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Longs
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import BaseFileName
from pyhudi.formats.base_file import footer
from pyhudi.formats.log_scan import PlacedBlock
from pyhudi.formats.record_positions import read_positions, refers_to
from pyhudi.merge.row_match import RowMatch, match_positions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import DataFile


def has_positions(base: DataFile, blocks: Sequence[PlacedBlock]) -> bool:
    """Whether all blocks have positions in this base file."""
    assert isinstance(base.name, BaseFileName)
    return all(refers_to(placed.block, base.name.instant) for placed in blocks)


def position_match(
    fs: FileSystem,
    base: tuple[DataFile, pa.Table],
    blocks: Sequence[PlacedBlock],
    log: Sequence[Sized],
    row_groups: Sequence[int] | None,
) -> RowMatch | None:
    """The match of the entries of the blocks with the rows of the base file.

    base: the file, and the rows that were read of it; row_groups: those that were read, None for
    all.  None where positions are damaged.
    """
    file, rows = base
    positions = _positions(blocks, log)
    if positions is None:
        return None
    counts = np.array([rows.num_rows])
    if row_groups is not None:
        stored = footer(fs, file.path).metadata
        counts = np.array([stored.row_group(n).num_rows for n in range(stored.num_row_groups)])
    ends = np.cumsum(counts).tolist()
    if any((found[-1:] >= ends[-1]).any() for found in positions):
        return None
    read = range(len(counts)) if row_groups is None else row_groups
    return match_positions(positions, [range(ends[n] - int(counts[n]), ends[n]) for n in read])


def _positions(blocks: Sequence[PlacedBlock], log: Sequence[Sized]) -> list[Longs] | None:
    """The base file row of each entry, by block; None if those of a block are damaged."""
    try:
        return [
            read_positions(placed.block, count=len(entries), path=placed.path)
            for placed, entries in zip(blocks, log, strict=True)
        ]
    except CorruptFileError:
        return None
