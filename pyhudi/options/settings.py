"""All settings, as frozen dataclasses.

The name of a field states its unit; its comment the reason for its default.  The modules of
`names/` map `hoodie.*` names to these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pyhudi.errors import OptionError
from pyhudi.options.catalogs import CatalogOptions
from pyhudi.options.commit_hooks import CallbackOptions, CommitChecks
from pyhudi.options.concurrent_writers import Concurrency, LockRules, check_positive
from pyhudi.options.indexes import IndexKind, IndexRules
from pyhudi.options.service_settings import ClusteringOptions, CompactionOptions, ExpiryOptions

DEFAULT_TABLE_VERSION: Final = 9
"""The version of a new table that names none: as of Apache Hudi 1.1 and later."""


class LogFormat(Enum):
    """Format of the data blocks that a merge-on-read write appends."""

    PARQUET = "parquet"
    AVRO = "avro"


class KnownKeys(Enum):
    """How an insert treats rows whose key is in the table."""

    INSERT = "insert"  # the table then has the key twice
    DROP = "drop"
    FAIL = "fail"


class HollowCommitPolicy(Enum):
    """How an incremental read treats a pending write before a completed one."""

    FAIL = "fail"
    BLOCK = "block"
    USE_TRANSITION_TIME = "use_transition_time"


class SchemaMode(Enum):
    """How far a batch may change the schema of its table."""

    STRICT = "strict"  # no changes
    ADD = "add"  # new nullable columns and nested fields
    WIDEN = "widen"  # ADD, and wider types


@dataclass(frozen=True, slots=True)
class FileSizing:
    """The sizes of base files.  Used by write/placement/assignment."""

    file_bytes_max: int = 125_829_120  # a base file of this size is read in well under a second
    small_file_bytes: int = 104_857_600  # smaller files take inserts before new ones are created
    record_bytes: int | None = None  # if no commit states it; None: measured in the batch
    rewrite_ratio_max: float = 4.0  # MOR: inserts join a small file at most this much larger,
    rewrite_bytes_free: int = 16 << 20  # or up to this size, as the rewrite is fast
    small_files_max: int = 1  # MOR: small files of a partition that one write extends
    rows_per_file: int | None = None  # None: as many as fit into file_bytes_max
    estimate_threshold: float = 1.0  # of small_file_bytes: smallest commit to estimate from
    log_file_bytes_max: int = 1 << 30  # one write's log of a file group is split at this size
    log_block_bytes_max: int = 256 << 20  # in memory: readers hold one block at a time

    def __post_init__(self) -> None:
        check_positive("hoodie.parquet.max.file.size", self.file_bytes_max)
        check_positive("hoodie.logfile.max.size", self.log_file_bytes_max)
        check_positive("hoodie.logfile.data.block.max.size", self.log_block_bytes_max)


@dataclass(frozen=True, slots=True)
class BaseFileOptions:
    """Encoding of base files.  Used by formats/base_file."""

    codec: str = "zstd"  # smaller and faster to write than gzip; read by every Hudi reader
    codec_level: int | None = None  # None: 1 for zstd, else the codec's own default
    row_group_rows: int = 256 * 1024  # readers skip by row group; larger ones compress no better
    row_group_bytes: int = 64 << 20  # in memory: held by a task when rows are wide
    page_bytes: int = 1 << 20
    bloom_enabled: bool = True
    bloom_kind: str = "DYNAMIC_V0"
    bloom_entries: int = 60_000  # at most: a filter is sized by the rows of its file
    bloom_fpp: float = 1e-9
    bloom_entries_max: int = 100_000

    def __post_init__(self) -> None:
        if self.codec not in ("zstd", "gzip", "snappy", "lz4", "none"):
            raise OptionError(
                "codec is not supported by every Hudi reader",
                option="hoodie.parquet.compression.codec",
                value=self.codec,
                hint="use zstd, gzip, snappy, lz4_raw or uncompressed",
            )
        if self.bloom_kind not in ("SIMPLE", "DYNAMIC_V0"):
            raise OptionError(
                "unknown bloom filter",
                option="hoodie.bloom.index.filter.type",
                value=self.bloom_kind,
                hint="use SIMPLE or DYNAMIC_V0",
            )
        check_positive("hoodie.parquet.page.size", self.page_bytes)


class MarkerForm(Enum):
    """How a write announces its files.  Used by transaction/markers."""

    AUTOMATIC = "automatic"  # TOGETHER for many files a task, DIRECT for few
    DIRECT = "DIRECT"  # an empty file for each file
    TOGETHER = "TIMELINE_SERVER_BASED"  # a text file for each task, as Apache Hudi's default


class SortMode(Enum):
    """The order of rows in the new files of a bulk insert.  Used by write/placement/sorted_insert.

    Files of one partition have similar sizes in every mode: they follow the bytes, not the tasks.
    """

    NONE = "NONE"  # in input order
    GLOBAL_SORT = "GLOBAL_SORT"  # by record key; the key ranges of files do not overlap
    PARTITION_SORT = "PARTITION_SORT"  # by record key within each file
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"  # one file filled after another
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"  # the same here


@dataclass(frozen=True, slots=True)
class BulkInsert:
    """Sort columns, if any, replace the mode: rows are sorted by them over all files of a
    partition."""

    sort_mode: SortMode = SortMode.NONE
    sort_columns: tuple[str, ...] = ()
    ends_with_key: bool = True  # rows equal in all sort columns are sorted and distributed by key

    @property
    def sorts_files(self) -> bool:
        """Whether each file is sorted."""
        return self.sorts_partitions or self.sort_mode is SortMode.PARTITION_SORT

    @property
    def sorts_partitions(self) -> bool:
        """Whether the ranges of a partition's files do not overlap."""
        return bool(self.sort_columns) or self.sort_mode is SortMode.GLOBAL_SORT

    @property
    def fills_files(self) -> bool:
        """Whether files are filled one after another instead of evenly."""
        return self.sort_mode in (
            SortMode.PARTITION_PATH_REPARTITION,
            SortMode.PARTITION_PATH_REPARTITION_AND_SORT,
        )


