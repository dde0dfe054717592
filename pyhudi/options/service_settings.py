"""Tunables of the services that write rows anew, or expire them.  Part of `settings`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyhudi.errors import OptionError


class CompactionTrigger(Enum):
    """When a compaction is due.  Delta commits and seconds count since the last one."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"  # planned or done
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionStrategy(Enum):
    """Which slices a compaction takes, by the names of Apache Hudi's classes.

    All that are bounded end with the slice that crosses `mib_max`.
    """

    LOG_SIZE = "LogFileSizeBasedCompactionStrategy"  # most log bytes first; bounded
    LOG_COUNT = "LogFileNumBasedCompactionStrategy"  # most log files first; bounded
    BOUNDED = "BoundedIOCompactionStrategy"  # in order of the file groups; bounded
    UNBOUNDED = "UnBoundedCompactionStrategy"  # all
    DAYS = "DayBasedCompactionStrategy"  # all of the partitions latest by path
    DAYS_BOUNDED = "DayBasedAndBoundedIOCompactionStrategy"  # of those, bounded
    RECENT = "BoundedPartitionAwareCompactionStrategy"  # partitions yyyy/MM/dd since a day
    OLD = "UnBoundedPartitionAwareCompactionStrategy"  # partitions yyyy/MM/dd before that day
    PATTERN = "PartitionRegexBasedCompactionStrategy"  # partitions that match


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """When logs are merged, and which.  Defaults are Apache Hudi's."""

    trigger: CompactionTrigger = CompactionTrigger.NUM_COMMITS
    after_commits: int = 5
    after_seconds: int = 3600
    schedules_inline: bool = False  # only plan after a write that makes it due
    strategy: CompactionStrategy = CompactionStrategy.LOG_SIZE
    mib_max: int = 512_000  # read and written by one plan, where the strategy is bounded
    log_bytes_min: int = 0  # slices with fewer are left alone by LOG_SIZE
    log_files_min: int = 0  # slices with fewer are left alone by LOG_COUNT
    days: int = 10  # partitions of DAYS; days before today of RECENT and OLD
    pattern: str = ""  # PATTERN: a regular expression for the whole path
    logs_inline: bool = False  # merge log blocks with each other after a write that makes it due
    log_blocks_min: int = 5  # slices with fewer are left alone by that


class ExpiryRule(Enum):
    """What the age of a partition counts from."""

    KEEP_BY_TIME = "KEEP_BY_TIME"  # the last commit that wrote to it
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"  # the commit that made it


@dataclass(frozen=True, slots=True)
class ExpiryOptions:
    """Partitions that have lived long enough are deleted."""

    inline: bool = False  # after every write
    rule: ExpiryRule = ExpiryRule.KEEP_BY_TIME
    days: int = -1  # none expires unless this is positive
    partitions_max: int = 1000  # deleted by one commit
    selected: tuple[str, ...] = ()  # none: all


class Layout(Enum):
    """How clustered rows are laid out by their sort columns."""

    LINEAR = "LINEAR"  # by the first column, then the second, ...
    ZORDER = "ZORDER"  # along a curve that keeps rows close which are close in every column
    HILBERT = "HILBERT"  # the same with shorter jumps


class PartitionMode(Enum):
    """Which partitions a clustering plan looks at."""

    NONE = "NONE"  # all
    RECENT_DAYS = "RECENT_DAYS"  # the last ones in order of their paths
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"  # from one path to another
    DAY_ROLLING = "DAY_ROLLING"  # each hour a 24th of them


class SliceOrder(Enum):
    """In which order the slices of a partition are put into groups."""

    SIZE = "SIZE"  # largest first
    INSTANT_TIME = "INSTANT_TIME"  # oldest first


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """Partitions that a clustering plan looks at: those named, or those that match the pattern
    and that the mode leaves."""

    selected: tuple[str, ...] = ()
    pattern: str | None = None  # a regular expression for the whole path
    mode: PartitionMode = PartitionMode.NONE
    days: int = 2  # RECENT_DAYS: how many partitions
    days_skipped: int = 0  # RECENT_DAYS: how many of the newest are left alone
    first: str = ""  # SELECTED_PARTITIONS, both included
    last: str | None = None


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """When rows are laid out anew, which, and how.  Defaults are Apache Hudi's."""

    inline: bool = False  # after a write that makes `after_commits` commits
    schedules_inline: bool = False  # likewise, but only the plan is made
    after_commits: int = 4
    small_file_bytes: int = 300 << 20  # larger base files are left as they are
    target_file_bytes: int = 1 << 30
    group_bytes_max: int = 2 << 30  # what is sorted together
    groups_max: int = 30  # of one plan
    lone_slices: bool = True  # a group of one slice is worth it
    each_slice_alone: bool = False  # every slice is sorted for itself
    single_files: bool = False  # with `each_slice_alone`: a slice becomes one file, of any size
    slice_order: SliceOrder = SliceOrder.SIZE
    earliest_commit: str = ""  # slices before are left alone
    sort_columns: tuple[str, ...] = ()
    layout: Layout = Layout.LINEAR
    sample_rows: int = 200_000  # of a group: where its files and curves are cut
    partitions: PartitionChoice = field(default_factory=PartitionChoice)

    def __post_init__(self) -> None:
        if self.single_files and not self.each_slice_alone:
            raise OptionError(
                "a file group of its own for each slice needs a plan that takes slices one by one",
                option="hoodie.clustering.execution.strategy.class",
                value="SparkSingleFileSortExecutionStrategy",
                hint="hoodie.clustering.plan.strategy.class=SparkSingleFileSortPlanStrategy",
            )
