"""Selection of the committed blocks in a file slice's logs, and their merge order.

Pure; every reader of log files uses it: scans and compaction of the data table, planners, and
the metadata table.  Two passes over the blocks in file order:

1. corrupt blocks are skipped, unless a committed instant wrote them; data and delete blocks of
   uncommitted instants are dropped; a rollback command removes the blocks that its
   target wrote before it;
2. blocks merged by a log compaction are replaced by its blocks, at the position of the newest
   merged block.

A writer that fails during an append leaves a corrupt block.  One whose header names a
committed instant has lost acknowledged rows, unless the write was retried in
another log of the slice.  Apache Hudi skips it (docs/differences.md).

A rollback command is valid wherever it was written, and no block ends the scan early.
Source: table_format 5.4, storage_format 2.7; BaseHoodieLogRecordReader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptFileError
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock
from pyhudi.records import InstantTime

_ROW_KINDS: Final = frozenset(
    {BlockKind.AVRO, BlockKind.PARQUET, BlockKind.HFILE, BlockKind.DELETE}
)

IsCommitted = Callable[[InstantTime], bool]
"""Whether readers see the writes of an instant."""


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block and its log file.  path: from the table's root."""

    path: str
    block: LogBlock


def committed_blocks(blocks: Iterable[PlacedBlock], is_committed: IsCommitted) -> list[PlacedBlock]:
    """The data and delete blocks to merge, oldest first.

    blocks: all blocks of the slice's logs, in the order of the logs.
    Raises CorruptFileError for a data or delete block without an instant, for a CDC block,
    which belongs in a separate log, and for a corrupt block of a committed instant without
    blocks in another log of the slice.
    """
    by_instant = {
        time: _one_attempt(written) for time, written in _committed(blocks, is_committed).items()
    }
    return _after_log_compaction(by_instant)


def holds_committed_rows(placed: PlacedBlock, is_committed: IsCommitted) -> bool:
    """Whether it is a data or delete block of a committed instant.

    Raises CorruptFileError for such a block without an instant.
    """
    return placed.block.kind in _ROW_KINDS and is_committed(_instant_of(placed))


def _instant_of(placed: PlacedBlock) -> InstantTime:
    instant = placed.block.instant
    if not instant:
        raise CorruptFileError(
            "a log block has no instant time", path=placed.path, offset=placed.block.offset
        )
    return InstantTime(instant)


def _committed(
    blocks: Iterable[PlacedBlock], is_committed: IsCommitted
) -> dict[str, list[PlacedBlock]]:
    """Blocks by instant, instants in order of first appearance."""
    by_instant: dict[str, list[PlacedBlock]] = {}
    damaged: dict[str, PlacedBlock] = {}
    for placed in blocks:
        if placed.block.is_rollback:
            by_instant.pop(placed.block.target_instant or "", None)
            damaged.pop(placed.block.target_instant or "", None)
        elif holds_committed_rows(placed, is_committed):
            by_instant.setdefault(_instant_of(placed), []).append(placed)
        elif placed.block.kind is BlockKind.CDC:
            raise CorruptFileError(
                "CDC block in a log of rows", path=placed.path, offset=placed.block.offset
            )
        elif _is_damaged(placed.block, is_committed):
            damaged.setdefault(_instant_of(placed), placed)
    for instant, placed in damaged.items():
        if all(whole.path == placed.path for whole in by_instant.get(instant, ())):
            raise CorruptFileError(
                "a log block of a committed write is damaged",
                path=placed.path,
                offset=placed.block.offset,
                instant=instant,
                hint="run table.doctor() to list possible repairs",
            )
    return by_instant


def _is_damaged(block: LogBlock, is_committed: IsCommitted) -> bool:
    """Whether a committed instant wrote it; a non-numeric instant is corruption."""
    stated = block.instant or ""
    is_stated = block.kind is BlockKind.CORRUPT and stated.isdecimal()
    return is_stated and is_committed(InstantTime(stated))


def _one_attempt(blocks: list[PlacedBlock]) -> list[PlacedBlock]:
    """For a task that ran twice, the attempt with most blocks; the later one on a tie.

    All blocks, if one has no identifier or a malformed one: only Apache Hudi 0.14 wrote
    identifiers, and later versions do not read them.
    """
    attempts: dict[int, list[PlacedBlock]] = {}
    for placed in blocks:
        number, _, sequence = placed.block.header.get(HeaderKey.BLOCK_IDENTIFIER, "").partition(",")
        if not (number.isdecimal() and sequence.isdecimal()):
            return blocks
        attempts.setdefault(int(number), []).append(placed)
    return max(attempts.items(), key=lambda item: (len(item[1]), item[0]))[1]


def _after_log_compaction(by_instant: dict[str, list[PlacedBlock]]) -> list[PlacedBlock]:
    replaced_by: dict[str, str] = {}
    newest_first: dict[str, list[PlacedBlock]] = {}
    for time in reversed(by_instant):
        merged = by_instant[time][0].block.compacted_instants
        final = replaced_by.get(time, time)
        if merged:
            replaced_by.update(dict.fromkeys(merged, final))
        else:
            newest_first.setdefault(final, by_instant[final])
    return [placed for time in reversed(newest_first) for placed in newest_first[time]]
