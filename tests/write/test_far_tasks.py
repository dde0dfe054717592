"""Every writing verb on an engine whose tasks travel and run twice, as on a cluster."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from tests.support.engines import FarEngine
from tests.support.inside import state_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])


def rows(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i:04d}", "ts": ts, "part": "ab"[i % 2]} for i in ids], SCHEMA
    )


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
def test_lost_attempts_leave_nothing_behind(tmp_path: Path, kind: str, index: str) -> None:
    path = tmp_path / "t"
    buckets = {"hoodie.bucket.index.num.buckets": "2"} if index == "bucket" else None
    pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        index=index, options=buckets,
    )  # fmt: skip

    def table(**options: str) -> pyhudi.Table:
        return pyhudi.open_table(path, options=options, engine=FarEngine())

    def stored() -> dict[str, int]:
        found = table().scan(["id", "ts"]).to_arrow().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["ts"] for row in found}

    sorts = {
        "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
        "hoodie.parquet.max.file.size": "4kb",
    }
    table(**sorts).bulk_insert(rows(range(600), 1))
    table().upsert(rows(range(10), 2))
    assert stored() == {f"k{i:04d}": 2 if i < 10 else 1 for i in range(600)}
    report = table().insert_overwrite(rows(range(0, 8, 2), 3))
    assert (report.inserted, report.deleted) == (4, 300)
    batches = rows(range(6), 4).to_batches(max_chunksize=2)
    stream = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    deferred = table().insert_overwrite_table(stream, publish=False)
    assert deferred.instant is not None and len(stored()) == 304
    table().publish(deferred.instant)
    assert stored() == {f"k{i:04d}": 4 for i in range(6)}
    doomed = (pc.field("part") == "b") & (pc.field("id") > "k0001")
    assert table().delete(where=doomed).deleted == 2
    assert table().delete_partitions("a").deleted == 3
    assert stored() == {"k0001": 4}
    if index == "record":
        found = table().lookup([f"k{i:04d}" for i in range(600)])["found"].to_pylist()
        assert found == [i == 1 for i in range(600)]
    known = {file.path for file_slice in table().file_slices() for file in file_slice.files}
    data = (p for p in path.rglob("*.parquet") if ".hoodie" not in p.parts)
    commits = table().timeline.commits
    named = {
        stat.path for i in commits for stat in state_of(table()).log.commit(i).stats if stat.path
    }
    assert known <= named
    assert {str(p.relative_to(path)) for p in data} <= named


@pytest.mark.parametrize(("count", "sent"), [(1000, False), (1001, True)])
def test_few_rows_are_looked_up_where_the_write_is_planned(
    tmp_path: Path, count: int, sent: bool
) -> None:
    engine = FarEngine()
    made = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts"
    )
    made.bulk_insert(rows(range(1200), 1))
    report = pyhudi.open_table(tmp_path / "t", engine=engine).upsert(rows(range(count), 2))
    assert report.updated == count and ("tag" in engine.labels) is sent
