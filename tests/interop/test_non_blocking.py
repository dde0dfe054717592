"""Logs of overlapping writers of one bucket, read, compacted and extended by Apache Hudi."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from tests.support.apache_hudi import ApacheHudi
from tests.support.engines import Pausing

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.table.services.enabled": "false",
}
THEIRS = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.filesystem.expire": "1",
    "hoodie.compact.inline": "false",
}


def rows(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{i}", "ts": ts, "part": "p"} for i in ids], SCHEMA)


def overlapping(path: Path, first: pa.Table, second: pa.Table) -> None:
    """Two writes of which the first begins before the second and ends after it."""
    other = pyhudi.open_table(path, options=OPTIONS)
    engine = Pausing("write", lambda: other.upsert(second))
    table = Table(LocalFileSystem(path), options=parse_options(OPTIONS), engine=engine)
    assert table.upsert(first).conflicts == 0


def seen(found: pa.Table) -> dict[str, int]:
    return dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))


def check_equal(path: Path, hudi: ApacheHudi, expected: dict[str, int]) -> None:
    assert seen(pyhudi.open_table(path).scan().to_arrow()) == expected
    assert seen(hudi.read(path)) == expected


@pytest.mark.conformance(30)
@pytest.mark.parametrize("newer_first", [True, False])
def test_apache_hudi_merges_the_logs_of_overlapping_writers(
    newer_first: bool, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi, path = apache_hudi("1.2.0"), tmp_path / "t"
    pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", ordering="ts",
                        table_type="mor", index="bucket", version=9, options=OPTIONS)  # fmt: skip
    newer, older = rows(range(6), 5), rows(range(3, 9), 3)
    overlapping(path, *((newer, older) if newer_first else (older, newer)))
    expected = {f"k{i}": 5 if i < 6 else 3 for i in range(9)}
    check_equal(path, hudi, expected)
    pq.write_table(rows(range(8, 11), 4), tmp_path / "batch.parquet")
    hudi.call("write", path=str(path), rows=str(tmp_path / "batch.parquet"), operation="upsert",
              conf=THEIRS)  # fmt: skip
    expected |= {f"k{i}": 4 for i in range(8, 11)}
    check_equal(path, hudi, expected)
    assert len(pyhudi.open_table(path).file_slices()) == 2
    hudi.call("service", path=str(path), name="compact", args={})
    check_equal(path, hudi, expected)
    assert not any(found.logs for found in pyhudi.open_table(path).file_slices())
    overlapping(path, rows(range(4), 6), rows(range(2, 6), 7))
    expected |= {f"k{i}": 6 if i < 2 else 7 for i in range(6)}
    check_equal(path, hudi, expected)
