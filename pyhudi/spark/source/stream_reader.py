"""Streaming reads: `readStream.format("pyhudi")` returns the changes of each commit.

An offset is {"instant": T}: everything up to and including T was read.  A batch has the changes of
the commits between two offsets: the state of each key at the later one, without deleted keys.  It
ends before the first pending write, so that no commit is missed; a pending clustering adds no rows
and does not end the batch.

```
startOffset   earliest (all existing rows), latest, or a point in time
limits        maxCommitsPerTrigger, maxRowsPerTrigger, maxBytesPerTrigger: a batch has at least one
              commit, and further commits while all three limits hold
```

If files of a snapshot have been cleaned, the stream fails.  With failOnDataLoss=false it reads the
rows of the batch's commits that remain in the newest snapshot; rows that later commits overwrote
are returned with those commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.errors import OptionError, SchemaError, SnapshotExpiredError
from pyhudi.options import HollowCommitPolicy, Options, parse_options
from pyhudi.read.changes.incremental import ChangeRange, range_filter
from pyhudi.read.positions import as_position
from pyhudi.read.scan_plan import ScanPlan, ScanRequest, plan_scan
from pyhudi.read.table_snapshot import TableState, load_state, read_current
from pyhudi.records import BEFORE_ALL_COMMITS, Position
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.source.batch_reader import partitions
from pyhudi.spark.source.partition_reads import read_slices
from pyhudi.spark.source.source_options import Given, given
from pyhudi.spark.types import check_types
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate
from pyhudi.timeline.instant import COMMITS, Instant
from pyhudi.timeline.instant_files import TimelineLog

_START: Final = "hoodie.datasource.streaming.startOffset"
_NO_LIMIT: Final = (1 << 63) - 1
_MOVES_ROWS: Final = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations of commits that change no rows."""
_CHANGED: Final = (
    "if the columns of the table have changed, start the query again: it goes on from its "
    "checkpoint; a schema() that is given needs the types of the table"
)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Maximum size of a batch."""

    commits: int
    rows: int
    bytes: int

    @property
    def are_set(self) -> bool:
        return (self.commits, self.rows, self.bytes) != (_NO_LIMIT, _NO_LIMIT, _NO_LIMIT)

    def allow(self, commits: int, rows: int, bytes: int) -> bool:
        return commits <= self.commits and rows <= self.rows and bytes <= self.bytes


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream as its options describe it."""

    path: str
    start: str
    options: Options
    limits: ReadLimits
    fails_on_loss: bool
    partition_bytes: int
    storage: Mapping[str, Any]

    @property
    def fs(self) -> FileSystem:
        return locate(self.path, storage_options=self.storage)


def stream_request(options: Mapping[str, str]) -> StreamRequest:
    """The stream described by options.  Raises OptionError."""
    found = given(options)
    parsed = parse_options(found.hoodie)
    query = parsed.query
    if query.as_of or query.since or query.until or query.query_type == "read_optimized":
        raise OptionError(
            "the only bound of a stream is its start",
            option=_START,
            hint="omit as.of.instant, the query type and the begin and end instants",
        )
    names = ("maxCommitsPerTrigger", "maxRowsPerTrigger", "maxBytesPerTrigger")
    limits = ReadLimits(*(found.size(name, _NO_LIMIT) for name in names))
    return StreamRequest(
        found.path,
        (query.start or "earliest").strip(),
        parsed,
        limits,
        _flag(found, "failOnDataLoss"),
        found.size("maxPartitionBytes", 128 << 20),
        found.storage,
    )


def _flag(found: Given, name: str) -> bool:
    text = found.source.get(name.lower(), "true").strip().lower()
    if text not in ("true", "false"):
        raise OptionError("invalid option value", option=name, value=text, hint="true or false")
    return text == "true"


