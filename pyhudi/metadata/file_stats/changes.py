"""Records of file statistics for one commit, by partition of the metadata table.

```
column_stats     entries of the new files; of deleted ones at versions 8 and 9 they end
partition_stats  entries of the partitions with new files, from the files of their newest slices;
                 those that can have none now end
bloom_filters    filters of the new base files; those of deleted files end
```

Files of newest slices without entries, which another writer left out, get theirs now.
Source: table_format 9.7, 9.9, writer_v8_v9 11.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.hashing import hash_id
from pyhudi.engine import Engine, in_process
from pyhudi.filenames import join, parse_data_file
from pyhudi.metadata.definitions import StatsDefinition
from pyhudi.metadata.file_entries import ComputedEntries, footer_index
from pyhudi.metadata.file_stats.collect import newest_entries
from pyhudi.metadata.file_stats.entries import encoded, file_entries
from pyhudi.metadata.file_stats.partition_ranges import (
    PartitionNames,
    partition_entries,
    partition_key,
)
from pyhudi.metadata.file_stats.ranges import as_flags
from pyhudi.metadata.file_stats.records import (
    FileIndex,
    FileName,
    IndexedFile,
    bloom_key,
    index_file,
    range_key,
)
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_RANGE,
    PARTITION_STATS,
    MetadataPartition,
    encode_filters,
    encode_ranges,
)
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_schema import records_of
from pyhudi.records import RECORD_KEY, InstantTime
from pyhudi.storage.filesystem import FileInfo
from pyhudi.table.timeline_facts import load_view
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import COMMITS, Action, Instant, State

FEW_FILES: Final = 16
"""Number of files up to which their statistics are computed in the process of the writer."""
_NEWEST = InstantTime("9" * 17)


@dataclass(frozen=True, slots=True)
class RecordChanges:
    """Entries of one partition of the metadata table: sorted keys and values, and keys that end."""

    keys: pa.Array
    values: pa.Array
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What a commit did to data files.  deleted: names by partition.  dropped: partitions that no
    longer exist.  computed: entries of new files that the tasks of the write have returned."""

    time: InstantTime
    stats: Sequence[WriteStat]
    deleted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    computed: ComputedEntries = field(default_factory=dict)


def index_changes(
    table: MetadataTable, changes: FileChanges, engine: Engine
) -> dict[MetadataPartition, RecordChanges]:
    """The records of each listed partition of file statistics.

    Cost: of files that are not `computed`, the footer of each new base file and every new log in
    full; with `partition_stats` a look-up of each file and column in the partitions with new files.
    """
    listed, config = table.partitions_listed, table.config
    with_ranges, with_blooms = COLUMN_STATS.path in listed, BLOOM_FILTERS.path in listed
    definition = footer_index(table.data_fs, config)
    if definition is None:
        return {}
    files = [s for s in changes.stats if s.path and (with_ranges or s.log_version is None)]
    found = _indexed(table, files, definition, engine, changes.computed)
    result: dict[MetadataPartition, RecordChanges] = {}
    if with_ranges:
        missing: list[FileIndex] = []
        if PARTITION_STATS.path in listed:
            result[PARTITION_STATS], missing = _of_partitions(
                table, changes, found, definition, engine
            )
        result[COLUMN_STATS] = range_changes([*found, *missing], definition, changes.deleted)
    if with_blooms:
        schema = records_of(config.layout.index_version).stored
        result[BLOOM_FILTERS] = bloom_changes(found, changes.time, schema, changes.deleted)
    return result


def _indexed(
    table: MetadataTable,
    stats: Iterable[WriteStat],
    definition: StatsDefinition,
    engine: Engine,
    computed: ComputedEntries,
) -> list[FileIndex]:
    """Entries of files in no particular order."""
    known = computed.get(definition, {})
    stats = tuple(stats)
    tasks = [
        IndexedFile(table.data_fs, stat, definition.version, definition.columns)
        for stat in stats
        if stat.path not in known
    ]
    engine = in_process(engine, is_small=len(tasks) <= FEW_FILES)
    found = engine.run(index_file, tasks, label="file-index") if tasks else []
    return [*(known[stat.path] for stat in stats if stat.path in known), *found]


