"""Creation of `column_stats` and `bloom_filters` with the entries of existing files.

Apache Hudi does not index existing files; here each file gets its entries, so that reads can skip
files immediately.  Once a partition is listed, every commit maintains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from pyhudi._native.hashing import shard_of
from pyhudi._native.keys import argsort
from pyhudi.engine import Engine
from pyhudi.filenames import METADATA_TABLE, LogFileName, join, parse_data_file
from pyhudi.metadata.bootstrap import create_partition, stored_files
from pyhudi.metadata.file_stats.records import FileIndex, IndexedFile, index_file
from pyhudi.metadata.payloads import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    NON_PARTITIONED,
    MetadataPartition,
    encode_filters,
    encode_ranges,
)
from pyhudi.records import BEFORE_ALL_INSTANTS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


def create_facts(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    *,
    group_counts: Mapping[MetadataPartition, int],
    engine: Engine,
) -> TableConfig:
    """Create the partitions that the table lacks; returns the stored properties.

    The caller holds the table's lock, no write is pending, and the table has `files`.
    Cost: reads the footer of every base file and every log in full.
    """
    lacking = {p: n for p, n in group_counts.items() if p.path not in config.metadata_partitions}
    if not lacking:
        return config
    timeline = log.load()
    tasks = [IndexedFile(fs, stat) for stat in _stats(fs, timeline)]
    found = engine.run(index_file, tasks, label="file-index") if tasks else []
    last = timeline.where(None, State.COMPLETED).last
    for partition, count in lacking.items():
        records = _records(partition, found, last.time if last else BEFORE_ALL_INSTANTS)
        fs.delete_folder(f"{METADATA_TABLE}/{partition.path}")
        groups = _grouped(partition, records, count)
        config = create_partition(fs, config, timeline, partition, groups)
    return config


def _stats(fs: FileSystem, timeline: Timeline) -> Iterable[WriteStat]:
    for key, names in stored_files(fs, timeline).items():
        if key == ALL_PARTITIONS:
            continue
        partition = "" if key == NON_PARTITIONED else key
        for file_name, size in names.items():
            name = parse_data_file(file_name)
            if name is None or (isinstance(name, LogFileName) and name.is_cdc):
                continue
            yield WriteStat(
                partition=partition, file_id=name.file_id, path=join(partition, file_name),
                previous_instant=None, write_count=0, delete_count=0, update_count=0,
                insert_count=0, size_bytes=size or 0, write_bytes=0,
            )  # fmt: skip


def _records(
    partition: MetadataPartition, found: Iterable[FileIndex], time: str
) -> dict[str, dict[str, Any]]:
    if partition == COLUMN_STATS:
        return {i.range_key(r.column): r.to_record(i.file_name) for i in found for r in i.ranges}
    assert partition == BLOOM_FILTERS
    return {
        index.bloom_key: {
            "type": index.bloom_kind,
            "timestamp": time,
            "bloomFilter": index.bloom_text.encode(),
            "isDeleted": False,
        }
        for index in found
        if index.bloom_text is not None
    }


def _grouped(
    partition: MetadataPartition, records: Mapping[str, dict[str, Any]], count: int
) -> list[tuple[pa.Array, pa.Array] | None]:
    """The sorted keys and values of each group; None for a group without keys."""
    if not records:
        return [None] * count
    encode = encode_ranges if partition == COLUMN_STATS else encode_filters
    names = list(records)
    keys, values = pa.array(names, pa.string()), encode([records[name] for name in names])
    homes = shard_of(keys, count)
    groups: list[tuple[pa.Array, pa.Array] | None] = []
    for number in range(count):
        mine = pa.array(homes == number)
        in_group = keys.filter(mine)
        order = pa.array(argsort(in_group)) if len(in_group) else None
        groups.append(
            None if order is None else (in_group.take(order), values.filter(mine).take(order))
        )
    return groups
