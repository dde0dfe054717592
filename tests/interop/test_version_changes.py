"""Upgrades and downgrades by pyhudi and by Apache Hudi, and what both then read and write."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.same_rows import differences
from tests.interop.test_apache_hudi import SCHEMA, rows
from tests.support.apache_hudi import ApacheHudi
from tests.support.fixtures import fixtures

pytestmark = pytest.mark.interop

OPTIONS = {"hoodie.index.type": "SIMPLE"}
KEEPS_VERSION = {
    "hoodie.index.type": "SIMPLE",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
}
Hudi = Callable[[str], ApacheHudi]


def opened(path: Path) -> pyhudi.Table:
    return pyhudi.open_table(path, options=OPTIONS)


def golden(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(fixtures() / "golden" / f"{name}.zip") as file:
        file.extractall(folder)
    return folder / name


def written_table(path: Path, table_type: str, version: int) -> pyhudi.Table:
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=table_type,
        index="simple", options={"hoodie.write.table.version": str(version)},
    )  # fmt: skip
    table.bulk_insert(rows(range(30), 0))
    table.upsert(rows(range(10, 40), 1))
    table.delete(keys=table.scan(["id"]).to_arrow()["id"].to_pylist()[:3])
    return table


def write(hudi: ApacheHudi, path: Path, numbers: range, at: int, version: int, **more: str) -> None:
    batch = path.parent / "batch.parquet"
    pq.write_table(rows(numbers, at), batch)
    conf = {**KEEPS_VERSION, "hoodie.write.table.version": str(version), **more}
    hudi.call("write", path=str(path), rows=str(batch), conf=conf)


@pytest.mark.conformance(26)
@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("mor_rli_avro", 9),
        pytest.param("cow_rli", 8, marks=pytest.mark.slow),
        pytest.param("mor_cleaned", 9, marks=pytest.mark.slow),
        pytest.param("cow_clustering_pending", 9, marks=pytest.mark.slow),
        pytest.param("mor_partial_update", 9, marks=pytest.mark.slow),
        pytest.param("mor_rolled_back", 8, marks=pytest.mark.slow),
        pytest.param("kg_custom", 9, marks=pytest.mark.slow),
    ],
)
def test_apache_hudi_reads_an_upgraded_table(
    name: str, to: int, tmp_path: Path, apache_hudi: Hudi
) -> None:
    path = golden(name, tmp_path)
    opened(path).upgrade(to)
    assert differences(path, apache_hudi("1.2.0")) == []


@pytest.mark.conformance(3)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_both_write_an_upgraded_table_and_0_15_reads_it_downgraded(
    table_type: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    path, hudi = tmp_path / "t", apache_hudi("1.2.0")
    written_table(path, table_type, 6)
    opened(path).upgrade(9)
    write(hudi, path, range(20, 50), 2, 9)
    assert differences(path, hudi) == []
    opened(path).upsert(rows(range(5, 25), 3))
    assert differences(path, hudi) == []
    opened(path).downgrade(6)
    assert differences(path, apache_hudi("0.15.0")) == []
    assert differences(path, hudi) == []


@pytest.mark.conformance(27)
@pytest.mark.parametrize("since", [6, pytest.param(8, marks=pytest.mark.slow)])
def test_apache_hudi_upgrades_a_table_and_pyhudi_continues(
    since: int, tmp_path: Path, apache_hudi: Hudi
) -> None:
    path, hudi = tmp_path / "t", apache_hudi("1.2.0")
    written_table(path, "mor", since)
    write(hudi, path, range(20, 50), 2, 9, **{"hoodie.write.auto.upgrade": "true"})
    assert opened(path).config.version == 9
    opened(path).upsert(rows(range(5, 25), 3))
    assert differences(path, hudi) == []
    opened(path).downgrade(8)
    assert differences(path, hudi) == []


@pytest.mark.conformance(28)
@pytest.mark.parametrize(("to", "name"), [(8, "EIGHT"), (6, "SIX")])
@pytest.mark.parametrize("table_type", ["mor", pytest.param("cow", marks=pytest.mark.slow)])
def test_apache_hudi_downgrades_a_table_that_pyhudi_upgraded(
    to: int, name: str, table_type: str, tmp_path: Path, apache_hudi: Hudi
) -> None:
    path, hudi = tmp_path / "t", apache_hudi("1.2.0")
    before = written_table(path, table_type, 6).scan(with_meta=False).to_arrow().sort_by("id")
    opened(path).upgrade(9)
    downgraded(hudi, path, to, name)
    assert opened(path).scan(with_meta=False).to_arrow().sort_by("id") == before
    opened(path).upsert(rows(range(5, 25), 3))
    for version in ("0.15.0", "1.2.0") if to == 6 else ("1.2.0",):
        assert differences(path, apache_hudi(version)) == []


def downgraded(hudi: ApacheHudi, path: Path, to: int, name: str) -> None:
    conf = {**KEEPS_VERSION, "hoodie.write.table.version": str(to)}
    conf["hoodie.write.auto.upgrade"] = "true"
    hudi.call(
        "service", path=str(path), name="downgrade_table", args={"to_version": name}, conf=conf
    )
    assert opened(path).config.version == to
