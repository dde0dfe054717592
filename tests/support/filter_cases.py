"""Random filters as SQL text, each with an evaluation of one row that shares no code with pyhudi.

The evaluation has Spark's meaning: three truth values, NaN equal to itself and greater than all
other numbers, equal zeros, numbers compared by value.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

UTC = dt.UTC
NAN, INF = float("nan"), float("inf")
FLOAT_MAX = struct.unpack("f", struct.pack("I", 0x7F7FFFFF))[0]

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [0, 1, -1, 5, 7, 2**31 - 1, -(2**31)]),
    "n": (pa.int64(), [0, 1, -1, 5, 2**63 - 1, -(2**63), 2**53, 2**53 + 1, 100]),
    "x": (pa.float64(), [0.0, -0.0, 1.5, NAN, INF, -INF, 0.1, 0.3, 2.68, -2.25, 1.7e308, 5.0]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, NAN, INF, -INF, 0.10000000149011612, -2.25, FLOAT_MAX]),
    "s": (pa.string(), ["", "a", "A", "ab", "é", "É", "日本", "\U0001f600", "it's", "a%b", "a_b",
                        "line\nbreak", "back\\slash", '"q"', " a ", "nan", "null"]),
    "d": (pa.decimal128(10, 2), [Decimal(v) for v in ("0.00", "-0.01", "1.50", "0.30", "2.68",
                                                      "99999999.99",
                                                      "-99999999.99", "2.00")]),
    "e": (pa.decimal128(38, 10), [Decimal(v) for v in ("0", "-0.0000000001", "1.5",
                                                       "9999999999999999999999999999.9999999999")]),
    "day": (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29),
                          dt.date(2999, 12, 31)]),
    "t": (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, tzinfo=UTC),
          dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
          dt.datetime(2024, 2, 29, 12, 0, 0, 1, UTC), dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]),
    "w": (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29),
          dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12, 0, 0, 1)]),
    "b": (pa.bool_(), [True, False]),
    "y": (pa.binary(), [b"", b"\x00", b"a", b"\xff\xfe"]),
}  # fmt: skip
FLOATS = ("x", "f")
NUMBERS = ("i", "n", "x", "f", "d", "e")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), *((n, k) for n, (k, _) in COLUMNS.items())]
)
PARTITIONS = ["a", "b c", "é", "x=y", "%41"]

Truth = bool | None


@dataclass(frozen=True)
class Case:
    """A filter: its text, that for DuckDB (None: it has no such syntax), and the evaluation.

    columns: those that it names.  zeros: whether a list of floats has a zero, which engines may
    compare by its bits.
    """

    text: str
    peer: str | None
    holds: Callable[[dict[str, Any]], Truth]
    columns: frozenset[str]
    zeros: bool = False


def random_rows(chance: random.Random, first: int, count: int) -> pa.Table:
    rows = []
    for number in range(first, first + count):
        row: dict[str, Any] = {"id": number, "p": PARTITIONS[number % len(PARTITIONS)]}
        for name, (_, values) in COLUMNS.items():
            row[name] = None if chance.random() < 0.15 else chance.choice(values)
        rows.append(row)
    return pa.Table.from_pylist(rows, SCHEMA)


def rank(value: Any) -> Any:
    """A value for comparisons: floats in the order in which NaN is last."""
    if isinstance(value, float):
        return (1, 0) if math.isnan(value) else (0, value)
    if isinstance(value, int | Decimal | Fraction) and not isinstance(value, bool):
        return (0, value)
    if isinstance(value, dt.datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value.encode() if isinstance(value, str) else value


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}  # fmt: skip


def compare(symbol: str, one: Any, other: Any) -> Truth:
    if one is None or other is None:
        return None
    return COMPARED[symbol](rank(one), rank(other))


def both(one: Truth, other: Truth) -> Truth:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def negation(one: Truth) -> Truth:
    return None if one is None else not one


def either(one: Truth, other: Truth) -> Truth:
    return negation(both(negation(one), negation(other)))


def nearest(number: Any) -> float:
    """A number as a value of float32, as far as it is within its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float(number)


@dataclass(frozen=True)
class Number:
    """A calculation: its text, and its value for a row as Fraction (of integers and decimals),
    float or None.  is_double: that it is a float.  has_peer: whether DuckDB calculates so."""

    text: str
    of_row: Callable[[dict[str, Any]], Any]
    is_double: bool = False
    columns: frozenset[str] = frozenset()
    has_peer: bool = True


