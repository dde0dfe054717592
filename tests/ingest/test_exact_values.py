"""A value of a typed file is stored as it is, or its row is a bad one."""

from __future__ import annotations

import os
import random
from datetime import date, datetime
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import SchemaError
from pyhudi.ingest import ErrorTable, FileSource, Stream
from pyhudi.ingest.row_fit import columns_fit, rows_with, shaped
from pyhudi.ingest.source import failing_places
from pyhudi.options import SchemaMode
from pyhudi.write.input.schema_check import SchemaRules
from tests.ingest.test_file_source import put

MONEY, LONG = pa.decimal128(10, 2), pa.decimal128(38, 10)
STAMP, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")
NOON = datetime(2026, 1, 2, 12)


def converted(value: Any, source: pa.DataType, kind: pa.DataType) -> Any:
    column = pa.chunked_array([pa.array([value, None], source)])
    return shaped(column, kind, "c")[0].as_py()


@pytest.mark.parametrize(
    ("value", "source", "kind", "expected"),
    [
        (5, pa.int64(), MONEY, Decimal("5.00")),
        (0.1, pa.float64(), MONEY, Decimal("0.10")),
        (0.1, pa.float32(), LONG, Decimal("0.1")),
        (2.0, pa.float64(), pa.int64(), 2),
        (Decimal("0.10"), MONEY, pa.float64(), 0.1),
        (Decimal("3.00"), MONEY, pa.int32(), 3),
        (7, pa.uint64(), pa.int64(), 7),
        ("12.50", pa.string(), MONEY, Decimal("12.50")),
        ("2026-01-02T12:00:00", pa.string(), STAMP, NOON),
        ("inf", pa.string(), pa.float64(), float("inf")),
        (str(2**60), pa.string(), pa.float64(), 2.0**60),
        (str(2**60 + 1) + ".0", pa.string(), pa.float64(), 2.0**60),
        ("-7", pa.string(), pa.int32(), -7),
        (date(2026, 1, 2), pa.date32(), STAMP, datetime(2026, 1, 2)),
        (datetime(2026, 1, 2), STAMP, pa.date32(), date(2026, 1, 2)),
        (7, pa.int32(), pa.string(), "7"),
        (b"abc", pa.binary(), pa.binary(3), b"abc"),
    ],
)
def test_a_value_that_the_column_has_is_converted(
    value: Any, source: pa.DataType, kind: pa.DataType, expected: Any
) -> None:
    assert converted(value, source, kind) == expected


@pytest.mark.parametrize(
    ("value", "source", "kind"),
    [
        (5, pa.int32(), pa.bool_()),
        (1, pa.int64(), pa.bool_()),
        (0.1, pa.float64(), pa.bool_()),
        (True, pa.bool_(), pa.int64()),
        (b"1", pa.binary(), pa.bool_()),
        (b"1", pa.binary(), pa.int64()),
        (1.005, pa.float64(), MONEY),
        (1e-320, pa.float64(), LONG),
        (float("nan"), pa.float64(), MONEY),
        (Decimal("1234567890123456.75"), pa.decimal128(20, 2), pa.float64()),
        (Decimal("9" * 45), pa.decimal256(50, 0), pa.float32()),
        (2**53 + 1, pa.int64(), pa.float64()),
        ("0x10", pa.string(), pa.int64()),
        ("1e400", pa.string(), pa.float64()),
        (str(2**53 + 1), pa.string(), pa.float64()),
        (str(-(2**24) - 1), pa.string(), pa.float32()),
        ("1.005", pa.string(), MONEY),
        (NOON, STAMP, pa.int64()),
        (NOON, STAMP, pa.date32()),
        (NOON, STAMP, pa.time64("us")),
        (date(2026, 1, 2), pa.date32(), pa.int32()),
        (-1, pa.int32(), pa.time32("ms")),
        (86_400_000, pa.int32(), pa.time32("ms")),
        (b"abcd", pa.binary(), pa.binary(3)),
    ],
)
def test_a_value_that_the_column_does_not_have_is_refused(
    value: Any, source: pa.DataType, kind: pa.DataType
) -> None:
    with pytest.raises((pa.ArrowException, SchemaError)):
        converted(value, source, kind)


