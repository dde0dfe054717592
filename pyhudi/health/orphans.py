"""Checks for leftovers of crashed writers: pending writes, markers, heartbeats, half a rebuild."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import TEMP
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.metadata.rebuild import REBUILT, is_swap_begun, is_swap_pending
from pyhudi.recovery.liveness import UNDER_LOCK, crashed_writes, without_process
from pyhudi.recovery.rollback import failed_writes
from pyhudi.services.leftovers import abandoned_pins, leftover_marks
from pyhudi.storage.locks.table_lock import is_locked_by_another, lock_signature
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.transaction.deferred_publish import deferred_writes


def check_pending(inventory: TableInventory) -> Iterator[Finding]:
    """Instants that are not completed: failed writes, interrupted rollbacks and cleans, and those
    that a process works on."""
    yield from _pending_writes(inventory)
    yield from _pending_services(inventory)


def _pending_writes(inventory: TableInventory) -> Iterator[Finding]:
    pending = [i for i in inventory.timeline.pending if i.action not in (Action.REPLACE_COMMIT,)]
    try:
        failed = failed_writes(inventory.log, inventory.timeline)
        crashed = set(crashed_writes(inventory.log, inventory.timeline)) if failed else set()
    except CorruptFileError:  # a torn plan, which check_instants reports
        failed = [i for i in pending if i.action in (Action.COMMIT, Action.DELTA_COMMIT)]
        crashed = set(failed)
    for instant in failed:
        built_on = _built_on(inventory, instant)
        if built_on is not None:
            yield Finding(
                "lost-commit",
                Severity.ERROR,
                inventory.log.path(instant),
                "a commit that later ones build on is not completed",
                f"{built_on} builds on its files: its completed file was lost",
                "repair completes it again from its files",
                RepairAction.RECOMPLETE,
                instant=instant.time,
            )
        elif instant not in crashed:
            yield Finding(
                "running-write",
                Severity.INFO,
                inventory.log.path(instant),
                "a write is not completed yet",
                f"a process works on it{_holder(inventory)}",
                "no action needed",
                instant=instant.time,
            )
        else:
            yield Finding(
                "pending-write",
                Severity.WARNING,
                inventory.log.path(instant),
                "a write was not completed",
                "its writer crashed",
                "no action needed: the next write or service rolls it back; repair does so now",
                RepairAction.ROLL_BACK,
                instant=instant.time,
            )


def _pending_services(inventory: TableInventory) -> Iterator[Finding]:
    services = inventory.timeline.where(UNDER_LOCK, State.REQUESTED, State.INFLIGHT)
    idle = without_process(inventory.log, services)
    for instant in services:
        if instant.time not in idle:
            yield Finding(
                "running-service",
                Severity.INFO,
                inventory.log.path(instant),
                f"a {instant.action.value} is not completed yet",
                f"a process works on it{_holder(inventory)}",
                "no action needed",
                instant=instant.time,
            )
            continue
        yield Finding(
            "pending-service",
            Severity.WARNING,
            inventory.log.path(instant),
            f"a {instant.action.value} was not completed",
            "its process crashed",
            f"the next {instant.action.value} completes it; repair does so now",
            RepairAction.ROLL_BACK if instant.action is Action.ROLLBACK else RepairAction.FINISH,
            instant=instant.time,
        )
    for instant in deferred_writes(inventory.fs, inventory.timeline):
        yield Finding(
            "kept-write",
            Severity.INFO,
            inventory.log.path(instant),
            "a write waits to be published",
            "it was made with publish=False",
            f"table.publish('{instant.time}') or table.discard('{instant.time}')",
            instant=instant.time,
        )


def _holder(inventory: TableInventory) -> str:
    """Who holds the table's lock, as a part of a sentence; "" if unknown."""
    if not is_locked_by_another(inventory.fs):
        return ""
    facts = lock_signature(inventory.fs)
    return ": " + ", ".join(f"{k}={v}" for k, v in facts.items()) if facts else ""


def _built_on(inventory: TableInventory, pending: Instant) -> str | None:
    """The first completed commit that builds on a file of the pending one."""
    for instant, commit in inventory.commits.items():
        if instant.time > pending.time and any(
            stat.previous_instant == pending.time for stat in commit.stats
        ):
            return f"{instant.action.value} {instant.time}"
    return None


def check_leftovers(inventory: TableInventory) -> Iterator[Finding]:
    """Markers, heartbeats and pins of crashed processes, and an interrupted rebuild."""
    for info in leftover_marks(inventory.fs, inventory.timeline):
        what = "markers" if info.path.startswith(TEMP) else "a heartbeat"
        yield Finding(
            "leftover",
            Severity.INFO,
            info.path,
            f"{what} of a finished write",
            "its writer crashed afterwards, or Apache Hudi left it",
            "repair deletes it",
            RepairAction.SWEEP,
            instant=info.name,
        )
    for pin in abandoned_pins(inventory.fs):
        yield Finding(
            "leftover",
            Severity.INFO,
            pin.path,
            "a snapshot pin of a crashed reader",
            f"the reader was {pin.reader}",
            "no action needed: the next clean deletes it; repair does so now",
            RepairAction.SWEEP,
            instant=pin.instant,
        )
    if is_swap_begun(inventory.config) or is_swap_pending(inventory.fs):
        whole = bool(inventory.config.metadata_partitions)
        yield Finding(
            "half-rebuilt",
            Severity.INFO if whole else Severity.WARNING,
            REBUILT,
            "a rebuild of the metadata table was interrupted",
            "its process crashed",
            "no action needed: the old metadata table stays in use; repair deletes the rest"
            if whole
            else "the next write completes it if it can; repair rebuilds the metadata table",
            RepairAction.SWEEP if whole else RepairAction.METADATA,
        )
    yield from _deferred_writes(inventory)


def _deferred_writes(inventory: TableInventory) -> Iterator[Finding]:
    """Deferred writes whose file is torn."""
    for info in inventory.fs.children(TEMP):
        path = f"{info.path}/kept.json"
        try:
            if info.is_folder and not inventory.fs.read(path).rstrip().endswith(b"}"):
                yield Finding(
                    "torn-kept-write",
                    Severity.ERROR,
                    path,
                    "a deferred write cannot be published",
                    "its file is torn",
                    f"table.discard('{info.name}')",
                    instant=info.name,
                )
        except FileMissingError:
            continue
