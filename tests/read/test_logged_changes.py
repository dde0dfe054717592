"""Changes of slices whose base files are older than the range: only the logs are read."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

from pyhudi.options import IndexKind
from pyhudi.table.properties import TableType
from tests.properties.test_merge_rules import made, small_rows, steps
from tests.support.merge_model import RULES, SCHEMA, VERSION_9, Row

COMBINED = [
    (version, name)
    for version in (6, 9)
    for name in RULES
    if (version, name) != (9, "debezium mysql")  # it has other ordering columns
]


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize(("version", "name"), COMBINED)
@given(
    first=st.lists(small_rows(), min_size=1, max_size=6), batches=steps, since=st.integers(0, 3),
    log_format=st.sampled_from(["parquet", "avro"]),
)  # fmt: skip
@settings(max_examples=4, deadline=None)
def test_changes_are_rows_of_the_snapshot_written_in_the_range(
    version: int,
    name: str,
    first: list[Row],
    batches: list[list[Any]],
    since: int,
    log_format: str,
) -> None:
    rule = VERSION_9.get(name, RULES[name]) if version == 9 else RULES[name]
    table = made(rule, TableType.MERGE_ON_READ, log_format, IndexKind.BLOOM, version)
    table.upsert(pa.Table.from_pylist(first, SCHEMA))
    for batch in batches:
        if isinstance(batch[0], str):
            table.delete(keys=batch)
        else:
            table.upsert(pa.Table.from_pylist(batch, SCHEMA))
    commits = list(table.timeline.commits)
    if not commits:  # every row was a delete
        return
    begin = commits[min(since, len(commits) - 1)]
    changes = table.changes(str(begin.completed_at or begin.time))
    later = [
        i.time for i in commits if (i.completed_at or i.time) > (begin.completed_at or begin.time)
    ]
    snapshot = table.scan().to_arrow()
    mine = pc.is_in(snapshot["_hoodie_commit_time"], value_set=pa.array(later, pa.string()))
    assert rows_of(changes.to_arrow()) == rows_of(snapshot.filter(mine))
    for task in changes.plan.tasks:
        base = task.slice.base
        if base is not None and task.slice.logs:
            assert task.logged_only == (base.name.instant not in later)


def test_a_base_file_of_the_range_is_read() -> None:
    table = made(RULES["event time"], TableType.MERGE_ON_READ, "parquet", IndexKind.BLOOM)
    rows = [{"id": key, "ts": 1, "price": 1.0} for key in "ab"]
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    first = table.timeline.commits.instants[0].time
    table.upsert(pa.Table.from_pylist([{**rows[0], "ts": 2}], SCHEMA))
    assert [task.logged_only for task in table.changes("000").plan.tasks] == [False]
    assert [row["id"] for row in rows_of(table.changes("000").to_arrow())] == ["a", "b"]
    assert [row["id"] for row in rows_of(table.changes(first).to_arrow())] == ["a"]
