"""Expression indexes of tables of versions 8 and 9: created, maintained by every write, dropped."""

from __future__ import annotations

import itertools
import json
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import IndexNotReadyError, SchemaError, UnsupportedTableError, UserError
from pyhudi.metadata.expression_index.changes import NAMING
from pyhudi.metadata.expression_index.definition import ExpressionIndex, expression_indexes
from pyhudi.metadata.file_stats.collect import newest_entries
from pyhudi.metadata.file_stats.records import range_key
from tests.support.inside import fs_of, state_of
from tests.support.versions import new_table

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "d": pa.date32(),
                    "c": pa.string(), "e": pa.string()})  # fmt: skip
FORMAT = {"format": "yyyy-MM-dd"}
DAY_TEXT = pc.strftime(pc.field("ts").cast(pa.timestamp("s")), format="%Y-%m-%d")
SMALL = {"hoodie.parquet.small.file.limit": "0"}
names = itertools.count()


def rows(numbers: range, version: int, *, parts: int = 2) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n:02}" for n in numbers],
            "part": [f"p{n % parts}" for n in numbers],
            "ts": [1_700_000_000 + n * 86_400 + version for n in numbers],
            "d": pa.array([date(1990 + n + version, 1, 1) for n in numbers]),
            "c": [None if n % 7 == 6 else f"Value {n * version}" for n in numbers],
            "e": ["+" * (n % 12) for n in numbers],
        },
        SCHEMA,
    )


def created(version: int, kind: str, *, partitioned: bool = True) -> Table:
    return new_table(
        f"memory://expressions{next(names)}", version, SCHEMA, kind=kind, options=SMALL,
        partition_by=("part",) if partitioned else (), ordering=("ts",),
    )  # fmt: skip


def indexed(table: Table, version: int) -> Table:
    """With an index of each kind and result type that the version can have."""
    index = table.index
    index.create("expression", "ts", name="day", expression="from_unixtime", options=FORMAT)
    using = "column_stats" if table.config.is_merge_on_read else "bloom_filters"
    index.create("expression", "c", name="low", expression="lower", using=using)
    index.create("expression", "e", expression="length")
    if version == 9:
        index.create("expression", "d", expression="year")
    return table


def check_exact(table: Table) -> None:
    """Every file of the newest slices has its entry, and every partition one that contains them:
    the hull of its files, also of those that the newest commit has replaced."""
    state = state_of(table)
    assert state.metadata is not None
    for index in expression_indexes(state.fs, state.config):
        if not index.is_ranged:
            continue
        spans: dict[str, list[tuple[Any, Any]]] = {}
        for slice_ in state.view().latest_slices():
            for file in slice_.files:
                key = range_key(index.column, slice_.partition, str(file.name))
                found = bounds(table, index, key)
                assert found is not None, (index.name, file.name)
                spans.setdefault(slice_.partition, []).append(found)
        for partition, own in spans.items():
            lows, highs = (
                [side for side in sides if side is not None] for sides in zip(*own, strict=True)
            )
            found = bounds(table, index, NAMING.key(index.column, partition))
            assert found is not None
            assert not lows or (found[0] <= min(lows) and found[1] >= max(highs))


def bounds(table: Table, index: ExpressionIndex, key: str) -> tuple[Any, Any] | None:
    state = state_of(table)
    assert state.metadata is not None
    (entry,) = newest_entries(state.metadata, pa.array([key]), index.partition).to_pylist()
    if entry is None:
        return None
    low, high = (
        next((value["value"] for value in (entry[side] or {}).values() if value), None)
        for side in ("minValue", "maxValue")
    )
    return low, high


def check_reads(table: Table) -> None:
    """Scans by the functions return what scans without indexes return."""
    plain = pyhudi.open_table(table.path, options={"hoodie.enable.data.skipping": "false"})
    year, low = pc.year(pc.field("d")), pc.utf8_lower(pc.field("c"))
    for where in (
        DAY_TEXT == "2023-11-20", DAY_TEXT.isin(["2023-11-16", "2023-12-01"]),
        DAY_TEXT < "2023-11-17", year == 2003, year > 2010, low == "value 3", low == "value 24",
        pc.utf8_length(pc.field("e")) > 8, pc.utf8_length(pc.field("e")) == 7,
    ):  # fmt: skip
        mine, expected = (
            sorted(each.scan(["id"], where).to_arrow().column(0).to_pylist())
            for each in (table, plain)
        )
        assert mine == expected, where


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_each_write_leaves_the_indexes_exact(version: int, kind: str) -> None:
    table = created(version, kind)
    table.upsert(rows(range(12), 1))
    indexed(table, version)
    for step in (
        lambda: table.upsert(rows(range(6, 18), 2)),
        lambda: table.delete(keys=["k02", "k09"]),
        lambda: table.insert_overwrite(rows(range(30, 33), 3, parts=1)),
        lambda: table.upsert(rows(range(14, 24), 4, parts=3)),
        lambda: table.compact() if kind == "mor" else None,
        lambda: table.cluster(),
        lambda: table.delete_partitions(["p1"]),
        lambda: table.upsert(rows(range(40, 42), 5)),
        lambda: table.clean(),
    ):
        step()
        check_exact(table)
        check_reads(table)


