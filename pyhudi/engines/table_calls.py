"""Calls of table functions in SQL text, such as `pyhudi_scan('trips', as_of := '2026-11-21')`.

DuckDB's Python API has no table functions in Python, so the text of each call is replaced by the
name of a view; the remaining text stays as it is.

    pyhudi_scan(table, as_of, mode, with_meta)
    pyhudi_changes(table, since, until, with_meta)
    pyhudi_lookup(table, keys)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from pyhudi.errors import UserError

_PARAMETERS: Final = {
    "pyhudi_scan": ("table", "as_of", "mode", "with_meta"),
    "pyhudi_changes": ("table", "since", "until", "with_meta"),
    "pyhudi_lookup": ("table", "keys"),
}
_REQUIRED: Final = {"pyhudi_scan": 1, "pyhudi_changes": 2, "pyhudi_lookup": 2}


@dataclass(frozen=True)
class TableCall:
    """One call.  arguments: by parameter, the table first; start and end: its place in the text."""

    function: str
    arguments: dict[str, Any]
    start: int
    end: int

    @property
    def table(self) -> str:
        """The table's name or path."""
        return str(self.arguments["table"])


def with_views(text: str, view: Callable[[TableCall], str]) -> str:
    """SQL text with each call replaced by the quoted name of its view.

    Raises UserError for a call with arguments that are not constants, unknown or missing.
    """
    calls = find_calls(text)
    for call in reversed(calls):
        text = f"{text[: call.start]}{identifier(view(call))}{text[call.end :]}"
    return text


def identifier(name: str) -> str:
    """A name as a quoted identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def find_calls(text: str) -> list[TableCall]:
    """The calls in a text, in order; none in strings and comments."""
    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
    except SqlglotError as broken:
        raise UserError("the SQL text cannot be read", reason=str(broken)) from broken
    found = []
    for number, token in enumerate(tokens[:-1]):
        function = token.text.lower()
        is_name = token.token_type is not TokenType.STRING and function in _PARAMETERS
        if is_name and tokens[number + 1].token_type is TokenType.L_PAREN:
            last = _closing(tokens, number + 1)
            inner = text[tokens[number + 1].start : last.end + 1]
            arguments = _arguments(function, inner)
            found.append(TableCall(function, arguments, token.start, last.end + 1))
    return found


def _closing(tokens: Sequence[Token], opening: int) -> Token:
    depth = 0
    for token in tokens[opening:]:
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return token
    raise UserError("a bracket is not closed", call=tokens[opening - 1].text)


def _arguments(function: str, inner: str) -> dict[str, Any]:
    """Arguments by parameter.  inner: the text in brackets, brackets included."""
    try:
        call = sqlglot.parse_one(f"f{inner}", read="duckdb")
    except SqlglotError as broken:
        raise UserError("the arguments cannot be read", call=f"{function}{inner}") from broken
    parameters = _PARAMETERS[function]
    found: dict[str, Any] = {}
    for number, argument in enumerate(call.expressions):
        if isinstance(argument, exp.PropertyEQ | exp.Kwarg):
            name, value = argument.this.name.lower(), argument.expression
        else:
            name, value = (*parameters, "")[min(number, len(parameters))], argument
        if name not in parameters or name in found:
            raise UserError(
                "unknown or repeated argument",
                call=f"{function}{inner}",
                hint=f"{function}({', '.join(parameters)})",
            )
        found[name] = _constant(value, f"{function}{inner}")
    missing = [name for name in parameters[: _REQUIRED[function]] if found.get(name) is None]
    if missing:
        raise UserError(
            "an argument is missing", call=f"{function}{inner}", missing=", ".join(missing)
        )
    return found


def _constant(value: exp.Expression, call: str) -> Any:
    """The value of a literal, or of a list of literals."""
    if isinstance(value, exp.Literal | exp.Neg | exp.Boolean | exp.Null):
        try:
            return value.to_py()
        except ValueError:
            pass
    if isinstance(value, exp.Array):
        return [_constant(element, call) for element in value.expressions]
    raise UserError(
        "the argument is not a constant",
        call=call,
        argument=value.sql(dialect="duckdb"),
        hint="pass strings, numbers, booleans, null or lists of them",
    )
