"""Option names of table services: compaction, cleaning, archival, rollback, TTL."""

from __future__ import annotations

from typing import Final

from pyhudi.options import names_clustering
from pyhudi.options.row import NOT_YET, Row, honoured, refused, refused_all, without_effect
from pyhudi.options.settings import CleaningPolicy
from pyhudi.options.values import FLAG, choice, count

_CLASS: Final = "a Java class cannot be called from Python"

_COMPACTION: Final = (
    honoured("hoodie.compact.inline", FLAG, "services.compacts_inline"),
    refused("hoodie.compact.schedule.inline", NOT_YET, harmless=("false",)),
    refused("hoodie.datasource.compaction.async.enable", NOT_YET, harmless=("false",)),
    honoured("hoodie.compact.inline.max.delta.commits", count(1), "services.compact_after"),
    refused("hoodie.compact.inline.max.delta.seconds", NOT_YET),
    refused("hoodie.compact.inline.trigger.strategy", NOT_YET, harmless=("NUM_COMMITS",)),
    refused("hoodie.compaction.daybased.target.partitions", NOT_YET),
    refused("hoodie.compaction.logfile.num.threshold", NOT_YET),
    refused("hoodie.compaction.logfile.size.threshold", NOT_YET),
    refused("hoodie.compaction.partition.path.regex", NOT_YET),
    refused("hoodie.compaction.strategy", NOT_YET),
    honoured("hoodie.compaction.target.io", count(1), "services.compaction_mib_max"),
    refused("hoodie.compaction.plan.generator", _CLASS, "hoodie.compaction.strategy"),
    refused("hoodie.log.compaction.enable", "log compaction is not done", harmless=("false",)),
    refused("hoodie.log.compaction.inline", "log compaction is not done", harmless=("false",)),
    *without_effect("log compaction is not done", "hoodie.log.compaction.blocks.threshold"),
)  # fmt: skip

_POLICIES: Final = choice({policy.value: policy for policy in CleaningPolicy})

_CLEANING: Final = (
    honoured(
        "hoodie.clean.automatic", FLAG, "services.cleans_inline",
        "false by default here: a write does what was asked, and nothing else",
    ),
    refused(
        "hoodie.clean.async.enabled", NOT_YET, harmless=("false",),
        aliases=("hoodie.clean.async",),
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
    refused(
        "hoodie.clean.trigger.max.commits", NOT_YET, aliases=("hoodie.clean.max.commits",)
    ),
    refused("hoodie.clean.trigger.strategy", NOT_YET),
    refused("hoodie.clean.max.commits.to.clean", NOT_YET),
    refused(
        "hoodie.clean.multiple.enabled", NOT_YET, harmless=("false",),
        aliases=("hoodie.clean.allow.multiple",),
    ),
    refused(
        "hoodie.clean.partition.filter.regex", NOT_YET,
        aliases=("hoodie.cleaner.partition.filter.regex",),
    ),
    refused(
        "hoodie.clean.partition.filter.selected", NOT_YET,
        aliases=("hoodie.cleaner.partition.filter.selected",),
    ),
    refused(
        "hoodie.clean.delete.bootstrap.base.file", "bootstrapped tables are not written",
        harmless=("false",), aliases=("hoodie.cleaner.delete.bootstrap.base.file",),
    ),
    refused("hoodie.prewrite.cleaner.policy", NOT_YET, harmless=("NONE",)),
    refused("hoodie.write.empty.clean.interval.hours", NOT_YET, harmless=("-1",)),
    *without_effect(
        "how a clean is planned and spread, not what it deletes",
        ("hoodie.clean.incremental.enabled", "hoodie.cleaner.incremental.mode"),
        ("hoodie.clean.parallelism", "hoodie.cleaner.parallelism"),
        "hoodie.clean.optimize.using.local.engine.context",
    ),
)  # fmt: skip

_ARCHIVAL: Final = (
    honoured(
        "hoodie.archive.automatic", FLAG, "services.archives_inline",
        "false by default here, as for cleaning: a write does what was asked, and nothing else",
    ),
    refused("hoodie.archive.async", NOT_YET, harmless=("false",)),
    honoured("hoodie.archive.beyond.savepoint", FLAG, "services.archives_beyond_savepoint"),
    honoured("hoodie.archive.block.on.latest.clean.ectr", FLAG, "services.archives_behind_clean"),
    honoured("hoodie.archive.merge.enable", FLAG, "services.merges_archive"),
    honoured("hoodie.archive.merge.files.batch.size", count(2), "services.archive_merge_count"),
    honoured(
        "hoodie.archive.merge.small.file.limit.bytes", count(1), "services.archive_merge_bytes"
    ),
    honoured("hoodie.commits.archival.batch", count(1), "services.archive_batch"),
    honoured("hoodie.keep.max.commits", count(2), "services.commits_kept_max"),
    honoured("hoodie.keep.min.commits", count(1), "services.commits_kept_min"),
    *without_effect(
        "tasks follow the files", "hoodie.archive.delete.parallelism",
    ),
    *without_effect(
        "of tables of version 8",
        "hoodie.timeline.compaction.batch.size",
        "hoodie.timeline.compaction.target.file.max.bytes",
        "hoodie.timeline.manifest.retained.versions",
    ),
)  # fmt: skip

_OTHERS: Final = (
    refused(
        "hoodie.rollback.using.markers", NOT_YET, harmless=("true",)
    ),
    refused("hoodie.rollback.instant.backup.enabled", NOT_YET, harmless=("false",)),
    refused("hoodie.rollback.instant.backup.dir", NOT_YET, harmless=(".rollback_backup",)),
    *without_effect("tasks follow the files", "hoodie.rollback.parallelism"),
    refused("hoodie.table.services.enabled", NOT_YET, harmless=("false",)),
    refused(
        "hoodie.fail.writes.on.inline.table.service.exception", NOT_YET, harmless=("true",)
    ),
    refused("hoodie.fail.on.timeline.archiving", NOT_YET, harmless=("true",)),
    *without_effect(
        "services plan on the whole view", "hoodie.table.services.incremental.enabled"
    ),
    refused("hoodie.partition.ttl.inline", NOT_YET, harmless=("false",)),
    *refused_all(
        NOT_YET, "delete_partitions",
        "hoodie.partition.ttl.management.strategy.type",
        "hoodie.partition.ttl.strategy.class",
        "hoodie.partition.ttl.strategy.days.retain",
        "hoodie.partition.ttl.strategy.max.delete.partitions",
        "hoodie.partition.ttl.strategy.partition.selected",
    ),
    refused(
        "hoodie.table.service.manager.enabled", "services run in the writer",
        harmless=("false",),
    ),
    *without_effect(
        "of a service this package does not talk to",
        "hoodie.table.service.manager.actions",
        "hoodie.table.service.manager.connection.retries",
        "hoodie.table.service.manager.connection.retry.delay.sec",
        "hoodie.table.service.manager.connection.timeout.sec",
        "hoodie.table.service.manager.deploy.extra.params",
        "hoodie.table.service.manager.deploy.parallelism",
        "hoodie.table.service.manager.deploy.queue",
        "hoodie.table.service.manager.deploy.resources",
        "hoodie.table.service.manager.deploy.username",
        "hoodie.table.service.manager.execution.engine",
        "hoodie.table.service.manager.uris",
    ),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    *_COMPACTION, *_CLEANING, *_ARCHIVAL, *names_clustering.ROWS, *_OTHERS,
)  # fmt: skip
