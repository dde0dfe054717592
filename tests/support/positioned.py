"""Positions added to the logs of a table in memory, as Apache Hudi 1.x writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.filenames import BaseFileName
from pyhudi.formats.base_file import read_base
from pyhudi.formats.delete_block import NATURAL, decode_deletes
from pyhudi.formats.log_block import data_batches, data_block, delete_block, read_content
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, read_blocks
from pyhudi.formats.record_positions import RecordPositions
from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem, RandomAccess
from pyhudi.table.file_group_view import FileSlice

ORDERED = {3: pa.int64()}
"""Ordering types of deletes that these tests write, by branch."""


def add_positions(table: Table, *, instant: str | None = None) -> int:
    """Rewrite each log block whose records are in its base file, with their positions there.

    instant: the base file that the blocks name; None: theirs.  Returns the number of blocks.
    """
    count = 0
    state = table._state()
    for slice_ in state.view().latest_slices():
        if slice_.base is None:
            continue
        keys = read_base(state.fs, slice_.base.path, columns=[RECORD_KEY]).column(0).to_pylist()
        rows = {key: number for number, key in enumerate(keys)}
        assert len(rows) == len(keys)
        count += _rewrite(state.fs, slice_, rows, instant)
    OUTCOMES.clear()
    return count


def _rewrite(fs: FileSystem, slice_: FileSlice, rows: dict[str, int], instant: str | None) -> int:
    count = 0
    assert slice_.base is not None and isinstance(slice_.base.name, BaseFileName)
    for log in slice_.logs:
        file = fs.open(log.path)
        data = fs.read(log.path)
        contents = []
        for block in read_blocks(file, path=log.path):
            whole = data[block.offset : block.offset + block.size]
            made = _positioned(block, file, rows, instant or slice_.base.name.instant)
            contents.append(made or whole)
            count += made is not None
        fs.replace(log.path, b"".join(contents))
    return count


def _positioned(
    block: LogBlock, file: RandomAccess, rows: dict[str, int], base_instant: str
) -> bytes | None:
    if block.kind is BlockKind.DELETE:
        return _deletes(block, file, rows, base_instant)
    if block.kind not in (BlockKind.AVRO, BlockKind.PARQUET):
        return None
    records = data_batches(block, file, path="x")
    found = _order(records.column(RECORD_KEY).to_pylist(), rows)
    if found is None:
        return None
    return data_block(
        records.take(found[0]), kind=block.kind, instant=block.instant or "",
        avro_schema=block.schema or "", positions=RecordPositions(base_instant, found[1]),
    )  # fmt: skip


def _deletes(
    block: LogBlock, file: RandomAccess, rows: dict[str, int], base_instant: str
) -> bytes | None:
    content = read_content(block, file)
    plain = decode_deletes(content, path="x")
    kinds = set(plain.column("ordering_kind").to_pylist()) - {NATURAL, 2}
    found = _order(plain.column("record_key").to_pylist(), rows)
    if found is None or kinds - set(ORDERED):
        return None
    ordering = None
    if kinds:
        typed = decode_deletes(content, path="x", ordering_type=ORDERED[kinds.pop()])
        ordering = typed.column("ordering").take(found[0])
    return delete_block(
        plain.column("record_key").take(found[0]),
        plain.column("partition_path").take(found[0]),
        ordering,
        instant=block.instant or "",
        avro_schema=block.header.get(HeaderKey.SCHEMA),
        positions=RecordPositions(base_instant, found[1]),
    )


def _order(keys: list[str], rows: dict[str, int]) -> tuple[pa.Array, np.ndarray] | None:
    """(order of the records, their positions); None if one is not in the base file."""
    at = np.array([rows.get(key, -1) for key in keys], np.int64)
    if (at < 0).any() or len(set(at.tolist())) < len(at):
        return None
    order = np.argsort(at)
    return pa.array(order), at[order]
