"""Settings of the services that rewrite or expire rows.  Part of `settings`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyhudi.errors import OptionError


class CompactionTrigger(Enum):
    """When a compaction is due.  Delta commits and seconds are counted from the last one."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"  # planned or completed
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionStrategy(Enum):
    """Which slices a compaction selects; the values are Apache Hudi's class names.

    Every bounded strategy ends with the slice that exceeds `mib_max`.
    """

    LOG_SIZE = "LogFileSizeBasedCompactionStrategy"  # most log bytes first; bounded
    LOG_COUNT = "LogFileNumBasedCompactionStrategy"  # most log files first; bounded
    BOUNDED = "BoundedIOCompactionStrategy"  # in order of the file groups; bounded
    UNBOUNDED = "UnBoundedCompactionStrategy"  # all
    DAYS = "DayBasedCompactionStrategy"  # all slices of the partitions latest by path
    DAYS_BOUNDED = "DayBasedAndBoundedIOCompactionStrategy"  # the same partitions, bounded
    RECENT = "BoundedPartitionAwareCompactionStrategy"  # partitions yyyy/MM/dd from a day on
    OLD = "UnBoundedPartitionAwareCompactionStrategy"  # partitions yyyy/MM/dd before that day
    PATTERN = "PartitionRegexBasedCompactionStrategy"  # partitions that match


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """When and which logs are merged.  Defaults are Apache Hudi's."""

    trigger: CompactionTrigger = CompactionTrigger.NUM_COMMITS
    after_commits: int = 5
    after_seconds: int = 3600
    schedules_inline: bool = False  # a write that makes it due only plans it
    strategy: CompactionStrategy = CompactionStrategy.LOG_SIZE
    mib_max: int = 512_000  # read and written by one plan of a bounded strategy
    log_bytes_min: int = 0  # LOG_SIZE skips slices with fewer
    log_files_min: int = 0  # LOG_COUNT skips slices with fewer
    days: int = 10  # partitions of DAYS; days before today of RECENT and OLD
    pattern: str = ""  # PATTERN: a regular expression for the whole path
    logs_inline: bool = False  # a write that makes it due merges log blocks with each other
    log_blocks_min: int = 5  # log compaction skips slices with fewer


class ExpiryRule(Enum):
    """The start of a partition's age."""

    KEEP_BY_TIME = "KEEP_BY_TIME"  # the last commit that wrote to it
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"  # the commit that created it


@dataclass(frozen=True, slots=True)
class ExpiryOptions:
    """Deletion of partitions that have reached an age."""

    inline: bool = False  # after every write
    rule: ExpiryRule = ExpiryRule.KEEP_BY_TIME
    days: int = -1  # partitions expire only if this is positive
    partitions_max: int = 1000  # deleted by one commit
    selected: tuple[str, ...] = ()  # none: all


class Layout(Enum):
    """How clustered rows are ordered by their sort columns."""

    LINEAR = "LINEAR"  # by the first column, then the second, ...
    ZORDER = "ZORDER"  # along a curve; rows close in every column stay close
    HILBERT = "HILBERT"  # as ZORDER, with shorter jumps


class PartitionMode(Enum):
    """Which partitions a clustering plan considers."""

    NONE = "NONE"  # all
    RECENT_DAYS = "RECENT_DAYS"  # the last ones in path order
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"  # from one path to another
    DAY_ROLLING = "DAY_ROLLING"  # each hour 1/24 of them


class SliceOrder(Enum):
    """The order in which the slices of a partition are put into groups."""

    SIZE = "SIZE"  # largest first
    INSTANT_TIME = "INSTANT_TIME"  # oldest first


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """Partitions that a clustering plan considers: those named, or those that match the pattern
    and are selected by the mode."""

    selected: tuple[str, ...] = ()
    pattern: str | None = None  # a regular expression for the whole path
    mode: PartitionMode = PartitionMode.NONE
    days: int = 2  # RECENT_DAYS: how many partitions
    days_skipped: int = 0  # RECENT_DAYS: number of newest partitions skipped
    first: str = ""  # SELECTED_PARTITIONS, both included
    last: str | None = None


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """When, which and how rows are rewritten.  Defaults are Apache Hudi's."""

    inline: bool = False  # after a write that makes `after_commits` commits
    schedules_inline: bool = False  # likewise, but it is only planned
    after_commits: int = 4
    small_file_bytes: int = 300 << 20  # larger base files are not rewritten
    target_file_bytes: int = 1 << 30
    group_bytes_max: int = 2 << 30  # sorted together
    groups_max: int = 30  # of one plan
    lone_slices: bool = True  # groups of one slice are allowed
    each_slice_alone: bool = False  # every slice is sorted separately
    single_files: bool = False  # with `each_slice_alone`: a slice becomes one file, of any size
    slice_order: SliceOrder = SliceOrder.SIZE
    earliest_commit: str = ""  # earlier slices are skipped
    sort_columns: tuple[str, ...] = ()
    layout: Layout = Layout.LINEAR
    sample_rows: int = 200_000  # of a group, to choose the cuts of its files and curves
    partitions: PartitionChoice = field(default_factory=PartitionChoice)

    def __post_init__(self) -> None:
        if self.single_files and not self.each_slice_alone:
            raise OptionError(
                "separate file groups for slices need a plan with one slice per group",
                option="hoodie.clustering.execution.strategy.class",
                value="SparkSingleFileSortExecutionStrategy",
                hint="hoodie.clustering.plan.strategy.class=SparkSingleFileSortPlanStrategy",
            )
