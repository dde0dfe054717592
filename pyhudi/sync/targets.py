"""One sync with a catalog or a lineage server, by its kind."""

from __future__ import annotations

from collections.abc import Callable

from pyhudi.options.catalogs import CatalogKind, CatalogOptions, LineageKind
from pyhudi.read.table_snapshot import TableState
from pyhudi.sync.datahub import send_dataset
from pyhudi.sync.open_catalog import open_catalog
from pyhudi.sync.open_lineage import send_event
from pyhudi.sync.sync_report import SyncReport
from pyhudi.sync.synchronize import synchronize


def sync_with(
    kind: CatalogKind | LineageKind,
    options: CatalogOptions,
    load: Callable[[], TableState],
    *,
    instant: str | None = None,
    dry_run: bool = False,
) -> SyncReport:
    """Sync the state of a table that `load` returns.

    instant: the commit of an event; None for the newest.  Catalogs do not use it.
    Raises CatalogError if the catalog or the server fails; UserError, SchemaError before anything
    is written.
    """
    if kind is LineageKind.DATAHUB:
        return send_dataset(load(), options, dry_run=dry_run)
    if kind is LineageKind.OPEN_LINEAGE:
        return send_event(load(), options, instant=instant, dry_run=dry_run)
    catalog = open_catalog(kind, options)
    try:
        return synchronize(load(), catalog, options, kind, dry_run=dry_run)
    finally:
        catalog.close()