class TableStream(DataSourceStreamReader):
    """Reads the columns of `schema` from one offset to another."""

    def __init__(self, settings: StreamRequest, schema: StructType) -> None:
        self.settings = settings
        self.schema = schema
        self.target: Position | None = None

    @line_first()
    def initialOffset(self) -> dict[str, str]:
        return read_current(self._state, self._initial)

    def _initial(self, state: TableState) -> dict[str, str]:
        match self.settings.start.lower():
            case "earliest":
                return {"instant": BEFORE_ALL_COMMITS}
            case "latest":
                return {"instant": newest_offset(state, BEFORE_ALL_COMMITS)}
        return {"instant": as_position(state, self.settings.start)}

    @line_first()
    def after(self, start: Position, limits: ReadLimits | None) -> dict[str, str]:
        """The end offset of a batch that begins at `start`; `start` if there is nothing to read."""
        return read_current(self._state, lambda state: self._end(state, start, limits))

    def _end(self, state: TableState, start: Position, limits: ReadLimits | None) -> dict[str, str]:
        self._check_not_ahead(state, start)
        return {"instant": batch_end(state, start, limits, until=self.target)}

    def _check_not_ahead(self, state: TableState, start: Position) -> None:
        last = newest_offset(state, BEFORE_ALL_COMMITS)
        if (
            self.settings.fails_on_loss
            and start > last
            and not _is_future(self.settings, state, start)
        ):
            raise SnapshotExpiredError(
                "the stream is ahead of the table, which was restored or recreated",
                path=self.settings.path,
                offset=start,
                newest=last,
                hint="start the stream from a new checkpoint, or set failOnDataLoss=false",
            )

    @line_first()
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        since, until = Position(start["instant"]), Position(end["instant"])
        if since >= until:
            return []
        plan = read_current(
            self._state,
            lambda state: plan_changes(state, self.settings, self.schema, since, until),
        )
        return list(partitions(plan.tasks, self.settings.partition_bytes))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on workers."""
        return read_slices(partition)

    def _state(self) -> TableState:
        return load_state(self.settings.fs, self.settings.options.read, for_reading=True)


def _is_future(settings: StreamRequest, state: TableState, start: Position) -> bool:
    """Whether the offset is the requested start of the stream, which may be in the future."""
    if settings.start.lower() in ("earliest", "latest"):
        return False
    return start == as_position(state, settings.start)


def commits_after(state: TableState, since: Position) -> Iterator[Instant]:
    """Commits after `since` and before any pending one, in the order of their positions.

    A batch does not end at a commit before the first active one: its files may have been cleaned.
    """
    pending = None
    if not state.log.layout.has_completion_times:
        pending = next((i.time for i in state.timeline.pending if _brings_rows(state.log, i)), None)
    first = min((i.position for i in state.timeline.commits), default=since)
    for instant in state.commits:
        if pending is not None and instant.position > pending:
            return
        if instant.position > since and instant.position >= first:
            yield instant


def _brings_rows(log: TimelineLog, pending: Instant) -> bool:
    """Whether a pending instant may add rows when it completes."""
    return pending.action in COMMITS and not log.is_clustering(pending)


def newest_offset(state: TableState, since: Position) -> Position:
    """The position of the last commit that can be read; `since` if none is later."""
    last = since
    for instant in commits_after(state, since):
        last = instant.position
    return last


def batch_end(
    state: TableState, since: Position, limits: ReadLimits | None, *, until: Position | None
) -> Position:
    """The end offset of a batch; see the module.  Reads the metadata of commits after `since`."""
    last = since
    commits = rows = size = 0
    for instant in commits_after(state, since):
        end, commit = instant.position, state.commit(instant)
        if until is not None and end > until:
            break
        if commit.operation not in _MOVES_ROWS:
            commits += 1
            rows += sum(stat.insert_count + stat.update_count for stat in commit.stats)
            size += sum(stat.write_bytes or stat.size_bytes for stat in commit.stats)
            if limits is not None and commits > 1 and not limits.allow(commits, rows, size):
                break
        last = end
    return last


def plan_changes(
    state: TableState,
    settings: StreamRequest,
    schema: StructType,
    since: Position,
    until: Position,
) -> ScanPlan:
    """The changes between two offsets.

    Raises SnapshotExpiredError, SchemaError if the table has not the columns of the stream.
    """
    if lacking := sorted(set(schema.names) - set(state.schema().names)):
        raise SchemaError(
            "the table has no such columns any more", columns=", ".join(lacking), hint=_CHANGED
        )
    changes = ChangeRange(
        since, until, HollowCommitPolicy.BLOCK, settings.options.read.partition_glob
    )
    request = ScanRequest(columns=tuple(schema.names), changes=changes)
    plan = plan_scan(state, request) if settings.fails_on_loss else _whole(state, request)
    if plan is None:
        where = range_filter(state, changes)
        now = replace(request, where=where, changes=replace(changes, until=None))
        plan = plan_scan(state, now)
    check_types(plan.schema, schema, hint=_CHANGED)
    return plan


def _whole(state: TableState, request: ScanRequest) -> ScanPlan | None:
    """The plan if all of its files still exist, otherwise None.  Checks each file."""
    try:
        plan = plan_scan(state, request)
    except SnapshotExpiredError:
        return None
    paths = (file.path for task in plan.tasks for file in task.slice.files)
    return plan if all(map(state.fs.exists, paths)) else None
