"""Cases of delta-rs and pyiceberg that mean something for a Hudi table.

From the names of the tests in delta-io/delta-rs, python/tests (test_writer, test_merge,
test_table_read), and apache/iceberg-python, tests/integration (test_writes, test_deletes,
test_reads): kinds of partition values, names of columns, merges with odd predicates, filters that
nothing can pass, batches without rows.  Types of other columns: tests/write/test_type_matrix.py;
widening of columns: tests/write/test_schema_matrix.py.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi

QUICK = {"hoodie.metadata.enable": "false", "hoodie.index.type": "SIMPLE"}
NOON = dt.datetime(2024, 2, 29, 12, 30, 15)
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}


def made(path: Path, schema: pa.Schema, **how: Any) -> pyhudi.Table:
    options = {**QUICK, **how.pop("options", {})}
    return pyhudi.create_table(path, schema, options=options, **{"record_key": "id", **how})


def stored(table: pyhudi.Table, column: str = "c", **how: Any) -> dict[str, Any]:
    rows = table.scan(["id", column], **how).to_arrow()
    assert rows.num_rows == len(set(rows["id"].to_pylist()))
    return dict(zip(rows["id"].to_pylist(), rows[column].to_pylist(), strict=True))


UTC = pa.timestamp("us", "UTC")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int64(): [-(1 << 63), (1 << 63) - 1, 0],
    pa.uint32(): [(1 << 32) - 1, 0],
    pa.float32(): [1.5, float("inf"), float("-inf")],
    pa.float64(): [0.1, 1e308, 5e-324, -2.5],
    pa.decimal128(38, 10): [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")],
    pa.decimal128(38, 38): [Decimal("0." + "1" * 38)],
    pa.decimal32(9, 2): [Decimal("1.20"), Decimal("0.00")],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    pa.timestamp("s"): [NOON, dt.datetime(1969, 12, 31, 23, 59, 59)],
    pa.timestamp("us"): [NOON, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)],
    UTC: [NOON.replace(tzinfo=dt.UTC, microsecond=7)],
    pa.timestamp("ms", "+05:30"): [NOON.replace(tzinfo=dt.UTC)],
    pa.large_string(): ["a b", "ünï", "😀", "it's", "x=y", "a/b", "%2F", " ", "0"],
    pa.string_view(): ["a much longer text than fits", "1970-01-01"],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b"],
    pa.run_end_encoded(pa.int32(), pa.string()): ["a", "b"],
}


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.RunEndEncodedType):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values)
        )
    return pa.array(values, kind)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_partition_values_come_back_and_are_found(kind: pa.DataType, tmp_path: Path) -> None:
    """Each value is a partition; null is one.  Filters read that partition only."""
    values = [*VALUES[kind], None]
    expected = {f"k{n}": value for n, value in enumerate(values)}
    rows = pa.table({"id": list(expected), "c": column(kind, values)})
    table = made(tmp_path, rows.schema, partition_by="c", options=ENCODED)
    table.insert(rows)
    table.upsert(rows.slice(1))
    found = stored(table)
    if pa.types.is_timestamp(kind) and kind.tz:
        found = {key: value and value.astimezone(dt.UTC) for key, value in found.items()}
    assert found == expected
    assert len(table.partitions()) == len(values)
    here = table.schema.field("c").type
    for key, value in expected.items():
        where = (
            pc.field("c").is_null() if value is None else pc.field("c") == pa.scalar(value, here)
        )
        scan = table.scan(["id"], where)
        assert scan.to_arrow()["id"].to_pylist() == [key]
        assert scan.plan.partitions_read == 1
    assert table.delete(where=pc.field("c").is_null()).deleted == 1
    assert None not in stored(table).values()


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.binary(4), pa.time32("ms"), pa.list_(pa.int32())],
    ids=str,
)
def test_types_without_a_text_are_no_partition_values(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("c", kind)])
    with pytest.raises(pyhudi.SchemaError, match="cannot be a key or partition value; column=c"):
        made(tmp_path, schema, partition_by="c")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [".", "..", ".hoodie"])
def test_a_partition_is_never_outside_the_table(value: str, tmp_path: Path) -> None:
    """Encoding does not change these values, so it is no cure."""
    rows = pa.table({"id": ["a"], "c": [value]})
    table = made(tmp_path / "t", rows.schema, partition_by="c", options=ENCODED)
    with pytest.raises(pyhudi.UserError, match=r"unsafe path; column=c, .*; change the value$"):
        table.insert(rows)
    assert [path.name for path in tmp_path.iterdir()] == ["t"] and table.count() == 0


NAMES = ("camelCase", "UPPER", "with_2_digits", "_leading", "x" * 300)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_names_of_columns_keep_their_case(table_type: str, tmp_path: Path) -> None:
    """In filters, updates and merges."""
    schema = pa.schema([("id", pa.string()), *((name, pa.int64()) for name in NAMES)])
    table = made(tmp_path, schema, table_type=table_type)
    table.insert(pa.table({"id": ["a", "b"], **{n: [1, 2] for n in NAMES}}))
    table.update({n: f'"{n}" + 10' for n in NAMES}, where=" and ".join(f'"{n}" = 2' for n in NAMES))
    merge = table.merge(pa.table({"id": ["a", "c"], **{n: [5, 6] for n in NAMES}}))
    merge.when_matched_update().when_not_matched_insert().execute()
    for name in NAMES:
        assert stored(table, name) == {"a": 5, "b": 12, "c": 6}
        assert table.scan(["id"], pc.field(name) > 5).count() == 2


@pytest.mark.parametrize("name", ["with space", "a.b", "1digit", "häh", "a-b", ""])
def test_names_that_avro_lacks_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(pyhudi.SchemaError, match="column name"):
        made(tmp_path / "t", pa.schema([("id", pa.string()), (name, pa.int64())]))
    assert not list(tmp_path.iterdir())


EVERY = pa.table({"id": ["a", "b", "c"], "c": [1, 2, None]})
PREDICATES: list[tuple[Any, str]] = [
    ("c > 9223372036854775806", ""),
    ("c < 99999999999999999999", "ab"),
    ("c = 1 or true", "abc"),
    ("c = 1 and false", ""),
    ("not c = 1", "b"),
    ("c in (1, null)", "a"),
    ("c not in (1, null)", ""),
    ("c is not null and c is null", ""),
    (pc.field("c").isin([1, None]), "ac"),
    (pc.field("c").is_null() | (pc.field("c") > 1), "bc"),
    (pc.scalar(True), "abc"),
    (pc.scalar(False), ""),
]


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_odd_predicates_of_reads_and_deletes_agree(table_type: str, tmp_path: Path) -> None:
    table = made(tmp_path, EVERY.schema, table_type=table_type)
    table.insert(EVERY)
    for where, keys in PREDICATES:
        assert sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist()) == list(keys)
        assert table.delete(where=where, dry_run=True).matched == len(keys), where
    assert table.delete(where=PREDICATES[-3][0]).deleted == 2
    assert stored(table) == {"a": 1}


def test_batches_without_rows_change_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, EVERY.schema)
    empty = EVERY.slice(0, 0)
    for write in (table.insert, table.upsert, table.bulk_insert, table.delete):
        assert write(empty).inserted == 0
    assert table.count() == 0 and table.changes("000").count() == 0
    table.insert(EVERY)
    before = table.position()
    for write in (table.upsert, table.delete):
        write(empty)
    assert table.changes(before).count() == 0 and table.count() == 3


def test_batches_come_from_generators_in_any_order_of_columns(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from EVERY.select(["c", "id"]).to_batches(max_chunksize=1)

    table = made(tmp_path, EVERY.schema)
    table.insert(pa.RecordBatchReader.from_batches(EVERY.select(["c", "id"]).schema, batches()))
    assert stored(table) == {"a": 1, "b": 2, "c": None}


def test_large_values_come_back(tmp_path: Path) -> None:
    """Texts of 1 MB, whose statistics are cut, and lists with 100,000 elements."""
    rows = pa.table(
        {
            "id": ["a", "b"],
            "c": ["é" * 500_000, "z" * 1_000_000],
            "many": [list(range(100_000)), None],
        }
    )
    table = made(tmp_path, rows.schema, options={"hoodie.metadata.enable": "true"})
    table.insert(rows)
    assert table.scan(with_meta=False).to_arrow().sort_by("id").equals(rows)
    assert table.scan(["id"], pc.field("c") == rows["c"][1]).to_arrow()["id"].to_pylist() == ["b"]
