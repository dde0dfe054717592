"""A slice read again, with other columns, as of other instants, gives what a first read gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError
from pyhudi.merge.merge_cache import OUTCOMES, Live

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("a", pa.int64())])


def rows(ids: range, ts: int) -> pa.Table:
    return pa.table({"id": [f"k{i}" for i in ids], "ts": [ts] * len(ids), "a": list(ids)}, SCHEMA)


@pytest.fixture(params=["parquet", "avro"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pyhudi.Table:
    """Base file, updates of which some come too late, deletes, re-inserts, a column added."""
    made = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type="mor",
        options={"hoodie.logfile.data.block.format": request.param},
    )  # fmt: skip
    made.bulk_insert(rows(range(40), 5))
    made.upsert(rows(range(10, 20), 6))
    made.upsert(rows(range(15, 25), 4))
    made.delete(keys=["k1", "k12", "k22"])
    made.upsert(rows(range(12, 13), 9))
    added = rows(range(30, 34), 9).append_column("more", pa.array([1, None, 3, 4]))
    made.upsert(added, schema_mode="add")
    return pyhudi.open_table(tmp_path / "t")


READS = [
    dict[str, object](columns=["a"]),
    dict[str, object](columns=["more"]),
    dict[str, object](columns=["id", "ts", "a", "more"]),
    dict[str, object](),
    dict[str, object](columns=["a"], where=pa.compute.field("ts") > 5),
]


def test_every_read_of_known_slices_gives_what_a_first_read_gives(table: pyhudi.Table) -> None:
    instants = [None, *(str(i.time) for i in table.timeline.commits.instants)]
    requested = [(how, at) for how in READS for at in instants]
    requested = [(how, at) for how, at in requested if at is None or "more" not in str(how)]
    first = []
    for how, at in requested:
        OUTCOMES.clear()
        first.append(table.scan(**how, as_of=at).to_arrow())
    OUTCOMES.clear()
    for _ in range(2):
        for (how, at), want in zip(requested, first, strict=True):
            assert table.scan(**how, as_of=at).to_arrow().equals(want), (how, at)
    assert table.scan().count() == 38


def test_rows_of_another_number_are_damage() -> None:
    live = Live.of(np.array([True, False, True]))
    assert live.rows(pa.table({"x": [1, 2, 3]})).column("x").to_pylist() == [1, 3]
    with pytest.raises(CorruptFileError, match="overwritten in place"):
        live.rows(pa.table({"x": [1, 2]}))
