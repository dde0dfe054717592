"""Selection or merge of the rows with the same key in a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyhudi._native import latest
from pyhudi.arrays import Longs
from pyhudi.merge.log_fold import (
    DATA,
    NO_ENTRY,
    ORDERED_DELETE,
    Entries,
    fold_entries,
)
from pyhudi.merge.merge_rules import MergeRules, delete_mask, order_columns
from pyhudi.merge.ordering_values import ordering_ranks
from pyhudi.merge.payload_classes import Keeps
from pyhudi.merge.precedence import Ranked


def newest_rows(keys: pa.ChunkedArray) -> Longs:
    """Position of the last row of each key, ascending."""
    return np.sort(latest(keys))


def greatest_rows(keys: pa.ChunkedArray, rows: pa.Table, rules: MergeRules) -> Longs:
    """Position of the row of each key with the greatest ordering value, ascending.  Among equal
    values the last row wins, or the first under `first_of_equals`.  A delete without an ordering
    value wins over the rows before it and loses to those after it.
    """
    ranks, comparable = ordering_ranks(order_columns(rows, rules))
    if comparable.all():
        return _greatest(keys, ranks, rules)
    at = _from_last(keys, np.flatnonzero(~comparable))
    ranks = np.where(comparable, ranks, np.iinfo(np.int64).min)
    return at[_greatest(keys.take(pa.array(at)), ranks[at], rules)]


def _greatest(keys: pa.ChunkedArray, ranks: Longs, rules: MergeRules) -> Longs:
    if not rules.first_of_equals:
        return np.sort(latest(keys, ranks))
    back = np.arange(len(ranks))[::-1]
    return np.sort(len(ranks) - 1 - latest(keys.take(pa.array(back)), ranks[back]))


def _from_last(keys: pa.ChunkedArray, marked: Longs) -> Longs:
    """Positions of the rows of each key from its last marked row on, ascending."""
    encoded = keys.dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    np.maximum.at(last, codes[marked], marked)
    return np.flatnonzero(np.arange(len(codes)) >= last[codes])


@dataclass(frozen=True, slots=True)
class MergedRows:
    """rows: the merged record of each key that still has one.  removed: for each other key, the
    position of the delete that removed it."""

    rows: pa.Table
    removed: Longs


def merged_rows(key: Longs, rows: pa.Table, rules: MergeRules) -> MergedRows:
    """Merge the rows of each key in their order.  key: number of each row's key.

    A delete is compared with the rows of its key, also where a committed one would not be.  Under
    rules that merge a lesser record (`beneath`, before version 9) rows after it are not compared
    with it, as in Apache Hudi.  Under rules that ignore a lesser record, those of Debezium before
    version 9, the order is that of the ordering values: a late row may have the value that an
    earlier one says is unavailable.
    """
    distinct, number = np.unique(key, return_inverse=True)
    order = Ranked.none(len(key))
    if rules.ordering:
        order = Ranked(*ordering_ranks(order_columns(rows, rules)))
    kinds = np.full(len(key), DATA, np.uint8)
    deleted = delete_mask(rows, rules.marks)
    if deleted is not None:
        kinds[deleted] = ORDERED_DELETE
    at = np.arange(len(key))
    if rules.keeps is Keeps.UNAVAILABLE and not rules.beneath and order.ok.all():
        at = np.argsort(order.rank, kind="stable")
    entries = Entries(number[at], len(distinct), kinds[at], order.take(at), at, rows)
    folded = fold_entries(entries, replace(rules, tombstones=rules.tombstones or not rules.beneath))
    return MergedRows(folded.rows, at[folded.last[folded.at == NO_ENTRY]])
