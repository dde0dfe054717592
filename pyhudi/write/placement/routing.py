"""Routing of tagged rows to targets.

Tags are grouped by the destination of their rows (see `tagging`), so a target's rows are a few
slices of each bucket's tags; finding them costs only a sort of the target's row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Ints, Longs, inverse, taken
from pyhudi.index.contract import UNKNOWN
from pyhudi.records import PARTITION_PATH
from pyhudi.storage.spill import Staged
from pyhudi.write.input.batch import BatchChunk, take_rows
from pyhudi.write.placement.assignment import Route
from pyhudi.write.placement.tagging import BucketTags, RowAction


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows of one target, ordered by part and row.

    rows: the keyed columns.  action: RowAction per row.  positions: the row of each stored record
    in the target's base file, or UNKNOWN; None if no index looked for it.
    """

    rows: pa.Table
    action: npt.NDArray[np.uint8]
    positions: Ints | None = None

    @property
    def puts(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows that are written; the others delete their record in this target."""
        return np.asarray(self.action == RowAction.PUT, np.bool_)

    @classmethod
    def concat(cls, first: Routed, second: Routed) -> Routed:
        """The rows of both, without positions."""
        rows = pa.concat_tables([first.rows, second.rows])
        return cls(rows, np.concatenate([first.action, second.action]))

    def of(self, mask: npt.NDArray[np.bool_]) -> Routed:
        """The rows of a mask."""
        positions = None if self.positions is None else self.positions[mask]
        return Routed(self.rows.filter(pa.array(mask)), self.action[mask], positions)


def stretches(route: Route) -> Iterator[tuple[int, int, int]]:
    """(begin, end, target) ranges of a bucket's tags, in order."""
    begin = 0
    for target, count in zip(route.homes, route.home_counts, strict=True):
        yield begin, begin + count, target
        begin += count
    for dealt in route.inserts:
        for count, target in dealt:
            yield begin, begin + count, target
            begin += count


def targets_of(route: Route) -> Ints:
    """The target of each of a bucket's tags."""
    found = list(stretches(route))
    counts = [end - begin for begin, end, _ in found]
    return np.repeat(np.array([target for _, _, target in found], np.int32), counts)


def lost_of(lost: Staged | None, count: int) -> npt.NDArray[np.bool_] | None:
    """Mask over a bucket's tags of rows that lose to a stored record; None if there are none."""
    if lost is None:
        return None
    mask = np.zeros(count, np.bool_)
    mask[lost.load().column("position").to_numpy()] = True
    return mask


@dataclass(frozen=True, slots=True)
class Router:
    """Rows by target.  Can be pickled if its parts can.

    places, buckets: what was read of `routes` and `tags`, so that a target costs only its rows.
    """

    parts: tuple[BatchChunk, ...]
    tags: tuple[Staged, ...]
    routes: tuple[Route, ...]
    lost: tuple[Staged | None, ...]
    places: dict[int, list[_Place]] = field(default_factory=dict, init=False, compare=False)
    buckets: dict[int, _Bucket] = field(default_factory=dict, init=False, compare=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.parts, self.tags, self.routes, self.lost

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @classmethod
    def of(
        cls,
        parts: Sequence[BatchChunk],
        buckets: Sequence[BucketTags],
        routes: Sequence[Route],
        lost: Sequence[Staged | None],
    ) -> Router:
        return cls(tuple(parts), tuple(s.tags for s in buckets), tuple(routes), tuple(lost))

    def rows_of(self, target: int) -> Routed:
        """The rows of a target; copies only these rows."""
        part, row, action, position = self._places(target)
        if not len(part):
            return Routed(self.parts[0].staged.load().slice(0, 0), _NO_ACTION)
        positions = position if (position != UNKNOWN).any() else None
        return Routed(take_rows(self.parts, part, row), action, positions)

    def numbers_of(self, target: int) -> npt.NDArray[np.int64]:
        """The rows of a target as part << 32 | row, in the order of `rows_of`."""
        part, row, _, _ = self._places(target)
        return part.astype(np.int64) << 32 | row

    def rows_together(
        self, targets: Sequence[int], *, columns: Sequence[str] | None = None
    ) -> tuple[Routed, Longs]:
        """The rows of several targets, one target after another, and the begin of each target's
        rows with the end of the last.  Without positions.

        columns: default all.  Costs little more than the rows of one target.
        """
        places = [self._places(target) for target in targets]
        ends = np.cumsum([0, *(len(part) for part, _, _, _ in places)], dtype=np.int64)
        if not ends[-1]:
            none = self.parts[0].staged.load().slice(0, 0)
            return Routed(none if columns is None else none.select(columns), _NO_ACTION), ends
        part, row, action = (np.concatenate([place[at] for place in places]) for at in range(3))
        if len(self.parts) == 1:
            return Routed(take_rows(self.parts, part, row, columns=columns), action), ends
        order = row_order(part, row)
        rows = take_rows(self.parts, part[order], row[order], columns=columns).combine_chunks()
        return Routed(taken(rows, inverse(order)), action), ends

    @property
    def columns(self) -> list[str]:
        """The columns of the rows."""
        return list(self.parts[0].staged.load().schema.names)

    def chunks_of(self, target: int, *, rows: int, order_by: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of a target that only has rows to put, in chunks, sorted by `order_by`.

        Columns: all of the parts except the partition path.  Memory: the sort columns of all rows,
        and `rows` complete rows at a time.
        """
        part, row, _, _ = self._places(target)
        if not len(part):
            return
        # copying a dictionary column keeps the whole file mapped; a target has one path
        columns = [name for name in self.columns if name != PARTITION_PATH]
        if order_by:
            sort_rows = take_rows(self.parts, part, row, columns=order_by)
            keys = [(name, "ascending") for name in order_by]
            order = pc.sort_indices(sort_rows, sort_keys=keys).to_numpy()
            part, row = part[order], row[order]
        for start in range(0, len(part), rows):
            some, which = part[start : start + rows], row[start : start + rows]
            order = row_order(some, which)
            found = take_rows(self.parts, some[order], which[order], columns=columns)
            yield taken(found, inverse(order)) if order_by else found

    def _bucket(self, number: int) -> _Bucket:
        found = self.buckets.get(number)
        if found is None:
            found = self.buckets[number] = _Bucket.read(self.tags[number], self.lost[number])
        return found

    def _places(self, target: int) -> tuple[Ints, Ints, npt.NDArray[np.uint8], Ints]:
        """(part, row, action, position) of a target's rows, ordered by part and row."""
        if not self.places:
            self.places.update(_places_of(self.routes))
        ranges = [
            self._bucket(number).of(begin, end)
            for number, begin, end in self.places.get(target, ())
        ]
        if not ranges:
            none = np.zeros(0, np.int32)
            return none, none, np.zeros(0, np.uint8), none
        part = np.concatenate([part for part, _, _, _ in ranges])
        row = np.concatenate([row for _, row, _, _ in ranges])
        action = np.concatenate([action for _, _, action, _ in ranges])
        position = np.concatenate([position for _, _, _, position in ranges])
        order = row_order(part, row)
        return part[order], row[order], action[order], position[order]


_NO_ACTION: Final = np.zeros(0, np.uint8)

_Place = tuple[int, int, int]
"""Rows of a target in one bucket: the number of the bucket, begin and end in its tags."""


def _places_of(routes: Sequence[Route]) -> dict[int, list[_Place]]:
    """The places of each target, in order."""
    found: dict[int, list[_Place]] = {}
    for number, route in enumerate(routes):
        for begin, end, target in stretches(route):
            if end > begin:
                found.setdefault(target, []).append((number, begin, end))
    return found


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The columns of a bucket's tags, and the mask of the rows that lost, if any."""

    part: Ints
    row: Ints
    action: npt.NDArray[np.uint8]
    position: Ints | None
    gone: npt.NDArray[np.bool_] | None

    @classmethod
    def read(cls, tags: Staged, lost: Staged | None) -> _Bucket:
        table = tags.load()
        part, row, action = (table.column(name).to_numpy() for name in ("part", "row", "action"))
        known = "position" in table.column_names
        position = table.column("position").to_numpy() if known else None
        return cls(part, row, action, position, lost_of(lost, table.num_rows))

    def of(self, begin: int, end: int) -> tuple[Ints, Ints, npt.NDArray[np.uint8], Ints]:
        """(part, row, action, position) of a range without the rows that lost."""
        part, row, action = self.part[begin:end], self.row[begin:end], self.action[begin:end]
        if self.position is None:
            position = np.full(end - begin, UNKNOWN, np.int32)
        else:
            position = self.position[begin:end]
        if self.gone is None:
            return part, row, action, position
        left = ~self.gone[begin:end]
        return part[left], row[left], action[left], position[left]


def row_order(part: Ints, row: Ints) -> npt.NDArray[np.int64]:
    """Positions that sort rows by (part, row)."""
    return np.argsort(part.astype(np.int64) << 32 | row, kind="stable")
