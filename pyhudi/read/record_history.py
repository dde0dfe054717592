"""History of a record: every version that can be read from existing files.

The file groups that may contain the key are found by the key ranges in the footers of their base
files (a group with logs always may).  The key is then read as of each commit that changed one of
them; each difference from the commit before is a version.  Commits whose files have been cleaned
are listed as gone; archived commits are reported as one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.formats.base_file import footer
from pyhudi.read.changes.before_after import DELETE, INSERT, UPDATE
from pyhudi.read.changes.snapshot_diff import WITHOUT_CHANGES
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.predicate import among
from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import COMMIT_SEQNO, COMMIT_TIME, META_COLUMNS, FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.bootstrap_index import with_sources
from pyhudi.table.file_group_view import FileSlice, TableView, Visibility, build_view
from pyhudi.table.timeline_facts import pending_plans, replaced_groups
from pyhudi.timeline.instant import Instant

GONE: Final = "gone"
FOUND: Final = "found"


@dataclass(frozen=True, slots=True)
class _Version:
    """A row of the history.  row: the record with every column, or None."""

    instant: str
    operation: str
    change: str
    group: FileGroupId | None = None
    row: pa.Table | None = None


def history_rows(state: TableState, key: str, *, engine: Engine) -> pa.Table:
    """The history of a key, oldest version first.

    Returns [instant, operation, change, partition_path, file_id, row: struct]; `change` is
    "insert", "update", "delete", "found" (the first existing version, after versions that are gone)
    or "gone".  Cost: the footer of every base file, and the key's rows for each commit and
    group.
    """
    if not state.config.has_meta_columns:
        raise UserError("a history needs the meta columns, which this table does not store")
    schema = state.schema()
    versions = list(_versions(state, key, schema, engine))
    names = [name for name in schema.names if name not in META_COLUMNS]
    user = pa.schema([schema.field(name) for name in names])
    rows = [None if v.row is None else v.row.select(names).to_struct_array() for v in versions]
    kind = pa.struct(list(user))
    cells = [pa.nulls(1, kind) if row is None else row.combine_chunks() for row in rows]
    return pa.table(
        {
            "instant": pa.array([v.instant for v in versions], pa.string()),
            "operation": pa.array([v.operation.lower() for v in versions], pa.string()),
            "change": pa.array([v.change for v in versions], pa.string()),
            "partition_path": pa.array([v.group and v.group.partition for v in versions], "string"),
            "file_id": pa.array([v.group and v.group.file_id for v in versions], "string"),
            "row": pa.chunked_array(cells, type=kind),
        }
    )


def _versions(state: TableState, key: str, schema: pa.Schema, engine: Engine) -> Iterator[_Version]:
    files = [
        (partition, info)
        for partition, infos in state.listing.files(state.listing.partitions()).items()
        for info in infos
    ]
    paths = {info.path for _, info in files}
    moments = _Moments(state, key, schema, _candidates(state, files, key, engine))
    archived = state.archive.commit_instants
    if archived:
        yield _Version(archived[-1].time, "archived", GONE)
    lost = bool(archived)
    known: dict[FileGroupId, pa.Table] = {}
    for instant in sorted(state.timeline.commits, key=lambda i: i.position):
        commit = state.log.commit(instant)
        if commit.compacted or commit.operation in WITHOUT_CHANGES:
            continue
        moments.touch(instant.time, commit.groups)
        if any(stat.path and stat.path not in paths for stat in commit.stats):
            lost = True
            yield _Version(instant.time, commit.operation, GONE)
        elif commit.groups & moments.groups:
            now = moments.rows_at(instant)
            yield from _steps(known, now, instant, commit.operation, lost=lost)
            known, lost = now, lost and not now


def _steps(
    known: Mapping[FileGroupId, pa.Table],
    now: Mapping[FileGroupId, pa.Table],
    instant: Instant,
    operation: str,
    *,
    lost: bool,
) -> Iterator[_Version]:
    """Versions of one commit: in the partitions that the key left, then in each group that contains
    it now, so that the last version is the record as it is."""
    before = {_identity(row) for row in known.values()}
    present = {group.partition for group in now}
    for group in sorted(known):
        if group.partition not in present:
            yield _Version(instant.time, operation, DELETE, group)
    for group, row in sorted(now.items()):
        if _identity(row) in before:
            continue
        first = INSERT if not lost else FOUND
        change = UPDATE if known else first
        yield _Version(row.column(COMMIT_TIME)[0].as_py(), operation, change, group, row)


def _identity(row: pa.Table) -> tuple[str, str]:
    """Identifies a version of a record, independent of where it is stored."""
    return row.column(COMMIT_TIME)[0].as_py(), row.column(COMMIT_SEQNO)[0].as_py()


class _Moments:
    """The key's rows as of each commit, in the groups that may contain it."""

    def __init__(
        self, state: TableState, key: str, schema: pa.Schema, files: list[tuple[str, FileInfo]]
    ) -> None:
        self._state = state
        self._files = files
        self._replaced = replaced_groups(state.log, state.timeline)
        self._pending = pending_plans(state.log, state.timeline)
        self._completions = {i.time: i.completed_at for i in state.timeline if i.completed_at}
        rules = state.rules
        self._spec = SliceSpec(
            table=schema,
            columns=tuple(schema.names),
            rules=rules,
            visibility=state.visibility(),
            where=among(rules.key_column, pa.array([key])),
        )
        self._touched: dict[FileGroupId, InstantTime] = {}
        self._read: dict[tuple[FileGroupId, InstantTime | None], pa.Table | None] = {}
        self.groups = frozenset(self._view(None).groups)

    def _view(self, at: Instant | None) -> TableView:
        """The table after a commit; every slice of every group for None."""
        moment, limit = (self._state, None) if at is None else self._state.until(at.position)
        view = build_view(
            self._files,
            moment.visibility(limit=limit),
            layout=self._state.log.layout,
            replaced={} if at is None else self._replaced,
            pending=self._pending,
            completions=self._completions,
        )
        return with_sources(view, self._state.sources)

    def touch(self, time: InstantTime, groups: Iterable[FileGroupId]) -> None:
        """Record that a commit wrote or replaced these groups."""
        self._touched.update((group, time) for group in groups)

    def rows_at(self, at: Instant) -> dict[FileGroupId, pa.Table]:
        """The key's row in each group that contains it after a commit; touched groups are read
        again."""
        view = self._view(at)
        found: dict[FileGroupId, pa.Table] = {}
        for file_slice in view.latest_slices():
            state = (file_slice.group, self._touched.get(file_slice.group))
            if state not in self._read:
                self._read[state] = self._row(file_slice, view.visibility)
            row = self._read[state]
            if row is not None:
                found[file_slice.group] = row
        return found

    def _row(self, file_slice: FileSlice, visibility: Visibility) -> pa.Table | None:
        spec = replace(self._spec, visibility=visibility)
        values = partition_values(self._state.config, spec.table, file_slice.partition)
        rows = read_task(ReadTask(self._state.fs, file_slice, spec, values))
        return rows.slice(rows.num_rows - 1) if rows.num_rows else None


