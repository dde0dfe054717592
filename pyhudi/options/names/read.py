"""Option names of reading."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
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
    honoured("hoodie.datasource.read.incr.path.glob", TEXT, "read.partition_glob"),
    honoured(
        "pyhudi.bootstrap.base.path", TEXT, "read.source_folder",
        "where the source files of a bootstrapped table are now; the folder its properties name",
    ),
    honoured(
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable", FLAG,
        "read.incremental_fallback", "if files of the range are cleaned",
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
)  # fmt: skip
