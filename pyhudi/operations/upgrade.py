"""Upgrade of a table from versions 0 to 5 to version 6, from the lock to the report."""

from __future__ import annotations

from pyhudi.metadata.bootstrap import drop_metadata
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.services.upgrade import (
    KeyColumns,
    UpgradePlan,
    UpgradeReport,
    check_target,
    plan_upgrade,
)
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import load_config, store_config
from pyhudi.transaction.begin import check_table, table_lock
from pyhudi.transaction.deferred_publish import check_none_deferred
from pyhudi.transaction.rollback import roll_back_failed


def upgrade(
    fs: FileSystem, options: Options, to: int, given: KeyColumns, *, dry_run: bool
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
            fs, config, state.log, metadata_rollback=rollback_metadata,
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
