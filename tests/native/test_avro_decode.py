"""AvroCodec decoding: equal to fastavro on any schema, and safe on any bytes."""

import contextlib
import datetime as dt
import pickle
import struct
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi._native import AvroCodec
from pyhudi._native.avro.types import parse_schema
from pyhudi.errors import CorruptFileError, UserError
from tests.support.avro_rows import (
    AVRO_BLOCK,
    datum,
    frames,
    golden_log_blocks,
    golden_payloads,
    read_rows,
    text,
)
from tests.support.avro_schemas import tables
from tests.support.examples import examples

FLAT = text(("a", ["null", "string"]), ("b", "long"), ("c", ["double", "null"]), ("d", "int"))
FLAT_ROWS = [{"a": f"k{i}" if i % 3 else None, "b": i, "c": i / 2, "d": -i} for i in range(20)]


def one(schema: str, data: bytes) -> object:
    """The only field of the only row."""
    return AvroCodec(schema).decode_column(pa.array([data], pa.binary())).to_pylist()[0]["x"]


def refuse(schema: str, data: bytes, reason: str) -> CorruptFileError:
    with pytest.raises(CorruptFileError, match=reason) as caught:
        one(schema, data)
    return caught.value


@examples(15, 100, table=tables())
def test_any_schema_decodes_as_fastavro_reads_it(table) -> None:
    schema, rows = table
    datums = [datum(schema, row) for row in rows]
    codec = AvroCodec(schema)
    batch = codec.decode_framed(frames(datums), len(datums))
    batch.validate(full=True)
    assert batch.schema == codec.arrow_schema
    assert batch.to_pylist() == read_rows(schema, parse_schema(schema), datums)


@examples(10, 40, table=tables(), data=st.data())
def test_a_projection_has_the_requested_columns_in_the_requested_order(table, data) -> None:
    schema, rows = table
    codec = AvroCodec(schema)
    body = frames([datum(schema, row) for row in rows])
    whole = codec.decode_framed(body, len(rows))
    names = data.draw(st.permutations(codec.arrow_schema.names))
    names = names[: data.draw(st.integers(0, len(names)))]
    part = codec.decode_framed(body, len(rows), fields=names)
    part.validate(full=True)
    assert part.num_rows == len(rows)
    assert part.equals(whole.select(names))


@examples(10, 40, table=tables(), data=st.data())
def test_null_slots_are_null_rows_in_sliced_and_large_columns(table, data) -> None:
    schema, rows = table
    datums = [datum(schema, row) for row in rows]
    mask = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    slots = [d if keep else None for d, keep in zip(datums, mask, strict=True)]
    start = data.draw(st.integers(0, len(rows)))
    expected = iter(read_rows(schema, parse_schema(schema), [s for s in slots if s is not None]))
    rows_expected = [None if s is None else next(expected) for s in slots][start:]
    for arrow in (pa.binary(), pa.large_binary()):
        decoded = AvroCodec(schema).decode_column(pa.array(slots, arrow).slice(start))
        decoded.validate(full=True)
        assert decoded.to_pylist() == rows_expected


def test_chunked_columns_are_one_column() -> None:
    datums = [datum(FLAT, row) for row in FLAT_ROWS]
    column = pa.chunked_array([datums[:7], datums[7:]], pa.binary())
    assert AvroCodec(FLAT).decode_column(column).to_pylist() == FLAT_ROWS


def test_a_codec_pickles_by_its_schema() -> None:
    codec = pickle.loads(pickle.dumps(AvroCodec(FLAT)))
    assert codec.arrow_schema == AvroCodec(FLAT).arrow_schema


def test_unknown_fields_are_named() -> None:
    with pytest.raises(UserError, match="nope"):
        AvroCodec(FLAT).decode_framed(b"", 0, fields=["a", "nope"])


def test_datums_must_be_binary() -> None:
    with pytest.raises(UserError, match="int64"):
        AvroCodec(FLAT).decode_column(pa.array([1]))


