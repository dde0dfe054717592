"""One row of the table of option names, and the four fates a name can have.

A file `names_*.py` holds the rows of one area.  To support a name: give its setting a field in
`settings.py`, and turn its row from `refused` into `honoured` or `mapped`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyhudi.options.value_types import Value


class Fate(Enum):
    """What becomes of a name that is given."""

    HONOURED = "honoured"
    MAPPED = "mapped"
    WITHOUT_EFFECT = "without effect here"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Row:
    """One name.  note: what the page of options says; for a refused name the reason.

    to: dotted path of the field in Options that gets the value; None: it is only checked.
    use: what to do instead of a refused name.  harmless: values of a refused name that ask for
    nothing that does not hold anyway; they are accepted.
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
    """A name that means here what it means to Apache Hudi."""
    return Row(name, Fate.HONOURED, note, value, to, aliases=aliases)


def translated_row(
    name: str, value: Value, to: str, note: str, *, aliases: tuple[str, ...] = ()
) -> Row:
    """A name whose value is translated; `note` says into what, and the report repeats it."""
    return Row(name, Fate.MAPPED, note, value, to, aliases=aliases)


def without_effect(why: str, *names: str | tuple[str, str]) -> tuple[Row, ...]:
    """Names that tune machinery this package does not have; a pair is (name, alias)."""
    pairs = [(n, ()) if isinstance(n, str) else (n[0], (n[1],)) for n in names]
    return tuple(Row(name, Fate.WITHOUT_EFFECT, why, aliases=also) for name, also in pairs)


def refused(
    name: str,
    why: str,
    use: str = "",
    *,
    harmless: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Row:
    """A name that would change the meaning of data, or promises what is not kept."""
    return Row(name, Fate.REFUSED, why, use=use, harmless=harmless, aliases=aliases)


def refused_all(why: str, use: str, *names: str) -> tuple[Row, ...]:
    """Several names refused for one reason."""
    return tuple(refused(name, why, use) for name in names)
