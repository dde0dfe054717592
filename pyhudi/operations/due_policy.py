"""Due policies of table services, used for services after a write and for `services.run`.

A policy has two parts.  The trigger reads only the timeline, so that every write can evaluate it:
a pending plan, or enough commits since the last run.  The work check determines what the service
would find: it may read logs and listings, and `services.run` uses it to report why a service is
not due.

Source: BaseHoodieWriteClient.runTableServicesInline, CleanPlanActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, Protocol

from pyhudi.operations.ttl import expired_now
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.services import archival, cleaning, clustering, compaction, log_compaction
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


class OnTimeline(Protocol):
    """The table properties that a trigger reads, of a `TableState` or after a commit."""

    @property
    def config(self) -> TableConfig: ...
    @property
    def log(self) -> TimelineLog: ...
    @property
    def timeline(self) -> Timeline: ...
    @property
    def zone(self) -> tzinfo | None: ...


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a service is due.  why: the reason in both cases.  is_planned: a plan is pending and
    runs before another one is created."""

    is_due: bool
    why: str
    is_planned: bool = False


@dataclass(frozen=True, slots=True)
class DuePolicy:
    """When a service is due.  name: used in reports.  work: None if the trigger is sufficient."""

    name: str
    trigger: Callable[[OnTimeline, Options], Due]
    work: Callable[[TableState, Options], Due] | None = None

    def due(self, state: TableState, options: Options) -> Due:
        """Trigger and work check.  Raises what the service would raise before any change."""
        triggered = self.trigger(state, options)
        if self.work is None or triggered.is_planned or not triggered.is_due:
            return triggered
        return self.work(state, options)


def _planned(pending: list[Instant]) -> Due | None:
    return Due(True, f"planned at {pending[0].time}", True) if pending else None


def _partition_ttl_trigger(table: OnTimeline, options: Options) -> Due:
    days = options.services.expiry.days
    if days <= 0:
        return Due(False, "hoodie.partition.ttl.strategy.days.retain is not set")
    return Due(True, f"partitions are retained for {days} days")


def _partition_ttl_work(state: TableState, options: Options) -> Due:
    found = expired_now(state, options)
    days = options.services.expiry.days
    return Due(bool(found), f"{len(found)} partitions are older than {days} days")


def _compaction_trigger(table: OnTimeline, options: Options) -> Due:
    if not table.config.is_merge_on_read:
        return Due(False, "the table is copy-on-write")
    if planned := _planned(compaction.pending_compactions(table.timeline)):
        return planned
    rules = options.services.compaction
    is_due = compaction.compaction_is_due(table.timeline, table.zone, rules)
    count = compaction.deltas_since(table.timeline)
    why = f"{count} delta commits since the last, due at {rules.after_commits}"
    return Due(is_due, f"{why} (by {rules.trigger.value})")


def _log_compaction_trigger(table: OnTimeline, options: Options) -> Due:
    if not table.config.is_merge_on_read:
        return Due(False, "the table is copy-on-write")
    return Due(True, "the table is merge-on-read")


def _log_compaction_work(state: TableState, options: Options) -> Due:
    found = log_compaction.propose_log_compaction(state, options)
    least = options.services.compaction.log_blocks_min
    why = f"{len(found.slices)} file slices have {least} log blocks or more"
    return Due(bool(found.slices), "; ".join((why, *found.notes)))


def _clustering_trigger(table: OnTimeline, options: Options) -> Due:
    if planned := _planned(clustering.pending_clusterings(table.log, table.timeline)):
        return planned
    rules = options.services.clustering
    if not (rules.inline or rules.schedules_inline):
        return Due(False, "hoodie.clustering.inline is not set")
    since = clustering.commits_since(table.log, table.timeline)
    why = f"{since} commits since the last, due at {rules.after_commits}"
    return Due(since >= rules.after_commits, why)


def _clean_trigger(table: OnTimeline, options: Options) -> Due:
    if planned := _planned(cleaning.pending_cleans(table.timeline)):
        return planned
    rules = options.services
    if cleaning.is_clean_due(table.timeline, rules, table.zone):
        return Due(True, "commits are older than those retained")
    return Due(False, "too few commits since the last clean, or none older than those retained")


def _clean_work(state: TableState, options: Options) -> Due:
    count = cleaning.propose_clean(state, options).file_count
    return Due(bool(count), f"{count} files are not needed by any reader")


def _archival_trigger(table: OnTimeline, options: Options) -> Due:
    most = options.services.commits_retained_max
    if archival.is_archival_due(table.log, table.timeline, options.services):
        return Due(True, f"more than {most} instants of a kind")
    return Due(False, f"no more than {most} instants of a kind")


def _archival_work(state: TableState, options: Options) -> Due:
    found = archival.plan_archival(state, options)
    why = f"{len(found.instants)} old instants"
    if found.held_by:
        why += f", more are retained by {found.held_by}"
    return Due(bool(found.instants), why)


PARTITION_TTL: Final = DuePolicy("partition TTL", _partition_ttl_trigger, _partition_ttl_work)
COMPACTION: Final = DuePolicy("compaction", _compaction_trigger)
LOG_COMPACTION: Final = DuePolicy("log compaction", _log_compaction_trigger, _log_compaction_work)
CLUSTERING: Final = DuePolicy("clustering", _clustering_trigger)
CLEAN: Final = DuePolicy("clean", _clean_trigger, _clean_work)
ARCHIVAL: Final = DuePolicy("archival", _archival_trigger, _archival_work)
