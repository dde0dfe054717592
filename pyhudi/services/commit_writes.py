"""One write carried out: files and index written, published.

alone (the caller holds the table's lock throughout)

    requested -> metadata table's services -> inflight -> data files, index entries
    -> leftovers of lost attempts gone -> nobody came between -> metadata delta commit
    -> data commit -> markers gone

beside others (the caller drew the instant under the lock and keeps its heartbeat)

    inflight -> data files; index entries wait -> leftovers gone -> lock -> nobody came between
    -> metadata delta commit, entries handed over -> data commit -> lock free -> markers gone
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.errors import OvertakenError, PyhudiError
from pyhudi.metadata.record_index.staged_index_logs import WaitingIndex
from pyhudi.metadata.writer import begin_metadata
from pyhudi.read.skipping.key_uniqueness import KEYS
from pyhudi.read.table_schema import schema_text
from pyhudi.read.table_snapshot import TableState
from pyhudi.services.clustering import make_way
from pyhudi.services.duplicate_key_conflicts import find_clash
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.storage.spill import staging_folder
from pyhudi.table.listing import ensure_partition
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.service_payloads import REQUESTED_REPLACE, write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import claimed, roll_back_dead, undoing
from pyhudi.transaction.conflicts import Touched, completed_since
from pyhudi.transaction.finish import check_nothing_between, complete, finishing
from pyhudi.transaction.markers import remove_leftovers, remove_markers
from pyhudi.write.input.stream_idempotency import StreamBatch, writer_of
from pyhudi.write.placement.hashing_metadata import keep_rings
from pyhudi.write.placement.workload_profile import profile
from pyhudi.write.uniqueness_record import key_marks
from pyhudi.write.write_steps import Operation, PlannedWrite, Setting
from pyhudi.write.write_tasks import WrittenFiles, write_files


@dataclass(frozen=True, slots=True)
class Done:
    """What a write wrote.  content: of the completed instant's file."""

    instant: Instant
    files: WrittenFiles
    content: bytes
    dropped: tuple[str, ...] = ()  # plans of clusterings that made way


def commit(setting: Setting, planned: PlannedWrite) -> Done:
    """Draw the instant, write, publish; under the table's lock.

    A failure that can be caught is rolled back at once.
    """
    state = setting.state

    def publish(done: Done) -> Done:
        return replace(done, instant=complete(state, done.instant, done.content))

    done = _drawn(setting, planned, publish)
    settle_stores(setting, done.files)
    _clean_up(state, done.instant)
    return done


def prepare(setting: Setting, planned: PlannedWrite) -> Done:
    """`commit` but for its last step: nothing is visible, and the next writer rolls it back."""
    return _drawn(setting, planned, lambda done: done)


def _drawn(setting: Setting, planned: PlannedWrite, last: Callable[[Done], Done]) -> Done:
    """Draw the instant, write, do the last step.  A failure is rolled back."""
    state = setting.state
    now = state.log.load()
    requested = request_instant(state, planned.operation, now)
    beats = setting.options.concurrency.heartbeats.always
    try:
        with claimed(state.fs, requested, setting.options) if beats else nullcontext():
            return last(_write(setting, planned, requested, now.having(requested)))
    except (PyhudiError, OSError, pa.ArrowException) as failed:
        with undoing(failed):
            check_lock(state.fs)
            roll_back_dead(state.fs, state.config, state.log, state.log.load(), setting.options)
        raise


def request_instant(state: TableState, operation: Operation, now: Timeline) -> Instant:
    """Draw the instant of a write.  now: the timeline, listed under the lock that is held."""
    if not operation.replaces:
        merges = state.config.is_merge_on_read
        action = Action.DELTA_COMMIT if merges else Action.COMMIT
        return state.log.request(action, now=now)
    record: dict[str, object] = {"version": None}
    if operation is Operation.DELETE_PARTITION:
        record = {"operationType": operation.value, "version": 1}
    content = write_avro(REQUESTED_REPLACE, record)
    return state.log.request(Action.REPLACE_COMMIT, content, now=now)


def _write(setting: Setting, planned: PlannedWrite, requested: Instant, now: Timeline) -> Done:
    state = setting.state
    fs, config, log = state.fs, state.config, state.log
    dropped = _make_way(setting, planned)
    with setting.watch.phase("index"):
        metadata = begin_metadata(
            fs, config, log, log.load() if dropped else now, requested,
            compact_after=setting.options.metadata_compact_after,
        )  # fmt: skip
    inflight = log.start(requested, _profile(planned))
    keep_rings(fs, planned.rings, inflight.time)
    with setting.watch.phase("write"):
        files = write_files(setting, planned, inflight, metadata)
    with setting.watch.phase("commit"):
        remove_leftovers(fs, inflight.time, stats=files.stats)
        ended = check_nothing_between(state, inflight, touched(setting, planned))
        content = _content(setting, planned, files, ended, inflight)
        metadata.finish(files.stats, files.index)
        publish_stores(setting, files)
    return Done(inflight, files, content, dropped)


