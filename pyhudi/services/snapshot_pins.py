"""Snapshot pins: files that protect the snapshot of a reader from cleaning.

`.hoodie/.pyhudi.holds/<T>-<token>` pins the snapshot at T for as long as its reader is alive, which
its heartbeat shows.  A pin is created under the table's lock, as plans of cleans are: a clean that
is planned later sees it, and a clean that was planned earlier is checked for conflicts.  The next
clean removes the pins of readers that are no longer alive.  Apache Hudi's cleaner ignores pins.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from pyhudi.errors import FileMissingError, UserError
from pyhudi.filenames import HOLDS
from pyhudi.options import Heartbeats, WriteOptions
from pyhudi.planning.cleaning import file_names
from pyhudi.read.snapshot_availability import check_not_expired
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime, as_instant
from pyhudi.records import InstantTime
from pyhudi.services.savepoint import check_not_going
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.instant import COMPLETES_AS, Instant, file_name, parse_instant_name
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.heartbeat import Beat, is_alive


class SnapshotPin:
    """A pinned snapshot, until `release` or the end of a `with` block.

    instant: the snapshot, for `as_of`.
    """

    def __init__(self, instant: InstantTime, beat: Beat) -> None:
        self.instant: str = instant
        self._beat = beat

    def release(self) -> None:
        """Allow cleaning of the snapshot.  A second call has no effect."""
        self._beat.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"SnapshotPin({self.instant!r})"


@dataclass(frozen=True, slots=True)
class PinnedSnapshot:
    """A pin as other processes see it.  reader: host, process and start time, as far as stated.

    pending: instants that were pending when the pin was created; scans planned at that time ignore
    their results.
    """

    instant: InstantTime
    reader: str
    is_alive: bool
    path: str
    pending: tuple[Instant, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields for reports: all but the pending instants."""
        return {name: getattr(self, name) for name in ("instant", "reader", "is_alive", "path")}

    def files(self, state: TableState) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Partitions with the names of the files that its reader may open: those of a scan
        planned now, and those of a scan planned when the pin was created.  Cost: two views."""
        yield from file_names(state.view(limit=self.instant).latest_slices()).items()
        then = _as_it_was(state.timeline, self.pending)
        if then != state.timeline:
            view = replace(state, timeline=then).view(limit=self.instant)
            yield from file_names(view.latest_slices()).items()


def _as_it_was(timeline: Timeline, pending: Iterable[Instant]) -> Timeline:
    """The timeline in which instants that have completed since are pending again."""
    before = {(i.time, COMPLETES_AS[i.action]): i for i in pending}
    return timeline.holding(before.get((i.time, COMPLETES_AS[i.action]), i) for i in timeline)


def place_pin(state: TableState, as_of: PointInTime | None, options: WriteOptions) -> SnapshotPin:
    """Pin the snapshot at a point in time (None: now).  The caller holds the table's lock.

    Raises UserError for a table without a commit or where a planned clean deletes files of the
    snapshot, SnapshotExpiredError where such files are already deleted.  Cost: a view of all
    partitions.
    """
    instant = _instant_at(state, as_of)
    view = state.view(limit=instant)
    check_not_expired(state, view, instant)
    check_not_going(state, instant, file_names(view.latest_slices()))
    facts = {
        "reader": f"{socket.gethostname()} {os.getpid()}",
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "pending": [file_name(i) for i in state.timeline.pending.up_to(instant)],
    }
    beat = Beat(
        state.fs,
        f"{HOLDS}/{instant}-{secrets.token_hex(8)}",
        interval_seconds=options.concurrency.heartbeats.interval_seconds,
        facts=facts,
    )
    return SnapshotPin(instant, beat.start())


def _instant_at(state: TableState, as_of: PointInTime | None) -> InstantTime:
    """The newest commit at or before `as_of`; `as_of` itself if it precedes the active timeline."""
    commits = state.timeline.commits
    if commits.last is None:
        raise UserError("the table has no commit to pin")
    if as_of is None:
        return commits.last.time
    requested = as_instant(as_of, state.zone)
    found = commits.up_to(requested).last
    return found.time if found else requested


def pinned_snapshots(fs: FileSystem, rules: Heartbeats) -> list[PinnedSnapshot]:
    """All pins, oldest snapshot first.  Cost: one listing, two small reads per pin."""
    return sorted(_found(fs, rules), key=lambda pin: pin.path)


def _found(fs: FileSystem, rules: Heartbeats) -> Iterator[PinnedSnapshot]:
    now = time.time()
    for info in fs.children(HOLDS):
        at, _, token = info.name.partition("-")
        if not token or not at.isdecimal() or info.is_folder:
            continue
        facts = _facts(fs, info)
        found = map(parse_instant_name, map(str, facts.get("pending") or ()))
        yield PinnedSnapshot(
            InstantTime(at),
            f"{facts.get('reader', 'unknown')} since {facts.get('since', 'unknown')}",
            is_alive(fs, info, rules, now),
            info.path,
            tuple(instant for instant in found if instant is not None),
        )


def _facts(fs: FileSystem, info: FileInfo) -> dict[str, Any]:
    """The content of a pin; {} if the file is missing or incomplete."""
    try:
        facts = json.loads(fs.read(info.path))
    except (FileMissingError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def remove_expired_pins(fs: FileSystem, rules: Heartbeats) -> tuple[str, ...]:
    """Delete the pins of readers that are no longer alive; returns one message for each.

    The caller holds the table's lock.
    """
    expired = [pin for pin in pinned_snapshots(fs, rules) if not pin.is_alive]
    fs.delete(pin.path for pin in expired)
    return tuple(
        f"removed the pin of snapshot {pin.instant}: its reader is no longer alive ({pin.reader})"
        for pin in expired
    )
