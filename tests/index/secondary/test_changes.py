"""Changes of secondary index entries by each kind of write, from the files that it wrote."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.index.secondary.changes import IndexShape, StagedChanges, changes_of_commit
from pyhudi.metadata.secondary_index.changes import combined
from pyhudi.metadata.secondary_index.definition import SecondaryIndex
from pyhudi.metadata.secondary_index.key_format import (
    HashedPart,
    entry_keys,
    groups_of,
    value_texts,
)
from pyhudi.storage.spill import MemoryStaging
from tests.support.inside import state_of

SCHEMA = pa.schema(
    {"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "c": pa.string(), "n": pa.int32()}
)
SHAPES = (
    IndexShape(SecondaryIndex("secondary_index_c", "c", HashedPart.VALUE), 3),
    IndexShape(SecondaryIndex("secondary_index_n", "n", HashedPart.WHOLE_KEY), 2),
    IndexShape(SecondaryIndex("secondary_index_part", "part", HashedPart.VALUE), 1),
)
names = itertools.count()


def rows(numbers: range, version: int, *, parts: int = 2) -> pa.Table:
    return pa.table(
        {
            "id": [f"k${n:02}" for n in numbers],
            "part": [f"p{n % parts}" for n in numbers],
            "ts": [version] * len(numbers),
            "c": [None if n % 5 == 4 else f"v{(n + version) % 3}" for n in numbers],
            "n": [n % 4 for n in numbers],
        },
        SCHEMA,
    )


def entries_of(table: Table, column: str) -> set[str]:
    found = table.scan(["_hoodie_record_key", column]).to_arrow().combine_chunks()
    if not found.num_rows:
        return set()
    keys, values = (c.combine_chunks() for c in found.columns)
    return set(entry_keys(value_texts(values), keys).to_pylist())


def changes_by(table: Table, write: Callable[[], Any]) -> StagedChanges:
    """The changes of a write, as found from the state before it and its commit."""
    before = state_of(table)
    schema = table.schema
    write()
    after = state_of(table)
    newest = after.timeline.commits.instants[-1]
    commit = after.log.commit(newest)
    gone = {(p, f) for p, ids in (commit.replaced or {}).items() for f in ids}
    replaced = [s for s in before.slices() if (s.partition, s.file_id) in gone]
    return changes_of_commit(
        before, SHAPES, schema, commit.stats, replaced,
        at=newest.time, engine=LocalEngine(2), staging=MemoryStaging(),
    )  # fmt: skip


WRITES: dict[str, Callable[[Table], Any]] = {
    "insert": lambda t: t.insert(rows(range(40, 50), 1)),
    "upsert": lambda t: t.upsert(rows(range(10, 30), 2)),
    "upsert of equal values": lambda t: t.upsert(rows(range(10, 30), 4)),
    "upsert of older rows": lambda t: t.upsert(rows(range(10, 30), 0)),
    "delete": lambda t: t.delete(keys=["k$01", "k$04", "k$77"]),
    "delete by filter": lambda t: t.delete(where=pc.field("n") == 1),
    "partition": lambda t: t.delete_partitions(["p1"]),
    "overwrite": lambda t: t.insert_overwrite(rows(range(0, 50, 7), 3, parts=1)),
    "overwrite table": lambda t: t.insert_overwrite_table(rows(range(30, 60), 3)),
    "compaction": lambda t: t.config.is_merge_on_read and t.compact(),
    "clustering": lambda t: t.cluster(),
}


@pytest.mark.parametrize("logged", [False, True], ids=["base", "logged"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("write", WRITES)
def test_changes_lead_from_the_rows_before_to_the_rows_after(
    kind: str, write: str, logged: bool
) -> None:
    table = pyhudi.create_table(
        f"memory://secondary{next(names)}", SCHEMA, record_key="id", partition_by="part",
        ordering="ts", table_type=kind, options={"hoodie.parquet.small.file.limit": "0"},
    )  # fmt: skip
    table.upsert(rows(range(40), 1))
    if logged:
        table.upsert(rows(range(0, 40, 3), 2))
        table.delete(keys=["k$03"])
    columns = [shape.index.column for shape in SHAPES]
    before = {column: entries_of(table, column) for column in columns}
    changes = changes_by(table, lambda: WRITES[write](table))
    for number, shape in enumerate(SHAPES):
        found = set(before[shape.index.column])
        for group in range(shape.group_count):
            mine = combined(changes.of(number, group))
            for keys in (mine.added, mine.ended):
                homes = groups_of(keys, shape.group_count, shape.index.part)
                assert set(homes.tolist()) <= {group}
            found = found.difference(mine.ended.to_pylist()) | set(mine.added.to_pylist())
            assert not set(mine.added.to_pylist()) & set(mine.ended.to_pylist())
            if write == "compaction":
                assert mine.is_empty
        assert found == entries_of(table, shape.index.column)


def test_an_update_of_other_columns_stages_nothing() -> None:
    table = pyhudi.create_table(f"memory://secondary{next(names)}", SCHEMA, record_key="id")
    table.upsert(rows(range(9), 1))
    changes = changes_by(table, lambda: table.upsert(rows(range(9), 4)))
    assert not changes.parts
