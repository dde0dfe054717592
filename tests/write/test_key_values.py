"""Record keys named by the caller: one text is one key, other values go by the key rule."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import UserError

names = itertools.count()
UTC = dt.UTC
TYPED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, -2]),
    "long": (pa.int64(), [1, 1 << 60]),
    "float": (pa.float32(), [1.0, 2.5]),
    "double": (pa.float64(), [1.0, 1e-9]),
    "date": (pa.date32(), [dt.date(1960, 1, 1), dt.date(2020, 1, 1)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1960, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=UTC)],
    ),
    "millis": (pa.timestamp("ms"), [dt.datetime(1960, 1, 1), dt.datetime(2020, 1, 1, 1, 2, 3)]),
    "bool": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(18, 8), [Decimal("0E-8"), Decimal("1.50000000")]),
    "price": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.00")]),
    "text": (pa.string(), ["t1", "t2"]),
}


def made(schema: pa.Schema, key: str | list[str], **more: Any) -> Table:
    url = f"memory://keyvalues{next(names)}"
    return pyhudi.create_table(url, schema, record_key=key, **more)


def texts() -> Table:
    table = made(pa.schema([("id", pa.string()), ("v", pa.int64())]), "id")
    table.upsert(pa.table({"id": ["a", "b", "c", "abc", "t1"], "v": [1, 2, 3, 4, 5]}))
    return table


def left(table: Table) -> list[Any]:
    return sorted(table.scan("id").to_arrow().column("id").to_pylist(), key=repr)


@pytest.mark.parametrize("one", ["abc", b"abc"])
def test_a_text_is_one_key_for_every_verb(one: str | bytes) -> None:
    table = texts()
    assert table.lookup(one).to_pydict()["record_key"] == ["abc"]
    assert table.index.lookup(one).column("found").to_pylist() == [True]
    assert table.index.explain(one).num_rows > 0
    assert table.fetch(one, "id").to_pylist() == [{"id": "abc"}]
    assert table.history(one).num_rows == 1
    assert pyhudi.open_index(table.path).contains(one).to_pylist() == [True]
    assert table.delete(keys=one).deleted == 1
    assert left(table) == ["a", "b", "c", "t1"]


def test_a_text_is_one_column_for_every_read() -> None:
    table = texts()
    first = table.timeline.commits.first
    assert first is not None
    assert table.scan("id").to_arrow().column_names == ["id"]
    assert table.changes("000", columns="v").to_arrow().column_names == ["v"]
    assert table.fetch(["a"], "v").column_names == ["v"]
    assert table.diff("000", columns="v").num_rows == 5
    deferred = table.upsert(pa.table({"id": ["a"], "v": [9]}), publish=False)
    assert deferred.instant is not None
    assert table.preview(deferred.instant, "v").to_arrow().column_names == ["v"]


def test_one_key_of_a_history_may_stand_in_a_list() -> None:
    table = texts()
    assert table.history(["t1"]).num_rows == table.history("t1").num_rows == 1
    for several in (["a", "b"], [], [None]):
        with pytest.raises(UserError, match="exactly one"):
            table.history(several)


@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", TYPED)
def test_typed_keys_are_rendered_as_the_key_generator_does(kind: str, one_in: int) -> None:
    """In each form of an argument; with one_in each type in other forms."""
    data_type, values = TYPED[kind]
    column = pa.array(values, data_type)
    schema = pa.schema([("id", data_type), ("v", pa.int64())])
    forms: list[Any] = [
        column, pa.chunked_array([column]), values, tuple(values), column.dictionary_encode(),
        pa.table({"id": column}), pa.table({"other": column}), [{"id": v} for v in values],
        {"id": column}, [(v,) for v in values], pa.record_batch({"id": column}),
    ]  # fmt: skip
    if pa.types.is_timestamp(data_type):
        forms.append(column.cast(pa.timestamp("ns", data_type.tz)))
    for form in forms[list(TYPED).index(kind) % one_in :: one_in]:
        table = made(schema, "id")
        table.upsert(pa.table({"id": column, "v": [1, 2]}, schema))
        assert table.lookup(form).column("found").to_pylist() == [True, True]
        assert table.fetch(form).num_rows == 2
        for value in values:
            assert table.history(value).num_rows == 1
            assert table.history((value,)).num_rows == table.history({"id": value}).num_rows == 1
        assert table.lookup(values[0]).column("found").to_pylist() == [True]
        report = table.delete(keys=form)
        assert (report.deleted, report.missing_keys) == (2, 0)
        assert left(table) == []


def test_keys_that_arrow_types_otherwise_are_cast_to_the_key_column() -> None:
    schema = pa.schema([("id", pa.decimal128(18, 4)), ("v", pa.int64())])
    table = made(schema, "id")
    table.upsert(pa.table({"id": pa.array([Decimal(1), Decimal(2)], schema.types[0]), "v": [1, 2]}))
    for form in ([1, 2], np.array([1, 2]), pa.array([1, 2]), [Decimal("1.0"), Decimal(2)]):
        assert table.lookup(form).column("found").to_pylist() == [True, True]
    longs = made(pa.schema([("id", pa.int64()), ("v", pa.int64())]), "id")
    longs.upsert(pa.table({"id": [1, 2], "v": [1, 2]}))
    assert longs.lookup(["1", "2"]).column("found").to_pylist() == [True, True]
    assert longs.lookup(pa.array([1, None, 7], pa.int8())).column("found").to_pylist() == [
        True, False, False,
    ]  # fmt: skip
    numbers = texts()
    numbers.upsert(pa.table({"id": ["1"], "v": [1]}))
    assert numbers.lookup([1]).column("found").to_pylist() == [True]


def test_composite_keys_are_tuples_dicts_or_tables() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("id", pa.int64())])
    forms: list[Any] = [
        ("x", 1), [("x", 1)], {"a": "x", "b": 1}, [{"b": 1, "a": "x"}], ["a:x,b:1"], "a:x,b:1",
        pa.table({"b": [1], "a": ["x"], "more": [0]}), {"a": ["x"], "b": [1]},
        pa.array([{"a": "x", "b": 1}]),
    ]  # fmt: skip
    for form in forms:
        table = made(schema, ["a", "b"])
        table.upsert(pa.table({"a": ["x", "x"], "b": [1, 2], "id": [1, 2]}, schema))
        assert table.lookup(form).column("found").to_pylist() == [True]
        assert table.fetch(form, "id").to_pylist() == [{"id": 1}]
        assert table.history(form).num_rows == 1
        assert table.delete(keys=form).deleted == 1
        assert left(table) == [2]


@pytest.mark.parametrize("bare", ["true", "false"])
@pytest.mark.parametrize("index", ["record", "bloom"])
def test_the_value_of_the_only_column_is_a_key_of_a_complex_key_generator(
    index: str, bare: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("q", pa.string())])
    options = {"hoodie.write.complex.keygen.new.encoding": bare}
    rows = pa.table({"id": ["a", "b", "id:c"], "p": ["x", "x", "y"], "q": ["1", "2", "2"]}, schema)
    table = made(schema, "id", partition_by=["p", "q"], index=index, options=options)
    assert table.delete(keys="a").missing_keys == 1
    stored = "" if bare == "true" else "id:"
    for form in ("a", b"a", [f"{stored}a"], pa.array(["a"]), ("a",), {"id": "a"}):
        table.upsert(rows)
        if index == "record":
            assert table.lookup(form)["found"].to_pylist() == [True]
            assert table.fetch(form, "id").to_pylist() == [{"id": "a"}]
        assert table.history(form).num_rows
        assert table.delete(keys=form).deleted == 1
        assert left(table) == ["b", "id:c"]
    report = table.delete(keys=["nobody", "b", f"{stored}id:c"])
    assert (report.deleted, report.missing_keys) == (2, 1)


CUT: list[tuple[pa.DataType, Any, list[Any]]] = [
    (pa.int64(), 1, [1.5, Decimal("1.5"), np.float64(1.5)]),
    (pa.date32(), dt.date(2024, 1, 1), [dt.datetime(2024, 1, 1, 12)]),
    (pa.timestamp("ms"), dt.datetime(2024, 1, 1), [dt.datetime(2024, 1, 1, 0, 0, 0, 1)]),
    (pa.decimal128(5, 1), Decimal("1.5"), [1.56, Decimal("1.56")]),
]


@pytest.mark.parametrize(("kind", "key", "others"), CUT)
def test_a_value_that_its_type_would_cut_is_not_the_key(
    kind: pa.DataType, key: Any, others: list[Any]
) -> None:
    schema = pa.schema([("id", kind)])
    table = made(schema, "id")
    table.upsert(pa.table({"id": [key]}, schema))
    for value in others:
        for form in (value, [value], (value,), {"id": value}, [{"id": value}], pa.array([value])):
            with pytest.raises(UserError, match="cannot be converted"):
                table.delete(keys=form)
    assert left(table) == [key]


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal128(38, 7), pa.string()])
def test_a_decimal_that_the_key_column_lacks_is_no_other_key(kind: pa.DataType) -> None:
    """Arrow's cast of it wraps around to the key that the table has."""
    column = pa.decimal128(38, 23)
    schema = pa.schema([("k", column), ("v", pa.int64())])
    table = pyhudi.create_table(f"memory://wraps-{kind}", schema, record_key="k")
    stored = Decimal("150888387855394.57611573199246997848064")
    table.upsert(pa.table({"k": pa.array([stored], column), "v": [1]}))
    other = Decimal("321570089990602999999994.29")
    keys = pa.table({"k": pa.array([str(other) if kind == pa.string() else other], kind)})
    for verb in (table.lookup, table.fetch, lambda keys: table.delete(keys=keys)):
        with pytest.raises(UserError):
            verb(keys)
    assert table.scan().count() == 1
    assert table.lookup([stored])["found"].to_pylist() == [True]


