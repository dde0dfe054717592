"""Batches that come as a stream: every verb takes them, and memory stays flat."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
}


def batches(count: int, ts: int) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        ids = [f"k{j}" for j in range(i * 3, i * 3 + 3)]
        yield pa.RecordBatch.from_pydict(
            {"id": ids, "ts": [ts] * 3, "part": ["a", "b", "a"]}, SCHEMA
        )


def stream(count: int, ts: int = 1) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches(count, ts))


class Capsule:
    """Something that streams and is no data frame, as a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return stream(4, 7).__arrow_c_stream__(requested_schema)


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pyhudi.Table:
    return pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type=request.param, options=OPTIONS,
    )  # fmt: skip


def stored(table: pyhudi.Table) -> dict[str, int]:
    return {r["id"]: r["ts"] for r in table.scan(["id", "ts"]).to_arrow().to_pylist()}


def test_every_verb_takes_a_stream(table: pyhudi.Table, tmp_path: Path) -> None:
    assert table.bulk_insert(stream(10)).inserted == 30
    report = table.upsert(stream(12, ts=2))
    assert (report.updated, report.inserted) == (30, 6)
    assert table.upsert(Capsule()).updated == 12
    assert stored(table) == {f"k{i}": 7 if i < 12 else 2 for i in range(36)}
    assert table.insert_overwrite(stream(2, ts=9)).deleted == 36
    assert stored(table) == {f"k{i}": 9 for i in range(6)}
    assert all(table.lookup(list(stored(table)))["found"].to_pylist())
    assert list((tmp_path / "t/.hoodie").glob(".temp/*")) == []


def test_a_table_can_be_poured_into_another(table: pyhudi.Table) -> None:
    table.bulk_insert(stream(10))
    twin = pyhudi.create_table(
        f"memory://poured-{table.config.table_type.value}",
        SCHEMA,
        record_key="id",
        partition_by="part",
        options=OPTIONS,
    )
    twin.bulk_insert(table.scan(SCHEMA.names))
    assert stored(twin) == stored(table)


def test_an_empty_stream_writes_nothing(table: pyhudi.Table) -> None:
    assert table.bulk_insert(stream(0)).instant is None
    assert not table.timeline.instants


def test_a_null_key_late_in_a_stream_is_named_and_nothing_is_left(
    table: pyhudi.Table, tmp_path: Path
) -> None:
    def bad() -> Iterator[pa.RecordBatch]:
        yield from batches(5, 1)
        yield pa.RecordBatch.from_pydict({"id": [None], "ts": [1], "part": ["a"]}, SCHEMA)

    with pytest.raises(UserError, match="row=15"):
        table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, bad()))
    assert not table.timeline.instants
    assert list((tmp_path / "t/.hoodie").glob(".temp/*")) == []


def test_a_stream_that_breaks_leaves_the_table_as_it_was(table: pyhudi.Table) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(2, 1)
        raise pa.ArrowInvalid("the source went away")

    with pytest.raises(pa.ArrowInvalid, match="went away"):
        table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, broken()))
    assert not table.timeline.instants


POUR = """
import sys
import pyarrow as pa, pyhudi
schema = pa.schema([("id", pa.string()), ("note", pa.string())])
def batches():
    for i in range(150):
        ids = pa.array(range(i * 2000, i * 2000 + 2000)).cast(pa.string())
        yield pa.record_batch([ids, pa.array([f"{i:02000d}"] * 2000)], schema=schema)
table = pyhudi.create_table(sys.argv[1], schema, record_key="id", options={
    "hoodie.parquet.max.file.size": "4mb", "hoodie.bulkinsert.sort.mode": sys.argv[2]})
report = table.bulk_insert(pa.RecordBatchReader.from_batches(schema, batches()))
print(report.inserted, pa.default_memory_pool().max_memory() >> 20)
"""


@pytest.mark.parametrize("mode", ["NONE", "GLOBAL_SORT"])
def test_memory_follows_the_chunks_not_the_input(mode: str, tmp_path: Path) -> None:
    """600 MB of rows; Arrow's own peak, as resident memory depends on the machine."""
    done = subprocess.run(
        [sys.executable, "-c", POUR, str(tmp_path / "t"), mode],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows, peak_mib = map(int, done.stdout.split())
    assert rows == 300_000
    assert peak_mib < 400
    sample = pyhudi.open_table(tmp_path / "t").scan(["id"], pc.field("id") == "123456")
    assert sample.to_arrow().num_rows == 1
