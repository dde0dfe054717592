"""Writers of both packages on one table at one time, under a lock that both know."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.apache_hudi import ApacheHudi

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
JAVA_TURNS = 2


def rows(part: str, numbers: range, ts: int) -> pa.Table:
    ids = [f"{part}{n}" for n in numbers]
    return pa.table([ids, [ts] * len(ids), [part] * len(ids)], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writers_of_both_packages_lose_nothing(
    tmp_path: Path, kind: str, apache: ApacheHudi
) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind
    )
    table.bulk_insert(pa.concat_tables([rows("a", range(20), 0), rows("b", range(20), 0)]))
    ended, raised, mine = threading.Event(), [], []

    def write() -> None:
        writer, turn = pyhudi.open_table(path, options=OPTIMISTIC), 0
        try:
            while not ended.is_set():
                turn += 1
                batch = rows("a", range(turn, turn + 10), turn)
                writer.upsert(batch)
                mine.append(batch)
                ended.wait(0.3)  # Apache Hudi asks for the lock file now and then, in no queue
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    theirs = []
    try:
        for turn in range(JAVA_TURNS):
            file = tmp_path / f"rows{turn}.parquet"
            theirs.append(rows("b", range(5 * turn, 5 * turn + 25), turn + 1))
            pq.write_table(theirs[-1], file)
            apache.call("write", path=str(path), rows=str(file), conf=OPTIMISTIC)
    finally:
        ended.set()
        thread.join()
    assert not raised, raised
    assert len(mine) > 1
    want = {r["id"]: r["ts"] for batch in (*mine, *theirs) for r in batch.to_pylist()}
    want = {f"{p}{n}": 0 for p in "ab" for n in range(20)} | want
    found = pyhudi.open_table(path).scan(["id", "ts"]).to_arrow().to_pylist()
    assert {r["id"]: r["ts"] for r in found} == want and len(found) == len(want)
    assert pyhudi.open_table(path).index.verify().is_exact
    for metadata in ("on", "off"):
        out = tmp_path / f"{metadata}.parquet"
        apache.call("read", path=str(path), mdt=metadata, out=str(out))
        got = pq.ParquetFile(out).read().to_pylist()
        assert {r["id"]: r["ts"] for r in got} == want and len(got) == len(want)
    assert not apache.call("validate", path=str(path)).get("problems")
