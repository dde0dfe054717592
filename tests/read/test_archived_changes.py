"""Incremental reads of tables of version 8 whose older commits are archived."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from tests.support.foreign import foreign_table

FIRST = "20251021220754468"  # archived, completed 20251021220800401
SECOND = "20251021220800584"  # archived, completed 20251021220801343
SECOND_DONE = "20251021220801343"
ACTIVE = "20251021220801442"  # the first active commit
ACTIVE_DONE = "20251021220802386"


def changed(root: Path, since: str, until: str | None) -> set[str]:
    found = pyhudi.open_table(root).changes(since, until).to_arrow()
    return set(found["id"].to_pylist())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return foreign_table("archived_cow_v8", tmp_path)


def test_rows_of_archived_commits_before_the_range_are_left_out(root: Path) -> None:
    assert changed(root, SECOND_DONE, ACTIVE_DONE) == {"id1"}
    assert changed(root, SECOND, ACTIVE) == {"id1"}, "an instant means the position after it"
    assert changed(root, "20251021220802386", "20251021220803598") == {"id2"}


@pytest.mark.parametrize(
    ("since", "until", "ids"),
    [
        ("000", SECOND_DONE, {"id1", "id2", "id3", "id4", "id5", "id6", "id7"}),
        ("20251021220800401", SECOND_DONE, {"id6", "id7"}),
        ("20251021220800401", "20251021220805633", {"id1", "id6", "id7", "id2", "id8"}),
    ],
)
def test_ranges_that_reach_into_the_archive_have_the_rows_of_their_end(
    since: str, until: str, ids: set[str], root: Path
) -> None:
    """Apache Hudi 1.2.0 leaves out what later commits wrote or deleted."""
    assert changed(root, since, until) == ids


def test_all_changes_are_all_rows(root: Path) -> None:
    table = pyhudi.open_table(root)
    assert changed(root, "000", None) == set(table.scan().to_arrow()["id"].to_pylist())
    assert changed(root, "20251021220809092", None) == set()


def test_a_difference_to_an_archived_moment_knows_its_rows(root: Path) -> None:
    """The snapshot before the range holds rows of the archived commits completed by then."""
    table = pyhudi.open_table(root)
    found = table.diff("20251021220800401", "20251021220801343").to_pylist()
    assert sorted(row["record_key"] for row in found) == ["id6", "id7"]
    assert {row["change"] for row in found} == {"insert"}
    assert table.diff(FIRST, SECOND).num_rows == 2, "instants mean the positions after them"
    updates = table.diff("20251021220801343", "20251021220803598").to_pylist()
    assert sorted((row["record_key"], row["change"]) for row in updates) == [
        ("id1", "update"),
        ("id2", "update"),
    ]
