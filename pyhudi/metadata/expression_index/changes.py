"""Records of expression indexes for one commit, by partition of the metadata table.

```
column_stats   entries of the new files; those of deleted ones end; entries of the partitions with
               new files, from the files of their newest slices
bloom_filters  filters of the new base files; those of deleted ones end
```

Apache Hudi reads no partition without an entry once another partition has one, so every partition
with files has one.  Source: writer_v8_v9 11.6; indexes that Apache Hudi 1.2.0 wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from pyhudi._native.keys import argsort
from pyhudi.engine import Engine, in_process
from pyhudi.metadata.definitions import StatsDefinition
from pyhudi.metadata.expression_index.definition import ExpressionIndex, maintained_expressions
from pyhudi.metadata.expression_index.entries import IndexedExpression, index_expression
from pyhudi.metadata.file_entries import ComputedEntries
from pyhudi.metadata.file_stats.changes import (
    FEW_FILES,
    FileChanges,
    RecordChanges,
    are_newest,
    bloom_changes,
    combined_entries,
    entries_of_files,
    newest_files,
    plain_stat,
    range_changes,
)
from pyhudi.metadata.file_stats.entries import encoded
from pyhudi.metadata.file_stats.partition_ranges import PartitionNames
from pyhudi.metadata.file_stats.ranges import as_flags
from pyhudi.metadata.file_stats.records import FileIndex, FileName
from pyhudi.metadata.payloads import PARTITION_RANGE, MetadataPartition
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_schema import records_of
from pyhudi.timeline.commit_metadata import WriteStat

NAMING: Final = PartitionNames("__partition_stat__", "")


def expression_changes(
    table: MetadataTable, changes: FileChanges, engine: Engine
) -> dict[MetadataPartition, RecordChanges]:
    """The records of each expression index.

    Cost: of files that are not `computed`, the indexed column of each new base file and every new
    log in full; a look-up of each file in the partitions with new files.  Raises
    UnsupportedTableError for an index that cannot be maintained.
    """
    indexes = maintained_expressions(table.data_fs, table.config)
    if not indexes:
        return {}
    stats = [stat for stat in changes.stats if stat.path]
    newest = newest_files(table, changes) if any(index.is_ranged for index in indexes) else []
    result = {}
    for index in indexes:
        found = _indexed(table, index, stats, engine, changes.computed)
        if index.is_ranged:
            result[index.partition] = _ranges(table, index, changes, found, newest, engine)
        else:
            schema = records_of(table.config.layout.index_version).stored
            result[index.partition] = bloom_changes(found, changes.time, schema, changes.deleted)
    return result


def _indexed(
    table: MetadataTable,
    index: ExpressionIndex,
    stats: Iterable[WriteStat],
    engine: Engine,
    computed: ComputedEntries,
) -> list[FileIndex]:
    known = computed.get(index, {})
    stats = tuple(stats)
    tasks = [IndexedExpression(table.data_fs, s, index) for s in stats if s.path not in known]
    engine = in_process(engine, is_small=len(tasks) <= FEW_FILES)
    found = engine.run(index_expression, tasks, label="expression-index") if tasks else []
    return [*(known[stat.path] for stat in stats if stat.path in known), *found]


def _ranges(
    table: MetadataTable,
    index: ExpressionIndex,
    changes: FileChanges,
    found: Sequence[FileIndex],
    newest: Sequence[FileName],
    engine: Engine,
) -> RecordChanges:
    new = {(each.partition, each.file_name) for each in found}
    older = [file for file in newest if file not in new]
    stored = entries_of_files(table, older, [index.column], index.partition)
    known = as_flags(stored[index.column].is_valid()) if older else []
    unknown = [file for file, is_known in zip(older, known, strict=True) if not is_known]
    missing = _indexed(table, index, [plain_stat(*file) for file in unknown], engine, {})
    partitions = sorted({partition for partition, _ in newest})
    return ranges_of_files(
        index,
        [*found, *missing],
        newest,
        older,
        stored,
        gone=_ended(index, changes),
        partitions=partitions,
        is_tight=are_newest(table, changes.time),
    )


def _ended(index: ExpressionIndex, changes: FileChanges) -> list[str]:
    definition = StatsDefinition(index.version, frozenset([index.column]))
    of_files = range_changes((), definition, changes.deleted).ended
    return [*of_files, *(NAMING.key(index.column, name) for name in changes.dropped)]


def ranges_of_files(
    index: ExpressionIndex,
    found: Sequence[FileIndex],
    newest: Sequence[FileName],
    older: Sequence[FileName] = (),
    stored: Mapping[str, pa.StructArray] | None = None,
    *,
    gone: Sequence[str] = (),
    partitions: Sequence[str] = (),
    is_tight: bool = True,
) -> RecordChanges:
    """The entries of files and of partitions.

    found: computed entries.  newest: files of the newest slices of these partitions, of which
    `older` have stored entries.  gone: keys that end.
    """
    definition = StatsDefinition(index.version, frozenset([index.column]))
    of_files = range_changes(found, definition)
    keys, entries = combined_entries(
        newest,
        older,
        stored or {},
        found,
        [index.column],
        index.version,
        naming=NAMING,
        is_tight=is_tight,
    )
    keys, values = encoded(keys, entries, PARTITION_RANGE)
    known = set(keys.to_pylist())
    lost = [key for name in partitions if (key := NAMING.key(index.column, name)) not in known]
    keys = pa.concat_arrays([of_files.keys, keys])
    values = pa.concat_arrays([of_files.values, values])
    order = pa.array(argsort(keys)) if len(keys) else pa.array([], pa.int64())
    return RecordChanges(keys.take(order), values.take(order), (*gone, *lost))
