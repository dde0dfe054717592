"""Conditional merge: rows of a source are compared with the stored records of their keys, and
clauses decide what is written.

```
source rows -> keys, index lookup -> one row per key, by file group
  matched       pairs of source and stored row: the first update or delete clause that applies
  not matched   the first insert clause that applies
stored rows that no source row matches: the first clause for these that applies
-> rows and deletes of one upsert
```

Each task reads the file slices of some file groups, one after another; none where the clauses use
columns of the source and the partition path only, and the index has found records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.keys import KeyTable
from pyhudi.arrays import taken
from pyhudi.errors import UserError
from pyhudi.formats.schema_conform import conform
from pyhudi.index.key_join import dealt
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.predicate import Predicate
from pyhudi.read.scan_plan import ScanRequest, plan_scan
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import IS_DELETED, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice
from pyhudi.write.input.batch import (
    PART_ROWS,
    BatchChunk,
    KeyPlan,
    in_bounded_batches,
    stage_rows,
    take_rows,
)
from pyhudi.write.merge_clauses import (
    EXISTS,
    SOURCE,
    TARGET,
    ClauseKind,
    CompiledClause,
    ConditionalMerge,
    Pair,
    compiled,
    compiled_on,
    rest_filter,
    source_schema,
    stored_columns,
)
from pyhudi.write.placement.assignment import Route
from pyhudi.write.placement.routing import Router
from pyhudi.write.placement.tagging import NEW, BucketTags
from pyhudi.write.updated_rows import projected
from pyhudi.write.write_context import WriteContext


@dataclass(frozen=True, slots=True)
class _MatchPlan:
    """Common input of the tasks of a merge.  on: what pairs of the same key meet if they match.
    rows: how to key and stage the rows to write.  has_rest: whether clauses apply to stored rows
    that no source row matches; rest: what such rows meet, if known.  is_found: whether the source
    rows of a file group have records there, as far as its base file goes; in_logs: and its logs."""

    fs: FileSystem
    spec: SliceSpec
    clauses: tuple[CompiledClause, ...]
    source: pa.Schema
    router: Router
    rows: KeyPlan
    staging: Staging
    has_rest: bool
    on: pc.Expression | None
    rest: Predicate | None
    is_found: bool
    in_logs: bool

    def needs_stored(self, slice_: FileSlice, values: Mapping[str, pa.Scalar]) -> bool:
        """Whether the records of a slice must be read.  values: of columns that need not be."""
        is_known = self.is_found and (self.in_logs or not slice_.logs)
        return self.has_rest or not is_known or not values.keys() >= set(self.spec.columns[1:])


@dataclass(frozen=True, slots=True)
class MatchTask:
    """File groups of one task: the number of each (None: no source row is there), its slice if it
    has one, and the values of its partition columns."""

    plan: _MatchPlan
    slices: tuple[tuple[int | None, FileSlice | None, Mapping[str, pa.Scalar]], ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows to write, and the staged numbers (part << 32 | row) of source rows that are in no
    stored record of the file groups searched."""

    chunks: tuple[BatchChunk, ...]
    absent: Staged | None


@dataclass(frozen=True, slots=True)
class InsertTask:
    """The source rows of one bucket, of which those without any stored record are inserted."""

    plan: _MatchPlan
    tags: Staged
    absent: tuple[Staged, ...]


def rows_to_write(
    context: WriteContext,
    merge: ConditionalMerge,
    parts: tuple[BatchChunk, ...],
    buckets: Sequence[BucketTags],
    plan: KeyPlan,
) -> tuple[BatchChunk, ...]:
    """The staged rows and deletes of the upsert that the merge comes to.

    parts, buckets: the source rows, keyed and looked up.  plan: how to key the rows to write.
    """
    table = context.schema
    fills = context.options.null_for_missing
    config = context.state.config
    source = source_schema(merge.source.schema, table, config, fills_missing=fills)
    clauses = compiled(merge.clauses, source, table, config)
    deletes = any(clause.kind.deletes for clause in clauses)
    has_rest = any(clause.kind.pair is Pair.NOT_MATCHED_BY_SOURCE for clause in clauses)
    if IS_DELETED not in table.names and deletes:
        plan = replace(plan, schema=table.append(pa.field(IS_DELETED, pa.bool_())))
    groups = list(dict.fromkeys(home for bucket in buckets for home in bucket.homes))
    on = compiled_on(merge.on, source, table)
    by_event_time = context.state.rules.is_event_time
    match_plan = _MatchPlan(
        context.state.fs,
        context.slice_spec(stored_columns(clauses, source, table, on)),
        clauses,
        source,
        _router(parts, buckets, groups),
        plan,
        context.staging,
        has_rest,
        on,
        rest_filter(merge.clauses, table),
        context.index.finds_records,
        # Logs delete keys that other indexes find; with ordering values, what they delete is open.
        context.index.queries_records and context.state.rules.picks and not by_event_time,
    )
    engine = context.engine
    found = engine.run(match_rows, _match_tasks(context, match_plan, groups), label="match")
    chunks = [chunk for matched in found for chunk in matched.chunks]
    if any(clause.kind is ClauseKind.INSERT for clause in clauses):
        absent = tuple(matched.absent for matched in found if matched.absent is not None)
        tasks = [InsertTask(match_plan, bucket.tags, absent) for bucket in buckets]
        chunks += [c for some in engine.run(new_rows, tasks, label="insert") for c in some]
    return tuple(chunks)


