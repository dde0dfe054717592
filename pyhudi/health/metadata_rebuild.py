"""Rebuild of the metadata table: provides the inputs of `metadata/rebuild`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    UnsupportedTableError,
)
from pyhudi.filenames import METADATA_TABLE, parse_data_file
from pyhudi.health.quarantine import quarantine_files
from pyhudi.index.maintenance.partitioned_build import build_by_partition
from pyhudi.index.maintenance.rebuild import silent
from pyhudi.index.secondary.build import recreate_indexes
from pyhudi.metadata.bootstrap import BEING_BUILT, LISTED, joined, partitions_being_built
from pyhudi.metadata.definitions import define_column_stats, definitions_path, read_definitions
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    INDEX_PREFIXES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataPartition,
    maintained_partitions,
)
from pyhudi.metadata.rebuild import REBUILT, RebuildRequest, rebuild_metadata_table
from pyhudi.metadata.record_index.by_partition import defined_by_partition, stored_group_counts
from pyhudi.metadata.writer import check_version, maintainable
from pyhudi.options import Heartbeats, Options, ReadOptions
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config, store_config
from pyhudi.table.timeline_facts import check_not_bootstrapped
from pyhudi.timeline.clock import format_instant, system_clock
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.transaction.deferred_publish import check_none_deferred

DAMAGED: Final = (CorruptFileError, FileMissingError, IndexNotReadyError, UnsupportedTableError)
"""What a metadata table that cannot be maintained raises in a rollback."""
_LOG: Final = logging.getLogger("pyhudi")


def rebuild_metadata(fs: FileSystem, options: Options, engine: Engine) -> TableConfig:
    """Rebuild the metadata table with the partitions it lists; the caller holds the lock.

    Failed writes are rolled back first, without the metadata table if that is damaged.  Unreadable
    index definitions are moved out and rewritten; secondary and expression indexes, which only
    they describe, are then no longer listed, nor partitions that this package does not maintain:
    a warning names those that are dropped.  Cost:
    every record key is read into memory if there is a record index; footers for statistics.
    """
    config = _rebuildable(fs)
    _quarantine_definitions(fs, config)
    by_partition = defined_by_partition(fs, config)
    stated = config.metadata_partitions | partitions_being_built(config) or _partitions_present(fs)
    listed = maintainable(config, stated)
    log = timeline_log(fs, config)
    config = _roll_back(fs, config, log, stated, options.write.concurrency.heartbeats, engine)
    buckets = None
    by_partition = by_partition and RECORD_INDEX.path in listed
    if RECORD_INDEX.path in listed and not by_partition:
        buckets = _group_count(fs, RECORD_INDEX) or options.write.bucket_count
    request = RebuildRequest(
        listed,
        buckets,
        lambda: _stored_keys(fs),
        {
            partition: _group_count(fs, partition) or default
            for partition, default in (
                (COLUMN_STATS, options.write.facts.column_stats_groups),
                (PARTITION_STATS, 1),
                (BLOOM_FILTERS, options.write.facts.bloom_filters_groups),
            )
            if partition.path in listed
        },
    )
    groups = stored_group_counts(fs) if by_partition else {}
    indexes = {
        partition.path: _group_count(fs, partition) or buckets or 1
        for partition in maintained_partitions(listed)
        if partition.path.startswith(INDEX_PREFIXES)
    }
    schema = load_state(fs, ReadOptions(metadata_enabled=False)).schema()
    has_ranges = not listed.isdisjoint({COLUMN_STATS.path, PARTITION_STATS.path})
    if has_ranges and config.layout.index_version:
        config = define_column_stats(fs, config, schema)
    config = rebuild_metadata_table(fs, config, request, engine=engine)
    if by_partition:
        state = load_state(fs, ReadOptions(metadata_enabled=False))
        build_by_partition(state, options.write, engine, silent, known=groups)
    recreate_indexes(fs, indexes, engine)
    config = store_config(fs, load_config(fs).with_properties({BEING_BUILT: ""}))
    if dropped := sorted(stated - config.metadata_partitions):
        _LOG.warning("%s: metadata partitions were dropped: %s", fs.url, ", ".join(dropped))
    if COLUMN_STATS.path not in config.metadata_partitions:
        return config
    return define_column_stats(fs, config, schema)


def _quarantine_definitions(fs: FileSystem, config: TableConfig) -> None:
    path = definitions_path(config)
    try:
        read_definitions(fs, config)
    except CorruptFileError:
        quarantine_files(fs, [path], format_instant(system_clock(), None))


def check_rebuildable(fs: FileSystem) -> None:
    """Raise an error if a rebuild cannot start: the table version cannot be written, or a deferred
    write is not yet published."""
    log = timeline_log(fs, _rebuildable(fs))
    check_none_deferred(fs, log.load())


def _rebuildable(fs: FileSystem) -> TableConfig:
    config = load_config(fs)
    check_version(config)
    check_not_bootstrapped(config)
    return config


def _roll_back(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    stated: frozenset[str],
    heartbeats: Heartbeats,
    engine: Engine,
) -> TableConfig:
    """Roll back failed writes, with the rollback of the metadata table where that is possible.

    Where it is damaged, or has compacted such a write, the properties list it no longer: until the
    rebuild is complete, it would contain what was rolled back.  They still state what it has.
    """
    try:
        roll_back_failed(fs, config, log, engine=engine, heartbeats=heartbeats)
    except DAMAGED:
        left = {LISTED: "", BEING_BUILT: joined(stated)}
        config = store_config(fs, config.with_properties(left))
        roll_back_failed(fs, config, log, engine=engine, heartbeats=heartbeats)
    return config


def _partitions_present(fs: FileSystem) -> frozenset[str]:
    """Partitions in the folder: those that were listed before a rebuild was interrupted."""
    folders = (METADATA_TABLE, f"{REBUILT}/metadata")
    present = {info.name for folder in folders for info in fs.children(folder) if info.is_folder}
    return frozenset(partition.path for partition in maintained_partitions(present))


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
    for file_slice in view.latest_slices():
        yield read_slice(fs, file_slice, spec=spec).column(RECORD_KEY), file_slice.group
