"""Tables created at version 9 and downgraded to 6, by pyhudi and by Apache Hudi; 0.15.0 reads,
writes and compacts them, then pyhudi continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pyhudi
from pyhudi.health.findings import RepairAction
from tests.interop.same_rows import differences
from tests.interop.test_apache_hudi import SCHEMA, plain, rows
from tests.interop.test_version_changes import downgraded, opened, write
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

Hudi = Callable[[str], ApacheHudi]

OPTIONS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}


def indexed_table(path: Path, table_type: str) -> pyhudi.Table:
    """Of version 9 from its creation, archived, with statistics, a record and a secondary index;
    the newest slices of a merge-on-read table have logs."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=table_type,
        version=9, options=OPTIONS,
    )  # fmt: skip
    table.bulk_insert(rows(range(30), 0))
    table.index.create("secondary", "day")
    for number in range(1, 8):
        table.upsert(rows(range(10 * number, 10 * number + 10), number))
    assert table.clean().files and table.archive().instants
    table.upsert(rows(range(5), 9))
    return table


def contents(path: Path) -> list[str]:
    return plain(opened(path).scan(SCHEMA.names).to_arrow())


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_0_15_continues_a_table_that_pyhudi_downgraded(
    table_type: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    path, hudi = tmp_path / "t", apache_hudi("0.15.0")
    table = indexed_table(path, table_type)
    before = contents(path)
    table.downgrade(6)
    assert contents(path) == before
    assert differences(path, hudi) == []
    write(hudi, path, range(5, 25), 10, 6)
    assert differences(path, hudi) == []
    before = contents(path)
    if table_type == "mor":
        hudi.call("service", path=str(path), name="compact")
        assert not any(each.logs for each in opened(path).file_slices() if each.partition == "p0")
    assert contents(path) == before
    assert differences(path, hudi) == []
    opened(path).upsert(rows(range(15, 35), 11))
    for version in ("0.15.0", "1.2.0"):
        assert differences(path, apache_hudi(version)) == []


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_0_15_continues_a_table_that_apache_hudi_downgraded_and_pyhudi_repaired(
    table_type: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    """1.2.0 writes no payload class, without which 0.15.0 does not read logs."""
    path = tmp_path / "t"
    indexed_table(path, table_type)
    before = contents(path)
    downgraded(apache_hudi("1.2.0"), path, 6, "SIX")
    assert contents(path) == before
    report = opened(path).repair()
    assert not report.left
    added = [step.repair for step in report.steps if step.repair is RepairAction.PAYLOAD_CLASS]
    assert len(added) == (table_type == "mor")
    opened(path).upsert(rows(range(5, 25), 10))
    hudi = apache_hudi("0.15.0")
    assert differences(path, hudi) == []
    write(hudi, path, range(15, 35), 11, 6)
    for version in ("0.15.0", "1.2.0"):
        assert differences(path, apache_hudi(version)) == []


@pytest.mark.slow
def test_a_metadata_table_that_is_younger_than_some_commits_remains_in_use_after_a_downgrade(
    tmp_path: Path, apache_hudi: Hudi
) -> None:
    """Apache Hudi drops when its creation completed."""
    path = tmp_path / "t"
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", version=9)
    table.upsert(rows(range(30), 0))
    table.metadata.rebuild()
    table.upsert(rows(range(10), 1))
    downgraded(apache_hudi("1.2.0"), path, 6, "SIX")
    assert not opened(path).metadata.verify().findings
    opened(path).upsert(rows(range(5, 35), 2))
    assert not opened(path).metadata.verify().findings
    assert differences(path, apache_hudi("1.2.0")) == []
