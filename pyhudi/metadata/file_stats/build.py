"""Creation of `column_stats`, `partition_stats` and `bloom_filters` for existing files.

Apache Hudi does not index existing files; here each file gets its entries, so that reads can skip
files immediately.  Once a partition is listed, every commit maintains it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi._native.hashing import bucket_of
from pyhudi.engine import Engine
from pyhudi.errors import FileMissingError
from pyhudi.filenames import LogFileName, join, parse_data_file
from pyhudi.metadata.bootstrap import create_partition, delete_partition, stored_files
from pyhudi.metadata.definitions import StatsDefinition, stats_definition
from pyhudi.metadata.file_stats.changes import (
    bloom_changes,
    combined_entries,
    plain_stat,
    range_changes,
)
from pyhudi.metadata.file_stats.entries import encoded
from pyhudi.metadata.file_stats.records import FileIndex, FileName, IndexedFile, index_file
from pyhudi.metadata.payloads import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    NON_PARTITIONED,
    PARTITION_RANGE,
    PARTITION_STATS,
    MetadataPartition,
)
from pyhudi.metadata.record_schema import records_of
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import StoreListing
from pyhudi.table.properties import TableConfig
from pyhudi.table.timeline_facts import files_going, load_view
from pyhudi.timeline.archive import Archive
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

    As `build_facts`.
    """
    return build_facts(fs, config, log, group_counts=group_counts, engine=engine)[0]


def build_facts(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    *,
    group_counts: Mapping[MetadataPartition, int],
    engine: Engine,
) -> tuple[TableConfig, int]:
    """Create the partitions that the table lacks: (the stored properties, how many entries).

    The caller holds the table's lock, no write is pending, and the table has `files`.
    Cost: reads the footer of every base file and every log in full.
    """
    lacking = {p: n for p, n in group_counts.items() if p.path not in config.metadata_partitions}
    if not lacking:
        return config, 0
    timeline = log.load()
    records = _first_records(fs, config, log, timeline, lacking.keys(), engine)
    entries = 0
    for partition, count in lacking.items():
        delete_partition(fs, partition.path)
        keys, values = records.of(partition)
        config = create_partition(fs, config, timeline, partition, grouped(keys, values, count))
        entries += len(keys)
    return config, entries


def _first_records(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    partitions: Collection[MetadataPartition],
    engine: Engine,
) -> _Records:
    ranged = COLUMN_STATS in partitions or PARTITION_STATS in partitions
    definition = stats_definition(fs, config) if ranged else StatsDefinition(0)
    tasks = [
        IndexedFile(fs, stat, definition.version, definition.columns)
        for stat in stored_stats(fs, log, timeline)
    ]
    going = _going(log, timeline)
    stays: list[IndexedFile] = []
    leaves: list[IndexedFile] = []
    for task in tasks:
        (leaves if task.stat.path in going else stays).append(task)
    found = engine.run(index_file, stays, label="file-index") if stays else []
    if leaves:
        found += filter(None, engine.run(_index_if_there, leaves, label="file-index"))
    last = timeline.where(None, State.COMPLETED).last
    return _Records(
        found,
        definition,
        last.time if last else BEFORE_ALL_INSTANTS,
        records_of(config.layout.index_version).stored,
        newest_file_names(fs, config, log, timeline) if PARTITION_STATS in partitions else (),
    )


def _going(log: TimelineLog, timeline: Timeline) -> set[str]:
    """Paths of files that pending cleans delete, with the table's lock or without."""
    return {
        join(partition, name)
        for _, partition, names in files_going(log, timeline, State.REQUESTED, State.INFLIGHT)
        for name in names
    }


def _index_if_there(task: IndexedFile) -> FileIndex | None:
    """As `index_file`; None for a file that has been deleted."""
    try:
        return index_file(task)
    except FileMissingError:
        return None


def stats_partitions(config: TableConfig, groups: int) -> dict[MetadataPartition, int]:
    """The partitions of column statistics, and how many file groups they get; groups: those of
    `column_stats`.  Versions 8 and 9 also have statistics of the partitions of a table."""
    of_partitions = config.layout.index_version and config.partition_fields
    return {COLUMN_STATS: groups, **({PARTITION_STATS: 1} if of_partitions else {})}


def newest_file_names(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> list[FileName]:
    """The files of the newest slices."""
    archive = Archive(fs, layout=config.layout, folder=config.archive_folder)
    view = load_view(log, timeline, StoreListing(fs), archive=archive)
    return [(s.partition, str(file.name)) for s in view.latest_slices() for file in s.files]


@dataclass(frozen=True, slots=True)
class _Records:
    """What the first records are computed from.  newest: files of the newest slices."""

    found: Sequence[FileIndex]
    definition: StatsDefinition
    time: str
    schema: str
    newest: Sequence[FileName]

    def of(self, partition: MetadataPartition) -> tuple[pa.Array, pa.Array]:
        """(sorted keys, values)."""
        if partition == COLUMN_STATS:
            changes = range_changes(self.found, self.definition)
            return changes.keys, changes.values
        if partition == PARTITION_STATS:
            columns = sorted(self.definition.columns or ())
            keys, entries = combined_entries(
                self.newest, (), {}, self.found, columns, self.definition.version
            )
            return encoded(keys, entries, PARTITION_RANGE)
        assert partition == BLOOM_FILTERS
        blooms = bloom_changes(self.found, InstantTime(self.time), self.schema)
        return blooms.keys, blooms.values


def stored_stats(fs: FileSystem, log: TimelineLog, timeline: Timeline) -> Iterable[WriteStat]:
    """Every data file that a completed commit wrote, as a stat with its name and size."""
    for key, names in stored_files(fs, log, timeline).items():
        if key == ALL_PARTITIONS:
            continue
        partition = "" if key == NON_PARTITIONED else key
        for file_name, size in names.items():
            name = parse_data_file(file_name)
            if name is None or (isinstance(name, LogFileName) and name.is_cdc):
                continue
            yield plain_stat(partition, file_name, size or 0)


def grouped(keys: pa.Array, values: pa.Array, count: int) -> list[tuple[pa.Array, pa.Array] | None]:
    """The sorted keys and values of each group; None for a group without keys."""
    homes = bucket_of(keys, count) if len(keys) else np.zeros(0, np.int64)
    groups: list[tuple[pa.Array, pa.Array] | None] = []
    for number in range(count):
        mine = pa.array(homes == number, pa.bool_())
        in_group = keys.filter(mine)
        groups.append((in_group, values.filter(mine)) if len(in_group) else None)
    return groups
