"""The kinds of index, and what can be said of each."""

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
    ELASTIC = "elastic"  # pyhudi's own: entries as the record index's, in files that can grow

    @property
    def traits(self) -> IndexTraits:
        """What differs between it and the other kinds."""
        return _TRAITS[self]

    @property
    def option(self) -> str:
        """Its value of `hoodie.index.type`."""
        return "RECORD_INDEX" if self.traits.is_default else self.value.upper()

    @property
    def is_global(self) -> bool:
        return self.traits.is_global

    @property
    def is_store(self) -> bool:
        return self.traits.is_store

    @property
    def keeps_entries(self) -> bool:
        return self.traits.keeps_entries

    @property
    def is_record_index(self) -> bool:
        return self.traits.is_record_index


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


@dataclass(frozen=True, slots=True)
class IndexTraits:
    """What differs between the kinds of index.  To add a kind, state these and give it a finder.

    is_global           a key is one record, whatever partition it comes with
    is_record_index     entries are files of the table, by buckets, in step with its commits
    is_store            entries are outside the table's files
    is_default          a new table has it unless another one is named
    is_extension        Apache Hudi does not have it; the table states it in a property of pyhudi
    grows               further files or buckets are added while the table is written
    names_places        it computes the file group of a new key, so the table's file groups are made
                        by it, and equal keys meet in one of them
    reads_filters       it reads key ranges and bloom filters before keys
    names_deleted_keys  it names a file group for a key that a log deletes
    rereads_undone      file groups of commits taken back or rewritten have to be put again
    moves               whether a key that comes with another partition moves there, by the rules
                        and `hoodie.record.index.update.partition.path`
    logs_inserts        whether new keys may go to logs: they are found there
    """

    is_global: bool = False
    is_record_index: bool = False
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
    def keeps_entries(self) -> bool:
        """Whether it has an entry for each key, which writes keep in step."""
        return self.is_record_index or self.is_store


_RECORD: Final = IndexTraits(
    is_global=True,
    is_record_index=True,
    moves=lambda rules, by_record_index: by_record_index,
    logs_inserts=lambda rules: rules.record_logs_inserts,
)
_STORE: Final = IndexTraits(is_global=True, is_store=True)
_TRAITS: Final = {
    IndexKind.RECORD: replace(_RECORD, is_default=True),
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
