"""Change data capture: every change of every commit, with the rows before and after.

A commit of a copy-on-write table that logs changes (`hoodie.table.cdc.enabled`) writes a CDC log
next to each base file that it rewrote; in the mode DATA_BEFORE_AFTER that log is complete:

    block of kind CDC, Avro records   op: i, u or d;  ts_ms: the instant;  before, after: the row

In all other cases (new file groups, replaced ones, logs of merge-on-read tables, the shorter modes)
the file group as of the commit is compared with its state before.  Rows of replaced groups are
reported as deletes and rows of the groups that replace them as inserts, as in Apache Hudi.  A
commit that rewrites a row with the same values is no change.  Source: table_format 7.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.errors import FileMissingError, SnapshotExpiredError, UnsupportedTableError
from pyhudi.formats.column_history import StoredNames
from pyhudi.formats.log_block import data_batches
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.formats.schema_conform import conform
from pyhudi.formats.timestamp_repair import relabelled
from pyhudi.read.changes.incremental import ChangeRange, open_window
from pyhudi.read.changes.snapshot_diff import (
    WITHOUT_CHANGES,
    DiffTask,
    diff_spec,
    diff_task,
    tasks_at,
)
from pyhudi.read.file_slice import with_partition_values
from pyhudi.read.scan_tasks import ReadTask
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import META_COLUMNS, FileGroupId, Position
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.cdc_properties import CdcMode, cdc_mode
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Instant

_OPERATIONS = {"insert": "i", "update": "u", "delete": "d"}


@dataclass(frozen=True, slots=True)
class CdcTask:
    """One CDC log.  values: the columns of its rows, as in the table.  fixed: values of columns
    that the partition path contains, whatever is logged.  names: those of the columns in the log,
    if they differ."""

    fs: FileSystem
    path: str
    partition: str
    values: pa.Schema
    fixed: Mapping[str, pa.Scalar]
    names: StoredNames | None = None


def capture_rows(state: TableState, changes: ChangeRange, *, engine: Engine) -> pa.Table:
    """Changes of the commits in a range, oldest commit first, and of each commit the deletes first:
    whoever applies them in this order keeps the row of a key that moved to another file group.

    Returns [op: "i", "u" or "d", ts_ms: the instant, partition_path, before, after: structs of
    the columns].  Raises UnsupportedTableError for a table that does not log changes,
    SnapshotExpiredError where files are gone or commits archived.
    """
    if not state.config.cdc_enabled:
        raise UnsupportedTableError(
            "the table does not log changes",
            property="hoodie.table.cdc.enabled",
            hint="diff(a, b) compares two snapshots of any table",
        )
    window = open_window(state, changes)
    schema = state.schema()
    values = pa.schema([field for field in schema if field.name not in META_COLUMNS])
    commits = window.commits
    if commits is None:
        if state.archive.has_commits:
            raise SnapshotExpiredError(
                "commits of this range have been archived",
                since=window.since,
                hint="start at a later position",
            )
        later = (i for i in window.state.timeline.commits if i.position > window.since)
        commits = tuple(
            (i, state.log.commit(i)) for i in sorted(later, key=lambda i: (i.position, i.time))
        )
    found = [
        _commit_changes(state, instant, commit, values, engine)
        for instant, commit in commits
        if not (commit.compacted or commit.operation in {*WITHOUT_CHANGES, "CLUSTER"})
        and (window.limit is None or instant.time <= window.limit)
    ]
    return pa.concat_tables([capture_schema(values).empty_table(), *found])


def capture_schema(values: pa.Schema) -> pa.Schema:
    """The schema of `capture_rows`, for these columns."""
    row = pa.struct(list(values))
    return pa.schema(
        [("op", pa.string()), ("ts_ms", pa.string()), ("partition_path", pa.string()),
         ("before", row), ("after", row)]
    )  # fmt: skip


def _commit_changes(
    state: TableState, instant: Instant, commit: CommitMetadata, values: pa.Schema, engine: Engine
) -> pa.Table:
    logged = list(_logs(state, instant, commit, values))
    logged_groups = {group for group, _ in logged}
    rows = engine.run(read_cdc_log, [task for _, task in logged], label="cdc") if logged else []
    rest = commit.groups - logged_groups
    if rest:
        at = instant.position
        spec = diff_spec(state, state.schema(), values.names)
        old = tasks_at(state, _just_before(at), frozenset(rest), spec)
        new = tasks_at(state, at, frozenset(rest), spec)
        _check_present(instant, commit, rest, new)
        names = tuple(values.names)
        tasks = [DiffTask(old.get(g), new.get(g), names) for g in sorted(old.keys() | new.keys())]
        rows += [_of_diff(found) for found in engine.run(diff_task, tasks, label="cdc")]
    whole = pa.concat_tables(rows) if rows else capture_schema(values).empty_table()
    deleted = pc.equal(whole["op"], "d")
    whole = pa.concat_tables([whole.filter(deleted), whole.filter(pc.invert(deleted))])
    return whole.set_column(
        whole.schema.get_field_index("ts_ms"),
        "ts_ms",
        pa.chunked_array([pa.repeat(str(instant.time), whole.num_rows)]),
    )


def _check_present(
    instant: Instant,
    commit: CommitMetadata,
    groups: frozenset[FileGroupId],
    tasks: Mapping[FileGroupId, ReadTask],
) -> None:
    """Raise SnapshotExpiredError if a file that the commit wrote no longer exists."""
    for stat in commit.stats:
        task = tasks.get(stat.group)
        present = {file.path for file in task.slice.files} if task is not None else set()
        if stat.group in groups and stat.path and stat.path not in present:
            raise SnapshotExpiredError(
                "a file that a commit of the range wrote no longer exists",
                instant=instant.time,
                path=stat.path,
                hint="start at a later position",
            )


def _logs(
    state: TableState, instant: Instant, commit: CommitMetadata, values: pa.Schema
) -> Iterator[tuple[FileGroupId, CdcTask]]:
    """CDC logs of a commit that contain all changes of their file group."""
    if cdc_mode(state.config) is not CdcMode.DATA_BEFORE_AFTER:
        return
    history = state.columns()
    names = None if history is None else history.stored(instant.time)
    for stat in commit.stats:
        if not stat.cdc_sizes:
            continue
        fixed = partition_values(state.config, values, stat.partition)
        for path in stat.cdc_sizes:
            yield stat.group, CdcTask(state.fs, path, stat.partition, values, fixed, names)


def _just_before(position: Position) -> Position:
    return Position(str(int(position) - 1).zfill(len(position)))


def read_cdc_log(task: CdcTask) -> pa.Table:
    """The changes of one CDC log, with an empty ts_ms."""
    try:
        with closing(task.fs.open(task.path)) as file:
            blocks = [b for b in read_blocks(file, path=task.path) if b.kind is BlockKind.CDC]
            parts = [data_batches(block, file, path=task.path) for block in blocks]
    except FileMissingError as missing:
        raise SnapshotExpiredError(
            "a CDC log has been cleaned", path=task.path, hint="start at a later position"
        ) from missing
    schema = capture_schema(task.values)
    return pa.concat_tables([schema.empty_table(), *(_as_captured(p, task) for p in parts)])


def _as_captured(rows: pa.Table, task: CdcTask) -> pa.Table:
    return pa.Table.from_arrays(
        [
            rows.column("op").cast(pa.string()),
            pa.nulls(rows.num_rows, pa.string()),
            pa.repeat(task.partition, rows.num_rows),
            _fitted(rows.column("before"), task),
            _fitted(rows.column("after"), task),
        ],
        schema=capture_schema(task.values),
    )


def _fitted(side: pa.ChunkedArray, task: CdcTask) -> pa.Array:
    """Rows of one side as structs of the table's columns, null where there is no row."""
    structs, values = side.combine_chunks(), task.values
    absent = structs.is_null()
    stored = pa.Table.from_arrays(
        [pc.struct_field(structs, [n]) for n in range(structs.type.num_fields)],
        names=[structs.type.field(n).name for n in range(structs.type.num_fields)],
    )
    if task.names is not None:
        stored = task.names.renamed(stored, values.names)
    fitted = with_partition_values(conform(relabelled(stored, values), values), values, task.fixed)
    children = [column.combine_chunks() for column in fitted.columns]
    return pa.StructArray.from_arrays(children, fields=list(values), mask=absent)


def _of_diff(found: pa.Table) -> pa.Table:
    place = pc.index_in(found.column("change"), pa.array(list(_OPERATIONS)))
    row = found.schema.field("before").type
    return pa.Table.from_arrays(
        [
            pa.array(list(_OPERATIONS.values())).take(place),
            pa.nulls(found.num_rows, pa.string()),
            found.column("partition_path"),
            found.column("before"),
            found.column("after"),
        ],
        schema=capture_schema(pa.schema(list(row))),
    )
