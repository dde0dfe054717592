"""Another table as a source: its snapshot, then what each of its commits changed.

The checkpoint is that of Apache Hudi's incremental source: the position after the last commit that
was read, its instant for a table of version 6 and its completion time for versions 8 and 9.
Source: HoodieIncrSource of Apache Hudi.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.input_conversion import selected_columns
from pyhudi.api.table import Table, open_table
from pyhudi.errors import OptionError, SnapshotExpiredError, UserError
from pyhudi.ingest.source import RejectedRows, SourceBatch, SourceLimits
from pyhudi.options import HollowCommitPolicy
from pyhudi.read.changes.before_after import DELETE, INSERT, UPDATE
from pyhudi.read.changes.incremental import ChangeRange, ChangeWindow, open_window
from pyhudi.read.changes.snapshot_diff import diff_rows
from pyhudi.read.filters import as_predicate
from pyhudi.read.positions import as_position, current_position
from pyhudi.read.predicate import Predicate
from pyhudi.read.scan import Scan
from pyhudi.read.scan_plan import ScanRequest
from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.records import IS_DELETED, Position
from pyhudi.timeline.instant import Instant

STARTS: Final = ("snapshot", "earliest", "latest")
_BEFORE_ALL: Final = "000"
_DIGITS: Final = (14, 17)
_NUMBER: Final = "\0number"


class TableSource:
    """Rows that commits of a table wrote, the latest state of each key in a batch.

    table: a path or URL, or a table of `pyhudi.open_table`.  columns, where: as for `table.scan`.
    start: what a stream without a checkpoint reads: the `snapshot`, all commits from the
    `earliest`, or only commits after the `latest`.
    deletes: whether deleted keys are included, as rows with `_hoodie_is_deleted`, which contain
    their last values, and rows that do not pass `where` any more; None: if the table logs changes
    (`hoodie.table.cdc.enabled`).  It compares the file groups of a batch with their state at the
    checkpoint.  A row is not reported as deleted if its key was inserted in another partition
    meanwhile: it may have been moved.
    max_commits: in one batch; None: no limit.  A snapshot is one batch, whatever its size.
    """

    def __init__(
        self,
        table: str | os.PathLike[str] | Table,
        *,
        columns: str | Sequence[str] | None = None,
        where: str | None = None,
        start: str = "snapshot",
        deletes: bool | None = None,
        max_commits: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if start not in STARTS:
            raise OptionError("unknown start of a table source", start=start, hint=str(STARTS))
        if max_commits is not None and max_commits < 1:
            raise OptionError("max_commits must be positive", max_commits=max_commits)
        if not isinstance(table, Table):
            table = open_table(table, storage_options=storage_options)
        self._table: Table = table
        self._columns = selected_columns(columns)
        self._where, self._start = where, start
        self._deletes, self._max_commits = deletes, max_commits

    def __repr__(self) -> str:
        return f"TableSource({self._table.path!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """Raises UserError for a checkpoint that is not a commit time, SnapshotExpiredError where
        commits after it have been archived or their files cleaned."""
        return read_current(self._table._state, lambda state: self._read(state, checkpoint, limits))

    def _read(
        self, state: TableState, checkpoint: str | None, limits: SourceLimits
    ) -> SourceBatch | None:
        since = as_position(state, _checked(checkpoint))
        everything = ChangeRange(since, None, HollowCommitPolicy.BLOCK)
        window = open_window(state, everything)
        commits = _commits(state, since, window)
        if not commits:
            return None
        if checkpoint is None and self._start == "latest":
            empty = self._scan(state, everything).schema.empty_table().to_reader()
            return SourceBatch(empty, current_position(state))
        if checkpoint is not None or self._start == "earliest":
            _check_present(state, window)
            commits = self._within(state, commits, limits)
        return self._batch(state, since, commits[-1][0], is_first=checkpoint is None)

    def _batch(
        self, state: TableState, since: Position, position: Position, *, is_first: bool
    ) -> SourceBatch:
        until = None if is_first and self._start == "snapshot" else position
        scan = self._scan(state, ChangeRange(since, until, HollowCommitPolicy.BLOCK))
        deletes = state.config.cdc_enabled if self._deletes is None else self._deletes
        schema = _marked_schema(scan.schema) if deletes else scan.schema
        splits: list[TableSplit | _DeletedRows] = [TableSplit(t, schema) for t in scan.tasks]
        if deletes and not is_first:
            splits.append(self._deleted(state, since, position, schema))
        batches = (rows for split in splits for rows in split.read(RejectedRows()))
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return SourceBatch(reader, position, splits=splits)

    def _scan(self, state: TableState, changes: ChangeRange) -> Scan:
        request = ScanRequest(
            columns=self._columns, where=self._where, with_meta=False, changes=changes
        )
        return Scan(lambda: state, request, engine=self._table._engine)

    def _deleted(
        self, state: TableState, since: Position, until: Position, schema: pa.Schema
    ) -> _DeletedRows:
        """Rows of `since` that are gone at `until`, if their key was not inserted elsewhere."""
        names = [name for name in schema.names if name != IS_DELETED]
        where = as_predicate(self._where, state.schema())
        read = tuple(dict.fromkeys((*names, *(where.columns if where is not None else ()))))
        engine = self._table._engine
        found = diff_rows(state, since, until, columns=read, where=where, engine=engine)
        deleted = pa.compute.equal(found["change"], DELETE)
        inserted = found.filter(pa.compute.equal(found["change"], INSERT))
        moved = pa.compute.is_in(found["record_key"], inserted["record_key"].combine_chunks())
        is_gone = pa.compute.and_(deleted, pa.compute.invert(moved))
        if where is not None:
            is_gone = pa.compute.or_(is_gone, _has_left(found, where))
        gone = found.filter(is_gone)
        rows = gone["before"].combine_chunks()
        return _DeletedRows(pa.Table.from_arrays(rows.flatten(), read).select(names), schema)

    def _within(
        self, state: TableState, commits: list[tuple[Position, Instant]], limits: SourceLimits
    ) -> list[tuple[Position, Instant]]:
        """The first commits up to the limits; at least one."""
        rows = size = 0
        for number, (_, instant) in enumerate(commits[: self._max_commits]):
            metadata = state.commit(instant)
            rows += sum(stat.insert_count + stat.update_count for stat in metadata.stats)
            size += sum(stat.write_bytes for stat in metadata.stats)
            is_full = (limits.rows is not None and rows > limits.rows) or (
                limits.bytes is not None and size > limits.bytes
            )
            if number and is_full:
                return commits[:number]
        return commits[: self._max_commits]


@dataclass(frozen=True, slots=True)
class TableSplit:
    """The rows of one file slice.  schema: with `_hoodie_is_deleted` if deletes are included."""

    task: ReadTask
    schema: pa.Schema

    def read(self, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
        for part in self.task.split():
            yield from _marked(read_task(part), self.schema, is_deleted=False)


@dataclass(frozen=True, slots=True)
class _DeletedRows:
    rows: pa.Table
    schema: pa.Schema

    def read(self, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
        yield from _marked(self.rows, self.schema, is_deleted=True)


def _has_left(found: pa.Table, where: Predicate) -> pa.Array:
    """Whether an update made a row one that does not pass the filter."""
    after = found["after"].combine_chunks()
    rows = pa.Table.from_arrays(after.flatten(), [field.name for field in after.type])
    numbers = pa.array(range(rows.num_rows), pa.int64())
    passing = where.passing(rows.append_column(_NUMBER, numbers))[_NUMBER].combine_chunks()
    has_passed = pa.compute.is_in(numbers, passing)
    return pa.compute.and_not(pa.compute.equal(found["change"], UPDATE), has_passed)


def _marked_schema(schema: pa.Schema) -> pa.Schema:
    position = schema.get_field_index(IS_DELETED)
    columns = schema if position < 0 else schema.remove(position)
    return columns.append(pa.field(IS_DELETED, pa.bool_()))


def _marked(rows: pa.Table, schema: pa.Schema, *, is_deleted: bool) -> list[pa.RecordBatch]:
    columns = [
        pa.repeat(pa.scalar(is_deleted), rows.num_rows)
        if field.name == IS_DELETED
        else rows[field.name]
        for field in schema
    ]
    found: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=schema).to_batches()
    return found


def _commits(
    state: TableState, since: Position, window: ChangeWindow
) -> list[tuple[Position, Instant]]:
    """Visible commits after `since`, in the order of their positions."""
    return [
        (instant.position, instant)
        for instant in state.commits
        if instant.position > since and (window.limit is None or instant.time <= window.limit)
    ]


def _check_present(state: TableState, window: ChangeWindow) -> None:
    if window.commits is None and state.archive.has_commits:
        raise SnapshotExpiredError(
            "commits after the checkpoint have been archived",
            since=window.since,
            table=state.config.name,
            hint="reset the checkpoint to start again with the snapshot, and ingest more often "
            "than the table is archived",
        )


def _checked(checkpoint: str | None) -> str:
    if checkpoint is None:
        return _BEFORE_ALL
    if not checkpoint.isdigit() or (len(checkpoint) not in _DIGITS and checkpoint != _BEFORE_ALL):
        raise UserError(
            "the table's checkpoint is not one of a table source",
            checkpoint=checkpoint,
            hint="the newest commit was written from another source",
        )
    return checkpoint
