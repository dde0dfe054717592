"""Option names of clustering."""

from __future__ import annotations

from typing import Final

from pyhudi.options.option_row import Row, honoured
from pyhudi.options.service_settings import Layout, PartitionMode, SliceOrder
from pyhudi.options.value_types import BYTES, FLAG, NAMES, TEXT, choice, class_name, count

_PLANS: Final = "hoodie.clustering.plan.strategy."
_TO: Final = "services.clustering."

_PLAN_CLASSES: Final = class_name(
    {
        "SparkSizeBasedClusteringPlanStrategy": False,
        "SparkSingleFileSortPlanStrategy": True,
        "SparkConsistentBucketClusteringPlanStrategy": False,  # the index decides
    },
    allowed="SparkSizeBasedClusteringPlanStrategy, SparkSingleFileSortPlanStrategy or "
    "SparkConsistentBucketClusteringPlanStrategy; partitions "
    "are chosen by hoodie.clustering.plan.partition.filter.mode",
)
_EXECUTION_CLASSES: Final = class_name(
    {
        "SparkSortAndSizeExecutionStrategy": False,
        "SparkSingleFileSortExecutionStrategy": True,
        "SparkConsistentBucketClusteringExecutionStrategy": False,  # the index decides
    },
    allowed="SparkSortAndSizeExecutionStrategy, SparkSingleFileSortExecutionStrategy or "
    "SparkConsistentBucketClusteringExecutionStrategy",
)
_UPDATE_CLASSES: Final = class_name(
    {"SparkRejectUpdateStrategy": False, "SparkAllowUpdateStrategy": True},
    allowed="SparkRejectUpdateStrategy or SparkAllowUpdateStrategy",
)

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        "hoodie.clustering.inline", FLAG, _TO + "inline",
        aliases=("hoodie.datasource.clustering.inline.enable",),
    ),
    honoured("hoodie.clustering.schedule.inline", FLAG, _TO + "schedules_inline"),
    honoured("hoodie.clustering.inline.max.commits", count(1), _TO + "after_commits"),
    honoured(
        "hoodie.clustering.updates.strategy", _UPDATE_CLASSES, "write.into_clustered",
        "SparkAllowUpdateStrategy: updates of a pending clustering are written; the "
        "run that executes the plan detects the conflict and rolls the plan back",
    ),
    honoured(
        "hoodie.clustering.rollback.pending.replacecommit.on.conflict", FLAG,
        "write.rolls_back_clusterings",
        "under SparkAllowUpdateStrategy: the write itself rolls the plan back",
    ),
    honoured(
        "hoodie.clustering.execution.strategy.class", _EXECUTION_CLASSES,
        _TO + "single_files",
        "SparkSingleFileSortExecutionStrategy: a group becomes one file of any size; only "
        "with the plan strategy SparkSingleFileSortPlanStrategy",
    ),
    honoured(
        "hoodie.clustering.plan.strategy.class", _PLAN_CLASSES, _TO + "each_slice_alone"
    ),
    honoured(
        "hoodie.clustering.plan.partition.filter.mode",
        choice({mode.value: mode for mode in PartitionMode}), _TO + "partitions.mode",
    ),
    honoured(_PLANS + "cluster.begin.partition", TEXT, _TO + "partitions.first"),
    honoured(_PLANS + "cluster.end.partition", TEXT, _TO + "partitions.last"),
    honoured(_PLANS + "daybased.lookback.partitions", count(1), _TO + "partitions.days"),
    honoured(
        _PLANS + "daybased.skipfromlatest.partitions", count(), _TO + "partitions.days_skipped"
    ),
    honoured(_PLANS + "partition.regex.pattern", TEXT, _TO + "partitions.pattern"),
    honoured(_PLANS + "partition.selected", NAMES, _TO + "partitions.selected"),
    honoured(_PLANS + "earliest.commit.to.cluster", TEXT, _TO + "earliest_commit"),
    honoured(
        _PLANS + "file.slices.sort.by", choice({order.value: order for order in SliceOrder}),
        _TO + "slice_order",
    ),
    honoured(_PLANS + "max.bytes.per.group", BYTES, _TO + "group_bytes_max"),
    honoured(_PLANS + "max.num.groups", count(1), _TO + "groups_max"),
    honoured(
        _PLANS + "single.group.clustering.enabled", FLAG, _TO + "lone_slices",
        "without sort columns, a slice that would not change is skipped",
    ),
    honoured(_PLANS + "small.file.limit", BYTES, _TO + "small_file_bytes"),
    honoured(_PLANS + "sort.columns", NAMES, _TO + "sort_columns"),
    honoured(_PLANS + "target.file.max.bytes", BYTES, _TO + "target_file_bytes"),
    honoured(
        "hoodie.layout.optimize.strategy", choice({layout.value: layout for layout in Layout}
        | {"Z-ORDER": Layout.ZORDER}), _TO + "layout",
    ),
    honoured(
        "hoodie.layout.optimize.build.curve.sample.size", count(100), _TO + "sample_rows"
    ),
)  # fmt: skip
