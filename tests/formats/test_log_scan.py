"""Which log blocks count, as storage_format 2.7 and table_format 5.4 say."""

from __future__ import annotations

import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock
from pyhudi.formats.log_scan import PlacedBlock, committed_blocks
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import Visibility


def placed(kind: BlockKind, name: str, **header: str) -> PlacedBlock:
    """A block; `name` is where it stands, so that tests can tell blocks apart."""
    return PlacedBlock(
        name, LogBlock(kind, {HeaderKey[k]: v for k, v in header.items()}, 0, 0, 0, 0)
    )


def rows(name: str, instant: str, **header: str) -> PlacedBlock:
    return placed(BlockKind.AVRO, name, INSTANT_TIME=instant, **header)


def deletes(name: str, instant: str) -> PlacedBlock:
    return placed(BlockKind.DELETE, name, INSTANT_TIME=instant)


def rollback(name: str, instant: str, target: str) -> PlacedBlock:
    return placed(
        BlockKind.COMMAND, name, INSTANT_TIME=instant, TARGET_INSTANT_TIME=target,
        COMMAND_BLOCK_TYPE="0",
    )  # fmt: skip


def merged(
    blocks: list[PlacedBlock], *completed: str, start: str | None = None, limit: str | None = None
) -> list[str]:
    visibility = Visibility(
        frozenset(InstantTime(t) for t in completed),
        None if start is None else InstantTime(start),
        None if limit is None else InstantTime(limit),
    )
    return [block.path for block in committed_blocks(blocks, visibility.sees)]


def test_blocks_of_completed_instants_are_retained_in_file_order() -> None:
    blocks = [rows("a", "1"), deletes("b", "1"), rows("c", "2")]
    assert merged(blocks, "1", "2") == ["a", "b", "c"]


def test_blocks_of_pending_instants_are_dropped() -> None:
    assert merged([rows("a", "1"), rows("b", "2"), rows("c", "3")], "1", "3") == ["a", "c"]


def test_instants_before_the_timeline_starts_count_as_completed() -> None:
    assert merged([rows("a", "1"), rows("b", "5"), rows("c", "6")], "5", start="5") == ["a", "b"]


def test_a_block_after_the_limit_is_skipped_and_does_not_end_the_scan() -> None:
    blocks = [rows("a", "1"), rows("late", "3"), rows("b", "2")]
    assert merged(blocks, "1", "2", "3", limit="2") == ["a", "b"]


def test_a_rollback_after_the_limit_still_counts() -> None:
    blocks = [rows("failed", "2"), rollback("r", "9", "2"), rows("b", "3")]
    assert merged(blocks, "2", "3", limit="3") == ["b"]


def test_a_rollback_takes_out_only_what_stands_before_it() -> None:
    blocks = [rows("a", "1"), rows("failed", "2"), rollback("r", "3", "2"), rows("again", "2")]
    assert merged(blocks, "1", "2") == ["a", "again"]


def test_a_rollback_of_nothing_is_harmless() -> None:
    assert merged([rollback("r", "2", "7"), rows("a", "1")], "1") == ["a"]


def test_a_rollback_reaches_back_over_later_commits() -> None:
    blocks = [rows("failed", "1"), rows("b", "2"), rollback("r", "3", "1")]
    assert merged(blocks, "1", "2") == ["b"]


def test_corrupt_blocks_are_passed_over() -> None:
    blocks = [rows("a", "1"), placed(BlockKind.CORRUPT, "bad"), rows("b", "2")]
    assert merged(blocks, "1", "2") == ["a", "b"]


def test_a_log_compaction_stands_where_its_last_input_stood() -> None:
    blocks = [
        rows("a", "1"), rows("b", "2"), rows("c", "3"),
        rows("ab", "4", COMPACTED_BLOCK_TIMES="2,1"), rows("d", "5"),
    ]  # fmt: skip
    assert merged(blocks, "1", "2", "3", "4", "5") == ["ab", "c", "d"]


def test_a_log_compaction_that_is_not_completed_leaves_its_inputs() -> None:
    blocks = [rows("a", "1"), rows("b", "2"), rows("ab", "4", COMPACTED_BLOCK_TIMES="2,1")]
    assert merged(blocks, "1", "2") == ["a", "b"]


