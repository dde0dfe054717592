"""Hypothesis strategies of Avro schemas and rows of them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st

Typed = tuple[Any, st.SearchStrategy[Any]]
"""An Avro type and the values that fastavro writes for it."""

UTC = dt.UTC
FORMS = ["leaf", "leaf", "array", "map", "record", "union"]
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
ints = st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)
moments = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    exact = Context(prec=precision)
    return st.integers(-top, top).map(lambda n: Decimal(n).scaleb(-scale, exact))


def leaves(name: str) -> list[Typed]:
    """Every type without parts; named ones after `name`, which is unique."""
    return [
        ("boolean", st.booleans()),
        ("int", ints),
        ("long", longs),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
        ("string", st.text(max_size=40)),
        ("bytes", st.binary(max_size=40)),
        ({"type": "fixed", "name": f"{name}_fixed", "size": 7}, st.binary(min_size=7, max_size=7)),
        ({"type": "enum", "name": f"{name}_enum", "symbols": ["A", "B"]}, st.sampled_from("AB")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
            decimals(30, 15),
        ),
        (
            {
                "type": "fixed",
                "name": f"{name}_decimal",
                "size": 5,
                "logicalType": "decimal",
                "precision": 10,
                "scale": 2,
            },
            decimals(10, 2),
        ),
        ({"type": "int", "logicalType": "date"}, st.dates(dt.date(1900, 1, 1))),
        (
            {"type": "long", "logicalType": "time-micros"},
            st.times().map(lambda t: t.replace(fold=0)),
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            moments.map(lambda m: m.replace(tzinfo=UTC)),
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            moments.map(lambda m: m.replace(tzinfo=UTC, microsecond=m.microsecond // 1000 * 1000)),
        ),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, moments),
    ]


def optional(typed: Typed, null_first: bool) -> Typed:
    declared, values = typed
    union = ["null", declared] if null_first else [declared, "null"]
    return union, st.none() | values


@st.composite
def typed(draw: st.DrawFn, counter: Any, depth: int) -> Typed:
    """A type of bounded depth with its values."""
    name = f"n{next(counter)}"
    form = draw(st.sampled_from(FORMS if depth else ["leaf"]))
    if form == "leaf":
        declared, values = draw(st.sampled_from(leaves(name)))
    elif form == "array":
        items, item_values = draw(typed(counter, depth - 1))
        declared, values = {"type": "array", "items": items}, st.lists(item_values, max_size=4)
    elif form == "map":
        items, item_values = draw(typed(counter, depth - 1))
        declared = {"type": "map", "values": items}
        values = st.dictionaries(st.text(max_size=5), item_values, max_size=4)
    elif form == "record":
        declared, values = draw(record(name, counter, depth - 1))
    else:
        return draw(wrappers(name, counter, depth - 1))
    if draw(st.booleans()):
        return optional((declared, values), draw(st.booleans()))
    return declared, values


@st.composite
def record(draw: st.DrawFn, name: str, counter: Any, depth: int) -> Typed:
    members = [draw(typed(counter, depth)) for _ in range(draw(st.integers(1, 4)))]
    fields = [{"name": f"f{i}", "type": declared} for i, (declared, _) in enumerate(members)]
    values = st.fixed_dictionaries({f"f{i}": values for i, (_, values) in enumerate(members)})
    return {"type": "record", "name": name, "fields": fields}, values


@st.composite
def wrappers(draw: st.DrawFn, name: str, counter: Any, depth: int) -> Typed:
    """A general union of records, as the metadata table has them."""
    branches = []
    for i in range(draw(st.integers(2, 4))):
        branch = f"{name}_w{i}"
        declared, values = draw(record(branch, counter, depth))
        branches.append((declared, st.tuples(st.just(branch), values)))
    union: list[Any] = [declared for declared, _ in branches]
    chosen: st.SearchStrategy[Any] = st.one_of([values for _, values in branches])
    if draw(st.booleans()):
        union.insert(draw(st.integers(0, len(union))), "null")
        chosen = st.none() | chosen
    return union, chosen


@st.composite
def tables(draw: st.DrawFn, depth: int = 3, rows_max: int = 8) -> tuple[str, list[dict[str, Any]]]:
    """Schema text and rows of it."""
    declared, values = draw(record("root", itertools.count(), depth))
    return json.dumps(declared), draw(st.lists(values, max_size=rows_max))
