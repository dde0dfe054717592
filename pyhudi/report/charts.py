"""Charts as inline SVG, each with a title, a description and its numbers as a table.  Pure.

The drawing stretches to the width of the page; labels are text outside of it, so that they have the
same size on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.markup import count_text, escaped, moment_text
from pyhudi.report.facts import BINS, Lane
from pyhudi.report.sections.states import prose

Format = Callable[[float], str]
_FEW: Final = 5
"""Charts of fewer columns leave room for this many."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a chart.  part: the dark part at its foot, of `value`; kind: a class of the
    style sheet."""

    label: str
    value: float
    part: float = 0.0
    kind: str = "a"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Legend:
    """Classes of the style sheet, and what they mean."""

    entries: tuple[tuple[str, str], ...] = ()

    def html(self) -> str:
        return "".join(
            f'<span class="key"><i class="{kind}" aria-hidden="true"></i>{escaped(text)}</span>'
            for kind, text in self.entries
        )


def column_chart(
    name: str,
    title: str,
    columns: Sequence[Column],
    *,
    form: Format,
    legend: Legend | None = None,
    part: str = "",
) -> str:
    """Columns from left to right, oldest first.  name: unique on the page; part: the heading of the
    dark parts in the table; form: a number as text with its unit."""
    top = max((c.value for c in columns), default=0.0)
    drawn = "".join(_column(n, c, top, form) for n, c in enumerate(columns))
    described = (
        f"{len(columns)} columns from {columns[0].label} to {columns[-1].label}; "
        f"the highest is {form(top)}."
        if columns
        else "No data."
    )
    plot = (
        f'<div class="plot"><span class="top">{escaped(form(top))}</span>'
        f"{_svg(name, title, described, f'0 0 {max(len(columns), _FEW)} 100', drawn)}</div>"
    )
    ends = [
        column.label for column in ((*columns[:1], *columns[-1:]) if len(columns) > _FEW else ())
    ]
    few = "" if ends else ", ".join(column.label for column in columns[:1])
    width = f' style="max-width:{max(len(columns), _FEW) * 4}rem"'
    drawing = f"<div{width}>{plot}{_axis(*(ends or (few, '')))}</div>"
    return _figure(title, legend, drawing, _column_table(title, columns, form, part))


def _column(number: int, column: Column, top: float, form: Format) -> str:
    height = _height(column.value, top)
    note = f"{column.label}: {form(column.value)}" + (f", {column.note}" if column.note else "")
    drawn = (
        f'<rect class="{column.kind}" x="{number + 0.12:.2f}" y="{100 - height:.2f}" '
        f'width="0.76" height="{height:.2f}"/>'
    )
    if column.part:
        part = _height(column.part, top)
        drawn += (
            f'<rect class="b" x="{number + 0.12:.2f}" y="{100 - part:.2f}" width="0.76" '
            f'height="{part:.2f}"/>'
        )
    return f"<g><title>{escaped(note)}</title>{drawn}</g>"


def _height(value: float, top: float) -> float:
    """At least a visible line for a value above zero."""
    return max(96 * value / top, 0.8) if top and value > 0 else 0.0


def _column_table(title: str, columns: Sequence[Column], form: Format, part: str) -> str:
    heads = ("instant", "value", *((part,) if part else ()), "note")
    rows = [
        (c.label, form(c.value), *((form(c.part),) if part else ()), c.note)
        for c in reversed(columns)
    ]
    return data_table(f"{title}: numbers", heads, rows)


def lane_chart(lanes: Sequence[Lane], first: str, last: str) -> str:
    """Instants by action (one lane each) and time."""
    most = max((done + pending for lane in lanes for _, done, pending in lane.bins), default=1)
    drawn = "".join(_lane(lane, most) for lane in lanes)
    rows = [(x.action, count_text(x.completed), count_text(x.pending)) for x in lanes]
    table = data_table("Instants by action: numbers", ("action", "completed", "pending"), rows)
    axis = _axis(moment_text(first), moment_text(last))
    legend = Legend((("a", "completed"), ("w", "pending")))
    return _figure(
        "Instants by action and time", legend, f'<div class="lanes">{drawn}</div>{axis}', table
    )


def _lane(lane: Lane, most: int) -> str:
    marks = []
    for at, done, pending in lane.bins:
        height = 30 + 65 * ((done + pending) / most) ** 0.5
        kind = "w" if pending else "a"
        note = f"{count_text(done)} completed, {count_text(pending)} pending"
        marks.append(
            f'<rect class="{kind}" x="{at + 0.1:.1f}" y="{(100 - height) / 2:.1f}" width="0.8" '
            f'height="{height:.1f}"><title>{note}</title></rect>'
        )
    described = f"{count_text(lane.completed)} completed, {count_text(lane.pending)} pending."
    name = f"lane-{lane.action}"
    drawn = _svg(name, lane.action, described, f"0 0 {BINS} 100", "".join(marks))
    count = count_text(lane.completed + lane.pending)
    return f'<div class="lane"><span>{escaped(lane.action)} <b>{count}</b></span>{drawn}</div>'


def bar(share: float, kind: str = "a") -> str:
    """A bar in a table's cell, whose number is in the next one.  share: 0 to 1."""
    width = max(0.0, min(1.0, share)) * 100
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="10"/>'
        f'<rect class="{kind}" width="{width:.1f}" height="10"/></svg>'
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """HTML made by this package, which is not escaped again."""

    html: str


