"""Upgrade of a table to version 6, 8 or 9, from the lock to the report.

A table of versions 0 to 5 is upgraded to version 6 first.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.engine import Engine
from pyhudi.metadata.bootstrap import drop_metadata
from pyhudi.operations.version_change import change_version
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.services.upgrade import (
    KeyColumns,
    UpgradePlan,
    UpgradeReport,
    check_target,
    plan_upgrade,
)
from pyhudi.services.version_change import VERSIONS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import OLDEST_WRITABLE_VERSION, load_config, store_config
from pyhudi.transaction.begin import check_table, table_lock
from pyhudi.transaction.deferred_publish import check_none_deferred


def upgrade(
    fs: FileSystem, options: Options, engine: Engine, to: int, given: KeyColumns, *, dry_run: bool
) -> UpgradeReport:
    """The upgrade, or all upgrades one after the other; the report is of the whole."""
    version = load_config(fs).version
    if version >= OLDEST_WRITABLE_VERSION:
        return change_version(fs, options, engine, to, upgrades=True, dry_run=dry_run)
    if to not in VERSIONS or isinstance(to, bool):
        check_target(load_config(fs), to)
    first = _upgrade_old(fs, options, engine, OLDEST_WRITABLE_VERSION, given, dry_run=dry_run)
    if to == OLDEST_WRITABLE_VERSION:
        return first
    if dry_run:
        return replace(
            first, notes=(f"version {OLDEST_WRITABLE_VERSION} would be upgraded to {to} then",)
        )
    second = change_version(fs, options, engine, to, upgrades=True, dry_run=False)
    return replace(
        second, from_version=first.from_version, rolled_back=first.rolled_back,
        properties={**first.properties, **second.properties},
        metadata_dropped=first.metadata_dropped,
    )  # fmt: skip


def upgrade_if_requested(fs: FileSystem, options: Options, engine: Engine) -> tuple[str, ...]:
    """Upgrade a table of a lower version than the options state, if they permit it; returns the
    note for the report of the write."""
    to = options.table.version
    if to is None or not options.table.auto_upgrade:
        return ()
    before = load_config(fs).version
    if before >= to:
        return ()
    upgrade(fs, options, engine, to, KeyColumns(), dry_run=False)
    return (f"upgraded the table from version {before} to {to}",)


def _upgrade_old(
    fs: FileSystem, options: Options, engine: Engine, to: int, given: KeyColumns, *, dry_run: bool
) -> UpgradeReport:
    """Upgrade the table under its lock; everything is verified before anything is written.

    Markers of versions before 1 have another format, so files of failed writes are found by
    listing.
    """
    check_target(load_config(fs), to)
    if dry_run:
        return _planned(load_state(fs, options.read), options, to, given).report(dry_run=True)
    with table_lock(fs, options.write, "upgrade"):
        state = load_state(fs, options.read)
        plan = _planned(state, options, to, given)
        config = drop_metadata(fs, state.config)
        roll_back_failed(
            fs, config, state.log, engine=engine,
            heartbeats=options.write.concurrency.heartbeats, by_markers=False,
        )  # fmt: skip
        store_config(fs, plan.config)
    return plan.report(dry_run=False)


def _planned(state: TableState, options: Options, to: int, given: KeyColumns) -> UpgradePlan:
    check_target(state.config, to)
    check_none_deferred(state.fs, state.timeline)
    plan = plan_upgrade(state, options, given)
    check_table(plan.config)  # reject tables that could not be written afterwards
    return plan
