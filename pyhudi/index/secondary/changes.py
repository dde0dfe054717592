"""Changes of secondary indexes by the files of a commit, before it completes.

Each file group that the commit writes or replaces is one task: the keys of its entries are made of
the rows of its slice before and after.  Of a slice that got logs only the logged keys are read.
Changes are staged by file group of the index, so memory follows the file group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.filenames import BaseFileName, LogFileName, parse_data_file
from pyhudi.merge.slice_merge import Deletes
from pyhudi.metadata.secondary_index.changes import EntryChanges, changes_between
from pyhudi.metadata.secondary_index.definition import SecondaryIndex
from pyhudi.metadata.secondary_index.key_format import entry_keys, groups_of, value_texts
from pyhudi.read.file_slice import SliceSpec, log_blocks, log_entries, looked_at, read_slice
from pyhudi.read.predicate import among
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import DataFile, FileSlice, TableView
from pyhudi.timeline.commit_metadata import WriteStat

_ENTRIES: Final = pa.schema(
    {"index": pa.int32(), "group": pa.int32(), "added": pa.bool_(), "key": pa.string()}
)


@dataclass(frozen=True, slots=True)
class IndexShape:
    """A secondary index and its number of file groups."""

    index: SecondaryIndex
    group_count: int


@dataclass(frozen=True, slots=True)
class EntryReader:
    """How to make the keys of entries from rows; the same for many slices.  Picklable.

    spec: of the key column and the indexed columns, as seen before the commit.
    """

    fs: FileSystem
    shapes: tuple[IndexShape, ...]
    spec: SliceSpec

    @classmethod
    def of(cls, state: TableState, shapes: Sequence[IndexShape], schema: pa.Schema) -> EntryReader:
        """schema: of the table, with meta columns."""
        rules = state.rules
        names = dict.fromkeys((rules.key_column, *(shape.index.column for shape in shapes)))
        visibility = state.view(partitions=[]).visibility
        return cls(state.fs, tuple(shapes), SliceSpec(schema, tuple(names), rules, visibility))

    def entries(
        self, slice: FileSlice, values: Mapping[str, pa.Scalar], spec: SliceSpec
    ) -> list[pa.Array]:
        """The keys of the entries of a slice's rows, for each index."""
        rows = read_slice(self.fs, slice, spec=spec, partition_values=values)
        keys = rows.column(self.spec.rules.key_column).combine_chunks()
        columns = (rows.column(shape.index.column).combine_chunks() for shape in self.shapes)
        return [entry_keys(value_texts(column), keys) for column in columns]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The task of one file group.  before, after: its slice; logs: those of the commit in `after`.

    at: the instant of the commit.
    """

    reader: EntryReader
    before: FileSlice | None
    after: FileSlice | None
    logs: tuple[DataFile, ...]
    values: Mapping[str, pa.Scalar]
    at: InstantTime
    staging: Staging


def group_changes(
    state: TableState,
    reader: EntryReader,
    stats: Sequence[WriteStat],
    replaced: Sequence[FileSlice],
    *,
    at: InstantTime,
    staging: Staging,
) -> Iterator[GroupChange]:
    """The tasks of a commit.  stats: its files; replaced: the slices that it replaces."""
    files: dict[FileGroupId, list[DataFile]] = {}
    for stat in stats:
        name = parse_data_file(stat.file_name)
        if name is not None:
            file = DataFile(name, stat.partition, stat.size_bytes)
            files.setdefault(FileGroupId(stat.partition, stat.file_id), []).append(file)
    view = state.view(partitions=sorted({group.partition for group in files}))
    for group, written in files.items():
        before, after, logs = _slices(view, group, written, at)
        values = partition_values(state.config, reader.spec.table, group.partition)
        yield GroupChange(reader, before, after, logs, values, at, staging)
    for gone in replaced:
        values = partition_values(state.config, reader.spec.table, gone.partition)
        yield GroupChange(reader, gone, None, (), values, at, staging)


def _slices(
    view: TableView, group: FileGroupId, written: Sequence[DataFile], at: InstantTime
) -> tuple[FileSlice | None, FileSlice, tuple[DataFile, ...]]:
    """The slice before, the slice after, and the new logs in it."""
    known = view.groups.get(group)
    before = None if known is None else known.latest()
    base = next((file for file in written if isinstance(file.name, BaseFileName)), None)
    logs = tuple(
        file for file in written if isinstance(file.name, LogFileName) and not file.name.is_cdc
    )
    if base is not None:
        return before, FileSlice(group, at, base, logs), ()
    if before is None:
        return None, FileSlice(group, at, None, logs), ()
    return before, replace(before, logs=(*before.logs, *logs)), logs


def stage_changes(task: GroupChange) -> Staged | None:
    """Stage a file group's changes by index and file group of the index; None without changes."""
    before_spec = task.reader.spec
    seen = before_spec.visibility
    after_spec = replace(
        before_spec, visibility=replace(seen, completed=seen.completed | {task.at})
    )
    if task.logs and task.after is not None:
        keys = _logged_keys(task.reader.fs, replace(task.after, logs=task.logs), after_spec)
        before_spec, after_spec = (_narrowed(spec, keys) for spec in (before_spec, after_spec))
    nothing = [pa.array([], pa.string())] * len(task.reader.shapes)
    before, after = (
        nothing if slice is None else task.reader.entries(slice, task.values, spec)
        for slice, spec in ((task.before, before_spec), (task.after, after_spec))
    )
    tables = [
        _table(number, shape, changes_between(old, new))
        for number, (shape, old, new) in enumerate(
            zip(task.reader.shapes, before, after, strict=True)
        )
    ]
    table = pa.concat_tables(tables)
    return task.staging.put("secondary", table) if table.num_rows else None


