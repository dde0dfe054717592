"""Help of commands: one line an option with `--help`, everything in groups with `--help-all`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

LINES_MAX: Final = 25
"""Lines of the help of a command with `--help`."""

_COMMON: Final[dict[str, tuple[str, ...]]] = {
    "Options of what is changed": ("--dry-run", "--yes"),
    "Options of the table": ("--option", "--props", "--storage"),
    "Options of the output": ("--limit", "--format", "--output", "--json", "--debug", "--help-all",
                              "--help"),
}  # fmt: skip
"""Titles of groups of options that many commands have."""
_META: Final = 32
"""Width of the names of options, at most."""


class CommandWithHelp(click.Command):
    """A command with short help; `--help-all` describes all options."""

    def __init__(self, name: str | None, params: Sequence[click.Parameter], **named: Any) -> None:
        shown = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_all,
            help="Describe all options.",
        )
        super().__init__(name, params=[*params, shown], **named)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The short help.  Options that do not fit are listed by their names."""
        for count in range(len(self.params) + 1, -1, -1):
            text = self._short(ctx, formatter.width, count)
            if len(text.splitlines()) <= LINES_MAX:
                break
        formatter.write(text)

    def full_help(self, ctx: click.Context) -> str:
        """The help with all options, in groups."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        for title, options in _groups(self.get_params(ctx)).items():
            records = [r for option in options if (r := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        self.format_epilog(ctx, formatter)
        return formatter.getvalue().rstrip("\n")

    def _short(self, ctx: click.Context, width: int, count: int) -> str:
        """The short help, with lines for so many options, those of the command first."""
        formatter = click.HelpFormatter(width=width, max_width=width)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        groups = _groups(self.get_params(ctx)).values()
        options = [o for group in groups for o in group if not o.hidden]
        records = [r for o in options[:count] if (r := o.get_help_record(ctx)) is not None]
        if records:
            with formatter.section("Options"):
                for line in _lines(records, formatter.width - formatter.current_indent):
                    formatter.write(" " * formatter.current_indent + line + "\n")
        if names := [max(option.opts, key=len) for option in options[count:]]:
            more = f"{'More' if records else 'Options'}: {', '.join(names)}"
            formatter.write_paragraph()
            formatter.write("\n".join(textwrap.wrap(more, width, break_on_hyphens=False)) + "\n")
        self.format_epilog(ctx, formatter)
        return formatter.getvalue()


def _groups(params: Sequence[click.Parameter]) -> dict[str, list[click.Option]]:
    """Options by the title of their group: those of the command first."""
    found: dict[str, list[click.Option]] = {"Options": []}
    titles = {name: title for title, names in _COMMON.items() for name in names}
    found |= {title: [] for title in _COMMON}
    for option in params:
        if isinstance(option, click.Option):
            title = next((titles[name] for name in option.opts if name in titles), "Options")
            found[title].append(option)
    return found


def _lines(records: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """A line for each option: its name, and as much of its description as fits."""
    names = [re.sub(r"\[[^\]]{20,}\]", "CHOICE", name) for name, _ in records]
    room = min(_META, max(map(len, names)))
    for name, (_, text) in zip(names, records, strict=True):
        shown = textwrap.shorten(text, max(10, width - max(room, len(name)) - 2), placeholder=" …")
        yield f"{name:<{room}}  {shown}"


def _print_all(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and isinstance(context.command, CommandWithHelp):
        click.echo(context.command.full_help(context))
        context.exit()
