"""The pattern of all commands: common options, exit codes, confirmation and output.

`@command` turns a function of a Call into a click command.  The function returns what the command
reports; with `--json` that is printed as one JSON document, otherwise as a table.
"""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any, Final

import click
import pyarrow as pa

import pyhudi
from pyhudi.cli.help import CommandWithHelp
from pyhudi.cli.output import row_values, show
from pyhudi.cli.progress import ProgressEngine
from pyhudi.cli.values import Settings, properties_file, setting
from pyhudi.errors import PyhudiError, UserError, WriteConflictError
from pyhudi.options import Options, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    PROBLEMS = 3
    CONFLICT = 4


EXIT_CODES: Final[Mapping[ExitCode, str]] = {
    ExitCode.SUCCESS: "success",
    ExitCode.FAILURE: "failure",
    ExitCode.USAGE: "usage error",
    ExitCode.PROBLEMS: "a check found problems",
    ExitCode.CONFLICT: "write conflict",
}
"""The meaning of each exit code, for help and documentation."""


def exit_code_of(error: PyhudiError) -> ExitCode:
    """The exit code of a command that ends with this error."""
    match error:
        case WriteConflictError():
            return ExitCode.CONFLICT
        case UserError():
            return ExitCode.USAGE
        case _:
            return ExitCode.FAILURE


class Target(Enum):
    """What a command works on: a table at PATH, the path of a new table, or neither."""

    TABLE = "table"
    NOTHING = "nothing"


@dataclass
class Session:
    """Settings of one command line that apply to all commands."""

    debug: bool = False


@dataclass(frozen=True)
class Answer:
    """What a command reports.

    value: a mapping, a list of mappings or an Arrow table.  text: printed instead of the value
    without --json; None prints the value as a table, under the title.
    """

    value: Any
    title: str = ""
    text: str | None = None
    code: ExitCode = ExitCode.SUCCESS


@dataclass(frozen=True)
class Call:
    """The common arguments of one call of a command."""

    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    as_json: bool = False
    dry_run: bool = False
    yes: bool = False
    engine: ProgressEngine = field(default_factory=ProgressEngine)

    @cached_property
    def table(self) -> pyhudi.Table:
        """The table at PATH, with the options of the command line."""
        return pyhudi.open_table(
            self.path, options=self.options, storage_options=self.storage, engine=self.engine
        )

    @cached_property
    def parsed(self) -> Options:
        """The options of the command line.  Raises OptionError."""
        return parse_options(self.options)

    @cached_property
    def store(self) -> FileSystem:
        """The file system with its root at PATH."""
        return locate(self.path, storage_options=self.storage)

    def confirm(self, question: str) -> None:
        """Prompt for a confirmation, unless --yes or --dry-run was given.

        Raises UserError where there is no terminal to answer on, click.Abort for a no.
        """
        if self.dry_run or self.yes:
            return
        if not sys.stdin.isatty():
            raise UserError(
                "the command needs a confirmation",
                question=question,
                hint="add --yes, or --dry-run for a report of what it would do",
            )
        self.engine.pause()
        click.confirm(question, abort=True, err=True)


def command(
    name: str,
    *groups: click.Group,
    example: str,
    target: Target = Target.TABLE,
    changes: bool = False,
    is_dangerous: bool = False,
    prints_rows: bool = False,
    kind: type[CommandWithHelp] = CommandWithHelp,
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command of each group, made from a function of a Call and of its click parameters.

    example: the arguments of an example in the help, after `pyhudi`.  changes: the command has
    --dry-run; is_dangerous: and --yes.  prints_rows: the command prints its rows itself.
    kind: the class of the command.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        specific = list(reversed(getattr(function, "__click_params__", ())))
        common = _common(target, changes=changes, is_dangerous=is_dangerous)
        made = kind(
            name,
            params=[*_arguments(target), *specific, *common],
            help=function.__doc__,
            epilog=epilog(example),
            callback=_callback(function, target, prints_rows=prints_rows),
        )
        for group in groups:
            group.add_command(made)
        return made

    return decorate


def epilog(example: str) -> str:
    """The end of a help text: an example, and the exit codes."""
    codes = ", ".join(f"{code.value} {meaning}" for code, meaning in EXIT_CODES.items())
    return f"\b\nExample:\n  pyhudi {example}\n\nExit codes: {codes}."


def _arguments(target: Target) -> Iterator[click.Parameter]:
    if target is Target.TABLE:
        yield click.Argument(["path"])


def _common(target: Target, *, changes: bool, is_dangerous: bool) -> Iterator[click.Parameter]:
    """Options that many commands have."""
    if changes:
        yield _flag("--dry-run", "Report what would be done; change nothing.")
    if is_dangerous:
        yield _flag("--yes", "Do not prompt for a confirmation.")
    if target is Target.TABLE:
        yield click.Option(
            ["--option", "options"],
            multiple=True,
            type=setting,
            metavar="NAME=VALUE",
            help="A hoodie.* option; may be repeated.",
        )
        yield click.Option(
            ["--props"],
            type=click.Path(exists=True, dir_okay=False),
            metavar="FILE",
            help="A properties file with hoodie.* options; --option takes precedence.",
        )
        yield click.Option(
            ["--storage"],
            multiple=True,
            type=setting,
            metavar="KEY=VALUE",
            help="An option of the store, such as endpoint=URL; may be repeated.",
        )
    yield _flag("--json", "Print one JSON document.", "as_json")
    yield click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Print the traceback of an error.",
    )


def _flag(name: str, text: str, *names: str) -> click.Option:
    return click.Option([name, *names], is_flag=True, help=text)


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Session).debug = True


def _callback(
    function: Callable[..., Any], target: Target, *, prints_rows: bool
) -> Callable[..., None]:
    """The click callback: builds the Call, runs the function, prints its answer."""

    def run(
        path: str = "",
        as_json: bool = False,
        dry_run: bool = False,
        yes: bool = False,
        **specific: Any,
    ) -> None:
        given: dict[str, str] = {}
        storage: Settings = ()
        if target is Target.TABLE:
            props, storage = specific.pop("props"), specific.pop("storage")
            given = {
                **(properties_file(props) if props else {}),
                **dict(specific.pop("options")),
            }
        engine = ProgressEngine()
        call = Call(path, given, dict(storage), as_json, dry_run, yes, engine)
        parse_options(given)  # an invalid option is an error of every command
        with engine:
            answer = function(call, **specific)
        if answer is None and prints_rows:
            return
        code = print_answer(answer, as_json)
        if code:
            sys.exit(code)

    return run


def print_answer(answer: Any, as_json: bool = False) -> ExitCode:
    """Print what a command reports, an `Answer` or its value."""
    answer = answer if isinstance(answer, Answer) else Answer(answer)
    if answer.text is not None and not as_json:
        click.echo(answer.text)
    else:
        are_rows = isinstance(answer.value, pa.Table)
        show(_plain(answer.value), as_json=as_json, title=answer.title, are_rows=are_rows)
    code: ExitCode = answer.code
    return code


def _plain(value: Any) -> Any:
    """Reports, dataclasses and Arrow tables as mappings and lists."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, pa.Table):
        return row_values(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, where this is the main thread."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(each, lambda *_: stop.set()) for each in signals]
    try:
        yield stop
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
