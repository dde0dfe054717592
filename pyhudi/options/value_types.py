"""Types of option values: how each is parsed, and the description of the allowed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20,
                 "g": 1 << 30, "gb": 1 << 30, "t": 1 << 40, "tb": 1 << 40}  # fmt: skip
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0,
                   "h": 3600.0, "d": 86400.0}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """One type of value.  `parse` raises ValueError for invalid text."""

    allowed: str
    parse: Callable[[str], Any]


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.lower())
    if not match or match[2] not in _BYTES:
        raise ValueError(text)
    return int(float(match[1]) * _BYTES[match[2]])


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


BYTES: Final = Value("a size such as 67108864 or 64mb", _bytes)
FLAG: Final = Value("true or false", _flag)
TEXT: Final = Value("text", str)
NAMES: Final = Value("comma-separated names", _names)


def count(low: int = 0, high: int = 2**31 - 1) -> Value:
    """A whole number from `low` to `high`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?\d{1,12}", text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    top = "" if high == 2**31 - 1 else f" to {high}"
    return Value(f"a whole number from {low}{top}", parse)


def number(low: float, high: float) -> Value:
    """A number from `low` to `high`, both included."""

    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return Value(f"a number from {low:g} to {high:g}", parse)


def duration(unit: str) -> Value:
    """Seconds, from a plain number in `unit` ("ms", "s", "min", "h" or "d") or one with a unit."""

    def parse(text: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.lower())
        if not match or (match[2] and match[2] not in _SECONDS):
            raise ValueError(text)
        return float(match[1]) * _SECONDS[match[2] or unit]

    return Value(f"a duration in {unit}, or with its unit such as 60s", parse)


def choice(values: Mapping[str, Any], *, allowed: str | None = None) -> Value:
    """One of several words in any case, and the meaning of each."""
    folded = {word.lower(): meaning for word, meaning in values.items()}

    def parse(text: str) -> Any:
        if text.lower() not in folded:
            raise ValueError(text)
        return folded[text.lower()]

    return Value(allowed or "one of " + ", ".join(values), parse)


def words(*allowed: str) -> Value:
    """One of several words, returned in the spelling given here."""
    return choice({word: word for word in allowed})


def only(*allowed: str) -> Value:
    """Words that request the existing behaviour."""
    return choice({word: word for word in allowed}, allowed="only " + " or ".join(allowed))


def class_name(known: Mapping[str, Any], *, allowed: str) -> Value:
    """A Java class, by its full or simple name."""

    def parse(text: str) -> Any:
        short = text.rsplit(".", 1)[-1]
        if short not in known:
            raise ValueError(text)
        return known[short]

    return Value(allowed, parse)
