"""Ranges of commits by the times that write reports name, in every table version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])


def batch(count: int, ts: int) -> pa.Table:
    return pa.table({"id": [f"k{i}" for i in range(count)], "ts": [ts] * count}, SCHEMA)


@pytest.mark.conformance(31)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_time_of_a_report_bounds_a_range_after_its_commit(
    version: int, kind: str, tmp_path: Path
) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type=kind, version=version
    )
    reports = [table.upsert(batch(n, n)) for n in (2, 5, 9)]
    assert [table.scan(as_of=r.instant).to_arrow().num_rows for r in reports] == [2, 5, 9]
    assert all((r.completed_at is None) is (version == 6) for r in reports)
    first, second, third = (r.completed_at or r.instant for r in reports)
    since = [table.changes(since=at).to_arrow().num_rows for at in ("000", first, second, third)]
    assert since == [9, 9, 9, 0]
    assert table.changes(since=first, until=second).to_arrow()["ts"].to_pylist() == [5] * 5
    assert table.changes(since="000", until=first).to_arrow().num_rows == 2
    assert table.diff(first, second).num_rows == 5
    assert table.diff(third, third).num_rows == 0


def test_a_published_write_reports_when_it_completed(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", version=9)
    table.upsert(batch(2, 2))
    deferred = table.upsert(batch(5, 5), publish=False)
    assert deferred.instant is not None and deferred.completed_at is None
    published = table.publish(deferred.instant)
    newest = table.timeline.commits.last
    assert newest is not None and published.completed_at == newest.completed_at is not None
