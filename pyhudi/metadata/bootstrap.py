"""Creation of the metadata table and of single partitions, for new and existing tables.

A separate delta commit creates each partition, at I = <last completed instant> + 010, 011, ...
It writes a log with an empty DELETE block for every file group, which fixes the number of groups,
then the first records as base HFiles.  The data table lists the partition once this is complete.

```
partition      groups        first records
files          1             __all_partitions__, and per partition the files of visible commits
record_index   bucket_count   a location per record key; no base file in a group without keys
```

A partition that is not listed is not in use: the remains of a failed attempt are deleted first.
Source: table_format 9.1, 9.8; writer_conformance 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi._native.hashing import bucket_of
from pyhudi._native.keys import argsort, is_strictly_sorted, latest
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.filenames import (
    METADATA_TABLE,
    BaseFileName,
    LogFileName,
    join,
    new_write_token,
    parse_data_file,
)
from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.metadata.definitions import define_record_index
from pyhudi.metadata.file_writers import HFILE, create_group, write_base_hfile
from pyhudi.metadata.partition_creation import archived_creations
from pyhudi.metadata.payloads import (
    ALL_PARTITIONS,
    FILES,
    NON_PARTITIONED,
    RECORD_INDEX,
    SCHEMA,
    FileMap,
    MetadataPartition,
    encode_files,
)
from pyhudi.metadata.reader import has_commits, outdated_metadata, own_log
from pyhudi.metadata.record_index.locations import encode_locations
from pyhudi.metadata.record_schema import records_of
from pyhudi.metadata.visible_instants import init_instant
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.file_group_view import Visibility
from pyhudi.table.listing import StoreListing, ensure_partition
from pyhudi.table.properties import (
    CUSTOM_ID,
    EVENT_TIME_ID,
    MERGE_MODE,
    PAYLOAD_CLASS,
    MergeMode,
    TableConfig,
    TableType,
    checksum,
    store_config,
)
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

LISTED: Final = "hoodie.table.metadata.partitions"
BEING_BUILT: Final = "hoodie.table.metadata.partitions.inflight"
BUCKETS_MAX: Final = 10_000

KeysOfGroup = tuple[pa.ChunkedArray | pa.Array, FileGroupId]
"""Record keys, and the file group that contains all of them."""

_PLANNED: Final = frozenset(
    {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.RESTORE, Action.CLEAN}
)
"""Planned services report their files later; a restore builds the metadata table as its last
step."""


def create_metadata(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    *,
    bucket_count: int = 10,
    records: Iterable[KeysOfGroup] | None = (),
) -> TableConfig:
    """Create `files` and `record_index` if the table lacks them; returns the stored properties.

    fs: rooted at the data table, whose properties must exist; the caller holds its lock.
    records: the table's record keys, read only if `record_index` is created; of duplicate keys
    the last one counts.  All keys are in memory at the same time.  None: do not create a record
    index.
    Raises IndexNotReadyError while another write is pending.
    """
    if not 1 <= bucket_count <= BUCKETS_MAX:
        raise UserError("the number of index buckets is out of range", bucket_count=bucket_count)
    timeline = log.load()
    check_quiet(timeline, log)
    if FILES.path not in config.metadata_partitions:
        config = drop_metadata(fs, config)
        _create_table(fs, config)
        schema = records_of(config.layout.index_version).stored
        keys, values = encode_files(stored_files(fs, log, timeline), schema)
        config = create_partition(fs, config, timeline, FILES, [(keys, values)])
    if records is not None and RECORD_INDEX.path not in config.metadata_partitions:
        delete_partition(fs, RECORD_INDEX.path)
        groups = _bucketed(records, bucket_count, _epoch(timeline, log))
        config = create_partition(fs, config, timeline, RECORD_INDEX, groups)
        config = define_record_index(fs, config)
    return config


def partitions_being_built(config: TableConfig) -> frozenset[str]:
    """Metadata partitions that the table shall have and cannot use yet."""
    stated = config.properties.get(BEING_BUILT, "").split(",")
    return frozenset(name.strip() for name in stated) - {""}


def joined(partitions: Iterable[str]) -> str:
    """Names of metadata partitions as a property states them."""
    return ",".join(sorted(partitions))


def drop_metadata(fs: FileSystem, config: TableConfig) -> TableConfig:
    """Remove the metadata table: first from the table's properties, then its folder."""
    if config.metadata_partitions or config.properties.get(BEING_BUILT):
        config = store_config(fs, config.with_properties({LISTED: "", BEING_BUILT: ""}))
    check_lock(fs)
    fs.delete_folder(METADATA_TABLE)
    return config


