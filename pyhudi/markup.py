"""Building blocks of reports, in HTML and as text: escaped text, numbers with units, tables.

Text comes from tables, which are untrusted: every cell is escaped, without control characters, and
of bounded length.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

TEXT_MAX: Final = 300
"""Characters of one text; the rest is cut off."""

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, marks that change the direction of text, halves of characters."""

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_CARD: Final = "font-family:system-ui,sans-serif;max-width:60em;overflow-x:auto"
_TABLE: Final = "margin:.4em 0;text-align:left;font-variant-numeric:tabular-nums"


def escaped(value: object) -> str:
    """A value as text of an HTML element or attribute."""
    text = str(value)
    if len(text) > TEXT_MAX:
        text = text[: TEXT_MAX - 1] + "…"
    return html.escape(_UNPRINTABLE.sub("\ufffd", text), quote=True)


def count_text(count: int) -> str:
    """`1,234,567`."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{count_text(count)} {noun}{'' if count == 1 else 's'}"


def bytes_text(size: float) -> str:
    """`512 bytes`, `1.5 KiB`, `230 MiB`: three digits."""
    if size < 1024:
        return f"{size:,.0f} {'byte' if size == 1 else 'bytes'}"
    for unit in _UNITS:
        size /= 1024
        if size < 999.5 or unit == _UNITS[-1]:
            break
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    text = f"{size:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text} {unit}"


def seconds_text(seconds: float) -> str:
    """`8.2 µs`, `35 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 0.0009995:
        return f"{seconds * 1e6:.3g} µs" if seconds else "0 s"
    if seconds < 0.00995:
        return f"{seconds * 1000:.2g} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for large, small, length, part in (
        ("min", "s", 60, 1),
        ("h", "min", 3600, 60),
        ("d", "h", 86400, 3600),
    ):
        if whole < length * (24 if large == "h" else 60) or large == "d":
            rest = whole % length // part
            return f"{whole // length:,} {large}" + (f" {rest} {small}" if rest else "")
    raise AssertionError(seconds)


def moment_text(time: str) -> str:
    """`2026-11-22 09:30:05` of an instant; any other text as it is."""
    if not (time.isascii() and time.isdigit() and len(time) >= 14):
        return time
    date, clock = time[:8], time[8:14]
    return f"{date[:4]}-{date[4:6]}-{date[6:]} {clock[:2]}:{clock[2:4]}:{clock[4:]}"


def rows_html(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of a notebook's output: headings and escaped cells."""
    heads = "".join(f'<th scope="col">{escaped(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'


def facts_html(facts: Mapping[str, object]) -> str:
    """A table of names and escaped values."""
    rows = "".join(
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>'


def card_html(title: str, *contents: str, note: str = "") -> str:
    """The output of a notebook's cell: an escaped title, tables, and an escaped note."""
    foot = f'<p style="margin:.2em 0;opacity:.8">{escaped(note)}</p>' if note else ""
    return f'<div style="{_CARD}"><strong>{escaped(title)}</strong>{"".join(contents)}{foot}</div>'


def facts_text(title: str, facts: Mapping[str, object]) -> str:
    """A title, and below it a line for each name and value: the `repr` of a report."""
    width = max(map(len, facts), default=0)
    lines = []
    for name, value in facts.items():
        text = _UNPRINTABLE.sub("\ufffd", str(value)).replace("\n", " ")
        shown = text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
        lines.append(f"  {name:<{width}}  {shown}")
    return "\n".join([title, *lines])


def shown_facts(values: Mapping[str, Any], *, always: Iterable[str] = ()) -> dict[str, str]:
    """Fields of a report that say something, as texts with their units: not None, 0, False or
    empty, unless their name is in `always`."""
    return {
        name.replace("_", " "): value_text(name, value)
        for name, value in values.items()
        if name in always or value not in (None, 0, "", [], (), {})
    }


def value_text(name: str, value: Any) -> str:
    """A field of a report as text: sizes and durations with their units."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(name, item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name.startswith("bytes") or name.endswith("bytes"):
        return bytes_text(value)
    if name.endswith("seconds"):
        return seconds_text(value)
    return count_text(value) if isinstance(value, int) else f"{value:,.4g}"
