"""Facts of a timeline: actions by time, durations, failures, and what commits wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.options import Options
from pyhudi.recovery.liveness import crashed_writes
from pyhudi.report.facts import (
    BINS,
    COMMITS_MAX,
    RUNS_MAX,
    CommitPoint,
    FailedWrite,
    Lane,
    TimedAction,
    TimelineFacts,
    WriteFacts,
)
from pyhudi.table.commit_facts import CommitFacts
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import COMMITS, COMPLETES_AS, WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_SERVICE_OPERATIONS: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT"})
_TIMED: Final = {Action.CLEAN, Action.ROLLBACK, Action.RESTORE}
_UNDO: Final = {Action.ROLLBACK, Action.RESTORE}

Commits = Mapping[Instant, CommitMetadata]


def newest_commits(
    log: TimelineLog, timeline: Timeline
) -> tuple[dict[Instant, CommitMetadata], int]:
    """(content of the newest commits, oldest first; how many of them cannot be read).

    Cost: one read per commit that is not cached."""
    found, unreadable = {}, 0
    for instant in timeline.commits.instants[-COMMITS_MAX:]:
        try:
            found[instant] = log.commit(instant)
        except (CorruptFileError, FileMissingError):
            unreadable += 1
    return found, unreadable


def write_facts(timeline: Timeline, commits: Commits, unreadable: int) -> WriteFacts:
    """What the newest commits wrote.  Pure."""
    points = tuple(_point(instant, commit) for instant, commit in commits.items())
    return WriteFacts(points, len(timeline.commits), unreadable)


def _point(instant: Instant, commit: CommitMetadata) -> CommitPoint:
    facts = CommitFacts(instant.time, instant.action, instant.completed_at, commit)
    is_service = commit.operation.upper() in _SERVICE_OPERATIONS
    return CommitPoint(
        instant.time,
        commit.operation.lower(),
        facts.changed_rows,
        facts.written_rows,
        sum(stat.write_bytes for stat in commit.stats),
        len(commit.stats),
        0 if is_service else sum(s.insert_count - s.delete_count for s in commit.stats),
    )


def timeline_facts(
    log: TimelineLog, timeline: Timeline, commits: Commits, options: Options
) -> TimelineFacts:
    """The timeline by action and time, durations of the newest actions, and failures.

    Cost: one read for each of the newest cleans and rollbacks."""
    instants = timeline.instants
    rollbacks = timeline.where(_UNDO, State.COMPLETED)
    return TimelineFacts(
        len(instants),
        instants[0].time if instants else "",
        instants[-1].time if instants else "",
        lanes_of(instants),
        _timed_actions(log, timeline, commits),
        "the timeline" if log.layout.has_completion_times else "the slowest file of each write",
        (*_pending(log, timeline, options), *_undone(log, rollbacks.instants[-RUNS_MAX:])),
        len(rollbacks),
    )


def lanes_of(instants: tuple[Instant, ...]) -> tuple[Lane, ...]:
    """Numbers of instants by action and by bin: equal parts of the time from first to last."""
    if not instants:
        return ()
    seconds = _seconds([i.time for i in instants])
    known = seconds[~np.isnan(seconds)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    scaled = (np.nan_to_num(seconds, nan=low) - low) / max(high - low, 1e-3)
    places = np.minimum((scaled * BINS).astype(np.int64), BINS - 1).tolist()
    counts: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for instant, place in zip(instants, places, strict=True):
        name = (COMPLETES_AS[instant.action] if instant.is_completed else instant.action).value
        counts[name][place][0 if instant.is_completed else 1] += 1
    order = [action.value for action in Action]
    return tuple(
        Lane(
            name,
            sum(done for done, _ in counts[name].values()),
            sum(pending for _, pending in counts[name].values()),
            tuple((at, pair[0], pair[1]) for at, pair in sorted(counts[name].items())),
        )
        for name in sorted(counts, key=order.index)
    )


def _seconds(times: Sequence[str]) -> NDArray[np.float64]:
    """Seconds since 1970 of the digits of instants; NaN for other texts."""
    texts = np.array([time[:17].ljust(17, "0") for time in times], "U17")
    digits = texts.view(np.uint32).reshape(len(times), 17).astype(np.int64) - ord("0")

    def number(start: int, end: int) -> NDArray[np.int64]:
        return digits[:, start:end] @ 10 ** np.arange(end - start - 1, -1, -1)

    months = (number(0, 4) - 1970) * 12 + number(4, 6) - 1
    days = months.astype("M8[M]").astype("M8[D]").astype(np.int64) + number(6, 8) - 1
    clock = (days * 24 + number(8, 10)) * 60 + number(10, 12)
    is_known = ((digits >= 0) & (digits <= 9)).all(axis=1)
    return np.where(is_known, clock * 60.0 + number(12, 14) + number(14, 17) / 1000, np.nan)


def _timed_actions(
    log: TimelineLog, timeline: Timeline, commits: Commits
) -> tuple[TimedAction, ...]:
    """Durations of the newest commits, cleans and rollbacks that the timeline still has."""
    others = timeline.where(_TIMED, State.COMPLETED).instants
    read = {*commits, *others[-RUNS_MAX:]}
    shown = sorted(read)[-COMMITS_MAX:]
    return tuple(
        TimedAction(
            instant.time,
            instant.action.value,
            _duration(log, instant, commits.get(instant)),
            instant.action not in COMMITS
            or commits[instant].operation.upper() in _SERVICE_OPERATIONS,
        )
        for instant in shown
    )


def _duration(log: TimelineLog, instant: Instant, commit: CommitMetadata | None) -> float | None:
    if instant.completed_at is not None:
        began, ended = _seconds([instant.time, instant.completed_at]).tolist()
        return max(0.0, round(ended - began, 3)) if ended >= began else None
    if commit is not None:
        each = [s.scan_millis + s.create_millis + s.upsert_millis for s in commit.stats]
        return max(each) / 1000 if any(each) else None
    try:
        millis = log.record(instant).get("timeTakenInMillis")
    except (CorruptFileError, FileMissingError):
        return None
    return millis / 1000 if isinstance(millis, int) and millis >= 0 else None


def _pending(log: TimelineLog, timeline: Timeline, options: Options) -> Iterable[FailedWrite]:
    pending = timeline.pending.where(WRITES)
    try:
        failed = crashed_writes(log, timeline, options.write.concurrency.heartbeats)
    except CorruptFileError:  # a torn plan, which the doctor reports
        failed = list(pending)
    return [
        FailedWrite(i.time, f"a {i.action.value} was not completed and has no running writer")
        for i in failed[-RUNS_MAX:]
    ]


def _undone(log: TimelineLog, rollbacks: Iterable[Instant]) -> Iterable[FailedWrite]:
    found = []
    for rollback in rollbacks:
        try:
            undone = sorted(log.taken_back(rollback))
        except (CorruptFileError, FileMissingError):
            continue
        kind = rollback.action.value
        found += [FailedWrite(time, f"undone by the {kind} {rollback.time}") for time in undone]
    return found[-RUNS_MAX:]