def range_changes(
    found: Sequence[FileIndex],
    definition: StatsDefinition,
    deleted: Mapping[str, Sequence[str]] | None = None,
) -> RecordChanges:
    """Entries of `column_stats`.

    At version 6 those of deleted files remain: readers join them with `files`.
    """
    if not definition.version:
        bounds = {i.range_key(r.column): r.to_record(i.file_name) for i in found for r in i.ranges}
        names = sorted(bounds)
        values = encode_ranges([bounds[name] for name in names])
        return RecordChanges(pa.array(names, pa.string()), values)
    ended = tuple(
        range_key(column, partition, name)
        for partition, names in (deleted or {}).items()
        for name in names
        for column in sorted(definition.columns or ())
    )
    return RecordChanges(*encoded(*file_entries(found)), ended)


def bloom_changes(
    found: Sequence[FileIndex],
    time: InstantTime,
    schema: str,
    deleted: Mapping[str, Sequence[str]] | None = None,
) -> RecordChanges:
    """Entries of `bloom_filters`.  Keys are ASCII, so text order equals byte order."""
    filters = {i.bloom_key: i for i in found if i.bloom_text is not None}
    names = sorted(filters)
    records = [
        {
            "type": filters[name].bloom_kind,
            "timestamp": time,
            "bloomFilter": (filters[name].bloom_text or "").encode(),
            "isDeleted": False,
        }
        for name in names
    ]
    ended = tuple(bloom_key(p, name) for p, gone in (deleted or {}).items() for name in gone)
    return RecordChanges(pa.array(names, pa.string()), encode_filters(records, schema), ended)


# ---- partitions ---------------------------------------------------------------------------------


def _of_partitions(
    table: MetadataTable,
    changes: FileChanges,
    found: Sequence[FileIndex],
    definition: StatsDefinition,
    engine: Engine,
) -> tuple[RecordChanges, list[FileIndex]]:
    """(entries of the partitions with new files, the index of files that had no entries)."""
    columns = sorted(definition.columns or ())
    ended = tuple(partition_key(column, p) for p in changes.dropped for column in columns)
    files = newest_files(table, changes)
    new = {(index.partition, index.file_name) for index in found}
    older = [file for file in files if file not in new]
    stored = entries_of_files(table, older, columns)
    known = as_flags(stored[RECORD_KEY].is_valid()) if older else []
    unknown = [file for file, is_known in zip(older, known, strict=True) if not is_known]
    missing = _indexed(table, [plain_stat(*file) for file in unknown], definition, engine, {})
    entries = [*found, *missing]
    is_tight = are_newest(table, changes.time)
    keys, values = combined_entries(
        files, older, stored, entries, columns, definition.version, is_tight=is_tight
    )
    partitions = {partition for partition, _ in files}
    every = {partition_key(column, p) for column in columns for p in partitions}
    lost = sorted(every.difference(keys.to_pylist(), ended))
    ended += _outdated(table, lost, is_tight=is_tight)
    return RecordChanges(*encoded(keys, values, PARTITION_RANGE), ended), missing


def _outdated(table: MetadataTable, keys: Sequence[str], *, is_tight: bool) -> tuple[str, ...]:
    """Those of these partitions' keys that end: the files have no bounds that can be stored, and an
    entry of an older commit would state the bounds of its files only.  All of them while a write
    that began before runs, as its entries cannot be seen yet."""
    if not keys or not is_tight:
        return tuple(keys)
    stored = newest_entries(table, pa.array(keys, pa.string()), PARTITION_STATS)
    return tuple(pa.array(keys).filter(stored.is_valid()).to_pylist())


def are_newest(table: MetadataTable, time: InstantTime) -> bool:
    """Whether no write that began before `time` is still running, whose records would be those of
    an older commit though it completes later."""
    pending = (i for i in table.data if i.action in COMMITS and i.state is not State.COMPLETED)
    return all(instant.time >= time for instant in pending)


