"""`pyhudi manifest`: the list of base files, for engines that read such lists."""

from __future__ import annotations

from typing import Any

import click

from pyhudi.cli.command import Call, command


@command("manifest", example="manifest trips", changes=True)
@click.option("--names", is_flag=True, help="Names of files instead of URLs.")
def manifest(call: Call, names: bool) -> Any:
    """Write the list of base files of the newest snapshot (BigQuery, Redshift, Athena).

    The list is .hoodie/absolute-path-manifest/latest-snapshot.csv; with --names it is
    .hoodie/manifest/latest-snapshot.csv. Rows and deletes in logs are not part of it.
    """
    return call.table.write_manifest(absolute=not names, dry_run=call.dry_run).to_dict()
