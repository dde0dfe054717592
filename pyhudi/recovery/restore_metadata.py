"""Restore of the metadata table: its commits are undone, or it is rebuilt."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyhudi.engine import Engine
from pyhudi.index.maintenance.partitioned_build import build_by_partition
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.index.secondary.build import recreate_indexes
from pyhudi.metadata.bootstrap import create_metadata, drop_metadata
from pyhudi.metadata.file_stats.build import create_facts
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from pyhudi.metadata.record_index.by_partition import defined_by_partition
from pyhudi.metadata.restore import agree_with_store, can_be_undone, undo_metadata
from pyhudi.options import ReadOptions, WriteOptions
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant_files import TimelineLog


def restore_metadata(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    engine: Engine,
    *,
    to: InstantTime,
    at: InstantTime,
    undone: Collection[InstantTime],
    group_counts: Mapping[str, int],
) -> None:
    """Make every metadata partition match the table at `to`.  Can be repeated.

    group_counts: partitions that the table had, and their numbers of file groups.  undone: the
    instants that the restore undoes, which are already unpublished.  Cost: undoing the commits and
    a listing of the table; reads all record keys if the metadata table must be rebuilt.
    """
    if FILES.path not in group_counts:
        return
    is_listed = FILES.path in config.metadata_partitions
    if is_listed and can_be_undone(fs, config, log.load(), to, undone):
        undo_metadata(fs, config, to=to, at=at, undone=undone)
        agree_with_store(fs, config, log, log.load(), at=at, engine=engine)
    elif is_listed:
        config = drop_metadata(fs, config)
    _create_missing(fs, load_config(fs), log, group_counts, engine)


def _create_missing(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    group_counts: Mapping[str, int],
    engine: Engine,
) -> None:
    """Rebuild the metadata partitions that the table no longer has."""
    missing = group_counts.keys() - config.metadata_partitions
    if not missing:
        return
    create_metadata(fs, config, log, records=None)
    if RECORD_INDEX.path in missing:
        state = load_state(fs, ReadOptions(metadata_enabled=False))
        if defined_by_partition(fs, config):
            build_by_partition(state, WriteOptions(), engine, silent)
        else:
            build_now(state, group_counts[RECORD_INDEX.path], engine, silent)
    recreate_indexes(fs, group_counts, engine)
    facts = (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS)
    counts = {p: group_counts[p.path] for p in facts if p.path in missing}
    create_facts(fs, load_config(fs), log, group_counts=counts, engine=engine)
