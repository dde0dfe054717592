"""`pyhudi index`."""

from __future__ import annotations

import sys

import click

import pyhudi
from pyhudi.cli.output import as_json, show
from pyhudi.cli.services import dry_run

_PROBLEMS = 3


@click.group()
def index() -> None:
    """The record index."""


@index.command("lookup")
@click.argument("path")
@click.argument("keys", nargs=-1, required=True)
@as_json
def index_lookup(path: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Where each record KEY lives."""
    found = pyhudi.open_table(path).lookup(list(keys))
    show(found.to_pylist(), as_json=as_json)


@index.command("verify")
@click.argument("path")
@click.option("--sample", type=int, help="Look at so many keys of each side, not at all.")
@as_json
def index_verify(path: str, sample: int | None, as_json: bool) -> None:
    """Hold the index against the table; exit code 3 if they differ."""
    check = pyhudi.open_table(path).index.verify(sample=sample)
    show(check.to_dict(), as_json=as_json)
    if not check.is_exact:
        sys.exit(_PROBLEMS)


@index.command("repair")
@click.argument("path")
@dry_run
@as_json
def index_repair(path: str, dry_run: bool, as_json: bool) -> None:
    """Check the whole index and mend what is wrong."""
    show(pyhudi.open_table(path).index.repair(dry_run=dry_run).to_dict(), as_json=as_json)
