"""Types that describe a write: operation, context, request and plan.

Source: table_format 2.2, 9.9.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.formats.column_history import NextHistory
from pyhudi.index.consistent_hashing import Ring
from pyhudi.index.secondary.changes import IndexShape
from pyhudi.keygen.generators import KeyRule, PythonKeys
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.observe.events import observed
from pyhudi.options import KnownKeys, Options, SchemaMode, WriteOptions
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY, FileGroupId, InstantTime, with_meta
from pyhudi.storage.spill import Staged, Staging
from pyhudi.transaction.conflicts import WriteSet
from pyhudi.write.input.batch import BatchChunk, Rows
from pyhudi.write.input.deduplicate import Duplicates
from pyhudi.write.input.source_checkpoint import SourceAdvance
from pyhudi.write.merge_clauses import ConditionalMerge
from pyhudi.write.overwrite import (
    NOTHING_REPLACED,
    Replaced,
)
from pyhudi.write.placement.assignment import Assignment, Mode
from pyhudi.write.placement.index_lookup import WriteIndex
from pyhudi.write.placement.tagging import BucketTags
from pyhudi.write.schema_changes import SchemaChange


class Operation(Enum):
    """Write operations; the value is the operation type in the commit."""

    INSERT = "INSERT"
    UPSERT = "UPSERT"
    BULK_INSERT = "BULK_INSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"
    ALTER_SCHEMA = "ALTER_SCHEMA"

    @property
    def queries_index(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def replaces(self) -> bool:
        """Whether the operation replaces file groups by a replace commit."""
        return self in (
            Operation.INSERT_OVERWRITE,
            Operation.INSERT_OVERWRITE_TABLE,
            Operation.DELETE_PARTITION,
        )

    @property
    def brings_rows(self) -> bool:
        """Whether the batch has rows with the table's schema."""
        return self not in (
            Operation.DELETE,
            Operation.DELETE_PARTITION,
            Operation.ALTER_SCHEMA,
        )

    @property
    def fills_files(self) -> bool:
        """Whether inserts may be added to existing files."""
        return self is not Operation.BULK_INSERT and not self.replaces


