"""Option names of reading."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured, refused, refused_all, without_effect
from pyhudi.options.settings import HollowCommitPolicy
from pyhudi.options.value_types import FLAG, TEXT, choice, words

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        "hoodie.datasource.query.type", words("snapshot", "read_optimized", "incremental"),
        "query.query_type", aliases=("hoodie.datasource.view.type",),
    ),
    honoured("as.of.instant", TEXT, "query.as_of"),
    honoured("hoodie.datasource.read.begin.instanttime", TEXT, "query.since", "exclusive"),
    honoured("hoodie.datasource.read.end.instanttime", TEXT, "query.until", "inclusive"),
    refused(
        "hoodie.datasource.merge.type", "records of one key are always merged",
        'mode="read_optimized" for base files alone', harmless=("payload_combine",),
    ),
    refused(
        "hoodie.datasource.query.incremental.format", "change rows with their images have "
        "another schema", "table.capture(since, until)", harmless=("latest_state",),
    ),
    honoured("hoodie.datasource.read.incr.path.glob", TEXT, "read.partition_glob"),
    honoured(
        "pyhudi.bootstrap.base.path", TEXT, "read.source_folder",
        "where the source files of a bootstrapped table are now; the folder its properties name",
    ),
    refused(
        "hoodie.datasource.read.incr.filters", "filters are pushed down from the DataFrame",
        "changes(where=...), or .where() of the frame", harmless=("",),
    ),
    honoured(
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable", FLAG,
        "read.incremental_fallback", "if files of the range are cleaned",
    ),
    *without_effect(
        "rows that a service rewrites retain their commit, and are not returned again",
        "hoodie.datasource.read.incr.skip_cluster",
        "hoodie.datasource.read.incr.skip_compact",
    ),
    honoured(
        "hoodie.read.timeline.holes.resolution.policy",
        choice({policy.value: policy for policy in HollowCommitPolicy}), "read.hollow_commits",
    ),
    honoured("hoodie.enable.data.skipping", FLAG, "read.data_skipping"),
    honoured(
        "hoodie.datasource.read.schema.use.end.instanttime", FLAG, "read.schema_of_end",
        "of incremental reads",
    ),
    honoured(
        "hoodie.datasource.streaming.startOffset", TEXT, "query.start",
        "earliest, latest or a point in time (exclusive)",
    ),
    refused(
        "hoodie.datasource.read.extract.partition.values.from.path",
        "simple and complex key generators: from the path; others: the stored value",
        harmless=("false",),
    ),
    refused(
        "hoodie.datasource.read.paths", "a read takes the path of one table",
        "filter by the partition columns",
    ),
    refused(
        "hoodie.schema.on.read.enable", "schemas evolve on write only",
        "schema_mode of the write verbs", harmless=("false",),
    ),
    refused("hoodie.read.blob.inline.mode", "blob columns are not read"),
    refused(
        "hoodie.datasource.read.partition.value.extractor.enabled",
        "values of partition columns follow the key generator", harmless=("false",),
    ),
    *refused_all(
        "for Spark SQL functions that pyhudi does not add", "table.timeline lists instants",
        "hoodie.datasource.read.table.valued.function.filesystem.relation.subpath",
        "hoodie.datasource.read.table.valued.function.timeline.relation",
        "hoodie.datasource.read.table.valued.function.timeline.relation.archived",
        "hoodie.datasource.read.create.filesystem.relation",
    ),
    *without_effect(
        "the version is read from the table",
        "hoodie.datasource.read.incr.table.version",
        "hoodie.datasource.read.streaming.table.version",
    ),
    *without_effect(
        "the result is the same: files are pruned by partition",
        "hoodie.file.index.enable",
        "hoodie.layout.optimize.data.skipping.enable",
        "hoodie.bucket.index.query.pruning",
    ),
    *without_effect(
        "for a reader or listing that pyhudi does not have",
        "_hoodie.hfile.use.native.reader",
        "hoodie.compaction.lazy.block.read",
        "hoodie.compaction.reverse.log.read",
        "hoodie.datasource.read.file.index.list.partitions.from.catalog",
        "hoodie.datasource.read.file.index.listing.mode",
        "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
        "hoodie.datasource.read.file.index.optimize.listing.using.path.filter",
        "hoodie.datasource.read.use.new.parquet.file.format",
        "hoodie.file.group.reader.enabled",
        "hoodie.file.index.cache.spillable.mem",
        "hoodie.file.index.cache.use.spillable.map",
        "hoodie.file.listing.parallelism",
        "hoodie.hfile.block.cache.enabled",
        "hoodie.hfile.block.cache.size",
        "hoodie.hfile.block.cache.ttl.minutes",
        "hoodie.optimized.log.blocks.scan.enable",
        "hoodie.spark.polaris.catalog.class",
    ),
    *without_effect(
        "record positions are used where all log blocks of a slice have them",
        "hoodie.merge.use.record.positions",
    ),
)  # fmt: skip
