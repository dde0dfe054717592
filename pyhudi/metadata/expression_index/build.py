"""Creation of expression indexes for the files of a table.

```
files -> entries -> base HFiles -> definition -> partition listed
```

A definition without a listed partition is not in use, so an interrupted creation has no effect and
may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.metadata.bootstrap import create_partition, delete_partition
from pyhudi.metadata.definitions import add_definition
from pyhudi.metadata.expression_index.changes import ranges_of_files
from pyhudi.metadata.expression_index.definition import ExpressionIndex
from pyhudi.metadata.expression_index.entries import IndexedExpression, index_expression
from pyhudi.metadata.file_stats.build import grouped, newest_file_names, stored_stats
from pyhudi.metadata.file_stats.changes import RecordChanges, bloom_changes
from pyhudi.metadata.file_stats.records import FileIndex
from pyhudi.metadata.record_schema import records_of
from pyhudi.records import BEFORE_ALL_INSTANTS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant import State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

GROUPS: Final = 2
"""File groups of a new index, as in Apache Hudi."""


def create_expression(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    index: ExpressionIndex,
    kind: pa.DataType,
    *,
    group_count: int,
    engine: Engine,
) -> tuple[TableConfig, int]:
    """Build and list an index; returns the stored properties and the number of its entries.

    kind: of the column in the table.  The caller holds the table's lock, no write is pending, and
    the table has `files`.  Cost: reads the column of every base file, and every log in full.
    """
    timeline = log.load()
    tasks = [IndexedExpression(fs, stat, index, kind) for stat in stored_stats(fs, timeline)]
    found = engine.run(index_expression, tasks, label="expression-index") if tasks else []
    if index.is_ranged:
        entries = ranges_of_files(index, found, newest_file_names(fs, config, log, timeline))
    else:
        entries = _filters(config, timeline, found)
    delete_partition(fs, index.name)
    config = add_definition(fs, config, index.to_definition())
    groups = grouped(entries.keys, entries.values, group_count)
    config = create_partition(fs, config, timeline, index.partition, groups)
    return config, len(entries.keys)


def _filters(config: TableConfig, timeline: Timeline, found: Sequence[FileIndex]) -> RecordChanges:
    last = timeline.where(None, State.COMPLETED).last
    time = last.time if last else BEFORE_ALL_INSTANTS
    return bloom_changes(found, time, records_of(config.layout.index_version).stored)
