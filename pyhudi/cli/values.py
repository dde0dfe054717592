"""Types of the command line's values: what cannot be right is an error of usage (exit code 2)."""

from __future__ import annotations

from threading import TIMEOUT_MAX
from typing import Final

import click

COUNT: Final = click.IntRange(min=1, max=2**31 - 1)
"""A number of things, at least one."""

Settings = tuple[tuple[str, str], ...]
"""Options as pairs of name and value."""


def seconds(text: str) -> float:
    """A pause: a finite number of seconds above zero that a system call can wait."""
    try:
        found = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number of seconds.") from None
    if not 0 < found <= TIMEOUT_MAX:
        raise click.BadParameter(f"{text} is not in the range 0<x<={TIMEOUT_MAX:.0f}.")
    return found


def name_of(text: str) -> str:
    """A text that is not empty."""
    if not text.strip():
        raise click.BadParameter("an empty text names nothing.")
    return text


def setting(text: str) -> tuple[str, str]:
    """NAME=VALUE, as a pair."""
    name, separator, value = text.partition("=")
    if not (name.strip() and separator):
        raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
    return name.strip(), value


option = click.option(
    "--option",
    "options",
    multiple=True,
    type=setting,
    metavar="NAME=VALUE",
    help="A hoodie.* option.",
)
