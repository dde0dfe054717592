"""Tables of all option names, one for each area, for docs/options.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyhudi.options.meanings import meaning_of
from pyhudi.options.option_row import Fate, Row
from pyhudi.options.registry import AREAS

_SUPPORT: Final = {
    Fate.HONOURED: "honoured",
    Fate.MAPPED: "mapped",
    Fate.INGEST: "by `pyhudi ingest`",
    Fate.WITHOUT_EFFECT: "*no effect*",
    Fate.REFUSED: "*rejected*",
}
_STYLE: Final = (
    "<style>.md-typeset table td:first-child code { white-space: nowrap }</style>"  # whole names
)


def text() -> str:
    """A heading and a table for each area: first the supported names, then the others."""
    lines = [_STYLE, ""]
    for area, rows in AREAS.items():
        lines += [f"## {area}", "", "| name | support | value, reason |", "|---|---|---|"]
        lines += [line for row in sorted(rows, key=_place) for line in _lines(row)]
        lines.append("")
    return "\n".join(lines)


def _place(row: Row) -> tuple[bool, str]:
    return row.fate in (Fate.WITHOUT_EFFECT, Fate.REFUSED), row.name


def _lines(row: Row) -> Iterator[str]:
    facts = []
    if row.value is not None:
        facts.append(row.value.allowed)
    if meaning := meaning_of(row):
        facts.append(meaning.removesuffix("."))
    if row.use:
        facts.append(f"instead: {row.use}")
    if row.harmless:
        facts.append("accepted: " + ", ".join(f"`{v}`" if v else "empty" for v in row.harmless))
    support = _SUPPORT[row.fate]
    described = "; ".join(facts).replace("|", "\\|").replace("*", "\\*")
    yield f"| `{row.name}` | {support} | {described} |"
    for alias in row.aliases:
        yield f"| `{alias}` | {support} | the same as `{row.name}` |"