def _router(
    parts: tuple[BatchChunk, ...], buckets: Sequence[BucketTags], groups: Sequence[FileGroupId]
) -> Router:
    """Source rows by the number of their file group; new rows have none."""
    numbers = {group: number for number, group in enumerate(groups)}
    routes = [
        Route(tuple(numbers[home] for home in bucket.homes), bucket.update_counts, ())
        for bucket in buckets
    ]
    return Router.of(parts, buckets, routes, [None] * len(buckets))


def _match_tasks(
    context: WriteContext, plan: _MatchPlan, groups: Sequence[FileGroupId]
) -> list[MatchTask]:
    state = context.state
    known = sorted({group.partition for group in groups})
    newest = {found.group: found for found in state.view(partitions=known).latest_slices()}
    schema = plan.spec.table
    rest = {found.group: found for found in _rest_slices(state, plan)}
    newest |= rest
    numbers: dict[FileGroupId, int | None] = dict.fromkeys(rest)
    numbers |= {group: number for number, group in enumerate(groups)}
    items = [
        (number, newest.get(group), partition_values(state.config, schema, group.partition))
        for group, number in numbers.items()
    ]
    stored = [item for item in items if item[1] is not None]
    hands = dealt([item[1] for item in stored if item[1] is not None], context.engine.parallelism)
    tasks = [MatchTask(plan, tuple(stored[at] for at, _ in hand)) for hand in hands]
    bare = tuple(item for item in items if item[1] is None)  # buckets without a file
    return [*tasks, MatchTask(plan, bare)] if bare else tasks


def _rest_slices(state: TableState, plan: _MatchPlan) -> list[FileSlice]:
    """The slices that may have records for clauses without a source row."""
    if not plan.has_rest:
        return []
    return [task.slice for task in plan_scan(state, ScanRequest((RECORD_KEY,), plan.rest)).tasks]


def match_rows(task: MatchTask) -> Matched:
    """Apply the clauses for matched rows to some file groups; runs on workers.  Memory: a file
    slice."""
    plan = task.plan
    absent: list[npt.NDArray[np.int64]] = []

    def written() -> Iterator[pa.RecordBatch]:
        for number, slice_, values in task.slices:
            if number is None:
                assert slice_ is not None  # it is listed for its stored rows
                spec = replace(plan.spec, where=plan.rest)
                rest = _user(read_slice(plan.fs, slice_, spec=spec, partition_values=values), plan)
                yield from applied(plan, _structs({TARGET: rest}), Pair.NOT_MATCHED_BY_SOURCE)
                continue
            source = plan.router.rows_of(number).rows
            numbers = plan.router.numbers_of(number)
            if slice_ is None:
                absent.append(numbers)
                continue
            if plan.needs_stored(slice_, values):
                keys = None if plan.has_rest else source.column(RECORD_KEY)
                stored = _stored(plan, slice_, values, keys)
            else:
                stored = _without_files(plan, source, values)
            at = np.asarray(KeyTable(source.column(RECORD_KEY)).find(stored.column(RECORD_KEY)))
            hit = np.flatnonzero(at >= 0)
            missing = np.ones(source.num_rows, np.bool_)
            missing[at[hit]] = False
            absent.append(numbers[missing])
            given = taken(conform(source, plan.source), at[hit])
            user = _user(stored, plan)
            pairs = _structs({SOURCE: given, TARGET: taken(user, hit)})
            pairs, unmet = _parted(pairs, plan.on)
            yield from applied(plan, pairs, Pair.MATCHED)
            for _, some in dealt_rows(plan.clauses, unmet.select([SOURCE]), Pair.NOT_MATCHED):
                raise _refused(plan, some, EXISTS)
            if plan.has_rest:
                rest = _structs({TARGET: taken(user, np.flatnonzero(at < 0))})
                yield from applied(plan, rest, Pair.NOT_MATCHED_BY_SOURCE)
                yield from applied(plan, unmet.select([TARGET]), Pair.NOT_MATCHED_BY_SOURCE)

    chunks = _staged(plan, written())
    found = np.concatenate(absent) if absent else np.zeros(0, np.int64)
    numbers = plan.staging.put("absent", pa.table({"number": found})) if len(found) else None
    return Matched(chunks, numbers)


