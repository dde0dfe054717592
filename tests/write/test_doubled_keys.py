"""Deletes of keys that inserts doubled: every copy that matches goes, by every index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.options import IndexKind
from pyhudi.read.skipping.key_uniqueness import keys_are_unique
from pyhudi.table.properties import TableType
from tests.support.index_kinds import SCHEMA, Indexed, indexed
from tests.support.inside import state_of

CONCURRENT = {"write__concurrency__mode": "optimistic_concurrency_control"}
TYPES = list(TableType)
Row = tuple[str, int, str]


@pytest.fixture(params=list(IndexKind), ids=lambda kind: kind.value)
def index(request: pytest.FixtureRequest) -> Iterator[Indexed]:
    with indexed(request.param) as found:
        yield found


def rows(*given: Row) -> pa.Table:
    columns = zip(*given, strict=True)
    return pa.table(dict(zip(SCHEMA.names, map(list, columns), strict=True)), SCHEMA)


def stored(table: Table) -> list[Row]:
    found = table.scan(["id", "ts", "part"]).to_arrow().to_pylist()
    return sorted((row["id"], row["ts"], row["part"]) for row in found)


def doubled(index: Indexed, kind: TableType, **given: Any) -> Table:
    """Key `a` in two partitions, in one of them in two file groups (by the bucket index in one)
    and twice in one of these; some of it is updated."""
    small = {"parquet__small__file__limit": 0}
    table = index.table(kind, **small, **given)
    table.bulk_insert(rows(("a", 1, "x"), ("b", 1, "x"), ("a", 2, "x")))
    table.bulk_insert(rows(("a", 3, "x"), ("c", 1, "x")))
    table.bulk_insert(rows(("a", 4, "y"), ("d", 1, "y")))
    table.upsert(rows(("b", 2, "x"), ("d", 2, "y")))
    assert len([row for row in stored(table) if row[0] == "a"]) >= 2
    return table


def check_rest(table: Table) -> None:
    """The other keys are there, once, and the index leads to them."""
    assert stored(table) == [("b", 2, "x"), ("c", 1, "x"), ("d", 2, "y")]
    assert table.upsert(rows(("b", 5, "x"), ("c", 5, "x"), ("d", 5, "y"))).updated == 3
    table.upsert(rows(("a", 1, "x")))
    assert [row for row in stored(table) if row[0] == "a"] == [("a", 1, "x")]
    if "record_index" in table.config.metadata_partitions:
        assert table.index.verify().is_exact


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["alone", "concurrent"])
def test_a_delete_by_key_removes_every_copy(
    index: Indexed, kind: TableType, mode: dict[str, str]
) -> None:
    table = doubled(index, kind, **mode)
    report = table.delete(keys=["a", "none"])
    assert report.missing_keys == 1
    check_rest(table)


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("kind", TYPES)
def test_a_delete_by_rows_removes_every_copy(index: Indexed, kind: TableType) -> None:
    table = doubled(index, kind)
    named = rows(("a", 0, "x"), ("a", 0, "y"))
    table.delete(named.select(["id", "part"]))
    check_rest(table)


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", [{}, CONCURRENT], ids=["alone", "concurrent"])
def test_a_delete_by_predicate_removes_every_copy_that_matches(
    index: Indexed, kind: TableType, mode: dict[str, str]
) -> None:
    table = doubled(index, kind, **mode)
    before = stored(table)
    gone = table.delete(where=pc.field("ts") == 4)
    assert (gone.deleted, gone.missing_keys) == (1, 0)
    assert stored(table) == [row for row in before if row[1] != 4]
    table.delete(where=pc.field("id") == "a")
    check_rest(table)


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("kind", TYPES)
def test_a_predicate_leaves_copies_of_other_file_groups(index: Indexed, kind: TableType) -> None:
    """Whichever copy the index leads to; a bucket is one file group."""
    table = doubled(index, kind)
    before = stored(table)
    gone = [("a", ts, "x") for ts in ((1, 2, 3) if index.kind is IndexKind.BUCKET else (3,))]
    table.delete(where=pc.field("ts") == 3)
    assert stored(table) == [row for row in before if row not in gone]
    table.delete(keys=["a"])
    check_rest(table)


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("kind", TYPES)
def test_every_copy_is_found_after_services(index: Indexed, kind: TableType) -> None:
    table = doubled(index, kind, metadata__compact__max__delta__commits=1)
    if kind is TableType.MERGE_ON_READ:
        table.compact()
    table.upsert(rows(("c", 1, "x")))
    table.delete(keys=["a"])
    if kind is TableType.MERGE_ON_READ:
        table.compact()
    check_rest(table)


def test_a_row_that_was_deleted_counts_once_for_each_copy() -> None:
    table = doubled(Indexed(IndexKind.RECORD), TableType.COPY_ON_WRITE)
    assert table.delete(keys=["a"]).deleted == 4


def test_file_groups_are_searched_only_where_keys_may_have_several_rows() -> None:
    searched = "file groups were searched"
    table = doubled(Indexed(IndexKind.RECORD), TableType.COPY_ON_WRITE)
    assert searched in table.delete(keys=["a"]).index
    unique = Indexed(IndexKind.RECORD).table()
    unique.bulk_insert(rows(("a", 1, "x"), ("b", 1, "y")))
    unique.upsert(rows(("a", 2, "x")))
    assert keys_are_unique(state_of(unique))
    assert searched not in unique.delete(keys=["a"]).index
