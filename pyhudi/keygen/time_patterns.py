"""Formatting and parsing of times by Joda patterns, as the timestamp key generator uses them.

y year   M month (MMM, MMMM: its name)   d day of month   D day of year   x w e weekyear, week, day
E day's name   a AM, PM   H k hour 0-23, 1-24   K h hour 0-11, 1-12   m minute   s second
S fraction of a second   Z +HHmm   ZZ +HH:mm   ZZZ zone's name   'text'   '' a quote
The number of repeated letters is the minimum number of digits.  Names are English.
Source: org.joda.time.format.DateTimeFormat, which Apache Hudi's HoodieDateTimeParser uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

from pyhudi.errors import OptionError

_PRINTED: Final = frozenset("yYMdDxweEaHkKhmsSZ")
_PARSED: Final = frozenset("yYMdDaHkKhmsSZ")
_MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August",
                  "September", "October", "November", "December")  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DIGITS: Final = {"D": 3, "e": 1}
_HOURS: Final = {"k": (1, 24), "K": (0, 11), "h": (1, 12)}
_SMALLEST: Final = (("S", 1), ("s", 1000), ("m", 60_000), ("HkKha", 3_600_000))


@dataclass(frozen=True, slots=True)
class Token:
    """A letter and its number of repetitions, or (count 0) literal text."""

    text: str
    count: int


@cache
def tokens(pattern: str) -> tuple[Token, ...]:
    """The tokens of a pattern.  Raises OptionError for an unknown letter."""
    found = []
    for match in re.finditer(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'", pattern):
        if match[2]:
            if match[2] not in _PRINTED:
                raise _bad(pattern, f"the letter {match[2]} is not supported")
            found.append(Token(match[2], len(match[0])))
        elif match[0] == "'":
            raise _bad(pattern, "a quote is not closed")
        else:
            text = match[0] if match[1] is None else match[1]
            found.append(Token(text.replace("''", "'"), 0))
    return tuple(found)


def granularity_ms(pattern: str) -> int:
    """The longest span, in milliseconds of local time, whose times have the same text."""
    letters = {token.text for token in tokens(pattern) if token.count}
    return next((ms for some, ms in _SMALLEST if letters & set(some)), 86_400_000)


def shows_zone(pattern: str) -> bool:
    """Whether the text contains the zone in addition to the local time."""
    return any(token.text == "Z" and token.count for token in tokens(pattern))


def format_time(time: datetime, pattern: str) -> str:
    """A time as text, in the time's own zone."""
    return "".join(_printed(time, token) for token in tokens(pattern))


def _printed(time: datetime, token: Token) -> str:
    letter, count = token.text, token.count
    if count == 0:
        return letter
    match letter:
        case "M" if count >= 3:
            name = _MONTHS[time.month - 1]
            return name if count >= 4 else name[:3]
        case "E":
            name = _DAYS[time.weekday()]
            return name if count >= 4 else name[:3]
        case "a":
            return "AM" if time.hour < 12 else "PM"
        case "S":
            return f"{time.microsecond:06d}000"[:count].ljust(count, "0")
        case "Z" if count >= 3:
            is_offset = isinstance(time.tzinfo, timezone) and time.tzinfo != UTC
            return _offset(time, ":") if is_offset else str(time.tzinfo)
        case "Z":
            return _offset(time, ":" if count == 2 else "")
        case "y" | "Y" | "x" if count == 2:
            return f"{_number(time, letter) % 100:02d}"
        case _:
            return str(_number(time, letter)).zfill(count)


def _offset(time: datetime, mark: str) -> str:
    """Whole minutes, toward zero."""
    offset = time.utcoffset() or timedelta()
    minutes = abs(offset) // timedelta(minutes=1)
    sign = "-" if offset < timedelta() else "+"
    return f"{sign}{minutes // 60:02d}{mark}{minutes % 60:02d}"


def _number(time: datetime, letter: str) -> int:
    year, week, day = time.isocalendar()
    numbers = {
        "y": time.year, "Y": time.year, "M": time.month, "d": time.day,
        "D": time.timetuple().tm_yday, "x": year, "w": week, "e": day,
        "H": time.hour, "k": time.hour or 24, "K": time.hour % 12, "h": time.hour % 12 or 12,
        "m": time.minute, "s": time.second,
    }  # fmt: skip
    return numbers[letter]


