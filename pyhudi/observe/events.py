"""Emission of events, and their receivers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from pyhudi.observe.event import Event

FACTS_KEY: Final = "pyhudi"
"""The attribute of a log record that has the facts of the event."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_PLAIN: Final = (str, int, float)
_QUIET: Final = frozenset({"request", "phase"})
"""Events that are logged as DEBUG, as one operation has many."""

# Python writes warnings to standard error where no logger has a handler
logging.getLogger("pyhudi").addHandler(logging.NullHandler())


_TABLE: Final[ContextVar[str]] = ContextVar("table", default="")
"""The table of the event that is under way in this thread."""

EventReceiver = Callable[[Event], None]


class _Receivers:
    """The receivers of this process, and the tracer of OpenTelemetry; None: not looked for yet."""

    def __init__(self) -> None:
        self.all: tuple[EventReceiver, ...] = ()
        self.tracer: Any = None
        self.is_ready = False
        self._lock = threading.Lock()

    def add(self, receiver: EventReceiver) -> None:
        with self._lock:
            if receiver not in self.all:
                self.all = (*self.all, receiver)

    def remove(self, receiver: EventReceiver) -> None:
        with self._lock:
            self.all = tuple(one for one in self.all if one != receiver)

    def find(self) -> None:
        """Look for the API package of OpenTelemetry, once."""
        self.is_ready = True
        try:
            from pyhudi.observe.open_telemetry import receive, tracer
        except ImportError:
            return
        self.tracer = tracer()
        self.add(receive)


receivers: Final = _Receivers()


def add_receiver(receiver: EventReceiver) -> None:
    """Call a function with each event of this process, in the thread where it occurred.

    An ordinary error that it raises is logged; it does not reach the operation.
    """
    receivers.add(receiver)


def remove_receiver(receiver: EventReceiver) -> None:
    """Undo `add_receiver`."""
    receivers.remove(receiver)


def emit(event: Event) -> None:
    """Log an event, on the logger `pyhudi.<name>`, and hand it to the receivers."""
    log = logging.getLogger(f"pyhudi.{event.name}")
    level = logging.WARNING if event.error else logging.INFO
    if event.name in _QUIET:
        level = logging.DEBUG
    if log.isEnabledFor(level):
        what = event.facts.get("operation", event.name)
        outcome = f"failed ({event.error})" if event.error else "ended"
        facts = {**event.facts, "event": event.name, "seconds": event.seconds, "error": event.error}
        text = "%s %s after %.3f s"
        log.log(level, text, what, outcome, event.seconds, extra={FACTS_KEY: facts})
    for receiver in receivers.all:
        try:
            receiver(event)
        except (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            logging.getLogger("pyhudi").warning("a receiver of events failed: %s", error)


@contextmanager
def observed(name: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Emit an event when the block ends.  The block adds facts to the yielded dict; an error of the
    block is part of the event.  Events within it that name no table get its table."""
    if not receivers.is_ready:
        receivers.find()
    named = facts.setdefault("table", _TABLE.get()) if _TABLE.get() else facts.get("table")
    token = _TABLE.set(str(named or ""))
    tracer = receivers.tracer
    began, clock = time.time(), time.monotonic()
    error: str | None = None
    with nullcontext() if tracer is None else tracer(name, facts):
        try:
            yield facts
        except BaseException as failed:
            error = type(failed).__name__
            raise
        finally:
            _TABLE.reset(token)
            emit(Event(name, began, time.monotonic() - clock, facts, error))


def reported(name: str, operation: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorator: each call is an event with the plain values of its report, and with the URL of the
    file system that is its first argument as the table."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            url = getattr(args[0], "url", None) if args else None
            known = {} if url is None else {"table": url}
            with observed(name, operation=operation, **known) as facts:
                report = function(*args, **kwargs)
                facts.update(plain_facts(report))
                return report

        return call

    return decorate


def plain_facts(report: Any) -> dict[str, Any]:
    """Numbers and texts of a report by name; other reports have none."""
    values = report.to_dict() if hasattr(report, "to_dict") else {}
    return {n: v for n, v in values.items() if isinstance(v, _PLAIN) and n != "operation"}
