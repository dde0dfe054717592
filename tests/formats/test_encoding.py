"""The plan a sample leads to, and that it pays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.formats.column_encoding import (
    DELTA_INTEGERS,
    DELTA_LENGTHS,
    DELTA_STRINGS,
    DICTIONARY,
    PLAIN,
    PLAIN_RAW,
    ColumnEncoding,
    encoding_plan,
    sample_rows,
)

COUNT = 3000
random = np.random.default_rng(7)
wide = random.integers(-(2**62), 2**62, COUNT)


def constant(text: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int32()), [text])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (constant("20240101"), DICTIONARY),
        (["p1"] * COUNT, DICTIONARY),
        ([f"city {x % 50}" for x in range(COUNT)], DICTIONARY),
        ([f"{x & (2**64 - 1):016x}" for x in wide.tolist()], DELTA_LENGTHS),
        ([f"some longer text value {x % 10**9}" for x in wide.tolist()], DELTA_STRINGS),
        ([f"{x:x}" for x in random.integers(0, 2**30, COUNT).tolist()], PLAIN),
        ([f"20240101_3_{x}" for x in range(COUNT)], PLAIN),
        ([random.bytes(12) for _ in range(COUNT)], PLAIN_RAW),
        (wide, DELTA_INTEGERS),
        (np.arange(COUNT), DELTA_INTEGERS),
        (np.arange(COUNT, dtype="int32"), DELTA_INTEGERS),
        (np.arange(COUNT, dtype="int8") % 100, DELTA_INTEGERS),
        (pa.array(np.arange(COUNT), pa.timestamp("us", "UTC")), DELTA_INTEGERS),
        (pa.array(np.arange(COUNT, dtype="int32"), pa.date32()), DELTA_INTEGERS),
        (wide[random.integers(0, 20, COUNT)], DICTIONARY),
        (random.random(COUNT), PLAIN_RAW),
        (np.arange(COUNT, dtype="float64"), PLAIN),
        (np.ones(COUNT), DICTIONARY),
        (random.random(COUNT) < 0.5, PLAIN),
        ([None] * COUNT, DICTIONARY),
        (pa.array([None] * COUNT, pa.string()), DICTIONARY),
        (["few rows"] * 3 + [None] * (COUNT - 3), DICTIONARY),
    ],
)
def test_each_kind_of_column_has_its_encoding(values: object, expected: ColumnEncoding) -> None:
    table = pa.table({"c": values})
    assert encoding_plan(table.schema, table) == {"c": expected}


def test_nested_columns_are_named_by_their_leaves() -> None:
    schema = pa.schema(
        [
            ("s", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])),
            ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32())]))),
        ]
    )
    plan = encoding_plan(schema, schema.empty_table())
    assert set(plan) == {"s.x", "s.l.list.element", "m.key_value.key", "m.key_value.value.v"}


def test_a_sample_is_bounded_and_keeps_neighbours() -> None:
    table = pa.table({"c": range(100_000)})
    sample = sample_rows(table)["c"].to_numpy()
    assert len(sample) == 3072
    assert (np.diff(sample) == 1).sum() == len(sample) - 3
    assert sample_rows(table.slice(0, 100)).num_rows == 100
