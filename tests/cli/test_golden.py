"""Help texts and JSON shapes of all commands against the golden files."""

from __future__ import annotations

import click
import pytest

from tests.cli.golden import (
    GOLDEN,
    PAGE,
    Name,
    all_commands,
    golden_file,
    golden_text,
    help_of,
    page,
)
from tests.cli.samples import SAMPLES, WITHOUT_SAMPLE

ALL = [pytest.param(name, command, id=" ".join(name)) for name, command in all_commands()]
WITHOUT_JSON = {"completion"}
"""Commands that print text only."""


@pytest.mark.parametrize(("name", "command"), ALL)
def test_help_and_json_shape_are_those_of_the_golden_file(
    name: Name, command: click.Command
) -> None:
    assert golden_text(name, command) == golden_file(name).read_text("utf-8"), (
        "the command has changed: python -m tests.cli.golden"
    )


@pytest.mark.parametrize(("name", "command"), ALL)
def test_help_has_an_example_and_exit_codes(name: Name, command: click.Command) -> None:
    if not isinstance(command, click.Group):
        text = " ".join(help_of(name, command).split())
        assert f"Example: pyhudi {' '.join(name)}" in text
        assert "Exit codes: 0 success, 1 failure, 2 usage error, 3" in text
        assert "--json" in text or " ".join(name) in WITHOUT_JSON


def test_every_command_has_a_sample_and_a_golden_file() -> None:
    names = {" ".join(n) for n, c in all_commands() if not isinstance(c, click.Group)}
    assert names - WITHOUT_JSON - WITHOUT_SAMPLE == SAMPLES.keys()
    assert {path.name for path in GOLDEN.glob("*.txt")} == {
        golden_file(name).name for name, _ in all_commands()
    }


def test_the_page_of_the_command_line_is_current() -> None:
    assert page() == PAGE.read_text("utf-8"), (
        "the command line has changed: python -m tests.cli.golden"
    )
