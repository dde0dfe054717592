"""Places that an index has named for keys of a write, so that no key is searched twice.

A merge looks its source up, reads the records found, and writes rows most of which have the same
keys.  Both look-ups are of one plan, so of one state of the table; a retry makes a new plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.keys import KeyTable
from pyhudi.arrays import Longs, Mask
from pyhudi.index.contract import UNKNOWN, Finder, Located, path_codes
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging

_KEYS: Final = (RECORD_KEY, PARTITION_PATH)


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """What an index answered for the rows of one hash part.

    rows: their keys and partition paths.  places: `row` (its position in rows, ascending), `home`,
    and `ended`, `position` where the index states them.  everywhere: a key is one record,
    whatever its partition path.
    """

    rows: Staged
    places: Staged
    groups: tuple[FileGroupId, ...]
    everywhere: bool
    cost: LookupCost | None

    @classmethod
    def of(
        cls, rows: pa.Table, located: Located, staging: Staging, *, everywhere: bool
    ) -> KnownPlaces:
        """rows: looked up, distinct.  Rows that delete are left out, because indexes do not name
        ended places for them."""
        deleted = np.asarray(rows.column("deleted").to_numpy(), np.bool_)
        stays = ~deleted[located.rows]
        number = np.cumsum(~deleted) - 1
        columns: dict[str, Any] = {"row": number[located.rows[stays]], "home": located.homes[stays]}
        if located.ended is not None:
            columns["ended"] = located.ended[stays]
        if located.positions is not None:
            columns["position"] = located.positions[stays]
        keyed = rows.select(_KEYS).filter(pa.array(~deleted)).combine_chunks()
        return cls(
            staging.put("sought", keyed),
            staging.put("places", pa.table(columns)),
            located.groups,
            everywhere,
            located.cost,
        )

    def numbers(self, rows: pa.Table) -> Longs:
        """The position of each row's key among the rows looked up; -1: it was not looked up."""
        sides = (self.rows.load(), rows)
        if self.everywhere:
            known, sought = (side.column(RECORD_KEY) for side in sides)
        else:
            paths: dict[str, int] = {}
            known, sought = (_within(side, paths) for side in sides)
        return np.asarray(KeyTable(known).first(sought), np.int64)

    def unknown(self, rows: pa.Table) -> pa.Table:
        """The rows whose keys were not looked up."""
        return rows.filter(pa.array(self.numbers(rows) < 0))

    def located(self, numbers: Longs, deleted: Mask) -> Located:
        """The places of rows by the position of their keys; deleted: rows that delete."""
        table = self.places.load()
        columns = {name: table.column(name).to_numpy() for name in table.schema.names}
        known = np.flatnonzero(numbers >= 0)
        low = np.searchsorted(columns["row"], numbers[known])
        counts = np.searchsorted(columns["row"], numbers[known], side="right") - low
        rows = np.repeat(known, counts)
        at = np.arange(len(rows)) + np.repeat(low - (np.cumsum(counts) - counts), counts)
        ended = columns.get("ended")
        if ended is not None:
            stays = ~(ended[at] & deleted[rows])
            rows, at = rows[stays], at[stays]
        position = columns.get("position")
        return Located(
            rows,
            columns["home"][at],
            self.groups,
            ended=None if ended is None else ended[at],
            cost=self.cost,
            positions=None if position is None else position[at],
        )


def _within(rows: pa.Table, paths: dict[str, int]) -> pa.ChunkedArray:
    """Texts that are equal if key and partition path are.  paths: their numbers, extended."""
    codes, values = path_codes(rows.column(PARTITION_PATH))
    numbers = pa.array([str(paths.setdefault(value, len(paths))) for value in values], pa.string())
    return pc.binary_join_element_wise(numbers.take(pa.array(codes)), rows.column(RECORD_KEY), "/")


@dataclass(frozen=True, slots=True)
class KnownFirst:
    """Answers from known places; the finder is sought for the other rows, if there are any."""

    known: KnownPlaces
    finder: Finder

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        numbers = self.known.numbers(rows)
        deleted = np.asarray(rows.column("deleted").to_numpy(), np.bool_)
        found = self.known.located(numbers, deleted)
        others = np.flatnonzero(numbers < 0)
        if not len(others):
            return found
        more = self.finder.locate(fs, rows.take(pa.array(others)))
        return _joined(found, replace(more, rows=others[more.rows]))


def _joined(one: Located, other: Located) -> Located:
    """The places of two sets of rows."""
    groups = {group: number for number, group in enumerate(one.groups)}
    codes = [groups.setdefault(group, len(groups)) for group in other.groups]
    rows = np.concatenate([one.rows, other.rows])
    homes = np.concatenate([one.homes, np.array(codes, np.int32)[other.homes]])
    order = np.argsort(rows, kind="stable")
    ended = positions = None
    if one.ended is not None or other.ended is not None:
        ended = np.concatenate([_filled(one, one.ended, False), _filled(other, other.ended, False)])
    if one.positions is not None or other.positions is not None:
        known = _filled(one, one.positions, UNKNOWN), _filled(other, other.positions, UNKNOWN)
        positions = np.concatenate(known)
    return Located(
        rows[order],
        homes[order].astype(np.int32),
        tuple(groups),
        None if ended is None else ended[order],
        LookupCost.sum([one.cost, other.cost]),
        None if positions is None else positions[order],
    )


def _filled(located: Located, column: Any, value: Any) -> npt.NDArray[Any]:
    """A column of places; the value for each place if they lack it."""
    if column is None:
        column = np.full(len(located.rows), value, np.bool_ if value is False else np.int32)
    return np.asarray(column)
