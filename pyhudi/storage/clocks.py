"""The clock by which leases run: nobody sets it."""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_seconds() -> float:
    """Seconds since some moment, whatever becomes of the wall clock and its zone.

    Where the system has such a clock (Linux), it goes on while the machine sleeps.
    """
    return time.clock_gettime(_CLOCK)
