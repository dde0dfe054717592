"""`table.write_manifest` lists the base files of the newest snapshot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.apache_hudi import ApacheHudi, skip_unless_it_runs
from tests.sync.engine_tables import build

ABSOLUTE = ".hoodie/absolute-path-manifest/latest-snapshot.csv"
NAMES = ".hoodie/manifest/latest-snapshot.csv"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_listed_files_have_the_rows_of_the_read_optimized_query(
    tmp_path: Path, kind: str, version: int
) -> None:
    table = build(tmp_path / "t", kind, version)
    report = table.write_manifest()
    found = [pq.read_table(line.removeprefix("file:")) for line in lines(tmp_path / "t" / ABSOLUTE)]
    rows = pa.concat_tables(found).select(["id", "n"]).sort_by("id")
    expected = table.scan(["id", "n"], mode="read_optimized").to_arrow().sort_by("id")
    assert rows.to_pylist() == expected.to_pylist()
    assert (report.path, report.base_files) == (ABSOLUTE, len(found))
    assert (report.log_files > 0) == (kind == "mor")
    assert report.instant == table.timeline.commits.last.time


def test_a_manifest_is_replaced_by_that_of_the_newest_snapshot(tmp_path: Path) -> None:
    table = build(tmp_path / "t", "cow")
    table.write_manifest(absolute=False)
    before = lines(tmp_path / "t" / NAMES)
    table.delete(keys=["t0001"])
    table.write_manifest(absolute=False)
    after = lines(tmp_path / "t" / NAMES)
    assert len(after) == len(before) and len({*before, *after}) == len(before) + 1
    assert not (tmp_path / "t" / ABSOLUTE).exists()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = build(tmp_path / "t", "cow")
    assert table.write_manifest(dry_run=True).base_files == 3
    assert not (tmp_path / "t" / ABSOLUTE).exists()


def test_a_table_without_commits_has_an_empty_manifest(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", pa.schema([("id", pa.string())]), record_key="id")
    assert table.write_manifest().base_files == 0
    assert lines(tmp_path / "t" / ABSOLUTE) == []


@pytest.mark.interop
def test_manifests_equal_those_of_apache_hudi(tmp_path: Path) -> None:
    skip_unless_it_runs()
    hudi = ApacheHudi("1.2.0")
    for kind, version in (("cow", 6), ("mor", 6), ("mor", 9)):
        table = build(tmp_path / f"{kind}{version}", kind, version)
        for absolute, path in ((True, ABSOLUTE), (False, NAMES)):
            table.write_manifest(absolute=absolute)
            ours = lines(tmp_path / f"{kind}{version}" / path)
            hudi.call("manifest", path=str(tmp_path / f"{kind}{version}"), absolute=absolute)
            assert sorted(lines(tmp_path / f"{kind}{version}" / path)) == sorted(ours)
    hudi.close()
