"""Help of commands: short with --help, everything in groups with --help-all."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from docs._build.command_help import Name, all_commands
from pyhudi.cli.app import commands
from pyhudi.cli.help import LINES_MAX

COMMANDS = [(n, c) for n, c in all_commands() if not isinstance(c, click.Group)]


def printed(name: Name, option: str) -> str:
    done = CliRunner(env={"COLUMNS": "80"}).invoke(commands, [*name, option], prog_name="pyhudi")
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=str)
def test_help_is_short_and_names_every_option(name: Name, command: click.Command) -> None:
    text = printed(name, "--help")
    assert len(text.splitlines()) <= LINES_MAX
    assert "Example:" in text and "Exit codes:" in text
    words = text.replace(",", " ").split()
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    assert [o.opts for o in options if not set(o.opts) & set(words)] == []


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=str)
def test_help_all_describes_every_option(name: Name, command: click.Command) -> None:
    if name == ("completion",):
        return
    text = " ".join(printed(name, "--help-all").split())
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and option.help:
            assert " ".join(option.help.split()[:3]) in text, option.opts


def test_options_of_many_commands_have_groups() -> None:
    text = printed(("clean",) if ("clean",) in dict(COMMANDS) else ("write",), "--help-all")
    places = [text.index(f"\n{title}:") for title in (
        "Options", "Options of what is changed", "Options of the table", "Options of the output"
    )]  # fmt: skip
    assert places == sorted(places)
    assert places[2] < text.index("--storage") < places[3] < text.index("--json")


def test_columns_of_users_are_printed_as_they_are(tmp_path, monkeypatch) -> None:
    import pyarrow as pa

    import pyhudi

    rows = pa.table({"user_id": ["a"], "fare_total": [1.5]})
    pyhudi.upsert(tmp_path / "t", rows, record_key="user_id")
    runner = CliRunner(env={"COLUMNS": "200"})
    done = runner.invoke(commands, ["show", str(tmp_path / "t")])
    assert "user_id" in done.output and "fare_total" in done.output
    meta = runner.invoke(commands, ["show", str(tmp_path / "t"), "--meta"])
    assert "_hoodie_commit_time" in meta.output and "_hoodie" not in done.output


def test_config_explain_gives_the_meaning() -> None:
    done = CliRunner().invoke(commands, ["config", "explain", "hoodie.clean.commits.retained"])
    assert "The newest commits whose file versions cleaning keeps." in done.output