def check_quiet(timeline: Timeline, log: TimelineLog) -> None:
    """The files of a write in progress would be missed; planned services report theirs later."""
    for pending in timeline.pending:
        if pending.action not in _PLANNED and not log.is_clustering(pending):
            raise IndexNotReadyError(
                "the metadata table cannot be created while a write is pending",
                instant=pending.time,
                action=pending.action.value,
                hint="wait for the write to complete, or roll it back",
            )


def _last_completed(timeline: Timeline) -> InstantTime | None:
    last = timeline.where(None, State.COMPLETED).last
    return last.time if last else None


def _epoch(timeline: Timeline, log: TimelineLog) -> int:
    """The instant time, in epoch milliseconds, of the entries of existing records."""
    last = _last_completed(timeline)
    return epoch_millis(last, log.zone) if last else 0


def stored_files(fs: FileSystem, log: TimelineLog, timeline: Timeline) -> dict[str, FileMap]:
    """Records of `files` built by listing the store: every file of a completed or archived commit.

    Files of replaced groups are included: older snapshots need them until they are cleaned.  Where
    logs have the instant of their slice, a pending compaction's is that of completed commits; its
    change data logs are its own.
    """
    visibility = Visibility.of(timeline)
    slices = timeline.pending.times if log.layout.logs_name_slices else frozenset()
    store = StoreListing(fs)
    records: dict[str, FileMap] = {ALL_PARTITIONS: {}}
    for partition, infos in store.files(store.partitions()).items():
        names: FileMap = {}
        for info in infos:
            name = parse_data_file(info.name)
            if name is None:
                continue
            is_log = isinstance(name, LogFileName) and not name.is_cdc
            is_seen = (is_log and name.instant in slices) or visibility.sees(name.instant)
            if info.size_bytes and is_seen:
                names[info.name] = info.size_bytes
        records[partition or NON_PARTITIONED] = names
        records[ALL_PARTITIONS][partition or NON_PARTITIONED] = 0
    return records


def _bucketed(
    records: Iterable[KeysOfGroup], bucket_count: int, epoch: int
) -> list[tuple[pa.Array, pa.Array] | None]:
    """The sorted keys and values of each bucket; None for a bucket without keys."""
    keys: list[list[pa.Array]] = [[] for _ in range(bucket_count)]
    homes: list[list[pa.Array]] = [[] for _ in range(bucket_count)]
    groups: list[FileGroupId] = []
    for column, group in records:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        bucket = bucket_of(whole, bucket_count)
        for number in np.unique(bucket).tolist():
            mine = whole.filter(pa.array(bucket == number))
            keys[number].append(mine)
            homes[number].append(pa.array(np.full(len(mine), len(groups), np.int32)))
        groups.append(group)
    partitions = pa.array([group.partition for group in groups], pa.string())
    ids = pa.array([group.file_id for group in groups], pa.string())
    return [
        _bucket_rows(pa.concat_arrays(k), pa.concat_arrays(h), partitions, ids, epoch)
        if k
        else None
        for k, h in zip(keys, homes, strict=True)
    ]


def _bucket_rows(
    keys: pa.Array, homes: pa.Array, partitions: pa.Array, ids: pa.Array, epoch: int
) -> tuple[pa.Array, pa.Array]:
    order = pa.array(argsort(keys))
    keys, homes = keys.take(order), homes.take(order)
    if not is_strictly_sorted(keys):
        last = pa.array(latest(keys))
        keys, homes = keys.take(last), homes.take(last)
    values = encode_locations(
        pa.DictionaryArray.from_arrays(homes, partitions),
        pa.DictionaryArray.from_arrays(homes, ids),
        epoch,
    )
    return keys, values


def _create_table(fs: FileSystem, config: TableConfig) -> None:
    store_config(fs.sub(METADATA_TABLE), _properties(config))


