"""Planning of scans: the slices to read, with columns and filter.

Planning is pure except for listings: it opens no data file.  A plan contains picklable tasks;
`read_task` runs one in any process.  Partitions that cannot match are not listed; file groups that
cannot contain the requested commits are not read.  Source: table_format 7.10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import pyarrow as pa

from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.formats.column_history import ColumnHistory
from pyhudi.markup import bytes_text, card_html, count_text, facts_html, plural
from pyhudi.near_names import columns_hint
from pyhudi.read.changes.incremental import (
    ChangeRange,
    ChangeWindow,
    against_before,
    open_window,
    range_filter,
)
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.filters import as_predicate
from pyhudi.read.positions import moment_at
from pyhudi.read.predicate import Predicate, both
from pyhudi.read.scan_tasks import ReadTask, count_task, read_task
from pyhudi.read.skipping.file_slices import Skipped, SkippingRequest, possible_partitions, skip
from pyhudi.read.skipping.partition_values import matching, partition_values
from pyhudi.read.skipping.secondary_index import secondary_use
from pyhudi.read.snapshot_availability import check_not_cleaned, check_not_expired, check_reached
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import META_COLUMNS, InstantTime
from pyhudi.table.file_group_view import FileSlice, Visibility

BY_COMMITS: Final = "the commits' metadata"


class ScanMode(Enum):
    """SNAPSHOT merges logs; READ_OPTIMIZED reads the newest base files alone."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The parameters of a scan.  as_of and changes are mutually exclusive.

    empty_before_first: a time before the first commit returns no rows instead of UserError.
    """

    columns: tuple[str, ...] | None = None
    where: Filter | Predicate | None = None
    as_of: PointInTime | None = None
    mode: ScanMode = ScanMode.SNAPSHOT
    with_meta: bool = True
    changes: ChangeRange | None = None
    data_skipping: bool = True
    empty_before_first: bool = False


_FELL_BACK: Final = "files of the range were cleaned: rows written later are left out"


@dataclass(frozen=True)
class ScanPlan:
    """What a scan will read.  schema: of the rows; table: of all columns that it may name."""

    schema: pa.Schema
    table: pa.Schema
    tasks: tuple[ReadTask, ...]
    partition_count: int
    partitions_read: int
    groups_skipped: int
    limit: InstantTime | None
    where: Predicate | None = None
    listed_by: str = "the store"
    skipped_by: Mapping[str, int] = field(default_factory=dict)
    fell_back: bool = False
    index_notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        slices = [task.slice for task in self.tasks]
        skipped = {f"skipped by the {by}": count_text(n) for by, n in self.skipped_by.items()}
        facts = {
            "columns": ", ".join(self.schema.names),
            "filter": "none" if self.where is None else self.where,
            "as of": self.limit or "now",
            "partitions read": f"{self.partitions_read:,} of {self.partition_count:,}",
            "file slices read": plural(len(slices), "file slice"),
            "of these with logs": count_text(sum(1 for s in slices if s.logs)),
            "file groups skipped": count_text(self.groups_skipped),
            **skipped,
            "files": plural(sum(len(s.files) for s in slices), "file"),
            "size": bytes_text(sum(s.size_bytes for s in slices)),
            "listed by": self.listed_by,
        }
        notes = (*self.index_notes, *([_FELL_BACK] * self.fell_back))
        return card_html("Scan", facts_html(facts), note="; ".join(notes))

    def __str__(self) -> str:
        slices = [task.slice for task in self.tasks]
        merged = sum(1 for s in slices if s.logs)
        size_bytes = sum(s.size_bytes for s in slices)
        lines = [
            f"columns     {', '.join(self.schema.names)}",
            f"filter      {self.where if self.where is not None else 'none'}",
            f"as of       {self.limit or 'now'}",
            f"partitions  {self.partitions_read} of {self.partition_count}",
            f"listed by   {self.listed_by}",
            f"slices      {len(slices)}, {merged} of them with logs"
            f" ({self.groups_skipped} file groups skipped)",
            *(f"skipped     {count} slices by the {by}" for by, count in self.skipped_by.items()),
            *(f"index       {note}" for note in self.index_notes),
            *(["cleaned     files of the range: rows written later are left out"] * self.fell_back),
            f"files       {sum(len(s.files) for s in slices)}, {size_bytes} bytes",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def plan_scan(state: TableState, request: ScanRequest) -> ScanPlan:
    """Plan a scan of the table in `state`.

    Raises UserError for columns or filters that do not match the table, SnapshotExpiredError,
    HollowCommitError.
    """
    changes = request.changes
    if changes is None or not changes.falls_back:
        return _plan(state, request)
    try:
        return _plan(state, request)
    except SnapshotExpiredError:
        now = replace(changes, until=None, falls_back=False)
        where = as_predicate(request.where, state.schema())
        where = both(where, range_filter(state, changes))
        return replace(_plan(state, replace(request, changes=now, where=where)), fell_back=True)


def _plan(state: TableState, request: ScanRequest) -> ScanPlan:
    window = _window(state, request)
    if window is not None:
        moment, limit = window.state, window.limit
    elif request.as_of is not None:
        moment, limit = moment_at(state, request.as_of)
        if not request.empty_before_first:
            check_reached(state, moment, limit, request.as_of)
    else:
        moment, limit = state, None
    schema = _schema(state, moment, request, limit)
    columns = columns_of(schema, request)
    where = as_predicate(request.where, schema)
    where = both(where, None if window is None else window.filter())
    partitions, values = _partitions(moment, schema, where, window)
    if where is not None and window is None:
        values = _possible(moment, request, where, schema, values)
    found = _found_slices(
        state, moment, request, window, limit, partitions=partitions, values=values
    )
    spec = SliceSpec(
        table=schema,
        columns=columns,
        rules=moment.rules,
        visibility=_with_names(state, moment, request, limit, found.visibility),
        where=where,
    )
    remaining = _skipped(moment, request, found, where, spec, values)
    spec = replace(spec, keys=remaining.keys)
    tasks = [
        ReadTask(
            moment.fs,
            s,
            spec,
            values[s.partition],
            logged_only=window is not None and window.is_in_logs(s),
        )
        for s in remaining.slices
    ]
    if window is not None and request.changes is not None and request.changes.hide_unchanged:
        tasks = against_before(state, window, tasks)
    return ScanPlan(
        schema=spec.schema,
        table=schema,
        tasks=tuple(tasks),
        partition_count=len(partitions),
        partitions_read=len(values),
        groups_skipped=found.skipped,
        limit=limit if moment.past is None else InstantTime(moment.past.position),
        where=where,
        listed_by=found.listed_by,
        skipped_by=remaining.by,
        index_notes=(*_unanalyzed(request, where), *remaining.notes),
    )


def _unanalyzed(request: ScanRequest, where: Predicate | None) -> tuple[str, ...]:
    """The note on a filter of which a part rules out no files."""
    if where is None or where.refused is None or not request.data_skipping:
        return ()
    used = "not used" if where.analyzed is None else "partly used"
    return (f"{used}: the filter {where.refused}",)


def _schema(
    state: TableState, moment: TableState, request: ScanRequest, limit: InstantTime | None
) -> pa.Schema:
    """Columns as of `as_of`, or of the end of a range that requests them; otherwise the newest."""
    if request.changes is not None:
        return moment.schema(limit=limit) if request.changes.schema_of_end else state.schema()
    return moment.schema(limit=limit if request.as_of is not None else None)


def _with_names(
    state: TableState,
    moment: TableState,
    request: ScanRequest,
    limit: InstantTime | None,
    visibility: Visibility,
) -> Visibility:
    """The visibility with the names in files of the columns of `_schema`."""
    if request.changes is None or request.changes.schema_of_end:
        return visibility
    return replace(visibility, columns=state.columns())


def _possible(
    state: TableState,
    request: ScanRequest,
    where: Predicate,
    schema: pa.Schema,
    values: dict[str, dict[str, pa.Scalar]],
) -> dict[str, dict[str, pa.Scalar]]:
    """The partitions that the metadata table does not rule out."""
    is_newest = request.as_of is None and request.mode is ScanMode.SNAPSHOT
    if not request.data_skipping or not is_newest:
        return values
    used = _with_statistics(where, state.columns())
    if used is None:
        return values
    skipping = SkippingRequest(used, schema, is_newest, _fixed(values))
    found = possible_partitions(state, list(values), skipping)
    return {p: values[p] for p, may_match in zip(values, found, strict=True) if may_match}


def _with_statistics(where: Predicate, history: ColumnHistory | None) -> Predicate | None:
    """The part of a filter that statistics and indexes apply to: they are of names in files."""
    moved = frozenset[str]() if history is None else history.moved
    return where if moved.isdisjoint(where.columns) else where.without(moved)


def _fixed(values: Mapping[str, Mapping[str, pa.Scalar]]) -> frozenset[str]:
    return frozenset(name for known in values.values() for name in known)


def _skipped(
    state: TableState,
    request: ScanRequest,
    found: _Found,
    where: Predicate | None,
    spec: SliceSpec,
    values: Mapping[str, Mapping[str, pa.Scalar]],
) -> Skipped:
    """The slices that the metadata table does not rule out."""
    if where is None or not request.data_skipping:
        return Skipped(found.slices)
    if found.listed_by == BY_COMMITS:
        use = secondary_use(state, where.tree, spec.table, is_newest=False)
        return Skipped(found.slices, notes=use.notes)
    is_newest = (
        request.as_of is None and request.changes is None and request.mode is ScanMode.SNAPSHOT
    )
    used = _with_statistics(where, spec.visibility.columns)
    if used is None:
        return Skipped(found.slices)
    skipping = SkippingRequest(used, spec.table, is_newest, _fixed(values))
    # Statistics of a skeleton file do not cover the columns of its source file.
    known = [file_slice for file_slice in found.slices if file_slice.source is None]
    skipped = skip(state, known, skipping)
    gone = {file_slice.group for file_slice in known} - {
        file_slice.group for file_slice in skipped.slices
    }
    return replace(
        skipped, slices=[file_slice for file_slice in found.slices if file_slice.group not in gone]
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """Slices to read, in order, and how they were found."""

    slices: list[FileSlice]
    visibility: Visibility
    skipped: int
    listed_by: str


def _found_slices(
    state: TableState,
    moment: TableState,
    request: ScanRequest,
    window: ChangeWindow | None,
    limit: InstantTime | None,
    *,
    partitions: Sequence[str],
    values: Mapping[str, Mapping[str, pa.Scalar]],
) -> _Found:
    checked = request.changes is not None and request.changes.falls_back
    written = None if window is None or checked else window.written_slices()
    if written is not None:
        remaining = [s for s in written if s.partition in values]
        check_not_cleaned(state, moment, limit, remaining)
        seen = moment.visibility(limit=limit)
        return _Found(remaining, seen, len(written) - len(remaining), BY_COMMITS)
    view = moment.view(partitions=list(values), limit=limit)
    groups = None if window is None else window.groups
    if limit is not None or moment.past is not None:
        pruned = frozenset(partitions) - values.keys()
        check_not_expired(state, moment, view, limit, groups=groups, pruned=pruned)
    snapshot = request.mode is ScanMode.SNAPSHOT
    slices = view.latest_slices() if snapshot else view.latest_base_slices()
    remaining = slices if groups is None else [s for s in slices if s.group in groups]
    if window is not None:
        remaining = window.trimmed(remaining)
    return _Found(remaining, view.visibility, len(slices) - len(remaining), moment.listed_by)


def _window(state: TableState, request: ScanRequest) -> ChangeWindow | None:
    if request.changes is None:
        return None
    if request.as_of is not None:
        raise UserError("as_of and changes are mutually exclusive")
    return open_window(state, request.changes)


def columns_of(schema: pa.Schema, request: ScanRequest) -> tuple[str, ...]:
    """Names of the requested columns.  Raises UserError for a column that the table lacks."""
    if request.columns is None:
        skipped = () if request.with_meta else META_COLUMNS
        return tuple(name for name in schema.names if name not in skipped)
    unknown = [name for name in request.columns if name not in schema.names]
    if unknown:
        raise UserError(
            "the table has no such column",
            columns=", ".join(unknown),
            hint=columns_hint(unknown, schema.names),
        )
    return tuple(dict.fromkeys(request.columns))


def _partitions(
    state: TableState, schema: pa.Schema, where: Predicate | None, window: ChangeWindow | None
) -> tuple[list[str], dict[str, dict[str, pa.Scalar]]]:
    """Every candidate partition, and those that can match with the values in their paths."""
    if window is not None and window.groups is not None:
        partitions = sorted({group.partition for group in window.groups})
    else:
        partitions = state.listing.partitions()
        if window is not None:
            partitions = [p for p in partitions if window.allows(p)]
    values = [partition_values(state.config, schema, p) for p in partitions]
    remaining = [True] * len(partitions)
    if where is not None and any(values):
        remaining = matching(values, schema, where)
    found = zip(partitions, values, remaining, strict=True)
    return partitions, {p: known for p, known, keep in found if keep}


__all__ = [
    "ChangeRange",
    "ReadTask",
    "ScanMode",
    "ScanPlan",
    "ScanRequest",
    "columns_of",
    "count_task",
    "plan_scan",
    "read_task",
]
