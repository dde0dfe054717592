"""Filter trees: Arrow expressions become trees and trees become the same expressions again."""

from __future__ import annotations

import operator
import pickle
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.read.arrow_filter import arrow_tree
from pyhudi.read.filters import as_predicate
from pyhudi.read.predicate import And, Column, Compare, In, Not, Or, Unknown, literal, to_arrow
from tests.support.arrow_filter_cases import ArrowGenerator
from tests.support.filter_cases import SCHEMA as ALL_TYPES

F = pc.field
SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("name", pa.string()), ("x", pa.float32()), ("it's", pa.int64()),
        ("st", pa.struct([("a", pa.struct([("b", pa.int64())]))])), ("name2", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)  # fmt: skip

ANALYZED = (
    F("id") == 5, pc.scalar(5) < F("id"), F("it's") == 1, F("st", "a", "b") == 1,
    ~(F("id").isin([1, None]) & F("name").is_valid()), F("x").is_null(nan_is_null=True),
    pc.is_in(F("id"), pa.array([1, None]), skip_nulls=True), F("x").isin([float("nan"), -0.0]),
    F("id").isin([]), F("id").cast(pa.int8(), safe=False) == 1, F("name") == "x'\n: 'y'",
    pc.strftime(F("ts"), format="%Y") == "2026", pc.match_like(F("name"), "a%"),
    pc.utf8_slice_codeunits(F("name"), 0, 2) == "ab", pc.coalesce(F("id"), 0) > 1,
    pc.if_else(F("x") > 1, F("id"), 2) == 2, pc.year(F("ts")) == 2026, pc.scalar(True),
)  # fmt: skip


@pytest.mark.parametrize("where", ANALYZED, ids=lambda e: str(e).replace("\n", ""))
def test_an_expression_is_that_of_its_tree(where: pc.Expression) -> None:
    tree = arrow_tree(where)
    assert not isinstance(tree, Unknown)
    again = to_arrow(tree)
    assert again.equals(where) or str(again) == str(where)
    assert pickle.loads(pickle.dumps(as_predicate(where, SCHEMA))).arrow.equals(again) or (
        "nan" in str(where)
    )


def test_chains_are_one_node() -> None:
    tree = arrow_tree((F("id") > 1) & ((F("id") < 5) & (F("id") != 3)) & ~(F("x") > 1))
    column = Column(("id",))
    assert tree == And(
        (Compare(">", column, literal(1)), Compare("<", column, literal(5)),
         Compare("!=", column, literal(3)), Not(Compare(">", Column(("x",)), literal(1))))
    )  # fmt: skip


@pytest.mark.parametrize(
    "where, columns, why",
    [
        (pc.round(F("x"), 2) == 1, ("x",), "has functions that are not analyzed: round"),
        (~(pc.index_in(F("name2"), pa.array(["a"])) == 1), ("name2",),
         "has functions that are not analyzed: index_in"),
        (reduce(lambda found, _: ~found, range(300), F("id") == 1), ("id",),
         "is nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_not_analyzed_is_applied_to_the_rows_and_reported(
    where: pc.Expression, columns: tuple[str, ...], why: str
) -> None:
    found = as_predicate(where, SCHEMA)
    assert (found.columns, found.refused, found.analyzed) == (columns, why, None)
    stored = pa.schema([field for field in SCHEMA if field.name != "it's"])
    table = pyhudi.create_table(f"memory://applied-{why[-5:]}", stored, record_key="id")
    table.insert(pa.Table.from_pylist([{"id": 1, "name2": "a", "x": 1.0}], stored))
    scan = table.scan(where=where)
    assert scan.count() == table.to_arrow().filter(where).num_rows
    assert f"index       not used: the filter {why}" in str(scan.explain())
    assert scan.plan.tasks[0].spec.filter_columns == columns


def test_conditions_joined_to_unknown_ones_are_analyzed() -> None:
    unknown, low, high = pc.round(F("x"), 2) == 1, F("id") > 1, F("name") == "b"
    for where, expected in (
        (low & (unknown & high), low & high), ((unknown & low) | high, low | high),
        (~unknown & low & (unknown | high), low), (unknown | low, None), (~(unknown & low), None),
    ):  # fmt: skip
        found = as_predicate(where, SCHEMA)
        assert str(found.analyzed) == str(expected)
        assert found.refused == "has functions that are not analyzed: round"
        assert "x" in found.columns
    table = pyhudi.create_table("memory://partly", SCHEMA.remove(3), record_key="id")
    note = "index       partly used: the filter has functions that are not analyzed: round"
    assert note in str(table.scan(where=unknown & low).explain())


def test_a_long_chain_is_analyzed() -> None:
    found = as_predicate(reduce(operator.or_, [F("id") == n for n in range(3000)]), SCHEMA)
    assert isinstance(found.tree, Or) and len(found.tree.sides) == 3000


def test_a_mismatch_names_the_columns_of_unknown_conditions_too() -> None:
    where = (F("id") == 1) & (pc.round(F("x"), 2) == "a")
    with pytest.raises(UserError, match="id is int64, x is float: compare with values"):
        as_predicate(where, SCHEMA)


@pytest.mark.parametrize("where", [F(0) == 1, (F("id") == 1) & (F(1) == "a")], ids=str)
def test_columns_are_not_named_by_their_positions(where: pc.Expression) -> None:
    """A scan reads some of the columns, so that positions would name others."""
    with pytest.raises(UserError, match="names a column by its position"):
        as_predicate(where, SCHEMA)


def test_lists_have_the_width_of_a_floating_column() -> None:
    tree = as_predicate(~F("x").isin([0.1]), SCHEMA).tree
    assert tree == Not(In(Column(("x",)), pa.array([0.1], pa.float32())))


def test_generated_expressions_are_those_of_their_trees() -> None:
    generator = ArrowGenerator(7)
    known = 0
    for _ in range(200):
        where = generator.expression()
        found = as_predicate(where, ALL_TYPES)
        known += found.refused is None
        assert {*found.columns} == {n for n in ALL_TYPES.names if not _binds_without(where, n)} or (
            found.columns == tuple(ALL_TYPES.names)
        )
    assert known > 150


def _binds_without(where: pc.Expression, name: str) -> bool:
    rest = pa.schema([field for field in ALL_TYPES if field.name != name])
    try:
        rest.empty_table().filter(where)
    except pa.ArrowException:
        return False
    return True
