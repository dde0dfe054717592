"""Registration of a table in catalogs, on one machine and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyhudi.errors import OptionError, UserError
from pyhudi.options import Options, parse_options
from pyhudi.options.catalogs import CatalogKind, CatalogOptions
from pyhudi.options.names import catalog as names
from pyhudi.options.parse import row_of
from pyhudi.read.table_snapshot import TableState
from pyhudi.sync.open_catalog import open_catalog
from pyhudi.sync.snapshot_manifest import ManifestReport, write_manifest
from pyhudi.sync.sync_report import SyncReport
from pyhudi.sync.synchronize import synchronize

_AREA = "catalog."


class CatalogVerbs:
    """Methods that write to a catalog; the table itself is only read."""

    _options: Options

    def _state(self) -> TableState:
        raise NotImplementedError

    def sync(
        self,
        catalog: str = "hive",
        *,
        uri: str | None = None,
        database: str | None = None,
        table: str | None = None,
        region: str | None = None,
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> SyncReport:
        """Register the table in a catalog, or bring its entries up to date.

        catalog: "hive" (a Hive Metastore) or "glue" (the AWS Glue Data Catalog).  uri: of the
        metastore, `thrift://host:9083`.  database, table: names of the entry; by default the
        table's own.  region: of Glue.  options: more `hoodie.datasource.hive_sync.*` and
        `hoodie.meta.sync.*`; they and the arguments win over the options the table was opened
        with.  dry_run: report only.

        Entries are those of Apache Hudi's HiveSyncTool.  Only partitions that changed since the
        last synced instant, which the catalog stores, are compared.
        Raises CatalogError if the catalog fails, UserError and SchemaError before anything is
        written; the next sync completes one that failed.
        """
        kind = _kind(catalog)
        given = {"uri": uri, "database": database, "table": table, "region": region}
        chosen = with_arguments(self._options.catalog, options, given)
        opened = open_catalog(kind, chosen)
        try:
            return synchronize(self._state(), opened, chosen, kind, dry_run=dry_run)
        finally:
            opened.close()

    def write_manifest(self, *, absolute: bool = True, dry_run: bool = False) -> ManifestReport:
        """Write the list of base files of the newest snapshot, for engines that read such lists
        (BigQuery, Redshift, Athena).

        absolute: URLs, in `.hoodie/absolute-path-manifest/latest-snapshot.csv`; otherwise names of
        files, in `.hoodie/manifest/latest-snapshot.csv`.  Rows and deletes in logs are not part of
        it: the report counts the logs.  Write it again after each commit: files that it lists are
        deleted when the table is cleaned.  dry_run: report only.
        Raises UnsupportedTableError for a table with bootstrapped files.
        """
        return write_manifest(self._state(), absolute=absolute, dry_run=dry_run)


def with_arguments(
    base: CatalogOptions, options: Mapping[str, Any] | None, given: Mapping[str, str | None]
) -> CatalogOptions:
    """The options of one sync.  Raises OptionError for an option of something else."""
    parsed = parse_options(options).catalog
    named: dict[str, Any] = {}
    for name in options or ():
        row = row_of(name)
        if row not in names.ROWS:
            raise OptionError("not an option of a sync", option=name)
        if row is not None and row.to:
            field = row.to.removeprefix(_AREA)
            named[field] = getattr(parsed, field)
    for name, text in given.items():
        if text is not None:
            if not isinstance(text, str) or not text.strip():
                raise UserError(f"{name} must be a name", type=type(text).__name__, value=text)
            named[name] = text
    return replace(base, **named)


def _kind(catalog: str) -> CatalogKind:
    kinds = {kind.value: kind for kind in CatalogKind}
    if not isinstance(catalog, str) or catalog.lower() not in kinds:
        raise UserError("unknown catalog", catalog=catalog, hint=f"pass one of {', '.join(kinds)}")
    return kinds[catalog.lower()]
