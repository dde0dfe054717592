"""Checks of what the dead left: pending writes, markers, heartbeats, half a rebuild, folders."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import HEARTBEATS, TEMP
from pyhudi.health.findings import Finding, Mend, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.metadata.rebuild import REBUILT, is_swap_pending
from pyhudi.options import Heartbeats
from pyhudi.services.snapshot_pins import held_snapshots
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.deferred_publish import kept_writes
from pyhudi.transaction.rollback import failed_writes


def check_pending(ground: TableInventory) -> Iterator[Finding]:
    """Instants that nobody completes: failed writes, rollbacks and cleans cut short."""
    pending = [i for i in ground.timeline.pending if i.action not in (Action.REPLACE_COMMIT,)]
    try:
        failed = failed_writes(ground.log, ground.timeline)
    except CorruptFileError:  # a torn plan; the instants' check tells
        failed = [i for i in pending if i.action in (Action.COMMIT, Action.DELTA_COMMIT)]
    for instant in failed:
        built_on = _built_on(ground, instant)
        if built_on is not None:
            yield Finding(
                "lost-commit", Severity.ERROR, ground.log.path(instant),
                "a commit that later ones build on is not completed",
                f"{built_on} continues its files: the file that completed it was lost",
                "repair completes it again from its files", Mend.RECOMPLETE, instant=instant.time,
            )  # fmt: skip
        else:
            yield Finding(
                "pending-write", Severity.WARNING, ground.log.path(instant),
                "a write was not completed", "its writer died, or is still at work",
                "nothing: the next write or service rolls it back; repair does it now",
                Mend.ROLL_BACK, instant=instant.time,
            )  # fmt: skip
    for instant in ground.timeline.where({Action.ROLLBACK, Action.CLEAN, Action.RESTORE},
                                         State.REQUESTED, State.INFLIGHT):  # fmt: skip
        yield Finding(
            "pending-service", Severity.WARNING, ground.log.path(instant),
            f"a {instant.action.value} was not completed", "its process died, or is still at work",
            "the next one like it finishes it",
            Mend.ROLL_BACK if instant.action is Action.ROLLBACK else None, instant=instant.time,
        )  # fmt: skip
    for instant in kept_writes(ground.fs, ground.timeline):
        yield Finding(
            "kept-write", Severity.INFO, ground.log.path(instant),
            "a write waits to be published", "it was made with publish=False",
            f"table.publish('{instant.time}') or table.discard('{instant.time}')",
            instant=instant.time,
        )  # fmt: skip


def _built_on(ground: TableInventory, pending: Instant) -> str | None:
    """The first completed commit that continues a file of the pending one."""
    for instant, commit in ground.commits.items():
        if instant.time > pending.time and any(
            stat.previous_instant == pending.time for stat in commit.stats
        ):
            return f"{instant.action.value} {instant.time}"
    return None


def check_leftovers(ground: TableInventory) -> Iterator[Finding]:
    """Markers, heartbeats and holds of the dead, and a rebuild that was cut short."""
    pending = ground.timeline.pending.times
    for folder, what in ((TEMP, "markers"), (HEARTBEATS, "a heartbeat")):
        for info in ground.fs.children(folder):
            if _is_over(info.name, ground.timeline) and info.name not in pending:
                if folder == TEMP and info.name in ground.timeline.rolled_back:
                    continue  # the next writers look for late files by them, and sweep them
                yield Finding(
                    "leftover", Severity.INFO, info.path, f"{what} of a write that is over",
                    "its writer died after it, or Apache Hudi left it", "repair deletes it",
                    Mend.SWEEP, instant=info.name,
                )  # fmt: skip
    for held in held_snapshots(ground.fs, Heartbeats()):
        if not held.is_alive:
            yield Finding(
                "leftover", Severity.INFO, held.path, "the hold of a reader that is gone",
                f"it was {held.reader}", "nothing: the next clean drops it; repair does it now",
                Mend.SWEEP, instant=held.instant,
            )  # fmt: skip
    if is_swap_pending(ground.fs):
        whole = bool(ground.config.metadata_partitions)
        yield Finding(
            "half-rebuilt", Severity.INFO if whole else Severity.WARNING, REBUILT,
            "a rebuild of the metadata table was cut short", "its process died",
            "nothing: the old one stands; repair deletes the rest"
            if whole
            else "the next write ends it; repair makes it anew",
            Mend.SWEEP if whole else Mend.METADATA,
        )  # fmt: skip
    yield from _kept_files(ground)


def _is_over(name: str, timeline: Timeline) -> bool:
    """Whether an instant of that name can have no living writer."""
    last = timeline.last
    return name.isdecimal() and last is not None and name <= last.time


def _kept_files(ground: TableInventory) -> Iterator[Finding]:
    """Kept writes whose file says nothing."""
    for info in ground.fs.children(TEMP):
        path = f"{info.path}/kept.json"
        try:
            if info.is_folder and not ground.fs.read(path).rstrip().endswith(b"}"):
                yield Finding(
                    "torn-kept-write", Severity.ERROR, path, "a kept write cannot be published",
                    "its file is torn", f"table.discard('{info.name}')", instant=info.name,
                )  # fmt: skip
        except FileMissingError:
            continue
