"""Reading of a file slice: its base file and logs merged, with the requested columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.filenames import BaseFileName
from pyhudi.formats.base_file import footer, read_base
from pyhudi.formats.column_history import ColumnHistory
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import data_batches, read_content
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.formats.log_scan import PlacedBlock, committed_blocks
from pyhudi.formats.logical_types import check_unshredded
from pyhudi.formats.nested_fields import has_fields, root_of, type_at
from pyhudi.formats.schema_conform import conform
from pyhudi.formats.timestamp_repair import relabelled
from pyhudi.merge.merge_cache import OUTCOMES, Outcome, outcome_key
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.partial_updates import flag_of, flagged, partial_rules
from pyhudi.merge.payload_classes import Keeps
from pyhudi.merge.row_match import RowMatch
from pyhudi.merge.slice_merge import Deletes, LogEntries, data_of, decide, merge
from pyhudi.read.bootstrap_rows import sourced_rows
from pyhudi.read.log_positions import has_positions, position_match
from pyhudi.read.predicate import Predicate, both
from pyhudi.read.skipping.row_groups import key_condition, matching_row_groups
from pyhudi.records import IS_DELETED, META_COLUMNS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import DataFile, FileSlice, Visibility

_NO_VALUES: Final[Mapping[str, pa.Scalar]] = {}


@dataclass(frozen=True)
class SliceSpec:
    """What to read of a slice; the same for many slices.  Can be pickled.

    table: every column of the table, including meta columns.  columns: names of the requested ones,
    in order.  where: selects rows for which it is true.  keys: record keys that all selected rows
    are among, as far as known.
    """

    table: pa.Schema
    columns: tuple[str, ...]
    rules: MergeRules
    visibility: Visibility
    where: Predicate | None = None
    keys: pa.Array | None = None

    @property
    def filter_columns(self) -> tuple[str, ...]:
        """The columns that the filter names."""
        return () if self.where is None else self.where.columns

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return pa.schema([self.table.field(name) for name in self.columns])


def read_slice(
    fs: FileSystem,
    slice: FileSlice,
    *,
    spec: SliceSpec,
    partition_values: Mapping[str, pa.Scalar] = _NO_VALUES,
    row_groups: Sequence[int] | None = None,
) -> pa.Table:
    """The rows of a slice, with the schema of `spec`.

    partition_values: columns whose values come from the partition path; they are not read.
    row_groups: those of the base file to read, for a slice without logs (`readable_row_groups`).
    Each file is opened once.  Raises FileMissingError, CorruptFileError, SchemaError,
    UnsupportedTableError.
    """
    blocks = log_blocks(fs, slice, spec.visibility)
    if blocks:
        spec.rules.check()
        rows = _merged(fs, slice, blocks, spec, partition_values)
    else:
        if row_groups is None:
            row_groups = _pruned(fs, slice, spec, partition_values)
        stored = pa.schema(map(spec.table.field, stored_columns(spec, partition_values)))
        rows = base_rows(fs, slice, stored, row_groups, history=spec.visibility.columns)
    return finish(rows, spec, partition_values)


def _visible(spec: SliceSpec) -> pa.Schema:
    """The requested columns, and those that the filter needs."""
    names = dict.fromkeys((*spec.columns, *spec.filter_columns))
    return pa.schema([spec.table.field(name) for name in names])


def stored_columns(spec: SliceSpec, values: Mapping[str, pa.Scalar]) -> list[str]:
    """Visible columns that are read from files: at least one, which is needed to count rows."""
    found = [f.name for f in _visible(spec) if f.name not in values]
    return found or [spec.table.names[0]]


def with_partition_values(
    rows: pa.Table, schema: pa.Schema, values: Mapping[str, pa.Scalar]
) -> pa.Table:
    """Rows of a schema: columns named in `values`, of a partition, have that value in each row,
    whatever is stored; the others come from `rows`."""
    columns = [
        pa.repeat(values[name], rows.num_rows) if name in values else rows.column(name)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def finish(rows: pa.Table, spec: SliceSpec, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """Set the partition columns, apply the filter, order the columns."""
    visible = _visible(spec)
    if not visible.names:
        return rows.select([])  # rows that are only counted
    table = with_partition_values(rows, visible, values)
    if spec.where is not None:
        table = spec.where.passing(table)
    return table if len(visible) == len(spec.columns) else table.select(list(spec.columns))


def readable_row_groups(
    fs: FileSystem,
    slice: FileSlice,
    *,
    spec: SliceSpec,
    partition_values: Mapping[str, pa.Scalar] = _NO_VALUES,
) -> list[int]:
    """Row groups of the base file that may contain rows of the result.  Reads its footer."""
    if slice.base is None:
        return []
    remaining = _pruned(fs, slice, spec, partition_values)
    return list(range(footer(fs, slice.base.path).row_groups)) if remaining is None else remaining


def _pruned(
    fs: FileSystem, slice: FileSlice, spec: SliceSpec, values: Mapping[str, pa.Scalar]
) -> list[int] | None:
    """The row groups that the filter and the known keys do not rule out; None for all."""
    return _row_groups(fs, slice, spec, values, spec.where)


def _pruned_by_keys(
    fs: FileSystem, slice: FileSlice, spec: SliceSpec, values: Mapping[str, pa.Scalar]
) -> list[int] | None:
    """The row groups that the known keys alone do not rule out; None for all."""
    return _row_groups(fs, slice, spec, values, None)


def _row_groups(
    fs: FileSystem,
    slice: FileSlice,
    spec: SliceSpec,
    values: Mapping[str, pa.Scalar],
    where: Predicate | None,
) -> list[int] | None:
    key = spec.rules.key_column
    if spec.keys is not None and len(spec.keys) and key in spec.table.names:
        where = both(where, key_condition(key, spec.keys))
    if slice.base is None or slice.source is not None or where is None:
        return None
    history = spec.visibility.columns
    names = None if history is None else history.stored(slice.base.name.instant)
    if names is not None and any(map(names.moves, where.columns)):
        return None
    return matching_row_groups(
        fs,
        slice.base.path,
        where=where,
        table=spec.table,
        partition_values=values,
    )


def base_rows(
    fs: FileSystem,
    slice: FileSlice,
    stored: pa.Schema,
    row_groups: Sequence[int] | None,
    *,
    coded: Collection[str] = (),
    history: ColumnHistory | None = None,
) -> pa.Table:
    """Rows of the base file with the columns of `stored`, as they are stored.

    coded: names of columns that may be dictionary arrays.  Reading columns of few values this way
    and decoding them later takes half the time of reading them plain; filtering them takes a third.
    history: the names of the columns in files, if they have changed.
    """
    if slice.base is None:
        return stored.empty_table()
    assert isinstance(slice.base.name, BaseFileName)
    path = slice.base.path
    names = None if history is None else history.stored(slice.base.name.instant)
    columns = stored.names if names is None else names.names_of(stored.names)
    dictionaries = columns if names is not None else coded or stored.names
    if slice.source is None:
        rows = read_base(
            fs, path, columns=columns, row_groups=row_groups, dictionaries=dictionaries
        )
    else:
        assert row_groups is None
        rows = sourced_rows(fs, path, slice.source, columns, dictionaries=dictionaries)
    if names is not None:
        rows = names.renamed(rows, stored.names)
    for index, field in enumerate(stored):
        if field.name in coded and field.name in rows.column_names:
            found = rows.schema.field(field.name).type
            if pt.is_dictionary(found) and found.value_type == field.type:
                stored = stored.set(index, field.with_type(found))
    return _fitted(rows, stored)


def _fitted(rows: pa.Table, target: pa.Schema) -> pa.Table:
    """Rows as written, converted to the columns of `target`.

    Timestamps with a wrong label are repaired.
    """
    if rows.schema.equals(target, check_metadata=True):
        return rows
    check_unshredded(rows.schema, target)
    return conform(relabelled(rows, target), target)


def _merged(
    fs: FileSystem,
    slice: FileSlice,
    blocks: Sequence[PlacedBlock],
    spec: SliceSpec,
    values: Mapping[str, pa.Scalar],
) -> pa.Table:
    """Base and logs merged; under plain rules, by the cached decisions of an earlier read."""
    spec, partial = with_partial_rules(spec, blocks)
    prune = _pruned if _commutes(spec) else _pruned_by_keys
    row_groups = prune(fs, slice, spec, values)
    key = None
    if spec.rules.is_plain and row_groups is None:
        key = outcome_key(fs.url, slice, blocks, spec.rules)
        known = OUTCOMES.get(key)
        if known is not None:
            return _as_decided(fs, slice, blocks, spec, values, known)
    found = load(fs, slice, blocks, spec, values, row_groups)
    needed, base, log, match = found.needed, found.base, found.log, found.match
    if base is None and not data_of(log):
        return needed.empty_table()
    rules = present_rules(spec.rules, needed)
    if partial:
        base = base if base is None else flagged(base, needed.names, None)
    if key is None:
        columns = merged_columns(spec, values, needed, partial=partial)
        return merge(base, log, rules, columns=columns, match=match)
    outcome = decide(base, log, rules, match)
    OUTCOMES.put(key, outcome)
    return outcome.rows(base, data_of(log), stored_columns(spec, values))


def merged_columns(
    spec: SliceSpec, values: Mapping[str, pa.Scalar], needed: pa.Schema, *, partial: bool
) -> list[str]:
    """The columns that a merge returns; with partial updates, also their flags."""
    columns = needed.names if spec.rules.function else stored_columns(spec, values)
    if not partial:
        return list(columns)
    return [*columns, *(flag_of(n) for n in columns if n not in META_COLUMNS)]


def with_partial_rules(spec: SliceSpec, blocks: Sequence[PlacedBlock]) -> tuple[SliceSpec, bool]:
    """The spec with the rules of these blocks, and whether one of them has partial updates."""
    partial = [placed for placed in blocks if placed.block.is_partial]
    if not partial:
        return spec, False
    return replace(spec, rules=partial_rules(spec.rules, path=partial[0].path)), True


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows of the base file and entries of the logs.  match: None to match by record key."""

    needed: pa.Schema
    base: pa.Table | None
    log: list[LogEntries]
    match: RowMatch | None = None


