"""Option names of table services: compaction, cleaning, archival, rollback, TTL."""

from __future__ import annotations

from typing import Final

from pyhudi.options.names import clustering
from pyhudi.options.option_row import Row, honoured
from pyhudi.options.service_settings import CompactionStrategy, CompactionTrigger, ExpiryRule
from pyhudi.options.settings import CleaningPolicy
from pyhudi.options.value_types import BYTES, FLAG, NAMES, TEXT, choice, class_name, count, only

_TRIGGERS: Final = choice({trigger.value: trigger for trigger in CompactionTrigger})
_STRATEGIES: Final = class_name(
    {strategy.value: strategy for strategy in CompactionStrategy},
    allowed="one of " + ", ".join(strategy.value for strategy in CompactionStrategy),
)
_RULES: Final = choice({rule.value: rule for rule in ExpiryRule})

_COMPACTION: Final = (
    honoured("hoodie.compact.inline", FLAG, "services.compacts_inline"),
    honoured("hoodie.compact.schedule.inline", FLAG, "services.compaction.schedules_inline"),
    honoured(
        "hoodie.compact.inline.max.delta.commits", count(1), "services.compaction.after_commits"
    ),
    honoured(
        "hoodie.compact.inline.max.delta.seconds", count(1), "services.compaction.after_seconds"
    ),
    honoured("hoodie.compact.inline.trigger.strategy", _TRIGGERS, "services.compaction.trigger"),
    honoured("hoodie.compaction.daybased.target.partitions", count(1), "services.compaction.days"),
    honoured(
        "hoodie.compaction.logfile.num.threshold", count(), "services.compaction.log_files_min"
    ),
    honoured(
        "hoodie.compaction.logfile.size.threshold", BYTES, "services.compaction.log_bytes_min"
    ),
    honoured("hoodie.compaction.partition.path.regex", TEXT, "services.compaction.pattern"),
    honoured("hoodie.compaction.strategy", _STRATEGIES, "services.compaction.strategy"),
    honoured("hoodie.compaction.target.io", count(1), "services.compaction.mib_max"),
    honoured("hoodie.log.compaction.inline", FLAG, "services.compaction.logs_inline"),
    honoured(
        "hoodie.log.compaction.blocks.threshold", count(1), "services.compaction.log_blocks_min"
    ),
)

_POLICIES: Final = choice({policy.value: policy for policy in CleaningPolicy})

_CLEANING: Final = (
    honoured(
        "hoodie.clean.automatic", FLAG, "services.cleans_inline",
        "true by default: a write is followed by a clean if files are no longer needed",
    ),
    honoured(
        "hoodie.clean.commits.retained", count(1), "services.commits_retained",
        aliases=("hoodie.cleaner.commits.retained",),
    ),
    honoured(
        "hoodie.clean.fileversions.retained", count(1), "services.versions_retained",
        aliases=("hoodie.cleaner.fileversions.retained",),
    ),
    honoured(
        "hoodie.clean.hours.retained", count(1), "services.hours_retained",
        aliases=("hoodie.cleaner.hours.retained",),
    ),
    honoured(
        "hoodie.clean.policy", _POLICIES, "services.cleaning",
        aliases=("hoodie.cleaner.policy",),
    ),
    honoured(
        "hoodie.clean.trigger.max.commits", count(1), "services.clean_after_commits",
        "commits since the last clean before another one runs after a write",
        aliases=("hoodie.clean.max.commits",),
    ),
    honoured(
        "hoodie.clean.trigger.strategy", only("NUM_COMMITS"), None,
        "the only strategy of Apache Hudi",
    ),
    honoured(
        "hoodie.clean.partition.filter.regex", TEXT, "services.clean_pattern",
        "the whole path; with hoodie.clean.incremental.enabled=false",
        aliases=("hoodie.cleaner.partition.filter.regex",),
    ),
    honoured(
        "hoodie.clean.partition.filter.selected", NAMES, "services.clean_partitions",
        "with hoodie.clean.incremental.enabled=false",
        aliases=("hoodie.cleaner.partition.filter.selected",),
    ),
    honoured(
        "hoodie.clean.incremental.enabled", FLAG, "services.cleans_incrementally",
        aliases=("hoodie.cleaner.incremental.mode",),
    ),
)  # fmt: skip

_ARCHIVAL: Final = (
    honoured(
        "hoodie.archive.automatic", FLAG, "services.archives_inline",
        "true by default: a write is followed by archival if more than hoodie.keep.max.commits "
        "instants of a kind are on the timeline",
    ),
    honoured("hoodie.archive.beyond.savepoint", FLAG, "services.archives_beyond_savepoint"),
    honoured("hoodie.archive.block.on.latest.clean.ectr", FLAG, "services.archives_behind_clean"),
    honoured("hoodie.archive.merge.enable", FLAG, "services.merges_archive"),
    honoured("hoodie.archive.merge.files.batch.size", count(2), "services.archive_merge_count"),
    honoured(
        "hoodie.archive.merge.small.file.limit.bytes", count(1), "services.archive_merge_bytes"
    ),
    honoured("hoodie.commits.archival.batch", count(1), "services.archive_batch"),
    honoured("hoodie.keep.max.commits", count(2), "services.commits_retained_max"),
    honoured("hoodie.keep.min.commits", count(1), "services.commits_retained_min"),
    honoured(
        "hoodie.timeline.compaction.batch.size", count(2), "services.history_merge_count",
        "table versions 8 and 9",
    ),
    honoured(
        "hoodie.timeline.compaction.target.file.max.bytes", count(1),
        "services.history_merge_bytes", "table versions 8 and 9",
    ),
    honoured(
        "hoodie.timeline.manifest.retained.versions", count(1), "services.history_versions",
        "table versions 8 and 9",
    ),
)  # fmt: skip

_OTHERS: Final = (
    honoured("hoodie.rollback.using.markers", FLAG, "write.rollback_by_markers"),
    honoured(
        "hoodie.table.services.enabled", FLAG, "services.enabled",
        "false: no service runs after a write, independent of other options; the service methods "
        "still run",
    ),
    honoured(
        "hoodie.fail.writes.on.inline.table.service.exception", FLAG, "services.failures_raise",
        "false by default here: the write has committed, so its report names the service that "
        "failed; true: the call raises, and the commit stays",
    ),
    honoured(
        "hoodie.fail.on.timeline.archiving", FLAG, "services.archival_failures_raise",
        "false by default here: the write has committed, so its report says that archival failed; "
        "true: the call raises, and the commit stays",
    ),
    honoured("hoodie.partition.ttl.inline", FLAG, "services.expiry.inline"),
    honoured("hoodie.partition.ttl.management.strategy.type", _RULES, "services.expiry.rule"),
    honoured(
        "hoodie.partition.ttl.strategy.days.retain", count(-1), "services.expiry.days"
    ),
    honoured(
        "hoodie.partition.ttl.strategy.max.delete.partitions", count(1),
        "services.expiry.partitions_max",
    ),
    honoured(
        "hoodie.partition.ttl.strategy.partition.selected", NAMES, "services.expiry.selected"
    ),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    *_COMPACTION, *_CLEANING, *_ARCHIVAL, *clustering.ROWS, *_OTHERS,
)  # fmt: skip
