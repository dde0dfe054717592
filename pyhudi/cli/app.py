"""The `pyhudi` command and its groups: `pyhudi NOUN VERB PATH`.

Exit codes: 0 success, 1 failure, 2 usage error, 3 a check found problems, 4 write conflict.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from pyhudi.cli import care, demo, files, services, tables
from pyhudi.cli.indexes import index
from pyhudi.cli.output import explain
from pyhudi.errors import PyhudiError, UserError, WriteConflictError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyhudi")
def commands() -> None:
    """Apache Hudi tables without a jar."""


for command in (
    demo.demo,
    tables.table,
    tables.timeline,
    index,
    services.compaction,
    services.clustering,
    services.ttl,
    services.clean,
    services.rollback,
    services.savepoint,
    care.doctor,
    care.repair,
    care.metadata,
    services.restore,
    care.services,
    files.hfile,
    files.log,
):
    commands.add_command(command)


def run(words: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (None: that of this process) and exit with its code.  A PyhudiError is
    printed as one line on standard error."""
    try:
        commands(words, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(1)
    except PyhudiError as error:
        explain(error)
        match error:
            case WriteConflictError():
                sys.exit(4)
            case UserError():
                sys.exit(2)
            case _:
                sys.exit(1)
    sys.exit(0)
