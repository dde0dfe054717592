"""Option names of writing: operations, file sizes and how files are encoded."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured, refused, refused_all, without_effect
from pyhudi.options.settings import KnownKeys, LogFormat, SortMode
from pyhudi.options.value_types import BYTES, FLAG, NAMES, TEXT, choice, count, number

_CODECS: Final = {"uncompressed": "none", "none": "none", "gzip": "gzip", "zstd": "zstd",
                  "snappy": "snappy", "lz4_raw": "lz4", "lz4": "lz4"}  # fmt: skip
_SORT_MODES: Final = {mode.value: mode for mode in SortMode}
_LOG_FORMATS: Final = {kind.value: kind for kind in LogFormat}

ROWS: Final[tuple[Row, ...]] = (
    honoured("hoodie.parquet.max.file.size", BYTES, "write.sizing.file_bytes_max"),
    honoured("hoodie.parquet.small.file.limit", BYTES, "write.sizing.small_file_bytes"),
    honoured(
        "hoodie.copyonwrite.record.size.estimate", count(1), "write.sizing.record_bytes",
        "used until a commit states it; default: measured in a sample of the batch",
    ),
    refused(
        "hoodie.copyonwrite.insert.auto.split", "new files are sized by their bytes",
        "hoodie.copyonwrite.insert.split.size, which is enough", harmless=("true", "false"),
    ),
    honoured(
        "hoodie.copyonwrite.insert.split.size", count(1), "write.sizing.rows_per_file",
        "rows of a new file, if set; default: as many as fit",
    ),
    honoured(
        "hoodie.record.size.estimation.threshold", number(0, 1000),
        "write.sizing.estimate_threshold",
    ),
    honoured(
        "hoodie.merge.small.file.group.candidates.limit", count(0),
        "write.sizing.small_files_max",
    ),
    honoured(
        "hoodie.parquet.compression.codec", choice(_CODECS), "write.base_file.codec",
        "default: zstd",
    ),
    honoured("hoodie.parquet.page.size", BYTES, "write.base_file.page_bytes"),
    refused(
        "hoodie.parquet.block.size", "row groups are limited by row count, so readers can skip",
        "hoodie.parquet.max.file.size for the size of files", harmless=("125829120", "120mb"),
    ),
    *without_effect(
        "the size of a row is estimated from the commits", "hoodie.parquet.compression.ratio"
    ),
    honoured(
        "hoodie.parquet.bloom.filter.enabled", FLAG, "write.base_file.bloom_enabled",
        "Apache Hudi's bloom index needs the filters",
    ),
    refused(
        "hoodie.parquet.dictionary.enabled", "dictionaries are used where they reduce the size",
        harmless=("true",),
    ),
    refused(
        "hoodie.parquet.outputtimestamptype", "timestamps keep the unit of the schema",
        "cast the column before the write", harmless=("TIMESTAMP_MICROS",),
    ),
    refused(
        "hoodie.parquet.writelegacyformat.enabled", "the legacy format is not written",
        harmless=("false", ""),
    ),
    refused(
        "hoodie.parquet.write.utc-timezone.enabled", "timestamps are stored in UTC",
        harmless=("true",),
    ),
    honoured(
        "hoodie.logfile.data.block.format", choice(_LOG_FORMATS), "write.log_format",
        "default: parquet",
    ),
    honoured(
        "hoodie.logfile.data.block.max.size", BYTES, "write.sizing.log_block_bytes_max",
        "of the rows in memory",
    ),
    honoured(
        "hoodie.logfile.max.size", BYTES, "write.sizing.log_file_bytes_max",
        "every write starts a new log file; a larger one is split",
    ),
    honoured(
        "hoodie.write.record.positions", FLAG, "write.record_positions",
        "in log blocks of versions 8 and 9, with the indexes bloom and simple (default: true)",
    ),
    *without_effect(
        "inserts join file groups without logs only, so the size of logs does not count",
        "hoodie.logfile.to.parquet.compression.ratio",
    ),
    honoured("hoodie.bulkinsert.sort.mode", choice(_SORT_MODES), "write.bulk_insert.sort_mode"),
    honoured(
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns", NAMES,
        "write.bulk_insert.sort_columns", "replaces the sort mode",
    ),
    refused(
        "hoodie.bulkinsert.user.defined.partitioner.class",
        "a Java class cannot be called from Python",
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
        harmless=(
            "org.apache.hudi.execution.bulkinsert.RDDCustomColumnsSortPartitioner",
            "org.apache.hudi.execution.bulkinsert.RowCustomColumnsSortPartitioner",
        ),
    ),
    honoured(
        "hoodie.bulkinsert.sort.suffix.record_key", FLAG, "write.bulk_insert.ends_with_key",
        "true by default here, so that file sizes stay equal if many rows are equal in the "
        "sort columns; false: such rows stay in input order, in one file",
    ),
    honoured(
        "hoodie.datasource.write.insert.drop.duplicates",
        choice({"true": KnownKeys.DROP, "false": KnownKeys.INSERT}, allowed="true or false"),
        "write.known_keys", "rows of the batch with the same key are merged too",
    ),
    honoured(
        "hoodie.datasource.insert.dup.policy",
        choice({"none": KnownKeys.INSERT, "drop": KnownKeys.DROP, "fail": KnownKeys.FAIL}),
        "write.known_keys",
    ),
    refused(
        "hoodie.merge.allow.duplicate.on.inserts", "an insert does not look up its keys",
        "hoodie.datasource.insert.dup.policy=drop, or an upsert", harmless=("true",),
    ),
    honoured(
        "hoodie.datasource.write.partitions.to.delete", NAMES, "request.partitions_to_delete"
    ),
    honoured(
        "hoodie.datasource.overwrite.mode", choice({"STATIC": True, "DYNAMIC": False}),
        "request.is_overwrite_static",
    ),
    honoured(
        "hoodie.static.overwrite.partition.paths", NAMES, "request.partitions_to_overwrite",
        "partitions that insert_overwrite replaces, with or without a row in the batch",
    ),
    refused(
        "hoodie.auto.commit", "every write commits", "publish=False and table.publish",
        harmless=("true",),
    ),
    honoured(
        "hoodie.datasource.write.commitmeta.key.prefix", TEXT, None,
        "names that start with it are copied into the commit",
    ),
    refused(
        "hoodie.allow.operation.metadata.field", "it is not one of the five meta columns",
        "table.diff(a, b) returns the changes of a row", harmless=("false",),
    ),
    refused(
        "hoodie.write.track.event.time.watermark", "commits do not carry event times",
        "a custom key in the commit metadata", harmless=("false",),
    ),
    refused(
        "hoodie.write.rolling.metadata.keys", "a commit contains only the metadata of its write",
        "give the keys with every write", harmless=("",),
    ),
    refused(
        "hoodie.write.ignore.failed", "a row that cannot be written fails the write",
        "remove the row, or correct it, and write again", harmless=("false",),
    ),
    *without_effect("every executor writes the same files", "hoodie.write.executor.type"),
    *without_effect(
        "a row that cannot be written fails the write, so no share of failures is reported",
        "hoodie.memory.writestatus.failure.fraction",
    ),
    refused(
        "hoodie.io.factory.class", "a Java class cannot be called from Python",
        harmless=(
            "org.apache.hudi.io.hadoop.HoodieHadoopIOFactory",
            "org.apache.hudi.io.storage.hadoop.HoodieHadoopIOFactory",
        ),
    ),
    refused(
        "hoodie.storage.class", "a Java class cannot be called from Python",
        "storage_options of open_table",
        harmless=("org.apache.hudi.storage.hadoop.HoodieHadoopStorage",),
    ),
    *refused_all(
        "a Java class cannot be called from Python", "leave it out",
        "hoodie.avro.write.support.class",
        "hoodie.compact.merge.handle.class",
        "hoodie.fileid.prefix.provider.class",
        "hoodie.parquet.flink.rowdata.write.support.class",
        "hoodie.parquet.spark.row.write.support.class",
        "hoodie.parquet.write.config.injector.class",
        "hoodie.record.size.estimator.class",
        "hoodie.storage.layout.partitioner.class",
        "hoodie.write.concat.handle.class",
        "hoodie.write.merge.handle.class",
        "hoodie.writestatus.class",
    ),
    refused(
        "hoodie.storage.layout.type", "set with the bucket index", harmless=("DEFAULT",)
    ),
    *refused_all(
        "base files are Parquet", "hoodie.parquet.*",
        "hoodie.lance.max.file.size",
        "hoodie.lance.read.allocator.size.bytes",
        "hoodie.lance.read.metadata.allocator.size.bytes",
        "hoodie.lance.write.allocator.size.bytes",
        "hoodie.lance.write.flush.byte.watermark",
        "hoodie.orc.block.size",
        "hoodie.orc.compression.codec",
        "hoodie.orc.max.file.size",
        "hoodie.orc.stripe.size",
    ),
    *without_effect(
        "the number of tasks follows the data: parts of the batch, then file groups",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.insert.shuffle.parallelism",
        "hoodie.bulkinsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
        "hoodie.finalize.write.parallelism",
    ),
    *without_effect(
        "a write without rows creates no commit", "hoodie.allow.empty.commit",
    ),
    *without_effect(
        "every operation uses the same writer",
        "hoodie.datasource.write.row.writer.enable",
        "hoodie.write.merge.handle.fallback",
        "hoodie.parquet.field_id.write.enabled",
        "hoodie.cdc.file.group.iterator.memory.spill.bytes",
        "hoodie.fail.job.on.duplicate.data.file.detection",
        "hoodie.block.writes.on.speculative.execution",
        "hoodie.rollback.avoid.duplicate.plan",
        "hoodie.write.application.id",
        "hoodie.write.rolling.metadata.timeline.lookback.commits",
    ),
    *without_effect(
        "the record size is estimated from the newest commits and the batch",
        "_hoodie.record.size.estimator.max.commits",
        "hoodie.record.size.estimator.average.metadata.size",
    ),
)  # fmt: skip
