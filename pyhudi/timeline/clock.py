"""Instant times from a wall clock that may stop or run backwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from time import sleep
from typing import Final

from pyhudi.errors import UserError
from pyhudi.records import InstantTime

_WAIT_MAX: Final = timedelta(seconds=1)
_DAYS_MAX: Final = 365_000

Clock = Callable[[], datetime]
"""The wall clock: the current time, with a time zone."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def zone_of(name: str | None) -> tzinfo | None:
    """The time zone that `hoodie.table.timeline.timezone` names: UTC, or the machine's (None)."""
    return UTC if (name or "").upper() == "UTC" else None


def format_instant(at: datetime, zone: tzinfo | None) -> InstantTime:
    """`yyyyMMddHHmmssSSS` of a moment in a zone (None: the machine's)."""
    return digits_of(at.astimezone(zone))


def days_before(moment: datetime, days: float) -> datetime:
    """The moment so many days before another, at most a thousand years."""
    return moment - timedelta(days=min(days, _DAYS_MAX))


def digits_of(moment: datetime) -> InstantTime:
    """`yyyyMMddHHmmssSSS` of a moment, in four digits for every year."""
    second = f"{moment.year:04d}{moment:%m%d%H%M%S}"  # %Y has fewer before the year 1000
    return InstantTime(f"{second}{moment.microsecond // 1000:03d}")


def parse_instant(time: InstantTime, zone: tzinfo | None) -> datetime:
    """The moment of an instant of 14 or more digits; 14 digits mean the end of their second."""
    try:
        moment = _wall(time)
    except (ValueError, OverflowError):
        raise UserError("not an instant time", instant=time) from None
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()


def _wall(time: InstantTime) -> datetime:
    """The moment of the digits, without a zone.  Raises ValueError, OverflowError."""
    if not (time.isascii() and time.isdigit()):
        raise ValueError(time)
    moment = datetime.strptime(time[:14], "%Y%m%d%H%M%S")
    return moment + timedelta(milliseconds=int(time[14:17]) if len(time) >= 17 else 999)


def epoch_millis(time: InstantTime, zone: tzinfo | None) -> int:
    """Milliseconds since 1970 of an instant, as the record index stores it."""
    return round(parse_instant(time, zone).timestamp() * 1000)


def next_instant(after: InstantTime | None, clock: Clock, zone: tzinfo | None) -> InstantTime:
    """The time of a new instant: now, or one millisecond after `after` if now is not later.

    The result is greater than `after` as text, regardless of clock, zone and daylight saving.
    """
    now = format_instant(clock(), zone)
    return now if after is None or now > after else following(after)


def following(time: InstantTime) -> InstantTime:
    """The instant of 17 digits that is one millisecond after another one, and greater as text.

    The step is on the digits, not on the clock: daylight saving may skip the next hour.
    """
    try:
        moment = _wall(time) + timedelta(milliseconds=1)
    except (ValueError, OverflowError):  # not a date; later instants still sort after it
        return InstantTime(str(int(time[:17].ljust(17, "9")) + 1))
    return digits_of(moment)


def wait_until(at: InstantTime, clock: Clock, zone: tzinfo | None) -> None:
    """Sleep until the clock has passed an instant that was generated a few milliseconds ahead of
    it, so that a writer that only reads the clock generates a later one.  At most a second: a
    clock that is further behind is wrong."""
    ahead = parse_instant(at, zone) - clock()
    if timedelta(0) <= ahead <= _WAIT_MAX:
        sleep(ahead.total_seconds() + 0.001)