def load(
    fs: FileSystem,
    slice: FileSlice,
    blocks: Sequence[PlacedBlock],
    spec: SliceSpec,
    values: Mapping[str, pa.Scalar],
    row_groups: Sequence[int] | None,
    *,
    narrow: bool = False,
) -> Loaded:
    """What a merge needs, matched by position where all blocks have valid positions in the base
    file, then without the record key unless it is requested; else by key.

    narrow: of the base file, read only the columns that decide the merge, and at least one.
    """
    if slice.base is not None and has_positions(slice.base, blocks):
        needed = _needed(spec, values, by_key=False)
        log = list(log_entries(fs, blocks, needed, spec))
        base = _base_to_merge(fs, slice, needed, spec, row_groups, narrow=narrow)
        assert base is not None
        match = position_match(fs, (slice.base, base), blocks, log, row_groups)
        if match is not None:
            return Loaded(needed, base, log, match)
    needed = _needed(spec, values)
    log = list(log_entries(fs, blocks, needed, spec))
    base = _base_to_merge(fs, slice, needed, spec, row_groups, narrow=narrow)
    return Loaded(needed, base, log)


def _base_to_merge(
    fs: FileSystem,
    slice: FileSlice,
    needed: pa.Schema,
    spec: SliceSpec,
    row_groups: Sequence[int] | None,
    *,
    narrow: bool,
) -> pa.Table | None:
    if slice.base is None:
        return None
    if narrow:
        deciding = [field for field in needed if field.name in looked_at(spec.rules)]
        needed = pa.schema(deciding or [needed.field(0)])
    coded = set(needed.names).difference(looked_at(spec.rules))
    return base_rows(fs, slice, needed, row_groups, coded=coded, history=spec.visibility.columns)


