"""Writers of the metadata table's files: logs and base HFiles.

A log file contains the blocks of one attempt of one delta commit, under a name that no other
attempt uses; it is created atomically.  Blocks: HFILE blocks followed by at most one DELETE block,
so that within a commit deletes come last, as Apache Hudi writes them.
Source: table_format 9.1, 9.8; storage_format 1.11, 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from pyhudi._native.bloom import BloomFilter
from pyhudi._native.hfile.writer import HFileWriter
from pyhudi.filenames import BaseFileName, LogFileName, join
from pyhudi.formats.log_block import delete_block, empty_delete_block
from pyhudi.formats.log_file import BlockKind, HeaderKey, write_block
from pyhudi.metadata.payloads import SCHEMA
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem

HFILE: Final = ".hfile"
LOG_BLOCK_BYTES_MAX: Final = 512 << 20
"""Limit of keys and values in one log block before compression; Apache Hudi reads a block into one
array."""

_GROUP_TOKEN: Final = "0-0-0"
_BLOCK_BYTES: Final = 24 << 10
"""Block size of base files, and of logs, as that of a first load is merged late.  Looking up a few
keys among many entries inflates one block per key: half the cost of 64 KiB blocks, for a tenth more
bytes and a tenth more time if every block is read."""

_BLOOM_ENTRIES_MIN: Final = 1000
_BLOOM_FALSE: Final = 1e-4  # the filter is a tenth of the file; Apache Hudi accepts any rate


def create_group(fs: FileSystem, partition: str, file_id: str, time: InstantTime) -> None:
    """Create the first log of a file group, which has no entries.  fs: of the metadata table."""
    first = LogFileName(file_id, time, 1, _GROUP_TOKEN)
    fs.create(join(partition, str(first)), empty_delete_block(time))


def value_blocks(
    keys: pa.Array, values: pa.Array, *, instant: InstantTime, schema: str = SCHEMA
) -> Iterator[bytes]:
    """HFILE blocks of sorted, distinct keys.  schema: of the values."""
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    count = len(keys)
    size = keys.nbytes + values.nbytes
    step = max(1, count * LOG_BLOCK_BYTES_MAX // max(size, 1))
    for start in range(0, count, step):
        with HFileWriter(
            None, compression="gz", block_size=_BLOCK_BYTES, metadata=_file_info(schema)
        ) as writer:
            writer.add(keys[start : start + step], values[start : start + step])
            content = writer.finish()
        assert content is not None  # a writer without a target returns its bytes
        yield write_block(BlockKind.HFILE, header, content)


def _file_info(schema: str) -> dict[str | bytes, str | bytes]:
    return {"schema": schema}


def tombstone_block(
    keys: pa.Array, partition: str, *, instant: InstantTime, schema: str = SCHEMA
) -> bytes:
    """A DELETE block of distinct keys.  schema: of the partition's values."""
    return delete_block(keys, partition, None, instant=instant, avro_schema=schema)


def write_log(fs: FileSystem, partition: str, name: LogFileName, blocks: list[bytes]) -> int:
    """Write a log file durably; returns its size.  fs: rooted at the metadata table."""
    path = join(partition, str(name))
    with fs.open_sink(path) as sink:
        for block in blocks:
            sink.write(block)
        return sink.tell()


def write_base_hfile(
    fs: FileSystem,
    partition: str,
    name: BaseFileName,
    keys: pa.Array,
    values: pa.Array,
    schema: str = SCHEMA,
) -> int:
    """Write a base HFile of sorted, distinct keys with a bloom filter; returns its size.  schema:
    of the values."""
    size, _ = write_base_in_chunks(
        fs, partition, name, [(keys, values)], entries_max=len(keys), schema=schema
    )
    return size


def write_base_in_chunks(
    fs: FileSystem,
    partition: str,
    name: BaseFileName,
    chunks: Iterable[tuple[pa.Array, pa.Array]],
    *,
    entries_max: int,
    schema: str = SCHEMA,
) -> tuple[int, int]:
    """`write_base_hfile` of consecutive chunks; returns (size, entries).  Memory: one chunk."""
    entries = max(entries_max, _BLOOM_ENTRIES_MIN)
    bloom = BloomFilter(entries, _BLOOM_FALSE, entries_max=entries)
    count = 0
    with fs.open_sink(join(partition, str(name))) as sink:
        writer = HFileWriter(
            sink,
            compression="gz",
            block_size=_BLOCK_BYTES,
            bloom=bloom,
            metadata=_file_info(schema),
        )
        for keys, values in chunks:
            add_in_chunks(writer, keys, values)
            count += len(keys)
        writer.finish()
        return sink.tell(), count


def add_in_chunks(writer: Any, keys: pa.Array, values: pa.Array) -> None:
    """Add rows in batches of a million, so that interrupts are handled between batches."""
    step = 1 << 20
    for start in range(0, len(keys), step):
        writer.add(keys[start : start + step], values[start : start + step])