def test_an_error_reports_path_column_row_and_offset() -> None:
    body = bytearray(frames([datum(FLAT, row) for row in FLAT_ROWS]))
    body[4] = 6  # the first union's branch
    with pytest.raises(CorruptFileError) as caught:
        AvroCodec(FLAT).decode_framed(body, len(FLAT_ROWS), path="t/x.log")
    assert caught.value.facts == {"path": "t/x.log", "column": "a", "row": 0, "offset": 4}


# ---- wire forms that writers use, and that they must not ---------------------------------------


@pytest.mark.parametrize(
    ("declared", "data", "value"),
    [
        ("long", b"\x80\x01", 64),
        ("long", b"\x80\x00", 0),  # longer than needed, but sound
        ("long", b"\xff" * 9 + b"\x01", -(2**63)),
        ("long", b"\xfe" + b"\xff" * 8 + b"\x01", 2**63 - 1),
        ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
        (["null", "int"], b"\x82\x00\x08", 4),
        (["int"], b"\x00\x08", 4),
        (["null"], b"\x00", None),
        ("null", b"", None),
        ({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00", [1, 2]),
        ({"type": "array", "items": "int"}, b"\x02\x02\x02\x04\x00", [1, 2]),
        ({"type": "map", "values": "int"}, b"\x01\x06\x02k\x04\x00", [("k", 2)]),
        ({"type": "array", "items": "null"}, b"\x06\x00", [None] * 3),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x00", 0),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            b"\x28" + b"\xff" * 19 + b"\x9c",
            Decimal("-1.00"),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            b"\x04\xd8\xf1",
            Decimal("-99.99"),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 50},
            b"\x2c" + (10**50 - 1).to_bytes(22, "big"),
            Decimal(10**50 - 1),
        ),
        ({"type": "int", "logicalType": "time-millis"}, b"\x02", dt.time(0, 0, 0, 1000)),
        ({"type": "string", "logicalType": "uuid"}, b"\x02a", "a"),
        ({"type": "fixed", "name": "f", "size": 0}, b"", b""),
        ({"type": "string", "avro.java.string": "String"}, b"\x06\xe2\x82\xac", "€"),
    ],
)
def test_sound_wire_forms(declared, data, value) -> None:
    assert one(text(("x", declared)), data) == value


@pytest.mark.parametrize(
    ("declared", "data", "reason"),
    [
        ("long", b"", "truncated"),
        ("long", b"\x80", "truncated"),
        ("long", b"\xff" * 11, "too long"),
        ("long", b"\xff" * 9 + b"\x02", "too long"),
        ("int", b"\x80\x80\x80\x80\x10", "too long"),
        ("boolean", b"\x02", "neither"),
        ("boolean", b"", "truncated"),
        ("float", b"abc", "truncated"),
        ("double", b"abcdefg", "truncated"),
        ("string", b"\x04a", "length"),
        ("string", b"\x01", "length"),
        ("string", b"\xff" * 9 + b"\x01", "length"),
        ("string", b"\x02\xff", "UTF-8"),
        ("string", b"\x06\xed\xa0\x80", "UTF-8"),
        ("string", b"\x04\xc0\x80", "UTF-8"),
        ("string", b"\x08\xf4\x90\x80\x80", "UTF-8"),
        ("long", b"\x02\x02", "longer"),
        (["null", "long"], b"\x04\x02", "branch"),
        (["null", "long"], b"\x01\x02", "branch"),
        (["null", "long", "string"], b"\x06\x02", "branch"),
        ({"type": "fixed", "name": "f", "size": 4}, b"abc", "truncated"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02", "symbol"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x01", "symbol"),
        ({"type": "array", "items": "int"}, b"\x80\x80\x80\x80\x80\x80\x01", "more items"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01" + b"\x00", "more items"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x80\x80\x01\x00", "more items"),
        ({"type": "array", "items": "int"}, b"\x02\x02", "truncated"),
        ({"type": "array", "items": "int"}, b"\x01\x20\x02\x00", "length"),
        ({"type": "map", "values": "int"}, b"\x02\x02k", "truncated"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\x04\x27\x10", "digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\x04\xd8\xf0", "digits"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38},
            b"\x22\x01" + b"\x00" * 16,
            "digits",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38},
            b"\x20\x80" + b"\x00" * 15,
            "digits",
        ),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "day"),
        ({"type": "long", "logicalType": "time-micros"}, b"\x80\xc0\xee\x89\x84\x05", "day"),
    ],
)
def test_unsound_wire_forms_are_refused(declared, data, reason) -> None:
    error = refuse(text(("x", declared)), data, reason)
    assert error.facts.get("row") == 0 or reason == "longer"


