"""The record index is compacted early where its logs have become heavy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.metadata import compaction
from pyhudi.metadata.hfile_slices import MapSlice, ValueLayer, layers
from pyhudi.metadata.payloads import RECORD_INDEX
from tests.support.inside import state_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])


def rows(first: int, count: int) -> pa.Table:
    return pa.table(
        {"id": [f"k{n:06d}" for n in range(first, first + count)], "ts": [0] * count}, SCHEMA
    )


def index_logs(table: pyhudi.Table) -> int:
    """How many logs the newest slices of the record index have."""
    metadata = state_of(table).metadata
    assert metadata is not None
    return sum(len(file_slice.logs) for file_slice in metadata.slices(RECORD_INDEX))


def test_heavy_logs_are_merged_before_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_HEAVY_BYTES", 30_000)
    options = {"hoodie.metadata.record.index.min.filegroup.count": "1"}
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", options=options)
    counts = []
    for number in range(6):
        table.insert(rows(10_000 * number, 5_000))
        counts.append(index_logs(table))
    assert counts[:4] == [2, 3, 4, 1], counts
    for number in range(4):
        table.insert(rows(100_000 + number, 1))
    assert index_logs(table) == 4, "small ones wait for their number"
    keys = [f"k{n:06d}" for n in (0, 54_999, 100_003)]
    assert table.lookup([*keys, "nobody"])["found"].to_pylist() == [True] * 3 + [False]


def test_the_log_of_a_first_load_is_not_rewritten_by_small_writes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_HEAVY_BYTES", 50_000)
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    table.bulk_insert(rows(0, 20_000))
    before = index_logs(table)
    for number in range(4):
        table.upsert(rows(19_990 + 10 * number, 20))
    assert index_logs(table) > before
    assert all(table.lookup(["k000000", "k019999", "k020039"])["found"].to_pylist())


def test_a_key_in_the_log_of_a_first_load_costs_a_block_of_24_kib(tmp_path: Path) -> None:
    options = {"hoodie.metadata.record.index.min.filegroup.count": "1"}
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", options=options)
    table.bulk_insert(rows(0, 5_000))
    metadata = state_of(table).metadata
    assert metadata is not None
    ((number, newest),) = metadata.numbered_slices(RECORD_INDEX)
    mapped = MapSlice.of(newest, number, metadata.valid)
    (layer,) = layers(metadata.log.fs, mapped)
    assert isinstance(layer, ValueLayer)
    plan = layer.reader.plan(pa.array([b"k002500"]))
    assert plan.blocks >= 300_000 // (24 << 10), "of some 60 bytes a key"
