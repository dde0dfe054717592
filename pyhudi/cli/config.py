"""`pyhudi config`: what options mean, their defaults, and what a table has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from pyhudi.cli.command import Answer, Call, ExitCode, Target, command
from pyhudi.environment import examine_environment
from pyhudi.options.default_values import default_here, hudi_defaults
from pyhudi.options.meanings import meaning_of
from pyhudi.options.option_row import Fate, Row
from pyhudi.options.parse import unknown_option
from pyhudi.options.registry import AREAS, BY_NAME
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import load_config

_SUPPORT = {
    Fate.HONOURED: "honoured",
    Fate.MAPPED: "mapped",
    Fate.INGEST: "ingest",
    Fate.WITHOUT_EFFECT: "no effect",
    Fate.REFUSED: "rejected",
}


@click.group()
def config() -> None:
    """The hoodie.* options: meaning, support, defaults."""


@command(
    "explain",
    config,
    target=Target.NOTHING,
    example="config explain hoodie.parquet.small.file.limit --table trips",
)
@click.argument("option_name", metavar="NAME")
@click.option("--table", "table_path", metavar="PATH", help="Also show the value in this table.")
def config_explain(call: Call, option_name: str, table_path: str | None) -> Any:
    """Show what the option NAME is, its values, and its default here and in Apache Hudi."""
    row = BY_NAME.get(option_name)
    if row is None:
        raise unknown_option(option_name)
    facts = _facts(row)
    properties = {} if table_path is None else load_config(locate(table_path)).properties
    return Answer({**facts, "in_table": _stated_value(row, properties)}, row.name)


def _facts(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "meaning": meaning_of(row),
        "other_names": list(row.aliases),
        "support": _SUPPORT[row.fate],
        "values": row.value.allowed if row.value else None,
        "note": (row.note if row.note != meaning_of(row) else "") or None,
        "instead": row.use or None,
        **_defaults(row),
    }


def _defaults(row: Row) -> dict[str, Any]:
    in_hudi = hudi_defaults(row.name)
    return {
        "default": default_here(row),
        "default_hudi_0_15": in_hudi.v0_15,
        "default_hudi_1_2": in_hudi.v1_2,
    }


def _stated_value(row: Row, properties: Mapping[str, str]) -> str | None:
    names = (row.name, *row.aliases)
    return next((properties[name] for name in names if name in properties), None)


@command("list", config, target=Target.NOTHING, example="config list --contains clean")
@click.option("--contains", help="Only options whose name contains this text.")
@click.option(
    "--support", type=click.Choice(list(_SUPPORT.values())), help="Only options with this support."
)
def config_list(call: Call, contains: str | None, support: str | None) -> Any:
    """Show all options with their support and defaults."""
    return [
        {"name": row.name, "area": area, "support": _SUPPORT[row.fate], **_defaults(row)}
        for area, rows in AREAS.items()
        for row in sorted(rows, key=lambda each: each.name)
        if (contains or "").lower() in row.name.lower() and support in (None, _SUPPORT[row.fate])
    ]


@command("diff", config, example="config diff trips")
def config_diff(call: Call) -> Any:
    """Show properties of the table that differ from the default here or in Apache Hudi 1.2.0."""
    found = []
    for name, value in sorted(load_config(call.store).properties.items()):
        row = BY_NAME.get(name)
        defaults = _defaults(row) if row else _NO_DEFAULTS
        known = [text for each in defaults.values() if (text := _text(each)) is not None]
        if not known or any(text != value.strip().lower() for text in known):
            found.append({"name": name, "in_table": value, **defaults})
    return found


_NO_DEFAULTS = {"default": None, "default_hudi_0_15": None, "default_hudi_1_2": None}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return ",".join(value).lower() if isinstance(value, list) else str(value).strip().lower()


@command("doctor-env", target=Target.NOTHING, example="doctor-env --json")
def doctor_env(call: Call) -> Any:
    """Show what is installed: extras, the native core, Java, PySpark; exit code 3 for problems."""
    found = examine_environment()
    return Answer(
        found, text=str(found), code=ExitCode.PROBLEMS if found.problems else ExitCode.SUCCESS
    )
