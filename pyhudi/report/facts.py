"""Facts of a report: plain values of bounded number, from which the page is made.

A part that cannot be read is `Unavailable`, with the reason.  Sizes are in bytes, durations in
seconds, times are instants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from pyhudi.health.findings import Diagnosis
from pyhudi.index.maintenance.stats import IndexStats
from pyhudi.operations.service_runs import Service

COMMITS_MAX: Final = 100
"""Newest commits whose content is read."""
RUNS_MAX: Final = 20
"""Newest cleans and rollbacks whose result is read."""
TOP: Final = 20
"""Partitions, file groups and buckets in a table of the page."""
FINDINGS_MAX: Final = 50
COLUMNS_MAX: Final = 200
"""Columns of the table on the page."""
BINS: Final = 96
"""Columns of the timeline chart."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A part of the report that could not be made.  why: a sentence."""

    why: str


_T = TypeVar("_T")
Part: TypeAlias = _T | Unavailable


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Identity of the table.  zone: of its instants.  columns: names and types, of the newest
    snapshot.  rows: None where counting them takes more than some footers."""

    name: str
    url: str
    table_type: str
    version: int
    record_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    merge_mode: str = ""
    zone: str = "UTC"
    columns: tuple[tuple[str, str], ...] = ()
    column_count: int = 0
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """Instants of one action.  bins: (bin, completed, pending) of bins that have some."""

    action: str
    completed: int
    pending: int
    bins: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TimedAction:
    """One completed action.  seconds: None if unknown."""

    instant: str
    action: str
    seconds: float | None
    is_service: bool = False


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """A write that was rolled back or is pending without a living writer.  what: a sentence."""

    instant: str
    what: str


@dataclass(frozen=True, slots=True)
class TimelineFacts:
    """The active timeline.  instants: its number; first, last: times; actions: the newest."""

    instants: int = 0
    first: str = ""
    last: str = ""
    lanes: tuple[Lane, ...] = ()
    actions: tuple[TimedAction, ...] = ()
    durations_from: str = ""
    failures: tuple[FailedWrite, ...] = ()
    rollbacks: int = 0


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """What one commit wrote."""

    instant: str
    operation: str
    changed_rows: int
    written_rows: int
    bytes_written: int
    files: int
    growth: int = 0


@dataclass(frozen=True, slots=True)
class WriteFacts:
    """The newest commits, oldest first.  total: completed commits of the active timeline.
    unreadable: commits whose content cannot be read."""

    commits: tuple[CommitPoint, ...] = ()
    total: int = 0
    unreadable: int = 0

    @property
    def changed_rows(self) -> int:
        return sum(c.changed_rows for c in self.commits)

    @property
    def written_rows(self) -> int:
        return sum(c.written_rows for c in self.commits)

    @property
    def amplification(self) -> float | None:
        """Rows written for each row changed; None if no row was changed."""
        return self.written_rows / self.changed_rows if self.changed_rows else None


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Base files of one range of sizes.  below: its end; None for the last range."""

    below: int | None
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The newest file slices of one partition."""

    path: str
    file_groups: int
    small_files: int
    size: int
    log_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """The newest file slices.  partitions: those with the most small files; small_limit: base files
    below it are small."""

    file_groups: int = 0
    base_files: int = 0
    size: int = 0
    small_files: int = 0
    small_limit: int = 0
    ranges: tuple[SizeRange, ...] = ()
    partition_count: int = 0
    partitions: tuple[PartitionFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """One file slice with logs."""

    partition: str
    file_id: str
    log_files: int
    log_bytes: int
    base_bytes: int


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Logs that a compaction would merge.  read_bytes: what it would read; slices: those with the
    most log bytes; planned: pending compaction plans."""

    is_merge_on_read: bool = False
    file_groups: int = 0
    with_logs: int = 0
    log_files: int = 0
    log_bytes: int = 0
    base_bytes: int = 0
    read_bytes: int = 0
    since_compaction: int = 0
    planned: tuple[str, ...] = ()
    slices: tuple[SliceFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class LookupFacts:
    """Measured look-up of keys that the index does not have.  seek_seconds, scan_seconds: estimates
    of both methods."""

    keys: int
    files: int
    seek_seconds: float
    scan_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """The index of the table.  stats: None for an index without entries."""

    kind: str
    stats: IndexStats | None = None
    lookup: LookupFacts | None = None


@dataclass(frozen=True, slots=True)
class ColumnOverlap:
    """How much the value ranges of files overlap in one column.  depth: files that a look-up of one
    value reads, averaged over the bounds of all files, by partition; depth_max: the most."""

    column: str
    files: int
    depth: float
    depth_max: int
    is_sorted_by: bool = False


@dataclass(frozen=True, slots=True)
class OverlapFacts:
    """Overlap of files.  sampled: files looked at, of those with the newest data."""

    columns: tuple[ColumnOverlap, ...] = ()
    sampled: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class CleanRun:
    """One completed clean.  known: deleted files whose size a commit states, `size` in total."""

    instant: str
    files: int
    known: int
    size: int


@dataclass(frozen=True, slots=True)
class CleaningFacts:
    """Data files on the store: of the newest snapshot, of older ones, and those that a clean would
    delete now.  removable: None if that is unknown."""

    snapshot_files: int = 0
    snapshot_bytes: int = 0
    older_files: int = 0
    older_bytes: int = 0
    removable_files: int | None = None
    removable_bytes: int = 0
    runs: tuple[CleanRun, ...] = ()
    why_unknown: str = ""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Everything on the page.  made_at: text."""

    table: TableFacts
    made_at: str
    timeline: Part[TimelineFacts] = field(default_factory=TimelineFacts)
    writes: Part[WriteFacts] = field(default_factory=WriteFacts)
    files: Part[SizeFacts] = field(default_factory=SizeFacts)
    logs: Part[LogFacts] = field(default_factory=LogFacts)
    index: Part[IndexFacts] = field(default_factory=lambda: IndexFacts(""))
    overlap: Part[OverlapFacts] = field(default_factory=OverlapFacts)
    diagnosis: Part[Diagnosis] = field(default_factory=lambda: Diagnosis(""))
    services: Part[tuple[Service, ...]] = ()
    cleaning: Part[CleaningFacts] = field(default_factory=CleaningFacts)
