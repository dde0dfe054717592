"""Copies of tables, read and written by Apache Hudi, which knows nothing of the source."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.health.test_table_copy import content, made, rows
from tests.interop.same_rows import differences
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

SLOW = pytest.mark.slow
WRITE = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
}


@pytest.mark.parametrize("hudi_version", ["1.2.0", "0.15.0"])
@pytest.mark.parametrize(
    ("version", "kind"), [(9, "mor"), (6, "mor"), (6, "cow"), pytest.param(9, "cow", marks=SLOW)]
)
@pytest.mark.covering(0)
def test_apache_hudi_reads_and_writes_a_copy(
    version: int, kind: str, hudi_version: str, tmp_path: Path,
    apache_hudi: Callable[[str], ApacheHudi],
) -> None:  # fmt: skip
    if hudi_version == "0.15.0" and version > 6:
        hudi_version = "1.2.0"
    hudi, path = apache_hudi(hudi_version), tmp_path / "copy"
    source = made(tmp_path / "source", version, kind)
    expected = content(source)
    source.copy(path)
    shutil.rmtree(tmp_path / "source")
    assert differences(path, hudi) == []
    batch = tmp_path / "batch.parquet"
    pq.write_table(rows(range(6, 12), 9), batch)
    conf = WRITE | {"hoodie.write.table.version": str(version)}
    hudi.call("write", path=str(path), rows=str(batch), conf=conf)
    assert differences(path, hudi) == []
    after = {row["id"]: row for row in [*expected, *rows(range(6, 12), 9).to_pylist()]}
    assert content(pyhudi.open_table(path)) == [after[name] for name in sorted(after)]


@pytest.mark.parametrize("version", [9, 6])
def test_apache_hudi_reads_a_copy_of_an_earlier_snapshot(
    version: int, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    source = made(tmp_path / "source", version, "mor")
    earlier = source.timeline.commits.last
    assert earlier is not None
    expected = content(source)
    source.upsert(rows(range(12), 7))
    source.copy(tmp_path / "copy", as_of=earlier.time)
    assert content(pyhudi.open_table(tmp_path / "copy")) == expected
    assert differences(tmp_path / "copy", apache_hudi("1.2.0")) == []
