"""The checker finds what it is there to find: each test tells it a story that the table is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from tests.history.check import Verdict, check
from tests.history.ops import Diary, Writer, new_table, rows


class Story:
    """One writer whose diary can be written to by hand."""

    def __init__(self) -> None:
        self.fs, self.diary = MemoryFileSystem(), Diary()
        new_table(self.fs, TableType.MERGE_ON_READ)
        self.writer = Writer(self.fs, "w", self.diary, seed=1, keys=40)

    def upsert(self, op: str, keys: list[int], *, noted_as: str = "upsert",
               noted_keys: list[int] | None = None, **reported: int) -> str:  # fmt: skip
        """A real upsert; the diary may call it something else.  Its instant."""
        self.diary.note(op=op, kind=noted_as, keys=noted_keys or keys, part="")
        report = self.writer._table(op).upsert(rows(keys, op))
        self.writer._look()
        counts = {"inserted": report.inserted, "updated": report.updated, "deleted": 0,
                  "missing": 0, **reported}  # fmt: skip
        self.diary.note(op=op, instant=report.instant, **counts)
        assert report.instant is not None
        return str(report.instant)

    def read(self, **facts: Any) -> None:
        now = time.time()
        self.diary.note(**{"op": "r", "kind": "read", "began": now, **facts})

    def problems(self) -> list[str]:
        return check(self.fs, self.diary.lines).problems


@pytest.fixture
def story() -> Iterator[Story]:
    made = Story()
    made.upsert("a", [1, 2, 3])
    yield made


def test_a_story_as_it_was_has_no_problem(story: Story) -> None:
    story.upsert("b", [2, 4])
    story.read(rows={"k1": "a", "k2": "b", "k3": "a", "k4": "b"}, count=4)
    story.writer.write("c", "delete")
    story.writer.write("d", "insert_overwrite")
    assert story.problems() == []


def test_a_partly_missing_delete_that_did_nothing_is_found(story: Story) -> None:
    story.upsert("b", [9], noted_as="delete", noted_keys=[1, 30], inserted=0, deleted=1, missing=1)
    assert any(problem.startswith("now: k1 is a") for problem in story.problems())


def test_a_partly_missing_delete_removes_the_keys_that_are_there(story: Story) -> None:
    story.diary.note(op="d", kind="delete", keys=[1, 30], part="")
    report = story.writer._table("d").delete(keys=["k1", "k30"])
    story.writer._look()
    story.diary.note(op="d", instant=report.instant, inserted=0, updated=0,
                     deleted=report.deleted, missing=report.missing_keys)  # fmt: skip
    assert (report.deleted, report.missing_keys) == (1, 1)
    assert story.problems() == []


def test_a_delete_that_reports_other_counts_is_found(story: Story) -> None:
    story.upsert("b", list(range(40)))
    story.writer.write("d", "delete")
    story.diary.lines[-1]["missing"] += 1
    assert any("reported" in problem for problem in story.problems())


def test_a_lost_update_is_found(story: Story) -> None:
    story.upsert("b", [7], noted_keys=[1, 7], inserted=1, updated=1)
    assert any(problem.startswith("now: k1") for problem in story.problems())


def test_a_lost_commit_is_found(story: Story) -> None:
    story.diary.note(op="x", kind="upsert", keys=[5], part="")
    story.diary.note(
        op="x", instant="20300101000000000", inserted=1, updated=0, deleted=0, missing=0
    )
    assert any(problem.startswith("acknowledged and lost") for problem in story.problems())


def test_a_read_of_a_state_that_never_was_is_found(story: Story) -> None:
    story.upsert("b", [1, 2, 3])
    story.read(rows={"k1": "b", "k2": "a", "k3": "b"}, count=3)
    assert any("no state of" in problem for problem in story.problems())


def test_a_read_that_misses_what_was_acknowledged_before_it_is_found(story: Story) -> None:
    story.upsert("b", [1, 2, 3])
    story.read(rows={"k1": "a", "k2": "a", "k3": "a"}, count=3)
    assert any("no state of" in problem for problem in story.problems())


@pytest.mark.parametrize("error", ["SnapshotExpiredError", "UserError", "CorruptFileError"])
def test_a_reader_s_error_that_nothing_explains_is_found(story: Story, error: str) -> None:
    story.read(error=error, what="")
    assert any("a read failed" in problem for problem in story.problems())


def test_a_restore_undoes_what_came_after_and_nothing_else(story: Story) -> None:
    table = story.writer._table("")
    saved = table.savepoint()
    story.upsert("b", [1, 4])
    story.writer._table("").restore(str(saved.instant))
    story.writer._look()
    story.upsert("c", [3])
    verdict: Verdict = check(story.fs, story.diary.lines)
    assert verdict.problems == [] and (verdict.commits, verdict.undone) == (2, 1)