@dataclass(frozen=True, slots=True)
class _ContainsTask:
    """A check whether a group may contain a key."""

    fs: FileSystem
    slices: tuple[FileSlice, ...]
    key: str


def _may_contain(task: _ContainsTask) -> bool:
    if any(file_slice.logs for file_slice in task.slices):
        return True
    for file_slice in task.slices:
        assert file_slice.base is not None
        found = footer(task.fs, file_slice.base.path)
        if (found.min_key or "") <= task.key and (
            found.max_key is None or task.key <= found.max_key
        ):
            return True
    return False


def _candidates(
    state: TableState, files: list[tuple[str, FileInfo]], key: str, engine: Engine
) -> list[tuple[str, FileInfo]]:
    """The files of groups that may contain the key."""
    completions = {i.time: i.completed_at for i in state.timeline if i.completed_at}
    view = build_view(
        files,
        Visibility.of(state.timeline),
        layout=state.log.layout,
        completions=completions,
    )
    groups = sorted(view.groups)
    tasks = [_ContainsTask(state.fs, view.groups[group].slices, key) for group in groups]
    answers = engine.run(_may_contain, tasks, label="history")
    retained = {
        file.path
        for group, can in zip(groups, answers, strict=True)
        if can
        for file_slice in view.groups[group].slices
        for file in file_slice.files
    }
    return [(partition, info) for partition, info in files if info.path in retained]
