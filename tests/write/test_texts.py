"""Texts that are not UTF-8 and keys too long for the index are refused before any file is made."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import UserError

names = itertools.count()
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.string()), ("p", pa.string())])
NESTED = pa.schema(
    [
        ("id", pa.string()),
        ("l", pa.list_(pa.string())),
        ("s", pa.struct([("x", pa.string())])),
        ("m", pa.map_(pa.string(), pa.string())),
    ]
)


def bad_texts(count: int, at: int) -> pa.Array:
    """Texts of one byte each, of which one is no UTF-8."""
    data = b"".join(b"\xff" if row == at else b"a" for row in range(count))
    offsets = np.arange(count + 1, dtype=np.int32).tobytes()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def made(schema: pa.Schema, **more: object) -> Table:
    return pyhudi.create_table(f"memory://texts{next(names)}", schema, record_key="id", **more)


def refused(table: Table, rows: pa.Table, match: str) -> None:
    before, listed = len(table.timeline), table.scan().count()
    with pytest.raises(UserError, match=match):
        table.upsert(rows)
    assert len(pyhudi.open_table(table.path).timeline) == before
    assert table.scan().count() == listed


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("column", ["id", "v", "p"])
def test_text_that_is_not_utf_8_is_refused(table_type: str, column: str) -> None:
    table = made(SCHEMA, partition_by="p", table_type=table_type)
    good = {"id": ["1", "2", "3"], "v": ["x", "y", None], "p": ["a", "a", "b"]}
    table.upsert(pa.table(good))
    bad = bad_texts(3, 1)
    refused(table, pa.table(good | {column: bad}), rf"UTF-8.*column={column}, row=1")
    large = bad.cast(pa.large_string()) if column == "v" else bad
    refused(table, pa.table(good | {column: large}), r"UTF-8")


@pytest.mark.parametrize("column", ["l", "s", "m"])
def test_text_inside_nested_columns_is_looked_at(column: str) -> None:
    table = made(NESTED)
    bad = bad_texts(3, 2)
    offsets = pa.array([0, 1, 2, 3], pa.int32())
    inside = {
        "l": pa.ListArray.from_arrays(offsets, bad),
        "s": pa.StructArray.from_arrays([bad], names=["x"]),
        "m": pa.MapArray.from_arrays(offsets, pa.array(["k"] * 3), bad),
    }
    good = {"id": ["1", "2", "3"], **{c: pa.nulls(3, NESTED.field(c).type) for c in "lsm"}}
    rows = pa.table(good | {column: inside[column]})
    refused(table, rows, rf"UTF-8.*column={column}, row=2")
    table.upsert(rows.slice(0, 2))
    assert table.scan().count() == 2


@pytest.mark.parametrize("kind", ["record", "elastic"])
def test_a_key_too_long_for_the_index_is_refused(kind: str) -> None:
    table = made(pa.schema([("id", pa.string()), ("v", pa.string())]), index=kind)
    fits = "é" * 16383
    table.upsert(pa.table({"id": ["a", fits], "v": ["x", "y"]}))
    refused(table, pa.table({"id": ["b", fits + "éé"], "v": ["x", "y"]}), r"32767 bytes.*row=1")
    assert table.lookup(fits).column("found").to_pylist() == [True]


def test_other_indexes_take_keys_of_any_length() -> None:
    table = made(pa.schema([("id", pa.string()), ("v", pa.string())]), index="simple")
    for value in "xy":
        table.upsert(pa.table({"id": ["k" * 40_000], "v": [value]}))
    assert table.scan().count() == 1
