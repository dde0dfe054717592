"""Build of a record index by partition from the table's keys; as `rebuild`, for each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.formats.base_file import footer
from pyhudi.index.maintenance.rebuild import (
    Built,
    MadeFiles,
    ReportProgress,
    as_built,
    build_files,
    build_now,
    put_files,
    silent,
    unlist_former,
)
from pyhudi.index.maintenance.sizing import partition_group_count, planned_groups
from pyhudi.index.selection import PARTITIONED_INDEX_VERSION
from pyhudi.metadata.bootstrap import create_metadata, publish_partition
from pyhudi.metadata.compaction import finish_pending
from pyhudi.metadata.definitions import define_record_index
from pyhudi.metadata.elastic.create import drop_elastic
from pyhudi.metadata.payloads import RECORD_INDEX, MetadataPartition
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.record_index.by_partition import partition_groups
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.options import IndexKind, WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.timeline import Timeline


def check_partitionable(config: TableConfig) -> None:
    """Raise UserError for a table that cannot have a record index by partition."""
    if config.version < PARTITIONED_INDEX_VERSION:
        raise UserError(
            f"a record index by partition needs a table of version {PARTITIONED_INDEX_VERSION}",
            version=config.version,
            hint=f"run table.upgrade(to={PARTITIONED_INDEX_VERSION})",
        )
    if not config.partition_fields:
        raise UserError(
            "a table without partitions cannot have a record index by partition",
            hint="use a global one: hoodie.index.type=RECORD_INDEX",
        )


def create_partitioned(fs: FileSystem, config: TableConfig, data: Timeline) -> TableConfig:
    """Create an empty index, in which writes create the file groups; returns the stored
    properties.  The caller holds the lock."""
    check_partitionable(config)
    config = define_record_index(fs, config, by_partition=True)
    return publish_partition(fs, config, data, RECORD_INDEX, (), lambda *_: [])


def build_records(
    state: TableState, options: WriteOptions, engine: Engine, kind: IndexKind | None
) -> None:
    """Build a record index, global or by partition, sized by options.  The caller holds the
    lock."""
    if kind is not None and kind.traits.by_partition:
        build_by_partition(state, options, engine, silent)
    else:
        build_now(state, planned_groups(state, options), engine, silent)


def planned_counts(
    state: TableState, options: WriteOptions, known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The number of file groups of each partition with rows.  known: of some partitions.

    Cost: the footer of each base file of the other partitions."""
    counts = {}
    for partition, slices in _by_partition(state).items():
        count = (known or {}).get(partition)
        if count is None:
            rows = sum(footer(state.fs, s.base.path).rows for s in slices if s.base is not None)
            count = partition_group_count(max(1, rows), options)
        counts[partition] = count
    return counts


def build_by_partition(
    state: TableState,
    options: WriteOptions,
    engine: Engine,
    report: ReportProgress,
    *,
    known: Mapping[str, int] | None = None,
) -> Built:
    """Build, check and swap the index of the current table.  The caller holds the lock.

    known: numbers of file groups of partitions.  Raises IndexNotReadyError while a write is
    pending, UserError as `check_partitionable`.
    """
    check_partitionable(state.config)
    config = create_metadata(state.fs, state.config, state.log, records=None)
    metadata = open_metadata(state.fs, config, state.log, state.timeline)
    assert metadata is not None
    finish_pending(metadata, engine)  # its plans refer to files of the old index
    counts, slices = planned_counts(state, options, known), _by_partition(state)
    made: list[tuple[MetadataPartition, MadeFiles]] = []
    for name, count in counts.items():
        hash = KeyHash(count)
        files = build_files(state, hash, METADATA_TABLE, engine, report, slices=slices[name])
        made.append((partition_groups(name), files))
    config = unlist_former(state.fs, config)
    config = as_built(define_record_index(state.fs, config, by_partition=True))

    def put(target: FileSystem, time: InstantTime) -> list[WriteStat]:
        return put_files(made, target, time, engine, report)

    ids = [
        partition_groups(name).file_id(n) for name, count in counts.items() for n in range(count)
    ]
    config = publish_partition(state.fs, config, state.timeline, RECORD_INDEX, ids, put)
    drop_elastic(state.fs, config)
    for _, files in made:
        files.forget(state.fs)
    built = [files.built for _, files in made]
    return Built(
        sum(b.entries for b in built),
        sum(b.bytes_written for b in built),
        sum(b.reused for b in built),
    )


def _by_partition(state: TableState) -> dict[str, Sequence[FileSlice]]:
    found: dict[str, list[FileSlice]] = {}
    for each in state.view().latest_slices():
        found.setdefault(each.partition, []).append(each)
    return dict(sorted(found.items()))
