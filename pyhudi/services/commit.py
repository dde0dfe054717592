"""One write carried out: instant drawn, files and index written, published.

requested -> metadata table's services -> inflight -> data files, index entries -> leftovers of
lost attempts gone -> nobody came between -> metadata delta commit -> data commit -> markers gone

The caller holds the table's lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.errors import PyhudiError, WriteConflictError
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.metadata.writer import begin_metadata
from pyhudi.read.state import TableState
from pyhudi.services.rollback import roll_back_failed
from pyhudi.storage.lock import check_lock
from pyhudi.table.config import load_config
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.payload import REQUESTED_REPLACE, write_avro
from pyhudi.timeline.stats import CommitMetadata
from pyhudi.write.commit import conflicting_instant
from pyhudi.write.execution import WrittenFiles, write_files
from pyhudi.write.markers import remove_leftovers, remove_markers
from pyhudi.write.operations import Operation, PlannedWrite, Setting
from pyhudi.write.profile import profile


@dataclass(frozen=True, slots=True)
class Done:
    """What a write wrote.  content: of the completed instant's file."""

    instant: Instant
    files: WrittenFiles
    content: bytes


def commit(setting: Setting, planned: PlannedWrite) -> Done:
    """Draw the instant, write, publish.  A failure that can be caught is rolled back at once."""
    done = prepare(setting, planned)
    state = setting.state
    try:
        check_lock(state.fs)
        completed = state.log.complete(done.instant, done.content)
    except (PyhudiError, OSError):
        roll_back_failed(state.fs, state.config, state.log, metadata_rollback=rollback_metadata)
        raise
    remove_markers(state.fs, completed.time)  # the commit stands, whatever becomes of them
    return replace(done, instant=completed)


def prepare(setting: Setting, planned: PlannedWrite) -> Done:
    """`commit` but for its last step: nothing is visible, and the next writer rolls it back."""
    state = setting.state
    fs, config = state.fs, state.config
    requested = _request(state, planned.operation)
    try:
        return _write(setting, planned, requested)
    except (PyhudiError, OSError, pa.ArrowException):
        roll_back_failed(fs, config, state.log, metadata_rollback=rollback_metadata)
        raise


def _request(state: TableState, operation: Operation) -> Instant:
    if not operation.replaces:
        merges = state.config.is_merge_on_read
        return state.log.request(Action.DELTA_COMMIT if merges else Action.COMMIT)
    record: dict[str, object] = {"version": None}
    if operation is Operation.DELETE_PARTITION:
        record = {"operationType": operation.value, "version": 1}
    return state.log.request(Action.REPLACE_COMMIT, write_avro(REQUESTED_REPLACE, record))


def _write(setting: Setting, planned: PlannedWrite, requested: Instant) -> Done:
    state = setting.state
    fs, config, log = state.fs, state.config, state.log
    with setting.watch.phase("index"):
        metadata = begin_metadata(fs, config, log, log.load(), requested)
    content = profile(planned.assignment.targets, planned.operation.value)
    inflight = log.start(requested, content)
    with setting.watch.phase("write"):
        files = write_files(setting, planned, inflight, metadata)
    with setting.watch.phase("commit"):
        remove_leftovers(fs, inflight.time, stats=files.stats)
        _check_unchanged(setting, planned, inflight)
        content = CommitMetadata(
            files.stats,
            operation=planned.operation.value,
            extra={**setting.options.commit_metadata, "schema": setting.avro_schema},
            replaced=planned.replaced.file_ids() if planned.operation.replaces else None,
        ).to_json()
        metadata.finish(files.stats, files.index)
    return Done(inflight, files, content)


def _check_unchanged(setting: Setting, planned: PlannedWrite, instant: Instant) -> None:
    """Raise WriteConflictError if somebody who does not know our lock came between."""
    state = setting.state
    config = load_config(state.fs)
    if (config.version, config.metadata_partitions) != (
        state.config.version,
        state.config.metadata_partitions,
    ):
        raise WriteConflictError(
            "the table's properties changed during the write", path=state.fs.url
        )
    written = frozenset(target.group for target in planned.assignment.targets)
    other = conflicting_instant(
        state.log,
        before=state.timeline,
        now=state.log.load(),
        mine=instant,
        groups=written | planned.replaced.groups,
    )
    if other is not None:
        raise WriteConflictError(
            "another writer changed the same file groups",
            instant=other.instant.time,
            action=other.instant.action.value,
            file_groups=", ".join(f"{g.partition}/{g.file_id}" for g in other.groups),
        )
