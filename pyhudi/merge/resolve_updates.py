"""Merge of incoming rows with the rows stored in one file group: decision and result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import KeyTable
from pyhudi.arrays import Ints, Mask, taken
from pyhudi.merge.column_merge import overlay, plain
from pyhudi.merge.merge_rules import MergeRules, order_columns
from pyhudi.merge.ordering_values import is_direct, ordering_ranks
from pyhudi.merge.precedence import Ranked, precedes
from pyhudi.records import RECORD_KEY

NO_ROW = -1


@dataclass(frozen=True, slots=True)
class MergeDecision:
    """The result of comparing stored rows with incoming rows.

    keep: mask over stored rows.  Masks over incoming rows: emit (to be written), matched (the key
    is stored), lost (the stored record is newer and remains unchanged), beneath (the stored record
    is newer and takes values from the row).  partner: the stored row of each incoming row, or
    NO_ROW.  removed: mask over stored rows whose record is deleted; a key that was inserted twice
    has two.
    """

    keep: Mask
    emit: Mask
    matched: Mask
    lost: Mask
    beneath: Mask
    partner: npt.NDArray[np.int64]
    removed: Mask

    @property
    def inserted(self) -> int:
        return int((self.emit & ~self.matched).sum())

    @property
    def updated(self) -> int:
        return int((self.emit & self.matched).sum())

    @property
    def deleted(self) -> int:
        return int(self.removed.sum())

    @property
    def unchanged(self) -> int:
        return int(self.lost.sum())

    def part(self, stored: slice, incoming: slice) -> MergeDecision:
        """The decision for ranges of stored and incoming rows whose keys are in no other range."""
        partner = self.partner[incoming]
        return MergeDecision(
            keep=self.keep[stored],
            emit=self.emit[incoming],
            matched=self.matched[incoming],
            lost=self.lost[incoming],
            beneath=self.beneath[incoming],
            partner=np.where(partner == NO_ROW, NO_ROW, partner - stored.start),
            removed=self.removed[stored],
        )


def unmatched(stored: pa.Table, puts: Mask) -> MergeDecision:
    """The decision for rows that are added without a key lookup."""
    count = len(puts)
    none = np.zeros(count, np.bool_)
    return MergeDecision(
        keep=np.ones(stored.num_rows, np.bool_),
        emit=puts,
        matched=none,
        lost=none,
        beneath=none,
        partner=np.full(count, NO_ROW, np.int64),
        removed=np.zeros(stored.num_rows, np.bool_),
    )


def resolve_updates(
    stored: pa.Table,
    incoming: pa.Table,
    puts: Mask,
    rules: MergeRules,
    *,
    natural_deletes: bool,
    groups: tuple[Ints, Ints] | None = None,
) -> MergeDecision:
    """Which record of each key wins: the incoming row, unless the stored one is newer in event
    time.

    stored: with the record key and ordering columns.  Incoming keys are unique unless the batch
    retains duplicates; then every row is emitted.  groups: the number of the file group of each
    stored and each incoming row, if they are of several: a key meets only keys of its group.
    """
    count = incoming.num_rows
    loses = np.zeros(count, np.bool_)
    beneath = np.zeros(count, np.bool_)
    partner = np.full(count, NO_ROW, np.int64)
    stored_keys, incoming_keys = stored.column(RECORD_KEY), incoming.column(RECORD_KEY)
    if groups is not None:
        stored_keys, incoming_keys = _of(groups[0], stored_keys), _of(groups[1], incoming_keys)
    at = np.asarray(KeyTable(incoming_keys).find(stored_keys))
    hit = at >= 0
    partner[at[hit]] = np.flatnonzero(hit)
    if rules.is_event_time and not natural_deletes and hit.any():
        ahead = _stored_is_greater(stored, incoming, rules, at, hit)
        behind = np.zeros(count, np.bool_)
        behind[at[ahead]] = True
        beneath = behind & puts & rules.beneath
        loses = behind & ~beneath & (not rules.deletes_always_win)
        hit &= ~(ahead & loses[at])
    matched = partner != NO_ROW
    emit = puts & ~loses
    removed = hit.copy()
    removed[hit] = (~puts & ~loses)[at[hit]]
    return MergeDecision(
        keep=~hit,
        emit=emit,
        matched=matched,
        lost=loses,
        beneath=beneath,
        partner=partner,
        removed=removed,
    )


def _of(groups: Ints, keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Keys that are equal if the keys and their groups are."""
    return pc.binary_join_element_wise(pa.array(groups).cast(pa.string()), keys, "/")


def outcome(
    stored: pa.Table, incoming: pa.Table, decision: MergeDecision, rules: MergeRules
) -> pa.Table:
    """The emitted rows as they are to be written, merged with stored records where rules do so."""
    emitted = np.flatnonzero(decision.emit)
    blends = decision.matched[emitted]
    if rules.picks or not blends.any():
        return incoming.filter(pa.array(decision.emit))
    at = emitted[blends]
    new = taken(incoming, at)
    names = [name for name in new.column_names if name in stored.column_names]
    old = plain(taken(stored.select(names), decision.partner[at]))
    merged = overlay(old, new.select(names), decision.beneath[at], rules)
    columns = [
        merged.column(name) if name in names else new.column(name) for name in new.column_names
    ]
    new = pa.Table.from_arrays(columns, schema=new.schema)
    if blends.all():
        return new
    others = taken(incoming, emitted[~blends])
    back = np.argsort(np.concatenate([np.flatnonzero(blends), np.flatnonzero(~blends)]))
    return taken(pa.concat_tables([new, others]), back)


def _stored_is_greater(
    stored: pa.Table,
    incoming: pa.Table,
    rules: MergeRules,
    at: npt.NDArray[np.int64],
    hit: Mask,
) -> Mask:
    """Whether each stored row is greater in event time than the incoming row of its key.

    at: position of that incoming row; hit: whether there is one.
    """
    mine, theirs = order_columns(incoming, rules), order_columns(stored, rules)
    if is_direct([c.type for c in mine]):
        new, old = Ranked(*ordering_ranks(mine)), Ranked(*ordering_ranks(theirs))
    else:
        both = [
            pa.chunked_array([*a.chunks, *b.chunks], a.type)
            for a, b in zip(theirs, mine, strict=True)
        ]
        ranked = Ranked(*ordering_ranks(both))
        every = np.arange(len(ranked.rank))
        old, new = ranked.take(every[: stored.num_rows]), ranked.take(every[stored.num_rows :])
    greater = np.zeros(stored.num_rows, np.bool_)
    rows = np.flatnonzero(hit)
    greater[rows] = precedes(new.take(at[rows]), old.take(rows), rules)
    return greater
