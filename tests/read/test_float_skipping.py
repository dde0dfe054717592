"""Statistics of floating columns: rows with NaN are found, files and row groups still skipped."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.formats.base_file import hidden_nan, write_base
from pyhudi.formats.column_encoding import writer_options
from pyhudi.metadata.file_stats.changes import plain_stat
from pyhudi.metadata.file_stats.records import IndexedFile, index_file
from pyhudi.read.filters import as_predicate
from pyhudi.read.skipping.row_groups import matching_row_groups
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.write.files.file_plan import CONSTANT

NAN = math.nan
STRUCT = pa.struct([("d", pa.float64())])
STATS = {"hoodie.metadata.index.column.stats.enable": "true"}
X, D = pc.field("x"), pc.field("st", "d")
FOUND_BY_NAN = {
    "is_nan": lambda c: c.is_nan(),
    "not equal": lambda c: c != 1,
    "not less": lambda c: ~(c < 5),
    "above or nan": lambda c: (c > 5) | c.is_nan(),
    "null or nan": lambda c: c.is_null(nan_is_null=True),
}


def rows(*numbers: float | None) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(len(numbers)), pa.int64()),
            "x": pa.array(numbers, pa.float64()),
            "st": pa.array([{"d": number} for number in numbers], STRUCT),
        }
    )


def base_files(path: Path) -> list[Path]:
    slices = pyhudi.open_table(path).file_slices()
    return [path / found.base.path for found in slices if found.base is not None]


def as_before(path: Path) -> None:
    """Write a base file as earlier releases did, with the bounds of Arrow, and as long as it was.

    The entry of the bloom filter gives way to the bounds.  Columns of one value stay dictionaries.
    """
    length = path.stat().st_size
    file = pq.ParquetFile(path, read_dictionary=[*CONSTANT])
    entries = {k.decode(): v.decode() for k, v in file.metadata.metadata.items()}
    del entries["pyhudi.nan.statistics"]
    room = len(entries.pop("org.apache.hudi.bloomfilter"))
    content = file.read()
    file.close()
    for filler in range(room + 100, 0, -1):
        with pq.ParquetWriter(path, content.schema, **writer_options(content)) as writer:
            writer.write_table(content)
            writer.add_key_value_metadata({**entries, "filler": " " * filler})
        if path.stat().st_size == length:
            return
    raise AssertionError(length)


def of_earlier_release(path: Path, version: int, numbers: list[float | None]) -> Table:
    table = pyhudi.create_table(path, rows(*numbers).schema, record_key="id", version=version)
    table.bulk_insert(rows(*numbers))
    for file in base_files(path):
        as_before(file)
    return pyhudi.open_table(path)


def groups_of(parts: list[list[float | None]], where: pc.Expression) -> list[int] | None:
    """The row groups that a filter reads, of a file with these values in its groups."""
    fs = MemoryFileSystem()
    table = pa.concat_tables([rows(*part) for part in parts])
    with fs.open_sink("f.parquet") as sink:
        write_base(sink, table, avro_schema="{}", bloom=None, row_group_rows=len(parts[0]))
    return matching_row_groups(
        fs, "f.parquet", where=as_predicate(where, table.schema), table=table.schema,
        partition_values={},
    )  # fmt: skip


@pytest.mark.parametrize("more", [{}, STATS], ids=["row-groups", "statistics"])
def test_a_list_of_wider_numbers_is_rounded_as_arrow_does(more: dict[str, str]) -> None:
    """0.1 as float64 is no value of float32: `==` compares exactly, `isin` rounds the list."""
    table = pyhudi.create_table(
        f"memory://rounded-{len(more)}", pa.schema([("id", pa.int64()), ("x", pa.float32())]),
        record_key="id", options=more,
    )  # fmt: skip
    table.insert(pa.table({"id": [1, 2], "x": pa.array([0.1, 7.5], pa.float32())}))
    stored = table.to_arrow()
    for where in (X.isin([0.1]), ~X.isin([0.1]), X.isin([0.1, 7.5]), X == 0.1, X > 0.1):
        assert table.scan(where=where).count() == stored.filter(where).num_rows, where


@pytest.mark.parametrize("name", FOUND_BY_NAN)
@pytest.mark.parametrize("column", [X, D], ids=["column", "field"])
def test_rows_with_nan_are_found_in_files_of_earlier_releases(
    tmp_path: Path, column: Any, name: str
) -> None:
    table = of_earlier_release(tmp_path, 9, [1.0, NAN, 1.0])
    where = FOUND_BY_NAN[name](column)
    assert table.scan(["id"], where).to_arrow()["id"].to_pylist() == [1]


def test_row_groups_without_matching_numbers_are_skipped() -> None:
    plain = [[1.0, 2.0], [7.0, 8.0], [None, None], [None, 3.0]]
    above = (X > 5) | X.is_nan()
    assert groups_of(plain, above) == [1]
    assert groups_of(plain, X.is_nan()) == []
    assert groups_of(plain, X.is_null(nan_is_null=True)) == [2, 3]
    assert groups_of(plain, (X < 1.5) & (pc.field("id") == 0)) == [0]
    assert groups_of([*plain, [NAN, 1.0]], above) == [0, 1, 3, 4]  # the column has no bounds
    assert groups_of([*plain, [NAN, 1.0]], above & (pc.field("id") > 5)) == []


BY_NAN = {
    "<": lambda c: c < NAN, "<=": lambda c: c <= NAN, ">": lambda c: c > NAN,
    ">=": lambda c: c >= NAN, "==": lambda c: c == NAN, "!=": lambda c: c != NAN,
    "in": lambda c: c.isin([NAN, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_NAN)
@pytest.mark.parametrize("partition_by", [[], ["x"]], ids=["plain", "partitioned"])
def test_comparisons_with_nan_find_what_arrow_finds(
    tmp_path: Path, partition_by: list[str], name: str
) -> None:
    """Arrow simplifies such a comparison by the bounds of a row group, and does so wrongly."""
    for number, numbers in enumerate([(1.0, math.inf), (math.inf, None), (NAN, 2.0), (-1.0, 0.0)]):
        given = rows(*numbers)
        table = pyhudi.create_table(
            tmp_path / str(number), given.schema, record_key="id", partition_by=partition_by
        )
        table.insert(given)
        for column in (X, D, pc.field("id")):
            compared = BY_NAN[name](column)
            for where in (compared, ~compared, (pc.field("id") < 0) | ~compared):
                found = sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist())
                assert found == given.filter(where)["id"].to_pylist(), (numbers, str(where))


@pytest.mark.parametrize("partition_by", [[], ["x"]])
def test_each_zero_is_found_by_filters_that_distinguish_them(
    tmp_path: Path, partition_by: list[str]
) -> None:
    """Statistics and partitions of either zero stand for both.  Arrow finds them equal, but looks
    a value of a list up by its bits."""
    table = pyhudi.create_table(tmp_path, rows().schema, record_key="id", partition_by=partition_by)
    table.insert(rows(0.0, 0.0, -0.0, 1.0) if partition_by else rows(0.0, 0.0))
    for where in (X.isin([0.0, 2.0]), D.isin([0.0]), X.cast(pa.string()) == "0"):
        assert sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("earlier", [False, True])
def test_column_statistics_state_nan(tmp_path: Path, version: int, earlier: bool) -> None:
    table = pyhudi.create_table(tmp_path, rows().schema, record_key="id", version=version)
    table.bulk_insert(rows(1.0, NAN, 1.0))
    if earlier:
        for file in base_files(tmp_path):
            as_before(file)
    table = pyhudi.open_table(tmp_path)
    table.index.create("column_stats", ["id", "x"] if version > 6 else None)
    (file,) = base_files(tmp_path)
    stat = plain_stat("", file.name)
    (found,) = index_file(
        IndexedFile(LocalFileSystem(tmp_path), stat, columns=frozenset({"x"}))
    ).ranges
    assert str((found.low, found.high)) == "(1.0, nan)"
    assert table.scan(["id"], (X > 5) | X.is_nan()).to_arrow().num_rows == 1
    assert table.scan(["id"], X == 5).to_arrow().num_rows == 0
    codes = [finding.code for finding in table.doctor().problems]
    assert codes == (["hidden-nan"] if earlier else [])


@pytest.mark.parametrize("version", [6, 9])
def test_doctor_names_files_whose_statistics_hide_nan(tmp_path: Path, version: int) -> None:
    table = of_earlier_release(tmp_path, version, [1.0, NAN])
    (found,) = table.doctor().findings
    (file,) = base_files(tmp_path)
    assert (found.code, found.path) == ("hidden-nan", file.name)
    assert found.why.startswith("st.d, x contain NaN")
    assert table.doctor(quick=True).findings == ()
    table.cluster(sort_by="id")
    (rewritten,) = base_files(tmp_path)
    assert rewritten != file
    assert hidden_nan(LocalFileSystem(tmp_path), rewritten.name) == []


def test_doctor_finds_nothing_where_bounds_are_right(tmp_path: Path) -> None:
    for name, numbers in {"numbers": [1.0, None, math.inf], "nan": [NAN, NAN]}.items():
        table = of_earlier_release(tmp_path / name, 9, numbers)
        assert table.doctor().findings == ()


@pytest.mark.parametrize(
    ("stays", "condition"), [(None, "x is null"), (0.0, "x = 0"), (-2.0, "x < 0"), (NAN, "x > 5")]
)
def test_footers_do_not_decide_on_columns_whose_values_are_in_the_path(
    stays: float | None, condition: str, tmp_path: Path
) -> None:
    table = pyhudi.create_table(
        tmp_path, rows(1.0).schema, record_key="id", partition_by="x", options=STATS
    )
    table.upsert(rows(stays))
    table.upsert(rows(1.0))  # the record stays in its partition, with whose value it is read
    assert table.scan(["id"], condition).count() == 1
    assert table.scan(["id"], f"not ({condition})").count() == 0
