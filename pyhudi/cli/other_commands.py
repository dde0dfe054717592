"""Commands that other tools have, or that stand in another place, and what is typed here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import click

OTHERS: Final[Mapping[str, str]] = {
    "backup": "pyhudi table copy PATH TARGET",
    "cat": "pyhudi show PATH",
    "check": "pyhudi doctor PATH",
    "cluster": "pyhudi clustering run PATH",
    "compact": "pyhudi compaction run PATH",
    "copy": "pyhudi table copy PATH TARGET",
    "count": "pyhudi sql PATH 'select count(*) from NAME'",
    "create": "pyhudi table create PATH",
    "describe": "pyhudi table info PATH",
    "export": "pyhudi show PATH -o FILE",
    "files": "pyhudi table files PATH",
    "fsck": "pyhudi doctor PATH",
    "head": "pyhudi show PATH --limit 10",
    "help": "pyhudi --help",
    "info": "pyhudi table info PATH",
    "insert": "pyhudi write PATH FILE",
    "ls": "pyhudi table files PATH",
    "optimize": "pyhudi services run PATH",
    "query": "pyhudi sql PATH STATEMENT",
    "read": "pyhudi show PATH",
    "scan": "pyhudi show PATH",
    "schema": "pyhudi table schema PATH",
    "select": "pyhudi sql PATH STATEMENT",
    "snapshots": "pyhudi commits list PATH",
    "upsert": "pyhudi write PATH FILE",
    "vacuum": "pyhudi clean run PATH",
    "validate": "pyhudi doctor PATH",
    "verify": "pyhudi doctor PATH",
    "version": "pyhudi --version",
}


_OPTIONS: Final[Mapping[str, str]] = {
    "--endpoint": "--storage endpoint=URL",
    "--endpoint-url": "--storage endpoint=URL",
    "--fix": "pyhudi repair PATH",
    "--region": "--storage region=NAME",
    "--retain": "--option hoodie.clean.commits.retained=NUMBER",
    "-n": "--limit NUMBER",
}


def remedy(error: click.UsageError) -> str:
    """What to type instead of a command line that is refused."""
    context = error.ctx
    where = context.command_path if context else "pyhudi"
    unknown = re.match(r"No such command '([^']*)'", error.format_message())
    if context and unknown and isinstance(context.command, click.Group):
        if context.parent is None and unknown[1] in OTHERS:
            return f"type `{OTHERS[unknown[1]]}`"
        if context.parent is not None and "Did you mean" not in error.format_message():
            verbs = ", ".join(context.command.list_commands(context))
            return f"type `{where} VERB PATH`; verbs: {verbs}"
    if isinstance(error, click.NoSuchOption) and error.option_name in _OPTIONS:
        return f"type `{_OPTIONS[error.option_name]}`"
    return f"`{where} --help` describes it"
