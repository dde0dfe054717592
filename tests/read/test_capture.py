"""Changes as Apache Hudi 1.2.0 captures them; tables of layout 2 with an archive."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import SnapshotExpiredError, UnsupportedTableError
from tests.read.test_golden import row_set
from tests.support.inside import state_of

QUERIES = Path(__file__).parents[1] / "golden" / "queries"
COLUMNS = ("id", "ts", "part", "v", "tags")


def unzipped(name: str, folder: Path) -> tuple[Path, Path]:
    with zipfile.ZipFile(QUERIES / f"{name}.zip") as file:
        file.extractall(folder)
    return folder / name, folder / f"{name}_expected"


def change(row: dict[str, Any]) -> str:
    """A change as text; Apache Hudi gives the rows as JSON, some with meta columns."""

    def side(found: Any) -> Any:
        reported = json.loads(found) if isinstance(found, str) else found
        return None if reported is None else [reported[name] for name in COLUMNS]

    return repr((row["ts_ms"], row["op"], side(row["before"]), side(row["after"])))


@pytest.mark.parametrize("name", ["cdc_cow_v6_both", "cdc_mor_v9_both"])
def test_changes_are_those_that_apache_hudi_captures(name: str, tmp_path: Path) -> None:
    root, expected = unzipped(name, tmp_path)
    table = pyhudi.open_table(root)
    changes = sorted(map(change, pq.read_table(expected / "cdc.parquet").to_pylist()))
    found = table.capture("000")
    assert sorted(map(change, found.to_pylist())) == changes
    commits = [i.completed_at or i.time for i in table.timeline.commits]
    parts = [table.capture(a, b) for a, b in zip(["000", *commits], commits, strict=False)]
    assert sorted(change(r) for p in parts for r in p.to_pylist()) == changes
    assert table.capture(commits[-1]).num_rows == 0


def test_a_cdc_log_reports_changes_whose_old_files_are_gone(tmp_path: Path) -> None:
    root, _ = unzipped("cdc_cow_v6_both", tmp_path)
    table = pyhudi.open_table(root)
    first, second, third = [i.time for i in table.timeline.commits][:3]
    for file in root.rglob(f"*_{first}.parquet"):
        file.unlink()
    assert table.capture(first, second).num_rows == 3
    for file in root.rglob(f"*{third}*.cdc"):
        file.unlink()
    with pytest.raises(SnapshotExpiredError):
        table.capture(second, third)
    with pytest.raises(SnapshotExpiredError):
        table.capture("000", first)


def test_a_table_that_does_not_log_changes_is_refused_by_name(tmp_path: Path) -> None:
    root, _ = unzipped("arch_mor_v9", tmp_path)
    with pytest.raises(UnsupportedTableError, match="does not log changes"):
        pyhudi.open_table(root).capture("000")


def test_a_table_of_version_9_with_an_archived_timeline_is_read_in_full(tmp_path: Path) -> None:
    root, expected = unzipped("arch_mor_v9", tmp_path)
    table = pyhudi.open_table(root)
    final = pq.read_table(expected / "final.parquet")
    names = [name for name in final.column_names if name != "_hoodie_file_name"]
    assert row_set(table.scan().to_arrow(), names) == row_set(final, names)
    assert table.changes("000").count() == final.num_rows
    older = pq.read_table(expected / "snapshot_12.parquet")
    deltas = [i for i in table.timeline.commits if i.action.value == "deltacommit"]
    found = table.scan(as_of=deltas[-2].time).to_arrow()
    assert row_set(found, names) == row_set(older, names)
    by_completion = table.changes(deltas[-2].completed_at or "").to_arrow()
    assert set(by_completion["_hoodie_commit_time"].to_pylist()) == {deltas[-1].time}
    archived = state_of(table).archive.commits
    assert len(archived) == 12 and all(entry.completed_at for entry in archived)
    with pytest.raises(SnapshotExpiredError):
        table.scan(as_of=archived[0].time).to_arrow()
    lines = table.history("k0").to_pylist()
    assert [line["change"] for line in lines] == ["gone", "gone", "gone", "found", "update"]
    assert lines[0]["operation"] == "archived"


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_that_stay_in_their_partition_have_its_value(kind: str, tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "city": pa.string()})
    table = pyhudi.create_table(
        tmp_path, schema, record_key="id", partition_by="city", table_type=kind,
        options={"hoodie.table.cdc.enabled": "true"},
    )  # fmt: skip
    table.upsert(pa.table({"id": ["a"], "n": [1], "city": ["sf"]}, schema))
    start = table.position()
    for n, city in [(2, "la"), (3, "ny")]:
        table.upsert(pa.table({"id": ["a"], "n": [n], "city": [city]}, schema))
    found = table.capture(since=start).select(["before", "after"]).to_pylist()
    rows = [{"id": "a", "n": n, "city": "sf"} for n in (1, 2, 3)]
    assert found == [{"before": old, "after": new} for old, new in pairwise(rows)]
