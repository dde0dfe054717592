"""Footers state no bounds of columns with NaN, and are otherwise as Arrow wrote them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.formats.avro_schema import arrow_to_avro
from pyhudi.formats.base_file import read_parquet, write_base
from pyhudi.formats.log_block import encode_data
from pyhudi.formats.log_file import BlockKind
from pyhudi.formats.nan_statistics import without_bounds
from pyhudi.storage.memory import MemoryFileSystem

NAN = math.nan
INNER = pa.struct(
    [("n", pa.int32()), ("f", pa.float32()), ("deep", pa.struct([("d", pa.float64())]))]
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("d", pa.float64()),
        ("text", pa.string()),
        ("s", INNER),
        ("l", pa.list_(pa.field("element", pa.float64()))),
        ("m", pa.map_(pa.string(), pa.float32())),
        ("ls", pa.list_(pa.field("element", pa.struct([("x", pa.float64()), ("y", pa.int64())])))),
        ("f", pa.float32()),
    ]
)


def written(rows: Any, row_group_rows: int = 1 << 18, **options: Any) -> bytes:
    fs = MemoryFileSystem()
    with fs.open_sink("f.parquet") as sink:
        found = write_base(
            sink, rows, avro_schema="{}", bloom=None, row_group_rows=row_group_rows, **options
        )
    content = fs.read("f.parquet")
    assert found.size_bytes == len(content)
    return content


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path without repeated levels, value) of the leaves of a Python value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, tuple):
                yield from leaves(dict(zip(("key", "value"), inner, strict=True)), path)
            else:
                yield from leaves(inner, path)
    elif value is not None:
        yield path, value


def column_name(path: str) -> str:
    repeated = (".list.element", ".key_value")
    for part in repeated:
        path = path.replace(part, "")
    return f".{path}"


def check_bounds(content: bytes, rows: pa.Table) -> int:
    """Compare the footer with the values of the file; the number of columns with NaN."""
    file = pq.ParquetFile(pa.BufferReader(content))
    start = 0
    with_nan = {path for row in rows.to_pylist() for path, value in leaves(row) if value != value}
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        values: dict[str, list[Any]] = {}
        for row in rows.slice(start, group.num_rows).to_pylist():
            for path, value in leaves(row):
                values.setdefault(path, []).append(value)
        start += group.num_rows
        for at in range(group.num_columns):
            chunk = group.column(at)
            name = column_name(chunk.path_in_schema)
            found, has_nan = values.get(name, []), name in with_nan
            if not group.num_rows:
                continue
            assert chunk.has_offset_index
            assert chunk.has_column_index == (not has_nan)
            assert chunk.statistics.has_null_count
            assert chunk.statistics.has_min_max == bool(found and not has_nan), chunk
            if found and not has_nan and not isinstance(found[0], str):
                assert (chunk.statistics.min, chunk.statistics.max) == (min(found), max(found))
    assert start == rows.num_rows
    return len(with_nan)


def random_rows(rng: random.Random, count: int, share: float) -> pa.Table:
    """share: of NaN among floating values."""

    def number() -> float | None:
        if rng.random() < share:
            return NAN
        return rng.choice([None, 0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, 1e30])

    def some() -> list[float | None]:
        return [number() for _ in range(rng.randrange(3))]

    rows = [
        {
            "id": n,
            "d": number(),
            "text": rng.choice(["a", None]),
            "s": rng.choice([None, {"n": n, "f": number(), "deep": {"d": number()}}]),
            "l": rng.choice([None, some()]),
            "m": [(str(k), v) for k, v in enumerate(some())],
            "ls": [{"x": v, "y": n} for v in some()],
            "f": number(),
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_in_footers_cover_all_values(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.choice([0, 1, 50, 200]), rng.choice([0.0, 0.01, 0.1, 1.0]))
    size = rng.choice([7, 30, 1000])
    whole = rng.random() < 0.5
    given = rows if whole else rows.to_batches(max_chunksize=rng.choice([3, 10, 64]))
    content = written(given, size, schema=SCHEMA)
    check_bounds(content, rows)
    back = read_parquet(pa.BufferReader(content), path="f.parquet")
    assert repr(back.to_pylist()) == repr(rows.to_pylist())


def test_parts_of_tables_are_checked_alone() -> None:
    rows = random_rows(random.Random(3), 90, 0.0)
    nan = random_rows(random.Random(4), 30, 1.0)
    rows = pa.concat_tables([rows, nan, rows])
    content = written(rows.slice(20, 160), 20)
    assert check_bounds(content, rows.slice(20, 160)) == 7


def test_a_null_over_nan_is_not_nan() -> None:
    values = pa.array(np.array([1.0, NAN, 3.0]), mask=np.array([False, True, False]))
    file = pq.ParquetFile(pa.BufferReader(written(pa.table({"x": values}))))
    found = file.metadata.row_group(0).column(0).statistics
    assert (found.min, found.max, found.null_count) == (1.0, 3.0, 1)


def test_zeros_bound_both_zeros() -> None:
    for zeros in ([0.0, 0.0], [-0.0, -0.0], [0.0, -0.0]):
        file = pq.ParquetFile(pa.BufferReader(written(pa.table({"x": zeros}))))
        found = file.metadata.row_group(0).column(0).statistics
        assert [math.copysign(1, found.min), math.copysign(1, found.max)] == [-1, 1]


def test_dictionaries_of_numbers_are_checked() -> None:
    rows = pa.table({"x": pa.array([1.0, NAN]).dictionary_encode()})
    file = pq.ParquetFile(pa.BufferReader(written(rows)))
    assert not file.metadata.row_group(0).column(0).statistics.has_min_max


def test_files_without_nan_are_as_arrow_writes_them() -> None:
    rows = random_rows(random.Random(5), 300, 0.0)
    check_bounds(written(rows, 100), rows)


def test_blocks_of_logs_state_no_bounds_for_nan() -> None:
    rows = random_rows(random.Random(6), 60, 0.2)
    avro = arrow_to_avro(SCHEMA, name="r", namespace="n")
    content = encode_data(rows, kind=BlockKind.PARQUET, avro_schema=avro).to_pybytes()
    assert check_bounds(content, rows) == 7


def test_engines_find_nan_rows_in_a_file(tmp_path: Path) -> None:
    groups = [[1.0, NAN], [1.0, 1.0], [NAN, NAN], [None, NAN], [0.5, None]]
    numbers = [number for group in groups for number in group]
    rows = pa.table(
        {
            "id": list(range(len(numbers))),
            "x": pa.array(numbers, pa.float64()),
            "s": pa.array([{"f": number} for number in numbers], pa.struct([("f", pa.float32())])),
        }
    )
    path = tmp_path / "f.parquet"
    path.write_bytes(written(rows, 2))
    nan = [n for n, number in enumerate(numbers) if number is not None and math.isnan(number)]
    for column in ("x", "s.f"):
        for condition in ("{} > 1", "isnan({})", "{} <> 1 and not {} < 1", "not {} < 5"):
            where = condition.format(column, column)
            found = duckdb.sql(f"select id from '{path}' where {where} order by id").fetchall()
            assert [n for (n,) in found] == nan, where
    field = pl.col("s").struct.field("f")
    for condition in (pl.col("x") > 1, pl.col("x").is_nan(), field > 1, field.is_nan()):
        found = pl.scan_parquet(path).filter(condition).select("id").collect()
        assert sorted(found["id"].to_list()) == nan
    context = datafusion.SessionContext()
    context.register_parquet("t", str(path))
    for where in ("x > 1", "isnan(x)", "not x < 5", "s['f'] > 1", "isnan(s['f'])"):
        batches = context.sql(f"select id from t where {where} order by id").collect()
        assert [n for batch in batches for n in batch.column(0).to_pylist()] == nan, where
    for expression in (pc.field("x"), pc.field("s", "f")):
        for where in (expression.is_nan(), ~(expression < 5)):
            found = ds.dataset(path).to_table(filter=where)
            assert found["id"].to_pylist() == nan


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 40])
def test_a_footer_that_is_not_whole_is_refused(cut: int) -> None:
    content = written(pa.table({"x": [1.0, 2.0]}))
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    broken = footer[cut : cut + 10]
    tail = broken + len(broken).to_bytes(4, "little") + (b"PAR1" if cut else b"PARE")
    with pytest.raises(CorruptFileError):
        without_bounds(tail, {0})
