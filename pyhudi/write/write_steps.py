"""A write, step by step; one text for every engine.

key -> tag -> (contest) -> assign            `plan_write`: nothing on the table changes
request -> start -> write + index -> publish  `execute`: data and index commit together

Source: docs/architecture.md for the flow; table_format 2.2, 9.9 for the order of the files.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UnsupportedTableError, UserError
from pyhudi.filenames import new_file_id
from pyhudi.index.consistent_hashing import Ring
from pyhudi.keygen.generators import KeyRule
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.options import BulkInsert, KnownKeys, WriteOptions
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.log_inserts import groups_with_log_inserts
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY, with_meta
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.write.input.batch import KeyPlan, Part, Rows
from pyhudi.write.overwrite import (
    NOTHING,
    Replaced,
    TakeOut,
    check_unclaimed,
    check_within,
    partitions_named,
    take_out,
)
from pyhudi.write.placement.assignment import Assignment, AssignRules, assign
from pyhudi.write.placement.delete_conflicts import ContestTask, lost_rows
from pyhudi.write.placement.hashing_metadata import rings_of
from pyhudi.write.placement.index_lookup import Where, WriteIndex, may_have_copies, tag_rows
from pyhudi.write.placement.record_size import record_bytes
from pyhudi.write.placement.sorted_insert import by_range, sort_columns
from pyhudi.write.placement.tagging import Duplicates, Known, ShardTags, TagPlan

_KNOWN = {KnownKeys.DROP: Known.DROP, KnownKeys.FAIL: Known.REFUSE}


class Operation(Enum):
    """Writing verbs; the value is the operation type of the commit."""

    INSERT = "INSERT"
    UPSERT = "UPSERT"
    BULK_INSERT = "BULK_INSERT"
    DELETE = "DELETE"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"

    @property
    def asks_index(self) -> bool:
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def replaces(self) -> bool:
        """Whether file groups leave the table: a replace commit."""
        return self in (
            Operation.INSERT_OVERWRITE,
            Operation.INSERT_OVERWRITE_TABLE,
            Operation.DELETE_PARTITION,
        )

    @property
    def brings_rows(self) -> bool:
        """Whether the batch holds rows of the table's schema."""
        return self not in (Operation.DELETE, Operation.DELETE_PARTITION)

    @property
    def fills_files(self) -> bool:
        """Whether inserts join files that are there."""
        return self is not Operation.BULK_INSERT and not self.replaces


@dataclass
class Stopwatch:
    """Seconds per phase of one write."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            spent = self.seconds.get(name, 0.0) + time.monotonic() - began
            self.seconds[name] = round(spent, 4)


@dataclass(frozen=True)
class Setting:
    """Where and how a write happens.

    schema: the user columns the table has with this batch; avro_schema: the same as Avro JSON.
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
    watch: Stopwatch = field(default_factory=Stopwatch)


@dataclass(frozen=True)
class PlannedWrite:
    """A write ready to run: what goes where."""

    operation: Operation
    parts: tuple[Part, ...]
    shards: tuple[ShardTags, ...]
    lost: tuple[Staged | None, ...]
    assignment: Assignment
    replaced: Replaced = NOTHING
    order_by: tuple[str, ...] = ()
    skips_unchanged: bool = False
    rings: tuple[Ring, ...] = ()  # of a bucket index that hashes consistently, kept or not

    @property
    def matched(self) -> int:
        return sum(sum(s.update_counts) for s in self.shards)

    @property
    def new(self) -> int:
        return sum(sum(s.insert_counts) for s in self.shards)

    @property
    def missing(self) -> int:
        return sum(s.missing_count for s in self.shards)

    @property
    def duplicates(self) -> int:
        return sum(s.duplicate_count for s in self.shards)

    @property
    def mismatches(self) -> dict[str, int]:
        """Rows that each index beside the one that was asked has elsewhere."""
        counts: dict[str, int] = {}
        for shard in self.shards:
            for name, count in shard.mismatches:
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def is_empty(self) -> bool:
        if self.replaced.slices:
            return False
        return not self.assignment.targets or (self.skips_unchanged and not self._written)

    @property
    def unchanged(self) -> int:
        """Rows that lose to what is stored, or equal it."""
        return sum(len(staged.load()) for staged in self.lost if staged is not None)

    @property
    def _written(self) -> int:
        return self.matched + self.new - self.unchanged


