"""docs/cli.md against the commands: help texts, and JSON shapes, which are promised."""

from __future__ import annotations

import click
import pytest

from tests.cli.golden import (
    PAGE,
    Name,
    all_commands,
    documented_shapes,
    has_shape,
    help_of,
    json_shape,
    page,
)
from tests.cli.samples import SAMPLES, WITHOUT_SAMPLE

COMMANDS = [(n, c) for n, c in all_commands() if not isinstance(c, click.Group)]
SHAPES = documented_shapes()
WITHOUT_JSON = {"completion"}
"""Commands that print text only."""


@pytest.mark.parametrize("name", [n for n, _ in COMMANDS if has_shape(n)], ids=" ".join)
def test_json_has_the_documented_shape(name: Name) -> None:
    assert json_shape(name) == SHAPES.get(name), "python -m tests.cli.golden"


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=str)
def test_help_has_an_example_and_exit_codes(name: Name, command: click.Command) -> None:
    text = " ".join(help_of(name, command).split())
    assert f"Example: pyhudi {' '.join(name)}" in text
    assert "Exit codes: 0 success, 1 failure, 2 usage error, 3" in text
    assert "--json" in text or " ".join(name) in WITHOUT_JSON


def test_every_command_has_a_sample() -> None:
    assert {" ".join(n) for n, _ in COMMANDS} - WITHOUT_JSON - WITHOUT_SAMPLE == SAMPLES.keys()


def test_the_page_of_the_command_line_is_current() -> None:
    assert page(SHAPES) == PAGE.read_text("utf-8"), "python -m tests.cli.golden"