def test_text_that_joins_to_utf8_only_across_rows_is_refused() -> None:
    schema = text(("x", "string"))
    column = pa.array([b"\x02a", b"\x02\xc3", b"\x02\xa4"], pa.binary())
    with pytest.raises(CorruptFileError, match="UTF-8") as caught:
        AvroCodec(schema).decode_column(column)
    assert caught.value.facts == {"column": "x", "row": 1}


def test_skipped_fields_are_walked_in_every_form() -> None:
    parts = [
        ("long", 2**40),
        (["null", "string"], "text"),
        ({"type": "array", "items": {"type": "map", "values": "double"}}, [{"k": 1.5}, {}]),
        ({"type": "fixed", "name": "f", "size": 3}, b"abc"),
        (["null", "int", "string"], "branch"),
        ({"type": "record", "name": "z", "fields": [{"name": "q", "type": "float"}]}, {"q": 1.0}),
        ("boolean", True),
        ("null", None),
    ]
    schema = text(*((f"f{i}", declared) for i, (declared, _) in enumerate(parts)), ("x", "int"))
    row = {f"f{i}": value for i, (_, value) in enumerate(parts)} | {"x": 7}
    column = pa.array([datum(schema, row)], pa.binary())
    assert AvroCodec(schema).decode_column(column, fields=["x"]).to_pylist() == [{"x": 7}]
    for cut in range(len(column[0].as_py())):
        with pytest.raises(CorruptFileError):
            AvroCodec(schema).decode_column(
                pa.array([column[0].as_py()[:cut]], pa.binary()), fields=["x"]
            )


def test_skipped_blocks_with_a_size_are_jumped_over() -> None:
    schema = text(("a", {"type": "array", "items": "string"}), ("x", "int"))
    column = pa.array([b"\x03\x08\x02a\x02b\x00\x0e"], pa.binary())
    assert AvroCodec(schema).decode_column(column, fields=["x"]).to_pylist() == [{"x": 7}]


def test_nulls_before_structs_do_not_shift_their_children() -> None:
    inner = {"type": "record", "name": "z", "fields": [{"name": "q", "type": ["null", "int"]}]}
    schema = text(
        (
            "x",
            [
                "null",
                {
                    "type": "record",
                    "name": "y",
                    "fields": [
                        {"name": "z", "type": ["null", inner]},
                        {"name": "l", "type": "string"},
                    ],
                },
            ],
        )
    )
    rows = [None, None, {"z": {"q": 3}, "l": "a"}, None, {"z": None, "l": "b"}, None]
    body = frames([datum(schema, {"x": row}) for row in rows])
    batch = AvroCodec(schema).decode_framed(body, len(rows))
    batch.validate(full=True)
    assert batch.column("x").to_pylist() == rows


# ---- frames ------------------------------------------------------------------------------------


def test_no_rows() -> None:
    batch = AvroCodec(FLAT).decode_framed(b"", 0)
    batch.validate(full=True)
    assert batch.num_rows == 0
    assert AvroCodec(FLAT).decode_column(pa.array([], pa.binary())).to_pylist() == []


@pytest.mark.parametrize("count", [-1, 1, 19, 21, 2**31 - 1, 2**62])
def test_a_wrong_count_is_refused(count: int) -> None:
    with pytest.raises(CorruptFileError):
        AvroCodec(FLAT).decode_framed(frames([datum(FLAT, row) for row in FLAT_ROWS]), count)


