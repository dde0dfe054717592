"""Option names of record-level indexes, and of the bloom filters of files."""

from __future__ import annotations

from typing import Final

from pyhudi.options.indexes import BucketEngine, Growth, IndexKind
from pyhudi.options.option_row import Row, honoured
from pyhudi.options.value_types import FLAG, NAMES, TEXT, choice, count, duration, number, words

_INDEXES: Final = {
    **{kind.option: kind for kind in IndexKind},
    "GLOBAL_RECORD_LEVEL_INDEX": IndexKind.RECORD,
    "RECORD": IndexKind.RECORD,
}

_STORE: Final = "write.index_rules.hbase"

_HBASE: Final[tuple[Row, ...]] = (
    honoured("hoodie.index.hbase.table", TEXT, f"{_STORE}.table"),
    honoured(
        "pyhudi.index.hbase.gateway", TEXT, f"{_STORE}.gateway",
        "host:port of HBase's Thrift gateway; zkquorum's first host, port 9090, where it is not "
        "given",
    ),
    honoured(
        "pyhudi.index.hbase.region.servers", count(1), f"{_STORE}.server_count",
        "number of region servers of the table; the gateway does not report it",
    ),
    honoured(
        "hoodie.index.hbase.zkquorum", TEXT, f"{_STORE}.quorum",
        "its first host is the default gateway",
    ),
    honoured("hoodie.index.hbase.get.batch.size", count(1), f"{_STORE}.get_batch"),
    honoured("hoodie.index.hbase.put.batch.size", count(1), f"{_STORE}.put_batch"),
    honoured("hoodie.index.hbase.sleep.ms.for.get.batch", count(0), f"{_STORE}.gets_wait_ms"),
    honoured("hoodie.index.hbase.sleep.ms.for.put.batch", count(0), f"{_STORE}.puts_wait_ms"),
    honoured(
        "hoodie.index.hbase.max.qps.per.region.server", count(1), f"{_STORE}.qps_per_server",
        "rows written per second; default: unlimited",
    ),
    honoured("hoodie.index.hbase.qps.fraction", number(1e-6, 1.0), f"{_STORE}.qps_fraction"),
    honoured(
        "hoodie.index.hbase.zk.connection_timeout_ms", duration("ms"), f"{_STORE}.connect_seconds",
        "for an answer of the gateway",
    ),
    honoured("hoodie.hbase.index.update.partition.path", FLAG, f"{_STORE}.moves"),
    honoured("hoodie.index.hbase.rollback.sync", FLAG, f"{_STORE}.rollback_sync"),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    *_HBASE,
    honoured(
        "hoodie.index.type",
        choice(_INDEXES, allowed=", ".join(kind.option for kind in IndexKind)),
        "write.index", "default: the index of the table; ELASTIC is specific to pyhudi",
    ),
    honoured(
        "pyhudi.index.elastic.growth", choice({growth.value: growth for growth in Growth}),
        "write.index_rules.growth", "SEAL for a new index, which stores it: a full bucket gets "
        "another file group; GROUPS: a full index gets another group of buckets",
    ),
    honoured(
        "pyhudi.index.elastic.hash", TEXT, "write.index_rules.hash",
        "java for a new index, which stores it; murmur3, or a name given to pyhudi.register_hash",
    ),
    honoured(
        "pyhudi.index.elastic.bucket.entries", count(1), "write.index_rules.bucket_entries",
        "1000000 for a new index, which stores it: entries that a bucket is planned for",
    ),
    honoured(
        "pyhudi.index.elastic.load", number(0.01, 1.0), "write.index_rules.group_load",
        "0.8 for a new index, which stores it: load of the newest group at which another opens",
    ),
    honoured(
        "pyhudi.index.shadow",
        choice(_INDEXES, allowed=", ".join(kind.option for kind in IndexKind)),
        "write.shadow",
        "a second index that is updated and compared with the active one; reports count the "
        "differences",
    ),
    honoured(
        "pyhudi.index.rocksdb.folder", TEXT, "write.index_rules.rocksdb.folder",
        "folder of the stores on each machine; default: the user's cache",
    ),
    honoured(
        "pyhudi.index.rocksdb.buckets", count(1, 10_000),
        "write.index_rules.rocksdb.bucket_count", "of a new index",
    ),
    honoured(
        "pyhudi.index.rocksdb.checkpoints.retained", count(1),
        "write.index_rules.rocksdb.checkpoints_retained",
    ),
    honoured(
        "pyhudi.index.rocksdb.update.partition.path", FLAG, "write.index_rules.rocksdb.moves",
        "a key with another partition moves to it",
    ),
    honoured(
        "pyhudi.index.lookup.adaptive", FLAG, "read.lookup_adaptive",
        "record index: seek or scan in each file, by estimated cost",
    ),
    honoured(
        "pyhudi.index.lookup.method", choice({"seek": "seek", "scan": "scan"}),
        "read.lookup_method", "the method if the choice is not adaptive",
    ),
    honoured(
        "hoodie.bloom.index.filter.type", words("SIMPLE", "DYNAMIC_V0"),
        "write.base_file.bloom_kind",
    ),
    honoured(
        "hoodie.index.bloom.num_entries", count(1), "write.base_file.bloom_entries",
        "the most keys per filter; smaller files have smaller filters",
    ),
    honoured("hoodie.index.bloom.fpp", number(1e-18, 0.5), "write.base_file.bloom_fpp"),
    honoured(
        "hoodie.bloom.index.filter.dynamic.max.entries", count(1),
        "write.base_file.bloom_entries_max",
    ),
    honoured(
        "hoodie.record.index.update.partition.path", FLAG, "write.update_partition_path"
    ),
    honoured(
        "pyhudi.record.index.inserts.to.logs", FLAG, "write.index_rules.record_logs_inserts",
        "not a name of Apache Hudi: a small file group of a merge-on-read table takes new keys in "
        "its logs; only if every writer uses the record index, as others duplicate such keys",
    ),
    honoured("hoodie.bloom.index.update.partition.path", FLAG, "write.index_rules.bloom_moves"),
    honoured("hoodie.simple.index.update.partition.path", FLAG, "write.index_rules.simple_moves"),
    honoured(
        "hoodie.bloom.index.use.metadata", FLAG, "write.index_rules.bloom_by_metadata",
        "requires column_stats and bloom_filters in the metadata table",
    ),
    honoured("hoodie.bloom.index.prune.by.ranges", FLAG, "write.index_rules.prune_by_ranges"),
    honoured(
        "hoodie.index.bucket.engine", choice({engine.value: engine for engine in BucketEngine}),
        "write.index_rules.bucket_engine",
        "SIMPLE for a new table, which stores it; CONSISTENT_HASHING is for merge-on-read tables",
    ),
    honoured(
        "hoodie.bucket.index.hash.field", NAMES, "write.index_rules.bucket_fields",
        "fields of the record key; stored by a table created here",
    ),
    honoured(
        "hoodie.bucket.index.num.buckets", count(1), "write.index_rules.bucket_count",
        "256 for a new table, which stores it; required for tables that do not state it",
    ),
    honoured(
        "hoodie.bucket.index.max.num.buckets", count(1), "write.index_rules.bucket_count_max",
        "consistent hashing: a clustering splits buckets of a partition up to this number",
    ),
    honoured(
        "hoodie.bucket.index.min.num.buckets", count(1), "write.index_rules.bucket_count_min",
        "consistent hashing: a clustering merges buckets of a partition down to this number",
    ),
    honoured(
        "hoodie.bucket.index.split.threshold", number(0, 1e6), "write.index_rules.split_threshold",
        "of hoodie.parquet.max.file.size: a clustering splits larger buckets",
    ),
    honoured(
        "hoodie.bucket.index.merge.threshold", number(0, 1e6), "write.index_rules.merge_threshold",
        "of hoodie.parquet.max.file.size: a clustering merges smaller buckets",
    ),
)  # fmt: skip