def _as_decided(
    fs: FileSystem,
    slice: FileSlice,
    blocks: Sequence[PlacedBlock],
    spec: SliceSpec,
    values: Mapping[str, pa.Scalar],
    outcome: Outcome,
) -> pa.Table:
    """The live rows by a cached outcome, without reading their keys."""
    stored = pa.schema(map(spec.table.field, stored_columns(spec, values)))
    data = [placed for placed in blocks if placed.block.kind is not BlockKind.DELETE]
    log = data_of(list(log_entries(fs, data, stored, spec)))
    base = None
    if slice.base is not None:
        history = spec.visibility.columns
        base = base_rows(fs, slice, stored, None, coded=stored.names, history=history)
    return outcome.rows(base, log, stored.names)


def _commutes(spec: SliceSpec) -> bool:
    """Whether base rows that the filter drops may be dropped before the merge.

    Not where such a row may win over a logged row that passes, or provide values for it.
    """
    rules = spec.rules
    by_arrival = rules.picks and not rules.is_event_time
    return by_arrival or set(spec.filter_columns) <= {rules.key_column}


def _needed(spec: SliceSpec, values: Mapping[str, pa.Scalar], *, by_key: bool = True) -> pa.Schema:
    """Columns to read of base and logs: those that are visible, and those that the merge uses.

    by_key: whether the merge uses the record key.
    """
    known = set(spec.table.names)
    deciding = (name for name in looked_at(spec.rules)[0 if by_key else 1 :] if name in known)
    whole = [name for name in spec.table.names if spec.rules.function and name not in META_COLUMNS]
    names = dict.fromkeys((*stored_columns(spec, values), *deciding, *whole))
    return pa.schema([spec.table.field(name) for name in names])