def parse_time(text: str, pattern: str, *, zone: tzinfo | None) -> datetime | None:
    """The time in a text, or None where the text does not match the pattern.

    zone: of texts without a zone, and of the result; None: the text's own zone, else UTC.
    """
    match = _matcher(pattern).fullmatch(text)
    if match is None:
        return None
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    try:
        local = _local_time(fields)
        text_zone = _zone_in_text(fields)
        time = local.replace(tzinfo=text_zone or zone or UTC)
        return time.astimezone(zone) if zone and text_zone else time
    except (ValueError, OverflowError, OptionError):
        return None


def _local_time(fields: dict[str, str]) -> datetime:
    month = _month(fields.get("M", "1"))
    # Joda defaults to 2000 where only a month or day is given, so that 29 February is valid
    default = "2000" if fields.keys() & {"M", "d", "D"} else "1970"
    year = int(fields.get("y") or fields.get("Y") or default)
    hour = int(fields.get("H") or 0)
    for letter, (least, most) in _HOURS.items():
        if letter in fields and not least <= int(fields[letter]) <= most:
            raise ValueError(f"no hour: {fields[letter]}")
    if "k" in fields:
        hour = int(fields["k"]) % 24
    if "h" in fields or "K" in fields:
        hour = int(fields.get("h") or fields["K"]) % 12
        hour += 12 if fields.get("a", "").upper() == "PM" else 0
    local = datetime(
        year,
        month,
        int(fields.get("d", "1")),
        hour,
        int(fields.get("m", "0")),
        int(fields.get("s", "0")),
        int(fields.get("S", "0")[:6].ljust(6, "0")),
    )
    if "D" in fields:
        local = local.replace(month=1, day=1) + timedelta(int(fields["D"]) - 1)
        if local.year != year:
            raise ValueError(f"no day of the year: {fields['D']}")
    return local


def _month(text: str) -> int:
    if text.isdecimal():
        return int(text)
    return next(i for i, name in enumerate(_MONTHS, 1) if name[:3].lower() == text[:3].lower())


def _zone_in_text(fields: dict[str, str]) -> tzinfo | None:
    text = fields.get("Z")
    if text is None or text[0] not in "+-":
        return None if text is None else UTC if text in "Zz" else zone_of_name(text)
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern.  Raises OptionError for letters that only print."""
    return re.compile("".join(_expressions(pattern)), re.IGNORECASE | re.ASCII)


def _expressions(pattern: str) -> Iterator[str]:
    """One expression a token.  Digits match greedily and without backtracking, as in Joda."""
    found = tokens(pattern)
    seen: set[str] = set()
    for token, following in zip(found, (*found[1:], None), strict=True):
        letter, count = token.text, token.count
        if count == 0:
            yield re.escape(letter)
            continue
        if letter not in _PARSED:
            raise _bad(pattern, f"the letter {letter} is not supported for input")
        if letter in seen:
            raise _bad(pattern, f"the letter {letter} occurs twice")
        seen.add(letter)
        if letter in "yY" and count == 2:
            raise _bad(pattern, "two-digit years are ambiguous; use yyyy in the input")
        yield f"(?P<{letter}>{_expression(letter, count, following)})"


def _expression(letter: str, count: int, following: Token | None) -> str:
    if letter == "M" and count >= 3:
        return "|".join(_MONTHS if count >= 4 else [name[:3] for name in _MONTHS])
    if letter == "a":
        return "AM|PM"
    if letter == "Z":
        return r"[A-Za-z][\w/+-]*" if count >= 3 else r"Z|[+-]\d\d:?\d\d"
    if letter in "yY":
        digits_follow = following is not None and following.count > 0 and following.text != "Z"
        return rf"\d{{1,{count if digits_follow else 9}}}+"
    return rf"\d{{1,{count if letter == 'S' else _DIGITS.get(letter, 2)}}}+"


@cache
def zone_of_name(name: str) -> tzinfo:
    """A zone by its Java name: an IANA name, or GMT with an offset.

    Raises OptionError for other names, which Java takes for GMT, as UTC+8 and GMT+25.
    """
    offset = re.fullmatch(r"GMT([+-])(1?\d|0\d|2[0-3])(?::?([0-5]\d))?", name)
    if name in ("UTC", "GMT", "Z"):
        return UTC
    if offset:
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-span if offset[1] == "-" else span)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise OptionError(
            "unknown time zone",
            option="hoodie.keygen.timebased.timezone",
            value=name,
            hint="use a name such as Europe/Berlin, or GMT+02:00",
        ) from None


def _bad(pattern: str, why: str) -> OptionError:
    return OptionError(
        f"unsupported time format: {why}",
        option="hoodie.keygen.timebased.*.dateformat",
        value=pattern,
    )
