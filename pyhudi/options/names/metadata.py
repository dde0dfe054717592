"""Option names of the metadata table and its partitions."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured, refused, refused_all, without_effect
from pyhudi.options.value_types import BYTES, FLAG, NAMES, count, number

_NO_BLOOM: Final = "files of the metadata table have no bloom filters"

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        "hoodie.metadata.enable", FLAG, "read.metadata_enabled",
        "false: reads list the store; writes keep the metadata table anyway",
    ),
    honoured(
        "hoodie.metadata.global.record.level.index.enable", FLAG, "write.keep_record_index",
        "true: maintained with every index type; an existing record index is always maintained",
        aliases=("hoodie.metadata.record.index.enable",),
    ),
    honoured(
        "hoodie.metadata.global.record.level.index.min.filegroup.count", count(1, 10_000),
        "write.shard_count", aliases=("hoodie.metadata.record.index.min.filegroup.count",),
    ),
    honoured(
        "hoodie.metadata.global.record.level.index.max.filegroup.count", count(1, 10_000),
        "write.index_size.groups_max", "of an index that is built for the rows of a table",
        aliases=("hoodie.metadata.record.index.max.filegroup.count",),
    ),
    honoured(
        "hoodie.metadata.record.index.growth.factor", number(0.1, 100.0),
        "write.index_size.growth", "default: 1.3",
    ),
    honoured(
        "hoodie.metadata.record.index.max.filegroup.size", BYTES, "write.index_size.group_bytes",
        "48 bytes per entry; default: 48000000, as lookups in large groups are slow",
    ),
    refused(
        "hoodie.metadata.record.level.index.defer.init",
        "an index is built by the write that enables it", harmless=("false",),
    ),
    honoured(
        "hoodie.metadata.record.level.index.max.filegroup.count", count(1, 10_000),
        "write.partition_groups.most", "of each partition in a partitioned record index",
        aliases=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    ),
    honoured(
        "hoodie.metadata.record.level.index.min.filegroup.count", count(1, 10_000),
        "write.partition_groups.least", "of each partition in a partitioned record index",
        aliases=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    ),
    honoured(
        "hoodie.metadata.record.level.index.enable", FLAG, "write.keep_partitioned_index",
        "true: a record index with file groups for each partition, where the table has none; an "
        "existing one is always maintained",
    ),
    honoured("hoodie.metadata.index.column.stats.enable", FLAG, "write.facts.column_stats"),
    honoured(
        "hoodie.metadata.index.column.stats.file.group.count", count(1, 10_000),
        "write.facts.column_stats_groups",
    ),
    honoured("hoodie.metadata.index.bloom.filter.enable", FLAG, "write.facts.bloom_filters"),
    honoured(
        "hoodie.metadata.index.column.stats.column.list", NAMES, "write.facts.stats_columns",
        "when the statistics of a table of version 8 or 9 are created; version 6 has those of "
        "every primitive column",
    ),
    honoured(
        "hoodie.metadata.index.column.stats.max.columns.to.index", count(1),
        "write.facts.stats_columns_max", "as the list of columns, where that is empty",
    ),
    *without_effect(
        "the filters are those of the record key", "hoodie.metadata.index.bloom.filter.column.list"
    ),
    honoured(
        "hoodie.metadata.index.bloom.filter.file.group.count", count(1, 10_000),
        "write.facts.bloom_filters_groups",
    ),
    refused(
        "hoodie.metadata.bloom.filter.enable", _NO_BLOOM,
        "hoodie.metadata.index.bloom.filter.enable for filters of the data files",
        harmless=("false",),
    ),
    *without_effect(
        _NO_BLOOM,
        "hoodie.metadata.bloom.filter.dynamic.max.entries",
        "hoodie.metadata.bloom.filter.fpp",
        "hoodie.metadata.bloom.filter.num.entries",
        "hoodie.metadata.bloom.filter.type",
    ),
    honoured(
        "hoodie.metadata.compact.max.delta.commits", count(1), "write.metadata_compact_after"
    ),
    *without_effect(
        "the metadata table is compacted by the number of its delta commits",
        "hoodie.metadata.compact.max.delta.seconds",
    ),
    refused(
        "hoodie.metadata.compact.trigger.strategy",
        "the metadata table is compacted by the number of its delta commits",
        "hoodie.metadata.compact.max.delta.commits", harmless=("NUM_COMMITS",),
    ),
    refused(
        "hoodie.metadata.auto.initialize", "writes keep the metadata table",
        harmless=("true",),
    ),
    refused(
        "hoodie.metadata.index.async", "an index is built by the write that enables it",
        harmless=("false",),
    ),
    refused(
        "hoodie.metadata.index.drop", "a write drops no index", harmless=("",)
    ),
    *refused_all(
        "a write creates no index; existing ones are maintained",
        "table.index.create(kind, column, ...)",
        "hoodie.index.name",
        "hoodie.expression.index.function",
        "hoodie.expression.index.type",
        "hoodie.metadata.index.expression.column",
        "hoodie.metadata.index.expression.file.group.count",
        "hoodie.metadata.index.expression.options",
        "hoodie.metadata.index.secondary.column",
    ),
    *without_effect(
        "existing indexes are maintained; table.index.create() and drop() change them",
        "hoodie.metadata.index.secondary.enable",
        "hoodie.metadata.index.expression.enable",
    ),
    refused(
        "hoodie.metadata.log.compaction.enable", "the metadata table has no log compaction",
        harmless=("false",),
    ),
    refused(
        "hoodie.metadata.streaming.write.enabled",
        "the metadata table is written after the files, in the same commit",
        harmless=("false",),
    ),
    refused(
        "hoodie.metadata.write.concurrency.mode", "the table lock protects it",
        harmless=("SINGLE_WRITER",),
    ),
    refused(
        "hoodie.metadata.table.service.manager.enabled", "services run in the writer",
        harmless=("false",),
    ),
    refused(
        "hoodie.metadata.dir.filter.regex",
        "every partition of the table is in its metadata table", harmless=("",),
    ),
    *without_effect(
        "tunes how Apache Hudi builds, stores or reads its metadata table",
        "_hoodie.metadata.ignore.spurious.deletes",
        "hoodie.expression.index.range.metadata.storage.level",
        "hoodie.hfile.block.size",
        "hoodie.hfile.compression.algorithm",
        "hoodie.hfile.max.file.size",
        "hoodie.hfile.writes.allow.duplicates",
        "hoodie.metadata.auto.delete.partitions",
        "hoodie.metadata.derive.from.datatable.clean.policy",
        "hoodie.metadata.file.cache.max.size.mb",
        "hoodie.metadata.index.bloom.filter.parallelism",
        "hoodie.metadata.index.check.timeout.seconds",
        "hoodie.metadata.index.column.stats.inMemory.projection.threshold",
        "hoodie.metadata.index.column.stats.parallelism",
        "hoodie.metadata.index.column.stats.processing.mode.override",
        "hoodie.metadata.index.expression.parallelism",
        "hoodie.metadata.index.partition.stats.file.group.count",
        "hoodie.metadata.index.partition.stats.parallelism",
        "hoodie.metadata.index.secondary.parallelism",
        "hoodie.metadata.log.compaction.blocks.threshold",
        "hoodie.metadata.max.deltacommits.when_pending",
        "hoodie.metadata.max.init.parallelism",
        "hoodie.metadata.max.logfile.size",
        "hoodie.metadata.max.reader.buffer.size",
        "hoodie.metadata.max.reader.memory",
        "hoodie.metadata.metrics.enable",
        "hoodie.metadata.optimized.log.blocks.scan.enable",
        "hoodie.metadata.range.repartition.random.seed",
        "hoodie.metadata.range.repartition.sampling.fraction",
        "hoodie.metadata.range.repartition.target.records.per.partition",
        "hoodie.metadata.record.index.enable.validation.on.initialization",
        "hoodie.metadata.record.preparation.parallelism",
        "hoodie.metadata.repartition.default.partitions",
        "hoodie.metadata.repartition.min.partitions.threshold",
        "hoodie.metadata.spillable.map.path",
        "hoodie.metadata.streaming.write.datatable.write.statuses.coalesce.divisor",
        "hoodie.metadata.table.service.manager.actions",
        "hoodie.metadata.write.fail.on.table.service.failures",
    ),
)  # fmt: skip
