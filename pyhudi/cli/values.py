"""Types of command line values; an invalid value is a usage error (exit code 2)."""

from __future__ import annotations

from collections.abc import Callable
from threading import TIMEOUT_MAX
from typing import Any, Final

import click

from pyhudi.ingest.streamer.properties import read_properties

COUNT: Final = click.IntRange(min=1, max=2**31 - 1)
"""A count of at least one."""

Settings = tuple[tuple[str, str], ...]
"""Options as pairs of name and value."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def seconds(text: str) -> float:
    """An interval in seconds: above zero and at most the longest timeout the system supports."""
    try:
        found = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number of seconds.") from None
    if not 0 < found <= TIMEOUT_MAX:
        raise click.BadParameter(f"{text} is not in the range 0<x<={TIMEOUT_MAX:.0f}.")
    return found


def name_of(text: str) -> str:
    """A non-empty name."""
    if not text.strip():
        raise click.BadParameter("the name must not be empty.")
    return text


def setting(text: str) -> tuple[str, str]:
    """A pair from NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not (name.strip() and separator):
        raise click.BadParameter(f"{text!r} does not have the form NAME=VALUE.")
    return name.strip(), value


def properties_file(path: str) -> dict[str, str]:
    """The entries of a properties file."""
    return read_properties(path)


def columns_option(flag: str, what: str) -> Decorator:
    """An option that names columns."""
    return click.option(
        flag, multiple=True, type=name_of, metavar="COLUMN", help=f"{what}; may be repeated."
    )


def limit_option(default: int | None, what: str) -> Decorator:
    """An option that limits the number of entries.  default: None for no limit."""
    shows = default is not None
    return click.option("--limit", type=COUNT, default=default, show_default=shows, help=what)
