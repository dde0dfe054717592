"""Conversion of points in time, as users write them, to instant times of the table.

    20261121093000000                    an instant, 14 digits or more; compared as text
    2026-11-21                           the start of that day
    2026-11-21 09:30[:00[.123]]          that moment (or with a T instead of the space)
    2026-11-21T09:30:00Z, ...+05:30      that moment in the given zone (ISO 8601)
    datetime                             with a zone: that moment; without: in the table's zone

Values without a zone are in the zone of `hoodie.table.timeline.timezone`.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Final

from pyhudi.errors import UserError
from pyhudi.records import InstantTime
from pyhudi.timeline.clock import digits_of, format_instant

PointInTime = str | datetime | date

_TEXT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d{2}:?(?:\d{2})?)?)?"
)


def as_instant(point: PointInTime, zone: tzinfo | None) -> InstantTime:
    """The instant time of a point in time.  Raises UserError for text in another format."""
    if isinstance(point, datetime):
        if point.tzinfo is None:
            return digits_of(point)
        return format_instant(point, zone)
    if isinstance(point, date):
        return digits_of(datetime(point.year, point.month, point.day))
    text = str(point).strip()
    if text.isdecimal() and len(text) >= 14:
        return InstantTime(text)
    match = _TEXT.fullmatch(text)
    if match is None:
        raise _unknown(point)
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    millis = int((fraction or "0").ljust(3, "0")[:3])
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            millis * 1000,
        )
        return digits_of(moment) if offset is None else format_instant(_at(moment, offset), zone)
    except (ValueError, OverflowError) as error:
        raise _unknown(point) from error


def _at(moment: datetime, offset: str) -> datetime:
    """The moment in the zone of an offset such as `Z`, `+05:30` or `-08`."""
    digits = "0000" if offset == "Z" else offset[1:].replace(":", "").ljust(4, "0")
    distance = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return moment.replace(tzinfo=timezone(-distance if offset[0] == "-" else distance))


def as_bound(point: PointInTime, zone: tzinfo | None) -> InstantTime:
    """As `as_instant`, but digits of any length are valid: `000` is before every instant."""
    if isinstance(point, str) and point.strip().isdecimal():
        return InstantTime(point.strip())
    if point is None:
        raise UserError("not a point in time", given="None", hint="'000' is before all commits")
    return as_instant(point, zone)


def _unknown(point: object) -> UserError:
    return UserError(
        "not a point in time",
        given="None" if point is None else point,
        hint="give an instant, 2026-11-21, '2026-11-21 09:30:00.123', "
        "2026-11-21T09:30:00Z or a datetime",
    )
