"""Rows of the table of option names, and the five kinds of support for a name.

Each module of `names/` has the supported names of one area; `unsupported_names.tsv` has those that
tune components this package does not have, which are accepted, and those that would change the
meaning of data or request unsupported behaviour, which are rejected.  To support one, add a field
for its setting to `settings.py` and move its row to the module of its area, as `honoured` or
`translated_row`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyhudi.options.value_types import Value


class Fate(Enum):
    """Support for an option name."""

    HONOURED = "honoured"
    MAPPED = "mapped"
    INGEST = "of an ingest"
    WITHOUT_EFFECT = "without effect here"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Row:
    """One name.  note: the text in docs/options.md; for a rejected name the reason.

    to: dotted path of the field in Options that gets the value; None: the value is only checked.
    use: the alternative to a rejected name.  harmless: values of a rejected name that request the
    behaviour of this package; they are accepted.
    """

    name: str
    fate: Fate
    note: str
    value: Value | None = None
    to: str | None = None
    use: str = ""
    harmless: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def honoured(
    name: str, value: Value, to: str | None, note: str = "", *, aliases: tuple[str, ...] = ()
) -> Row:
    """A name with the meaning it has in Apache Hudi."""
    return Row(name, Fate.HONOURED, note, value, to, aliases=aliases)


def of_ingest(name: str, value: Value, note: str, *, aliases: tuple[str, ...] = ()) -> Row:
    """A name that `pyhudi ingest` honours; in the options of a table it is an error."""
    return Row(name, Fate.INGEST, note, value, aliases=aliases)


def translated_row(
    name: str, value: Value, to: str, note: str, *, aliases: tuple[str, ...] = ()
) -> Row:
    """A name whose value is translated; `note` states the result, and the report repeats it."""
    return Row(name, Fate.MAPPED, note, value, to, aliases=aliases)
