"""Creation of secondary indexes.

```
slices -> entries staged by file group -> base HFiles -> definition -> partition listed
```

A definition without a listed partition is not in use, so an interrupted creation has no effect and
may be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from pyhudi.engine import Engine
from pyhudi.errors import IndexNotReadyError, SchemaError, UnsupportedTableError, UserError
from pyhudi.filenames import METADATA_TABLE, BaseFileName, new_write_token
from pyhudi.index.expression_build import recreate_expressions
from pyhudi.index.index_creation import IndexCreation, check_new
from pyhudi.index.secondary.changes import (
    EntryReader,
    GroupChange,
    IndexShape,
    StagedChanges,
    stage_changes,
)
from pyhudi.metadata.bootstrap import check_quiet, first_stat, publish_partition
from pyhudi.metadata.definitions import add_definition
from pyhudi.metadata.file_writers import HFILE, write_base_hfile
from pyhudi.metadata.record_schema import RECORDS_V9
from pyhudi.metadata.secondary_index.changes import combined
from pyhudi.metadata.secondary_index.definition import PREFIX, SecondaryIndex, secondary_indexes
from pyhudi.metadata.secondary_index.key_format import HashedPart, is_indexable
from pyhudi.metadata.secondary_index.records import sorted_entries
from pyhudi.near_names import columns_hint
from pyhudi.options import ReadOptions
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import SpillPlace, Staging, lock_folder, spill
from pyhudi.table.properties import load_config
from pyhudi.timeline.commit_metadata import WriteStat

_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_PARTS: Final = {1: HashedPart.WHOLE_KEY, 2: HashedPart.VALUE}


@dataclass(frozen=True, slots=True)
class SecondaryRequest:
    """A secondary index to create.  name: None for one made of the column's."""

    column: str
    name: str | None = None

    def plan(self, state: TableState) -> IndexCreation:
        """As `IndexRequest.plan`."""
        index, count = _new_index(state, self), state.record_index.bucket_count
        return IndexCreation(index.name, index.column, index.part.value, count, 0, dry_run=True)

    def build(self, state: TableState, engine: Engine) -> IndexCreation:
        """As `IndexRequest.build`; memory and errors as in `create_secondary`."""
        shape = IndexShape(_new_index(state, self), state.record_index.bucket_count)
        with _entry_spill(state.fs, engine) as staging:
            return create_secondary(state, shape, engine, staging)


def _entry_spill(fs: FileSystem, engine: Engine) -> AbstractContextManager[Staging]:
    """Where entries are staged; the caller holds the table's lock."""
    place = SpillPlace.MACHINE if engine.shares_memory else SpillPlace.TABLE
    return spill(fs, place, lock_folder())


def _new_index(state: TableState, request: SecondaryRequest) -> SecondaryIndex:
    """The index to create.  Raises the errors of `IndexRequest`."""
    column, name = request.column, request.name
    part = _PARTS.get(state.config.layout.index_version)
    if part is None:
        raise UnsupportedTableError(
            "tables of this version have no secondary indexes",
            version=state.config.version,
            hint="upgrade the table: table.upgrade(to=9)",
        )
    own = name if name is not None else re.sub(r"\W", "_", column)
    own = own.removeprefix(PREFIX)
    if not _NAME.fullmatch(own):
        raise UserError("the name of an index may contain only letters, digits and _", name=own)
    check_new(state, PREFIX + own)
    schema = state.schema()
    if column not in schema.names:
        raise UserError(
            "the table has no such column",
            column=column,
            hint=columns_hint([column], schema.names),
        )
    if not is_indexable(schema.field(column).type):
        raise SchemaError(
            "a column of this type cannot have a secondary index",
            column=column,
            type=str(schema.field(column).type),
            hint="use strings, integers, dates or timestamps",
        )
    if state.metadata is None or not state.metadata.has_record_index:
        raise IndexNotReadyError(
            "a secondary index needs a record index",
            path=state.fs.url,
            hint="run table.index.rebuild(kind='record')",
        )
    return SecondaryIndex(PREFIX + own, column, part)


def create_secondary(
    state: TableState, shape: IndexShape, engine: Engine, staging: Staging
) -> IndexCreation:
    """Build the index from the newest snapshot.  The caller holds the table's lock.

    Memory: one file slice and one file group of the index.  Raises IndexNotReadyError while a write
    is pending.
    """
    fs, index, count = state.fs, shape.index, shape.group_count
    check_quiet(state.timeline, state.log)
    entries = staged_entries(state, shape, engine, staging)
    fs.delete_folder(f"{METADATA_TABLE}/{index.name}")
    config = add_definition(fs, state.config, index.to_definition())
    written: list[WriteStat] = []

    def write_first(own: FileSystem, time: InstantTime) -> list[WriteStat]:
        for number in range(count):
            written.extend(_first_file(own, index, number, entries, time))
        return written

    ids = [index.partition.file_id(number) for number in range(count)]
    publish_partition(fs, config, state.timeline, index.partition, ids, write_first)
    total = sum(stat.write_count for stat in written)
    return IndexCreation(index.name, index.column, index.part.value, count, total)


def recreate_indexes(fs: FileSystem, group_counts: Mapping[str, int], engine: Engine) -> None:
    """Build the secondary and expression indexes among these partitions that the table no longer
    lists, by their definitions.

    group_counts: of each partition.  The caller holds the table's lock.
    """
    _recreate_secondary(fs, group_counts, engine)
    recreate_expressions(fs, group_counts, engine)


def _recreate_secondary(fs: FileSystem, group_counts: Mapping[str, int], engine: Engine) -> None:
    """Build the secondary indexes among these partitions that the table no longer lists, by their
    definitions; those of columns that it no longer has stay unlisted.

    group_counts: of each partition.  The caller holds the table's lock.
    """
    lost = group_counts.keys() - load_config(fs).metadata_partitions
    for index in secondary_indexes(fs, load_config(fs), lost):
        state = load_state(fs, ReadOptions())
        schema, column = state.schema(), index.column
        if column in schema.names and is_indexable(schema.field(column).type):
            with _entry_spill(fs, engine) as staging:
                create_secondary(
                    state, IndexShape(index, group_counts[index.name] or 1), engine, staging
                )


def staged_entries(
    state: TableState, shape: IndexShape, engine: Engine, staging: Staging
) -> StagedChanges:
    """Every entry of the newest snapshot, staged as additions."""
    schema = state.schema()
    reader = EntryReader.of(state, (shape,), schema)
    tasks = [
        GroupChange(
            reader,
            None,
            slice_,
            (),
            partition_values(state.config, schema, slice_.partition),
            BEFORE_ALL_INSTANTS,
            staging,
        )
        for slice_ in state.view().latest_slices()
    ]
    parts = engine.run(stage_changes, tasks, label="secondary-index") if tasks else []
    return StagedChanges((shape,), tuple(part for part in parts if part is not None))


def _first_file(
    own: FileSystem, index: SecondaryIndex, number: int, entries: StagedChanges, time: InstantTime
) -> list[WriteStat]:
    keys = combined(entries.of(0, number)).added
    if not len(keys):
        return []
    partition = index.partition
    name = BaseFileName(partition.file_id(number), new_write_token(number), time, HFILE)
    sorted_keys, values = sorted_entries(keys)
    size = write_base_hfile(own, partition.path, name, sorted_keys, values, RECORDS_V9.stored)
    return [first_stat(partition, number, name, entries=len(keys), size_bytes=size)]