def _make_way(setting: Setting, planned: PlannedWrite) -> tuple[str, ...]:
    """Roll back plans of clusterings that the write goes into, where that is asked for."""
    if not setting.options.drops_clusterings:
        return ()
    return make_way(setting.state, touched(setting, planned).groups, setting.options)


def commit_beside(setting: Setting, planned: PlannedWrite, requested: Instant) -> Done:
    """Write without the table's lock, publish under it.

    setting: of the state under the lock that `requested` was drawn under.  A failure leaves the
    instant pending: the caller lets its heartbeat end and rolls it back.  Raises OvertakenError
    where another writer came between.
    """
    state = setting.state
    inflight = state.log.start(requested, _profile(planned))
    keep_rings(state.fs, planned.rings, inflight.time)
    hash = setting.index.hash if setting.index.records else None
    waiting = WaitingIndex(staging_folder(inflight.time), inflight.time, state.zone, hash)
    with setting.watch.phase("write"):
        files = write_files(setting, planned, inflight, waiting)
    with setting.watch.phase("commit"):
        remove_leftovers(state.fs, inflight.time, stats=files.stats)
        mine = touched(setting, planned)
        with finishing(state, inflight, setting.options, touched=mine) as ending:
            _check_rows(setting, planned, inflight, ending.now)
            dropped = _make_way(setting, planned)
            if dropped:
                ending = replace(ending, now=state.log.load())
            if ending.cleaned:  # a partition that was empty may have lost its metafile
                for partition in sorted(mine.written):
                    ensure_partition(state.fs, partition, inflight.time)
            content = _content(setting, planned, files, ending.now, inflight)
            metadata = ending.begin_metadata(setting.engine)
            index = waiting.hand_over(state.fs, files.index, metadata, setting.engine)
            metadata.finish(files.stats, index)
            publish_stores(setting, files)
            completed = complete(state, inflight, content)
            settle_stores(setting, files)
    _clean_up(state, completed)
    return Done(completed, files, content, dropped)


def _clean_up(state: TableState, completed: Instant) -> None:
    """The commit stands, whatever becomes of this."""
    with tolerating("markers", completed):
        remove_markers(state.fs, completed.time)


def publish_stores(setting: Setting, files: WrittenFiles) -> None:
    """Make entries outside the table count with the commit that is about to stand."""
    for store, written in zip(setting.index.stores, files.stores, strict=True):
        store.publish(written)


def settle_stores(setting: Setting, files: WrittenFiles) -> None:
    """The commit stands: what entries outside the table had to wait for."""
    for store, written in zip(setting.index.stores, files.stores, strict=True):
        with tolerating("index entries", setting.state.fs.url):
            store.settle(written)


def touched(setting: Setting, planned: PlannedWrite) -> Touched:
    """What a write changes."""
    targets = planned.assignment.targets
    written = frozenset(target.group for target in targets)
    return Touched(
        written | planned.replaced.groups,
        written=frozenset(group.partition for group in written),
        replaced=frozenset(planned.replaced.partitions),
        whole_table=planned.operation is Operation.INSERT_OVERWRITE_TABLE,
        alike=setting.index.choice.alike,
        on_top_of=frozenset(target.compacting for target in targets if target.compacting),
    )


def _check_rows(setting: Setting, planned: PlannedWrite, mine: Instant, now: Timeline) -> None:
    """Raise OvertakenError for what file groups do not tell: columns, and new keys."""
    state = setting.state
    since = completed_since(state.timeline, now)
    if not since:
        return
    batch = StreamBatch.of(setting.options.commit_metadata)
    twin = None if batch is None else writer_of(batch, state.log, since)
    if twin is not None:
        raise OvertakenError("another writer wrote this batch of the stream", instant=twin.time)
    stated = schema_text(state.log, state.timeline, state.archive, state.config)
    if stated != schema_text(state.log, now, state.archive, state.config):
        raise OvertakenError("another writer changed the table's columns", instant=since[-1].time)
    later = now.commits.after(mine.time).last
    if later is not None and setting.avro_schema != stated:
        # the newest commit states the columns, and that would not be this one
        raise OvertakenError(
            "a later write has committed before this one, which changes the table's columns",
            instant=later.time,
        )
    clash = find_clash(setting, planned, now)
    if clash is not None:
        raise OvertakenError(
            "another writer inserted the same keys" if clash.key else
            "another writer inserted rows, perhaps of the same keys",
            instant=clash.instant.time, key=clash.key,
        )  # fmt: skip


def _profile(planned: PlannedWrite) -> bytes:
    replaced = planned.replaced.file_ids() if planned.operation.replaces else None
    return profile(planned.assignment.targets, planned.operation.value, replaced=replaced)


def _content(
    setting: Setting, planned: PlannedWrite, files: WrittenFiles, now: Timeline, mine: Instant
) -> bytes:
    """What the completed instant's file will hold.  now: the timeline under the lock."""
    extra = {name: v for name, v in setting.options.commit_metadata.items() if name != KEYS}
    extra |= key_marks(setting, planned, files, now=now, at=mine.time)
    return CommitMetadata(
        files.stats,
        operation=planned.operation.value,
        extra={**extra, "schema": setting.avro_schema},
        replaced=planned.replaced.file_ids() if planned.operation.replaces else None,
    ).to_json()
