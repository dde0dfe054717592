"""What log blocks hold: rows and deletes as Apache Hudi wrote them, and back to the same bytes."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, PyhudiError, UnsupportedTableError, UserError
from pyhudi.formats import delete_block as logdeletes
from pyhudi.formats.delete_block import decode_deletes, encode_deletes
from pyhudi.formats.log_block import (
    data_batches,
    data_block,
    delete_block,
    empty_delete_block,
    encode_data,
    read_content,
    rollback_block,
)
from pyhudi.formats.log_file import BlockKind, HeaderKey, read_blocks, write_block
from tests.support.logs import (
    GOLDEN_LOGS,
    as_file,
    blocks_of,
    content_of,
    every_log,
    golden_log,
)

MICROS = pa.timestamp("us", "UTC")
SCHEMA = """{"type":"record","name":"r","fields":[
  {"name":"id","type":["null","string"],"default":null},
  {"name":"n","type":["null","long"],"default":null},
  {"name":"tags","type":["null",{"type":"array","items":["null","string"]}],"default":null}]}"""


def deletes_of(data: bytes) -> bytes:
    (block,) = [block for block in blocks_of(data) if block.kind is BlockKind.DELETE]
    return content_of(block, data)


def rows_of(data: bytes, columns: list[str] | None = None) -> pa.Table:
    (block,) = [b for b in blocks_of(data) if b.kind in (BlockKind.AVRO, BlockKind.PARQUET)]
    return data_batches(block, as_file(data), path="x.log", columns=columns)


class TestDeletesByApacheHudi:
    @pytest.mark.parametrize(
        ("name", "ordering_type", "kind", "values"),
        [
            ("bool_0.15.0", pa.bool_(), 1, [True, False, True]),
            ("int_0.15.0", pa.int32(), 2, [7, 6, 5]),
            ("long_0.15.0", pa.int64(), 3, [7, 6, 0]),
            ("float_0.15.0", pa.float32(), 4, [3.5, 2.5, 1.5]),
            ("double_0.15.0", pa.float64(), 5, [3.5, 2.5, 1.5]),
            ("string_0.15.0", pa.string(), 7, ["c", "b", "a"]),
            ("date_0.15.0", pa.date32(), 8, [dt.date(2024, 1, day) for day in (3, 2, 1)]),
            (
                "decimal_0.15.0",
                pa.decimal128(10, 2),
                9,
                [Decimal("12345678.99"), Decimal("-2.50"), Decimal("1.25")],
            ),
            ("timestamp_0.15.0", MICROS, 3, [1_700_000_000_000_000 + i for i in (2, 1, 0)]),
            ("timestamp_1.2.0", MICROS, 3, [1_700_000_000_000_000 + i for i in (2, 1, 0)]),
        ],
    )
    def test_each_ordering_type_reads_and_writes_back_the_same_bytes(
        self, name: str, ordering_type: pa.DataType, kind: int, values: list[object]
    ) -> None:
        content = deletes_of(golden_log(f"deletes_by_{name}"))
        deletes = decode_deletes(content, path="x", ordering_type=ordering_type)
        assert deletes["record_key"].to_pylist() == ["k3", "k2", "k1"]
        assert deletes["partition_path"].to_pylist() == ["", "", ""]
        assert deletes["ordering_kind"].to_pylist() == [kind] * 3
        assert deletes["ordering"].equals(pa.array(values).cast(ordering_type))
        again = encode_deletes(deletes["record_key"], "", deletes["ordering"])
        assert again == content

    def test_deletes_without_ordering_are_int_zero(self) -> None:
        content = deletes_of(golden_log("delete"))
        deletes = decode_deletes(content, path="x", ordering_type=pa.int64())
        assert deletes["ordering_kind"].to_pylist() == [2, 2, 2]
        assert deletes["ordering"].null_count == 3
        keys = pa.chunked_array([deletes["record_key"]])
        assert encode_deletes(keys, deletes["partition_path"], None) == content

    def test_every_delete_of_the_fixtures_writes_back_the_same_bytes(self) -> None:
        count = 0
        for name, data in every_log():
            for block in blocks_of(data):
                if block.kind is not BlockKind.DELETE:
                    continue
                content = content_of(block, data)
                deletes = decode_deletes(content, path=name, ordering_type=pa.int64())
                count += len(deletes)
                if len(deletes):
                    paths, ordering = deletes["partition_path"], deletes["ordering"]
                    natural = set(deletes["ordering_kind"].to_pylist()) == {2}
                    again = encode_deletes(
                        deletes["record_key"], paths, None if natural else ordering
                    )
                    assert again == content, name
        assert count > 500

    def test_the_empty_block_that_makes_a_file_group(self) -> None:
        data = golden_log("empty_deletes")
        assert empty_delete_block("00000000000000010") == data
        assert len(decode_deletes(deletes_of(data), path="x")) == 0


def test_a_zero_long_is_an_ordering_value_and_a_zero_int_is_none() -> None:
    for type_, expected in ((pa.int64(), [0, 1]), (pa.int32(), [None, 1])):
        content = encode_deletes(["a", "b"], "p", pa.array([0, 1], type_))
        deletes = decode_deletes(content, path="x", ordering_type=pa.int64())
        assert deletes["ordering"].to_pylist() == expected


@pytest.mark.parametrize("type_", [pa.int32(), pa.int64(), pa.string(), MICROS])
def test_a_null_ordering_value_becomes_int_zero(type_: pa.DataType) -> None:
    ordering = (
        pa.array([None, 5, None], pa.int64())
        .cast(pa.int32())
        .cast(pa.int64() if type_ == MICROS else type_)
    )
    content = encode_deletes(["a", "b", "c"], "p", ordering.cast(type_))
    deletes = decode_deletes(content, path="x", ordering_type=type_)
    assert deletes["ordering"].equals(ordering.cast(type_))
    assert deletes["ordering_kind"].to_pylist()[::2] == [2, 2]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=9), st.integers(-(2**63), 2**63 - 1)))
)
def test_any_deletes_read_back(rows: list[tuple[str, str, int]]) -> None:
    keys, paths, values = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 3
    )
    content = encode_deletes(keys, pa.array(paths, pa.string()), pa.array(values, pa.int64()))
    deletes = decode_deletes(content, path="x", ordering_type=pa.int64())
    assert deletes["record_key"].to_pylist() == keys
    assert deletes["partition_path"].to_pylist() == paths
    assert deletes["ordering"].to_pylist() == values


@pytest.mark.parametrize("version", [1, 2])
def test_kryo_delete_blocks_are_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedTableError, match=f"version {version} .Kryo"):
        decode_deletes(struct.pack(">ii", version, 3) + b"abc", path="x")


def test_a_decimal_beyond_a_delete_block_is_not_logged_as_another() -> None:
    """Arrow's cast of the first wraps around to 845138776368051.162..."""
    for number, fits in ((647941182760433559696364932551, False), (10**15 - 1, True)):
        column = pa.chunked_array([pa.array([Decimal(number)], pa.decimal128(38, 0))])
        assert logdeletes.loggable([column]).tolist() == [fits]
        if not fits:
            with pytest.raises(pa.ArrowInvalid):
                encode_deletes(pa.array(["k"]), pa.array([""]), column.chunk(0))


