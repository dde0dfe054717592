"""Secondary indexes of tables of versions 8 and 9: created, maintained by every write, dropped."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import SchemaError, UnsupportedTableError, UserError
from pyhudi.metadata.secondary_index.definition import secondary_indexes
from pyhudi.metadata.secondary_index.key_format import entry_keys, value_texts
from pyhudi.read.skipping.key_uniqueness import keys_are_unique
from tests.metadata.secondary_index.stored import stored_keys
from tests.support.inside import fs_of, state_of
from tests.support.versions import new_table

SCHEMA = pa.schema(
    {"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "c": pa.string(), "d": pa.date32()}
)
names = itertools.count()


def rows(numbers: range, version: int, *, parts: int = 2) -> pa.Table:
    days = [None if n % 4 == 1 else 19000 + (n * version) % 3 for n in numbers]
    return pa.table(
        {
            "id": [f"k${n:02}" for n in numbers],
            "part": [f"p{n % parts}" for n in numbers],
            "ts": [version] * len(numbers),
            "c": [None if n % 5 == 4 else f"v{(n + version) % 7}" for n in numbers],
            "d": pa.array(days, pa.int32()).cast(pa.date32()),
        },
        SCHEMA,
    )


def created(version: int, kind: str, **options: str) -> Table:
    return new_table(
        f"memory://indexed{next(names)}", version, SCHEMA, kind=kind, partition_by=("part",),
        ordering=("ts",),
        options={"hoodie.parquet.small.file.limit": "0",
                 "hoodie.metadata.record.index.min.filegroup.count": "3", **options},
    )  # fmt: skip


def check_exact(table: Table) -> None:
    """Every index has exactly the entries of the rows."""
    state = state_of(table)
    assert state.metadata is not None
    indexes = secondary_indexes(state.fs, state.config)
    for index in indexes:
        found = table.scan(["_hoodie_record_key", index.column]).to_arrow().combine_chunks()
        keys, values = (column.combine_chunks() for column in found.columns)
        expected = entry_keys(value_texts(values), keys).to_pylist() if len(keys) else []
        assert sorted(stored_keys(state.metadata, index)) == sorted(expected)


def check_reads(table: Table) -> None:
    """Scans by an indexed column use the index and return what full scans return."""
    plain = pyhudi.open_table(table.path, options={"hoodie.enable.data.skipping": "false"})
    for n in range(8):
        where = pc.field("c") == f"v{n}"
        scan = table.scan(where=where)
        is_used = any("record keys" in note for note in scan.plan.index_notes)
        assert is_used == keys_are_unique(state_of(table)), scan.plan
        mine = sorted(map(str, scan.to_arrow().to_pylist()))
        assert mine == sorted(map(str, plain.scan(where=where).to_arrow().to_pylist()))


STEPS: tuple[Callable[[Table], Any], ...] = (
    lambda t: t.upsert(rows(range(10, 30), 2)),
    lambda t: t.delete(keys=["k$01", "k$14", "k$77"]),
    lambda t: t.upsert(rows(range(20), 3)),  # revives deleted keys
    lambda t: t.config.is_merge_on_read and t.compact(),
    lambda t: t.upsert(rows(range(40, 50), 1)),
    lambda t: t.delete(where=pc.field("c") == "v1"),
    lambda t: t.cluster(),
    lambda t: t.upsert(rows(range(5, 45), 5)),
    lambda t: t.insert_overwrite(rows(range(0, 50, 8), 6)),
    lambda t: t.delete_partitions(["p1"]),
    lambda t: t.insert_overwrite_table(rows(range(30, 60), 7)),
    lambda t: t.upsert(rows(range(50, 70), 8)),
)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_each_write_leaves_the_index_exact(version: int, kind: str) -> None:
    table = created(version, kind)
    table.upsert(rows(range(40), 1))
    made = table.index.create("secondary", "c")
    assert (made.name, made.version, made.entries) == (
        "secondary_index_c", f"V{version - 7}", 40,
    )  # fmt: skip
    table.index.create("secondary", "d", name="by_day")
    check_exact(table)
    check_reads(table)
    used = 0
    for step in STEPS:
        step(table)
        check_exact(table)
        check_reads(table)
        used += keys_are_unique(state_of(table))
    assert used == len(STEPS) - 2  # overwriting a partition proves nothing about the others
    table.insert(rows(range(80, 85), 1))  # does not look keys up
    check_exact(table)
    check_reads(table)


def test_writers_without_the_whole_lock_maintain_the_index() -> None:
    table = created(9, "cow", **{"hoodie.write.concurrency.mode": "optimistic_concurrency_control"})
    table.upsert(rows(range(20), 1))
    table.index.create("secondary", "c")
    table.upsert(rows(range(10, 30), 2))
    check_exact(table)


def test_compaction_of_the_metadata_table_keeps_the_entries() -> None:
    table = created(9, "mor", **{"hoodie.metadata.compact.max.delta.commits": "2"})
    table.upsert(rows(range(20), 1))
    table.index.create("secondary", "c")
    for version in range(2, 8):
        table.upsert(rows(range(version, version + 12), version))
        table.delete(keys=[f"k${version:02}"])
        check_exact(table)
    check_reads(table)


def test_an_index_of_an_empty_table_fills_with_its_rows() -> None:
    table = created(9, "cow")
    table.index.create("secondary", "c")
    table.upsert(rows(range(20), 1))
    check_exact(table)
    check_reads(table)


def test_indexes_are_listed_and_dropped() -> None:
    table = created(9, "cow")
    table.upsert(rows(range(20), 1))
    planned = table.index.create("secondary", "c", name="mine", dry_run=True)
    assert (planned.name, planned.entries, planned.dry_run) == ("secondary_index_mine", 0, True)
    assert "secondary_index_mine" not in {r["name"] for r in table.index.list().to_pylist()}
    assert table.index.create("secondary", "c", name="mine").file_groups == planned.file_groups
    listed = {row["name"]: row for row in table.index.list().to_pylist()}
    assert listed["secondary_index_mine"] == {
        "name": "secondary_index_mine", "columns": ["c"], "version": "V2",
    }  # fmt: skip
    stored = json.loads(fs_of(table).read(".hoodie/.index_defs/index.json"))["indexDefinitions"]
    assert stored["secondary_index_mine"] == {
        "indexName": "secondary_index_mine", "indexType": "secondary_index",
        "indexFunction": "identity", "sourceFields": ["c"], "indexOptions": {}, "version": "V2",
    }  # fmt: skip
    assert table.index.drop("mine", dry_run=True) == "secondary_index_mine"
    assert "secondary_index_mine" in {r["name"] for r in table.index.list().to_pylist()}
    assert table.index.drop("mine") == "secondary_index_mine"
    assert "secondary_index_mine" not in {r["name"] for r in table.index.list().to_pylist()}
    assert not fs_of(table).children(".hoodie/metadata/secondary_index_mine")
    stored = json.loads(fs_of(table).read(".hoodie/.index_defs/index.json"))["indexDefinitions"]
    assert "secondary_index_mine" not in stored
    table.upsert(rows(range(30), 2))
    assert not table.scan(where=pc.field("c") == "v1").plan.index_notes
    with pytest.raises(UserError, match="no such index"):
        table.index.drop("mine")


def test_indexes_that_cannot_be_made_are_rejected() -> None:
    table = created(9, "cow")
    table.upsert(rows(range(3), 1))
    with pytest.raises(UserError, match="no such column"):
        table.index.create("secondary", "x")
    with pytest.raises(UserError, match="letters"):
        table.index.create("secondary", "c", name="a/b")
    with pytest.raises(UserError, match="kind"):
        table.index.create("tertiary", "c")
    table.index.create("secondary", "c")
    with pytest.raises(UserError, match="of this name"):
        table.index.create("secondary", "d", name="c")
    wide = pa.schema({"id": pa.string(), "x": pa.float64()})
    other = new_table(f"memory://indexed{next(names)}", 9, wide)
    with pytest.raises(SchemaError, match="cannot have a secondary index"):
        other.index.create("secondary", "x")
    old = new_table(f"memory://indexed{next(names)}", 6, SCHEMA)
    with pytest.raises(UnsupportedTableError, match="no secondary indexes"):
        old.index.create("secondary", "c")


def test_a_failed_write_leaves_the_index_as_it_was() -> None:
    table = created(9, "mor")
    table.upsert(rows(range(20), 1))
    table.index.create("secondary", "c")
    table.upsert(rows(range(5, 15), 2), publish=False)
    check_exact(table)
    (instant,) = table.unpublished()
    table.discard(instant.instant if hasattr(instant, "instant") else instant)
    check_exact(table)
    table.upsert(rows(range(5, 15), 3))
    check_exact(table)
    check_reads(table)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_rebuild_and_a_restore_leave_the_index_exact(kind: str) -> None:
    table = created(9, kind)
    table.upsert(rows(range(20), 1))
    table.index.create("secondary", "c")
    table.upsert(rows(range(10, 25), 2))
    saved = table.savepoint().instant
    table.upsert(rows(range(5, 15), 3))
    table.delete(keys=["k$01", "k$22"])
    table.metadata.rebuild()
    assert "secondary_index_c" in table.config.metadata_partitions
    check_exact(table)
    table.upsert(rows(range(5, 35), 4))
    table.restore(saved)
    check_exact(table)
    table.upsert(rows(range(8, 28), 5))
    check_exact(table)
    check_reads(table)


@pytest.mark.parametrize(("kind", "indexes", "is_used"), [
    ("mor", "cd", False), ("mor", "c", True), ("cow", "cd", True),
])  # fmt: skip
def test_an_index_that_apache_hudi_may_have_left_out_is_not_used(
    kind: str, indexes: str, is_used: bool
) -> None:
    table = created(9, kind)
    table.upsert(rows(range(40), 1))
    for column in indexes:
        table.index.create("secondary", column)
    table.upsert(rows(range(20), 2))
    _unmark_newest(table)
    table.upsert(rows(range(20, 30), 3))
    assert _uses_index(table) == is_used
    table.index.drop("secondary_index_c")
    table.index.create("secondary", "c")
    assert _uses_index(table)


def _unmark_newest(table: Table) -> None:
    """Make the newest commit one that another program could have written."""
    state = state_of(table)
    newest = state.timeline.commits.instants[-1]
    commit = state.log.commit(newest)
    extra = {name: text for name, text in commit.extra.items() if not name.startswith("pyhudi.")}
    state.fs.replace(state.log.path(newest), state.log.encode(replace(commit, extra=extra)))


def _uses_index(table: Table) -> bool:
    opened = pyhudi.open_table(table.path)
    scan = opened.scan(where=pc.field("c") == "v1")
    return any("record keys" in note for note in scan.plan.index_notes)
