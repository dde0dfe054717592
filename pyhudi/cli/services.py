"""`pyhudi compaction`, `pyhudi clean`."""

from __future__ import annotations

import click

import pyhudi
from pyhudi.cli.output import as_json, show

dry_run = click.option("--dry-run", is_flag=True, help="Tell what would happen; change nothing.")
option = click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="A hoodie.* option."
)


def _opened(path: str, options: tuple[str, ...]) -> pyhudi.Table:
    pairs = (text.partition("=") for text in options)
    return pyhudi.open_table(path, options={name: value for name, _, value in pairs})


@click.group()
def compaction() -> None:
    """Merge the logs of a merge-on-read table into base files."""


@compaction.command("run")
@click.argument("path")
@dry_run
@option
@as_json
def compaction_run(path: str, dry_run: bool, options: tuple[str, ...], as_json: bool) -> None:
    """Carry out the planned compaction, or plan one and carry it out."""
    show(_opened(path, options).compact(dry_run=dry_run).to_dict(), as_json=as_json)


@compaction.command("schedule")
@click.argument("path")
@option
@as_json
def compaction_schedule(path: str, options: tuple[str, ...], as_json: bool) -> None:
    """Plan a compaction, for `run` or for Apache Hudi."""
    show({"instant": _opened(path, options).schedule_compaction()}, as_json=as_json)


@click.group()
def clean() -> None:
    """Delete files that no reader needs any more."""


@clean.command("run")
@click.argument("path")
@dry_run
@option
@as_json
def clean_run(path: str, dry_run: bool, options: tuple[str, ...], as_json: bool) -> None:
    """Carry out planned cleans, then plan one and carry it out."""
    show(_opened(path, options).clean(dry_run=dry_run).to_dict(), as_json=as_json)
