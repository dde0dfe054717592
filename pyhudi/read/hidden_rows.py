"""Detection of rows that readers would not see if logged, because the logs deleted their keys.

A delete removes a record from the table; a later row with its key is a new record, whatever its
ordering value.  Within the logs of one file group, however, readers compare both: a row before the
delete in event time loses to it, and one before the record of the base file loses to that record.
Under rules that fill values from the stored record, the row would get those of the deleted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pyhudi._native import KeyTable
from pyhudi.arrays import Mask
from pyhudi.formats.log_file import BlockKind
from pyhudi.formats.log_scan import PlacedBlock
from pyhudi.formats.nested_fields import root_of
from pyhudi.formats.schema_conform import conform
from pyhudi.merge.log_fold import ORDERED_DELETE
from pyhudi.merge.merge_rules import MergeRules, delete_mask
from pyhudi.merge.precedence import Ranked, precedes
from pyhudi.merge.slice_merge import Deletes, LogEntries, folded_columns
from pyhudi.read.file_slice import (
    SliceSpec,
    base_rows,
    log_blocks,
    log_entries,
    looked_at,
    read_slice,
)
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice


def may_hide(rules: MergeRules) -> bool:
    """Whether logs may hide rows: the rules compare rows with deleted records."""
    return rules.function is None and (rules.is_event_time or not rules.picks)


def hides(fs: FileSystem, slice: FileSlice, rows: pa.Table, spec: SliceSpec) -> bool:
    """Whether the slice's logs would hide one of the rows, or change its values.

    rows: with distinct keys and the columns that the rules use.  spec: of the slice; its columns do
    not matter.  Cost: the delete blocks of the logs and the columns of their rows that mark
    deletes; only if one of the keys was deleted, the columns of the slice that decide its merge.
    """
    if not slice.logs or not rows.num_rows:
        return False
    names = [name for name in looked_at(spec.rules) if name in spec.table.names]
    needed = pa.schema([spec.table.field(name) for name in names])
    blocks = log_blocks(fs, slice, spec.visibility)
    keys = KeyTable(rows.column(spec.rules.key_column))
    gone = np.zeros(rows.num_rows, np.bool_)
    for deleted in _deleted(fs, _with_deletes(blocks, needed, spec.rules), needed, spec):
        gone |= _found_in(keys, deleted, rows.num_rows)
    if not gone.any():
        return False
    narrow = replace(spec, columns=(spec.rules.key_column,))
    gone &= ~_found_in(keys, read_slice(fs, slice, spec=narrow).column(0), rows.num_rows)
    if not gone.any():
        return False
    base = (
        None
        if slice.base is None
        else base_rows(fs, slice, needed, None, history=spec.visibility.columns)
    )
    if not spec.rules.is_event_time:
        column = None if base is None else base.column(spec.rules.key_column)
        return column is not None and bool((gone & _found_in(keys, column, rows.num_rows)).any())
    log = list(log_entries(fs, blocks, needed, spec))
    fitted = conform(rows.select(names), needed)
    return bool((gone & _loses(base, log, fitted, spec.rules, keys)).any())


def _with_deletes(
    blocks: Sequence[PlacedBlock], needed: pa.Schema, rules: MergeRules
) -> list[PlacedBlock]:
    """The blocks that may contain deletes: all, if a column may mark rows as deleted."""
    marked = {rules.key_column, *map(root_of, rules.ordering)} < set(needed.names)
    return [b for b in blocks if marked or b.block.kind is BlockKind.DELETE]


def _deleted(
    fs: FileSystem, blocks: Sequence[PlacedBlock], needed: pa.Schema, spec: SliceSpec
) -> Iterator[pa.ChunkedArray]:
    """Keys of the deletes in the blocks."""
    rules = spec.rules
    for entry in log_entries(fs, blocks, needed, spec):
        if isinstance(entry, Deletes):
            yield pa.chunked_array([entry.keys.cast(pa.string())])
        elif (mask := delete_mask(entry, rules.marks)) is not None:
            yield entry.column(rules.key_column).filter(pa.array(mask))


def _found_in(keys: KeyTable, column: pa.ChunkedArray, count: int) -> Mask:
    """Which keys are in a column."""
    at = np.asarray(keys.find(column))
    found = np.zeros(count, np.bool_)
    found[at[at >= 0]] = True
    return found


def _loses(
    base: pa.Table | None,
    log: Sequence[LogEntries],
    rows: pa.Table,
    rules: MergeRules,
    keys: KeyTable,
) -> Mask:
    """Which rows lose to the base file's record or to a delete of their key; under rules that fill
    values, the rows for which there is either."""
    columns = folded_columns(base, [*log, rows], rules)
    cut = len(columns.keys) - rows.num_rows
    ranks = columns.ranks
    compared = ranks.log_valid & (columns.kinds == ORDERED_DELETE) & rules.tombstones
    at = np.asarray(keys.find(columns.keys))
    newest = np.full(rows.num_rows, np.iinfo(np.int64).min)
    known = np.zeros(rows.num_rows, np.bool_)
    seen = np.flatnonzero(compared[:cut] & (at[:cut] >= 0))
    np.maximum.at(newest, at[seen], ranks.log[seen])
    known[at[seen]] = True
    if base is not None:
        at = np.asarray(keys.find(base.column(rules.key_column)))
        seen = np.flatnonzero((at >= 0) & ranks.base_valid)
        np.maximum.at(newest, at[seen], ranks.base[seen])
        known[at[seen]] = True
    if not rules.picks:
        return known
    mine = Ranked(ranks.log[cut:], ranks.log_valid[cut:])
    return precedes(mine, Ranked(newest, known), rules)


__all__ = ["hides", "may_hide"]
