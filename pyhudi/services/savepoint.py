"""Savepoints: protection of the snapshot at a commit from cleaning and archival.

```
S.savepoint.inflight    empty
S.savepoint             comment, user, and per partition the names of the files of the snapshot
```

S is the time of the commit itself.  Deleting a savepoint removes both files, and before them the
commit from the active timeline where later ones have been archived.  The caller holds the table's
lock.  Source: table_format 4, 7.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyhudi.errors import UserError
from pyhudi.options import ServiceOptions
from pyhudi.planning.cleaning import file_names
from pyhudi.read.positions import moment_at
from pyhudi.read.snapshot_availability import check_not_expired, check_not_going
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.reports import Report
from pyhudi.services.archival import archive_saved
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.timeline.clock import system_clock
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.service_payloads import write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.timeline.undo_payloads import SAVEPOINT_METADATA
from pyhudi.transaction.publication import publish_instant


@dataclass(frozen=True, slots=True)
class Savepoint(Report):
    """A savepoint.  instant: its commit.  partitions, files: how many it protects."""

    instant: str
    comment: str
    user: str
    created_at: str
    partitions: int
    files: int
    dry_run: bool = False


def create_savepoint(
    state: TableState, comment: str, instant: InstantTime | None = None
) -> Savepoint:
    """Protect the snapshot at a completed commit (None: the newest).

    Raises UserError for an instant that is not a completed commit of the active timeline or has a
    savepoint, and where a planned clean deletes files of the snapshot; SnapshotExpiredError where
    files of the snapshot are already deleted.
    """
    commit, record = _planned(state, comment, instant)
    begun = Instant(commit.time, Action.SAVEPOINT, State.INFLIGHT)
    state.fs.create(state.log.path(begun), b"")
    check_lock(state.fs)
    content = write_avro(SAVEPOINT_METADATA, record)
    publish_instant(state.fs, state.log, begun, content, known=state.timeline)
    return _described(commit.time, record)


def plan_savepoint(
    state: TableState, comment: str, instant: InstantTime | None = None
) -> Savepoint:
    """The savepoint that `create_savepoint` would write now; nothing changes.  Same errors."""
    commit, record = _planned(state, comment, instant)
    return replace(_described(commit.time, record), dry_run=True)


def _planned(
    state: TableState, comment: str, instant: InstantTime | None
) -> tuple[Instant, dict[str, Any]]:
    """The commit to protect, and the content of its savepoint."""
    timeline = state.timeline
    commit = _commit_at(timeline, instant)
    if any(i.time == commit.time for i in timeline.where({Action.SAVEPOINT}, State.COMPLETED)):
        raise UserError(
            "this commit already has a savepoint",
            instant=commit.time,
            hint="delete it first to change its comment",
        )
    moment, limit = moment_at(state, commit.time)
    view = moment.view(limit=limit)
    check_not_expired(state, moment, view, limit)
    files = file_names(view.latest_slices())
    check_not_going(state.log, timeline, commit.time, files)
    record = {
        "savepointedBy": "",
        "savepointedAt": round(system_clock().timestamp() * 1000),
        "comments": comment,
        "partitionMetadata": {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in files.items()
        },
        "version": 1,
    }
    return commit, record


def savepoint_at(state: TableState, instant: InstantTime) -> Savepoint:
    """The savepoint of a commit.  Raises UserError if there is none."""
    for saved in state.timeline.where({Action.SAVEPOINT}, State.COMPLETED):
        if saved.time == instant:
            return _described(saved.time, state.log.record(saved))
    raise no_savepoint(state.timeline, instant)


def remove_savepoint(state: TableState, instant: InstantTime, rules: ServiceOptions) -> Savepoint:
    """Delete a savepoint; its snapshot can then be cleaned.

    Cost: reads the archive if no other commit of the timeline is as old.  Raises UserError if there
    is none, and as `archive_saved` does.
    """
    removed = savepoint_at(state, instant)
    archive_saved(state, instant, rules)
    state.log.unpublish(Instant(instant, Action.SAVEPOINT, State.COMPLETED))
    state.log.forget(Instant(instant, Action.SAVEPOINT, State.INFLIGHT))
    return removed


def no_savepoint(timeline: Timeline, instant: InstantTime) -> UserError:
    there = timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    return UserError(
        "no savepoint of this instant",
        instant=instant,
        savepoints=", ".join(i.time for i in there) or None,
    )


def savepoints(state: TableState) -> list[Savepoint]:
    """The table's savepoints, oldest first.  Cost: one small read per savepoint."""
    found = state.timeline.where({Action.SAVEPOINT}, State.COMPLETED)
    return [_described(i.time, state.log.record(i)) for i in found]


def _commit_at(timeline: Timeline, instant: InstantTime | None) -> Instant:
    commits = timeline.commits
    if instant is None:
        if commits.last is None:
            raise UserError("the table has no commit to save")
        return commits.last
    for commit in commits:
        if commit.time == instant:
            return commit
    raise UserError(
        "not a completed commit of the active timeline",
        instant=instant,
        oldest=commits.first and commits.first.time,
        newest=commits.last and commits.last.time,
    )


def _described(time: str, record: Mapping[str, Any]) -> Savepoint:
    partitions = record.get("partitionMetadata") or {}
    made = datetime.fromtimestamp((record.get("savepointedAt") or 0) / 1000, UTC)
    return Savepoint(
        instant=time,
        comment=record.get("comments") or "",
        user=record.get("savepointedBy") or "",
        created_at=made.isoformat(timespec="milliseconds"),
        partitions=len(partitions),
        files=sum(len(part.get("savepointDataFile") or ()) for part in partitions.values()),
    )