@pytest.mark.parametrize("seed", range(3))
def test_a_decimal_becomes_the_same_number_or_none(seed: int) -> None:
    """From texts and other decimals; Arrow wraps around beyond 128 bits."""
    draw = random.Random(seed)
    with localcontext() as context:
        context.prec = 200
        for _ in range(400):
            precision = draw.choice([38, draw.randint(1, 38)])
            kind = pa.decimal128(precision, draw.randint(0, precision))
            digits = "".join(draw.choices("0123456789", k=draw.randint(1, 38)))
            scale = draw.randint(0, len(digits))
            number = Decimal(draw.choice("-+") + digits).scaleb(-scale)
            text = f"{number:{draw.choice('feE')}}"
            place = Decimal(1).scaleb(-kind.scale)
            is_one = abs(number) < 10 ** (kind.precision - kind.scale)
            is_one = is_one and number.quantize(place) == number
            source = pa.decimal128(len(digits), scale)
            for value, given in ((text, pa.string()), (number, source)):
                try:
                    found = converted(value, given, kind)
                except (pa.ArrowException, SchemaError):
                    found = None
                assert found == (number if is_one else None), (text, given, kind)


def test_rows_of_files_with_other_types_are_stored_exactly_or_rejected(tmp_path: Path) -> None:
    """Two files whose types differ from those of the table and from each other."""
    schema = pa.schema({
        "id": pa.string(), "n": pa.int64(), "b": pa.bool_(), "d": MONEY, "x": pa.binary(3),
        "t": STAMP,
    })  # fmt: skip
    first = pa.table({
        "id": ["a1", "a2", "a3", "a4"], "n": [2**53 + 1, None, None, None],
        "b": [None, True, None, None], "d": pa.array([None] * 4, pa.float64()),
        "x": pa.array([None, None, b"abc", b"long"], pa.binary()),
        "t": pa.array([datetime(9999, 12, 31), None, None, None], STAMP),
    })  # fmt: skip
    second = pa.table({
        "id": ["b1", "b2", "b3", "b4", "b5"], "n": [2.0, 2.5, None, None, None],
        "b": [None, None, 5, None, None], "d": pa.array([None, None, None, 0.1, 1.005]),
        "x": pa.array([None] * 5, pa.float64()),
        "t": pa.array([1_000, None, None, None, None], pa.timestamp("ns")),
    })  # fmt: skip
    put(tmp_path / "in", "a.arrow", first, 1)
    put(tmp_path / "in", "b.arrow", second, 1)
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    errors = ErrorTable(str(tmp_path / "errors"))
    report = Stream(FileSource(tmp_path / "in"), table, bad_rows=errors).run_once()
    assert report is not None and report.rejected == 4
    rows = {
        row.pop("id"): {name: value for name, value in row.items() if value is not None}
        for row in pyhudi.open_table(tmp_path / "t").scan(with_meta=False).to_arrow().to_pylist()
    }
    assert rows == {
        "a1": {"n": 2**53 + 1, "t": datetime(9999, 12, 31)}, "a2": {"b": True}, "a3": {"x": b"abc"},
        "b1": {"n": 2, "t": datetime(1970, 1, 1, 0, 0, 0, 1)}, "b4": {"d": Decimal("0.10")},
    }  # fmt: skip


def test_values_that_a_new_column_does_not_have_are_bad_rows(tmp_path: Path) -> None:
    """Nanoseconds, which tables do not have, by themselves and in a struct, a list and a map."""
    fine, odd = [1000, None], [1001, 2000]
    nanos = pa.timestamp("ns")
    for name, times in (("fine", fine), ("odd", odd)):
        at = pa.array(times, nanos)
        offsets = pa.array([0, 1, 2], pa.int32())
        rows = pa.table({
            "id": [f"{name}1", f"{name}2"], "at": at,
            "clock": pa.array([1000, 2000] if name == "fine" else [1001, 2000], pa.time64("ns")),
            "s": pa.StructArray.from_arrays([at], ["t"]),
            "l": pa.ListArray.from_arrays(offsets, at),
            "m": pa.MapArray.from_arrays(offsets, pa.array(["a", "a"]), at),
        })  # fmt: skip
        put(tmp_path / "in", f"{name}.arrow", rows, 1)
    table = pyhudi.create_table(tmp_path / "t", pa.schema({"id": pa.string()}), record_key="id")
    stream = Stream(FileSource(tmp_path / "in"), table, bad_rows="skip")
    report = stream.run_once()
    assert report is not None and report.rejected == 1
    found = pyhudi.open_table(tmp_path / "t").scan(with_meta=False).to_arrow()
    assert sorted(found["id"].to_pylist()) == ["fine1", "fine2", "odd2"]
    moment = datetime(1970, 1, 1, 0, 0, 0, 1)
    (first,) = (row for row in found.to_pylist() if row["id"] == "fine1")
    assert (first["at"], first["s"], first["l"], first["m"]) == (
        moment, {"t": moment}, [moment], [("a", moment)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        *((made(pa.int64()), pa.list_(pa.int32())) for made in (
            pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
        (pa.list_(pa.int64(), 1), pa.list_(pa.int32())),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())),
        (pa.list_(pa.list_(pa.int64())), pa.list_(pa.list_(pa.int32()))),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int32())])),
    ],
)  # fmt: skip
def test_a_bad_element_is_that_of_one_row(source: pa.DataType, kind: pa.DataType) -> None:
    def value(number: int) -> Any:
        if pa.types.is_map(source):
            return [("k", number)]
        if pa.types.is_struct(source):
            return {"a": number}
        return [[number]] if pa.types.is_list(source) and source.value_type.num_fields else [number]

    values = [value(1), None, value(1 << 40), value(3), value(4)]
    column = pa.chunked_array([pa.array([value(1 << 50), *values], source).slice(1)])
    assert list(failing_places(column, partial(shaped, target=kind, name="c"))) == [2]
    fine = shaped(column.slice(3), kind, "c")
    assert fine.type == kind and fine.to_pylist() == [value(3), value(4)]