def plan_write(
    setting: Setting, rows: Rows, operation: Operation, *, partitions: Sequence[str] = ()
) -> PlannedWrite:
    """Key, tag and assign; the table is only read.

    partitions: those to delete, or to overwrite (none: those of the batch).  Raises UserError,
    SchemaError, WriteConflictError.
    """
    rules = setting.state.rules
    _check_rules(rules, setting)
    with setting.watch.phase("key"):
        mine = rules if operation.brings_rows else None
        plan = _key_plan(setting, mine)
        parts = tuple(rows.stage(plan, setting.staging, setting.engine))
        for path in _paths(parts):
            setting.state.fs.sub(path)  # raises UserError for a name that the store cannot have
    bulk = setting.options.bulk_insert if operation is Operation.BULK_INSERT else BulkInsert()
    order_by = sort_columns(bulk, setting.schema)
    chosen, unknown = _emptied(setting, parts, operation, partitions)
    with setting.watch.phase("tag"):
        rings = _rings(setting, parts, chosen)
        shards = _tag(setting, parts, operation, rings)
        parts = _with_folded(parts, shards)
        view = setting.state.view(partitions=_reached(shards, chosen))
        lost = _contest(setting, parts, shards, view, rules)
    with setting.watch.phase("assign"):
        assigned = assign(
            shards,
            view,
            AssignRules(
                setting.options.sizing,
                setting.state.config.is_merge_on_read,
                record_bytes(setting.state, setting.options, parts),
                small_files=operation.fills_files,
                logs_inserts=_logs_inserts(setting, operation),
                fills_files=bulk.fills_files,
                into_clustered=setting.options.into_clustered,
            ),
            new_file_id=new_file_id,
        )
        if bulk.sorts_partitions and not setting.index.always_asked:
            shards, assigned = by_range(
                parts, shards, assigned, order_by, staging=setting.staging, engine=setting.engine
            )
    replaced = NOTHING
    if operation.replaces:
        with setting.watch.phase("replace"):
            replaced = _replaced(setting, operation, view, chosen)
            replaced = replace(replaced, unknown=unknown)
    return PlannedWrite(
        operation,
        parts,
        tuple(shards),
        tuple(lost),
        assigned,
        replaced,
        order_by,
        setting.skips_unchanged,
        tuple(rings.values()),
    )


def _key_plan(setting: Setting, rules: MergeRules | None) -> KeyPlan:
    has_index_files = setting.index.records is not None
    return KeyPlan(setting.schema, setting.rule, setting.index.hash, rules, has_index_files)


def _check_rules(rules: MergeRules, setting: Setting) -> None:
    """Raise UnsupportedTableError for rules that cannot be followed."""
    rules.check()
    if not rules.picks and setting.index.choice.moves:
        raise UnsupportedTableError(
            "a record that merges with the stored one cannot move to another partition",
            hint="set the index's update.partition.path to false",
        )


def _emptied(
    setting: Setting, parts: tuple[Part, ...], operation: Operation, partitions: Sequence[str]
) -> tuple[Sequence[str], tuple[str, ...]]:
    """(partitions that a replace commit empties, names that no partition has)."""
    if not operation.replaces:
        return (), ()
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return setting.state.listing.partitions(), ()
    if operation is Operation.DELETE_PARTITION:
        return partitions_named(partitions, setting.state.listing.partitions())
    if partitions:
        check_within(parts, partitions)
        return sorted(set(partitions)), ()
    return sorted(_paths(parts)), ()


def _reached(shards: Iterable[ShardTags], emptied: Sequence[str]) -> list[str]:
    """Partitions that rows are in or go to, and those taken out: the view need hold no other."""
    found = set(emptied)
    for shard in shards:
        found.update(shard.paths, (home.partition for home in shard.homes))
    return sorted(found)


def _paths(parts: Iterable[Part]) -> set[str]:
    return {path for part in parts for path, _ in part.partition_counts}


def _rings(setting: Setting, parts: tuple[Part, ...], emptied: Sequence[str]) -> dict[str, Ring]:
    """The rings the write goes by, of a bucket index that hashes consistently."""
    rule = setting.index.choice.bucket
    if rule is None or not rule.is_consistent:
        return {}
    paths = _paths(parts)
    view = setting.state.view(partitions=sorted({*paths, *emptied}))
    return rings_of(setting.state, view, rule, paths, emptied=emptied)


def _replaced(
    setting: Setting, operation: Operation, view: TableView, chosen: Sequence[str]
) -> Replaced:
    """What leaves the table with this write."""
    slices = [s for s in view.latest_slices() if s.partition in set(chosen)]
    check_unclaimed(
        view,
        slices,
        clusterings=not setting.options.drops_clusterings,
        compactions=operation is Operation.DELETE_PARTITION,
    )
    rules = setting.state.rules
    spec = SliceSpec(with_meta(setting.schema), (RECORD_KEY,), rules, view.visibility)
    records = setting.index.records
    shards = records.shards if records else ()
    plan = TakeOut(setting.state.fs, spec, shards, setting.index.hash, setting.staging)
    return take_out(plan, slices, chosen, setting.engine)


