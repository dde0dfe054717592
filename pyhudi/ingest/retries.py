"""Which errors of an ingest pass by themselves, and how long to wait for that."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pyhudi.errors import CheckpointMovedError, LockError, OptionError, WriteConflictError


@dataclass(frozen=True, slots=True)
class Retries:
    """Pauses between attempts of a batch, each twice as long as the one before.

    count: attempts after the first one; None: no limit.  first_seconds, max_seconds: of a pause.
    Each pause is shortened at random by up to half.
    """

    count: int | None = None
    first_seconds: float = 1.0
    max_seconds: float = 300.0

    def __post_init__(self) -> None:
        if (self.count or 0) < 0 or not 0 < self.first_seconds <= self.max_seconds:
            raise OptionError(
                "retries have a count of at least 0 and pauses above 0 seconds",
                count=self.count,
                first_seconds=self.first_seconds,
                max_seconds=self.max_seconds,
            )

    def allows(self, attempt: int) -> bool:
        """Whether the attempt with this number, from 1, may be repeated."""
        return self.count is None or attempt <= self.count

    def pause(self, attempt: int) -> float:
        """Seconds to wait after the attempt with this number, from 1."""
        longest = min(self.max_seconds, self.first_seconds * 2.0 ** min(attempt - 1, 60))
        return longest * random.uniform(0.5, 1.0)


def is_passing(error: BaseException) -> bool:
    """Whether a later attempt can succeed: a lock that is held, a conflict with another writer,
    and errors with `retryable`, as of stores and sources.  A checkpoint that another ingest has
    moved is none of these."""
    if isinstance(error, CheckpointMovedError):
        return False
    if isinstance(error, WriteConflictError | LockError):
        return True
    return getattr(error, "retryable", False) is True