def test_nanoseconds_of_int96_are_not_cut_off(tmp_path: Path) -> None:
    rows = pa.table({
        "id": ["a", "b", "c", "d"],
        "until": pa.array([datetime(9999, 12, 31), datetime(1600, 1, 1), None, NOON], STAMP),
        "at": pa.array([1000, 1001, None, -1], pa.timestamp("ns")),
    })  # fmt: skip
    path = put(tmp_path / "in", "a.parquet", rows, 1)
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True, row_group_size=3)
    os.utime(path, (1000, 1000))
    schema = pa.schema({"id": pa.string(), "until": STAMP, "at": STAMP})
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    errors = ErrorTable(str(tmp_path / "errors"))
    report = Stream(FileSource(tmp_path / "in"), table, bad_rows=errors).run_once()
    assert report is not None and report.rejected == 2
    found = pyhudi.open_table(tmp_path / "t").scan(with_meta=False).to_arrow().to_pylist()
    assert found == [
        {"id": "a", "until": datetime(9999, 12, 31), "at": datetime(1970, 1, 1, 0, 0, 0, 1)},
        {"id": "c", "until": None, "at": None},
    ]
    bad = pyhudi.open_table(tmp_path / "errors").scan(["position"]).to_arrow()["position"]
    assert sorted(bad.to_pylist()) == ["a.parquet:2", "a.parquet:4"]


@pytest.mark.parametrize("wrap", ["struct", "list", "map", "list of structs"])
def test_nanoseconds_of_nested_int96_are_not_cut_off(wrap: str, tmp_path: Path) -> None:
    values = [1500, 2000, None, 3_000_001, 4000]

    def nested(value: int | None) -> Any:
        match wrap:
            case "struct":
                return {"t": value}
            case "list":
                return [2000, value]
            case "map":
                return [("k", value)]
        return [{"t": value}, {"t": 1000}]

    stamp, inner = pa.timestamp("ns"), pa.struct([("t", pa.timestamp("ns"))])
    kinds = {"struct": inner, "list": pa.list_(stamp), "map": pa.map_(pa.string(), stamp)}
    column = pa.array([nested(v) for v in values], kinds.get(wrap, pa.list_(inner)))
    rows = pa.table({"id": list("abcde"), "s": column})
    path = put(tmp_path / "in", "a.parquet", rows, 1)
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True, row_group_size=3)
    os.utime(path, (1000, 1000))
    table = pyhudi.create_table(tmp_path / "t", pa.schema({"id": pa.string()}), record_key="id")
    report = Stream(FileSource(tmp_path / "in"), table, bad_rows="skip").run_once()
    assert report is not None and report.rejected == 2
    found = pyhudi.open_table(tmp_path / "t").scan(["id", "s"]).to_arrow()
    assert found["id"].to_pylist() == ["b", "c", "e"]
    assert found["s"].to_pylist() == rows.take([1, 2, 4])["s"].cast(found["s"].type).to_pylist()


def _reads(rows: pa.Table, folder: Path, known: pa.Schema) -> tuple[int, pa.Table]:
    """Rejected rows of an Arrow file, and what the table has of it."""
    (folder / "in").mkdir(parents=True)
    path = folder / "in/a.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    os.utime(path, (1000, 1000))
    table = pyhudi.create_table(folder / "t", known, record_key="id")
    report = Stream(FileSource(folder / "in"), table, bad_rows="skip").run_once()
    assert report is not None
    return report.rejected, pyhudi.open_table(folder / "t").scan(with_meta=False).to_arrow()


_WRAPPERS: dict[str, tuple[Any, Any]] = {
    "struct": (lambda kind: pa.struct([("s", kind)]), lambda value: {"s": value}),
    "list": (pa.list_, lambda value: [value]),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
}


