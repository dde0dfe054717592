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
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from pyhudi.errors import FileMissingError, UserError
from pyhudi.filenames import HOLDS
from pyhudi.options import Heartbeats, WriteOptions
from pyhudi.planning.cleaning import file_names
from pyhudi.read.positions import (
    SnapshotInstant,
    moment_at,
    pending_before,
    pending_of,
    snapshot_now,
)
from pyhudi.read.snapshot_availability import check_not_expired, check_not_going, check_reached
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.instant import Instant, file_name
from pyhudi.transaction.heartbeat import Beat, is_alive


class SnapshotPin:
    """A pinned snapshot, until `release` or the end of a `with` block.

    instant: its newest commit; as `as_of` the pinned snapshot, without writes that were pending
    when it was pinned.  name: text that is the same snapshot as `as_of` in any process while the
    pin exists.
    """

    def __init__(self, instant: SnapshotInstant, name: str, beat: Beat) -> None:
        self.instant, self.name = instant, name
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
        moment, limit = moment_at(state, SnapshotInstant(self.instant, self.pending))
        if moment.timeline != state.timeline:
            yield from file_names(moment.view(limit=limit).latest_slices()).items()


def place_pin(state: TableState, as_of: PointInTime | None, options: WriteOptions) -> SnapshotPin:
    """Pin the snapshot at a point in time (None: now).  The caller holds the table's lock.

    Raises UserError for a table without a commit or where a planned clean deletes files of the
    snapshot, SnapshotExpiredError where such files are already deleted.  Cost: a view of all
    partitions.
    """
    instant = _instant_at(state, as_of)
    moment, limit = moment_at(state, instant)
    view = moment.view(limit=limit)
    check_not_expired(state, moment, view, limit)
    files = file_names(view.latest_slices())
    check_not_going(state.log, state.timeline, InstantTime(instant), files)
    facts = {
        "reader": f"{socket.gethostname()} {os.getpid()}",
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "pending": [file_name(i) for i in instant.pending],
    }
    name = f"{instant}-{secrets.token_hex(8)}"
    beat = Beat(
        state.fs,
        f"{HOLDS}/{name}",
        interval_seconds=options.concurrency.heartbeats.interval_seconds,
        facts=facts,
    )
    return SnapshotPin(instant, name, beat.start())


def _instant_at(state: TableState, as_of: PointInTime | None) -> SnapshotInstant:
    """The newest commit that a reader at `as_of` sees, with what is pending; `as_of` itself if it
    precedes the active timeline."""
    now = snapshot_now(state)
    if now is None:
        raise UserError("the table has no commit to pin")
    if as_of is None:
        return now
    moment, limit = moment_at(state, as_of)
    check_reached(state, moment, limit, as_of)
    if moment.past is None:
        assert limit is not None
        found = moment.timeline.commits.up_to(limit).last
        time = limit if found is None else found.time
    else:
        time = moment.commits[-1].time if moment.commits else InstantTime(moment.past.position)
    return SnapshotInstant(time, pending_before(moment.timeline, time))


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
        yield PinnedSnapshot(
            InstantTime(at),
            f"{facts.get('reader', 'unknown')} since {facts.get('since', 'unknown')}",
            is_alive(fs, info, rules, now),
            info.path,
            pending_of(facts),
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
