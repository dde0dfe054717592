"""Hostile messages, and what a table must have of them; independent of the readers under test."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi.ingest import RejectedRows, SourceBatch, SourceLimits
from pyhudi.ingest.kafka.messages import MessageBatch
from pyhudi.ingest.kafka.topic_rows import RowSettings, TopicRows, joined
from pyhudi.ingest.source import RowPlaces

OFFSET = "_hoodie_kafka_source_offset"
SCHEMA = pa.schema({
    "id": pa.string(), "n": pa.int64(), "f": pa.float64(), "g": pa.float32(),
    "d": pa.decimal128(10, 2), "b": pa.bool_(), "at": pa.timestamp("us", "UTC"),
    "l": pa.list_(pa.int64()), "s": pa.struct([("a", pa.int64()), ("t", pa.string())]),
})  # fmt: skip
_TEXTS = ["", "x", "12.30", "1e2", "null", "NaN", "é\u0000\U0001f600", '"\\', "2024-01-02", "{}"]
_NUMBERS = [
    "0", "-0", "1", "12.30", "0.1", "1e2", "1.005", "1e300", "-1e400", "9007199254740993",
    "9223372036854775807", "9223372036854775808", "99999999999999999999", "123456789.12", "1.0",
]  # fmt: skip
_ODD = ("nothing", "", "a b", "N", "id2")
_BROKEN = [
    b"", b" ", b"null", b"[]", b'"s"', b"5", b"{", b"}", b'{"id":', b'{"id":"a"}}', b"nul", b"\xff",
    b'{"id":"a"}{"id":"b"}', b'{"id":"a","o":', b'{"id":"b"}]', b'{"id":"\xff"}', b"{'id':1}",
    b'{"id":"\\ud800"}', b'{"id":"a",}', b'{"id":"a" "n":1}', b'{"n":NaN}', b'{"n":01}',
    b'{"n":.5}',
    b'{"id":"a","n":1,"n":2}', b"\xef\xbb\xbf" + b'{"id":"a"}', b"[" * 5000, b'{"a":' * 5000,
    b'{"id":"tab\tx"}', b"{\0}", b'{"n":+1}', b'{"n":1.}', b'{"id":"a"} x', b'{"id":"\\x"}',
]  # fmt: skip


@dataclass
class Messages:
    """A topic: batches of messages, each read whole.  format: a MessageFormat."""

    format: Any
    batches: list[list[bytes]] = field(default_factory=list)

    def read(self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema) -> Any:
        number = int(checkpoint or 0)
        if number == len(self.batches):
            return None
        first = sum(map(len, self.batches[:number]))
        rows = TopicRows(RowSettings(self.format, columns=("offset",)), schema)
        rejected, parts = RejectedRows(), []
        for at in range(0, len(self.batches[number]), 100):
            values = self.batches[number][at : at + 100]
            offsets = np.arange(first + at, first + at + len(values), dtype=np.int64)
            partitions = np.zeros(len(values), np.int32)
            part = rows.decode(
                MessageBatch(
                    "t", pa.array(values, pa.binary()), partitions, offsets, None, None, None
                )
            )
            rejected.add(part.rejected)
            parts.append(part)
        table, failed, _ = joined(parts, schema)
        rejected.add(failed)
        places = RowPlaces()
        places.add(table.num_rows, lambda rows: [f"t,0:{table[OFFSET][n]}" for n in rows])
        return SourceBatch(table.to_reader(), str(number + 1), rejected, places=places)


# ---- JSON ----------------------------------------------------------------------------------------


class Number(str):
    """A number as its text."""


def json_texts(draw: random.Random, count: int) -> Iterator[bytes]:
    """Each with another id, where it has one."""
    for number in range(count):
        if draw.random() < 0.15:
            yield draw.choice(_BROKEN)
            continue
        fields = [f'"id":"k{number}"'] if draw.random() < 0.95 else []
        names = ["n", "f", "g", "d", "b", "at", "l", "s", "new", "nothing", "", "a b", "N", "id2"]
        for name in draw.sample(names, draw.randrange(5)):
            weight = 0.7 if name in SCHEMA.names or name == "new" else 0.2
            text = _likely(draw, name) if draw.random() < weight else _value(draw, 0)
            if name in ("nothing", "id2"):
                text = draw.choice(["null", "[]", "{}", "[null]", '{"x":null}', "[[]]"])
            elif name in ("", "a b", "N"):
                text = "null" if draw.random() < 0.7 else draw.choice(_NUMBERS)
            fields.append(f"{draw.choice(['', ' '])}{json.dumps(name)} : {text}")
        draw.shuffle(fields)
        text = ("{" + ",".join(fields) + "}").encode()
        if draw.random() < 0.05:
            at = draw.randrange(len(text))
            other = text[:at] + bytes([draw.randrange(256)]) * draw.randrange(3) + text[at + 1 :]
            known = {*SCHEMA.names, "new", *_ODD}
            if (parsed(other) or {}).keys() <= known:
                text = other
        yield text


def _likely(draw: random.Random, name: str) -> str:
    match name:
        case "b":
            return draw.choice(["true", "false", "null"])
        case "l":
            return draw.choice(["[]", "null", "[1,2]", "[null, 3]"])
        case "s":
            return draw.choice(["{}", "null", '{"a":1}', '{"t":"x","a":null}', '{"":1}'])
        case "at":
            return draw.choice(["0", "1700000000000000", '"2024-01-02T03:04:05Z"'])
        case "new":
            return draw.choice(["1", "2.5", "9007199254740993"])
    return draw.choice(_NUMBERS)


def _value(draw: random.Random, depth: int) -> str:
    kind = draw.randrange(8 if depth < 3 else 6)
    if kind < 3:
        return draw.choice(_NUMBERS)
    if kind < 5:
        return json.dumps(draw.choice(_TEXTS), ensure_ascii=draw.random() < 0.5)
    if kind == 5:
        return draw.choice(["null", "true", "false"])
    if kind == 6:
        return "[" + ",".join(_value(draw, depth + 1) for _ in range(draw.randrange(3))) + "]"
    names = draw.sample(["a", "t"], draw.randrange(3))
    return "{" + ",".join(f"{json.dumps(n)}:{_value(draw, depth + 1)}" for n in names) + "}"


class _Bad(ValueError):
    pass


def parsed(text: bytes) -> dict[str, Any] | None:
    """An object, numbers as texts; None: not one object, or with a field twice."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in found}) < len(found):
            raise _Bad
        return dict(found)

    def constant(name: str) -> None:
        raise _Bad

    if text.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        value = json.loads(
            text.decode(), object_pairs_hook=pairs, parse_int=Number, parse_float=Number,
            parse_constant=constant,
        )  # fmt: skip
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def expected_rows(texts: Sequence[bytes], first: int = 0) -> dict[int, dict[str, Any]]:
    """By offset, the rows that a table of SCHEMA must have; the other messages are bad."""
    objects = {
        first + n: found for n, text in enumerate(texts) if (found := parsed(text)) is not None
    }
    new = [v for value in objects.values() if not _says_nothing(v := value.get("new"))]
    rows = {}
    for offset, value in objects.items():
        try:
            rows[offset] = _row(value, new)
        except _Bad:
            continue
    return rows


