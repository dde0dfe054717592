"""Every Arrow type comes back equal from each kind of file, or is refused before a write.

One table has a column of every type that is stored; the types that are refused have a table each.
"""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyhudi
from pyhudi.errors import SchemaError

names = itertools.count()
AT = dt.datetime(2021, 3, 4, 5, 6, 7, 123_000)
DAY = dt.date(1969, 12, 31)
STRUCT = pa.struct([("x", pa.int16()), ("y", pa.list_(pa.string()))])
STORED: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int16(): [-(1 << 15), 1],
    pa.int32(): [-(1 << 31), 1],
    pa.int64(): [-(1 << 63), (1 << 63) - 1],
    pa.uint8(): [255, 0],
    pa.uint16(): [65535, 0],
    pa.uint32(): [(1 << 32) - 1, 0],
    pa.float16(): [np.float16(1.5), np.float16(-0.0)],
    pa.float32(): [0.5, float("-inf")],
    pa.float64(): [0.1, -0.0],
    pa.decimal32(5, 2): [Decimal("-999.99"), Decimal("0.01")],
    pa.decimal64(12, 4): [Decimal("99999999.9999"), Decimal("0.0001")],
    pa.decimal128(38, 0): [Decimal(10**38 - 1), Decimal(-1)],
    pa.decimal256(30, 10): [Decimal("-1.0000000001"), Decimal("0E-10")],
    pa.string(): ["é\u0000\U0001f600", ""],
    pa.large_string(): ["a", ""],
    pa.string_view(): ["a much longer text than fits", ""],
    pa.binary(): [b"\xff\x00", b""],
    pa.large_binary(): [b"a", b""],
    pa.binary_view(): [b"a", b""],
    pa.binary(3): [b"abc", b"\xff\x00\x00"],
    pa.date32(): [DAY, dt.date(9999, 12, 31)],
    pa.date64(): [DAY, dt.date(2000, 1, 1)],
    pa.time32("s"): [dt.time(23, 59, 59), dt.time(0)],
    pa.time32("ms"): [dt.time(1, 2, 3, 4000), dt.time(0)],
    pa.time64("us"): [dt.time(1, 2, 3, 4), dt.time(0)],
    pa.time64("ns"): [dt.time(1, 2, 3, 4), dt.time(0)],
    pa.timestamp("ns"): [AT, dt.datetime(1960, 1, 1)],
    pa.timestamp("s"): [AT.replace(microsecond=0), dt.datetime(1960, 1, 1)],
    pa.timestamp("ms"): [AT, dt.datetime(1960, 1, 1)],
    pa.timestamp("us"): [AT, dt.datetime(1960, 1, 1)],
    pa.timestamp("us", "UTC"): [AT.replace(tzinfo=dt.UTC)] * 2,
    pa.timestamp("ms", "UTC"): [AT.replace(tzinfo=dt.UTC)] * 2,
    pa.dictionary(pa.int8(), pa.string()): ["a", "b"],
    pa.run_end_encoded(pa.int32(), pa.int64()): [7, 7],
    pa.list_(pa.int32()): [[1, None], []],
    pa.large_list(pa.float64()): [[0.5], []],
    pa.list_(pa.string(), 2): [["a", None], ["b", "c"]],
    pa.list_(pa.float32(), 2): [[0.5, None], [1.0, 2.0]],
    pa.list_view(pa.int64()): [[1, None], []],
    pa.large_list_view(pa.int64()): [[1], [2, 3]],
    STRUCT: [{"x": 1, "y": ["a", None]}, {"x": None, "y": []}],
    pa.list_(STRUCT): [[{"x": 1, "y": None}], []],
    pa.map_(pa.string(), pa.int64()): [[("k", None), ("j", 1)], []],
    pa.map_(pa.large_string(), STRUCT): [[("k", {"x": 3, "y": []})], []],
}
VECTORS = {
    "VECTOR(2)": (pa.float32(), [[0.5, -0.0], [float("inf"), 3.0]]),
    "VECTOR(2, DOUBLE)": (pa.float64(), [[0.1, -0.0], [1e300, 3.0]]),
    "VECTOR(3, INT8)": (pa.int8(), [[-128, 0, 127], [1, 2, 3]]),
}
REFUSED = [
    pa.null(), pa.uint64(), pa.duration("ms"), pa.month_day_nano_interval(), pa.decimal256(50, 2),
    pa.map_(pa.int32(), pa.string()), pa.list_(pa.uint64()),
    pa.struct([("x", pa.null())]), pa.dense_union([pa.field("a", pa.int32())]),
]  # fmt: skip


def fields() -> list[tuple[pa.Field, list[Any]]]:
    """Each column with its two values."""
    plain = [(pa.field(f"c{n}", kind), v) for n, (kind, v) in enumerate(STORED.items())]
    vectors = [
        (pa.field(f"v{n}", pa.list_(kind), metadata={"hudi_type": text}), values)
        for n, (text, (kind, values)) in enumerate(VECTORS.items())
    ]
    return plain + vectors