def newest_files(table: MetadataTable, changes: FileChanges) -> list[FileName]:
    """The files of the newest slices, after a commit, of the partitions that it wrote to.

    Groups that the commit replaces are included: their replacement is not visible yet.
    """
    partitions = sorted({stat.partition for stat in changes.stats if stat.path})
    if not partitions:
        return []
    done = Instant(changes.time, Action.COMMIT, State.COMPLETED, _NEWEST)
    others = [i for i in table.data if i.time != changes.time]
    config = table.config
    view = load_view(
        table.data_log,
        table.data.holding(others).having(done),
        _ListingAfter(table, changes),
        partitions=partitions,
        archive=Archive(table.data_fs, layout=config.layout, folder=config.archive_folder),
    )
    return [(s.partition, str(file.name)) for s in view.latest_slices() for file in s.files]


class _ListingAfter:
    """The table's files once a commit is complete."""

    def __init__(self, table: MetadataTable, changes: FileChanges) -> None:
        self._listing = table.listing()
        self._changes = changes

    def partitions(self) -> list[str]:
        return sorted({*self._listing.partitions(), *(s.partition for s in self._changes.stats)})

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        found = self._listing.files(partitions)
        for stat in self._changes.stats:
            if stat.path and stat.partition in found:
                found[stat.partition].append(FileInfo(stat.path, stat.size_bytes))
        return found


def plain_stat(partition: str, file_name: str, size_bytes: int = 0) -> WriteStat:
    """The stat of a file of which only the name is known, for `index_file`."""
    name = parse_data_file(file_name)
    return WriteStat(
        partition=partition,
        file_id=name.file_id if name else "",
        path=join(partition, file_name),
        previous_instant=None,
        write_count=0,
        delete_count=0,
        update_count=0,
        insert_count=0,
        size_bytes=size_bytes,
        write_bytes=0,
    )


def entries_of_files(
    table: MetadataTable,
    files: Sequence[FileName],
    columns: Sequence[str],
    partition: MetadataPartition = COLUMN_STATS,
) -> dict[str, pa.StructArray]:
    """Per column the entries of files in `column_stats`, or in an expression index."""
    if not files or not columns:
        return {}
    found = newest_entries(table, _range_keys(columns, files), partition)
    count = len(files)
    return {column: found.slice(n * count, count) for n, column in enumerate(columns)}


def _range_keys(columns: Sequence[str], files: Sequence[FileName]) -> pa.Array:
    """Keys in `column_stats` of each column and file, column by column."""
    tails = pa.array([bloom_key(*file) for file in files], pa.string())
    keys = [pc.binary_join_element_wise(hash_id(column), tails, "") for column in columns]
    return pa.concat_arrays(keys)


def combined_entries(
    files: Sequence[FileName],
    older: Sequence[FileName],
    stored: Mapping[str, pa.StructArray],
    found: Sequence[FileIndex],
    columns: Sequence[str],
    version: int,
    *,
    naming: PartitionNames | None = None,
    is_tight: bool = True,
) -> tuple[pa.Array, pa.StructArray]:
    """(keys, entries) of partitions, from stored entries of older files and computed ones."""
    keys, computed = file_entries(found)
    position = {file: number for number, file in enumerate(older)}
    places = pa.array([position.get(file) for file in files], pa.int32())
    fresh = {(index.partition, index.file_name) for index in found}
    tails = pa.array([bloom_key(*file) if file in fresh else None for file in files], pa.string())
    by_column: dict[str, pa.StructArray] = {}
    for column in columns:
        own = pc.index_in(pc.binary_join_element_wise(hash_id(column), tails, ""), keys)
        both = computed
        if column in stored:
            both = pa.concat_arrays([computed, stored[column]])
            own = pc.coalesce(own, pc.add(places, len(computed)))
        by_column[column] = both.take(own)
    naming = naming or PartitionNames()
    return partition_entries(files, by_column, version, naming, is_tight=is_tight)
