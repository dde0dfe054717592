"""Merge of the logs of a slice without its base file, into the entries that still have an effect.

For each key these are its last row or delete with an effect, and the delete that makes earlier
stored data irrelevant.  Merging them after the base file and before later log entries gives the
same result as merging all entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi._native.keys import fold
from pyhudi.merge.log_fold import DATA, ORDERED_DELETE
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.slice_merge import Deletes, LogEntries, data_of, folded_columns


@dataclass(frozen=True, slots=True)
class RemainingEntries:
    """Entries in the order in which they are merged.

    resets: keys of deletes that always win.  deletes: with their ordering values; None if there
    are none.  rows: data rows, including rows that a column marks as deletes; None if there are
    none.
    """

    resets: pa.Array
    deletes: Deletes | None
    rows: pa.Table | None

    @property
    def delete_count(self) -> int:
        return len(self.resets) + (0 if self.deletes is None else len(self.deletes.keys))


def remaining_entries(log: Sequence[LogEntries], rules: MergeRules) -> RemainingEntries:
    """The remaining entries of a log.

    log: oldest first, data rows with every column.  rules: plain (`MergeRules.is_plain`).
    """
    columns = folded_columns(None, log, rules)
    as_rows = np.where(columns.kinds == ORDERED_DELETE, np.uint8(DATA), columns.kinds)
    state = fold(
        columns.keys, as_rows, columns.ranks.log, columns.ranks.log_valid, rules.is_event_time
    )
    first = np.asarray(state.keys_position)[np.asarray(state.reset, np.bool_)]
    winner = np.asarray(state.winner)
    wins = np.zeros(len(columns.keys), np.bool_)
    wins[winner[winner >= 0]] = True
    resets = columns.keys.take(pa.array(np.sort(first))).combine_chunks()
    data = data_of(log)
    rows = None
    if data:
        rows = pa.concat_tables(data).filter(pa.array(wins[columns.is_data]))
    return RemainingEntries(resets, _deletes(log, wins[~columns.is_data]), rows)


def _deletes(log: Sequence[LogEntries], wins: np.ndarray) -> Deletes | None:
    """The deletes that win, oldest first.  A delete with a null ordering value never wins here."""
    found = [entry for entry in log if isinstance(entry, Deletes)]
    ordered = next((each.ordering.type for each in found if each.ordering is not None), None)
    if ordered is None or not wins.any():
        return None
    mask = pa.array(wins)
    keys = pa.concat_arrays([each.keys.cast(pa.string()) for each in found]).filter(mask)
    ordering = pa.concat_arrays(
        [
            pa.nulls(len(each.keys), ordered) if each.ordering is None else each.ordering
            for each in found
        ]
    )
    return Deletes(keys, ordering.filter(mask))