def test_ordering_that_does_not_fit_is_refused() -> None:
    content = encode_deletes(["a"], "p", pa.array(["x"]))
    with pytest.raises(UnsupportedTableError, match="ordering"):
        decode_deletes(content, path="x", ordering_type=pa.int64())
    with pytest.raises(UserError, match="ordered"):
        encode_deletes(["a"], "p", pa.array([[1]]))


def test_every_cut_and_flip_of_a_delete_block_is_deletes_or_an_error() -> None:
    content = deletes_of(golden_log("deletes_by_long_0.15.0"))
    for cut in range(len(content)):
        with pytest.raises(CorruptFileError):
            decode_deletes(content[:cut], path="x")
    for at in range(len(content)):
        for mask in (0x01, 0x80, 0xFF):
            bad = bytearray(content)
            bad[at] ^= mask
            with contextlib.suppress(PyhudiError):
                decode_deletes(bytes(bad), path="x", ordering_type=pa.int64())


class TestRows:
    def test_avro_rows_of_apache_hudi_write_back_the_same_bytes(self) -> None:
        data = golden_log("avro")
        (block,) = blocks_of(data)
        rows = rows_of(data)
        assert rows.num_rows == 1
        again = encode_data(rows, kind=BlockKind.AVRO, avro_schema=block.schema or "")
        assert again.to_pybytes() == content_of(block, data)

    def test_parquet_rows_of_apache_hudi(self) -> None:
        rows = rows_of(golden_log("parquet"))
        assert rows.column_names[:5] == [
            "_hoodie_commit_time",
            "_hoodie_commit_seqno",
            "_hoodie_record_key",
            "_hoodie_partition_path",
            "_hoodie_file_name",
        ]
        assert rows.num_rows > 0

    def test_an_hfile_block_is_keys_and_values_read_in_place(self) -> None:
        data = golden_log("hfile")
        (block,) = blocks_of(data)
        rows = data_batches(block, as_file(data), path="x", columns=["ignored"])
        assert rows.schema.names == ["key", "value"]
        keys = rows["key"].to_pylist()
        assert keys == sorted(keys)
        assert b"__all_partitions__" in keys

    @pytest.mark.parametrize("kind", [BlockKind.AVRO, BlockKind.PARQUET])
    @pytest.mark.parametrize("count", [0, 3])
    def test_rows_read_back_with_the_schema_of_the_block(self, kind: BlockKind, count: int) -> None:
        rows = pa.table(
            {
                "tags": pa.array([["x", None], None, []][:count], pa.list_(pa.string())),
                "id": pa.array(["a", None, "c"][:count], pa.string()),
                "dropped": pa.array([1, 2, 3][:count]),
            }
        )
        data = data_block(rows, kind=kind, instant="7", avro_schema=SCHEMA)
        (block,) = blocks_of(data)
        assert (block.kind, block.instant, block.schema) == (kind, "7", SCHEMA)
        back = rows_of(data)
        assert back.column_names == ["id", "n", "tags"]
        assert back["tags"].to_pylist() == rows["tags"].to_pylist()
        assert back["n"].null_count == count
        assert rows_of(data, ["tags", "nothing", "id"]).column_names == ["tags", "id"]

    def test_an_empty_parquet_block_is_no_rows(self) -> None:
        data = write_block(BlockKind.PARQUET, {HeaderKey.SCHEMA: SCHEMA}, b"")
        assert rows_of(data, ["n"]).schema == pa.schema([("n", pa.int64())])

    def test_several_blocks_in_one_file_are_read_in_place(self) -> None:
        one = pa.table({"id": ["a"]})
        data = b"".join(
            data_block(one, kind=kind, instant=str(i), avro_schema=SCHEMA)
            for i, kind in enumerate([BlockKind.PARQUET, BlockKind.AVRO, BlockKind.PARQUET])
        )
        file = as_file(data)
        for block in read_blocks(file, path="x"):
            assert data_batches(block, file, path="x")["id"].to_pylist() == ["a"]

    def test_blocks_without_a_schema_are_refused(self) -> None:
        with pytest.raises(CorruptFileError, match="schema"):
            rows_of(write_block(BlockKind.AVRO, {}, struct.pack(">ii", 3, 0)))

    def test_every_data_block_of_the_fixtures_decodes(self) -> None:
        rows = 0
        for name, data in every_log():
            for block in blocks_of(data):
                if block.kind in (BlockKind.AVRO, BlockKind.PARQUET, BlockKind.HFILE):
                    rows += data_batches(block, as_file(data), path=name).num_rows
        assert rows > 8000

    @pytest.mark.parametrize("name", ["avro", "parquet"])
    def test_every_cut_and_flip_of_a_data_block_is_rows_or_an_error(self, name: str) -> None:
        data = golden_log(name)
        (block,) = blocks_of(data)
        content = content_of(block, data)
        for at in range(0, len(content), 1 if name == "avro" else 7):
            bad = bytearray(content)
            bad[at] ^= 0xFF
            for changed in (content[:at], bytes(bad)):
                with contextlib.suppress(CorruptFileError, UnsupportedTableError):
                    rows_of(write_block(block.kind, block.header, changed))


