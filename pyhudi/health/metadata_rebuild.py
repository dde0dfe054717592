"""A table's metadata table verified and rebuilt: what `metadata/rebuild` needs to be told."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import METADATA_TABLE, parse_data_file
from pyhudi.metadata.definitions import define_column_stats
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    KEPT,
    RECORD_INDEX,
    MetadataPartition,
)
from pyhudi.metadata.rebuild import REBUILT, RebuildRequest, rebuild_metadata_table
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.metadata.writer import check_writable
from pyhudi.options import Heartbeats, Options, ReadOptions
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.transaction.deferred_publish import check_none_kept
from pyhudi.transaction.rollback import roll_back_failed


def rebuild_metadata(fs: FileSystem, options: Options, engine: Engine) -> TableConfig:
    """Make the metadata table anew with the partitions it lists; the caller holds the lock.

    Failed writes are rolled back first, without asking the metadata table, which is replaced.
    Cost: every record key is read, and held, if there is a record index; footers for statistics.
    """
    config = load_config(fs)
    check_writable(config)
    listed = config.metadata_partitions or _partitions_there(fs)
    log = timeline_log(fs, config)
    _roll_back(fs, config, log, options.write.concurrency.heartbeats)
    shards = None
    if RECORD_INDEX.path in listed:
        shards = _group_count(fs, RECORD_INDEX) or options.write.shard_count
    wanted = RebuildRequest(
        shards,
        lambda: _stored_keys(fs),
        {
            partition: _group_count(fs, partition) or default
            for partition, default in (
                (COLUMN_STATS, options.write.facts.column_stats_groups),
                (BLOOM_FILTERS, options.write.facts.bloom_filters_groups),
            )
            if partition.path in listed
        },
    )
    config = rebuild_metadata_table(fs, config, wanted, engine=engine)
    if COLUMN_STATS.path not in config.metadata_partitions:
        return config
    schema = load_state(fs, ReadOptions(metadata_enabled=False)).schema()
    return define_column_stats(fs, config, schema)


def check_rebuildable(fs: FileSystem) -> None:
    """Raise what would stop a rebuild before it begins: a version that is not written here, a
    write that waits to be published."""
    config = load_config(fs)
    check_writable(config)
    log = timeline_log(fs, config)
    check_none_kept(fs, log.load())


def _roll_back(
    fs: FileSystem, config: TableConfig, log: TimelineLog, heartbeats: Heartbeats
) -> None:
    """With the metadata table's help where that is sound, else without it."""
    try:
        roll_back_failed(
            fs, config, log, metadata_rollback=rollback_metadata, heartbeats=heartbeats
        )
    except (CorruptFileError, FileMissingError):
        roll_back_failed(fs, config, log, metadata_rollback=_no_metadata, heartbeats=heartbeats)


def _no_metadata(*_: object, **__: object) -> None:
    """What is rebuilt from the store need not be told."""


def _partitions_there(fs: FileSystem) -> frozenset[str]:
    """Partitions that the folder holds: what was listed before a rebuild was cut short."""
    folders = (METADATA_TABLE, f"{REBUILT}/metadata")
    there = {info.name for folder in folders for info in fs.children(folder) if info.is_folder}
    return frozenset(partition.path for partition in KEPT if partition.path in there)


def _group_count(fs: FileSystem, partition: MetadataPartition) -> int:
    """How many file groups a metadata partition has on the store."""
    names = (parse_data_file(i.name) for i in fs.children(f"{METADATA_TABLE}/{partition.path}"))
    numbers = {partition.number(name.file_id) for name in names if name is not None}
    return max((number for number in numbers if number is not None), default=-1) + 1


def _stored_keys(fs: FileSystem) -> Iterator[tuple[pa.ChunkedArray, FileGroupId]]:
    """(record keys, file group) of every slice, found by listing the store."""
    state = load_state(fs, ReadOptions(metadata_enabled=False))
    view = state.view()
    spec = SliceSpec(state.schema(), (RECORD_KEY,), state.rules, view.visibility)
    for piece in view.latest_slices():
        yield read_slice(fs, piece, spec=spec).column(RECORD_KEY), piece.group
