"""The page of a report: facts to one self-contained HTML document.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyhudi.markup import bytes_text, count_text, escaped, moment_text, plural
from pyhudi.report.facts import ReportFacts, TableFacts, Unavailable
from pyhudi.report.sections import care, history, storage
from pyhudi.report.style import STYLE

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser loads nothing, and runs nothing."""

SECTIONS: Final[tuple[tuple[str, str, Callable[[ReportFacts], str]], ...]] = (
    ("columns", "Columns", lambda facts: storage.columns(facts.table)),
    ("timeline", "Timeline", lambda facts: history.timeline(facts.timeline)),
    ("writes", "Writes", lambda facts: history.writes(facts.writes)),
    ("files", "File sizes", lambda facts: storage.files(facts.files)),
    ("logs", "Logs and compaction", lambda facts: storage.logs(facts.logs)),
    ("index", "Index", lambda facts: care.index(facts.index, facts.writes)),
    ("overlap", "Clustering overlap", lambda facts: care.overlap(facts.overlap)),
    ("findings", "Findings", lambda facts: care.findings(facts.diagnosis)),
    ("services", "Services due", lambda facts: care.services(facts.services)),
    ("cleaning", "Cleaning", lambda facts: storage.cleaning(facts.cleaning)),
)
"""Name, title and content of each section, in the order of the page."""


@dataclass(frozen=True, slots=True)
class _Tile:
    label: str
    value: str
    detail: str = ""
    tone: str = ""

    def html(self) -> str:
        tone = f" {self.tone}" if self.tone else ""
        return (
            f'<li class="tile{tone}"><span>{escaped(self.label)}</span><b>{escaped(self.value)}</b>'
            f"<small>{escaped(self.detail)}</small></li>"
        )


def page_html(facts: ReportFacts) -> str:
    """The document.  Its size is bounded by the facts, whatever the size of the table."""
    title = f"{facts.table.name}: table report"
    links = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text, _ in SECTIONS)
    sections = "".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{text}</h2>'
        f"{content(facts)}</section>"
        for name, text, content in SECTIONS
    )
    tiles = "".join(tile.html() for tile in _tiles(facts))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="generator" content="pyhudi"><title>{escaped(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><header>{_head(facts.table)}"
        f'<ul class="tiles" aria-label="Summary">{tiles}</ul></header>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>{sections}</main>\n'
        f"<footer><p>Made by pyhudi at {escaped(facts.made_at)}. Instants are in "
        f"{escaped(facts.table.zone)}.</p></footer></body></html>\n"
    )


def _head(table: TableFacts) -> str:
    keys = ", ".join(table.record_key) or "none stated"
    by = ", ".join(table.partitioned_by) or "not partitioned"
    kind = table.table_type.lower().replace("_", "-")
    version = f", version {table.version}" if table.version else ""
    return (
        f'<h1>{escaped(table.name)}</h1><p class="sub">{escaped(table.url)}</p>'
        f'<p class="sub">{escaped(kind)}{version} · record key {escaped(keys)} · '
        f"partitioned by {escaped(by)}</p>"
    )


def _tiles(facts: ReportFacts) -> Iterable[_Tile]:
    yield from _care_tiles(facts)
    files, logs, writes, rows = facts.files, facts.logs, facts.writes, facts.table.rows
    if facts.table.columns:
        detail = plural(facts.table.column_count, "column")
        yield _Tile("Rows", "Not counted" if rows is None else count_text(rows), detail)
    if not isinstance(files, Unavailable):
        groups = plural(files.file_groups, "file group")
        yield _Tile("Newest snapshot", bytes_text(files.size), groups)
        share = files.small_files / files.base_files if files.base_files else 0.0
        limit = f"{share:.0%} below {bytes_text(files.small_limit)}"
        yield _Tile("Small files", count_text(files.small_files), limit)
    if not isinstance(logs, Unavailable) and logs.is_merge_on_read:
        detail = f"in {count_text(logs.with_logs)} of {count_text(logs.file_groups)} file groups"
        yield _Tile("Log backlog", bytes_text(logs.log_bytes), detail)
    if not isinstance(writes, Unavailable):
        ratio = writes.amplification
        detail = f"newest {plural(len(writes.commits), 'commit')}"
        yield _Tile("Write amplification", "none" if ratio is None else f"{ratio:,.2f}x", detail)
    timeline = facts.timeline
    if not isinstance(timeline, Unavailable):
        last = moment_text(timeline.last).partition(" ")
        yield _Tile("Last instant", last[0] or "none", last[2] or "the timeline is empty")


def _care_tiles(facts: ReportFacts) -> Iterable[_Tile]:
    found = facts.diagnosis
    if isinstance(found, Unavailable):
        yield _Tile("Health", "Not checked", "see Findings", "warning")
    else:
        errors = sum(f.severity.value == "error" for f in found.findings)
        warnings = len(found.problems) - errors
        tone = "error" if errors else "warning" if warnings else ""
        detail = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
        yield _Tile("Health", "Problems" if found.problems else "Healthy", detail, tone)
    if not isinstance(facts.services, Unavailable):
        due = [s.name for s in facts.services if s.is_due]
        yield _Tile("Services due", count_text(len(due)), ", ".join(due) or "none")
