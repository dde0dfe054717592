"""Sync with catalogs after a commit, and its event for lineage.

The commit has been made: a failing catalog is reported in a note and in the log, never raised.
The next sync catches up, because the catalog states the last synced instant.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.errors import PyhudiError
from pyhudi.observe.events import observed
from pyhudi.options import Options
from pyhudi.options.catalogs import CatalogKind, LineageKind
from pyhudi.read.table_snapshot import load_state
from pyhudi.storage.filesystem import FileSystem
from pyhudi.sync.sync_report import SyncReport
from pyhudi.sync.targets import sync_with
from pyhudi.write.write_report import WriteReport


def sync_catalogs(fs: FileSystem, options: Options, report: WriteReport) -> WriteReport:
    """The report of a write, with a note for each catalog that is synced inline.

    A dry run, a write without a commit and one that is not published are not synced.
    """
    if report.instant is None or not report.published or report.dry_run:
        return report
    notes = tuple(_note(fs, options, kind, report.instant) for kind in options.catalog.inline)
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def _note(fs: FileSystem, options: Options, kind: CatalogKind | LineageKind, instant: str) -> str:
    try:
        with observed("service", operation=f"sync {kind.value}", instant=instant):
            return _synced(
                sync_with(
                    kind,
                    options.catalog,
                    lambda: load_state(fs, options.read, for_reading=True),
                    instant=instant,
                )
            )
    except (PyhudiError, OSError, ValueError) as error:
        return f"catalog sync with {kind.value} failed, the commit stands: {error}"


def _synced(report: SyncReport) -> str:
    names = ", ".join(f"{report.database}.{entry.table}" for entry in report.entries)
    return f"synced with {report.catalog}: {names}"