def _properties(config: TableConfig) -> TableConfig:
    """The properties of the metadata table.  Source: table_format 9.1; writer_v8_v9 11.1."""
    layout, name = config.layout, f"{config.name}_metadata"
    properties = {
        "hoodie.table.name": name,
        "hoodie.table.type": TableType.MERGE_ON_READ.value,
        "hoodie.table.version": str(config.version),
        "hoodie.timeline.layout.version": str(layout.timeline_version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        PAYLOAD_CLASS: "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    if layout.metadata_instants is MetadataInstants.SUFFIXED:
        properties |= {
            "hoodie.table.keygenerator.class": (
                "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
            ),
            "hoodie.compaction.record.merger.strategy": EVENT_TIME_ID,
            "hoodie.archivelog.folder": "archived",
        }
    else:
        properties |= {
            "hoodie.table.initial.version": str(config.version),
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            MERGE_MODE: MergeMode.CUSTOM.value,
            "hoodie.record.merge.strategy.id": CUSTOM_ID,
            "hoodie.table.checksum": str(checksum("", name)),
        }
    return TableConfig(properties)


def create_partition(
    fs: FileSystem,
    config: TableConfig,
    data: Timeline,
    partition: MetadataPartition,
    groups: list[tuple[pa.Array, pa.Array] | None],
) -> TableConfig:
    """Create and list a partition of len(groups) file groups with their first rows."""
    schema = SCHEMA if partition == RECORD_INDEX else records_of(config.layout.index_version).stored

    def write_first(metadata_fs: FileSystem, time: InstantTime) -> list[WriteStat]:
        return [
            _write_first(metadata_fs, partition, number, time, rows, schema)
            for number, rows in enumerate(groups)
            if rows is not None
        ]

    ids = [partition.file_id(number) for number in range(len(groups))]
    return publish_partition(fs, config, data, partition, ids, write_first)


FirstFiles = Callable[[FileSystem, InstantTime], list[WriteStat]]
"""Writes the first base files of a partition, named after the instant; rooted at the metadata
table."""


def publish_partition(
    fs: FileSystem,
    config: TableConfig,
    data: Timeline,
    partition: MetadataPartition,
    file_ids: Sequence[str],
    write_first: FirstFiles,
) -> TableConfig:
    """Create and list a partition with these file groups; `write_first` writes its files.

    Raises IndexNotReadyError for a metadata table that lacks a commit of the table."""
    log = own_log(fs, config)
    own = log.load()
    if partition != FILES and not has_commits(data, log, own):
        raise outdated_metadata(fs)
    records = records_of(config.layout.index_version)
    time = _free_init_instant(log, own, data)
    instant = log.start(log.request_at(time, Action.DELTA_COMMIT))
    ensure_partition(log.fs, partition.path, time)
    for file_id in file_ids:
        create_group(log.fs, partition.path, file_id, time)
    stats = tuple(write_first(log.fs, time))
    done = CommitMetadata(stats, operation="BULK_INSERT", extra={"schema": records.commit})
    log.complete(instant, log.encode(done), after=data.newest_time)
    listed = joined({*config.metadata_partitions, partition.path})
    left = joined(partitions_being_built(config) - {partition.path})
    return store_config(fs, config.with_properties({LISTED: listed, BEING_BUILT: left}))


def unlist(fs: FileSystem, config: TableConfig, partition: MetadataPartition) -> TableConfig:
    """Remove one partition from the listed ones, which readers trust, then delete its folder."""
    if partition.path in config.metadata_partitions:
        left = joined(config.metadata_partitions - {partition.path})
        config = store_config(fs, config.with_properties({LISTED: left}))
    delete_partition(fs, partition.path)
    return config


def delete_partition(fs: FileSystem, name: str) -> None:
    """Delete the folder of a partition that is not listed.  Raises LockError if the table's lock
    was lost: it may be another process's by now."""
    check_lock(fs)
    fs.delete_folder(f"{METADATA_TABLE}/{name}")


def _free_init_instant(log: TimelineLog, own: Timeline, data: Timeline) -> InstantTime:
    """The first unused init instant; instant files of an interrupted attempt are deleted.

    Archived ones are used: files of another partition may still have their name."""
    taken = [*archived_creations(log), *own]
    last, number = _last_completed(data), 0
    while True:
        time = init_instant(log, last, number)
        found = [i for i in taken if i.time == time]
        if not any(i.is_completed for i in found):
            for left in found:
                log.forget(left)
            return time
        number += 1


def _write_first(
    fs: FileSystem,
    partition: MetadataPartition,
    number: int,
    time: InstantTime,
    rows: tuple[pa.Array, pa.Array],
    schema: str,
) -> WriteStat:
    keys, values = rows
    name = BaseFileName(partition.file_id(number), new_write_token(number), time, HFILE)
    size = write_base_hfile(fs, partition.path, name, keys, values, schema)
    return first_stat(partition, number, name, entries=len(keys), size_bytes=size)


def first_stat(
    partition: MetadataPartition, number: int, name: BaseFileName, *, entries: int, size_bytes: int
) -> WriteStat:
    """The write stat of the first base file of a group."""
    return WriteStat(
        partition=partition.path,
        file_id=partition.file_id(number),
        path=join(partition.path, str(name)),
        previous_instant=None,
        write_count=entries,
        delete_count=0,
        update_count=0,
        insert_count=entries,
        size_bytes=size_bytes,
        write_bytes=size_bytes,
    )
