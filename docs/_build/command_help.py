"""Help and JSON shape of every command, for docs/cli.md.

The shapes are those of tests/golden/cli_json.json, which a test compares with real runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from pyhudi.cli.app import commands
from pyhudi.cli.command import EXIT_CODES
from pyhudi.cli.help import CommandWithHelp

SHAPES = Path(__file__).parents[2] / "tests" / "golden" / "cli_json.json"
WIDTH = 100

Name = tuple[str, ...]


def all_commands(
    command: click.Command = commands, name: Name = ()
) -> Iterator[tuple[Name, click.Command]]:
    """Every group and command, groups first, without hidden ones."""
    if command.hidden:
        return
    if name:
        yield name, command
    if isinstance(command, click.Group):
        for word, below in sorted(command.commands.items()):
            yield from all_commands(below, (*name, word))


def help_of(name: Name, command: click.Command) -> str:
    """The help text as printed on a terminal of 100 columns."""
    parent: click.Context | None = None
    chain: click.Command = commands
    parent = click.Context(commands, info_name="pyhudi", **commands.context_settings)
    for word in name[:-1]:
        assert isinstance(chain, click.Group)
        chain = chain.commands[word]
        parent = click.Context(chain, info_name=word, parent=parent)
    context = click.Context(
        command, info_name=name[-1], parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    if isinstance(command, CommandWithHelp):
        return command.full_help(context) + "\n"
    return command.get_help(context) + "\n"


def text() -> str:
    """The exit codes, then a section for each command."""
    shapes = json.loads(SHAPES.read_text("utf-8"))
    lines = ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code.value} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    for name, command in all_commands():
        level = "##" if len(name) == 1 else "###"
        title = f"{level} pyhudi {' '.join(name)}"
        if isinstance(command, click.Group):
            lines += ["", title, "", (command.help or "").split("\n\n")[0].replace("\n", " ")]
            continue
        lines += ["", title, "", "```text", help_of(name, command).rstrip("\n"), "```"]
        if document := shapes.get(" ".join(name)):
            lines += ["", "JSON:", "", "```json", json.dumps(document, indent=2), "```"]
    return "\n".join(lines) + "\n"
