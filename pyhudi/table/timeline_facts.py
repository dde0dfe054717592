"""Timeline facts that a view needs: replaced groups, claimed groups, completion times."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.filenames import parse_data_file
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import PendingPlans, TableView, Visibility, build_view
from pyhudi.table.listing import Listing
from pyhudi.table.properties import READABLE_VERSIONS, TableConfig
from pyhudi.table.property_checks import check_layout
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.plans.clustering import ClusteringPlan
from pyhudi.timeline.plans.compaction import CompactionOperation, CompactionPlan
from pyhudi.timeline.plans.restore import RestorePlan
from pyhudi.timeline.timeline import Timeline


def check_readable(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table that this package cannot read, with the reason."""
    version = config.version
    if version not in READABLE_VERSIONS:
        raise UnsupportedTableError(
            f"table version {version} cannot be read",
            hint=f"versions {', '.join(map(str, READABLE_VERSIONS))} can",
        )
    check_layout(config)
    if config.base_file_format not in ("PARQUET", "HFILE"):
        raise UnsupportedTableError(f"base files of format {config.base_file_format}")


def check_not_bootstrapped(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a bootstrapped table, which is read-only: writes, services
    and repairs would need the rows stored in other files."""
    if config.bootstrap_base_path:
        raise UnsupportedTableError(
            "bootstrapped tables are read-only",
            base_path=config.bootstrap_base_path,
            hint="bulk_insert the rows of a scan into a new table",
        )


def without_undone(log: TimelineLog, timeline: Timeline) -> tuple[Timeline, bool]:
    """The timeline without the instants that a pending restore removes, and whether there is one.

    From the start of a restore its readers see the state after its end.  The metadata table
    does not reflect it by then.
    """
    under_way = timeline.where({Action.RESTORE}, State.INFLIGHT)
    undone = {
        (each.time, COMPLETES_AS[each.action])
        for restore in under_way
        for each in log.plan(restore, RestorePlan.from_record).undone
    }
    if not undone:
        return timeline, bool(under_way)
    stays = (i for i in timeline if (i.time, COMPLETES_AS[i.action]) not in undone)
    return timeline.holding(stays), True


def replaced_groups(log: TimelineLog, timeline: Timeline) -> dict[FileGroupId, InstantTime]:
    """File groups that completed replace commits removed, and when (the newest is used)."""
    gone: dict[FileGroupId, InstantTime] = {}
    for instant in timeline.where({Action.REPLACE_COMMIT, Action.CLUSTERING}, State.COMPLETED):
        for partition, ids in (log.commit(instant).replaced or {}).items():
            for file_id in ids:
                gone[FileGroupId(partition, file_id)] = instant.time
    return gone


def pending_plans(log: TimelineLog, timeline: Timeline) -> PendingPlans:
    """File groups of planned services that have not completed."""
    compacting: dict[FileGroupId, InstantTime] = {}
    clustering: dict[FileGroupId, InstantTime] = {}
    log_compacting: dict[FileGroupId, InstantTime] = {}
    for instant in timeline.pending:
        match instant.action:
            case Action.COMPACTION | Action.LOG_COMPACTION:
                major = instant.action is Action.COMPACTION
                claims = compacting if major else log_compacting
                claims |= dict.fromkeys(
                    log.plan(instant, CompactionPlan.from_record).groups, instant.time
                )
            case Action.REPLACE_COMMIT | Action.CLUSTERING:
                groups = log.plan(instant, ClusteringPlan.from_record).file_groups
                clustering |= dict.fromkeys(groups, instant.time)
            case _:
                pass
    return PendingPlans(compacting, clustering, log_compacting)


def completion_times(log: TimelineLog, timeline: Timeline) -> dict[InstantTime, InstantTime]:
    """When each instant completed; empty for a layout that does not record it."""
    if not log.layout.has_completion_times:
        return {}
    return {i.time: i.completed_at for i in timeline if i.completed_at is not None}


def files_going(
    log: TimelineLog, timeline: Timeline, *states: State
) -> Iterator[tuple[Instant, str, tuple[str, ...]]]:
    """Pending cleans in these states, each with a partition and the names that it deletes there."""
    for clean in timeline.where({Action.CLEAN}, *states):
        for partition, names in log.plan(clean, CleanPlan.from_record).files.items():
            yield clean, partition, names


def load_view(
    log: TimelineLog,
    timeline: Timeline,
    listing: Listing,
    *,
    partitions: list[str] | None = None,
    limit: InstantTime | None = None,
    visibility: Visibility | None = None,
    archive: Archive | None = None,
    replaced: Mapping[FileGroupId, InstantTime] | None = None,
) -> TableView:
    """The view of a table as of `limit` (None: now), over some partitions (None: all).

    visibility: default that of `timeline` and `limit`.  archive: has the completion times
    of archived commits (layout 2), read only if a log file needs one; without it, their instant
    times are used.  Metadata tables need none for their newest slices: an instant is archived
    after the compaction of its logs.  replaced: file groups that archived commits removed.
    """
    requested = listing.partitions() if partitions is None else partitions
    files = ((p, info) for p, infos in listing.files(requested).items() for info in infos)
    return build_view(
        files,
        visibility or Visibility.of(timeline, limit=limit),
        layout=log.layout,
        replaced={**(replaced or {}), **replaced_groups(log, timeline)},
        pending=pending_plans(log, timeline),
        completions=completion_times(log, timeline),
        archived=None if archive is None else lambda: archive.completions,
    )


def lacking_bases(
    log: TimelineLog,
    plan: Instant,
    view: TableView,
    *,
    replaced: Mapping[FileGroupId, InstantTime],
    partitions: Container[str] | None = None,
) -> Iterator[CompactionOperation]:
    """The operations of a pending compaction whose base files a reader of the view would see, but
    that are gone.

    A base file is cleaned only after the compaction that merges it: where the compaction is
    pending, the file that completed it is lost, and with it the rows of the file group.  replaced:
    file groups removed from the table, and when.  partitions: of the view (None: all).
    """
    for each in log.plan(plan, CompactionPlan.from_record).operations:
        if partitions is not None and each.group.partition not in partitions:
            continue
        known = view.groups.get(each.group)
        bases = () if known is None else [str(s.base.name) for s in known.slices if s.base]
        if each.base_file is None or each.base_file in bases:
            continue
        name, ended = parse_data_file(each.base_file), replaced.get(each.group)
        is_replaced = ended is not None and view.visibility.sees(ended)
        if name is not None and view.visibility.sees(name.instant) and not is_replaced:
            yield each


def check_compacted_bases(
    log: TimelineLog,
    timeline: Timeline,
    view: TableView,
    *,
    partitions: Container[str] | None,
    replaced: Mapping[FileGroupId, InstantTime] | None,
) -> None:
    """Raise CorruptFileError if a base file that a pending compaction merges is gone.

    partitions, replaced: those given to `load_view`.
    """
    plans = [i for i in timeline.pending if i.action is Action.COMPACTION]
    gone = {**(replaced or {}), **replaced_groups(log, timeline)} if plans else {}
    for plan in plans:
        for each in lacking_bases(log, plan, view, replaced=gone, partitions=partitions):
            raise CorruptFileError(
                "a base file that a pending compaction merges is gone",
                path=log.path(plan),
                partition=each.group.partition,
                base_file=each.base_file,
                hint="the file that completed the compaction may be lost: see doctor",
            )
