"""Option names of merging records, and of schemas."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
from pyhudi.options.value_types import FLAG, TEXT, words

_MERGER: Final = "hoodie.record.merge.mode"

ROWS: Final[tuple[Row, ...]] = (
    honoured("hoodie.combine.before.upsert", FLAG, "write.combine_before_upsert"),
    honoured("hoodie.combine.before.insert", FLAG, "write.combine_before_insert"),
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
)  # fmt: skip
