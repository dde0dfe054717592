"""The kinds of index, and what can be said of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


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
    ELASTIC = "elastic"  # pyhudi's own: entries as the record index's, in files that can grow

    @property
    def option(self) -> str:
        """Its value of `hoodie.index.type`."""
        return "RECORD_INDEX" if self is IndexKind.RECORD else self.value.upper()

    @property
    def is_global(self) -> bool:
        """Whether a key is one record, whatever partition it comes with."""
        return self.keeps_entries or self in (IndexKind.GLOBAL_BLOOM, IndexKind.GLOBAL_SIMPLE)

    @property
    def is_store(self) -> bool:
        """Whether its entries are outside the table's files."""
        return self in (IndexKind.ROCKSDB, IndexKind.HBASE)

    @property
    def keeps_entries(self) -> bool:
        """Whether it has an entry for each key, which writes keep in step."""
        return self.is_record_index or self.is_store

    @property
    def is_record_index(self) -> bool:
        """Whether its entries are files of the table, by buckets, in step with its commits."""
        return self in (IndexKind.RECORD, IndexKind.ELASTIC)


class Growth(Enum):
    """How an elastic index goes on when it is full."""

    SEAL = "SEAL"  # a full bucket gets another file group
    GROUPS = "GROUPS"  # a full index gets another group of buckets, with a hash of its own


class BucketEngine(Enum):
    """How the bucket index tells a key's file group."""

    SIMPLE = "SIMPLE"  # by the hash alone: the number of buckets never changes
    CONSISTENT_HASHING = "CONSISTENT_HASHING"  # by a ring that is kept for each partition


@dataclass(frozen=True, slots=True)
class RocksRules:
    """The RocksDB index.  Used by index/rocksdb/rocksdb_index and services/indexing/rocksdb."""

    folder: str | None = None  # of the stores on each machine; None: the user's cache
    bucket_count: int = 10  # of a new index, as the record index's default
    checkpoints_kept: int = 3  # each lets a restore to its commit go on without reading keys
    moves: bool = False  # a key that comes with another partition stays put, as the record index


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
    qps_fraction: float = 0.5  # of what the region servers bear, for all tasks of a write
    qps_per_server: int | None = None  # rows put a second; None: as fast as it goes
    server_count: int = 1
    connect_seconds: float = 15.0
    moves: bool = False  # a key that comes with another partition stays put
    rollback_sync: bool = False  # rollbacks put the entries right at once


@dataclass(frozen=True, slots=True)
class IndexRules:
    """How the kinds of index work.  Used by index/."""

    bloom_moves: bool = True  # global bloom: a key that comes with another partition moves there
    simple_moves: bool = True  # global simple: likewise
    prune_by_ranges: bool = True  # bloom: files whose key range lacks the key are not asked
    bloom_by_metadata: bool = False  # bloom: ask the metadata table, not the files' footers
    record_logs_inserts: bool = False  # record index, merge-on-read: new keys may go to logs
    bucket_engine: BucketEngine | None = None  # None: as the table says, else simple
    bucket_count: int | None = None  # None: as the table says, else 256 for a new one
    bucket_fields: tuple[str, ...] = ()  # empty: as the table says, else all record key fields
    bucket_count_max: int | None = None  # consistent hashing: none is split beyond; None: as made
    bucket_count_min: int | None = None  # likewise: none is merged below
    split_threshold: float = 2.0  # of the target file size; larger buckets are split
    merge_threshold: float = 0.2  # smaller ones are merged
    growth: Growth | None = None  # elastic: None: as the index says, else SEAL; so the next three
    hash: str | None = None  # else `java`
    bucket_entries: int | None = None  # that a bucket is planned for; else a million
    group_load: float | None = None  # of the newest group, at which another opens; else 0.8
    rocksdb: RocksRules = field(default_factory=RocksRules)
    hbase: HBaseRules = field(default_factory=HBaseRules)
