"""Planning a scan: which slices to read, with which columns and filter.

Pure but for listings: no data file is opened.  A plan holds picklable tasks; `read_task` runs one
anywhere.  Partitions that cannot match are not listed, file groups that cannot hold the commits
asked for are not read.  Source: table_format 7.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError
from pyhudi.formats.parquet import footer
from pyhudi.read.expiry import check_not_expired
from pyhudi.read.partitions import matching, partition_values
from pyhudi.read.rules import merge_rules
from pyhudi.read.slices import SliceSpec, read_slice, readable_row_groups
from pyhudi.read.state import TableState
from pyhudi.read.times import PointInTime, as_bound, as_instant
from pyhudi.records import COMMIT_TIME, META_COLUMNS, FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.view import FileSlice, Visibility


class ScanMode(Enum):
    """SNAPSHOT merges logs; READ_OPTIMIZED reads the newest base files alone."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Commits after `since` up to `until` (None: the newest), compared as text."""

    since: PointInTime
    until: PointInTime | None = None


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a scan was asked for.  as_of and changes exclude each other."""

    columns: tuple[str, ...] | None = None
    where: pc.Expression | None = None
    as_of: PointInTime | None = None
    mode: ScanMode = ScanMode.SNAPSHOT
    with_meta: bool = True
    changes: ChangeRange | None = None


@dataclass(frozen=True, slots=True)
class ReadTask:
    """One slice to read, whole in itself: pickles if its file system does."""

    fs: FileSystem
    slice: FileSlice
    spec: SliceSpec
    partition_values: Mapping[str, pa.Scalar]
    row_groups: tuple[int, ...] | None = None

    def pieces(self) -> Iterator[ReadTask]:
        """Tasks that together read the same rows in the same order: one a row group, where there
        are no logs to merge.  Reads a footer."""
        if self.slice.logs or self.row_groups is not None:
            yield self
            return
        found = readable_row_groups(
            self.fs, self.slice, spec=self.spec, partition_values=self.partition_values
        )
        for number in found:
            yield replace(self, row_groups=(number,))


def read_task(task: ReadTask) -> pa.Table:
    """The rows of one task, with the schema of the plan."""
    return read_slice(
        task.fs,
        task.slice,
        spec=task.spec,
        partition_values=task.partition_values,
        row_groups=task.row_groups,
    )


def count_task(task: ReadTask) -> int:
    """How many rows a task has."""
    base = task.slice.base
    if task.spec.where is None and not task.slice.logs:
        return 0 if base is None else footer(task.fs, base.path).rows
    cheap = task.spec.filter_columns or tuple(task.spec.table.names)
    narrow = replace(task.spec, columns=cheap[:1])
    rows: int = read_task(replace(task, spec=narrow)).num_rows
    return rows


@dataclass(frozen=True)
class ScanPlan:
    """What a scan will read."""

    schema: pa.Schema
    tasks: tuple[ReadTask, ...]
    partition_count: int
    partitions_read: int
    groups_skipped: int
    limit: InstantTime | None
    where: pc.Expression | None = None
    by_metadata: bool = False

    def __str__(self) -> str:
        slices = [task.slice for task in self.tasks]
        merged = sum(1 for s in slices if s.logs)
        size_bytes = sum(s.size_bytes for s in slices)
        lines = [
            f"columns     {', '.join(self.schema.names)}",
            f"filter      {self.where if self.where is not None else 'none'}",
            f"as of       {self.limit or 'now'}",
            f"partitions  {self.partitions_read} of {self.partition_count}",
            f"listed by   {'the metadata table' if self.by_metadata else 'the store'}",
            f"slices      {len(slices)}, {merged} of them with logs"
            f" ({self.groups_skipped} file groups skipped)",
            f"files       {sum(len(s.files) for s in slices)}, {size_bytes} bytes",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def plan_scan(state: TableState, request: ScanRequest) -> ScanPlan:
    """Plan a scan of the table as `state` found it.

    Raises UserError for columns or filters that do not fit the table, SnapshotExpiredError.
    """
    moment, limit, wheres = _bounds(state, request)
    schema = moment.schema(limit=limit if request.as_of is not None else None)
    columns = columns_of(schema, request)
    where = _conjunction(wheres)
    filter_columns = () if where is None else named_columns(where, schema)
    partitions, values = _partitions(moment, schema, where)
    view = moment.view(partitions=list(values), limit=limit)
    written = _groups_written(moment, request, limit)
    if limit is not None:
        pruned = frozenset(partitions) - values.keys()
        check_not_expired(moment, view, limit, groups=written, pruned=pruned)
    slices = (
        view.latest_slices() if request.mode is ScanMode.SNAPSHOT else view.latest_base_slices()
    )
    kept = slices if written is None else [s for s in slices if s.group in written]
    spec = SliceSpec(
        table=schema,
        columns=columns,
        rules=merge_rules(moment.config),
        visibility=view.visibility,
        where=where,
        filter_columns=filter_columns,
    )
    return ScanPlan(
        schema=spec.schema,
        tasks=tuple(ReadTask(moment.fs, s, spec, values[s.partition]) for s in kept),
        partition_count=len(partitions),
        partitions_read=len(values),
        groups_skipped=len(slices) - len(kept),
        limit=limit,
        where=where,
        by_metadata=moment.metadata is not None,
    )


def _bounds(
    state: TableState, request: ScanRequest
) -> tuple[TableState, InstantTime | None, list[pc.Expression]]:
    """The table at the moment asked for, the newest instant to see, and filters to apply."""
    wheres = [] if request.where is None else [request.where]
    if request.changes is None:
        if request.as_of is None:
            return state, None, wheres
        return state, as_instant(request.as_of, state.zone), wheres
    if request.as_of is not None:
        raise UserError("as_of and changes exclude each other")
    return _change_bounds(state, request.changes, wheres)


def _change_bounds(
    state: TableState, changes: ChangeRange, wheres: list[pc.Expression]
) -> tuple[TableState, InstantTime | None, list[pc.Expression]]:
    if not state.config.has_meta_columns:
        raise UserError("changes need the meta columns, which this table does not keep")
    since = as_bound(changes.since, state.zone)
    moment, limit = state, None
    if changes.until is not None:
        moment, limit = state.until(as_bound(changes.until, state.zone))
    return moment, limit, [*wheres, *_commit_filter(moment, since, limit)]


def _commit_filter(
    state: TableState, since: InstantTime, until: InstantTime | None
) -> list[pc.Expression]:
    """Rows of commits after `since` (completed after it, where the table knows completions)."""
    time = pc.field(COMMIT_TIME)
    if state.log.layout == 1:
        later = time > since
        return [later if until is None else later & (time <= until)]
    before = [i.time for i in state.timeline.commits if (i.completed_at or i.time) <= since]
    earliest = state.timeline.commits.first
    filters = [~time.isin(before)] if before else []
    if earliest is not None and earliest.completed_at and since >= earliest.completed_at:
        filters.append(time >= earliest.time)  # what is archived is older than `since`
    return filters


def columns_of(schema: pa.Schema, request: ScanRequest) -> tuple[str, ...]:
    """Names of the columns asked for.  Raises UserError for one the table lacks."""
    if request.columns is None:
        skipped = () if request.with_meta else META_COLUMNS
        return tuple(name for name in schema.names if name not in skipped)
    unknown = [name for name in request.columns if name not in schema.names]
    if unknown:
        raise UserError(
            "the table has no such column",
            columns=", ".join(unknown),
            hint=f"it has {', '.join(schema.names)}",
        )
    return tuple(dict.fromkeys(request.columns))


def _conjunction(wheres: Sequence[pc.Expression]) -> pc.Expression | None:
    result: pc.Expression | None = None
    for where in wheres:
        result = where if result is None else result & where
    return result


def named_columns(where: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The columns a filter names, or more.  Raises UserError if it does not fit the table.

    Arrow does not tell; the expression's text holds each name it uses, as a word of its own.
    """
    if not isinstance(where, pc.Expression):
        raise UserError("where takes a pyarrow.compute.Expression", given=type(where).__name__)
    text = str(where)
    unfit = _misfit(where, schema)
    if unfit is not None:
        raise UserError(f"the filter does not fit the table: {unfit}", where=text)
    names = tuple(n for n in schema.names if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text))
    named = pa.schema([schema.field(name) for name in names])
    return names if names and _misfit(where, named) is None else tuple(schema.names)