def _tag(
    setting: Setting, parts: tuple[Part, ...], operation: Operation, rings: Mapping[str, Ring]
) -> list[ShardTags]:
    if not sum(part.row_count for part in parts):
        return []
    rules = setting.state.rules if operation.brings_rows else None
    index, is_delete = setting.index, operation is Operation.DELETE
    looked_up = _looks_known_keys_up(setting, operation)
    plan = TagPlan(
        setting.state.fs,
        parts,
        setting.staging,
        duplicates_of(setting.options, operation, rules),
        rules,
        deletes_all=is_delete,
        moves=index.choice.moves,
        asked=asks_index(setting, operation),
        is_global=index.choice.is_global,
        known=_KNOWN[setting.options.known_keys] if looked_up else Known.UPDATE,
        skips_unchanged=setting.skips_unchanged,
        copies=is_delete and may_have_copies(index, setting.state, parts),
    )
    return tag_rows(index, plan, setting.engine, lambda: _where(setting, operation, rings))


def _looks_known_keys_up(setting: Setting, operation: Operation) -> bool:
    """Whether an insert may not double a key."""
    return operation is Operation.INSERT and setting.options.known_keys is not KnownKeys.INSERT


def asks_index(setting: Setting, operation: Operation) -> bool:
    """Whether the index is asked."""
    always = setting.index.always_asked
    return operation.asks_index or always or _looks_known_keys_up(setting, operation)


def _logs_inserts(setting: Setting, operation: Operation) -> bool:
    """Whether new keys may go to logs.  A plain insert's may not: one that is there would merge."""
    merges = setting.state.config.is_merge_on_read
    return merges and setting.index.logs_inserts and asks_index(setting, operation)


def _where(setting: Setting, operation: Operation, rings: Mapping[str, Ring]) -> Where:
    """What an index looks through; nothing of what a replace commit takes out."""
    view = setting.state.view()
    rules = setting.state.rules
    spec = SliceSpec(setting.state.schema(), (RECORD_KEY,), rules, view.visibility)
    slices = [] if operation.replaces else view.latest_slices()
    inserts = groups_with_log_inserts(setting.state, slices)
    return Where(slices, spec, rings, inserts)


def _with_folded(parts: tuple[Part, ...], shards: Sequence[ShardTags]) -> tuple[Part, ...]:
    """The parts, and behind them the rows each shard merged."""
    if all(shard.folded is None for shard in shards):
        return parts
    folded = [
        replace(parts[0], staged=shard.folded or parts[0].staged, row_count=0, partition_counts=())
        for shard in shards
    ]
    return (*parts, *folded)


def duplicates_of(
    options: WriteOptions, operation: Operation, rules: MergeRules | None
) -> Duplicates:
    """What happens to rows of one key in the batch.  Raises UserError."""
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
                "an upsert has to combine rows of one key",
                hint="leave hoodie.combine.before.upsert at true",
            )
        return Duplicates.KEEP
    if rules is None:
        return Duplicates.NEWEST
    if rules.folds_batches:
        return Duplicates.FOLD
    by_value = rules.ordering or rules.batch_ordering
    return Duplicates.GREATEST if by_value else Duplicates.NEWEST


def _contest(
    setting: Setting,
    parts: tuple[Part, ...],
    shards: Sequence[ShardTags],
    view: TableView,
    rules: MergeRules,
) -> list[Staged | None]:
    lost: list[Staged | None] = [None] * len(shards)
    slices = {s.group: s for s in view.latest_slices()} if any(s.contested for s in shards) else {}
    contested: dict[int, tuple[tuple[int, FileSlice], ...]] = {}
    for i, shard in enumerate(shards):  # a bucket that is still to be made holds no record
        there = [(home, slices.get(shard.homes[home])) for home in shard.contested]
        contested[i] = tuple((home, s) for home, s in there if s is not None)
    contested = {i: homes for i, homes in contested.items() if homes}
    if not contested:
        return lost
    compared = setting.schema.names if setting.skips_unchanged else rules.ordering
    columns = tuple(dict.fromkeys((RECORD_KEY, *compared)))
    spec = SliceSpec(with_meta(setting.schema), columns, rules, view.visibility)
    tasks = [
        ContestTask(
            setting.state.fs,
            spec,
            parts,
            shards[i],
            homes,
            setting.staging,
            setting.skips_unchanged,
        )
        for i, homes in contested.items()
    ]
    for i, result in zip(
        contested, setting.engine.run(lost_rows, tasks, label="contest"), strict=True
    ):
        lost[i] = result
    return lost
