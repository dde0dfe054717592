"""Which blocks of a slice's logs a reader believes, and in which order they are merged.

Pure.  Two passes over the blocks in file order:

1. corrupt ones are passed over; data and delete blocks of instants the reader does not see are
   dropped; a rollback command takes out what its target wrote before it;
2. what a log compaction merged gives way to its block, at the place of the first of them.

Rule 1 applies to data and delete blocks only: a rollback counts whenever it was written, and
nothing ends the scan early.  Source: table_format 5.4, storage_format 2.7 (scan v2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.formats.logfile import BlockKind, HeaderKey, LogBlock
from pyhudi.records import InstantTime
from pyhudi.table.view import Visibility

_ROWS: Final = frozenset({BlockKind.AVRO, BlockKind.PARQUET, BlockKind.HFILE, BlockKind.DELETE})


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block and the log file (path from the table's root) it stands in."""

    path: str
    block: LogBlock


def believed(blocks: Iterable[PlacedBlock], visibility: Visibility) -> list[PlacedBlock]:
    """The data and delete blocks to merge, oldest first.  blocks: in order of the slice's logs."""
    by_instant = _seen(blocks, visibility)
    by_instant = {time: _one_attempt(found) for time, found in by_instant.items()}
    return _after_log_compaction(by_instant)


def _seen(blocks: Iterable[PlacedBlock], visibility: Visibility) -> dict[str, list[PlacedBlock]]:
    """Blocks by instant, instants in order of first appearance."""
    by_instant: dict[str, list[PlacedBlock]] = {}
    for placed in blocks:
        block = placed.block
        if block.is_rollback:
            by_instant.pop(block.target_instant or "", None)
        elif block.kind in _ROWS:
            time = block.instant or ""
            if visibility.sees(InstantTime(time)):
                by_instant.setdefault(time, []).append(placed)
    return by_instant


def _one_attempt(blocks: list[PlacedBlock]) -> list[PlacedBlock]:
    """Of a task that ran twice, the attempt with most blocks; the later one on a tie."""
    attempts: dict[int, list[PlacedBlock]] = {}
    for placed in blocks:
        text = placed.block.header.get(HeaderKey.BLOCK_IDENTIFIER, "")
        number, _, sequence = text.partition(",")
        if not (number.isdigit() and sequence.isdigit()):
            return blocks
        attempts.setdefault(int(number), []).append(placed)
    if len(attempts) < 2:
        return blocks
    return max(attempts.items(), key=lambda item: (len(item[1]), item[0]))[1]


def _after_log_compaction(by_instant: dict[str, list[PlacedBlock]]) -> list[PlacedBlock]:
    replaced_by: dict[str, str] = {}
    queue: list[Sequence[PlacedBlock]] = []
    done: set[str] = set()
    for time in reversed(by_instant):
        merged = by_instant[time][0].block.compacted_instants
        if merged:
            home = replaced_by.get(time, time)
            for old in merged:
                replaced_by[old] = home
            continue
        home = replaced_by.get(time, time)
        if home not in done:
            done.add(home)
            queue.append(by_instant[home])
    return [placed for found in reversed(queue) for placed in found]