def _stored(
    plan: _MatchPlan,
    slice_: FileSlice,
    values: Mapping[str, pa.Scalar],
    keys: pa.ChunkedArray | None,
) -> pa.Table:
    """The stored records of the row groups that may have these keys; None: all."""
    spec = plan.spec if keys is None else replace(plan.spec, keys=keys.combine_chunks())
    return read_slice(plan.fs, slice_, spec=spec, partition_values=values)


def _without_files(plan: _MatchPlan, source: pa.Table, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """The records of source rows, whose other columns have these values."""
    columns = {name: pa.repeat(values[name], source.num_rows) for name in plan.spec.columns[1:]}
    return pa.table({RECORD_KEY: source.column(RECORD_KEY), **columns})


def _user(stored: pa.Table, plan: _MatchPlan) -> pa.Table:
    """The columns that the clauses use; the keys if there are none, as they count the rows."""
    return stored.select(plan.spec.columns[1:] or [RECORD_KEY])


def new_rows(task: InsertTask) -> tuple[BatchChunk, ...]:
    """Apply the insert clauses to the rows of a bucket that no file group has; runs on workers."""
    plan = task.plan
    tags = task.tags.load()
    number = tags.column("part").to_numpy().astype(np.int64) << 32 | tags.column("row").to_numpy()
    found = tags.column("home").to_numpy() != NEW
    rows, at = np.unique(number, return_inverse=True)
    places = np.bincount(at, weights=found, minlength=len(rows)).astype(np.int64)
    for staged in task.absent:
        ids = staged.load().column("number").to_numpy()
        np.subtract.at(places, np.searchsorted(rows, ids[np.isin(ids, rows)]), 1)
    return _staged(plan, _inserted(plan, rows[places == 0]))


def _inserted(plan: _MatchPlan, numbers: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(numbers), PART_ROWS):
        some = numbers[start : start + PART_ROWS]
        part, row = (some >> 32).astype(np.int32), (some & 0xFFFFFFFF).astype(np.int32)
        source = conform(take_rows(plan.router.parts, part, row), plan.source)
        yield from applied(plan, _structs({SOURCE: source}), Pair.NOT_MATCHED)


def _structs(sides: Mapping[str, pa.Table]) -> pa.Table:
    return pa.table({name: rows.to_struct_array() for name, rows in sides.items()})


def applied(plan: _MatchPlan, rows: pa.Table, pair: Pair) -> Iterator[pa.RecordBatch]:
    """What the clauses write for these rows.  Raises UserError for a row of a REFUSE clause."""
    schema = plan.rows.schema
    for clause, some in dealt_rows(plan.clauses, rows, pair):
        if clause.kind is ClauseKind.REFUSE:
            raise _refused(plan, some, str(clause.reason))
        values = {name: clause.values[name] for name in schema.names}
        yield from projected(some, values).cast(schema).to_batches()


def dealt_rows(
    clauses: Sequence[CompiledClause], rows: pa.Table, pair: Pair
) -> Iterator[tuple[CompiledClause, pa.Table]]:
    """Each clause with the rows for which it is the first that applies, if there are any."""
    for clause in clauses:
        if clause.kind.pair is pair:
            some, rows = _parted(rows, clause.where)
            if some.num_rows:
                yield clause, some


def _parted(rows: pa.Table, where: pc.Expression | None) -> tuple[pa.Table, pa.Table]:
    """(the rows for which a condition is true, the other rows)."""
    if where is None or not rows.num_rows:
        return rows, rows.slice(0, 0)
    met = pc.fill_null(projected(rows, {"met": where}).column("met"), False)
    if pc.all(met).as_py():
        return rows, rows.slice(0, 0)
    return rows.filter(met), rows.filter(pc.invert(met))


def _refused(plan: _MatchPlan, rows: pa.Table, reason: str) -> UserError:
    shown = rows.slice(0, 3).column(SOURCE).combine_chunks().flatten()
    names = [plan.source.names.index(key) for key in plan.rows.rule.key_fields]
    listed = [[shown[at][row].as_py() for at in names] for row in range(len(shown[0]))]
    return UserError(reason, rows=rows.num_rows, keys=repr(listed)[:200])


def _staged(plan: _MatchPlan, batches: Iterator[pa.RecordBatch]) -> tuple[BatchChunk, ...]:
    return tuple(stage_rows(rows, plan.rows, plan.staging) for rows in in_bounded_batches(batches))
