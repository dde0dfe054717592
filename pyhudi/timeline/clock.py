"""Instant times out of a wall clock that may stand still or run backwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from pyhudi.errors import UserError
from pyhudi.records import InstantTime

Clock = Callable[[], datetime]
"""The wall clock: now, with a time zone."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def zone_of(name: str | None) -> tzinfo | None:
    """The time zone `hoodie.table.timeline.timezone` names: UTC, or the machine's own (None)."""
    return UTC if (name or "").upper() == "UTC" else None


def format_instant(at: datetime, zone: tzinfo | None) -> InstantTime:
    """`yyyyMMddHHmmssSSS` of a moment in a zone (None: the machine's)."""
    local = at.astimezone(zone)
    return InstantTime(local.strftime("%Y%m%d%H%M%S") + f"{local.microsecond // 1000:03d}")


def parse_instant(time: InstantTime, zone: tzinfo | None) -> datetime:
    """The moment of an instant of 14 or more digits; 14 digits count as the last of its second."""
    try:
        moment = _wall(time)
    except (ValueError, OverflowError):
        raise UserError("not an instant time", instant=time) from None
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()


def _wall(time: InstantTime) -> datetime:
    """What the digits say, without a zone.  Raises ValueError, OverflowError."""
    if not (time.isascii() and time.isdigit()):
        raise ValueError(time)
    moment = datetime.strptime(time[:14], "%Y%m%d%H%M%S")
    return moment + timedelta(milliseconds=int(time[14:17]) if len(time) >= 17 else 999)


def epoch_millis(time: InstantTime, zone: tzinfo | None) -> int:
    """Milliseconds since 1970 of an instant, as the record index stores it."""
    return round(parse_instant(time, zone).timestamp() * 1000)


def next_instant(after: InstantTime | None, clock: Clock, zone: tzinfo | None) -> InstantTime:
    """The time of a new instant: now, or one millisecond past `after` where now is not later.

    The result is greater than `after` as text, whatever the clock, the zone or daylight saving do.
    """
    now = format_instant(clock(), zone)
    if after is None or now > after:
        return now
    # A step on the digits, not on the clock: a zone with daylight saving may lack the next hour.
    try:
        moment = _wall(after) + timedelta(milliseconds=1)
    except (ValueError, OverflowError):  # an instant that is no date; time goes on behind it
        return InstantTime(str(int(after[:17].ljust(17, "9")) + 1))
    return InstantTime(moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}")