def test_the_rollback_block_is_that_of_apache_hudi() -> None:
    data = golden_log("rollback")
    assert rollback_block("20250126040936578", "20250126040826878") == data


def test_a_delete_block_carries_its_instant_and_schema() -> None:
    (block,) = blocks_of(delete_block(["a"], "p", None, instant="7", avro_schema=SCHEMA))
    assert (block.kind, block.instant, block.schema) == (BlockKind.DELETE, "7", SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(GOLDEN_LOGS.iterdir()), ids=lambda path: path.stem)
def test_every_flipped_byte_of_a_log_is_blocks_or_an_error(path: Path) -> None:
    data = path.read_bytes()
    for at in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            bad = bytearray(data)
            bad[at] ^= mask
            file = as_file(bytes(bad))
            with contextlib.suppress(PyhudiError):
                for block in read_blocks(file, path="x"):
                    if block.kind is BlockKind.DELETE:
                        decode_deletes(read_content(block, file), path="x")
                    elif block.kind not in (BlockKind.COMMAND, BlockKind.CORRUPT):
                        data_batches(block, file, path="x")


def test_deletes_ordered_by_several_fields_give_each_value() -> None:
    def wrapped(kind: str, value: Any, field: str = "value") -> tuple[str, dict[str, Any]]:
        return f"org.apache.hudi.avro.model.{kind}Wrapper", {field: value}

    def delete(key: str, *values: Any) -> dict[str, Any]:
        several = wrapped("Array", list(values), "wrappedValues")
        ordering = several if values else wrapped("Int", 0)
        return {"recordKey": key, "partitionPath": "p", "orderingVal": ordering}

    date = wrapped("LocalDate", 19_000)
    records = [
        delete("a", wrapped("Long", 0), wrapped("String", "x"), date),
        delete("b"),
        delete("c", wrapped("Long", 7), None, date),
        delete("d", wrapped("Long", 0)),
    ]
    sink = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(logdeletes._delete_schema()))
    fastavro.schemaless_writer(sink, schema, {"deleteRecordList": records})
    body = sink.getvalue()
    batch = decode_deletes(
        struct.pack(">ii", 3, len(body)) + body,
        path="x",
        ordering_type=[pa.int64(), pa.string(), pa.date32()],
    )
    day = dt.date(1970, 1, 1) + dt.timedelta(days=19_000)
    assert batch.column("ordering").to_pylist() == [
        {"0": 0, "1": "x", "2": day},
        None,
        {"0": 7, "1": None, "2": day},
        None,
    ]