def test_a_log_compaction_of_log_compactions_replaces_all() -> None:
    blocks = [
        rows("a", "1"), rows("b", "2"), rows("ab", "3", COMPACTED_BLOCK_TIMES="2,1"),
        rows("c", "4"), rows("abc", "5", COMPACTED_BLOCK_TIMES="4,3"),
    ]  # fmt: skip
    assert merged(blocks, "1", "2", "3", "4", "5") == ["abc"]


def test_of_a_task_that_ran_twice_the_fuller_attempt_counts() -> None:
    blocks = [
        rows("x0", "1", BLOCK_IDENTIFIER="0,0"),
        rows("y0", "1", BLOCK_IDENTIFIER="1,0"),
        rows("y1", "1", BLOCK_IDENTIFIER="1,1"),
    ]
    assert merged(blocks, "1") == ["y0", "y1"]


def test_of_equal_attempts_the_later_one_counts() -> None:
    blocks = [rows("x", "1", BLOCK_IDENTIFIER="0,0"), rows("y", "1", BLOCK_IDENTIFIER="1,0")]
    assert merged(blocks, "1") == ["y"]


@pytest.mark.parametrize("text", ["x,0", "0", "", "0,x", "-1,0", "0,0,0", "\u00b2,0"])
def test_a_malformed_block_identifier_does_not_select_an_attempt(text: str) -> None:
    """Apache Hudi 0.15 and 1.x do not read the identifier at all."""
    blocks = [
        rows("x", "1", BLOCK_IDENTIFIER=text),
        rows("y", "1", BLOCK_IDENTIFIER="1,0"),
        rows("z", "1", BLOCK_IDENTIFIER="1,1"),
    ]
    assert merged(blocks, "1") == ["x", "y", "z"]


def test_blocks_with_and_without_an_identifier_all_count() -> None:
    blocks = [rows("x", "1"), rows("y", "1", BLOCK_IDENTIFIER="1,0")]
    assert merged(blocks, "1") == ["x", "y"]


def test_the_attempt_that_counts_decides_what_a_log_compaction_replaces() -> None:
    blocks = [
        rows("a", "1"),
        rows("b", "2"),
        rows("first", "3", BLOCK_IDENTIFIER="0,0"),
        rows("again", "3", BLOCK_IDENTIFIER="1,0", COMPACTED_BLOCK_TIMES="2,1"),
    ]
    assert merged(blocks, "1", "2", "3") == ["again"]


@pytest.mark.parametrize("kind", [BlockKind.AVRO, BlockKind.DELETE])
def test_a_block_of_rows_without_an_instant_is_corrupt(kind: BlockKind) -> None:
    with pytest.raises(CorruptFileError, match="no instant"):
        merged([rows("a", "1"), placed(kind, "lost")], "1", start="1")


def damaged(name: str, instant: str) -> PlacedBlock:
    return placed(BlockKind.CORRUPT, name, INSTANT_TIME=instant)


@pytest.mark.parametrize("others", [[], [rows("x", "1")], [rows("log", "2")], [deletes("x", "1")]])
def test_a_damaged_block_of_a_committed_instant_is_an_error(others: list[PlacedBlock]) -> None:
    with pytest.raises(CorruptFileError, match="committed write is damaged"):
        merged([*others, damaged("log", "2")], "1", "2")


def test_a_damaged_block_of_no_committed_instant_is_skipped() -> None:
    assert merged([rows("a", "1"), damaged("log", "2")], "1") == ["a"]
    assert merged([rows("a", "1"), placed(BlockKind.CORRUPT, "log")], "1") == ["a"]


def test_a_damaged_block_that_was_rolled_back_is_skipped() -> None:
    blocks = [rows("a", "1"), damaged("log", "2"), rollback("r", "3", "2"), rows("again", "2")]
    assert merged(blocks, "1", "2") == ["a", "again"]


def test_a_damaged_block_of_a_write_that_was_attempted_again_is_skipped() -> None:
    assert merged([damaged("log", "2"), rows("second attempt", "2")], "2") == ["second attempt"]


def test_captured_changes_in_a_log_of_rows_are_an_error() -> None:
    """They have logs of their own: here the kind of a block of rows is damaged."""
    with pytest.raises(CorruptFileError, match="CDC block"):
        merged([rows("a", "1"), placed(BlockKind.CDC, "b", INSTANT_TIME="2")], "1", "2")
