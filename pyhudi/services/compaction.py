"""Compaction of a merge-on-read table: logs merged into base files, one new file a slice.

```
C.compaction.requested   the plan: slices by the names of their files
C.compaction.inflight    base files of instant C are being written
C.commit                 readers see them; logs of before are for the cleaner
```

A plan left pending is carried out as it stands; what a failed attempt wrote is rolled back, the
plan stays.  Logs that writers add meanwhile are named after C and lie on top of the new files.
The table's lock is held while a plan is made or claimed and while its end is published; writers
go on between.  Source: table_format 7.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import PyhudiError, SchemaError, UserError
from pyhudi.formats.avroschema import with_meta_fields
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Options
from pyhudi.read.schema import schema_text
from pyhudi.read.slices import SliceSpec
from pyhudi.read.state import TableState, load_state
from pyhudi.records import META_COLUMNS, with_meta
from pyhudi.services.rollback import roll_back_compaction
from pyhudi.services.transaction import (
    Touched,
    claimed,
    complete,
    finishing,
    is_claimed,
    table_lock,
)
from pyhudi.table.compaction import compactable, compaction_record, planned_slices
from pyhudi.table.view import FileSlice
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.payload import COMPACTION_PLAN, write_avro
from pyhudi.timeline.stats import CommitMetadata, WriteStat
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.compact import CompactTask, compact_slice
from pyhudi.write.files import FilePlan
from pyhudi.write.heartbeat import Heartbeat
from pyhudi.write.markers import remove_leftovers, remove_markers


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did, or (instant None) would do.

    instants: of the compactions, oldest first.  log_files, log_bytes: merged.
    """

    instants: tuple[str, ...] = ()
    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0
    rows: int = 0
    bytes_written: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def deltas_since(timeline: Timeline) -> int:
    """Delta commits completed since the last compaction; all, where there was none.  Pure."""
    deltas = timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    last = timeline.where({Action.COMMIT}, State.COMPLETED).last
    return len(deltas if last is None else deltas.after(last.time))


def pending_compactions(timeline: Timeline) -> list[Instant]:
    return list(timeline.where({Action.COMPACTION}, State.REQUESTED, State.INFLIGHT))


def proposed(state: TableState, options: Options) -> list[FileSlice]:
    """The slices that a plan made now would merge."""
    if not state.config.is_merge_on_read:
        raise UserError(
            "a copy-on-write table has no logs to compact", path=state.fs.url,
        )  # fmt: skip
    return compactable(state.view(), io_bytes_max=options.services.compaction_mib_max << 20)


def schedule(state: TableState, options: Options) -> Instant | None:
    """Write a plan down; None if there is nothing to merge."""
    chosen = proposed(state, options)
    if not chosen:
        return None
    return state.log.request(
        Action.COMPACTION, write_avro(COMPACTION_PLAN, compaction_record(chosen))
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan that this process carries out.  state: the table when it was claimed."""

    state: TableState
    instant: Instant
    beat: Heartbeat


def claim(state: TableState, pending: Instant, options: Options) -> Claim | None:
    """Take a plan on; None if somebody is at it.  The caller holds the table's lock.

    What an attempt that died has written is rolled back first.
    """
    fs, log = state.fs, state.log
    if is_claimed(fs, pending, options.write):
        return None
    if pending.state is State.INFLIGHT:
        roll_back_compaction(fs, state.config, log, pending, metadata_rollback=rollback_metadata)
        pending = Instant(pending.time, pending.action, State.REQUESTED)
    beat = claimed(fs, pending, options.write)
    return Claim(load_state(fs, options.read), pending, beat)


def carry_out(taken: Claim, options: Options, engine: Engine) -> Done:
    """Run a plan beside writers.  A failure that can be caught leaves the plan pending and
    nothing else."""
    fs, config, log = taken.state.fs, taken.state.config, taken.state.log
    with taken.beat:
        try:
            return _publish(taken.state, taken.instant, options, engine)
        except (PyhudiError, OSError, pa.ArrowException):
            with table_lock(fs, options.write, "compaction failed"):
                for left in pending_compactions(log.load()):
                    if left.time == taken.instant.time and left.state is State.INFLIGHT:
                        roll_back_compaction(
                            fs, config, log, left, metadata_rollback=rollback_metadata
                        )
            raise


@dataclass(frozen=True, slots=True)
class Done:
    """A completed compaction."""

    instant: Instant
    stats: tuple[WriteStat, ...]


_NOTHING = Touched(frozenset())
"""Writers may touch the groups of a plan: what they write lies on top of the new files."""


def _publish(state: TableState, pending: Instant, options: Options, engine: Engine) -> Done:
    fs, config, log = state.fs, state.config, state.log
    operations = log.requested(pending).get("operations") or ()
    pieces = planned_slices(state.view(), operations, at=pending.time)
    avro_schema = schema_text(log, state.timeline, state.archive, config)
    if avro_schema is None:
        raise SchemaError("no commit of the table states its schema", path=fs.url)
    tasks = _tasks(state, pieces, pending, avro_schema, options)
    inflight = log.start(pending)
    stats = tuple(s for s in engine.run(compact_slice, tasks, label="compact") if s is not None)
    remove_leftovers(fs, inflight.time, stats=stats)
    content = CommitMetadata(
        stats, operation="COMPACT", compacted=True, extra={"schema": avro_schema}
    )
    with finishing(state, inflight, options.write, touched=_NOTHING) as ending:
        ending.begin_metadata(engine).finish(stats, ())
        completed = complete(state, inflight, content.to_json())
    remove_markers(fs, completed.time)
    return Done(completed, stats)


def _tasks(
    state: TableState,
    pieces: Sequence[FileSlice],
    pending: Instant,
    avro_schema: str,
    options: Options,
) -> list[CompactTask]:
    columns = pa.schema([f for f in state.schema() if f.name not in META_COLUMNS])
    plan = FilePlan(
        state.fs,
        pending.time,
        columns,
        with_meta_fields(avro_schema),
        state.rules,
        options.write.base_file,
        options.write.log_format,
        natural_deletes=False,
    )
    stored = with_meta(columns)
    spec = SliceSpec(stored, tuple(stored.names), state.rules, state.view().visibility)
    return [CompactTask(plan, spec, piece, number) for number, piece in enumerate(pieces)]


def report_of(done: Sequence[Done], *, notes: tuple[str, ...] = ()) -> CompactionReport:
    """The report of compactions that were carried out."""
    stats = [stat for each in done for stat in each.stats]
    return CompactionReport(
        instants=tuple(str(each.instant.time) for each in done),
        file_groups=len(stats),
        log_files=sum(s.compacted_log_files for s in stats),
        log_bytes=sum(s.compacted_log_bytes for s in stats),
        rows=sum(s.write_count for s in stats),
        bytes_written=sum(s.write_bytes for s in stats),
        notes=notes,
    )
