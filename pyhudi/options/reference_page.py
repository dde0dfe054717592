"""docs/options.md, made from the table: `python -m pyhudi.options > docs/options.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyhudi.options.option_row import Fate, Row
from pyhudi.options.registry import AREAS

_HEAD: Final = """# Options

<!-- Made by `make options` from pyhudi/options/names_*.py; a test compares the two. -->

Every `hoodie.*` name of Apache Hudi 0.15.0 and 1.2.0, and what becomes of it in `options=`:

| fate | meaning |
|---|---|
| honoured | as in Apache Hudi |
| mapped | translated into a setting that says it better; the report names both |
| without effect here | accepted: it tunes machinery that is not here; the report lists it |
| refused | `OptionError` with the reason; values named as accepted ask for what holds anyway |

A name nobody knows is an `OptionError` with the nearest known names. Sizes are bytes or carry a
unit (`64mb`), durations are in the unit of the name or carry one (`60s`). A name that starts with
`_` is copied into the metadata of the commit.
"""


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for area, rows in AREAS.items():
        lines += [f"## {area}", "", "| name | fate | value, reason |", "|---|---|---|"]
        lines += [line for row in sorted(rows, key=lambda r: r.name) for line in _lines(row)]
        lines.append("")
    return "\n".join(lines)


def _lines(row: Row) -> Iterator[str]:
    facts = []
    if row.value is not None:
        facts.append(row.value.allowed)
    if row.note:
        facts.append(row.note)
    if row.use:
        facts.append(f"instead: {row.use}")
    if row.harmless:
        facts.append("accepted: " + ", ".join(f"`{v}`" if v else "empty" for v in row.harmless))
    if row.fate is Fate.HONOURED or row.fate is Fate.MAPPED:
        fate = row.fate.value
    else:
        fate = f"*{row.fate.value}*"
    text = "; ".join(facts).replace("|", "\\|").replace("*", "\\*")
    yield f"| `{row.name}` | {fate} | {text} |"
    for alias in row.aliases:
        yield f"| `{alias}` | {fate} | the same as `{row.name}` |"
