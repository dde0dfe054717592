"""Keys whose inserts went to logs are found by whatever index the table is opened with next."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.write.plan_steps import groups_with_log_inserts
from tests.support.inside import state_of

names = itertools.count()
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])


def batch(value: int, *keys: str) -> pa.Table:
    return pa.table({"id": list(keys), "v": [value] * len(keys)}, SCHEMA)


def logged(**options: str) -> Table:
    """A file group whose base file holds one key and whose log another one."""
    table = pyhudi.create_table(
        f"memory://logged{next(names)}", SCHEMA, record_key="id", table_type="mor",
        options={"pyhudi.record.index.inserts.to.logs": "true", **options},
    )  # fmt: skip
    table.upsert(batch(1, "1"))
    table.upsert(batch(1, "2"))
    (file_slice,) = table.file_slices()
    assert file_slice.base is not None and len(file_slice.logs) == 1
    return table


def values(table: Table) -> dict[str, int]:
    rows = pyhudi.open_table(table.path).scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), rows
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize("from_metadata", [False, True])
def test_a_key_that_only_a_log_holds_is_updated(index: str, from_metadata: bool) -> None:
    facts = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
    }
    table = logged(**(facts if from_metadata else {}))
    options = {"hoodie.index.type": index}
    if from_metadata:
        options["hoodie.bloom.index.use.metadata"] = "true"
    other = pyhudi.open_table(table.path, options=options)
    report = other.upsert(batch(2, "2", "3"))
    assert (report.matched, report.new) == (1, 1)
    assert values(table) == {"1": 1, "2": 2, "3": 2}
    assert other.delete(keys="2").deleted + other.delete(keys="2").missing_keys == 2
    assert values(table) == {"1": 1, "3": 2}


def test_file_groups_whose_logs_hold_updates_alone_are_still_pruned() -> None:
    table = logged()
    state = state_of(table)
    (file_slice,) = table.file_slices()
    assert groups_with_log_inserts(state, [file_slice]) == {file_slice.group}
    table.compact()
    table.upsert(batch(3, "1", "2"))
    (file_slice,) = table.file_slices()
    assert file_slice.logs and not groups_with_log_inserts(state_of(table), [file_slice])
