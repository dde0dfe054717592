"""The `pyhudi` command and its groups: `pyhudi NOUN VERB PATH`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from pyhudi.cli import (
    care,
    commits,
    config,
    demo,
    files,
    rows,
    services,
    statistics,
    table_changes,
    tables,
    writes,
)
from pyhudi.cli.catalogs import manifest, sync
from pyhudi.cli.command import ExitCode, Session, epilog, exit_code_of
from pyhudi.cli.indexes import index
from pyhudi.cli.ingest.commands import ingest
from pyhudi.cli.measurement.bench import bench
from pyhudi.cli.other_commands import remedy
from pyhudi.cli.output import explain, print_error
from pyhudi.cli.pages.report import report
from pyhudi.cli.pages.serve import serve
from pyhudi.cli.pages.top import top
from pyhudi.errors import PyhudiError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=epilog("table info trips"),
)
@click.version_option(package_name="pyhudi")
def commands() -> None:
    """Apache Hudi tables without a jar."""


@click.command(epilog=epilog("completion bash > ~/.pyhudi-completion.bash"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes pyhudi's commands in a shell; source it in its profile."""
    found = get_completion_class(shell)
    assert found is not None
    root = context.find_root().command
    click.echo(found(root, {}, "pyhudi", "_PYHUDI_COMPLETE").source())


for command in (
    demo.demo,
    tables.table,
    commits.commits,
    commits.timeline,
    index,
    services.compaction,
    services.clustering,
    services.ttl,
    services.clean,
    services.rollback,
    services.savepoint,
    care.doctor,
    care.repair,
    report,
    top,
    serve,
    sync,
    manifest,
    care.metadata,
    services.restore,
    care.services,
    config.config,
    config.doctor_env,
    statistics.stats,
    care.locks,
    rows.show,
    rows.changes,
    rows.diff,
    rows.history,
    rows.sql,
    writes.write,
    writes.delete,
    ingest,
    bench,
    completion,
    files.hfile,
    files.log,
):
    commands.add_command(command)
for command in table_changes.COMMANDS:
    tables.table.add_command(command)


def run(words: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (None: that of this process) and exit with its code.

    An error is printed in two lines on standard error: what is wrong, and what to do.  With
    --debug its traceback precedes them.
    """
    session = Session()
    try:
        commands(words, prog_name="pyhudi", standalone_mode=False, obj=session)
    except click.Abort:
        click.echo("aborted", err=True)
        sys.exit(ExitCode.FAILURE)
    except BrokenPipeError:  # the reader of the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.FAILURE)
    except Exception as error:
        if session.debug:
            traceback.print_exception(error)
        sys.exit(_explained(error))
    sys.exit(ExitCode.SUCCESS)


def _explained(error: Exception) -> int:
    """Print an error; the exit code."""
    match error:
        case PyhudiError():
            explain(error)
            return exit_code_of(error)
        case click.UsageError():
            if type(error).__name__ == "NoArgsIsHelpError":  # the help of a group
                error.show()
                return error.exit_code
            print_error("USAGE", error.format_message(), remedy(error))
            return error.exit_code
        case click.ClickException():
            print_error("FAILURE", error.format_message(), "add --debug for the traceback")
            return error.exit_code
        case ModuleNotFoundError(name=str(module)) if not module.startswith("pyhudi"):
            what = f"the library {module} is not installed"
            print_error("USER", what, "install it; `pyhudi doctor-env` lists the extras of pyhudi")
            return ExitCode.FAILURE
        case _:
            what = f"unexpected {type(error).__name__}: {error}"
            print_error("INTERNAL", what, "add --debug for the traceback, and report it as a bug")
            return ExitCode.FAILURE