@dataclass(frozen=True, slots=True)
class IndexSize:
    """The number of file groups of a record index built for the rows of a table."""

    growth: float = 1.3  # capacity per existing row
    group_bytes: int = 48_000_000  # a million entries: lookups in larger groups are slower
    groups_max: int = 10_000


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The file groups of one partition in a record index by partition, as Apache Hudi's."""

    least: int = 1
    most: int = 10


@dataclass(frozen=True, slots=True)
class FileFacts:
    """File information in the metadata table, besides sizes; group counts are Apache Hudi's.

    A partition that a table already has is always maintained.
    """

    column_stats: bool = False  # readers skip files by column ranges
    column_stats_groups: int = 2
    stats_columns: tuple[str, ...] = ()  # versions 8 and 9; none: the first of the table
    stats_columns_max: int = 32
    bloom_filters: bool = False  # readers skip files by key without reading footers
    bloom_filters_groups: int = 4


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write treats its rows.  Used by write/ and operations/."""

    sizing: FileSizing = field(default_factory=FileSizing)
    base_file: BaseFileOptions = field(default_factory=BaseFileOptions)
    log_format: LogFormat = LogFormat.PARQUET  # several times faster to write and read than Avro
    partial_schema: str | None = None  # Avro; the columns that an upsert sets, None or empty: all
    record_positions: bool = True  # in log blocks, where the table version has them
    combine_before_upsert: bool = True
    combine_before_insert: bool = False
    update_partition_path: bool = False  # a record keeps its partition if a write gives another one
    index: IndexKind | None = None  # None: the table's
    index_rules: IndexRules = field(default_factory=IndexRules)
    shadow: IndexKind | None = None  # a second index, updated and compared with the active one
    keep_record_index: bool | None = None  # None: if it is the active index or already exists
    keep_partitioned_index: bool = False  # a record index for each partition of the table
    known_keys: KnownKeys = KnownKeys.INSERT
    bulk_insert: BulkInsert = field(default_factory=BulkInsert)
    facts: FileFacts = field(default_factory=FileFacts)
    bucket_count: int = 10  # record index groups of a new table, as Apache Hudi's default
    index_size: IndexSize = field(default_factory=IndexSize)
    partition_groups: GroupLimits = field(default_factory=GroupLimits)
    lock: LockRules = field(default_factory=LockRules)
    lock_seconds: float = 60.0  # to wait for other writers
    lock_retries: int = 0  # further waits of `lock_seconds`
    lock_retry_seconds: float = 5.0  # between two waits
    concurrency: Concurrency = field(default_factory=Concurrency)
    metadata_enabled: bool = True
    metadata_compact_after: int = 10  # delta commits: readers open one log for each
    schema_mode: SchemaMode = SchemaMode.WIDEN  # as Apache Hudi
    null_for_missing: bool = False  # if a batch lacks columns: an error, as values would be lost
    reconcile_schema: bool = False  # as `null_for_missing`, under Apache Hudi's other name
    rollback_by_markers: bool = True  # off: files of a crashed write are found by listing
    into_clustered: bool = False  # a write may change a group of a pending clustering
    rolls_back_clusterings: bool = False  # such a write rolls the plan back
    marker_form: MarkerForm = MarkerForm.AUTOMATIC
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    callback: CallbackOptions = field(default_factory=CallbackOptions)
    checks: CommitChecks = field(default_factory=CommitChecks)

    @property
    def drops_clusterings(self) -> bool:
        """Whether a write into a group of a pending clustering rolls the plan back."""
        return self.into_clustered and self.rolls_back_clusterings


class CleaningPolicy(Enum):
    """Which file versions a clean retains for older readers."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """When table services run, and their limits.  Used by services/ and operations/."""

    enabled: bool = True  # off: none runs after a write, regardless of the fields below
    failures_raise: bool = False  # whether a failed service after a write raises or is reported
    archival_failures_raise: bool = False  # likewise, for archival only
    compacts_inline: bool = False  # after a write that makes it due
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
    expiry: ExpiryOptions = field(default_factory=ExpiryOptions)
    cleans_inline: bool = True  # after a write, if a file is no longer needed
    clean_after_commits: int = 1  # since the last clean, before a write runs another one
    cleaning: CleaningPolicy = CleaningPolicy.KEEP_LATEST_COMMITS
    commits_retained: int = 10
    versions_retained: int = 3
    hours_retained: int = 24
    clustering: ClusteringOptions = field(default_factory=ClusteringOptions)
    cleans_incrementally: bool = True  # considers only partitions changed since the last clean
    clean_partitions: tuple[str, ...] = ()  # the only ones a clean considers; empty: all
    clean_pattern: str | None = None  # likewise, a regular expression for the whole path
    archives_inline: bool = True  # after a write that makes more than `commits_retained_max`
    commits_retained_min: int = 20  # commits, cleans and rollbacks each, left by an archival
    commits_retained_max: int = 30  # instants of a kind before an archival starts
    archives_beyond_savepoint: bool = False  # off: a restore needs the instants between
    archives_behind_clean: bool = False  # archives nothing that the last clean retained
    archive_batch: int = 10  # records in memory, and in one block of the archive
    merges_archive: bool = False
    archive_merge_count: int = 10
    archive_merge_bytes: int = 20 << 20  # larger files of the archive are not merged
    history_merge_count: int = 10  # layout 2: files of a level that are merged into the next
    history_merge_bytes: int = 1000 << 20  # a merge takes no more files once it has as many bytes
    history_versions: int = 3  # that readers of the archive can still be using

    def __post_init__(self) -> None:
        if self.commits_retained_max <= self.commits_retained_min:
            raise OptionError(
                "archival must retain fewer commits than the number that starts it",
                option="hoodie.keep.max.commits",
                value=self.commits_retained_max,
                least=self.commits_retained_min + 1,
            )
        if self.filters_cleaning and self.cleans_incrementally:
            raise OptionError(
                "partition filters apply only to cleans that consider all partitions",
                option="hoodie.clean.partition.filter.selected, .regex",
                hint="set hoodie.clean.incremental.enabled=false",
            )
        check_positive("hoodie.compact.inline.max.delta.commits", self.compaction.after_commits)
        check_positive("hoodie.compaction.target.io", self.compaction.mib_max)

    @property
    def filters_cleaning(self) -> bool:
        """Whether a clean skips some partitions."""
        return bool(self.clean_partitions) or self.clean_pattern is not None


@dataclass(frozen=True, slots=True)
class Merging:
    """Merge rules given by the caller when a table is opened.

    delete_field, delete_marker: a column, and the value (as text) that makes a row a delete.
    function: merges stored and new records; see `open_table`.
    """

    delete_field: str | None = None
    delete_marker: str | None = None
    function: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a table is read."""

    metadata_enabled: bool = True  # list through the metadata table if it is valid
    data_skipping: bool = True  # skip files by column statistics or bloom filters
    hollow_commits: HollowCommitPolicy = (
        HollowCommitPolicy.FAIL
    )  # as Apache Hudi: a read must not miss rows silently
    incremental_fallback: bool = False  # if files of the range are cleaned: read the rest
    schema_of_end: bool = False  # incremental reads: columns at the range's end, not now
    partition_glob: str | None = None  # partitions whose changes are read; None: all
    source_folder: str | None = None  # of a bootstrapped table's files; None: the table's
    lookup_adaptive: bool = True  # record index: seek or scan, per file, by estimated cost
    lookup_method: str = "seek"  # if not adaptive
    merging: Merging = field(default_factory=Merging)

    @property
    def lookup(self) -> str:
        """How HFiles of the record index are read: "auto", "seek" or "scan"."""
        return "auto" if self.lookup_adaptive else self.lookup_method


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Properties of a new table that are not arguments.  None: not set."""

    hive_style: bool | None = None  # `city=sf` as the name of a partition's folder
    slashes: bool | None = None  # `2026/11/21` as the path of the partition 2026-11-21
    url_encoded: bool | None = None  # special characters of values as `%XX`
    timezone: str | None = None  # of instants: "UTC" (also None) or "LOCAL"
    cdc: bool | None = None  # whether rewrites of base files log their changes
    cdc_mode: str | None = None  # content of the change log; None: before and after images
    database: str | None = None  # of the catalog; part of the checksum of a table's properties
    payload_class: str | None = None
    merge_mode: str | None = None
    merge_strategy: str | None = None
    partial_update: str | None = None  # mode of version 9: IGNORE_DEFAULTS or FILL_UNAVAILABLE
    version: int | None = None  # 6, 8 or 9; None: `DEFAULT_TABLE_VERSION`
    auto_upgrade: bool = False  # writes upgrade a table of a lower version
    default_partition: bool = False  # a partition `default` does not prevent an upgrade
    timeline_layout: int | None = None  # 1 or 2, as the version has it
    bare_complex_keys: bool | None = None  # complex, one field: `v`, not `f:v`; None: as 1.2.0


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The table and the operation as stated by options, for callers without arguments for them.

    None and empty: not set.  If an API has the argument too, it checks that the two agree.
    """

    name: str | None = None
    table_type: str | None = None  # "COPY_ON_WRITE" or "MERGE_ON_READ"
    operation: str | None = None  # "upsert", "insert", "bulk_insert", "delete", ...
    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] | None = None  # (): set, and empty
    ordering: tuple[str, ...] = ()
    key_generator: str | None = None  # a member of KeyGeneratorKind, by name
    partitions_to_delete: tuple[str, ...] = ()
    is_overwrite_static: bool | None = None  # insert_overwrite: None is dynamic
    partitions_to_overwrite: tuple[str, ...] = ()  # by a static insert_overwrite; empty: all


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A read as stated by options, for callers without arguments for it.  None: not set."""

    query_type: str | None = None  # "snapshot", "read_optimized" or "incremental"
    as_of: str | None = None
    since: str | None = None  # exclusive
    until: str | None = None  # inclusive
    start: str | None = None  # of a stream: "earliest", "latest" or a point in time, exclusive


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How the batches of a stream are written."""

    identifier: str | None = None  # of the writing stream; None: the streaming query's id
    retry_count: int = 3  # of failures that may be transient; then the stream fails
    retry_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class TimestampSettings:
    """How the timestamp key generator reads and prints times; `hoodie.keygen.timebased.*`.

    None: not set.  Formats are Java's.
    """

    timestamp_type: str | None = None
    input_formats: str | None = None
    input_delimiter: str | None = None  # a regular expression; None: a comma
    output_format: str | None = None
    scalar_unit: str | None = None  # of SCALAR; None: seconds
    timezone: str | None = None  # both zones, unless set separately
    input_timezone: str | None = None
    output_timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """All settings of one opened table.

    ignored: names accepted without effect.  mapped: names whose values were translated, with the
    result.
    """

    write: WriteOptions = field(default_factory=WriteOptions)
    read: ReadOptions = field(default_factory=ReadOptions)
    services: ServiceOptions = field(default_factory=ServiceOptions)
    table: TableOptions = field(default_factory=TableOptions)
    request: TableRequest = field(default_factory=TableRequest)
    query: QueryRequest = field(default_factory=QueryRequest)
    stream: StreamOptions = field(default_factory=StreamOptions)
    keygen: TimestampSettings = field(default_factory=TimestampSettings)
    catalog: CatalogOptions = field(default_factory=CatalogOptions)
    ignored: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