def exact(value: Any) -> Any:
    return value if value is None or isinstance(value, float) else Fraction(value)


def double(value: Any) -> float | None:
    return None if value is None else float(value)


class Generator:
    """Random filters from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def case(self, depth: int = 0) -> Case:
        chance = self.chance
        drawn = chance.random()
        if depth >= 3 or drawn < 0.4:
            return self.leaf()
        if drawn < 0.85:
            one, two = self.case(depth + 1), self.case(depth + 1)
            word, join = ("and", both) if drawn < 0.65 else ("or", either)
            peers = None if one.peer is None or two.peer is None else (one.peer, two.peer)
            return Case(
                f"({one.text} {word} {two.text})",
                None if peers is None else f"({peers[0]} {word} {peers[1]})",
                lambda row: join(one.holds(row), two.holds(row)),
                one.columns | two.columns,
                one.zeros or two.zeros,
            )
        inner = self.case(depth + 1)
        text, peer = f"not ({inner.text})", inner.peer and f"not ({inner.peer})"
        return Case(text, peer, lambda row: negation(inner.holds(row)), inner.columns, inner.zeros)

    def leaf(self) -> Case:
        name = self.chance.choice([*COLUMNS, "s", "x", "f"])
        drawn = self.chance.random()
        if name == "b" and drawn < 0.5:
            return self.truth()
        if name == "s" and drawn < 0.5:
            return self.of_text()
        if name in NUMBERS and drawn < 0.15:
            return self.calculated()
        if drawn < 0.35:
            return self.compared(name)
        if drawn < 0.5:
            return self.listed(name)
        if drawn < 0.62:
            return self.between(name)
        if drawn < 0.68:
            return self.null_test(name)
        if drawn < 0.8:
            return self.distinct(name)
        return self.derived(name)

    def literal(self, name: str) -> tuple[str, str | None, Any]:
        """A literal for a column: its text, that for DuckDB, and the value that is compared."""
        chance = self.chance
        value = chance.choice(COLUMNS[name][1])
        if name in NUMBERS and chance.random() < 0.3:
            return self.odd_number(name)
        match name:
            case "i" | "n" | "b":
                return str(value).lower(), str(value).lower(), value
            case "d" | "e":
                return format(value, "f"), format(value, "f"), value
            case "x" | "f":
                return self.float_literal(name, value)
            case "s":
                text = "'" + value.replace("'", "''") + "'"
                return text, text, value
            case "y":
                text = f"x'{value.hex()}'" if value else "''"
                return text, f"from_hex('{value.hex()}')", value
            case "day":
                text = f"date '{value}'"
                return chance.choice([text, f"'{value}'"]), text, value
            case "t":
                return self.instant(value)
        text = f"timestamp '{value}'"
        return chance.choice([text, f"'{value}'"]), text, value

    def instant(self, value: dt.datetime) -> tuple[str, str | None, Any]:
        plain = value.replace(tzinfo=None).isoformat(sep=" ")
        shifted = value.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))
        peer = f"timestamptz '{plain}+00'"
        written = [f"timestamp '{plain}'", f"timestamp '{plain} UTC'", f"'{plain}Z'", f"'{plain}'",
                   f"timestamptz '{shifted.isoformat(sep=' ')}'", f"'{plain}+00:00'"]  # fmt: skip
        return self.chance.choice(written), peer, value

    def float_literal(self, name: str, value: float) -> tuple[str, str | None, Any]:
        if not math.isfinite(value):
            return f"'{value}'", f"'{value}'::double", value
        if name == "f" and value not in (FLOAT_MAX, INF, -INF):
            text = "0.1" if value == 0.10000000149011612 else format(Decimal(value), "f")
            return text, f"({text})::float", value
        text = format(Decimal(repr(value)), "f") if abs(value) < 1e9 else repr(value)
        return text, f"({text})::double", value

    def odd_number(self, name: str) -> tuple[str, str | None, Any]:
        """A number that is of another type, or that no value of the column is."""
        written = self.chance.choice(
            ["0.5", "-0.005", "1.505", "2", "2147483648", "99999999999999999999", "4.99999999999",
             "-99999999999999999999", "5.0", "1e307", "-1e307"]
        )  # fmt: skip
        exact = Decimal(written)
        if name in FLOATS:
            number = float(exact)
            value = nearest(number) if name == "f" else number
            kind = "float" if value != number else "double"
            return written, f"({written})::{kind}", value
        is_double = "e" in written
        return written, None if is_double or name in ("d", "e") else written, exact

    def compared(self, name: str) -> Case:
        others = [n for n in (NUMBERS if name in NUMBERS else (name,)) if n != name]
        if name in ("t", "w", "day"):
            others = [n for n in ("t", "w", "day") if n != name]
        symbol = self.chance.choice(list(COMPARED))
        if others and self.chance.random() < 0.25:
            other = self.chance.choice(others)
            text = f"{name} {symbol} {other}"
            holds = columns_compared(symbol, name, other)
            return Case(text, text if {name, other} <= {"x", "f", "i", "t", "w", "day"} else None,
                        holds, frozenset({name, other}))  # fmt: skip
        written, peer, value = self.literal(name)
        if self.chance.random() < 0.05:
            written, peer, value = "null", "null", None
        if self.chance.random() < 0.8:
            text, other = f"{name} {symbol} {written}", peer and f"{name} {symbol} {peer}"
            return Case(
                text, other, lambda row: compare(symbol, row[name], value), frozenset({name})
            )
        return Case(f"{written} {symbol} {name}", peer and f"{peer} {symbol} {name}",
                    lambda row: compare(symbol, value, row[name]), frozenset({name}))  # fmt: skip

    def calculated(self) -> Case:
        """A comparison of a calculation with a literal, a column or another calculation."""
        sides = [self.number(2), self.number(self.chance.choice([0, 0, 0, 1]))]
        self.chance.shuffle(sides)
        one, two = sides
        symbol = self.chance.choice(list(COMPARED))

        def holds(row: dict[str, Any]) -> Truth:
            left, right = one.of_row(row), two.of_row(row)
            if isinstance(left, float) or isinstance(right, float):
                left, right = double(left), double(right)
            return compare(symbol, left, right)

        text = f"{one.text} {symbol} {two.text}"
        return Case(text, text if one.has_peer and two.has_peer else None, holds,
                    one.columns | two.columns)  # fmt: skip

    def number(self, depth: int) -> Number:
        """A random calculation with numbers; those with decimals are exact."""
        chance = self.chance
        if depth == 0:
            if chance.random() < 0.5:
                text = chance.choice(
                    ["0.1", "0.2", "0.3", "1.1", "3", "-2", "0.125", "1e0", "3e-1"]
                )
                value = float(text) if "e" in text else Fraction(text)
                return Number(text, lambda row: value, "e" in text)
            name = chance.choice(["day", "x", "d", "d"])
            if name == "day":
                return Number("year(day)", lambda row: row["day"] and Fraction(row["day"].year),
                              columns=frozenset({"day"}))  # fmt: skip
            return Number(name, lambda row: exact(row[name]), name == "x", frozenset({name}))
        drawn, one = chance.random(), self.number(depth - 1)
        if drawn < 0.25:
            text, of_value = chance.choice(UNARY)
            return Number(text.format(one.text), lambda row: of_value(one.of_row(row)),
                          one.is_double or of_value is double, one.columns,
                          has_peer=one.has_peer and text.startswith("-"))  # fmt: skip
        two = self.number(depth - 1)
        symbol = chance.choice(["+", "+", "-", "*", "*", "/", "coalesce", "case"])
        is_double = one.is_double or two.is_double or symbol == "/"

        def of_row(row: dict[str, Any]) -> Any:
            left, right = one.of_row(row), two.of_row(row)
            if symbol == "case":
                found = left if row["b"] else right
                return double(found) if is_double else found
            if symbol == "coalesce":
                found = right if left is None else left
                return double(found) if is_double else found
            if left is None or right is None:
                return None
            if is_double:
                left, right = double(left), double(right)
            if symbol == "/":
                return None if right == 0 else left / right
            return {"+": operator.add, "-": operator.sub, "*": operator.mul}[symbol](left, right)

        text = {"coalesce": f"coalesce({one.text}, {two.text})",
                "case": f"case when b then {one.text} else {two.text} end"}.get(
                    symbol, f"({one.text} {symbol} {two.text})")  # fmt: skip
        names = one.columns | two.columns | ({"b"} if symbol == "case" else frozenset())
        return Number(text, of_row, is_double, names,
                      has_peer=one.has_peer and two.has_peer and symbol in "+-*")  # fmt: skip

    def listed(self, name: str) -> Case:
        items = [self.literal(name) for _ in range(self.chance.randint(1, 6))]
        if self.chance.random() < 0.2:
            items.insert(self.chance.randint(0, len(items)), ("null", "null", None))
        word = self.chance.choice(["in", "not in"])
        peers = [peer for _, peer, _ in items]
        values = [value for _, _, value in items]

        def holds(row: dict[str, Any]) -> Truth:
            found: Truth = False
            for value in values:
                found = either(found, compare("=", row[name], value))
            return negation(found) if word == "not in" else found

        return Case(
            f"{name} {word} ({', '.join(item for item, _, _ in items)})",
            None if None in peers else f"{name} {word} ({', '.join(map(str, peers))})", holds,
            frozenset({name}), name in FLOATS and 0 in values,
        )  # fmt: skip

    def between(self, name: str) -> Case:
        low, high = self.literal(name), self.literal(name)
        word = self.chance.choice(["between", "not between"])

        def holds(row: dict[str, Any]) -> Truth:
            value = row[name]
            found = both(compare(">=", value, low[2]), compare("<=", value, high[2]))
            return negation(found) if word == "not between" else found

        peer = None if None in (low[1], high[1]) else f"{name} {word} {low[1]} and {high[1]}"
        return Case(f"{name} {word} {low[0]} and {high[0]}", peer, holds, frozenset({name}))

    def null_test(self, name: str) -> Case:
        is_null = self.chance.random() < 0.5
        text = f"{name} is {'' if is_null else 'not '}null"
        return Case(text, text, lambda row: (row[name] is None) == is_null, frozenset({name}))

    def distinct(self, name: str) -> Case:
        written, peer, value = self.literal(name)
        if self.chance.random() < 0.2:
            written, peer, value = "null", "null", None
        word = self.chance.choice(["is distinct from", "is not distinct from"])

        def holds(row: dict[str, Any]) -> Truth:
            equal = compare("=", row[name], value)
            same = (row[name] is None and value is None) if equal is None else equal
            return not same if word == "is distinct from" else same

        return Case(
            f"{name} {word} {written}", peer and f"{name} {word} {peer}", holds, frozenset({name})
        )

    def truth(self) -> Case:
        text, holds = self.chance.choice(TRUTHS)
        return Case(text, text, lambda row: holds(row["b"]), frozenset({"b"}))

    def of_text(self) -> Case:
        chance = self.chance
        if chance.random() < 0.3:
            text, holds = chance.choice(TEXTS)
            is_case = text.startswith("case")
            return Case(
                text,
                text,
                lambda row: holds(row["s"]) if is_case or row["s"] is not None else None,
                frozenset({"s"}),
            )
        pattern = "".join(
            chance.choice(
                ["%", "%", "_", "a", "A", "b", "é", "日", "\\%", "\\_", "\\\\", "\n", "'"]
            )
            for _ in range(chance.randint(0, 4))
        )
        word = chance.choice(["like", "not like", "ilike", "not ilike"])
        expression = re.compile(regular(pattern), re.S | (re.I if "ilike" in word else 0))

        def matches(row: dict[str, Any]) -> Truth:
            if row["s"] is None:
                return None
            found = expression.fullmatch(row["s"]) is not None
            return not found if word.startswith("not") else found

        quoted = "'" + pattern.replace("'", "''") + "'"
        return Case(
            f"s {word} {quoted}", f"s {word} {quoted} escape '\\'", matches, frozenset({"s"})
        )

    def derived(self, name: str) -> Case:
        found = [d for d in DERIVED if d[0] == name] or [d for d in DERIVED if d[0] == "i"]
        name, text, of_row = self.chance.choice(found)
        symbol = self.chance.choice(list(COMPARED))
        left, value = text.rsplit("|", 1)
        required = COLUMN_OF[value]
        condition = f"{left} {symbol} {value}"
        return Case(condition, condition, lambda row: compare(symbol, of_row(row[name]), required),
                    frozenset({name}))  # fmt: skip


def columns_compared(symbol: str, name: str, other: str) -> Callable[[dict[str, Any]], Truth]:
    def holds(row: dict[str, Any]) -> Truth:
        one, two = row[name], row[other]
        if one is not None and two is not None and ({name, other} & set(FLOATS)):
            one, two = float(one), float(two)
        return compare(symbol, one, two)

    return holds


def regular(pattern: str) -> str:
    """A pattern of `like` with backslashes as a regular expression."""
    found, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\" and at + 1 < len(pattern):
            at += 1
            found += re.escape(pattern[at])
        else:
            found += {"%": ".*", "_": "."}.get(letter, re.escape(letter))
        at += 1
    return found


TRUTHS: list[tuple[str, Callable[[Truth], Truth]]] = [
    ("b", lambda b: b), ("not b", negation), ("b is true", lambda b: b is True),
    ("b is not true", lambda b: b is not True), ("b is false", lambda b: b is False),
    ("b is not false", lambda b: b is not False), ("b = true", lambda b: b),
    ("(b and null)", lambda b: both(b, None)), ("(b or null)", lambda b: either(b, None)),
]  # fmt: skip
TEXTS: list[tuple[str, Callable[[Any], Truth]]] = [
    ("length(s) = 1", lambda s: len(s) == 1), ("length(s) > 3", lambda s: len(s) > 3),
    ("lower(s) = 'é'", lambda s: s.lower() == "é"), ("upper(s) <> 'A'", lambda s: s.upper() != "A"),
    ("trim(s) = 'a'", lambda s: s.strip(" ") == "a"),
    ("s || 'x' = 'ax'", lambda s: s + "x" == "ax"),
    ("case when s like 'a%' then 1 else 0 end = 1", lambda s: bool(s and s.startswith("a"))),
    ("case when s not like 'a%' then 1 else 0 end = 1",
     lambda s: s is not None and not s.startswith("a")),
]  # fmt: skip
UNARY: list[tuple[str, Callable[[Any], Any]]] = [
    ("-({})", lambda v: None if v is None else -v),
    ("abs({})", lambda v: None if v is None else abs(v)),
    ("floor({})", lambda v: v if v is None or not math.isfinite(v) else type(v)(math.floor(v))),
    ("ceil({})", lambda v: v if v is None or not math.isfinite(v) else type(v)(math.ceil(v))),
    ("cast({} as double)", double),
]  # fmt: skip
COLUMN_OF: dict[str, Any] = {
    "5": 5, "0": 0, "1": 1, "'5'": "5", "2024": 2024, "2": 2,
    "date '2024-02-29'": dt.date(2024, 2, 29),
    "1.50": Decimal("1.50"),
}  # fmt: skip
DERIVED: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("i", "cast(i as bigint) + 1|5", lambda i: None if i is None else i + 1),
    ("i", "coalesce(i, 0)|0", lambda i: 0 if i is None else i),
    ("i", "abs(cast(i as double))|5", lambda i: None if i is None else abs(float(i))),
    ("i", "case when i > 5 then 1 else 0 end|1", lambda i: int(i is not None and i > 5)),
    ("i", "cast(i as varchar)|'5'", lambda i: None if i is None else str(i)),
    ("i", "i / 2|1", lambda i: None if i is None else i / 2),
    ("n", "coalesce(n, 5)|5", lambda n: 5 if n is None else n),
    ("n", "cast(n as varchar)|'5'", lambda n: None if n is None else str(n)),
    ("x", "-x|0", lambda x: None if x is None else -x),
    ("x", "abs(x)|0", lambda x: None if x is None else abs(x)),
    ("x", "x + 1|1", lambda x: None if x is None else x + 1),
    ("x", "coalesce(x, 0)|0", lambda x: 0.0 if x is None else x),
    ("x", "case when x > 1 then 1 else 0 end|1", lambda x: int(x is not None and not x <= 1)),
    ("d", "d + 1|1.50", lambda d: None if d is None else d + 1),
    ("d", "coalesce(d, 1.50)|1.50", lambda d: Decimal("1.50") if d is None else d),
    ("day", "year(day)|2024", lambda d: None if d is None else d.year),
    ("day", "month(day)|2", lambda d: None if d is None else d.month),
    ("t", "year(t)|2024", lambda t: None if t is None else t.year),
    ("w", "cast(w as date)|date '2024-02-29'", lambda w: None if w is None else w.date()),
]
