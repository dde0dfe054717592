"""Option names of the metadata table and its partitions."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
from pyhudi.options.value_types import BYTES, FLAG, NAMES, count, number

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
        "write.bucket_count", aliases=("hoodie.metadata.record.index.min.filegroup.count",),
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
    honoured(
        "hoodie.metadata.index.bloom.filter.file.group.count", count(1, 10_000),
        "write.facts.bloom_filters_groups",
    ),
    honoured(
        "hoodie.metadata.compact.max.delta.commits", count(1), "write.metadata_compact_after"
    ),
)  # fmt: skip
