"""Comparison of two snapshots, row by row.

Reads only file groups that commits between the two wrote or replaced, except compactions.  A
separate task compares each group with its earlier state, so that only rows that differ are
returned.  A row that moved from one group to another (clustering, insert_overwrite) is paired
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.read.changes.before_after import (
    DELETE,
    INSERT,
    KEY,
    PARTITION,
    UPDATE,
    change_schema,
    changed,
)
from pyhudi.read.changes.incremental import commits_between
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.filters import as_predicate
from pyhudi.read.positions import as_position
from pyhudi.read.predicate import Predicate
from pyhudi.read.scan_plan import ScanRequest, columns_of
from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.snapshot_availability import check_not_expired
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import META_COLUMNS, FileGroupId, Position
from pyhudi.table.file_group_view import TableView

_NUMBER: Final = "\0number"
WITHOUT_CHANGES: Final = frozenset({"COMPACT", "LOG_COMPACT"})
"""Operations that rewrite file groups without changing their rows."""


def diff_rows(
    state: TableState,
    a: PointInTime,
    b: PointInTime | None = None,
    *,
    columns: tuple[str, ...] | None,
    where: Filter | None,
    engine: Engine,
) -> pa.Table:
    """Rows that differ between the snapshots at `a` and `b` (None: now).

    Returns [record_key, partition_path, change, before, after], see `before_after.changed`;
    always from `a` to `b`, also where `a` is later.  Raises SnapshotExpiredError, UserError.
    """
    first = as_position(state, a)
    second = None if b is None else as_position(state, b)
    schema = state.schema()
    names = columns_of(schema, ScanRequest(columns=columns, with_meta=False))
    if any(name in META_COLUMNS for name in names):
        raise UserError("meta columns are not compared", columns=", ".join(names))
    predicate = as_predicate(where, schema)
    read = names if predicate is None else tuple(dict.fromkeys((*names, *predicate.columns)))
    spec = diff_spec(state, schema, read)
    groups = _groups_between(state, first, second)
    old, new = tasks_at(state, first, groups, spec), tasks_at(state, second, groups, spec)
    tasks = [
        DiffTask(old.get(group), new.get(group), read) for group in sorted(old.keys() | new.keys())
    ]
    found = engine.run(diff_task, tasks, label="diff")
    values = pa.schema([schema.field(name) for name in read])
    changes = _paired(pa.concat_tables([change_schema(values).empty_table(), *found]), read)
    return changes if predicate is None else _selected(changes, predicate, names)


@dataclass(frozen=True, slots=True)
class DiffTask:
    """One file group before and after; None where it did not exist."""

    before: ReadTask | None
    after: ReadTask | None
    values: tuple[str, ...]


def diff_task(task: DiffTask) -> pa.Table:
    """The rows of one group that differ."""
    sample = task.before or task.after
    assert sample is not None
    empty = _keyed(sample, sample.spec.schema.empty_table(), task.values)
    before, after = (
        empty if side is None else _keyed(side, read_task(side), task.values)
        for side in (task.before, task.after)
    )
    return changed(before, after, task.values)


def _keyed(task: ReadTask, rows: pa.Table, values: tuple[str, ...]) -> pa.Table:
    """Rows with the record key and the partition path in front."""
    key = rows.column(task.spec.rules.key_column).cast(pa.string())
    partition = pa.chunked_array([pa.repeat(task.slice.partition, rows.num_rows)])
    return pa.table(
        {KEY: key, PARTITION: partition, **{name: rows.column(name) for name in values}}
    )


def _paired(found: pa.Table, values: tuple[str, ...]) -> pa.Table:
    """Pair deletes of one group with inserts of another."""
    kinds = found.column("change")
    deleted, inserted = pc.equal(kinds, DELETE), pc.equal(kinds, INSERT)
    if not pc.any(deleted).as_py() or not pc.any(inserted).as_py():
        return found
    crossing = _changed(found.filter(pc.not_equal(kinds, UPDATE)), values)
    return pa.concat_tables([found.filter(pc.equal(kinds, UPDATE)), crossing])


def _changed(found: pa.Table, values: tuple[str, ...]) -> pa.Table:
    """Changes as changes of these values, with deletes and inserts of one key paired."""
    return changed(_rows(found, "before"), _rows(found, "after"), values)


def _selected(found: pa.Table, where: Predicate, values: tuple[str, ...]) -> pa.Table:
    """The changes of these values whose row before or after passes a filter."""
    numbers = {side: pc.indices_nonzero(found[side].is_valid()) for side in ("before", "after")}
    sides = [_rows(found, side).append_column(_NUMBER, numbers[side]) for side in numbers]
    passing = [where.passing(rows).column(_NUMBER) for rows in sides]
    return _changed(found.take(pa.array(np.union1d(*passing))), values)


def _rows(found: pa.Table, side: str) -> pa.Table:
    """Keys and values of one side of changes, of those that have it."""
    found = found.filter(found.column(side).is_valid())
    structs = found.column(side)
    fields = list(structs.type)
    columns = {f.name: pc.struct_field(structs, [n]) for n, f in enumerate(fields)}
    keys = {KEY: found.column("record_key"), PARTITION: found.column("partition_path")}
    return pa.table({**keys, **columns})


def diff_spec(state: TableState, schema: pa.Schema, names: Sequence[str]) -> SliceSpec:
    rules = state.rules
    return SliceSpec(
        table=schema,
        columns=tuple(dict.fromkeys((*names, rules.key_column))),
        rules=rules,
        visibility=state.view(partitions=[]).visibility,
    )


def _groups_between(
    state: TableState, first: Position, second: Position | None
) -> frozenset[FileGroupId] | None:
    """File groups whose rows may differ between the two positions; None: any."""
    since, until = (first, second) if second is None or first <= second else (second, first)
    moment, limit = state, None
    if until is not None:
        moment, limit = state.until(until)
    commits = commits_between(moment, since, limit)
    if commits is None:
        return None
    return frozenset(
        group
        for _, commit in commits
        if not (commit.compacted or commit.operation in WITHOUT_CHANGES)
        for group in commit.groups
    )


def tasks_at(
    state: TableState,
    position: Position | None,
    groups: frozenset[FileGroupId] | None,
    spec: SliceSpec,
) -> dict[FileGroupId, ReadTask]:
    """The read tasks of a reader at a position (None: now) for these groups (None: all)."""
    moment, limit = (state, None) if position is None else state.until(position)
    partitions = None if groups is None else sorted({g.partition for g in groups})
    view: TableView = moment.view(partitions=partitions, limit=limit)
    if position is not None:
        check_not_expired(state, moment, view, limit, groups=groups)
    names = spec.visibility.columns  # of the columns of `spec`, not of the moment's
    seen = replace(spec, visibility=replace(view.visibility, columns=names))
    return {
        file_slice.group: ReadTask(
            moment.fs,
            file_slice,
            seen,
            partition_values(moment.config, spec.table, file_slice.partition),
        )
        for file_slice in view.latest_slices()
        if groups is None or file_slice.group in groups
    }
