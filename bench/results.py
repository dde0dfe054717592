"""bench/RESULTS.md: a row for each claim, the missed ones first.

A bench prints a line of each claim by `state`; `python -m bench.figures` replaces the rows of these
claims.  Rows of other claims stay with their date and commit, so each says what it is worth.  What
else a bench prints explains its figures and is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARK = "=> "
_SECTIONS = {"missed": "Goals missed", "held": "Goals held", "": "Figures without a goal"}
_HEAD = """# Figures

A row for each claim: what was measured (ours first), the ratio, when, at which commit, and by which
command (`python -m ...`). `make figures` replaces the rows of the benches that it runs. Older ones
are in the history of this file; the parts of a figure are in what its bench prints. A ratio holds
for its row only, as rows of other days met another load. "busy": others used more than a tenth of
the machine, or its load was not recorded. On Spark, "others" has Python workers of ours too.

Unless a row says otherwise: two cores, wall seconds, median of the batches after the first, tables
of version 9 (before 2026-11-23, and beside Apache Hudi 0.15.0, of version 6), pyarrow 26.0.1,
Python 3.11, deltalake 1.6.6. On Spark: `local[2]`, pyhudi on PySpark 4.3.0; Apache Hudi 0.15.0
with the record index and Delta 3.3.2 on PySpark 3.5.6.
"""
_COLUMNS = ("claim", "figure", "ratio", "when", "command")


@dataclass(frozen=True, slots=True)
class Row:
    """verdict: `held`, `missed`, or empty for a figure without a goal."""

    claim: str
    figure: str
    ratio: str
    verdict: str = ""
    when: str = ""
    command: str = ""


def state(claim: str, figure: str, ratio: str = "", *, is_held: bool | None = None) -> None:
    """Print a claim with its sizes in words, and what was measured of it."""
    print(line(claim, figure, ratio, is_held=is_held), flush=True)


def line(claim: str, figure: str, ratio: str = "", *, is_held: bool | None = None) -> str:
    verdict = "" if is_held is None else "held" if is_held else "missed"
    return f"{_MARK}{claim} | {figure} | {ratio} | {verdict}"


def stated(lines: Iterable[str]) -> list[Row]:
    """The claims among the lines that a bench printed."""
    rows = []
    for text in lines:
        if text.startswith(_MARK):
            claim, figure, ratio, verdict = map(str.strip, text.removeprefix(_MARK).split("|"))
            rows.append(Row(claim, figure, ratio, verdict))
    return rows


def rows_of(text: str) -> list[Row]:
    """The rows of the results as stored."""
    rows, verdict = [], ""
    titles = {title: verdict for verdict, title in _SECTIONS.items()}
    for each in text.splitlines():
        if each.startswith("## "):
            verdict = titles[each.removeprefix("## ")]
        elif each.startswith("| ") and not each.startswith(f"| {_COLUMNS[0]} |"):
            claim, figure, ratio, when, command = map(str.strip, each.strip("|").split("|"))
            rows.append(Row(claim, figure, ratio, verdict, when, command))
    return rows


def text_of(rows: Sequence[Row]) -> str:
    parts = [_HEAD]
    for verdict, title in _SECTIONS.items():
        cells = [
            f"| {r.claim} | {r.figure} | {r.ratio} | {r.when} | {r.command} |"
            for r in rows
            if r.verdict == verdict
        ]
        if cells:
            head = [f"| {' | '.join(_COLUMNS)} |", "|" + "---|" * len(_COLUMNS)]
            parts.append("\n".join([f"## {title}", "", *head, *cells]) + "\n")
    return re.sub(r" +\|", " |", "\n".join(parts))


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """The new rows in the places of the old ones of the same claims; others at the end."""
    by_claim = {row.claim: row for row in new}
    current = [by_claim.pop(row.claim, row) for row in old]
    return [*current, *by_claim.values()]
