"""Changes of slices whose base files are older than the range: only the logs are read."""

from __future__ import annotations

import os
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example

from pyhudi.options import IndexKind
from pyhudi.table.properties import TableType
from tests.properties.test_merge_rules import made, small_rows, steps
from tests.support.examples import examples
from tests.support.merge_model import RULES, SCHEMA, VERSION_9, Model, Row, Rule

COMBINED = [
    (version, name)
    for version in (6, 9)
    for name in RULES
    if (version, name) != (9, "debezium mysql")  # it has other ordering columns
]
OF_RANGE = (6, "partial update")
"""A row has the values that the commits of the range wrote, as in Apache Hudi 0.15.0."""
ROW: Row = {
    "id": "a", "ts": 0, "lsn": 0, "_event_lsn": 0, "_event_seq": "8.8", "Op": None, "name": "x",
    "_change_operation_type": None, "price": None, "tags": None, "addr": None,
    "_hoodie_is_deleted": False,
}  # fmt: skip


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def user_values(row: Row) -> Row:
    return {name: row[name] for name in SCHEMA.names}


def model_of(rule: Rule, batches: list[list[Any]]) -> Model:
    model = Model(rule)
    for batch in batches:
        if isinstance(batch[0], str):
            for key in batch:
                model.rows.pop(key, None)
        else:
            model.upsert(batch)
    return model


def of_range(row: Row, model: Model, found: list[Row]) -> Row:
    """The values that the range wrote; those of the snapshot where it rewrote the base file."""
    values = user_values(row)
    return values if values in map(user_values, found) else model.rows[row["id"]]


@pytest.mark.parametrize(("version", "name"), COMBINED)
@examples(
    2, int(os.environ.get("CHANGES_EXAMPLES", "4")),
    first=st.lists(small_rows(), min_size=1, max_size=6), batches=steps, since=st.integers(0, 3),
    log_format=st.sampled_from(["parquet", "avro"]),
)  # fmt: skip
@example([ROW], [[{**ROW, "name": None, "_hoodie_is_deleted": None}]], 0, "parquet")
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
    written = [(table.timeline.commits.last, first)]
    for batch in batches:
        if isinstance(batch[0], str):
            table.delete(keys=batch)
        else:
            table.upsert(pa.Table.from_pylist(batch, SCHEMA))
        written.append((table.timeline.commits.last, batch))
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
    expected, found = rows_of(snapshot.filter(mine)), rows_of(changes.to_arrow())
    if (version, name) == OF_RANGE:
        batches_of_range = [b for commit, b in written if commit and commit.time in later]
        expected = [of_range(row, model_of(rule, batches_of_range), found) for row in expected]
        found = [user_values(row) for row in found]
    assert found == expected
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