def code(text: str) -> Drawn:
    """A name in a table, which is not broken into lines."""
    return Drawn(f"<code>{escaped(text)}</code>")


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    note: str = "",
    stacked: bool = False,
) -> str:
    """A table that scrolls sideways where it is too wide.  Cells are escaped, but `Drawn` ones;
    columns of numbers, by their first row, are aligned right.

    stacked: for sentences; on a phone the cells of a row stand below each other, with their heads.
    """
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    numeric = {n for n, cell in enumerate(cells[0]) if n and _is_number(cell)}
    head = "".join(
        f'<th scope="col"{_aligned(n in numeric)}>{escaped(name)}</th>'
        for n, name in enumerate(heads)
    )
    body = "".join(f"<tr>{_cells(row, numeric, heads if stacked else ())}</tr>" for row in cells)
    kind = ' class="stacked"' if stacked else ""
    foot = f'<p class="note">{prose(note)}</p>' if note else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(caption)}">'
        f"<table{kind}><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{foot}"
    )


def _cells(row: Sequence[object], numeric: set[int], heads: Sequence[str]) -> str:
    found = []
    for n, cell in enumerate(row):
        text = cell.html if isinstance(cell, Drawn) else escaped(cell)
        if n == 0:
            found.append(f'<th scope="row">{text}</th>')
        else:
            head = f' data-head="{escaped(heads[n])}"' if heads else ""
            found.append(f"<td{_aligned(n in numeric)}{head}>{text}</td>")
    return "".join(found)


def _aligned(is_number: bool) -> str:
    return ' class="n"' if is_number else ""


def _is_number(cell: object) -> bool:
    return isinstance(cell, str) and cell[:1].isdigit() and len(cell) < 20 and "-" not in cell


def data_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The numbers of a chart, closed at first."""
    return f"<details><summary>Numbers</summary>{table(caption, heads, rows)}</details>"


def _figure(title: str, legend: Legend | None, plot: str, numbers: str) -> str:
    keys = legend.html() if legend else ""
    caption = f"<figcaption><b>{escaped(title)}</b>{keys}</figcaption>"
    return f"<figure>{caption}{plot}{numbers}</figure>"


def _svg(name: str, title: str, described: str, box: str, content: str) -> str:
    return (
        f'<svg role="img" aria-labelledby="{name}-t {name}-d" viewBox="{box}" '
        f'preserveAspectRatio="none"><title id="{name}-t">{escaped(title)}</title>'
        f'<desc id="{name}-d">{escaped(described)}</desc>{content}</svg>'
    )


def _axis(first: str, last: str) -> str:
    return f'<div class="axis"><span>{escaped(first)}</span><span>{escaped(last)}</span></div>'
