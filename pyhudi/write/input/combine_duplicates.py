"""Rows of one key in a batch: which one counts, or what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native import latest
from pyhudi.merge.column_merge import plain
from pyhudi.merge.log_fold import (
    DATA,
    NATURAL_DELETE,
    NO_ENTRY,
    ORDERED_DELETE,
    Entries,
    Ranked,
    fold_entries,
    number_keys,
)
from pyhudi.merge.merge_rules import MergeRules, delete_mask, order_columns
from pyhudi.records import PARTITION_PATH
from pyhudi.table.ordering_values import ordering_ranks
from pyhudi.write.input.batch import BatchChunk, take_rows

Ints = npt.NDArray[np.int32]


def newest_rows(keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Position of the last row of each key, ascending."""
    return np.sort(latest(keys))


def greatest_rows(
    keys: pa.ChunkedArray, rows: pa.Table, rules: MergeRules
) -> npt.NDArray[np.int64]:
    """Position of the row of each key with the greatest ordering value, ascending; of equals the
    last, or the first where the rules say so."""
    ranks, _ = ordering_ranks(order_columns(rows, rules))
    if not rules.first_of_equals:
        return np.sort(latest(keys, ranks))
    back = np.arange(len(ranks))[::-1]
    return np.sort(len(ranks) - 1 - latest(keys.take(pa.array(back)), ranks[back]))


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """Rows of a batch after those of one key were merged.

    kept: positions of the rows that stay as they are.  rows: those merged, keyed columns.
    """

    kept: npt.NDArray[np.int64]
    rows: pa.Table


def folded_rows(
    keys: pa.ChunkedArray, parts: Sequence[BatchChunk], part: Ints, row: Ints, rules: MergeRules
) -> FoldedRows | None:
    """Merge rows of one key, in order; None where no key has several.

    keys: of rows given in order of (part, row).  A key whose last word is a delete keeps that
    row.  Copies the rows of such keys only.
    """
    _, _, key = number_keys(keys)
    several = np.bincount(key)[key] > 1
    if not several.any():
        return None
    at = np.flatnonzero(several)
    rows = plain(take_rows(parts, part[at], row[at]))
    distinct, number = np.unique(key[at], return_inverse=True)
    order = Ranked.none(len(at))
    if rules.ordering:
        order = Ranked(*ordering_ranks(order_columns(rows, rules)))
    kinds = np.full(len(at), DATA, np.uint8)
    deleted = delete_mask(rows, rules.marks)
    if deleted is not None:
        kinds[deleted] = NATURAL_DELETE if rules.beneath else ORDERED_DELETE
    entries = Entries(number, len(distinct), kinds, order, np.arange(len(at)), rows)
    folded = fold_entries(entries, rules)
    dead = at[folded.last[folded.at == NO_ENTRY]]
    paths = folded.rows.schema.get_field_index(PARTITION_PATH)
    merged = folded.rows.set_column(
        paths, PARTITION_PATH, folded.rows.column(paths).dictionary_encode()
    )
    return FoldedRows(np.sort(np.concatenate([np.flatnonzero(~several), dead])), merged)