def test_a_table_that_is_not_partitioned_has_an_entry_with_an_empty_name() -> None:
    table = indexed(created(9, "cow", partitioned=False), 9)
    table.upsert(rows(range(6), 1))
    check_exact(table)
    state = state_of(table)
    assert state.metadata is not None
    index = expression_indexes(state.fs, state.config)[0]
    keys = pa.array([NAMING.key(index.column, "")])
    (entry,) = newest_entries(state.metadata, keys, index.partition).to_pylist()
    assert (entry["fileName"], entry["isTightBound"]) == ("", True)


def test_filters_skip_files_and_plans_name_the_index() -> None:
    table = created(9, "mor")
    for n in range(4):
        table.insert(rows(range(5 * n, 5 * n + 5), 1, parts=1))
    indexed(table, 9)
    table.upsert(rows(range(2), 2, parts=1))
    for where, index in (
        (DAY_TEXT == "2023-11-30", "expr_index_day"),
        (pc.year(pc.field("d")) == 2007, "expr_index_year_d"),
        (pc.utf8_length(pc.field("e")) == 11, "expr_index_length_e"),
        (pc.utf8_lower(pc.field("c")) == "value 17", "expr_index_low"),
    ):
        assert table.scan(where=where).explain().skipped_by[index] >= 2
    check_reads(table)


def test_a_filter_on_the_column_itself_uses_its_bloom_filters() -> None:
    table = created(9, "cow")
    for n in range(3):
        table.insert(rows(range(5 * n, 5 * n + 5), 1, parts=1))
    for column in ("c", "ts"):
        table.index.create("expression", column, expression="identity", using="bloom_filters",
                           options={"filtertype": "SIMPLE", "numentries": 100})  # fmt: skip
    for where, index in (
        (pc.field("c").isin(["Value 3", "none"]), "expr_index_identity_c"),
        (pc.field("ts") == 1_700_000_001, "expr_index_identity_ts"),
    ):
        plan = table.scan(where=where).explain()
        assert plan.skipped_by.get(index) == 2
        assert table.scan(where=where).to_arrow().num_rows == 1


def test_empty_texts_are_written_and_found_with_bloom_filters() -> None:
    table = created(9, "cow")
    table.insert(rows(range(3), 1, parts=1))
    table.index.create("expression", "e", expression="lower", using="bloom_filters")
    table.insert(rows(range(12, 14), 1, parts=1))  # values "" and "+"
    for text, found in (("", ["k00", "k12"]), ("+", ["k01", "k13"]), ("none", [])):
        scan = table.scan(["id"], pc.utf8_lower(pc.field("e")) == text)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == found
    assert table.metadata.verify().is_healthy


def test_compaction_of_the_metadata_table_keeps_the_entries() -> None:
    table = indexed(created(9, "cow"), 9)
    compacting = pyhudi.open_table(
        table.path,
        options={**SMALL, "hoodie.metadata.compact.max.delta.commits": "2"},
    )
    for n in range(5):
        compacting.upsert(rows(range(n, n + 6), n + 1))
        check_exact(compacting)
    files = fs_of(compacting).children(".hoodie/metadata/expr_index_day")
    assert any(file.name.endswith(".hfile") for file in files)
    check_reads(compacting)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_rebuild_and_a_restore_leave_the_indexes_exact(kind: str) -> None:
    table = created(9, kind)
    table.upsert(rows(range(12), 1))
    indexed(table, 9)
    saved = table.savepoint().instant
    table.upsert(rows(range(6, 18), 2))
    table.metadata.rebuild()
    assert len(expression_indexes(fs_of(table), table.config)) == 4
    check_exact(table)
    table.restore(saved)
    assert len(expression_indexes(fs_of(table), table.config)) == 4
    check_exact(table)
    written = table.upsert(rows(range(6, 18), 3))
    table.rollback(written.instant)
    check_exact(table)
    check_reads(table)


def test_a_change_of_the_version_rebuilds_the_indexes_or_removes_them() -> None:
    table = created(8, "cow")
    table.upsert(rows(range(12), 1))
    indexed(table, 8)
    table.upgrade(to=9)
    assert {index.version for index in expression_indexes(fs_of(table), table.config)} == {2}
    check_exact(table)
    check_reads(table)
    table.downgrade(to=6)
    assert not any("expr" in name for name in table.config.metadata_partitions)


