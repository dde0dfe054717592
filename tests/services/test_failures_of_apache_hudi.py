"""Actions that Apache Hudi 1.2.0 fails on tables that it wrote alone; pyhudi performs them.

The list is in docs/compatibility.md.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import Action
from tests.support.filesystems import Crash, CrashingFileSystem, TracingFileSystem
from tests.support.golden import version_table, version_table_file

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("v", pa.int32()),
        ("note", pa.string()),
    ]
)
SIMPLE = {"hoodie.index.type": "SIMPLE"}
RECORD = {"hoodie.index.type": "RECORD_INDEX"}


def opened(fs: FileSystem, **options: str) -> Table:
    return Table(fs, options=parse_options(options), engine=LocalEngine(1))


def rows(ids: list[int], ts: int) -> pa.Table:
    made = [
        {"id": f"k{i}", "ts": ts, "part": f"p{i % 2}", "v": i * 10 + ts, "note": f"n{i}"}
        for i in ids
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def by_key(found: pa.Table) -> dict[str, dict[str, Any]]:
    table = found.select(SCHEMA.names).to_pylist()
    assert max(Counter(row["id"] for row in table).values(), default=1) == 1
    return {row["id"]: row for row in table}


def stored_rows(name: str) -> dict[str, dict[str, Any]]:
    """What Apache Hudi read of the table."""
    found = json.loads(version_table_file(name, "rows.json"))
    return {
        row["id"]: {column: row[column] for column in SCHEMA.names}
        for row in (dict(zip(found["columns"], each, strict=True)) for each in found["rows"])
    }


def put(before: dict[str, dict[str, Any]], batch: pa.Table) -> dict[str, dict[str, Any]]:
    return before | {row["id"]: row for row in batch.to_pylist()}


def check_metadata(fs: FileSystem, expected: dict[str, dict[str, Any]], **options: str) -> None:
    """The metadata table and its record index match the rows."""
    table = opened(fs, **options)
    assert by_key(table.scan().to_arrow()) == expected
    assert not table.metadata.verify().findings
    if "record_index" in table.config.metadata_partitions:
        keys = [*expected, "absent"]
        assert table.lookup(keys)["found"].to_pylist() == [key in expected for key in keys]


@pytest.mark.parametrize("finishes", [True, False], ids=["completed", "unscheduled"])
def test_a_table_whose_restore_left_a_clustering_pending_is_updated(finishes: bool) -> None:
    """Apache Hudi restored it over a completed clustering and now rejects each upsert."""
    fs, expected = version_table("restored_clustering_v9"), stored_rows("restored_clustering_v9")
    batch = rows([0, 1, 2], 4)
    (pending,) = [i for i in opened(fs).timeline if i.action is Action.CLUSTERING]
    with pytest.raises(WriteConflictError, match="pending clustering"):
        opened(fs, **SIMPLE).upsert(batch)
    if finishes:
        assert opened(fs, **SIMPLE).cluster().instants == (pending.time,)
    else:
        opened(fs, **SIMPLE).unschedule_clustering(pending.time)
    check_metadata(fs, expected, **SIMPLE)
    assert opened(fs, **SIMPLE).upsert(batch).matched == 3
    check_metadata(fs, put(expected, batch), **SIMPLE)


def test_a_restore_over_a_completed_clustering_leaves_nothing_pending() -> None:
    name = "restored_clustering_v9_before"
    fs = version_table(name)
    saved = opened(fs).savepoints()[0].instant
    expected = by_key(opened(fs).scan(as_of=saved).to_arrow())
    assert stored_rows(name).keys() == expected.keys() and stored_rows(name) != expected
    opened(fs, **SIMPLE).restore(saved)
    assert not opened(fs).timeline.pending.instants
    assert by_key(opened(fs).scan().to_arrow()) == expected
    batch = rows([0, 1, 2], 4)
    opened(fs, **SIMPLE).upsert(batch)
    check_metadata(fs, put(expected, batch), **SIMPLE)


def test_a_restore_past_a_metadata_compaction_rebuilds_every_partition() -> None:
    """Apache Hudi removes the metadata table, and its next writer enables what its own options
    name."""
    fs = version_table("metadata_compacted_v9")
    table = opened(fs, **RECORD)
    listed, saved = table.config.metadata_partitions, table.savepoints()[0].instant
    assert "record_index" in listed
    expected = by_key(table.scan(as_of=saved).to_arrow())
    table.restore(saved)
    assert opened(fs).config.metadata_partitions == listed
    check_metadata(fs, expected, **RECORD)
    batch = rows([1, 30], 9)
    assert opened(fs, **RECORD).upsert(batch).matched == 1
    check_metadata(fs, put(expected, batch), **RECORD)


def test_a_commit_that_the_metadata_table_has_compacted_is_undone() -> None:
    """Apache Hudi rejects the rollback: "earlier than the latest compaction"."""
    fs = version_table("metadata_compacted_v9")
    assert by_key(opened(fs).scan().to_arrow()) == stored_rows("metadata_compacted_v9")
    compacted = None
    while compacted is None:
        *_, before, last = opened(fs).timeline.commits.instants
        expected = by_key(opened(fs).scan(as_of=before.time).to_arrow())
        try:
            opened(fs, **RECORD).rollback(last.time)
        except UserError as error:
            assert "restore to the commit before it" in str(error)
            compacted = last
            opened(fs, **RECORD).restore(before.time)
        check_metadata(fs, expected, **RECORD)
    assert opened(fs).timeline.commits.last == before


@pytest.mark.parametrize("name", ["cow_restored_v9", "mor_record_index_v9"])
@pytest.mark.parametrize("whole", [False, True], ids=["partitions", "table"])
def test_partitions_of_a_table_with_a_record_index_are_overwritten(name: str, whole: bool) -> None:
    """One insert_overwrite of Apache Hudi failed in the look-up of the record index."""
    fs = version_table(name)
    expected = by_key(opened(fs).scan().to_arrow())
    batch = rows([2, 4, 40], 9)  # all of partition p0
    table = opened(fs, **RECORD)
    table.insert_overwrite_table(batch) if whole else table.insert_overwrite(batch)
    remain = {k: row for k, row in expected.items() if not whole and row["part"] == "p1"}
    check_metadata(fs, put(remain, batch), **RECORD)
    assert opened(fs, **RECORD).upsert(rows([3, 4], 10)).matched == 2 - whole
    check_metadata(fs, put(put(remain, batch), rows([3, 4], 10)), **RECORD)


def test_a_failed_write_is_rolled_back_although_later_commits_completed() -> None:
    """Apache Hudi then fails: "Found commits after time ..., please rollback greater commits"."""
    fs = version_table("cow_restored_v9")
    expected = by_key(opened(fs).scan().to_arrow())
    several = {**RECORD, "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    watched = TracingFileSystem(version_table("cow_restored_v9"))
    opened(watched, **several).insert_overwrite(rows([60, 62], 8))
    completes = next(
        number
        for number, step in enumerate(watched.trace)
        if re.fullmatch(r"create \.hoodie/timeline/\d+_\d+\.replacecommit", step)
    )
    dying = CrashingFileSystem(fs, stop=completes)
    with pytest.raises(Crash):
        opened(dying, **several).insert_overwrite(rows([60, 62], 8))
    (failed,) = opened(fs).timeline.pending.instants
    later = rows([1, 71], 9)
    opened(fs, **several, **{"hoodie.client.heartbeat.interval_in_ms": "3600000"}).upsert(later)
    report = opened(fs, **RECORD).upsert(rows([3], 10))
    assert failed.time not in {i.time for i in opened(fs).timeline}, report
    check_metadata(fs, put(put(expected, later), rows([3], 10)), **RECORD)
