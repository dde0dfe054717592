"""Index kinds, their settings and their traits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final


class IndexKind(Enum):
    """How a write finds the file group of a key."""

    RECORD = "record"
    BLOOM = "bloom"
    GLOBAL_BLOOM = "global_bloom"
    SIMPLE = "simple"
    GLOBAL_SIMPLE = "global_simple"
    BUCKET = "bucket"
    ROCKSDB = "rocksdb"
    HBASE = "hbase"
    PARTITIONED_RECORD = "partitioned_record"  # a record index for each partition of the table
    ELASTIC = "elastic"  # specific to pyhudi: record index entries in files that can grow

    @property
    def traits(self) -> IndexTraits:
        """The properties in which this kind differs from the others."""
        return _TRAITS[self]

    @property
    def option(self) -> str:
        """The value of `hoodie.index.type` that selects this kind."""
        return self.traits.named or self.value.upper()

    @property
    def is_global(self) -> bool:
        return self.traits.is_global

    @property
    def is_store(self) -> bool:
        return self.traits.is_store

    @property
    def stores_entries(self) -> bool:
        return self.traits.stores_entries

    @property
    def is_record_index(self) -> bool:
        return self.traits.is_record_index


class Growth(Enum):
    """How an elastic index grows when it is full."""

    SEAL = "SEAL"  # a full bucket gets another file group
    GROUPS = "GROUPS"  # a full index gets another group of buckets, with its own hash


class BucketEngine(Enum):
    """How the bucket index computes the file group of a key."""

    SIMPLE = "SIMPLE"  # from the hash alone: the number of buckets never changes
    CONSISTENT_HASHING = "CONSISTENT_HASHING"  # from a hash ring stored for each partition


@dataclass(frozen=True, slots=True)
class RocksRules:
    """The RocksDB index.  Used by index/rocksdb/rocksdb_index and services/indexing/rocksdb."""

    folder: str | None = None  # of the stores on each machine; None: the user's cache folder
    bucket_count: int = 10  # of a new index; the default of the record index
    checkpoints_retained: int = 3  # a restore to the commit of a checkpoint reads no keys
    moves: bool = False  # a record keeps its partition if a write gives another one


@dataclass(frozen=True, slots=True)
class HBaseRules:
    """The HBase index.  Used by index/hbase/hbase_index."""

    table: str | None = None
    gateway: str | None = None  # host:port of the Thrift gateway; None: zkquorum's first host
    quorum: str | None = None
    get_batch: int = 100
    put_batch: int = 100
    gets_wait_ms: int = 0  # between two batches of a task
    puts_wait_ms: int = 0
    qps_fraction: float = 0.5  # of the region servers' capacity, for all tasks of a write
    qps_per_server: int | None = None  # rows written per second; None: unlimited
    server_count: int = 1
    connect_seconds: float = 15.0
    moves: bool = False  # a record keeps its partition if a write gives another one
    rollback_sync: bool = False  # rollbacks correct the entries immediately


@dataclass(frozen=True, slots=True)
class IndexRules:
    """Settings of each index kind.  Used by index/."""

    bloom_moves: bool = True  # global bloom: a record moves to the partition a write gives
    simple_moves: bool = True  # global simple: the same
    prune_by_ranges: bool = True  # bloom: skip files whose key range excludes the key
    bloom_by_metadata: bool = False  # bloom: read filters from the metadata table, not from footers
    record_logs_inserts: bool = False  # record index, merge-on-read: new keys may go to logs
    bucket_engine: BucketEngine | None = None  # None: the table's, else simple
    bucket_count: int | None = None  # None: the table's, else 256 for a new table
    bucket_fields: tuple[str, ...] = ()  # empty: the table's, else all record key fields
    bucket_count_max: int | None = None  # consistent hashing: split limit; None: the initial number
    bucket_count_min: int | None = None  # consistent hashing: merge limit
    split_threshold: float = 2.0  # of the target file size; larger buckets are split
    merge_threshold: float = 0.2  # of the target file size; smaller buckets are merged
    growth: Growth | None = None  # elastic (as the next three): None: the index's, else SEAL
    hash: str | None = None  # None: the index's, else `java`
    bucket_entries: int | None = None  # planned for a bucket; None: the index's, else a million
    group_load: float | None = None  # of the newest group before another opens; else 0.8
    rocksdb: RocksRules = field(default_factory=RocksRules)
    hbase: HBaseRules = field(default_factory=HBaseRules)


@dataclass(frozen=True, slots=True)
class IndexTraits:
    """Properties of an index kind.  A new kind needs a row of these and a finder.

    named               the value of `hoodie.index.type`, where it is not the kind's name
    is_global           a key is unique across partitions
    is_record_index     entries are files of the table, in buckets, written with its commits
    by_partition        a record index with separate buckets for each partition of the table
    is_store            entries are outside the table's files
    is_default          used for a new table unless another kind is requested
    is_extension        not in Apache Hudi; the table names it in a property of pyhudi
    grows               files or buckets are added while the table is written
    names_places        computes the file group of a new key: it defines the table's file groups,
                        and equal keys share one
    reads_filters       reads key ranges and bloom filters before keys
    names_deleted_keys  returns a file group for a key that a log deletes
    rereads_undone      entries of file groups of commits rolled back or rewritten are put again
    moves               whether a record moves to the partition a write gives, from the rules and
                        `hoodie.record.index.update.partition.path`
    logs_inserts        whether new keys may go to logs, and are found there
    """

    named: str = ""
    is_global: bool = False
    is_record_index: bool = False
    by_partition: bool = False
    is_store: bool = False
    is_default: bool = False
    is_extension: bool = False
    grows: bool = False
    names_places: bool = False
    reads_filters: bool = False
    names_deleted_keys: bool = False
    rereads_undone: bool = False
    moves: Callable[[IndexRules, bool], bool] = lambda rules, by_record_index: False
    logs_inserts: Callable[[IndexRules], bool] = lambda rules: False

    @property
    def stores_entries(self) -> bool:
        """Whether the index stores an entry for each key, which writes maintain."""
        return self.is_record_index or self.is_store


_RECORD: Final = IndexTraits(
    is_global=True,
    is_record_index=True,
    moves=lambda rules, by_record_index: by_record_index,
    logs_inserts=lambda rules: rules.record_logs_inserts,
)
_STORE: Final = IndexTraits(is_global=True, is_store=True)
_TRAITS: Final = {
    IndexKind.RECORD: replace(_RECORD, is_default=True, named="RECORD_INDEX"),
    IndexKind.PARTITIONED_RECORD: IndexTraits(
        named="RECORD_LEVEL_INDEX",
        is_record_index=True,
        by_partition=True,
        logs_inserts=lambda rules: rules.record_logs_inserts,
    ),
    IndexKind.ELASTIC: replace(_RECORD, is_extension=True, grows=True),
    IndexKind.BLOOM: IndexTraits(reads_filters=True, names_deleted_keys=True),
    IndexKind.GLOBAL_BLOOM: IndexTraits(
        is_global=True,
        reads_filters=True,
        moves=lambda rules, by_record_index: rules.bloom_moves,
    ),
    IndexKind.SIMPLE: IndexTraits(names_deleted_keys=True),
    IndexKind.GLOBAL_SIMPLE: IndexTraits(
        is_global=True, moves=lambda rules, by_record_index: rules.simple_moves
    ),
    IndexKind.BUCKET: IndexTraits(names_places=True, names_deleted_keys=True),
    IndexKind.ROCKSDB: replace(
        _STORE,
        is_extension=True,
        moves=lambda rules, by_record_index: rules.rocksdb.moves,
    ),
    IndexKind.HBASE: replace(
        _STORE,
        rereads_undone=True,
        moves=lambda rules, by_record_index: rules.hbase.moves,
        logs_inserts=lambda rules: True,  # as in Apache Hudi
    ),
}