def rows(keys: str, pick: int) -> pa.Table:
    """A row a key; its values are the first or the second of each type, or all null."""
    columns = {"id": pa.array(list(keys))}
    schema = [pa.field("id", pa.string())]
    for field, values in fields():
        value = None if pick == 2 else values[pick]
        columns[field.name] = made(field.type, [value] * len(keys))
        schema.append(field)
    return pa.table(columns, pa.schema(schema))


def made(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.RunEndEncodedType):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values, kind.value_type)
        )
    return pa.array(values, kind)


def stored(table: pyhudi.Table) -> dict[str, Any]:
    found = table.scan(with_meta=False).to_arrow().to_pylist()
    return {row.pop("id"): {name: repr(value) for name, value in row.items()} for row in found}


def expected_row(keys: str, pick: int) -> dict[str, Any]:
    by_key = {}
    for row in rows(keys, pick).to_pylist():
        key = row.pop("id")
        by_key[key] = {name: repr(plain(value)) for name, value in row.items()}
    return by_key


def plain(value: Any) -> Any:
    """A value as Python has it: no numpy or pandas scalar."""
    if isinstance(value, np.floating):
        return float(value)
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


@pytest.mark.parametrize("kind", ["cow", "mor-avro", "mor-parquet"])
def test_every_type_comes_back_equal_from_every_file(kind: str, tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", rows("a", 0).schema, record_key="id", table_type=kind[:3],
        options={"hoodie.logfile.data.block.format": kind[4:] or "parquet"},
    )  # fmt: skip
    table.insert(pa.concat_tables([rows("ab", 0), rows("cd", 1), rows("e", 2)]))
    expected = {**expected_row("ab", 0), **expected_row("cd", 1), **expected_row("e", 2)}
    assert stored(table) == expected
    table.upsert(pa.concat_tables([rows("af", 1), rows("c", 2), rows("e", 0)]))
    expected |= {**expected_row("af", 1), **expected_row("c", 2), **expected_row("e", 0)}
    assert stored(table) == expected
    if kind != "cow":
        table.compact()
        assert stored(table) == expected
    table.cluster(["id"])
    assert stored(table) == expected


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_other_types_are_refused_before_anything_is_written(
    kind: pa.DataType, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.string()), ("c", kind)])
    with pytest.raises(SchemaError, match="column=c"):
        pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    assert not (tmp_path / "t").exists()
    table = pyhudi.create_table(tmp_path / "t", schema.remove(1), record_key="id")
    with pytest.raises(SchemaError):
        table.upsert(pa.RecordBatchReader.from_batches(schema, []))
    assert not len(table.timeline)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time64("ns")], ids=str)
def test_nanoseconds_that_would_be_lost_are_refused(kind: pa.DataType) -> None:
    schema = pa.schema([("id", pa.string()), ("c", kind)])
    table = pyhudi.create_table(f"memory://nanos{next(names)}", schema, record_key="id")
    lost = pa.array([1001], pa.int64()).cast(kind)
    with pytest.raises(SchemaError, match=r"column=c"):
        table.upsert(pa.table({"id": ["1"], "c": lost}))
    assert not len(table.timeline)


VECTOR = st.tuples(st.sampled_from(["FLOAT", "DOUBLE", "INT8"]), st.integers(1, 40))
KINDS = {"FLOAT": "<f4", "DOUBLE": "<f8", "INT8": "i1"}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    VECTOR, st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 2**32 - 1),
    st.sampled_from(["cow", "avro", "parquet"]),
)  # fmt: skip
def test_any_bits_of_a_vector_come_back(
    vector: tuple[str, int], present: list[bool], seed: int, kind: str
) -> None:
    """Bit for bit, NaN of any payload included, after an update of every other row."""
    element, size = vector
    numbers = np.dtype(KINDS[element])
    made_by = np.random.default_rng(seed)
    field = pa.field(
        "v",
        pa.list_(pa.from_numpy_dtype(numbers)),
        metadata={"hudi_type": f"VECTOR({size}, {element})"},
    )
    schema = pa.schema([("id", pa.int64()), field])
    table = pyhudi.create_table(
        f"memory://bits{next(names)}", schema, record_key="id",
        table_type="cow" if kind == "cow" else "mor",
        options={} if kind == "cow" else {"hoodie.logfile.data.block.format": kind},
    )  # fmt: skip

    def some(ids: list[int]) -> dict[int, bytes | None]:
        return {i: made_by.bytes(size * numbers.itemsize) if present[i] else None for i in ids}

    def batch(values: dict[int, bytes | None]) -> pa.Table:
        lists = [None if v is None else np.frombuffer(v, numbers) for v in values.values()]
        return pa.table({"id": list(values), "v": pa.array(lists, field.type)}, schema)

    first, second = some([*range(len(present))]), some([*range(0, len(present), 2)])
    table.insert(batch(first))
    table.upsert(batch(second))
    found = table.scan().to_arrow().combine_chunks()
    column = found["v"].combine_chunks()
    values = column.flatten().to_numpy().tobytes()
    ids = found["id"].to_pylist()
    expected = [({**first, **second})[i] for i in ids]
    assert column.is_valid().to_pylist() == [value is not None for value in expected]
    assert values == b"".join(value or b"" for value in expected)
