"""Clients of an object store whose requests have a time limit.

A store's client retries a request for minutes.  At a commit point that is too long: the lease of
the lock would expire first, and another writer would roll the instant back as a crashed one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from pyhudi.storage.locks.monotonic_clock import seconds_allowed

_REQUEST_SHARE: Final = 1 / 4
_RETRY_SHARE: Final = 1 / 8
"""Share of the time allowed: a last request that starts when retries end takes at most 3/8."""

_LEAST_SECONDS: Final = 0.05
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
Make = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]


class Buckets:
    """The clients of one bucket, with different time limits.

    make: builds a client from connection and retry options.  given: the options given by
    the user.
    """

    def __init__(self, make: Make, client: Mapping[str, Any], retry: Mapping[str, Any]) -> None:
        self._make, self._client, self._retry = make, client, retry
        self._made: dict[float, Any] = {math.inf: make(client, retry)}

    @classmethod
    def of(cls, bucket: Any) -> Buckets:
        """Buckets around a client without options, such as an in-memory store."""
        return cls(lambda client, retry: bucket, {}, {})

    @property
    def now(self) -> Any:
        """The client for a request made now."""
        tier = _tier(seconds_allowed())
        made = self._made.get(tier)
        if made is None:
            made = self._made[tier] = self._make(*self._limited(tier))
        return made

    def _limited(self, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
        timeout = min(seconds * _REQUEST_SHARE, _seconds(self._client.get("timeout")))
        retries = timedelta(seconds=seconds * _RETRY_SHARE)
        given = self._retry.get("retry_timeout")
        if isinstance(given, timedelta):
            retries = min(retries, given)
        backoff = {"init_backoff": retries / 8, "max_backoff": retries / 4}
        client = {**self._client, "timeout": timedelta(seconds=timeout)}
        return client, {"backoff": backoff, **self._retry, "retry_timeout": retries}


def _tier(seconds: float) -> float:
    """The time limit of a client: one of a few values, not above the time allowed."""
    if math.isinf(seconds):
        return seconds
    whole = 2.0 ** math.floor(math.log2(max(seconds, _LEAST_SECONDS)))
    return whole * 1.5 if seconds >= whole * 1.5 else whole


def _seconds(given: Any) -> float:
    """A timeout from user options: `"10s"` or a timedelta; infinity for anything else."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m)?\s*", str(given)) if given else None
    return float(found[1]) * _UNITS[found[2] or "s"] if found else math.inf
