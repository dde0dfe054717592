"""Plans of compactions: which slices they merge, as a record of the timeline and back.  Pure.

A plan names files, so what is merged does not depend on when it is carried out.
Source: table_format 4 (HoodieCompactionPlan), 7.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.view import FileSlice, TableView

_MIB: Final = 1 << 20
NEW_BASE_BYTES: Final = 120 * _MIB  # what Apache Hudi expects of a slice without a base file


def compactable(view: TableView, *, io_bytes_max: int) -> list[FileSlice]:
    """Slices with logs, those with most log bytes first, as many as the bytes allow.

    io_bytes_max: read and written in all; the slice that crosses it is still taken.  Groups that
    a pending service has claimed are left out.
    """
    claimed = view.pending.claimed
    found = [s for s in view.latest_slices() if s.logs and s.group not in claimed]
    found.sort(key=lambda s: (-s.log_bytes, s.group))
    chosen = []
    left = io_bytes_max
    for piece in found:
        if left <= 0:
            break
        chosen.append(piece)
        left -= piece.size_bytes + _written(piece)
    return chosen


def _written(piece: FileSlice) -> int:
    return piece.base.size_bytes if piece.base else NEW_BASE_BYTES


def compaction_record(slices: Sequence[FileSlice]) -> dict[str, Any]:
    """The record of a plan that merges these slices."""
    return {"operations": [_operation(piece) for piece in slices], "version": 2}


def _operation(piece: FileSlice) -> dict[str, Any]:
    return {
        "baseInstantTime": piece.instant,
        "deltaFilePaths": [str(log.name) for log in piece.logs],
        "dataFilePath": str(piece.base.name) if piece.base else None,
        "fileId": piece.file_id,
        "partitionPath": piece.partition,
        "metrics": metrics_of(piece),
    }


def metrics_of(piece: FileSlice) -> dict[str, float]:
    """What rewriting a slice costs, by Apache Hudi's names."""
    written = _written(piece)
    return {
        "TOTAL_LOG_FILES": float(len(piece.logs)),
        "TOTAL_LOG_FILES_SIZE": float(piece.log_bytes),
        "TOTAL_IO_READ_MB": float(piece.size_bytes // _MIB),
        "TOTAL_IO_WRITE_MB": float(written // _MIB),
        "TOTAL_IO_MB": float((piece.size_bytes + written) // _MIB),
    }


def planned_slices(
    view: TableView, operations: Iterable[Mapping[str, Any]], *, at: InstantTime
) -> list[FileSlice]:
    """The slices a plan names, each with the logs it names.

    Raises UnsupportedTableError if one is not there any more.
    """
    found = []
    for operation in operations:
        group = FileGroupId(operation["partitionPath"] or "", operation["fileId"])
        slices = view.groups[group].slices if group in view.groups else ()
        piece = next((s for s in slices if s.instant == operation["baseInstantTime"]), None)
        planned = set(operation["deltaFilePaths"] or ())
        logs = tuple(log for log in piece.logs if str(log.name) in planned) if piece else ()
        if piece is None or len(logs) < len(planned):
            raise UnsupportedTableError(
                "a pending compaction cannot be carried out: files it names are not there",
                instant=at,
                partition=group.partition,
                file_id=group.file_id,
            )
        found.append(replace(piece, logs=logs))
    return found
