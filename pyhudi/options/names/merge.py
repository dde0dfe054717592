"""Option names of merging records, and of schemas."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured, refused, refused_all, without_effect
from pyhudi.options.value_types import FLAG, TEXT, words

_MERGER: Final = "hoodie.record.merge.mode"

ROWS: Final[tuple[Row, ...]] = (
    honoured("hoodie.combine.before.upsert", FLAG, "write.combine_before_upsert"),
    honoured("hoodie.combine.before.insert", FLAG, "write.combine_before_insert"),
    *without_effect(
        "duplicate keys are deleted once", "hoodie.combine.before.delete"
    ),
    honoured(
        "hoodie.datasource.write.payload.class", TEXT, "table.payload_class",
        aliases=("hoodie.compaction.payload.class",),
    ),
    honoured(
        _MERGER, words("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", "CUSTOM"),
        "table.merge_mode", aliases=("hoodie.write.record.merge.mode",),
    ),
    honoured(
        "hoodie.record.merge.strategy.id", TEXT, "table.merge_strategy",
        aliases=(
            "hoodie.compaction.record.merger.strategy",
            "hoodie.write.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
        ),
    ),
    honoured("hoodie.payload.delete.field", TEXT, "read.merging.delete_field"),
    honoured("hoodie.payload.delete.marker", TEXT, "read.merging.delete_marker"),
    refused(
        "hoodie.write.record.merge.custom.implementation.classes",
        "a Java class cannot be called from Python",
        "merge=a Python function, or one of the payload classes",
        harmless=(
            "org.apache.hudi.common.model.HoodieAvroRecordMerger",
            "org.apache.hudi.DefaultSparkRecordMerger",
        ),
        aliases=("hoodie.datasource.write.record.merger.impls",),
    ),
    honoured(
        "hoodie.table.partial.update.mode", words("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
        "table.partial_update", "for new tables of version 9",
    ),
    honoured(
        "hoodie.write.partial.update.schema", TEXT, "write.partial_schema",
        "an upsert logs only these columns: merge-on-read tables of versions 8 and 9",
    ),
    honoured(
        "hoodie.datasource.write.reconcile.schema", FLAG, "write.reconcile_schema",
        "columns missing in the batch are null in its rows",
    ),
    honoured(
        "hoodie.write.set.null.for.missing.columns", FLAG, "write.null_for_missing",
        "columns missing in the batch are null in its rows",
    ),
    refused(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        "columns are not dropped by a write", "create a table without the column",
        harmless=("false",),
    ),
    refused(
        "hoodie.avro.schema.external.transformation", "rows are converted to the schema",
        harmless=("false",), aliases=("hoodie.avro.schema.externalTransformation",),
    ),
    *refused_all(
        "the schema is taken from the rows", "create_table takes the table's",
        "hoodie.avro.schema",
        "hoodie.write.schema",
        "hoodie.internal.schema",
        "hoodie.bulkinsert.schema.ddl",
    ),
    *without_effect(
        "watermarks of event times are not written to commits",
        "hoodie.payload.event.time.field",
    ),
    *without_effect(
        "every batch is checked against the table's schema",
        "hoodie.avro.schema.validate",
        "hoodie.merge.data.validation.enabled",
        "hoodie.schema.cache.enable",
        "hoodie.write.concurrency.schema.conflict.resolution.enable",
    ),
)  # fmt: skip
