"""Spans and metrics by the API package of OpenTelemetry.

The application configures the SDK; without one the API package discards everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from opentelemetry import metrics, trace

from pyhudi.observe.event import COUNTERS, SECONDS, Event, labels_of, measured

Tracer = Callable[[str, dict[str, Any]], Any]


def tracer() -> Tracer:
    """A function that opens a span: `tracer(name, facts)`; facts become attributes at its end."""

    @contextmanager
    def span(name: str, facts: dict[str, Any]) -> Iterator[None]:
        title = f"pyhudi {name} {facts.get('operation', '')}".rstrip()
        with trace.get_tracer("pyhudi").start_as_current_span(title) as current:
            try:
                yield
            finally:
                for fact, value in facts.items():
                    current.set_attribute(f"pyhudi.{fact}", value)

    return span


@cache
def _instruments() -> tuple[dict[str, Any], Any]:
    """The counters by name, and the histogram of durations."""
    meter = metrics.get_meter("pyhudi")
    counters = {
        name: meter.create_counter(name.replace("_", "."), description=text)
        for name, (text, _) in COUNTERS.items()
    }
    name, text, _ = SECONDS
    return counters, meter.create_histogram(name.replace("_", "."), "s", text)


def receive(event: Event) -> None:
    """Add an event to the metrics."""
    counters, seconds = _instruments()
    for name, value, labels in measured(event):
        counters[name].add(value, labels)
    seconds.record(event.seconds, labels_of(event))
