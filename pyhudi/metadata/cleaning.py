"""Cleaning of the metadata table: outdated slices of its file groups.

Runs after a compaction, before which no slice is outdated.  Source: table_format 9.10.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from pyhudi.filenames import join
from pyhudi.metadata.payloads import MetadataPartition, maintained_partitions
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.visible_instants import CLEAN_SUFFIX, request_own, suffixed
from pyhudi.planning.cleaning import Claims, Retention, file_names, outdated, result_record
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import TableView
from pyhudi.table.listing import StoreListing
from pyhudi.table.timeline_facts import load_view
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.service_payloads import CLEAN_METADATA, write_avro
from pyhudi.timeline.timeline import Timeline

COMMITS_RETAINED: Final = 20
"""Commits of the metadata table whose file slices are retained for readers."""
_MERGED: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT})


def maintained(table: MetadataTable) -> list[MetadataPartition]:
    """The listed partitions that this package maintains."""
    return list(maintained_partitions(table.partitions_listed))


def clean_if_due(table: MetadataTable) -> None:
    """Delete the slices that no reader of the last COMMITS_RETAINED commits needs."""
    log = table.log
    view = load_view(
        log,
        table.timeline,
        StoreListing(log.fs),
        partitions=[partition.path for partition in maintained(table)],
    )
    keep_from = earliest_commit(table.timeline, COMMITS_RETAINED)
    newest = table.timeline.where({Action.DELTA_COMMIT}, State.COMPLETED).last
    if keep_from is None or newest is None:
        return
    useless = outdated_files(view, keep_from.time)
    at = suffixed(newest.time, CLEAN_SUFFIX)
    if not useless or any(i.time == at for i in table.timeline):
        return
    plan = CleanPlan("KEEP_LATEST_COMMITS", useless, retained_from=keep_from, newest=newest.time)
    content = plan.to_avro(root=log.fs.url)
    requested = request_own(
        log, Action.CLEAN, content, follows=newest.time, suffix=CLEAN_SUFFIX, data=table.data
    )
    run_clean(log, requested)


def earliest_commit(metadata_timeline: Timeline, retained: int) -> Instant | None:
    """The oldest of the newest `retained` commits; None if there are no older ones.  Pure."""
    done = metadata_timeline.where(_MERGED, State.COMPLETED).instants
    return done[len(done) - retained] if len(done) > retained else None


def outdated_files(view: TableView, keep_from: InstantTime) -> dict[str, tuple[str, ...]]:
    """Names per partition of files that no reader at or after `keep_from` needs.  Pure."""
    retention, no_claims = Retention(keep_from), Claims()
    groups = (view.groups[group] for group in sorted(view.groups))
    return file_names(s for group in groups for s in outdated(group, retention, no_claims))


def run_clean(log: TimelineLog, pending: Instant) -> None:
    """Execute a clean plan, or resume an interrupted execution."""
    began = time.monotonic()
    content = log.read(replace(pending, state=State.REQUESTED))
    plan = log.plan(pending, CleanPlan.from_record)
    if pending.state is State.REQUESTED:
        pending = log.start(pending, content)
    for partition, names in plan.files.items():
        log.fs.delete(join(partition, name) for name in names)
    result = result_record(
        plan,
        started=pending.time,
        took_millis=round((time.monotonic() - began) * 1000),
        deleted=plan.files,
    )
    log.complete(pending, write_avro(CLEAN_METADATA, result))
