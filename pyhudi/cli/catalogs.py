"""`pyhudi sync` and `pyhudi manifest`: a table for catalogs and for engines that read lists."""

from __future__ import annotations

from typing import Any

import click

from pyhudi.cli.command import Call, command


@command("sync", example="sync trips --uri thrift://127.0.0.1:9083 --database lake", changes=True)
@click.option(
    "--catalog",
    type=click.Choice(["hive", "glue", "openlineage", "datahub"]),
    default="hive",
    show_default=True,
    help="A Hive Metastore, AWS Glue, OpenLineage or DataHub.",
)
@click.option(
    "--uri", metavar="URI", help="Of the metastore, thrift://host:9083, or of the other server."
)
@click.option("--database", metavar="NAME", help="Of the entry; default: the table's, or default.")
@click.option("--table", metavar="NAME", help="Of the entry; default: the table's name.")
@click.option("--region", metavar="NAME", help="Of AWS Glue.")
def sync(
    call: Call,
    catalog: str,
    uri: str | None,
    database: str | None,
    table: str | None,
    region: str | None,
) -> Any:
    """Register a table in a catalog, or bring its entries up to date.

    Entries are those of Apache Hudi's HiveSyncTool. OpenLineage gets the event of the newest
    commit, DataHub the schema and properties. --option accepts the hoodie.* options of catalog
    sync and pyhudi.openlineage.*.
    """
    report = call.table.sync(
        catalog, uri=uri, database=database, table=table, region=region, dry_run=call.dry_run
    )
    return report.to_dict()


@command("manifest", example="manifest trips", changes=True)
@click.option("--names", is_flag=True, help="Names of files instead of URLs.")
def manifest(call: Call, names: bool) -> Any:
    """Write the list of base files of the newest snapshot (BigQuery, Redshift, Athena).

    The list is .hoodie/absolute-path-manifest/latest-snapshot.csv; with --names it is
    .hoodie/manifest/latest-snapshot.csv. Rows and deletes in logs are not part of it.
    """
    return call.table.write_manifest(absolute=not names, dry_run=call.dry_run).to_dict()