@dataclass
class Stopwatch:
    """Seconds per phase of one write."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            with observed("phase", operation=name):
                yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.monotonic() - began
            self.seconds[name] = round(spent, 4)


@dataclass(frozen=True)
class WriteContext:
    """Table, engine and options of a write.

    schema: the user columns of the table including this batch; avro_schema: the same as Avro
    JSON.
    """

    state: TableState
    engine: Engine
    staging: Staging
    options: WriteOptions
    index: WriteIndex
    schema: pa.Schema
    avro_schema: str
    rule: KeyRule
    skips_unchanged: bool = False  # rows equal to the stored ones are not written
    secondary: tuple[IndexShape, ...] = ()  # secondary indexes to maintain
    advance: SourceAdvance | None = None  # of the source that the rows come from
    partial_schema: str | None = None  # of log blocks with some columns only; None: whole rows
    history: NextHistory | None = None  # of the columns; None if none was renamed or dropped
    watch: Stopwatch = field(default_factory=Stopwatch)

    def slice_spec(self, columns: Sequence[str]) -> SliceSpec:
        """How to read stored records: their keys, then columns."""
        visibility = self.state.view(partitions=[]).visibility
        schema = with_meta(self.schema)
        return SliceSpec(schema, (RECORD_KEY, *columns), self.state.rules, visibility)


@dataclass(frozen=True)
class PlannedWrite:
    """A planned write: the target of every row."""

    operation: Operation
    parts: tuple[BatchChunk, ...]
    buckets: tuple[BucketTags, ...]
    lost: tuple[Staged | None, ...]
    assignment: Assignment
    replaced: Replaced = NOTHING_REPLACED
    order_by: tuple[str, ...] = ()
    skips_unchanged: bool = False
    rings: tuple[Ring, ...] = ()  # of a consistent-hashing bucket index, stored or not
    dropped: int = 0  # source rows of a merge that another row of the same key replaces

    @property
    def matched(self) -> int:
        return sum(sum(s.update_counts) for s in self.buckets)

    @property
    def new(self) -> int:
        return sum(sum(s.insert_counts) for s in self.buckets)

    @property
    def missing(self) -> int:
        return sum(s.missing_count for s in self.buckets)

    @property
    def duplicates(self) -> int:
        return self.dropped + sum(s.duplicate_count for s in self.buckets)

    @property
    def stayed(self) -> int:
        return sum(s.stayed_count for s in self.buckets)

    @property
    def mismatches(self) -> dict[str, int]:
        """Per additional index the rows that it maps to another place than the queried index."""
        counts: dict[str, int] = {}
        for bucket in self.buckets:
            for name, count in bucket.mismatches:
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def is_empty(self) -> bool:
        if self.replaced.slices:
            return False
        return not self.assignment.targets or (self.skips_unchanged and not self._written)

    @property
    def unchanged(self) -> int:
        """Rows that lose to a stored record, or equal it."""
        return sum(len(staged.load()) for staged in self.lost if staged is not None)

    @property
    def _written(self) -> int:
        return self.matched + self.new - self.unchanged


@dataclass(frozen=True)
class WriteRequest:
    """One requested write."""

    operation: Operation
    rows: Rows
    options: Options
    engine: Engine
    dry_run: bool = False
    partitions: tuple[str, ...] = ()  # to delete, or to overwrite statically
    functions: PythonKeys | None = None  # custom functions for keys and paths
    skip_unchanged: bool = False  # rows equal to the stored ones are not written
    publish: bool = True
    schema_mode: SchemaMode | None = None  # None: from the options
    chooses: Callable[[TableState], tuple[str, ...]] | None = None  # partitions, by state
    finds: Callable[[TableState], Rows] | None = None  # rows found in the planned state
    merge: ConditionalMerge | None = None  # the rows are what its clauses write
    advance: SourceAdvance | None = None  # of the source that the rows come from
    changes: tuple[SchemaChange, ...] = ()  # of columns, for ALTER_SCHEMA


def looks_up_known_keys(context: WriteContext, operation: Operation) -> bool:
    """Whether an insert must not duplicate a key."""
    return operation is Operation.INSERT and context.options.known_keys is not KnownKeys.INSERT


def needs_index_lookup(context: WriteContext, operation: Operation) -> bool:
    """Whether the write queries the index."""
    always = context.index.always_queried
    return operation.queries_index or always or looks_up_known_keys(context, operation)


def duplicates_of(
    options: WriteOptions, operation: Operation, rules: MergeRules | None
) -> Duplicates:
    """How rows of the batch with the same key are handled.  Raises UserError."""
    match operation:
        case Operation.DELETE:
            return Duplicates.NEWEST
        case Operation.UPSERT:
            combine = options.combine_before_upsert
        case _:
            combine = options.combine_before_insert or options.known_keys is KnownKeys.DROP
    if not combine:
        if operation is Operation.UPSERT:
            raise UserError(
                "an upsert must combine rows with the same key",
                hint="set hoodie.combine.before.upsert=true",
            )
        return Duplicates.KEEP
    if rules is None:
        return Duplicates.NEWEST
    if rules.folds_batches:
        return Duplicates.FOLD
    by_value = rules.ordering or rules.batch_ordering
    return Duplicates.GREATEST if by_value else Duplicates.NEWEST


def write_set(context: WriteContext, planned: PlannedWrite) -> WriteSet:
    """The set of changes of a write, for conflict detection."""
    targets = planned.assignment.targets
    written = frozenset(target.group for target in targets)
    return WriteSet(
        written | planned.replaced.groups,
        written=frozenset(group.partition for group in written),
        replaced=frozenset(planned.replaced.partitions),
        whole_table=planned.operation is Operation.INSERT_OVERWRITE_TABLE,
        alike=context.index.choice.alike,
        on_top_of=_on_top_of(context, planned),
        logged=_only_logged(context, planned),
        shared=_shared(context, planned),
    )


def _on_top_of(context: WriteContext, planned: PlannedWrite) -> frozenset[InstantTime]:
    """Pending compactions that the write's logs are named after."""
    if not context.state.config.layout.logs_name_slices:
        return frozenset()
    return frozenset(t.compacting for t in planned.assignment.targets if t.compacting)


def _only_logged(context: WriteContext, planned: PlannedWrite) -> frozenset[FileGroupId]:
    """Groups that get logs, where the completion time of a log decides about its slice."""
    if context.state.config.layout.logs_name_slices:
        return frozenset()
    return frozenset(t.group for t in planned.assignment.targets if t.mode is Mode.APPEND)


def _shared(context: WriteContext, planned: PlannedWrite) -> frozenset[FileGroupId]:
    """Groups that other writers may log to as well: none for a bulk insert, and none under rules
    that merge a row with the stored record before it is logged."""
    rules = context.state.rules
    merges_first = not rules.picks and rules.function is None
    is_checked = merges_first or planned.operation is Operation.BULK_INSERT
    if is_checked or not context.options.concurrency.is_non_blocking:
        return frozenset()
    return _only_logged(context, planned)