def _row(value: dict[str, Any], new: list[Any]) -> dict[str, Any]:
    row = {f.name: _fitted(value.get(f.name), f.type) for f in SCHEMA}
    if not row["id"]:
        raise _Bad
    known = {*SCHEMA.names, "new"}
    if any(not _says_nothing(v) for name, v in value.items() if name not in known):
        raise _Bad
    if isinstance(value.get("s"), dict) and value["s"].get("") is not None:
        raise _Bad
    kind = _kind_of(new)
    if kind is None:
        if not _says_nothing(value.get("new")):
            raise _Bad
    else:
        row["new"] = _fitted(value.get("new"), kind)
    return row


def _says_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_says_nothing, value.values()))
    return value is None or (isinstance(value, list) and all(map(_says_nothing, value)))


def _kind_of(values: list[Any]) -> pa.DataType | None:
    """Of a new field whose first value is a number."""
    if not values or not isinstance(values[0], Number):
        return None
    numbers = [value for value in values if isinstance(value, Number)]
    is_whole = all(not set(number) & set(".eE") for number in numbers)
    return pa.int64() if is_whole else pa.float64()


def _fitted(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    is_number = isinstance(value, Number)
    is_whole = is_number and not set(value) & set(".eE")
    is_text = isinstance(value, str) and not is_number
    if pa.types.is_string(kind) and is_text:
        return value
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if pa.types.is_int64(kind) and is_whole and -(1 << 63) <= int(value) < 1 << 63:
        return int(value)
    if pa.types.is_floating(kind) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if pa.types.is_floating(kind) and is_number:
        with np.errstate(over="ignore"):
            found = float(np.float32(float(value))) if kind == pa.float32() else float(value)
        if math.isfinite(found) and (not is_whole or int(found) == int(value)):
            return found
    if pa.types.is_decimal(kind) and isinstance(value, str):
        return _decimal(value)
    if pa.types.is_timestamp(kind):
        if is_whole and -(1 << 63) <= int(value) < 1 << 63:
            return int(value)
        micros = {"2024-01-02T03:04:05Z": 1704164645000000, "2024-01-02": 1704153600000000}
        if is_text and value in micros:
            return micros[value]
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_fitted(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {f.name: _fitted(value.get(f.name), f.type) for f in kind}
    raise _Bad


def _decimal(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise _Bad from None
    if not found.is_finite() or abs(found) >= 10**8 or found != round(found, 2):
        raise _Bad
    return round(found, 2)
