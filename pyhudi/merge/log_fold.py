"""Merge of log entries in rounds, for rules that the native merge does not support.

    key a:  row  row  delete  row        round 0 takes the first entry of every key,
    key b:  row  row                     round 1 the second of those that have one, ...

A round merges each entry with its key's state: a live record, or a delete that may retain its
ordering value.  Each round takes a few columnar steps; total cost is linear in the entries.  A last
round merges the result with the base file's rows, as Apache Hudi's readers do.  For a Python merge
function, which those readers cannot call, the base file's row is the first entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native import KeyTable
from pyhudi.arrays import Longs, Mask
from pyhudi.merge.column_merge import overlay
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.payload_classes import Keeps
from pyhudi.merge.precedence import Ranked, precedes

DATA: Final = 0
ORDERED_DELETE: Final = 1
NATURAL_DELETE: Final = 2

NO_ENTRY: Final = -1


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of some keys, oldest first.

    key: number of each entry's key, below key_count.  kind: DATA, ORDERED_DELETE,
    NATURAL_DELETE.  row: position of a DATA entry in `rows`.
    """

    key: Longs
    key_count: int
    kind: npt.NDArray[np.uint8]
    order: Ranked
    row: Longs
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Folded:
    """The state of each key.  rows: the live records; at: each key's position in them, or NO_ENTRY.

    final: whether a delete makes the stored record irrelevant.  last: the last entry with an
    effect, or NO_ENTRY.
    """

    rows: pa.Table
    at: Longs
    order: Ranked
    final: Mask
    last: Longs


def number_keys(keys: pa.ChunkedArray) -> tuple[KeyTable, Longs, Longs]:
    """(table of the keys, key number at each key's first row, key number of each row).

    Numbers follow the order of first appearance.
    """
    table = KeyTable(keys)
    first = np.asarray(table.first(keys))
    starts = np.flatnonzero(first == np.arange(len(first)))
    number = np.full(len(first), NO_ENTRY, np.int64)
    number[starts] = np.arange(len(starts))
    return table, number, number[first]


def fold_entries(entries: Entries, rules: MergeRules) -> Folded:
    """Merge the entries of each key in their order."""
    folding = _Folding(entries, rules)
    for at in _rounds(entries.key):
        folding.apply(at)
    return folding.result()


def _rounds(key: Longs) -> list[Longs]:
    """Positions of the first entry of every key, then of the second, ...; each ordered by key."""
    if not len(key):
        return []
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0])
    counts = np.diff(np.r_[begins, len(key)])
    nth = np.arange(len(key)) - np.repeat(begins, counts)
    cuts = np.cumsum(np.bincount(nth))[:-1]
    return np.split(order[np.argsort(nth, kind="stable")], cuts)


class _Folding:
    """State of the keys while rounds are applied.

    live: live records of the keys of the last round, at `at`.  finished: those of keys without
    further entries.
    """

    def __init__(self, entries: Entries, rules: MergeRules) -> None:
        count = entries.key_count
        self.entries, self.rules = entries, rules
        self.live = entries.rows.slice(0, 0)
        self.live_key = np.empty(0, np.int64)
        self.at = np.full(count, NO_ENTRY, np.int64)
        self.order = Ranked.none(count)
        self.final = np.zeros(count, np.bool_)
        self.last = np.full(count, NO_ENTRY, np.int64)
        self.finished: list[tuple[pa.Table, Longs]] = []

    def apply(self, at: Longs) -> None:
        """Merge one entry of each of some keys; at: positions of the entries, ordered by key."""
        entries, rules = self.entries, self.rules
        key, kind, row = entries.key[at], entries.kind[at], entries.row[at]
        self._move_finished(key)
        mine, theirs = entries.order.take(at), self.order.take(key)
        loses = precedes(mine, theirs, rules) & (kind != NATURAL_DELETE)
        data, alive = kind == DATA, self.at[key] != NO_ENTRY
        merged = data & alive & (~loses | rules.beneath) & (not rules.picks)
        fresh = data & ~loses & ~merged
        killed = ~data & ~loses
        stays = alive & ~(merged | fresh | killed)
        live = [
            entries.rows.take(pa.array(row[fresh])),
            overlay(
                self.live.take(pa.array(self.at[key[merged]])),
                entries.rows.take(pa.array(row[merged])),
                loses[merged],
                rules,
            ),
            self.live.take(pa.array(self.at[key[stays]])),
        ]
        self._reorder(
            key, mine, theirs, merged, fresh, buried=killed & (kind == ORDERED_DELETE), loses=loses
        )
        if rules.tombstones and rules.keeps in (Keeps.NOTHING, Keeps.ABSENT):
            self.final[key[killed & (kind == NATURAL_DELETE)]] = True
        acts = merged | fresh | killed
        self.last[key[acts]] = at[acts]
        self._set_live(key, pa.concat_tables(live), np.r_[key[fresh], key[merged], key[stays]])

    def _move_finished(self, staying: Longs) -> None:
        """Move the records of keys that have no further entry to `finished`."""
        going = np.ones(len(self.at), np.bool_)
        going[staying] = False
        leaves = going[self.live_key]
        if leaves.any():
            self.finished.append((self.live.filter(pa.array(leaves)), self.live_key[leaves]))
            self.at[self.live_key[leaves]] = NO_ENTRY
            self._set_live(
                self.live_key, self.live.filter(pa.array(~leaves)), self.live_key[~leaves]
            )

    def _set_live(self, gone: Longs, rows: pa.Table, key: Longs) -> None:
        self.at[gone] = NO_ENTRY
        self.at[key] = np.arange(len(key))
        self.live, self.live_key = rows, key

    def _reorder(
        self,
        key: Longs,
        mine: Ranked,
        theirs: Ranked,
        merged: Mask,
        fresh: Mask,
        *,
        buried: Mask,
        loses: Mask,
    ) -> None:
        """Update the ordering values of the states after a round."""
        takes = fresh | (merged & ~loses)
        if self.rules.keeps is Keeps.NULLS:  # a null was replaced by the stored ordering value
            takes &= ~(merged & ~mine.ok)
        if self.rules.tombstones:
            takes |= buried
        removed = ~(takes | merged | loses)
        rank = np.where(takes, mine.rank, theirs.rank)
        ok = np.where(takes, mine.ok, theirs.ok & ~removed)
        self.order.rank[key], self.order.ok[key] = rank, ok

    def result(self) -> Folded:
        self._move_finished(np.empty(0, np.int64))
        tables = [table for table, _ in self.finished] or [self.live]
        keys = [key for _, key in self.finished] or [self.live_key]
        at = np.full(len(self.at), NO_ENTRY, np.int64)
        order = np.concatenate(keys)
        at[order] = np.arange(len(order))
        return Folded(pa.concat_tables(tables), at, self.order, self.final, self.last)


