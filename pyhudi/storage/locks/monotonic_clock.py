"""The monotonic clock of leases, and time limits measured by it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_seconds() -> float:
    """Seconds since a fixed moment, independent of the wall clock and its zone.

    Where the system has such a clock (Linux), it continues while the machine sleeps.
    """
    return time.clock_gettime(_CLOCK)


_END: Final[ContextVar[float]] = ContextVar("_END", default=math.inf)


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """Limit requests made inside, with all their retries, to this many seconds, as far
    as the store's client allows."""
    token = _END.set(min(steady_seconds() + seconds, _END.get()))
    try:
        yield
    finally:
        _END.reset(token)


def seconds_allowed() -> float:
    """How long a request made now may take; infinity if there is no limit."""
    return max(_END.get() - steady_seconds(), 0.0)


def keep_trying(attempt: Callable[[], bool], *, wait_seconds: float, poll_seconds: float) -> bool:
    """Whether an attempt succeeded within the wait; at least one is made."""
    end = steady_seconds() + wait_seconds
    while not attempt():
        left = end - steady_seconds()
        if left <= 0:
            return False
        time.sleep(min(poll_seconds, left))
    return True


class Watch:
    """The state seen last at each place, and since when: retained between attempts shorter
    than the time they wait for."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Any, float]] = {}

    def unchanged_seconds(self, place: str, state: Any) -> float:
        """How long every look at the place has found this state."""
        now = steady_seconds()
        known, since = self._seen.get(place, (None, now))
        if known != state:
            self._seen[place] = (state, now)
            return 0.0
        return now - since

    def forget(self, place: str) -> None:
        self._seen.pop(place, None)