def _misfit(where: pc.Expression, schema: pa.Schema) -> Exception | None:
    """Why a filter cannot be applied to rows of this schema; None if it can."""
    try:
        schema.empty_table().filter(where)
    except (pa.ArrowException, TypeError) as unfit:
        return unfit
    return None


def _partitions(
    state: TableState, schema: pa.Schema, where: pc.Expression | None
) -> tuple[list[str], dict[str, dict[str, pa.Scalar]]]:
    """Every partition, and those that can match with what their paths tell."""
    partitions = state.listing.partitions()
    values = [partition_values(state.config, schema, p) for p in partitions]
    kept = [True] * len(partitions)
    if where is not None and any(values):
        kept = matching(values, schema, where)
    found = zip(partitions, values, kept, strict=True)
    return partitions, {p: known for p, known, keep in found if keep}


def _groups_written(
    state: TableState, request: ScanRequest, until: InstantTime | None
) -> frozenset[FileGroupId] | None:
    """File groups written by the commits asked for; None for other scans, and where that is not
    known because some of the commits may be archived."""
    if request.changes is None:
        return None
    since = as_bound(request.changes.since, state.zone)
    visibility = Visibility.of(state.timeline, limit=until)
    if visibility.start is None or since < visibility.start:
        return None
    groups: set[FileGroupId] = set()
    for instant in state.timeline.commits:
        if (instant.completed_at or instant.time) > since and visibility.sees(instant.time):
            groups |= state.log.commit(instant).groups
    return frozenset(groups)