@dataclass(frozen=True, slots=True)
class MergedParts:
    """The rows of a slice in two parts.

    remaining: which base rows are in the result unchanged; None without a base file.  rows: the
    merged rows, then rows of the logs.
    """

    remaining: Mask | None
    rows: pa.Table

    def table(self, base: pa.Table | None) -> pa.Table:
        """All rows, those of the base file first, in file order."""
        if base is None or self.remaining is None:
            return self.rows
        rest = base if self.remaining.all() else base.filter(pa.array(self.remaining))
        return pa.concat_tables([rest, self.rows])


def fold_onto(base: pa.Table, base_key: Longs, entries: Entries, rules: MergeRules) -> MergedParts:
    """Base and log merged, with each key's stored record merged first, for rules that do not
    compare ordering values.  Equals a rewrite at every commit.  base_key: as in `with_base`."""
    rows = np.flatnonzero(base_key != NO_ENTRY)
    count = len(rows)
    whole = Entries(
        np.concatenate([base_key[rows], entries.key]),
        entries.key_count,
        np.concatenate([np.full(count, DATA, np.uint8), entries.kind]),
        Ranked.none(count + len(entries.key)),
        np.concatenate([np.arange(count), entries.row + count]),
        pa.concat_tables([base.take(pa.array(rows)), entries.rows]),
    )
    return MergedParts(base_key == NO_ENTRY, fold_entries(whole, rules).rows)


def with_base(
    folded: Folded, base: pa.Table, base_key: Longs, base_order: Ranked, rules: MergeRules
) -> MergedParts:
    """The state of each key merged with the rows of the base file.

    base_key: number of the key of each base row, or NO_ENTRY.  If several base rows have one key,
    either all remain or the last one is merged.
    """
    rows = np.flatnonzero(base_key != NO_ENTRY)
    key = base_key[rows]
    behind = precedes(folded.order.take(key), base_order.take(rows), rules) & ~folded.final[key]
    blends = (folded.at[key] != NO_ENTRY) & ~folded.final[key] & (not rules.picks)
    blends &= ~behind | rules.beneath
    stays = np.zeros(len(folded.at), np.bool_)
    stays[key[behind & ~blends]] = True
    keep = np.ones(base.num_rows, np.bool_)
    keep[rows] = stays[key]
    partner = np.full(len(folded.at), NO_ENTRY, np.int64)
    greater = np.zeros(len(folded.at), np.bool_)
    partner[key[blends]] = rows[blends]
    greater[key[blends]] = behind[blends]
    blended = np.flatnonzero(partner != NO_ENTRY)
    merged = overlay(
        base.take(pa.array(partner[blended])),
        folded.rows.take(pa.array(folded.at[blended])),
        greater[blended],
        rules,
    )
    alone = np.flatnonzero((folded.at != NO_ENTRY) & (partner == NO_ENTRY) & ~stays)
    logged = folded.rows.take(pa.array(folded.at[alone]))
    return MergedParts(keep, pa.concat_tables([merged, logged]))
