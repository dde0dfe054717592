"""Execution of pending plans: claim under the lock, run concurrently with writers, or undo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import PyhudiError
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.rollback import roll_back_service
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.compaction import CompactionPlan
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import claimed, is_claimed, table_lock, undoing
from pyhudi.transaction.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan that this process runs.  state: the table when the plan was claimed."""

    state: TableState
    instant: Instant
    beat: Heartbeat

    @contextmanager
    def running(self, options: Options, engine: Engine) -> Iterator[None]:
        """Context of a run.  An error other than a crash returns the plan to requested and
        removes the files that were written for it."""
        fs, log = self.state.fs, self.state.log
        with self.beat:
            try:
                yield
                with tolerating("the announcement of an attempt", self.instant):
                    log.end_attempt(self.instant.time, self.state.timeline)
            except (PyhudiError, OSError, pa.ArrowException) as failed:
                purpose = f"roll back {self.instant.action.value} {self.instant.time}"
                with undoing(failed), table_lock(fs, options.write, purpose):
                    self._undo_attempt(log.load(), engine)
                raise

    def _undo_attempt(self, now: Timeline, engine: Engine) -> None:
        """Roll back this attempt, unless another process has done so and may run its own."""
        state, time = self.state, self.instant.time
        log, mine = state.log, (time, self.instant.action, State.INFLIGHT)
        if log.last_rollback(time, now) != log.last_rollback(time, state.timeline):
            return
        for left in now.pending:
            if (left.time, left.action, left.state) == mine:
                roll_back_service(state.fs, state.config, log, left, engine=engine)


def claim_plan(
    state: TableState, pending: Instant, options: Options, engine: Engine
) -> Claim | None:
    """Claim a plan; None if another process runs it.  The caller holds the table's lock.

    The files of a crashed attempt are rolled back first.
    """
    fs, log = state.fs, state.log
    if is_claimed(fs, pending, options.write):
        return None
    if pending.state is State.INFLIGHT:
        check_unmerged(state, pending)
        roll_back_service(fs, state.config, log, pending, engine=engine)
        pending = Instant(pending.time, pending.action, State.REQUESTED)
    beat = claimed(fs, pending, options.write)
    state = load_state(fs, options.read)
    log.announce_attempt(pending.time, state.timeline)
    return Claim(state, pending, beat)


def check_unmerged(state: TableState, pending: Instant) -> None:
    """Raise CorruptFileError for a compaction that was completed, but whose completed file is lost:
    the files that an attempt wrote are then the only ones with the rows."""
    if pending.action is Action.COMPACTION:
        plan = state.log.plan(pending, CompactionPlan.from_record)
        state.view(partitions=sorted({group.partition for group in plan.groups}))
