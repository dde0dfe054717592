"""Facts about the plans of compactions and clusterings, for operators: what each rewrites."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pyhudi.errors import UserError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import load_config
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.clustering import ClusteringPlan
from pyhudi.timeline.plans.compaction import CompactionPlan


class PlanKind(Enum):
    """Services whose plans are listed; the value is the name in messages."""

    COMPACTION = "compaction"
    CLUSTERING = "clustering"


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """One file slice to rewrite.  output: the number of its group in a clustering, whose slices
    are rewritten together; base_instant: None in plans of clusterings."""

    partition: str
    file_id: str
    base_instant: str | None
    base_file: str | None
    log_files: tuple[str, ...]
    output: int = 0


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """One plan, pending or completed.  completed_at: None where the table does not record it."""

    instant: str
    action: str
    state: str
    completed_at: str | None
    slices: tuple[PlannedSlice, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan with counts in place of its slices."""
        return {
            "instant": self.instant,
            "action": self.action,
            "state": self.state,
            "partitions": len({planned.partition for planned in self.slices}),
            "file_groups": len(self.slices),
            "log_files": sum(len(planned.log_files) for planned in self.slices),
            "completed_at": self.completed_at,
        }


def service_plans(fs: FileSystem, kind: PlanKind) -> list[PlanFacts]:
    """The compactions (with log compactions) or clusterings of the active timeline, oldest first.

    Cost: one or two reads for each instant of an action that may be one.
    """
    log = timeline_log(fs, load_config(fs))
    found = _compactions if kind is PlanKind.COMPACTION else _clusterings
    return list(found(log))


def service_plan(fs: FileSystem, kind: PlanKind, instant: str) -> PlanFacts:
    """The plan at an instant.  Raises UserError where there is none."""
    for plan in service_plans(fs, kind):
        if plan.instant == instant:
            return plan
    raise UserError(
        f"the active timeline has no {kind.value} at this instant",
        instant=instant,
        hint=f"`pyhudi {kind.value} list` lists them",
    )


def _compactions(log: TimelineLog) -> Iterator[PlanFacts]:
    """A completed one is a commit with the operation of the service."""
    planned = (Action.COMPACTION, Action.LOG_COMPACTION)
    completed = {COMPLETES_AS[action]: action for action in planned}
    for instant in log.load():
        action = instant.action
        if instant.is_completed:
            if action not in completed or "COMPACT" not in log.commit(instant).operation.upper():
                continue
            action = completed[action]
        elif action not in planned:
            continue
        plan = log.plan(replace(instant, action=action), CompactionPlan.from_record)
        slices = tuple(
            PlannedSlice(
                each.group.partition,
                each.group.file_id,
                each.base_instant,
                each.base_file,
                each.log_files,
            )
            for each in plan.operations
        )
        yield _facts(instant, action, slices)


def _clusterings(log: TimelineLog) -> Iterator[PlanFacts]:
    """A completed one is a replace commit whose requested file has a plan."""
    for instant in log.load():
        if instant.action not in (Action.REPLACE_COMMIT, Action.CLUSTERING):
            continue
        if log.is_clustering(instant):
            yield _facts(instant, Action.CLUSTERING, _clustered(log, instant))


def _clustered(log: TimelineLog, instant: Instant) -> tuple[PlannedSlice, ...]:
    actions = dict.fromkeys((instant.action, Action(log.layout.clustering_action)))
    plans = (log.plan(replace(instant, action=a), ClusteringPlan.from_record) for a in actions)
    plan = next((plan for plan in plans if plan.groups), ClusteringPlan())
    return tuple(
        PlannedSlice(
            each.group.partition,
            each.group.file_id,
            None,
            each.base_file or None,
            each.log_files,
            number,
        )
        for number, group in enumerate(plan.groups)
        for each in group.slices
    )


def _facts(instant: Instant, action: Action, slices: tuple[PlannedSlice, ...]) -> PlanFacts:
    return PlanFacts(
        instant.time, action.value, instant.state.name.lower(), instant.completed_at, slices
    )
