"""Indexes of the metadata table: created by request, maintained by writes, dropped by name."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, UnsupportedTableError, UserError
from pyhudi.metadata.payloads import BLOOM_FILTERS
from pyhudi.timeline.instant import Action
from tests.support.inside import fs_of, state_of
from tests.support.versions import new_table

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "a": pa.int64(), "b": pa.int64(),
                    "tags": pa.list_(pa.string())})  # fmt: skip
SMALL = {"hoodie.parquet.small.file.limit": "0"}
KINDS = {
    "column_stats": "column_stats", "partition_stats": "partition_stats",
    "bloom_filters": "bloom_filters", "record": "record_index",
}  # fmt: skip
names = itertools.count()


def rows(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n:03}" for n in numbers],
            "part": [f"p{n % 3}" for n in numbers],
            "a": [n * 10 + version for n in numbers],
            "b": [-n for n in numbers],
            "tags": [["x"]] * len(numbers),
        },
        SCHEMA,
    )


def created(version: int, kind: str, *, partitioned: bool = True, **options: str) -> Table:
    """A table with a metadata table that only lists files."""
    return pyhudi.create_table(
        f"memory://metadataindexes{next(names)}", SCHEMA, record_key="id", version=version,
        partition_by="part" if partitioned else None, ordering="a", table_type=kind,
        index="simple", options={**SMALL, **options},
    )  # fmt: skip


def opened(table: Table, **options: str) -> Table:
    return pyhudi.open_table(table.path, options=options)


def kinds_of(version: int) -> list[str]:
    return [kind for kind in KINDS if version > 6 or kind != "partition_stats"]


def listed(table: Table) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in table.index.list().to_pylist()}


def definitions(table: Table) -> dict[str, Any]:
    stored = json.loads(fs_of(table).read(".hoodie/.index_defs/index.json"))
    found: dict[str, Any] = stored["indexDefinitions"]
    return found


def check(table: Table) -> None:
    """The metadata table agrees with the files and keys, and filters lose no rows."""
    assert not table.metadata.verify().findings
    plain = pyhudi.open_table(table.path, options={"hoodie.enable.data.skipping": "false"})
    for where in (pc.field("a") > 100, pc.field("b") == -7, pc.field("id") == "k011"):
        mine, expected = (
            sorted(each.scan(["id"], where).to_arrow().column(0).to_pylist())
            for each in (table, plain)
        )
        assert mine == expected


STEPS = (
    lambda t: t.upsert(rows(range(5, 45), 2)),
    lambda t: t.delete(keys=["k003", "k014"]),
    lambda t: t.insert_overwrite(rows(range(0, 9, 3), 3)),
    lambda t: t.compact() if t.config.is_merge_on_read else None,
    lambda t: t.cluster(),
    lambda t: t.clean(),
    lambda t: t.upsert(rows(range(30, 60), 4)),
    lambda t: t.delete_partitions(["p1"]),
    lambda t: t.upsert(rows(range(50, 70), 5)),
)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, pytest.param(8, marks=pytest.mark.long), 9])
def test_an_index_created_on_request_is_maintained_by_every_write(version: int, kind: str) -> None:
    table = created(version, kind)
    table.upsert(rows(range(40), 1))
    assert not listed(table)
    for each in kinds_of(version):
        planned = table.index.create(each, dry_run=True)
        assert planned.dry_run and planned.name == KINDS[each] and not planned.entries
        assert KINDS[each] not in listed(table)
        made = table.index.create(each)
        assert (made.name, made.column, made.version, made.file_groups) == (
            planned.name, planned.column, planned.version, planned.file_groups,
        )  # fmt: skip
        assert made.entries
    assert set(listed(table)) == {KINDS[each] for each in kinds_of(version)}
    check(table)
    assert table.scan(where=pc.field("a") > 1000).explain().tasks == ()
    for step in STEPS:
        step(table)
        check(table)
    assert set(listed(table)) == {KINDS[each] for each in kinds_of(version)}
    keys = opened(table).index.lookup(["k055", "k040"])
    assert keys.column("found").to_pylist() == [True, False]


@pytest.mark.parametrize("version", [6, pytest.param(8, marks=pytest.mark.long), 9])
def test_each_index_is_dropped_by_name_and_created_again(version: int) -> None:
    table = created(version, "mor")
    table.upsert(rows(range(40), 1))
    for each in kinds_of(version):
        table.index.create(each)
    table.upsert(rows(range(10, 50), 2))
    for each in reversed(kinds_of(version)):
        before = listed(table)
        assert table.index.drop(each, dry_run=True) == KINDS[each]
        assert listed(table) == before
        assert table.index.drop(each) == KINDS[each]
        assert KINDS[each] not in listed(table)
        assert not fs_of(table).children(f".hoodie/metadata/{KINDS[each]}")
        assert KINDS[each] not in definitions(table)
        table.upsert(rows(range(20, 60), 3))
        check(table)
    assert not listed(table)
    for each in kinds_of(version):
        table.index.create(each)
        check(table)
    table.upsert(rows(range(30, 70), 4))
    check(table)
    with pytest.raises(UserError, match="no such index"):
        table.index.drop("files")


@pytest.mark.parametrize("version", [8, 9])
def test_definitions_are_those_of_apache_hudi(version: int) -> None:
    table = created(version, "cow")
    table.upsert(rows(range(10), 1))
    for each in KINDS:
        table.index.create(each)
    meta = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"]
    assert definitions(table) == {
        "column_stats": {
            "indexName": "column_stats", "indexType": "column_stats",
            "indexFunction": "column_stats", "sourceFields": [*meta, "id", "part", "a", "b"],
            "indexOptions": {}, "version": f"V{version - 7}",
        },
        "record_index": {
            "indexName": "record_index", "indexType": "record_index", "indexFunction": "",
            "sourceFields": [], "indexOptions": {"isPartitioned": "false"}, "version": "V1",
        },
    }  # fmt: skip


@pytest.mark.parametrize("stated", ["argument", "option", "one"])
def test_column_statistics_have_the_requested_columns(stated: str) -> None:
    named = {"hoodie.metadata.index.column.stats.column.list": "a"} if stated == "option" else {}
    table = created(9, "cow", **named)
    table.upsert(rows(range(10), 1))
    columns = {"argument": ["b", "a", "b"], "option": None, "one": "b"}[stated]
    made = table.index.create("column_stats", columns)
    expected = {"argument": ["b", "a"], "option": ["a"], "one": ["b"]}[stated]
    assert made.column.split(",")[3:] == expected
    assert listed(table)["column_stats"]["columns"][3:] == expected
    assert table.index.drop("column_stats") == "column_stats"
    table.index.create("column_stats", "id")
    assert listed(table)["column_stats"]["columns"][3:] == ["id"]
    table.upsert(rows(range(5, 15), 2))
    check(table)


def test_an_index_created_on_an_empty_table_fills_with_its_rows() -> None:
    table = created(9, "cow")
    for each in KINDS:
        assert not table.index.create(each).entries or each == "bloom_filters"
    table.upsert(rows(range(20), 1))
    check(table)
    assert opened(table).index.lookup(["k011"]).column("found").to_pylist() == [True]


def test_indexes_that_a_table_cannot_have_are_rejected() -> None:
    old, flat, table = created(6, "cow"), created(9, "cow", partitioned=False), created(9, "cow")
    for each in (old, flat, table):
        each.upsert(rows(range(10), 1))
    for each in (old, flat, table):
        before = fs_of(each).read(".hoodie/hoodie.properties")
        with pytest.raises(UserError, match="no index of this kind"):
            each.index.create("files")
        with pytest.raises(UserError, match="no columns to choose"):
            each.index.create("bloom_filters", "a")
        with pytest.raises(UserError, match="no such argument"):
            each.index.create("column_stats", name="mine")
        with pytest.raises(UserError, match="has one column"):
            each.index.create("secondary", ["a", "b"])
        assert fs_of(each).read(".hoodie/hoodie.properties") == before
    with pytest.raises(UnsupportedTableError, match="no partition statistics"):
        old.index.create("partition_stats")
    with pytest.raises(UnsupportedTableError, match="every column"):
        old.index.create("column_stats", "a")
    with pytest.raises(UserError, match="without partitions"):
        flat.index.create("partition_stats")
    with pytest.raises(IndexNotReadyError, match="computed from column statistics"):
        table.index.create("partition_stats", dry_run=True)
    with pytest.raises(UserError, match="not possible"):
        table.index.create("column_stats", "tags")
    with pytest.raises(UserError, match="not possible"):
        table.index.create("column_stats", ["a", "nope"])
    table.index.create("column_stats")
    with pytest.raises(UserError, match="of this name"):
        table.index.create("column_stats", "a")


def test_an_index_that_another_one_needs_is_not_dropped() -> None:
    table = created(9, "cow")
    table.upsert(rows(range(10), 1))
    for each in KINDS:
        table.index.create(each)
    table.index.create("secondary", "b")
    for name, other in (("column_stats", "partition_stats"), ("record", "secondary_index_b")):
        with pytest.raises(UserError, match="needs this one") as refused:
            table.index.drop(name)
        assert refused.value.facts["needed_by"] == other
        table.index.drop(other)
        table.index.drop(name)
    assert set(listed(table)) == {BLOOM_FILTERS.path}


def test_a_table_whose_only_index_was_dropped_needs_another_one() -> None:
    table = new_table(f"memory://metadataindexes{next(names)}", 9, SCHEMA, ordering=("a",))
    table.upsert(rows(range(10), 1))
    table.index.drop("record_index")
    with pytest.raises(IndexNotReadyError):
        table.upsert(rows(range(5, 15), 2))
    table.index.create("record")
    table.upsert(rows(range(5, 15), 2))
    assert table.count() == 15 and not table.metadata.verify().findings


class CompactionFails(LocalEngine):
    """Every compaction of the metadata table fails after its plan is stored."""

    def run(self, task: Any, items: Any, *, label: str) -> list[Any]:
        if label == "metadata-compaction":
            raise MemoryError
        return super().run(task, items, label=label)


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_plan_of_the_metadata_table_outlives_the_partition_that_it_names(
    version: int,
) -> None:
    options = {"hoodie.metadata.compact.max.delta.commits": "3"}
    table = created(version, "mor", **options)
    table.upsert(rows(range(10), 1))
    table.index.create("bloom_filters")
    failing = Table(fs_of(table), options=table._options, engine=CompactionFails(2))
    with pytest.raises(MemoryError):
        failing.upsert(rows(range(5, 25), 3))
    assert pending_compactions(table)
    table.index.drop("bloom_filters")
    table.index.create("bloom_filters")
    table.upsert(rows(range(5, 15), 3))
    check(table)


def pending_compactions(table: Table) -> list[str]:
    metadata = state_of(table).metadata
    assert metadata is not None
    return [each.time for each in metadata.timeline.pending if each.action is Action.COMPACTION]
