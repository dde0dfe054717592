"""Positions in the headers of a log block: one for each record, or the block is damaged."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.formats import roaring
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, read_blocks, write_block
from pyhudi.formats.record_positions import RecordPositions, position_headers, read_positions
from pyhudi.storage.memory import MemoryFileSystem

BASE = "20250101000000000"


def block(headers: dict[HeaderKey, str]) -> LogBlock:
    fs = MemoryFileSystem()
    fs.create("log", write_block(BlockKind.PARQUET, headers, b"content"))
    (found,) = read_blocks(fs.open("log"), path="log")
    return found


def with_rows(*rows: int) -> LogBlock:
    return block(position_headers(RecordPositions(BASE, np.array(rows, np.int64))))


def test_the_positions_of_a_block_are_those_that_were_written() -> None:
    assert read_positions(with_rows(0, 4, 70000), count=3, path="log").tolist() == [0, 4, 70000]


@pytest.mark.parametrize("count", [0, 2, 4])
def test_another_number_of_positions_than_of_records_is_damage(count: int) -> None:
    with pytest.raises(CorruptFileError):
        read_positions(with_rows(0, 4, 70000), count=count, path="log")


@pytest.mark.parametrize("text", ["", "?", base64.b64encode(roaring.encode(np.array([1]))[:-1])])
def test_a_header_without_a_whole_bitmap_is_damage(text: str | bytes) -> None:
    stated = text if isinstance(text, str) else text.decode()
    with pytest.raises(CorruptFileError):
        read_positions(block({HeaderKey.RECORD_POSITIONS: stated}), count=1, path="log")
