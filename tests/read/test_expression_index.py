"""Filters on a function of a column skip files by an expression index of Apache Hudi."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.metadata.expression_index.definition import ExpressionIndex, ExpressionKind
from pyhudi.metadata.expression_index.functions import Expression
from pyhudi.metadata.expression_index.time_zones import in_any_zone
from pyhudi.metadata.file_stats.ranges import ColumnRanges
from pyhudi.read.arrow_filter import arrow_tree
from pyhudi.read.skipping.expression_index import UsableIndex, on_ranges
from tests.metadata.secondary_index.foreign import foreign_table
from tests.support.inside import fs_of

DAY, LOWER = pc.day(pc.field("d")), pc.utf8_lower(pc.field("name"))
SKIPPED = (
    (DAY == 31, "expr_index_by_day"),
    (DAY < 21, "expr_index_by_day"),
    ((DAY > 25) & (pc.field("n") > 0), "expr_index_by_day"),
    (LOWER == "dora", "expr_index_by_lower"),
    ((LOWER == "ann") | (LOWER == "anna"), "expr_index_by_lower"),
)


def found(table: Table, where: pc.Expression) -> list[str]:
    return sorted(table.scan(["id"], where).to_arrow().column(0).to_pylist())


@pytest.mark.parametrize("where, index", SKIPPED, ids=str)
def test_files_are_skipped_by_the_ranges_of_the_expression(
    where: pc.Expression, index: str, tmp_path: Path
) -> None:
    table = foreign_table(tmp_path, "indexed_cow_v9")
    plain = pyhudi.open_table(table.path, options={"hoodie.enable.data.skipping": "false"})
    plan = table.scan(where=where).explain()
    assert plan.skipped_by.get(index) == 1 and len(plan.tasks) == 1
    assert found(table, where) == found(plain, where)


UNDECIDED = (
    ~(DAY == 31), DAY.is_null(), DAY != 5, LOWER != "x", LOWER > "zz", LOWER == "É",
    pc.utf8_upper(pc.field("name")) == "X", pc.month(pc.field("d")) == 7,
    (DAY == 31) | (pc.field("id") == "k1"),
)  # fmt: skip


@pytest.mark.parametrize("where", UNDECIDED, ids=str)
def test_other_filters_read_every_file(where: pc.Expression, tmp_path: Path) -> None:
    table = foreign_table(tmp_path, "indexed_cow_v9")
    plan = table.scan(where=where).explain()
    assert not any(name.startswith("expr_index") for name in plan.skipped_by)


def test_text_that_java_lowers_to_more_characters_is_not_lost() -> None:
    lower = Expression("lower", "name")
    index = UsableIndex(ExpressionIndex("x", lower, ExpressionKind.COLUMN_STATS, 2), pa.string())
    node = arrow_tree(LOWER == "mini")
    assert "mi\u0308" in str(on_ranges(node, index)) and "mini" in str(on_ranges(node, index))


def test_indexes_of_apache_hudi_are_maintained_and_dropped(tmp_path: Path) -> None:
    table = foreign_table(tmp_path, "indexed_cow_v9")
    table.delete(keys="k1")
    plan = table.scan(where=DAY == 31).explain()
    assert plan.skipped_by.get("expr_index_by_day") == 1
    for name in ("expr_index_by_day", "by_lower", "by_year"):
        table.index.drop(name)
    assert not any("expr" in row["name"] for row in table.index.list().to_pylist())
    assert not fs_of(table).children(".hoodie/metadata/expr_index_by_day")
    assert b"expr_index" not in fs_of(table).read(".hoodie/.index_defs/index.json")
    assert found(table, DAY == 31) == ["k4"]


ZONED = (
    ("from_unixtime", {"format": "yyyy-MM-dd"}, ["2023-11-14", "+10000-01-01"],
     ["2023-11-16", "+10000-01-01"], ["2023-11-13", None], ["2023-11-18", None]),
    ("date_format", {"format": "yyyy"}, ["2023"], ["2023"], ["2022"], ["2024"]),
    ("from_unixtime", {"format": "yyyyMMddHHmmss"}, ["20240301000000"], ["20241231235959"],
     ["20240229000000"], ["20250102000000"]),
)  # fmt: skip


@pytest.mark.parametrize("function, options, low, high, lower, higher", ZONED, ids=str)
def test_ranges_of_times_cover_the_zones_of_every_writer(
    function: str, options: dict[str, str], low: list[str], high: list[str], lower: list[str],
    higher: list[str],
) -> None:  # fmt: skip
    flags = np.ones(len(low), np.bool_)
    ranges = ColumnRanges(pa.array(low), pa.array(high), flags, flags, flags, flags)
    expression = Expression(function, "t", tuple(options.items()))
    wide = in_any_zone(ranges, expression)
    assert wide.low.to_pylist() == lower and wide.high.to_pylist() == higher
    assert wide.is_bounded.tolist() == [bound is not None for bound in lower]


@pytest.mark.parametrize("using", ["column_stats", "bloom_filters"])
def test_values_that_paths_state_are_not_looked_for_in_an_index_of_files(
    using: str, tmp_path: Path
) -> None:
    schema = pa.schema({"id": pa.string(), "name": pa.string()})
    table = pyhudi.create_table(tmp_path, schema, record_key="id", partition_by="name", version=9)
    table.upsert(pa.table({"id": ["a", "b"], "name": ["Ann", "Bob"]}, schema))
    table.index.create("expression", "name", expression="lower", using=using)
    table.upsert(pa.table({"id": ["a"], "name": ["Cid"]}, schema))  # it stays with Ann
    assert found(table, LOWER == "ann") == ["a"]
    assert found(table, LOWER == "cid") == []
