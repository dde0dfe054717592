"""Sections about care: the index, overlap, findings, services."""

from __future__ import annotations

from typing import Final

from pyhudi.health.findings import Diagnosis, Severity
from pyhudi.index.maintenance.stats import IndexStats
from pyhudi.markup import bytes_text, count_text, moment_text, plural, seconds_text
from pyhudi.operations.service_runs import Service
from pyhudi.report.charts import Column, Drawn, bar, code, column_chart, table
from pyhudi.report.facts import (
    FINDINGS_MAX,
    TOP,
    IndexFacts,
    LookupFacts,
    OverlapFacts,
    Part,
    Unavailable,
    WriteFacts,
)
from pyhudi.report.sections.states import breakable, empty, lead, note, state, unavailable

_TONES: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
}


def index(facts: Part[IndexFacts], writes: Part[WriteFacts]) -> str:
    """Load, skew, growth and look-up costs of the index."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    if facts.stats is None:
        if facts.kind in ("", "none"):
            return empty(
                "The table has no index that stores entries; `pyhudi index rebuild PATH` builds "
                "a record index."
            )
        return empty(f"The index of this table ({facts.kind}) stores no entries in the table.")
    stats = facts.stats
    return (
        lead(
            f"The {facts.kind} index has {count_text(stats.entries)} entries in "
            f"{count_text(stats.bucket_count)} buckets, {bytes_text(stats.bytes)} "
            f"({bytes_text(stats.bytes_per_entry)} for each entry)."
        )
        + lead(
            f"The fullest bucket has {stats.load:.2%} of its planned size and "
            f"{stats.skew:.2f} times the mean. Advice: {stats.advice}."
        )
        + _buckets(stats)
        + _growth(writes)
        + _lookup(facts.lookup)
    )


def _buckets(stats: IndexStats) -> str:
    found = sorted(stats.buckets, key=lambda b: (-b["load"], b["group"], b["bucket"]))
    rows = [
        (f"{b['group']}/{b['bucket']}" if len(stats.groups) > 1 else str(b["bucket"]),
         Drawn(bar(b["load"], "w" if b["load"] >= 0.8 else "b")), f"{b['load']:.2%}",
         count_text(b["entries"]), f"{b['of_mean']:.2f}x", bytes_text(b["bytes"]),
         count_text(b["files"]))
        for b in found[:TOP]
    ]  # fmt: skip
    left = len(found) - len(rows)
    more = f"{count_text(left)} more buckets are not shown." if left > 0 else ""
    heads = ("bucket", "load", "of planned", "entries", "of mean", "size", "files")
    return table("Fullest buckets", heads, rows, note=more)


def _growth(writes: Part[WriteFacts]) -> str:
    """Keys added by the newest commits."""
    if isinstance(writes, Unavailable) or not any(c.growth for c in writes.commits):
        return note("The newest commits added no keys.")
    columns = [
        Column(moment_text(c.instant), max(c.growth, 0), kind="s", note=f"{c.growth:+,} keys")
        for c in writes.commits
    ]
    return column_chart("growth", "Growth: keys added by commit", columns, form=_keys_text)


def _keys_text(count: float) -> str:
    return f"{count_text(round(count))} keys"


def _lookup(facts: LookupFacts | None) -> str:
    if facts is None:
        return ""
    rows = [
        ("measured", seconds_text(facts.seconds), seconds_text(facts.seconds / facts.keys)),
        (
            "estimate, by seeking",
            seconds_text(facts.seek_seconds),
            seconds_text(facts.seek_seconds / facts.keys),
        ),
        (
            "estimate, by scanning",
            seconds_text(facts.scan_seconds),
            seconds_text(facts.scan_seconds / facts.keys),
        ),
    ]
    caption = f"Look-up of {facts.keys} keys that the table does not have"
    files = f"{count_text(facts.files)} files searched, one thread."
    return table(caption, ("cost", "total", "each key"), rows, note=files)


def overlap(facts: Part[OverlapFacts]) -> str:
    """How many files a filter on one value has to read, by column."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    if not facts.columns:
        return empty("No column statistics describe the files of this table.")
    rows = [
        (c.column, Drawn(bar(min(1.0, c.depth / max(c.files, 1)), "b")), f"{c.depth:.2f} files",
         count_text(c.depth_max), count_text(c.files),
         "clustering sorts by it" if c.is_sorted_by else "")
        for c in facts.columns
    ]  # fmt: skip
    best = min(facts.columns, key=lambda c: c.depth)
    heads = ("column", "share of files", "mean depth", "greatest", "files", "note")
    return (
        lead(
            "Depth is the number of files of a partition whose values may include the same value: "
            f"1 means no overlap. Lowest: {best.column} with {best.depth:.2f}."
        )
        + table("Overlap of base files by column", heads, rows)
        + note(f"Measured on {count_text(facts.sampled)} of {count_text(facts.files)} base files.")
    )


def findings(facts: Part[Diagnosis]) -> str:
    """What the doctor found."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    checked = ", ".join(f"{count_text(number)} {name}" for name, number in facts.checked)
    checks = note(f"Checked: {checked}; not the keys of the record index." if checked else "")
    if not facts.findings:
        return empty("The doctor found no problems.") + checks
    rows = [
        (
            Drawn(state(f.severity.value, _TONES[f.severity])),
            f.what,
            Drawn(breakable(f.path)),
            f.why,
            f.advice,
            code(f.code),
        )
        for f in facts.findings[:FINDINGS_MAX]
    ]
    left = len(facts.findings) - len(rows)
    more = f"{count_text(left)} more findings: run `pyhudi doctor PATH`." if left > 0 else ""
    heads = ("severity", "finding", "where", "cause", "what to do", "code")
    return table("Findings, most severe first", heads, rows, note=more, stacked=True) + checks


def services(facts: Part[tuple[Service, ...]]) -> str:
    """Which table services are due, and why."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    if not facts:
        return empty("No services were evaluated.")
    rows = [(s.name, Drawn(_due(s)), s.error or s.why) for s in facts]
    due = sum(s.is_due for s in facts)
    text = (
        f"{plural(due, 'service')} due; `pyhudi services run PATH` runs what is due."
        if due
        else "No service is due."
    )
    return lead(text) + table("Table services", ("service", "state", "why"), rows, stacked=True)


def _due(service: Service) -> str:
    if service.error:
        return state("unknown", "error")
    return state("due", "warning") if service.is_due else state("not due", "good")
