"""Help texts, and JSON shapes, which are promised."""

from __future__ import annotations

import json

import click
import pytest

from docs._build.command_help import SHAPES, Name, all_commands, help_of
from tests.cli.golden import has_shape, json_shape
from tests.cli.samples import SAMPLES, WITHOUT_SAMPLE

COMMANDS = [(n, c) for n, c in all_commands() if not isinstance(c, click.Group)]
PROMISED = json.loads(SHAPES.read_text("utf-8"))
WITHOUT_JSON = {"completion"}
"""Commands that print text only."""


@pytest.mark.parametrize("name", [n for n, _ in COMMANDS if has_shape(n)], ids=" ".join)
def test_json_has_the_promised_shape(name: Name) -> None:
    assert json_shape(name) == PROMISED.get(" ".join(name)), "python -m tests.cli.golden"


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=str)
def test_help_has_an_example_and_exit_codes(name: Name, command: click.Command) -> None:
    text = " ".join(help_of(name, command).split())
    assert f"Example: pyhudi {' '.join(name)}" in text
    assert "Exit codes: 0 success, 1 failure, 2 usage error, 3" in text
    assert "--json" in text or " ".join(name) in WITHOUT_JSON


def test_every_command_has_a_sample() -> None:
    assert {" ".join(n) for n, _ in COMMANDS} - WITHOUT_JSON - WITHOUT_SAMPLE == SAMPLES.keys()
    assert SAMPLES.keys() == PROMISED.keys()
