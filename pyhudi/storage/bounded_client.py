"""Clients of an object store whose requests end in time.

A store's client tries a request again for minutes.  At a commit point that is too long: the lock's
lease would end first, and another writer would take the instant for that of a crashed one.
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
"""Of the time allowed: a last request that begins when retries end takes 3/8 of it at most."""

_LEAST_SECONDS: Final = 0.05
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
Make = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]


class Buckets:
    """One bucket, by clients of different patience.

    make: builds a client from options of the connection and of retries.  given: those that the
    user gave.
    """

    def __init__(self, make: Make, client: Mapping[str, Any], retry: Mapping[str, Any]) -> None:
        self._make, self._client, self._retry = make, client, retry
        self._made: dict[float, Any] = {math.inf: make(client, retry)}

    @classmethod
    def of(cls, bucket: Any) -> Buckets:
        """A client that takes no options, such as a store in memory."""
        return cls(lambda client, retry: bucket, {}, {})

    @property
    def now(self) -> Any:
        """The client for a request that is made now."""
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
    """The time a client is built for: not many different ones, and no longer than allowed."""
    if math.isinf(seconds):
        return seconds
    whole = 2.0 ** math.floor(math.log2(max(seconds, _LEAST_SECONDS)))
    return whole * 1.5 if seconds >= whole * 1.5 else whole


def _seconds(given: Any) -> float:
    """A timeout as users give it: `"10s"`, a timedelta; infinity where it says something else."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m)?\s*", str(given)) if given else None
    return float(found[1]) * _UNITS[found[2] or "s"] if found else math.inf