def looked_at(rules: MergeRules) -> tuple[str, ...]:
    """Columns whose values decide the merge, the record key first."""
    ordering = map(root_of, rules.ordering)
    return (rules.key_column, *ordering, IS_DELETED, *(mark.column for mark in rules.marks))


def present_rules(rules: MergeRules, needed: pa.Schema) -> MergeRules:
    """The rules.  Raises UnsupportedTableError if the table lacks their ordering columns."""
    if has_fields(needed, rules.ordering):
        return rules
    raise UnsupportedTableError(
        "the table's ordering column is not in its schema", columns=",".join(rules.ordering)
    )


def log_blocks(fs: FileSystem, slice: FileSlice, visibility: Visibility) -> list[PlacedBlock]:
    """The blocks of a slice's logs that are merged, oldest first.  Each log is opened once."""
    found: list[PlacedBlock] = []
    for log in slice.logs:
        with closing(fs.open(log.path)) as file:
            _check_whole(log, file.size)
            found += [PlacedBlock(log.path, b) for b in read_blocks(file, path=log.path)]
    return committed_blocks(found, visibility.sees)


def _check_whole(log: DataFile, size_bytes: int) -> None:
    """Raise CorruptFileError for a log shorter than written: only its size reveals a truncation
    between two blocks, or before the first."""
    if size_bytes < log.size_bytes:
        raise CorruptFileError(
            "a log file is shorter than what was written to it",
            path=log.path,
            size_bytes=size_bytes,
            written_bytes=log.size_bytes,
            hint="table.doctor() reports what can be done",
        )


def log_entries(
    fs: FileSystem, blocks: Sequence[PlacedBlock], needed: pa.Schema, spec: SliceSpec
) -> Iterator[LogEntries]:
    """The contents of the blocks, in order; data rows with the columns of `needed`."""
    rules, history = spec.rules, spec.visibility.columns
    for placed in blocks:
        with closing(fs.open(placed.path)) as file:
            block = placed.block
            if block.kind is BlockKind.DELETE:
                content = read_content(block, file)
                yield _deletes(content, placed.path, needed, rules)
            elif block.kind is BlockKind.HFILE:
                raise UnsupportedTableError(
                    "HFile log blocks are not supported in data tables", path=placed.path
                )
            else:
                names = None if history is None else history.stored(block.instant or "")
                columns = needed.names if names is None else names.names_of(needed.names)
                rows = data_batches(block, file, path=placed.path, columns=columns)
                if names is not None:
                    rows = names.renamed(rows, needed.names)
                fitted = _fitted(rows, needed)
                if rules.keeps is Keeps.ABSENT:
                    stated = rows.column_names if block.is_partial else None
                    fitted = flagged(fitted, needed.names, stated)
                yield fitted


def _deletes(content: bytes, path: str, needed: pa.Schema, rules: MergeRules) -> Deletes:
    if not rules.is_event_time:
        return Deletes(decode_deletes(content, path=path).column("record_key"))
    kinds = [type_at(needed, name) for name in present_rules(rules, needed).ordering]
    ordering_type = kinds[0] if len(kinds) == 1 else kinds
    batch = decode_deletes(content, path=path, ordering_type=ordering_type)
    return Deletes(batch.column("record_key"), batch.column("ordering"))
