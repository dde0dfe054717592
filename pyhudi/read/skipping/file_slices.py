"""Selection of the file slices that may contain rows matching a filter, by the metadata table.

record index    the file groups that contain the requested keys (newest snapshot only, and only
                where the commits prove that no key has several rows: read/skipping/key_uniqueness)
secondary       the same for the keys of rows with the requested values of an indexed column
bloom filters   base files that may contain one of the keys, where there is no record index
expressions     files whose ranges of a function of a column allow the filter on the function
column ranges   files, and before them partitions, whose minimum and maximum values allow the filter

A slice with logs is skipped only if none of its files can contain such a row, and only where each
row of the result is a row of one file.  Slices that cannot be decided are read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError, FileMissingError, UnsupportedTableError
from pyhudi.metadata.expression_index.time_zones import in_any_zone
from pyhudi.metadata.file_stats.collect import may_contain, read_partition_ranges, read_ranges
from pyhudi.metadata.file_stats.ranges import ColumnRanges, hull
from pyhudi.metadata.file_stats.records import FileName
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataPartition,
)
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.by_partition import is_partitioned_record_index
from pyhudi.read.predicate import And, Call, Column, IsNull, IsValid, Node, Or, Predicate
from pyhudi.read.skipping.expression_index import UsableIndex, rewritten_filters
from pyhudi.read.skipping.filter_values import Comparison, comparison, required_values
from pyhudi.read.skipping.key_uniqueness import keys_are_unique
from pyhudi.read.skipping.secondary_index import SecondaryLookup, secondary_use
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import KeyGeneratorKind, TableConfig

_LOG = logging.getLogger("pyhudi")

_KEYS_MAX: Final = 1 << 16
"""More keys than this are in so many groups that a lookup saves nothing."""


_KEYS_OF_TASK_MAX: Final = 1 << 12
"""More keys than this are not sent with every task to select row groups."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Slices left to read, and how many each index ruled out.

    keys: record keys of all matching rows, from a secondary index; None if not known.  notes: on
    the use of secondary indexes, for the plan.
    """

    slices: list[FileSlice]
    by: Mapping[str, int] = field(default_factory=dict)
    keys: pa.Array | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippingRequest:
    """A filter on a table of these columns.  is_newest: whether the newest snapshot is read.
    fixed: columns whose values come from the partition path, not from files."""

    where: Predicate
    schema: pa.Schema
    is_newest: bool
    fixed: frozenset[str] = frozenset()

    @property
    def stored(self) -> dict[str, pa.DataType]:
        """The columns of the filter that files have statistics of, with their types."""
        found = {name: self.schema.field(name).type for name in self.where.columns}
        return {n: k for n, k in found.items() if n not in self.fixed and not pt.is_nested(k)}


def skip(state: TableState, slices: Sequence[FileSlice], request: SkippingRequest) -> Skipped:
    """Remove slices that cannot contain a matching row.  Reads only the metadata table."""
    metadata = state.metadata
    left = list(slices)
    counts: dict[str, int] = {}
    if not left:
        return Skipped(left)
    use = secondary_use(state, request.where.tree, request.schema, is_newest=request.is_newest)
    if metadata is None:
        return Skipped(left, notes=use.notes)
    secondary = _Secondary(state, metadata, use.lookups)
    for name, rule_out in [
        *secondary.rules(),
        *_indexes(state, metadata, request),
    ]:
        before = len(left)
        try:
            left = rule_out(left)
        except (CorruptFileError, FileMissingError, UnsupportedTableError) as broken:
            _LOG.warning("cannot skip files by the %s of %s: %s", name, state.fs.url, broken)
        if len(left) < before:
            counts[name] = before - len(left)
    return Skipped(left, counts, secondary.keys, (*use.notes, *secondary.notes))


class _Secondary:
    """The rules of secondary indexes.  keys: the fewest record keys that one of them returned."""

    def __init__(
        self, state: TableState, metadata: MetadataTable, lookups: Sequence[SecondaryLookup]
    ) -> None:
        self._state = state
        self._metadata = metadata
        self._lookups = lookups
        self.keys: pa.Array | None = None
        self.notes: list[str] = []

    def rules(self) -> Iterator[tuple[str, _Rule]]:
        for lookup in self._lookups:
            yield lookup.index.name, partial(self._rule_out, lookup)

    def _rule_out(self, lookup: SecondaryLookup, slices: list[FileSlice]) -> list[FileSlice]:
        keys = lookup.record_keys(self._metadata)
        if len(keys) > _KEYS_MAX:
            self.notes.append(f"not used: {lookup.index.name}: it has {len(keys)} matching keys")
            return slices
        self.notes.append(f"{lookup.index.name}: {len(keys)} record keys")
        left = _indexed(self._state, slices, (keys,))
        few = _KEYS_OF_TASK_MAX if self.keys is None else len(self.keys)
        if left is not slices and len(keys) <= few:
            self.keys = keys
        return left


_Rule = Callable[[list[FileSlice]], list[FileSlice]]


def _indexes(
    state: TableState, metadata: MetadataTable, request: SkippingRequest
) -> list[tuple[str, _Rule]]:
    """The indexes of this table that apply to this filter, the most selective first."""
    listed, node = metadata.partitions_listed, request.where.tree
    found: list[tuple[str, _Rule]] = []
    keys = _keys(state.config, node, request.schema)
    if keys and len(keys[0]) <= _KEYS_MAX:
        is_indexed = RECORD_INDEX.path in listed and not is_partitioned_record_index(
            state.fs, state.config
        )
        if request.is_newest and is_indexed and keys_are_unique(state):
            found.append(("record index", lambda left: _indexed(state, left, keys)))
        if BLOOM_FILTERS.path in listed:
            found.append(("bloom filters", lambda left: _bloomed(metadata, left, keys)))
    columns = request.stored
    rule = _rule_of_slices(state)
    for index, condition in rewritten_filters(state.fs, state.config, node, request.schema):
        if index.index.column in request.fixed:
            continue  # it describes what files store
        if index.index.is_ranged:
            read = partial(_expression_ranges, metadata, index)
            found.append((index.name, partial(_ranged, condition, read, rule)))
        elif (values := required_values(condition, [index.name], index.kind)) is not None:
            texts = (values.cast(pa.string()),)
            own = index.index.partition
            found.append((index.name, partial(_bloomed, metadata, keys=texts, partition=own)))
    if columns and COLUMN_STATS.path in listed:

        def ranges_of(files: Sequence[FileName]) -> Mapping[str, ColumnRanges]:
            return read_ranges(metadata, files, columns)

        found.append(("column statistics", partial(_ranged, node, ranges_of, rule)))
    return found


def _expression_ranges(
    metadata: MetadataTable, index: UsableIndex, files: Sequence[FileName]
) -> Mapping[str, ColumnRanges]:
    """The ranges of an expression index, under its name."""
    column, expression = index.index.column, index.index.expression
    found = read_ranges(metadata, files, {column: index.kind}, index.index.partition).get(column)
    if found is None:
        return {}
    return {index.name: in_any_zone(found, expression) if index.is_zoned else found}


def _keys(config: TableConfig, node: Node, schema: pa.Schema) -> tuple[pa.Array, ...]:
    """Record keys to which the filter limits rows, as text, in every format in which they may be
    stored (arrays of the same length); empty where the filter does not limit keys."""
    if RECORD_KEY in schema.names:
        direct = required_values(node, [RECORD_KEY], pa.string())
        if direct is not None:
            return (pc.unique(direct),)
    fields = config.record_key_fields
    if len(fields) != 1 or fields[0] not in schema.names:
        return ()
    if config.key_generator is KeyGeneratorKind.USER_PROVIDED:
        return ()  # the key may be any function of the row
    kind = schema.field(fields[0]).type
    if not (pt.is_string(kind) or pt.is_signed_integer(kind)):
        return ()
    found = required_values(node, fields, kind)
    if found is None:
        return ()
    plain = pc.unique(found.cast(pa.string()))
    named = pc.binary_join_element_wise(f"{fields[0]}:", plain, "")
    return plain, named  # complex generators write single-field keys like this


def _indexed(
    state: TableState, slices: list[FileSlice], keys: tuple[pa.Array, ...]
) -> list[FileSlice]:
    """The slices of the groups that contain the keys.

    All slices if the index of a merge-on-read table lacks a key: there Apache Hudi 0.15.0 omits
    keys that a log deleted and that were inserted again.
    """
    places = state.record_index.lookup(pa.concat_arrays(keys))
    found = places.column("found").to_numpy().reshape(len(keys), -1)
    if state.config.is_merge_on_read and not found.any(axis=0).all():
        return slices
    homes = places.filter(pc.field("found")).select(["partition_path", "file_id"])
    groups = {FileGroupId(*row) for row in zip(*(c.to_pylist() for c in homes), strict=True)}
    return [file_slice for file_slice in slices if file_slice.group in groups]


def _bloomed(
    metadata: MetadataTable,
    slices: list[FileSlice],
    keys: tuple[pa.Array, ...],
    partition: MetadataPartition = BLOOM_FILTERS,
) -> list[FileSlice]:
    plain = [
        file_slice for file_slice in slices if file_slice.base is not None and not file_slice.logs
    ]
    files = [(p.partition, str(p.base.name)) for p in plain if p.base is not None]
    retained = may_contain(metadata, files, pa.concat_arrays(keys), partition)
    ruled_out = {
        file_slice.group for file_slice, keep in zip(plain, retained, strict=True) if not keep
    }
    return [file_slice for file_slice in slices if file_slice.group not in ruled_out]


class _SliceRule(Enum):
    """How the ranges of the files of a slice limit the rows of the slice."""

    ANY_FILE = "each row is stored whole in one of the files"
    ALL_FILES = "each value of a row is stored in one of the files"
    NO_LOGS = "the values of a slice with logs may be in none of the files"


def _rule_of_slices(state: TableState) -> _SliceRule:
    rules = state.rules
    if not rules.takes_stored_values:
        return _SliceRule.NO_LOGS
    is_whole = rules.picks and not state.log.layout.has_partial_logs
    return _SliceRule.ANY_FILE if is_whole else _SliceRule.ALL_FILES


def _ranged(
    node: Node,
    ranges_of: Callable[[Sequence[FileName]], Mapping[str, ColumnRanges]],
    rule: _SliceRule,
    slices: list[FileSlice],
) -> list[FileSlice]:
    with_logs = rule is not _SliceRule.NO_LOGS
    checked = [file_slice for file_slice in slices if with_logs or not file_slice.logs]
    files = [
        (file_slice.partition, str(file.name))
        for file_slice in checked
        for file in file_slice.files
    ]
    if not files:
        return slices
    ranges = ranges_of(files)
    homes = np.repeat(np.arange(len(checked)), [len(s.files) for s in checked])
    if rule is _SliceRule.ALL_FILES:
        whole = {name: hull(found, homes, len(checked)) for name, found in ranges.items()}
        possible = can_pass(node, whole, len(checked))
    else:
        passing = can_pass(node, ranges, len(files))
        possible = np.bincount(homes[passing], minlength=len(checked)) > 0
    retained = {s.group for s, may_match in zip(checked, possible, strict=True) if may_match}
    gone = {file_slice.group for file_slice in checked} - retained
    return [file_slice for file_slice in slices if file_slice.group not in gone]


def can_pass(node: Node, ranges: Mapping[str, ColumnRanges], count: int) -> Any:
    """For each file, whether a row within these ranges may pass the filter: an array of bool."""
    match node:
        case And(sides):
            return np.logical_and.reduce([can_pass(side, ranges, count) for side in sides])
        case Or(sides):
            return np.logical_or.reduce([can_pass(side, ranges, count) for side in sides])
        case IsNull(Column((name,)), or_nan) if name in ranges:
            nulls = ranges[name].may_be_null
            return nulls | _may_be_nan(ranges[name]) if or_nan else nulls
        case IsValid(Column((name,))) if name in ranges:
            return ranges[name].has_values
        case Call("is_nan", (Column((name,)),)) if name in ranges:
            return _may_be_nan(ranges[name])
    compared = comparison(node)
    if compared is not None and compared.name in ranges:
        return _may_compare(compared, ranges[compared.name])
    return np.ones(count, np.bool_)


def _may_be_nan(ranges: ColumnRanges) -> Any:
    known = ranges.may_be_nan
    return np.ones(len(ranges.low), np.bool_) if known is None else known


def _may_compare(compared: Comparison, ranges: ColumnRanges) -> Any:
    """Whether a non-null value within the bounds may satisfy the comparison."""
    try:
        within = _within(compared, ranges.low, ranges.high)
    except (pa.ArrowException, TypeError):  # types that Arrow does not compare
        return ranges.has_values
    possible = (within | ~ranges.is_bounded) & ranges.has_values
    return possible | (ranges.may_be_null if _finds_nulls(compared) else False)


def _finds_nulls(compared: Comparison) -> bool:
    return compared.operator == "in" and compared.values.null_count > 0


def _within(compared: Comparison, low: pa.Array, high: pa.Array) -> Any:
    found = np.zeros(len(low), np.bool_)
    for value in compared.values:
        if compared.operator == "in" and value.as_py() != value.as_py():
            return np.ones(len(low), np.bool_)  # matches NaN, which bounds may omit
        if value.is_valid:
            found |= _one_within(compared.operator, value, low, high)
    return found


def _one_within(operator: str, value: pa.Scalar, low: pa.Array, high: pa.Array) -> Any:
    match operator:
        case "<":
            tested = pc.less(low, value)
        case "<=":
            tested = pc.less_equal(low, value)
        case ">":
            tested = pc.greater(high, value)
        case ">=":
            tested = pc.greater_equal(high, value)
        case "==" | "in":
            tested = pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value))
        case _:
            return np.ones(len(low), np.bool_)  # an unequal value may lie between the bounds
    return tested.fill_null(False).to_numpy(zero_copy_only=False)


def possible_partitions(
    state: TableState, partitions: Sequence[str], request: SkippingRequest
) -> list[bool]:
    """For each partition, whether a row of it may match.  Reads only the metadata table.

    An entry covers the files of the newest slices, so it is used for the newest snapshot alone, and
    only where merges take each value from one of the files.
    """
    every = [True] * len(partitions)
    metadata = state.metadata
    if metadata is None or not request.is_newest or not partitions:
        return every
    if not state.rules.takes_stored_values:
        return every
    columns = request.stored
    if not columns or PARTITION_STATS.path not in metadata.partitions_listed:
        return every
    try:
        ranges = read_partition_ranges(metadata, partitions, columns)
    except (CorruptFileError, FileMissingError, UnsupportedTableError) as broken:
        _LOG.warning("cannot skip partitions of %s by their statistics: %s", state.fs.url, broken)
        return every
    found: list[bool] = can_pass(request.where.tree, ranges, len(partitions)).tolist()
    return found
