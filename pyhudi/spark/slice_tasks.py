"""Reads of file slices by workers.

Workers import this module for their first task, so it imports what reads a slice, and not what
plans a scan.
"""

from __future__ import annotations

import heapq
import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from pyhudi.read.scan_tasks import ReadTask, read_logged, read_replaced, read_task
from pyhudi.spark.merged_reader import bitmaps
from pyhudi.spark.types import spark_batches
from pyhudi.spark.worker import Batches

_BATCH_ROWS: Final = 32 * 1024


_GROUP_BYTES: Final = 128 << 20
"""Bytes of files in a group from which there are more groups than the session runs at once."""

_GROUPS_MAX: Final = 32
"""Maximum number of groups per task that runs at once."""

_SLICE_BYTES: Final = 256 << 10
"""What opening the files of a slice costs, as bytes."""


@dataclass(frozen=True, slots=True)
class SliceWork:
    """A slice to read.  logged_only: without the unchanged rows of its base file."""

    task: ReadTask
    logged_only: bool = False


@dataclass(frozen=True, slots=True)
class ReadWork:
    """Groups of slices to read, by `packed_groups`, and the schema that Spark expects of rows."""

    groups: tuple[bytes, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class ReplacedWork:
    """Groups of slices whose replaced rows are determined, by `packed_groups`."""

    groups: tuple[bytes, ...]
    salt: str


def slice_groups(work: Sequence[SliceWork], *, parallelism: int) -> list[list[SliceWork]]:
    """Slices by Spark task.  A task costs as much as reading some small slices, so there is one
    for each slice only where slices are large or few."""
    costs = [_SLICE_BYTES + item.task.slice.size_bytes for item in work]
    count = max(parallelism, min(_GROUPS_MAX * parallelism, sum(costs) // _GROUP_BYTES))
    found: list[list[SliceWork]] = [[] for _ in range(min(count, len(work)))]
    least = [(0, number) for number in range(len(found))]
    for at in sorted(range(len(work)), key=lambda at: -costs[at]):
        cost, number = least[0]
        found[number].append(work[at])
        heapq.heapreplace(least, (cost + costs[at], number))
    return found


class _Pickler(Protocol):
    def dumps(self, value: Any) -> bytes: ...


def packed_groups(groups: Sequence[Sequence[SliceWork]], pickler: _Pickler) -> tuple[bytes, ...]:
    """Each group as bytes.  Every task receives those of all groups and opens its own; slices of a
    group share what they have in common."""
    return tuple(zlib.compress(pickler.dumps(list(group)), 1) for group in groups)


def read_batches(work: ReadWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of the file slices whose numbers are in the batches; runs on workers."""
    for item in _opened(work.groups, batches):
        rows = read_logged(item.task) if item.logged_only else read_task(item.task)
        yield from spark_batches(rows, work.schema, rows=_BATCH_ROWS)


def replaced_batches(work: ReplacedWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Bitmaps of the file slices whose numbers are in the batches; runs on workers."""
    for item in _opened(work.groups, batches):
        task = item.task
        assert task.slice.base is not None
        found = read_replaced(task)
        if len(found):
            yield bitmaps(found, task.slice.base.path.rpartition("/")[2], work.salt)


def _opened(groups: Sequence[bytes], batches: Batches) -> Iterator[SliceWork]:
    """The slices of the groups whose numbers are in the batches."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from pickle.loads(zlib.decompress(groups[number]))
