"""Registration of a table in catalogs, on one machine and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyhudi.errors import OptionError, UserError
from pyhudi.options import Options, parse_options
from pyhudi.options.catalogs import (
    EVENT_URL,
    SERVER_URL,
    CatalogKind,
    CatalogOptions,
    LineageKind,
)
from pyhudi.options.names import catalog as names
from pyhudi.options.parse import row_of
from pyhudi.options.value_types import Value
from pyhudi.read.table_snapshot import TableState
from pyhudi.sync.snapshot_manifest import ManifestReport, write_manifest
from pyhudi.sync.sync_report import SyncReport
from pyhudi.sync.targets import sync_with

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
        """Register the table in a catalog, or bring its entries up to date; or send the event of
        its newest commit to OpenLineage, or its schema and properties to DataHub.

        catalog: "hive" (a Hive Metastore), "glue" (the AWS Glue Data Catalog), "openlineage" or
        "datahub".  uri: of the metastore, `thrift://host:9083`; of the server or file of
        OpenLineage, `http://host:5000` or `file:/path`; of DataHub, `http://host:8080`.
        database, table: names of the entry or dataset, or in the name of the job; by default the
        table's own.  region: of Glue.  options: more
        `hoodie.datasource.hive_sync.*`, `hoodie.meta.sync.*` and `pyhudi.openlineage.*`; they and
        the arguments win over the options the table was opened with.  dry_run: report only.

        Entries are those of Apache Hudi's HiveSyncTool.  Only partitions that changed since the
        last synced instant, which the catalog stores, are compared.
        Raises CatalogError if the catalog fails, UserError and SchemaError before anything is
        written; the next sync completes one that failed.
        """
        kind = _kind(catalog)
        given = {"database": database, "table": table, "region": region}
        if isinstance(kind, LineageKind):
            option, address = _ADDRESSES[kind]
            _check_address(kind, address, uri, region)
            given[option] = uri
        else:
            given["uri"] = uri
        chosen = with_arguments(self._options.catalog, options, given)
        return sync_with(kind, chosen, self._state, dry_run=dry_run)

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


_ADDRESSES: Final = {
    LineageKind.OPEN_LINEAGE: ("lineage_url", EVENT_URL),
    LineageKind.DATAHUB: ("datahub_server", SERVER_URL),
}
"""The option that has the address of a server, and its values."""


def _check_address(kind: LineageKind, address: Value, uri: str | None, region: str | None) -> None:
    """Raises UserError for what such a server does not have."""
    if region is not None:
        raise UserError("region= is of AWS Glue", region=region)
    try:
        if uri is not None:
            address.parse(uri)
    except (ValueError, TypeError, AttributeError):
        raise UserError(
            "not the address of such a server",
            kind=kind.value,
            uri=uri,
            hint=f"pass {address.allowed}",
        ) from None


def _kind(catalog: str) -> CatalogKind | LineageKind:
    kinds: dict[str, CatalogKind | LineageKind] = {
        kind.value: kind for kind in (*CatalogKind, *LineageKind)
    }
    if not isinstance(catalog, str) or catalog.lower() not in kinds:
        raise UserError("unknown catalog", catalog=catalog, hint=f"pass one of {', '.join(kinds)}")
    return kinds[catalog.lower()]
