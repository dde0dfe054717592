"""Plans on the timeline carried out: claimed under the lock, run beside writers, or given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.errors import PyhudiError
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.timeline.instant import Instant, State
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import claimed, is_claimed, table_lock, undoing
from pyhudi.transaction.heartbeat import Heartbeat
from pyhudi.transaction.rollback import roll_back_service


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan that this process carries out.  state: the table when it was claimed."""

    state: TableState
    instant: Instant
    beat: Heartbeat

    @contextmanager
    def running(self, options: Options) -> Iterator[None]:
        """Around the work.  A failure that can be caught takes the plan back to requested, and
        what was written for it away."""
        fs, log = self.state.fs, self.state.log
        with self.beat:
            try:
                yield
                with tolerating("the announcement of an attempt", self.instant):
                    log.end_attempt(self.instant.time, self.state.timeline)
            except (PyhudiError, OSError, pa.ArrowException) as failed:
                purpose = f"take back {self.instant.action.value} {self.instant.time}"
                with undoing(failed), table_lock(fs, options.write, purpose):
                    self._take_back(log.load())
                raise

    def _take_back(self, now: Timeline) -> None:
        """Roll this attempt back, unless another process has done so and perhaps begun its own."""
        state, time = self.state, self.instant.time
        log, mine = state.log, (time, self.instant.action, State.INFLIGHT)
        if log.last_rollback(time, now) != log.last_rollback(time, state.timeline):
            return
        for left in now.pending:
            if (left.time, left.action, left.state) == mine:
                roll_back_service(
                    state.fs, state.config, log, left, metadata_rollback=rollback_metadata
                )


def claim_plan(state: TableState, pending: Instant, options: Options) -> Claim | None:
    """Take a plan on; None if somebody is at it.  The caller holds the table's lock.

    What an attempt that died has written is rolled back first.
    """
    fs, log = state.fs, state.log
    if is_claimed(fs, pending, options.write):
        return None
    if pending.state is State.INFLIGHT:
        roll_back_service(fs, state.config, log, pending, metadata_rollback=rollback_metadata)
        pending = Instant(pending.time, pending.action, State.REQUESTED)
    beat = claimed(fs, pending, options.write)
    state = load_state(fs, options.read)
    log.announce_attempt(pending.time, state.timeline)
    return Claim(state, pending, beat)
