"""An event, and what metrics count of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "pyhudi_operations": ("Operations by outcome", ("table", "event", "operation", "outcome")),
    "pyhudi_rows": ("Rows of writes and look-ups", ("table", "event", "operation", "kind")),
    "pyhudi_bytes": (
        "Bytes written, or moved by requests",
        ("table", "event", "operation"),
    ),
    "pyhudi_conflicts": (
        "Attempts that a concurrent change ended",
        ("table", "operation"),
    ),
}
"""Name of a counter -> its description and labels.  Names end with `_total` in Prometheus."""

SECONDS: Final = ("pyhudi_seconds", "Duration of operations", ("table", "event", "operation"))
"""Name, description and labels of the histogram of durations."""

_ROWS: Final = ("inserted", "updated", "deleted", "unchanged", "missing_keys", "rows")
_BYTES: Final = ("bytes_written", "bytes")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has ended.

    name: "write", "phase", "service", "lookup", "request", "callback" or "ingest".  facts: plain
    values by name; docs/observability.md lists them.  began: Unix time.  error: the class of the
    error that ended it; None: success.
    """

    name: str
    began: float
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


def measured(event: Event) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Counter, increment and labels, for all counters that an event changes."""
    labels = labels_of(event)
    outcome = event.error or "success"
    yield "pyhudi_operations", 1, labels | {"outcome": outcome}
    for kind in _ROWS:
        if count := event.facts.get(kind):
            yield "pyhudi_rows", count, labels | {"kind": kind}
    for name in _BYTES:
        if count := event.facts.get(name):
            yield "pyhudi_bytes", count, labels
    if count := event.facts.get("conflicts"):
        yield (
            "pyhudi_conflicts",
            count,
            {name: text for name, text in labels.items() if name != "event"},
        )


def labels_of(event: Event) -> dict[str, str]:
    """Labels of the duration of an event.  table: its path or URL; empty where none is known."""
    return {
        "table": str(event.facts.get("table", "")),
        "event": event.name,
        "operation": str(event.facts.get("operation", event.name)),
    }
