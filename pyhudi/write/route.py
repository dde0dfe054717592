"""Routing: from the tags of every shard to the rows of one target.

A Router is built once in the process that writes, whatever number of targets it writes, and
costs one sort of the batch's row numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.write.assign import Route
from pyhudi.write.batch import Part
from pyhudi.write.staging import Staged
from pyhudi.write.tag import NEW, Action, ShardTags

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows of one target, in order of part and row.

    rows: the keyed columns.  action: Action per row.
    """

    rows: pa.Table
    action: npt.NDArray[np.uint8]


def route_shard(
    tags: pa.Table, route: Route, *, lost: npt.NDArray[np.int64] | None = None
) -> tuple[npt.NDArray[Any], ...]:
    """(part, row, target, action) of a shard's rows; `lost` are positions in tags to leave out."""
    home = tags.column("home").to_numpy()
    path = tags.column("path").to_numpy()
    target = np.full(len(home), -1, np.int32)
    known = home != NEW
    target[known] = np.asarray(route.homes or (-1,), np.int32)[home[known]]
    for number, dealt in enumerate(route.inserts):
        if not dealt:
            continue
        at = np.flatnonzero((path == number) & ~known)
        start = 0
        for count, to in dealt:
            target[at[start : start + count]] = to
            start += count
    columns = (
        tags.column("part").to_numpy(),
        tags.column("row").to_numpy(),
        target,
        tags.column("action").to_numpy(),
    )
    if lost is None or not len(lost):
        return columns
    keep = np.ones(len(home), np.bool_)
    keep[lost] = False
    return tuple(column[keep] for column in columns)


@dataclass
class Router:
    """Rows by target.  Picklable before first use; builds its index when first asked."""

    parts: tuple[Part, ...]
    tags: tuple[Staged, ...]
    routes: tuple[Route, ...]
    lost: tuple[Staged | None, ...]
    _index: Any = field(default=None, init=False, repr=False)
    _lock: Any = field(default_factory=threading.Lock, init=False, repr=False)

    @classmethod
    def of(
        cls,
        parts: Sequence[Part],
        shards: Sequence[ShardTags],
        routes: Sequence[Route],
        lost: Sequence[Staged | None],
    ) -> Router:
        return cls(tuple(parts), tuple(s.tags for s in shards), tuple(routes), tuple(lost))

    def __getstate__(self) -> dict[str, Any]:
        return {
            "parts": self.parts, "tags": self.tags, "routes": self.routes, "lost": self.lost
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _index=None, _lock=threading.Lock())

    def rows_of(self, target: int) -> Routed:
        """The rows of a target.  Copies only those rows."""
        part, row, action, starts = self._built()
        begin, end = starts[target], starts[target + 1]
        part, row, action = part[begin:end], row[begin:end], action[begin:end]
        tables = []
        cuts = np.searchsorted(part, np.arange(len(self.parts) + 1))
        for number in range(len(self.parts)):
            low, high = cuts[number], cuts[number + 1]
            if low < high:
                table = self.parts[number].staged.load()
                tables.append(table.take(pa.array(row[low:high])))
        if not tables:
            return Routed(self.parts[0].staged.load().slice(0, 0), action)
        return Routed(pa.concat_tables(tables), action)

    def _built(self) -> Any:
        with self._lock:
            if self._index is None:
                self._index = self._build()
            return self._index

    def _build(self) -> Any:
        pieces = []
        for tags, route, lost in zip(self.tags, self.routes, self.lost, strict=True):
            gone = None if lost is None else lost.load().column("position").to_numpy()
            pieces.append(route_shard(tags.load(), route, lost=gone))
        part, row, target, action = (
            np.concatenate([piece[i] for piece in pieces]) for i in range(4)
        )
        order = np.lexsort((row, part, target))
        target = target[order]
        highest = int(target[-1]) if len(target) else -1
        wanted = max((t for r in self.routes for t in r.homes), default=-1)
        for route in self.routes:
            wanted = max([wanted, *(t for dealt in route.inserts for _, t in dealt)])
        starts = np.searchsorted(target, np.arange(max(highest, wanted) + 2))
        return part[order], row[order], action[order], starts


__all__ = ["Action", "Routed", "Router", "route_shard"]