def test_a_dry_run_states_the_index_and_changes_nothing() -> None:
    table = created(9, "cow")
    before = table.config
    found = table.index.create(
        "expression", "ts", expression="from_unixtime", options=FORMAT, dry_run=True
    )
    assert (found.name, found.version, found.dry_run) == ("expr_index_from_unixtime_ts", "V2", True)
    assert table.config == before


def test_the_definition_is_that_of_apache_hudi() -> None:
    table = indexed(created(9, "cow"), 9)
    stored = json.loads(fs_of(table).read(".hoodie/.index_defs/index.json"))["indexDefinitions"]
    assert stored["expr_index_day"] == {
        "indexName": "expr_index_day", "indexType": "column_stats",
        "indexFunction": "from_unixtime", "sourceFields": ["ts"],
        "indexOptions": {"expr": "from_unixtime", "format": "yyyy-MM-dd"}, "version": "V2",
    }  # fmt: skip
    assert stored["expr_index_low"]["indexType"] == "bloom_filters"
    table.index.drop("day")
    assert "expr_index_day" not in {row["name"] for row in table.index.list().to_pylist()}
    table.upsert(rows(range(3), 1))


REJECTED = [
    ({"column": "ts", "expression": "abs"}, UserError),
    ({"column": "ts", "expression": None}, UserError),
    ({"column": "x", "expression": "year"}, UserError),
    ({"column": "c", "expression": "year"}, SchemaError),
    ({"column": "c", "expression": "lower", "using": "bitmap"}, UserError),
    ({"column": "c", "expression": "lower", "name": "a-b"}, UserError),
    ({"column": "c", "expression": "lower", "options": {"fpp": "0.1"}}, UserError),
    ({"column": "d", "expression": "date_format"}, UnsupportedTableError),
    ({"column": "c", "expression": "identity"}, UnsupportedTableError),
    ({"column": "d", "expression": "to_date", "using": "bloom_filters"}, SchemaError),
    ({"column": "c", "expression": "lower", "using": "bloom_filters",
      "options": {"filtertype": "x"}}, UnsupportedTableError),
]  # fmt: skip


@pytest.mark.parametrize("given, error", REJECTED, ids=str)
def test_indexes_that_cannot_be_made_are_rejected(
    given: dict[str, Any], error: type[Exception]
) -> None:
    table = created(9, "cow")
    with pytest.raises(error):
        table.index.create("expression", **given)
    assert not expression_indexes(fs_of(table), table.config)


def test_tables_that_apache_hudi_could_not_use_are_rejected() -> None:
    with pytest.raises(UnsupportedTableError, match="table version"):
        created(8, "cow").index.create("expression", "d", expression="year")
    with pytest.raises(UnsupportedTableError, match="of this version"):
        created(6, "cow").index.create("expression", "d", expression="year")
    with pytest.raises(UnsupportedTableError, match="bloom filters"):
        created(9, "mor").index.create("expression", "c", expression="lower", using="bloom_filters")
    without = new_table(
        f"memory://expressions{next(names)}", 9, SCHEMA,
        options={"hoodie.metadata.enable": "false", "hoodie.index.type": "BLOOM"},
    )  # fmt: skip
    if not without.config.metadata_partitions:
        with pytest.raises(IndexNotReadyError):
            without.index.create("expression", "d", expression="year")


def test_a_foreign_expression_refuses_writes_by_its_name() -> None:
    table = indexed(created(9, "mor"), 9)
    table.upsert(rows(range(6), 1))
    path = ".hoodie/.index_defs/index.json"
    stored = json.loads(fs_of(table).read(path))
    stored["indexDefinitions"]["expr_index_length_e"]["indexFunction"] = "regexp_extract"
    fs_of(table).replace(path, json.dumps(stored).encode())
    before = state_of(table).timeline
    for verb in (lambda: table.upsert(rows(range(6), 2)), table.compact, table.clean):
        with pytest.raises(UnsupportedTableError) as refused:
            verb()
        assert refused.value.facts["expression"] == "regexp_extract"
    assert list(state_of(table).timeline) == list(before)
    check_reads(table)


def test_an_indexed_column_cannot_change_to_a_type_without_the_function() -> None:
    table = created(9, "cow")
    table.upsert(rows(range(6), 1))
    table.index.create("expression", "d", expression="year")
    batch = rows(range(6), 2)
    as_text = batch.set_column(3, "d", batch.column("d").cast(pa.string()))
    with pytest.raises((UnsupportedTableError, SchemaError)):
        table.upsert(as_text)


def test_a_second_function_of_a_column_is_rejected_as_apache_hudi_confuses_them() -> None:
    table = indexed(created(9, "cow"), 9)
    with pytest.raises(UserError, match="another function"):
        table.index.create("expression", "c", expression="upper")
    table.index.create("expression", "c", expression="substring", options={"pos": 1, "len": 3})
