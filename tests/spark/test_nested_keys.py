"""Keys, partitions and ordering in fields of structs, and slash separated dates, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import SchemaError, UserError
from pyhudi.table.properties import SLASHES

SCHEMA = "id string, s struct<k: int, ts: bigint, p: string>, v bigint, day string"
NAMES = ["id", "s", "v", "day"]
WRITE = "hoodie.datasource.write"
KEYS = {
    f"{WRITE}.recordkey.field": "s.k,id",
    f"{WRITE}.partitionpath.field": "s.p",
    f"{WRITE}.precombine.field": "s.ts",
}

Rows = dict[int, tuple[Any, ...]]


@pytest.fixture
def enabled(spark: Any) -> Iterator[Any]:
    hudi.enable(spark)
    yield spark
    hudi.disable(spark)


def row(number: int, ts: int) -> tuple[Any, ...]:
    return f"i{number}", (number, ts, f"p{number % 2}"), number * ts, f"2024-01-0{1 + number % 2}"


def made(numbers: range, ts: int) -> Rows:
    return {number: row(number, ts) for number in numbers}


def frame_of(spark: Any, rows: Rows) -> Any:
    return spark.createDataFrame(list(rows.values()), SCHEMA)


def has_rows(path: Path, expected: Rows) -> None:
    """The table has these rows, and nothing is damaged."""
    table = pyhudi.open_table(path)
    found = table.scan(NAMES).to_arrow().to_pylist()
    plain = {r["s"]["k"]: (r["id"], tuple(r["s"].values()), r["v"], r["day"]) for r in found}
    assert plain == expected and len(found) == len(expected)
    assert not table.doctor().problems and not table.metadata.verify().findings


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("keys", ["s.k", ["s.k", "id"]], ids=["one", "two"])
def test_frames_are_written_read_and_deleted_by_fields_of_a_struct(
    spark: Any, tmp_path: Path, kind: str, keys: str | list[str]
) -> None:
    path, rows = tmp_path / "t", made(range(8), 1)
    hudi.upsert(
        frame_of(spark, rows), path, record_key=keys, partition_by="s.p", ordering="s.ts",
        table_type=kind, options={"hoodie.write.table.version": "9"},
    )  # fmt: skip
    table = hudi.open_table(spark, path)
    table.upsert(frame_of(spark, made(range(4, 10), 3)))
    table.upsert(frame_of(spark, made(range(4, 12), 2)))
    rows |= made(range(10, 12), 2) | made(range(4, 10), 3)
    has_rows(path, rows)
    frame = table.scan(NAMES, with_meta=False)
    assert sorted(map(tuple, frame.collect())) == sorted(rows.values())
    assert table.delete(frame.where("s.k = 1")).deleted == 1
    typed = frame.where("s.k = 2").selectExpr("id", "struct(cast(s.k as string) as k) as s")
    assert table.delete(keys=typed).deleted == 1
    assert table.delete(where="v = 0").deleted == 1
    if keys == "s.k":
        assert table.delete(keys=frame.where("s.k = 3").selectExpr("s.k")).deleted == 1
        with pytest.raises(SchemaError):
            table.delete(frame.select("id"))
    else:
        named = frame.where("s.k = 3").selectExpr("s.k as `s.k`", "id")
        with pytest.raises(UserError, match="key columns"):
            table.delete(keys=named)
        text = frame.where("s.k = 3").selectExpr("concat('s.k:', s.k, ',id:', id) as `s.k`")
        assert table.delete(keys=text).deleted == 1
    table.update({"v": "v + 1"}, where="id = 'i5'")
    rows = {number: found for number, found in rows.items() if number > 3}
    rows[5] = (*rows[5][:2], 16, rows[5][3])
    if kind == "mor":
        table.compact()
    has_rows(path, rows)
    assert sorted(pyhudi.open_table(path).partitions()) == ["p0", "p1"]


def test_the_data_source_writes_and_deletes_by_fields_of_a_struct(
    enabled: Any, tmp_path: Path
) -> None:
    spark, path, rows = enabled, tmp_path / "t", made(range(8), 1)
    for kind in ("upsert", "delete", "delete_partition"):
        given = {"upsert": rows, "delete": made(range(3), 1), "delete_partition": made(range(1), 1)}
        options = {**KEYS, f"{WRITE}.operation": kind}
        frame_of(spark, given[kind]).write.format("pyhudi").options(**options).mode("append").save(
            str(path)
        )
        if kind == "delete":
            has_rows(path, made(range(3, 8), 1))
    has_rows(path, {number: row(number, 1) for number in (3, 5, 7)})
    read = spark.read.format("pyhudi").load(str(path)).where("s.k > 3 and s.p = 'p1'")
    assert sorted(r.id for r in read.collect()) == ["i5", "i7"]


@pytest.mark.pyspark("4.0")
def test_the_data_source_without_a_session_takes_fields_of_a_struct(tmp_path: Path) -> None:
    from tests.spark import source

    path = tmp_path / "t"
    kind = pa.struct([("k", pa.int32()), ("ts", pa.int64()), ("p", pa.string())])
    schema = pa.schema([("id", pa.string()), ("s", kind), ("v", pa.int64()), ("day", pa.string())])

    def table(rows: Rows) -> pa.Table:
        names = ("k", "ts", "p")
        given = [(id, dict(zip(names, s, strict=True)), v, day) for id, s, v, day in rows.values()]
        return pa.table(list(map(list, zip(*given, strict=True))), schema)

    def save(rows: pa.Table, **more: str) -> None:
        options: Any = {name.replace(".", "__"): value for name, value in (KEYS | more).items()}
        source.save(path, rows, **options)

    save(table(made(range(6), 2)))
    save(table(made(range(4, 8), 1)))
    expected = made(range(6), 2) | made(range(6, 8), 1)
    has_rows(path, expected)
    save(table(made(range(2), 3)).select(["s", "id"]), **{f"{WRITE}.operation": "delete"})
    has_rows(path, {number: found for number, found in expected.items() if number > 1})
    with pytest.raises(SchemaError, match=r"s\.k"):
        save(table(made(range(2), 3)).select(["id"]), **{f"{WRITE}.operation": "delete"})
    save(table(made(range(2, 3), 1)), **{f"{WRITE}.operation": "delete_partition"})
    has_rows(path, {number: found for number, found in expected.items() if number in (3, 5, 7)})


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_dates_in_paths_are_separated_by_slashes(enabled: Any, tmp_path: Path, kind: str) -> None:
    spark, path, rows = enabled, tmp_path / "t", made(range(6), 1)
    options = {
        f"{WRITE}.recordkey.field": "id", f"{WRITE}.partitionpath.field": "day",
        f"{WRITE}.table.type": kind, SLASHES: "true",
    }  # fmt: skip
    for given in (rows, made(range(4, 8), 2)):
        frame = frame_of(spark, given)
        frame.write.format("pyhudi").options(**options).mode("append").save(str(path))
        rows |= given
    hudi.upsert(frame_of(spark, made(range(7, 9), 3)), path)
    rows |= made(range(7, 9), 3)
    has_rows(path, rows)
    assert sorted(pyhudi.open_table(path).partitions()) == ["2024/01/01", "2024/01/02"]
    read = spark.read.format("pyhudi").load(str(path)).where("day = '2024-01-02'")
    assert sorted(r.id for r in read.collect()) == ["i1", "i3", "i5", "i7"]
    first = hudi.read(spark, path, ["id", "day"], "day = '2024-01-01'", with_meta=False)
    assert sorted({r.day for r in first.collect()}) == ["2024-01-01"] and first.count() == 5
