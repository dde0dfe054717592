"""Writes to the metadata table: one delta commit per instant of the data table.

```
begin_metadata:  roll back failed commits -> compact and clean if due -> T.deltacommit.requested,
                 .inflight
write_bucket:     on workers: one log file of one group of `record_index`
finish:          log file of `files` -> delete logs of failed attempts -> T.deltacommit
```

The caller completes the data instant T after `finish`; until then readers ignore the blocks.
The caller holds the table's lock from `begin_metadata` until then.
Source: table_format 9.1, 9.6, 9.9; writer_conformance 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from pyhudi._native.keys import KeyTable, argsort, is_strictly_sorted, latest
from pyhudi.engine import Engine
from pyhudi.errors import UnsupportedTableError
from pyhudi.layouts.known import LAYOUTS
from pyhudi.metadata.compaction import check_bounded, run_services
from pyhudi.metadata.delta_commit import BucketTarget, MetadataCommit, start_delta
from pyhudi.metadata.elastic.store import check_one
from pyhudi.metadata.expression_index.definition import maintained_expressions
from pyhudi.metadata.file_writers import tombstone_block, value_blocks, write_log
from pyhudi.metadata.payloads import PARTITIONS_V6, RECORD_INDEX, maintained_partitions
from pyhudi.metadata.reader import missing_metadata, open_metadata, outdated_metadata
from pyhudi.metadata.record_index.by_partition import check_by_partition
from pyhudi.metadata.record_index.locations import encode_locations
from pyhudi.metadata.rollback import finish_rollbacks
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import OLDEST_WRITABLE_VERSION, TableConfig
from pyhudi.table.timeline_facts import check_not_bootstrapped
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


def check_version(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table version that cannot be written."""
    if config.version in LAYOUTS:
        return
    upgrade = f"run table.upgrade(), or upgrade(to={OLDEST_WRITABLE_VERSION}) for Apache Hudi 0.x"
    written = f"tables of versions {', '.join(map(str, LAYOUTS))} can be written"
    raise UnsupportedTableError(
        f"tables of version {config.version} are read-only",
        hint=upgrade if config.version < OLDEST_WRITABLE_VERSION else written,
    )


def check_writable(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table version that cannot be written, a bootstrapped table,
    or one with metadata partitions that a write would leave stale."""
    check_version(config)
    check_not_bootstrapped(config)
    foreign = sorted(config.metadata_partitions - maintainable(config, config.metadata_partitions))
    if foreign:
        raise UnsupportedTableError(
            "the table has metadata partitions that pyhudi does not maintain",
            partitions=",".join(foreign),
            hint="drop indexes with table.index.drop(), or others with Apache Hudi, first; "
            "table.metadata.rebuild() and pyhudi repair drop all of them",
        )


def maintainable(config: TableConfig, listed: Iterable[str]) -> frozenset[str]:
    """Those metadata partitions that this package maintains in a table of this version."""
    own = frozenset(partition.path for partition in maintained_partitions(listed))
    return own if config.layout.index_version else own & PARTITIONS_V6


def write_bucket(
    fs: FileSystem,
    target: BucketTarget,
    instant: Instant,
    *,
    keys: Any,
    partition_path: Any,
    file_id: Any,
    deleted: Any,
) -> WriteStat:
    """Write one bucket's entries as one log file.  May run twice: each run writes a separate file.

    fs: rooted at the data table.  keys: record keys, all of this bucket, in any order, each with
    its partition_path and file_id (columns of string, preferably dictionaries); of duplicate keys
    the last location counts.  deleted: keys to delete; those that are also in `keys` are kept.
    """
    group = target.group
    new, partitions, files = _one(keys), _one(partition_path), _one(file_id)
    gone = _one(deleted)
    blocks: list[bytes] = []
    if len(new):
        new, partitions, files = _sorted(new, partitions, files)
        values = encode_locations(partitions, files, target.epoch_millis)
        blocks += value_blocks(new, values, instant=instant.time)
    if len(gone):
        gone = gone.take(pa.array(latest(gone)))
        if len(new):
            gone = gone.filter(pa.array(~KeyTable(new).contains(gone)))
    if len(gone):
        blocks.append(tombstone_block(gone, RECORD_INDEX.path, instant=instant.time))
    log = group.new_log()
    if target.waits_in is None:
        size = write_log(fs.sub(group.root), group.partition.path, log, blocks)
    else:
        size = write_log(fs, target.waits_in, log, blocks)
    return group.stat(log, values=len(new), deletes=len(gone), size_bytes=size)


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _sorted(keys: pa.Array, *others: pa.Array) -> tuple[pa.Array, ...]:
    """Keys in byte order, the last of equal ones, and the matching rows of the other columns."""
    if is_strictly_sorted(keys):
        return (keys, *others)
    order = argsort(keys)
    result = [column.take(pa.array(order)) for column in (keys, *others)]
    if not is_strictly_sorted(result[0]):
        last = pa.array(latest(result[0]))  # the sort is stable, so the latest row comes last
        result = [column.take(last) for column in result]
    return tuple(result)


def begin_metadata(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    instant: Instant,
    *,
    compact_after: int,
    engine: Engine,
) -> MetadataCommit:
    """Begin the delta commit of a requested data instant.

    fs: rooted at the data table; log, timeline: of the data table.  First rolls back delta commits
    of crashed writers and runs the metadata table's services if they are due.  compact_after:
    delta commits between two compactions.  The caller holds the table's lock until the data
    instant is complete.  Raises UnsupportedTableError, before any change, for metadata that would
    become stale, IndexNotReadyError if the metadata table does not exist, WriteConflictError where
    it has too many uncompacted delta commits while an older instant stays pending.
    """
    check_writable(config)
    maintained_expressions(fs, config)
    check_by_partition(fs, config)
    check_one(config)
    table = open_metadata(fs, config, log, timeline)
    if table is None:
        raise missing_metadata(fs)
    if not table.is_up_to_date:
        raise outdated_metadata(fs)
    table = finish_rollbacks(config, table, engine)
    table = run_services(table, compact_after=compact_after, engine=engine)
    check_bounded(table.timeline, timeline, instant)
    return start_delta(table, instant.time, engine)
