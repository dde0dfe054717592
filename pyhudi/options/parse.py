"""Conversion of `hoodie.*` names to Options: strings are parsed once, on entry."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyhudi.errors import OptionError
from pyhudi.options.option_row import Fate, Row
from pyhudi.options.registry import BY_NAME
from pyhudi.options.settings import Options
from pyhudi.options.value_types import Value

_log = logging.getLogger("pyhudi")
_CHECKPOINT = "_hudi_streaming_sink_checkpoint"
"""The checkpoint of a stream, copied into the commit whatever the prefix."""


def parse_options(given: Mapping[str, object] | None, base: Options | None = None) -> Options:
    """Options from `hoodie.*` names.  Raises OptionError for an invalid name or value.

    base: options that the given ones replace, instead of the defaults.

    A key that starts with the prefix of commit metadata (`_`, unless
    `hoodie.datasource.write.commitmeta.key.prefix` sets another) is copied into the commit, as
    Apache Hudi does.
    """
    if not isinstance(given, Mapping | None) or any(not isinstance(n, str) for n in given or ()):
        raise OptionError(
            "options must map hoodie.* names to values",
            type=type(given).__name__,
            hint='pass a dict, such as {"hoodie.parquet.max.file.size": "64mb"}',
        )
    texts = {name: _text(value) for name, value in (given or {}).items()}
    prefix = texts.get("hoodie.datasource.write.commitmeta.key.prefix", "_")
    settings: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    rows: dict[str, Row] = {}
    seen: dict[str, tuple[str, Any]] = {}
    for name, text in texts.items():
        row = row_of(name)
        if row is None and (name == _CHECKPOINT or (prefix and name.startswith(prefix))):
            metadata[name] = text
        elif row is None:
            raise unknown_option(name)
        else:
            parsed = _parsed(row, name, text)
            other, before = seen.setdefault(row.to or row.name, (name, parsed))
            if before != parsed:
                raise OptionError(
                    "conflicting options",
                    option=name,
                    value=text,
                    other=f"{other}={texts[other]}",
                )
            rows[name] = row
            if row.to:
                settings[row.to] = parsed
    if metadata:
        settings["write.commit_metadata"] = metadata
    ignored = tuple(name for name, row in rows.items() if row.fate is Fate.WITHOUT_EFFECT)
    if ignored:
        _log.info("options without effect: %s", ", ".join(ignored))
    mapped = tuple(f"{n}: {row.note}" for n, row in rows.items() if row.fate is Fate.MAPPED)
    start = replace(base or Options(), ignored=ignored, mapped=mapped)
    options: Options = _with(start, settings)
    return options


def row_of(name: str) -> Row | None:
    """The row of a name or alias; None for an unknown name."""
    return BY_NAME.get(name)


def unknown_option(name: str) -> OptionError:
    """The error for an unknown name, with the most similar names."""
    near = difflib.get_close_matches(name, BY_NAME, n=3, cutoff=0.7)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif not name.startswith(("hoodie.", "pyhudi.")):
        hint = "names of options begin with hoodie.; options of the store go to storage_options="
    else:
        hint = "`pyhudi config list` prints every name"
    return OptionError("unknown option", option=name, hint=hint)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _parsed(row: Row, name: str, text: str) -> Any:
    """The parsed value; None if nothing is set.  Raises OptionError."""
    if row.fate is Fate.INGEST:
        raise OptionError(
            "an option of an ingest, not of a table",
            option=name,
            value=text,
            hint="pass it to `pyhudi ingest`, in --props or --hoodie-conf",
        )
    return checked_value(row, name, text)


def checked_value(row: Row, name: str, text: str) -> Any:
    """The parsed value of a name; None if it has none.  Raises OptionError for an invalid one."""
    if row.fate is Fate.REFUSED and text.lower() not in (v.lower() for v in row.harmless):
        raise _refusal(row, name, text)
    return None if row.value is None else parsed_value(row.value, name, text)


def parsed_value(value: Value, name: str, text: str) -> Any:
    """The value of a text.  Raises OptionError, with the name of the option."""
    try:
        return value.parse(text)
    except ValueError:
        raise OptionError(
            "invalid option value", option=name, value=text, hint=f"allowed: {value.allowed}"
        ) from None


def _refusal(row: Row, name: str, text: str) -> OptionError:
    hints = [row.use] if row.use else []
    if row.harmless:
        hints.append("accepted: " + " or ".join(value or "nothing" for value in row.harmless))
    return OptionError(row.note, option=name, value=text, hint="; ".join(hints) or "leave it out")


def _with(options: Any, settings: Mapping[str, Any]) -> Any:
    """A copy of nested frozen dataclasses with fields set by their dotted paths; all at once,
    because some fields are checked against each other."""
    fields: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for path, value in settings.items():
        first, _, rest = path.partition(".")
        if rest:
            nested.setdefault(first, {})[rest] = value
        else:
            fields[first] = value
    for name, inner in nested.items():
        fields[name] = _with(getattr(options, name), inner)
    return replace(options, **fields)
