"""Positions of the records of a log block in the base file of its slice: block headers 5 and 8.

    RECORD_POSITIONS                             base64 of a Roaring bitmap of row numbers
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS   instant of the base file with these rows

The i-th smallest row number belongs to the i-th record of the block.  A block has both headers or
neither.  Source: writer_v8_v9 7.1, storage_format 2.3.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from pyhudi.arrays import Longs
from pyhudi.errors import CorruptFileError
from pyhudi.formats import roaring
from pyhudi.formats.log_file import HeaderKey, LogBlock


@dataclass(frozen=True, slots=True)
class RecordPositions:
    """rows: the row in the base file of each record of a block, from 0, ascending and distinct."""

    base_instant: str
    rows: Longs


def position_headers(positions: RecordPositions | None) -> dict[HeaderKey, str]:
    """The headers of a block, empty without positions."""
    if positions is None:
        return {}
    bitmap = base64.b64encode(roaring.encode(positions.rows)).decode()
    return {
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: positions.base_instant,
        HeaderKey.RECORD_POSITIONS: bitmap,
    }


def refers_to(block: LogBlock, base_instant: str) -> bool:
    """Whether a block has positions in the base file of that instant."""
    stated = block.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
    return stated == base_instant and bool(block.header.get(HeaderKey.RECORD_POSITIONS))


def read_positions(block: LogBlock, *, count: int, path: str) -> Longs:
    """The row of each of the `count` records of a block.

    Raises CorruptFileError for a malformed bitmap, or one of another number of rows.
    """
    text = block.header.get(HeaderKey.RECORD_POSITIONS, "")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as broken:
        raise _damaged("the positions of a log block are not base64", block, path) from broken
    rows = roaring.decode(data, count_max=count)
    if len(rows) != count:
        raise _damaged("a log block has not one position for each record", block, path)
    return rows


def _damaged(what: str, block: LogBlock, path: str) -> CorruptFileError:
    return CorruptFileError(what, path=path, offset=block.offset)