@pytest.mark.parametrize("size", [-1, 0, 5, 2**31 - 1])
def test_a_wrong_frame_length_is_refused(size: int) -> None:
    body = bytearray(frames([datum(FLAT, row) for row in FLAT_ROWS]))
    struct.pack_into(">i", body, 0, size)
    with pytest.raises(CorruptFileError):
        AvroCodec(FLAT).decode_framed(body, len(FLAT_ROWS))


# ---- damage ------------------------------------------------------------------------------------


def same_or_refused(codec: AvroCodec, data: bytes) -> None:
    """Decoding ends, with sound columns or a CorruptFileError."""
    try:
        rows = codec.decode_column(pa.array([data], pa.binary()))
    except CorruptFileError:
        return
    rows.validate(full=True)


def flip_and_cut(codec: AvroCodec, value: bytes, flips: tuple[int, ...]) -> None:
    for cut in range(len(value)):
        with pytest.raises(CorruptFileError):
            codec.decode_column(pa.array([value[:cut]], pa.binary()))
    for at in range(len(value)):
        for bits in flips:
            same_or_refused(codec, value[:at] + bytes([value[at] ^ bits]) + value[at + 1 :])


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("payload", golden_payloads(), ids=lambda p: p[0])
def test_every_prefix_and_flipped_bit_of_a_payload_is_survived(payload, count: int) -> None:
    _, schema, values = payload
    for value in values[:count]:
        flip_and_cut(AvroCodec(schema), value, tuple(1 << bit for bit in range(8)))


def test_every_prefix_and_flipped_bit_of_a_log_block_is_survived() -> None:
    for kind, schema, content in golden_log_blocks():
        if kind != AVRO_BLOCK or schema is None:
            continue
        codec, body, count = AvroCodec(schema), content[8:], int.from_bytes(content[4:8], "big")
        for cut in range(len(body)):
            with pytest.raises(CorruptFileError):
                codec.decode_framed(body[:cut], count)
        for at in range(len(body)):
            for bit in range(8):
                damaged = bytearray(body)
                damaged[at] ^= 1 << bit
                with contextlib.suppress(CorruptFileError):
                    codec.decode_framed(damaged, count).validate(full=True)


@examples(15, 100, table=tables(), data=st.binary(max_size=200))
def test_any_bytes_are_survived(table, data) -> None:
    same_or_refused(AvroCodec(table[0]), data)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(tables(depth=4), st.data())
def test_damaged_rows_are_survived_long(table, data) -> None:
    schema, rows = table
    codec = AvroCodec(schema)
    for row in rows:
        body = bytearray(datum(schema, row))
        for _ in range(data.draw(st.integers(1, 4))):
            if body:
                body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        same_or_refused(codec, bytes(body))
        same_or_refused(codec, bytes(body[: data.draw(st.integers(0, len(body)))]))


def test_memory_stays_in_proportion_to_the_bytes() -> None:
    """A megabyte-wide slot for a null of one byte is the worst a schema can ask for."""
    schema = text(("x", ["null", {"type": "fixed", "name": "f", "size": 1 << 20}]))
    column = pa.array([b"\x00"] * 2000, pa.binary())
    with pytest.raises(CorruptFileError, match="memory"):
        AvroCodec(schema).decode_column(column)


def test_items_without_bytes_are_bounded_over_all_rows() -> None:
    schema = text(("x", {"type": "array", "items": {"type": "record", "name": "e", "fields": []}}))
    many = b"\x80\x80\x80\x04\x00"  # 4 M items
    rows = AvroCodec(schema).decode_column(pa.array([many], pa.binary()))
    assert len(rows.field("x").values) == 1 << 22
    with pytest.raises(CorruptFileError, match="more items"):
        AvroCodec(schema).decode_column(pa.array([many] * 5, pa.binary()))


def test_calls_in_threads_do_not_meet() -> None:
    codec = AvroCodec(FLAT)
    bodies = [frames([datum(FLAT, row | {"b": k}) for row in FLAT_ROWS] * 200) for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda body: codec.decode_framed(body, 4000), bodies))
    for k, batch in enumerate(batches):
        assert batch.column("b").unique().to_pylist() == [k]
        assert codec.encode_framed(batch) == bodies[k]
