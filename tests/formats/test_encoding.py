"""The plan a sample leads to, and that it pays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.formats import column_encoding
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
    shared_plan,
    stored_plan,
    writer_options,
)
from pyhudi.formats.log_block import encode_data
from pyhudi.formats.log_file import BlockKind

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


def test_columns_of_a_small_file_are_compressed_once_or_not_at_all() -> None:
    columns = map(_footer(_mixed().slice(0, 200)).row_group(0).column, range(8))
    found = {each.path_in_schema: (each.has_dictionary_page, each.compression) for each in columns}
    assert found == {
        **dict.fromkeys(("key", "text", "hex"), (False, "ZSTD")),
        **dict.fromkeys(("few", "n", "f"), (True, "UNCOMPRESSED")),
        "yes": (False, "UNCOMPRESSED"),  # Parquet has no dictionaries of booleans
        "nested.l.list.element": (True, "ZSTD"),
    }


def test_a_sample_is_bounded_and_keeps_neighbours() -> None:
    table = pa.table({"c": range(100_000)})
    sample = sample_rows(table)["c"].to_numpy()
    assert len(sample) == 3072
    assert (np.diff(sample) == 1).sum() == len(sample) - 3
    assert sample_rows(table.slice(0, 100)).num_rows == 100


def _mixed() -> pa.Table:
    return pa.table(
        {
            "few": constant("20240101"),
            "key": [f"{x & (2**64 - 1):016x}" for x in wide.tolist()],
            "text": [f"some longer text value {x % 10**9}" for x in wide.tolist()],
            "hex": [f"{x:x}" for x in random.integers(0, 2**30, COUNT).tolist()],
            "n": wide,
            "f": random.random(COUNT),
            "yes": random.random(COUNT) < 0.5,
            "nested": [{"l": [f"v{x % 7}"]} for x in range(COUNT)],
        }
    )


def _footer(table: pa.Table, **options: object) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **(options or writer_options(table))) as writer:
        writer.write_table(table)
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def test_the_footer_of_a_file_states_its_plan() -> None:
    table = _mixed()
    plan = encoding_plan(table.schema, sample_rows(table))
    assert len({each.encoding for each in plan.values()}) == 5
    assert stored_plan(_footer(table), table.schema, COUNT) == plan


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda table: table, 2 * COUNT),
        (lambda table: table.append_column("new", pa.nulls(COUNT, pa.int32())), COUNT),
        (lambda table: table.drop_columns(["hex"]), COUNT),
    ],
)
def test_a_file_with_twice_the_rows_or_other_columns_is_planned_again(
    change: Callable[[pa.Table], pa.Table], rows: int
) -> None:
    table = _mixed()
    assert stored_plan(_footer(table), change(table).schema, rows) is None


def test_a_column_that_had_no_values_is_planned_again() -> None:
    table = _mixed().append_column("none", pa.nulls(COUNT, pa.string()))
    assert stored_plan(_footer(table), table.schema, COUNT) is None


def test_a_file_without_compression_does_not_pass_it_on() -> None:
    table = _mixed()
    assert stored_plan(_footer(table, compression="none"), table.schema, COUNT) is None


def test_parts_of_a_write_share_the_plan_of_the_first() -> None:
    first, later = pa.table({"c": wide}), pa.table({"c": np.arange(COUNT) % 3 * 2**40})
    plan = shared_plan("1", first)
    assert shared_plan("1", later) == plan == {"c": DELTA_INTEGERS}
    assert shared_plan("2", later) != plan
    assert shared_plan("1", first.slice(0, 10)) is None


def test_plans_of_old_writes_are_forgotten() -> None:
    for number in range(100):
        shared_plan(str(number), pa.table({"c": wide}))
    assert len(column_encoding._shared) <= column_encoding._SHARED_MAX


def test_log_blocks_of_a_write_have_the_same_encodings() -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "c", "type": "long"}]}'

    def has_dictionary(values: object, instant: str) -> bool:
        content = encode_data(
            pa.table({"c": values}), kind=BlockKind.PARQUET, avro_schema=schema, instant=instant
        )
        column = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(0)
        return bool(column.has_dictionary_page)

    few = wide[random.integers(0, 20, COUNT)]
    assert not has_dictionary(wide, "20261124000000000")
    assert not has_dictionary(few, "20261124000000000")
    assert has_dictionary(few, "20261124000000001")