def _narrowed(spec: SliceSpec, keys: pa.Array) -> SliceSpec:
    """Limited to rows with these keys."""
    column = spec.rules.key_column
    return replace(spec, where=among(column, keys), keys=keys)


def _logged_keys(fs: FileSystem, slice: FileSlice, spec: SliceSpec) -> pa.Array:
    """The distinct record keys in a slice's logs."""
    blocks = log_blocks(fs, slice, spec.visibility)
    names = [name for name in looked_at(spec.rules) if name in spec.table.names]
    needed = pa.schema([spec.table.field(name) for name in names])
    keys = [
        entries.keys if isinstance(entries, Deletes) else entries.column(spec.rules.key_column)
        for entries in log_entries(fs, blocks, needed, spec)
    ]
    chunks = [c for k in keys for c in (k.chunks if isinstance(k, pa.ChunkedArray) else [k])]
    return pc.unique(pa.concat_arrays([pa.array([], pa.string()), *chunks]))


def _table(number: int, shape: IndexShape, changes: EntryChanges) -> pa.Table:
    """Changes as rows of _ENTRIES, ordered by file group."""
    keys = pa.concat_arrays([changes.added, changes.ended])
    added = np.arange(len(keys)) < len(changes.added)
    homes = groups_of(keys, shape.group_count, shape.index.part)
    order = np.argsort(homes, kind="stable")
    return pa.table(
        [
            pa.array(np.full(len(keys), number, np.int32)),
            pa.array(homes[order]),
            pa.array(added[order]),
            keys.take(pa.array(order)),
        ],
        schema=_ENTRIES,
    )


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """The staged changes of a commit, of every secondary index of the table."""

    shapes: tuple[IndexShape, ...] = ()
    parts: tuple[Staged, ...] = ()

    def of(self, number: int, group: int) -> list[EntryChanges]:
        """The changes of one file group of the index with this number, by data file group."""
        found = []
        for part in self.parts:
            table = part.load()
            code = table.column("index").to_numpy().astype(np.int64) << 32
            code |= table.column("group").to_numpy()
            low, high = np.searchsorted(code, [combined := number << 32 | group, combined + 1])
            mine = table.slice(int(low), int(high - low)).combine_chunks()
            if mine.num_rows:
                keys, added = mine.column("key").chunk(0), mine.column("added").chunk(0)
                found.append(EntryChanges(keys.filter(added), keys.filter(pc.invert(added))))
        return found


def changes_of_commit(
    state: TableState,
    shapes: Sequence[IndexShape],
    schema: pa.Schema,
    stats: Sequence[WriteStat],
    replaced: Sequence[FileSlice],
    *,
    at: InstantTime,
    engine: Engine,
    staging: Staging,
) -> StagedChanges:
    """Find and stage the changes of a commit that has written its files.

    state: before the commit; schema: of the table with this commit, with meta columns.
    Cost: reads the key and the indexed columns of the written slices, before and after.
    """
    if not shapes:
        return StagedChanges()
    reader = EntryReader.of(state, shapes, schema)
    tasks = list(group_changes(state, reader, stats, replaced, at=at, staging=staging))
    parts = engine.run(stage_changes, tasks, label="secondary-index")
    return StagedChanges(tuple(shapes), tuple(part for part in parts if part is not None))
