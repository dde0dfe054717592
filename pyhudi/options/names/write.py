"""Option names of writing: operations, file sizes and how files are encoded."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
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
    honoured(
        "hoodie.parquet.bloom.filter.enabled", FLAG, "write.base_file.bloom_enabled",
        "Apache Hudi's bloom index needs the filters",
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
    honoured("hoodie.bulkinsert.sort.mode", choice(_SORT_MODES), "write.bulk_insert.sort_mode"),
    honoured(
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns", NAMES,
        "write.bulk_insert.sort_columns", "replaces the sort mode",
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
    honoured(
        "hoodie.datasource.write.commitmeta.key.prefix", TEXT, None,
        "names that start with it are copied into the commit",
    ),
)  # fmt: skip
