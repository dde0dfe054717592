"""Upgrade and downgrade of a table, from the lock to the report.

A table of versions 0 to 5 is upgraded to version 6 first.  The order of the steps between the
versions 6, 8 and 9, and what an interruption leaves: see `plan`.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.engine import Engine
from pyhudi.layouts.known import LAYOUTS
from pyhudi.metadata.bootstrap import drop_metadata
from pyhudi.operations.versions.convert import (
    convert_table,
    finish_change,
    has_logs,
    has_plans,
    merge_logs,
    remove_older_logs,
)
from pyhudi.operations.versions.old_versions import (
    KeyColumns,
    UpgradePlan,
    check_target,
    plan_upgrade,
)
from pyhudi.operations.versions.plan import VERSIONS, UpgradeReport, check_direction, plan_change
from pyhudi.operations.versions.properties import properties_at
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.crashed_writers import open_locked
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.properties import OLDEST_WRITABLE_VERSION, load_config, store_config
from pyhudi.table.version_record import RECORD, load_record
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
        second,
        from_version=first.from_version,
        rolled_back=first.rolled_back,
        properties={**first.properties, **second.properties},
        metadata_dropped=first.metadata_dropped,
    )


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
            fs,
            config,
            state.log,
            engine=engine,
            heartbeats=options.write.concurrency.heartbeats,
            by_markers=False,
        )
        store_config(fs, plan.config)
    return plan.report(dry_run=False)


def _planned(state: TableState, options: Options, to: int, given: KeyColumns) -> UpgradePlan:
    check_target(state.config, to)
    check_none_deferred(state.fs, state.timeline)
    plan = plan_upgrade(state, options, given)
    check_table(plan.config)  # reject tables that could not be written afterwards
    return plan


def change_version(
    fs: FileSystem, options: Options, engine: Engine, to: int, *, upgrades: bool, dry_run: bool
) -> UpgradeReport:
    """Change the table's version under its lock; everything is verified before anything is written.

    A change that was interrupted after its commit point is finished first.
    """
    record = load_record(fs)
    config = load_config(fs)
    if record is None or record.after != config.version:
        check_direction(config, to, upgrades=upgrades)
    if dry_run:
        if config.version == to:
            return UpgradeReport(config.version, to, {}, dry_run=True, notes=(_UNFINISHED,))
        return plan_change(load_state(fs, options.read), options, to).report(dry_run=True)
    with table_lock(fs, options.write, "change version"):
        finished = _finish_interrupted(fs, options, engine)
        if finished is not None and load_config(fs).version == to:
            return finished
        check_direction(load_config(fs), to, upgrades=upgrades)
        plan_change(load_state(fs, options.read), options, to)
        rolled_back = _recover(fs, options, engine)
        return _execute(fs, options, engine, to, rolled_back)


_UNFINISHED = "would finish a change of the version that was interrupted"


def _finish_interrupted(fs: FileSystem, options: Options, engine: Engine) -> UpgradeReport | None:
    """Finish a change that has passed its commit point; its report, None if there is none."""
    record, version = load_record(fs), load_config(fs).version
    if record is None or record.after != version:
        return None
    rolled_back = _recover(fs, options, engine)  # a pending one would be missed by the new index
    finish_change(fs, options, engine, record)
    return UpgradeReport(
        record.before,
        version,
        {},
        rolled_back=rolled_back,
        rebuilt=tuple(sorted(record.partitions)),
        notes=("finished a change of the version that was interrupted",),
    )


def _recover(fs: FileSystem, options: Options, engine: Engine) -> tuple[str, ...]:
    """Roll back failed writes; their instants."""
    before = load_state(fs, options.read).timeline
    with open_locked(fs, options, engine, "change version") as state:
        now = {instant.time for instant in state.timeline}
        return tuple(i.time for i in before.pending if i.time not in now)


def _execute(
    fs: FileSystem, options: Options, engine: Engine, to: int, rolled_back: tuple[str, ...]
) -> UpgradeReport:
    first = plan_change(load_state(fs, options.read), options, to)
    source, target = first.before.layout, LAYOUTS[to]
    fs.replace(RECORD, first.record.to_json())
    if first.slices or has_logs(fs) or has_plans(fs):
        merge_logs(fs, options, engine)
    if not source.logs_name_slices and target.logs_name_slices:
        remove_older_logs(fs, options, engine)
    state = load_state(fs, options.read)
    plan = plan_change(state, options, to)
    plan = replace(plan, record=first.record)
    notes = convert_table(state, plan) if plan.changes_layout else ()
    drop_metadata(fs, state.config)
    check_lock(fs)
    store_config(fs, properties_at(load_config(fs), to))  # the commit point
    finish_change(fs, options, engine, plan.record)
    done = replace(plan, slices=first.slices, dropped=first.dropped)
    return replace(done.report(dry_run=False, notes=notes), rolled_back=rolled_back)
