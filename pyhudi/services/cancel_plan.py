"""Removal of pending compaction and clustering plans that no later write depends on.

While a compaction C is pending, writers create log files of its file groups with the instant C.
Such log files belong to the base files that C will write.  Without C they would have no base file,
so its plan has to stay.
Source: table_format 7.4.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.engine import Engine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId
from pyhudi.recovery.rollback import roll_back_service
from pyhudi.reports import Report
from pyhudi.services.plan_execution import check_unmerged
from pyhudi.table.timeline_facts import pending_plans
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import is_claimed


@dataclass(frozen=True, slots=True)
class UnscheduleReport(Report):
    """A plan that was removed, or (dry_run) can be.  file_groups: number that it had claimed."""

    instant: str
    action: str
    file_groups: int
    dry_run: bool = False


def unschedule(
    state: TableState,
    time: str,
    actions: frozenset[Action],
    options: Options,
    engine: Engine,
    *,
    dry_run: bool,
    keeps_request: bool = False,
) -> UnscheduleReport:
    """Remove a pending compaction or clustering, with the files of a crashed attempt to run it.

    The caller holds the table's lock.  keeps_request: retain the plan, so that it can run again.
    Raises UserError for an instant that is not such a plan, for a compaction that log files depend
    on, and (keeps_request) for a plan that has not begun; WriteConflictError while another process
    runs the plan, or a pending write may create log files that depend on it; CorruptFileError for a
    compaction that was completed, but whose completed file is lost.
    """
    pending = _pending(state, time, actions)
    plans = pending_plans(state.log, Timeline((pending,)))
    groups = plans.compacting.keys() | plans.clustering.keys()
    if is_claimed(state.fs, pending, options.write):
        raise WriteConflictError("another process is running the plan", instant=time)
    if keeps_request and pending.state is State.REQUESTED:
        raise UserError("the plan has not begun, so there is nothing to undo", instant=time)
    if pending.action is Action.COMPACTION and not keeps_request:
        _check_no_logs_on_top(state, pending, frozenset(groups))
    report = UnscheduleReport(time, pending.action.value, len(groups), dry_run)
    if dry_run:
        return report
    if pending.state is State.REQUESTED:
        state.log.forget(pending)
    else:
        check_unmerged(state, pending)
        roll_back_service(
            state.fs, state.config, state.log, pending, engine=engine, keeps_request=keeps_request
        )
    return report


def _pending(state: TableState, time: str, actions: frozenset[Action]) -> Instant:
    found = [i for i in state.timeline.where(actions) if i.time == time and not i.is_completed]
    for instant in found:
        if instant.action is Action.COMPACTION or state.log.is_clustering(instant):
            return instant
    raise UserError("no such plan is pending", instant=time)


def _check_no_logs_on_top(
    state: TableState, pending: Instant, groups: frozenset[FileGroupId]
) -> None:
    """Raise if a log file has the instant of the plan, or a pending write may create one."""
    for partition in sorted({group.partition for group in groups}):
        for info in state.fs.children(partition):
            name = parse_data_file(info.name)
            if (
                isinstance(name, LogFileName)
                and name.instant == pending.time
                and FileGroupId(partition, name.file_id) in groups
            ):
                raise UserError(
                    "log files of later writes depend on this compaction",
                    instant=pending.time,
                    file=info.path,
                    hint="run the compaction",
                )
    writing = state.timeline.where({Action.DELTA_COMMIT}, State.REQUESTED, State.INFLIGHT)
    for write in writing:
        if write.time > pending.time:
            raise WriteConflictError(
                "a pending write may create log files that depend on the plan",
                instant=write.time,
                hint="retry after the write has ended",
            )