def test_keys_that_do_not_fit_are_refused() -> None:
    table = made(pa.schema([("a", pa.string()), ("b", pa.int64())]), ["a", "b"])
    single = made(pa.schema([("id", pa.int64())]), "id")
    for wrong in ([1], [("x",)], {"a": ["x"], "c": [1]}, [{"c": 1}], pa.table({"c": [1]})):
        with pytest.raises(UserError, match="key column"):
            table.lookup(wrong)
    for wrong in ([dt.date(2020, 1, 1)], [b"\xff"], [1, "x"], [object()], [{"x": 1}]):
        with pytest.raises(UserError):
            single.delete(keys=wrong)


def test_keys_of_a_function_are_found_by_tables_of_its_columns() -> None:
    upper = pyhudi.PythonKeys(
        keys=lambda rows: pc.utf8_upper(rows.column("id")), paths=lambda rows: rows.column("id")
    )
    table = made(pa.schema([("id", pa.string())]), "id", partition_by=upper)
    table.upsert(pa.table({"id": ["abc", "def"]}))
    assert table.lookup(["ABC", "abc"]).column("found").to_pylist() == [True, False]
    assert table.lookup(pa.table({"id": ["abc"]})).column("found").to_pylist() == [True]
    assert table.delete(keys=pa.table({"id": ["abc"]})).deleted == 1