@pytest.mark.parametrize("outer", _WRAPPERS)
@pytest.mark.parametrize("inner", _WRAPPERS)
def test_a_new_field_at_any_depth_is_added_or_its_rows_are_bad(
    outer: str, inner: str, tmp_path: Path
) -> None:
    (kind_of, value_of), (inner_kind_of, inner_value_of) = _WRAPPERS[outer], _WRAPPERS[inner]
    old, new = (pa.struct([(n, pa.int64()) for n in names]) for names in ("x", "xy"))
    given = [{"x": 1, "y": 2}, {"x": 3, "y": None}, None]
    column = pa.array(
        [value_of(inner_value_of(value)) for value in given], kind_of(inner_kind_of(new))
    )
    rows = pa.table({"id": ["a", "b", "c"], "m": column})
    known = pa.schema({"id": pa.string(), "m": kind_of(inner_kind_of(old))})
    rejected, found = _reads(rows, tmp_path, known)
    assert rejected == 0 and found["m"].to_pylist() == column.to_pylist()
    strict = columns_fit(rows.schema, known, SchemaRules(SchemaMode.STRICT))
    [refused] = strict.refused
    assert rows_with(rows, refused.steps).tolist() == [True, False, False]
    assert rows_with(rows.slice(1), refused.steps).tolist() == [False, False]
    short = [value_of(inner_value_of(value)) for value in ({"x": 3}, None)]
    assert strict.shaped(rows.slice(1))["m"].to_pylist() == short


def _below_nulls(kind: str) -> tuple[pa.Array, pa.DataType]:
    """A column with a value below a null that its column does not have, and the column's type."""
    values, mask = pa.array([1, 2**40, 3]), pa.array([False, True, False])
    offsets = pa.array([0, 1, 2, 3], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values, mask=mask)
    match kind:
        case "struct":
            made = pa.StructArray.from_arrays([values], ["x"], mask=mask)
            return made, pa.struct([("x", pa.int32())])
        case "list":
            return lists, pa.list_(pa.int32())
        case "fixed-size list":
            made = pa.FixedSizeListArray.from_arrays(values, 1, mask=mask)
            return made, pa.list_(pa.int32())
    entries = pa.StructArray.from_arrays(
        [pa.array(["k"] * 3), values],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())],
    )
    kind_ = pa.map_(pa.string(), pa.int64())
    made = pa.Array.from_buffers(kind_, 3, lists.buffers()[:2], 1, 0, [entries])
    return made, pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize("kind", ["struct", "list", "fixed-size list", "map"])
def test_values_below_nulls_are_not_read(kind: str, tmp_path: Path) -> None:
    column, stored = _below_nulls(kind)
    rows = pa.table({"id": ["a", "b", "c"], "v": column})
    rejected, found = _reads(rows, tmp_path, pa.schema({"id": pa.string(), "v": stored}))
    assert rejected == 0 and found["v"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", "1", "2"], pa.string_view()),
        pa.array([b"x", b"1", b"2"], pa.binary_view()),
        pc.run_end_encode(pa.array(["x", "1", "2"])),
        pa.array(["x", "1", "2"]).dictionary_encode(),
        pa.array([["x"], ["1"], ["2"]], pa.list_(pa.string_view())),
        pa.array([["x"], ["1"], ["2"]], pa.list_view(pa.string())),
        pa.array([{"s": "x"}, {"s": "1"}, {"s": "2"}], pa.struct([("s", pa.string_view())])),
    ],
    ids=lambda column: str(column.type),
)
def test_a_bad_row_is_one_row_whatever_the_encoding_of_text(column: Any, tmp_path: Path) -> None:
    known = pa.schema({"id": pa.string(), "n": pa.int64()})
    rows = pa.table({"id": ["a", None, "c"], "n": pa.array(["1", "2", "x"]), "v": column})
    rejected, found = _reads(rows, tmp_path, known)
    assert rejected == 2
    assert found.select(["id", "n"]).to_pylist() == [{"id": "a", "n": 1}]
    assert found["v"].to_pylist() == column.to_pylist()[:1]


@pytest.mark.parametrize(
    ("value", "source", "kind"),
    [
        (2**53 + 1, pa.int64(), pa.float64()),
        (2**40 + 1, pa.int64(), pa.float32()),
        (1500, pa.timestamp("ns"), STAMP),
    ],
)
def test_a_bad_value_of_a_dictionary_is_that_of_its_rows(
    value: int, source: pa.DataType, kind: pa.DataType, tmp_path: Path
) -> None:
    column = pa.array([value, 2000], pa.int64()).cast(source).dictionary_encode()
    rows = pa.table({"id": ["a", "b"], "v": column})
    rejected, found = _reads(rows, tmp_path, pa.schema({"id": pa.string(), "v": kind}))
    assert rejected == 1 and found["id"].to_pylist() == ["b"]
