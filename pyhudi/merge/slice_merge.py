"""Merge of the log entries of a slice with the rows of its base file.

    base   b1 b2 b3 b4        rows of the base file, one a key
    log    d1 | x2 | d3       tables of data rows and batches of deletes, oldest first

Every entry gets a kind and a rank (the ordering value as an int64).  The native `fold` computes
each key's state, and `against_base` which base rows remain.  The result is built with filters and
one concatenation; no row is touched in Python.  The rules are those of `pyhudi._native.keys.fold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pyhudi._native.keys import fold
from pyhudi.arrays import Mask
from pyhudi.formats.nested_fields import values_at
from pyhudi.merge.column_merge import plain
from pyhudi.merge.log_fold import (
    DATA,
    NATURAL_DELETE,
    NO_ENTRY,
    ORDERED_DELETE,
    Entries,
    MergedParts,
    fold_entries,
    fold_onto,
    number_keys,
    with_base,
)
from pyhudi.merge.merge_cache import Live, Outcome
from pyhudi.merge.merge_rules import MergeRules, delete_mask
from pyhudi.merge.ordering_values import ordering_ranks, sequence_columns
from pyhudi.merge.precedence import Ranked
from pyhudi.merge.row_match import RowMatch


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deletes of one block, in block order.

    ordering: the deletes' ordering values (structs for several columns), null for a delete that
    wins by commit time; None under commit-time order.
    """

    keys: pa.Array
    ordering: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.keys)


LogEntries: TypeAlias = pa.Table | Deletes


def merge(
    base: pa.Table | None,
    log: Sequence[LogEntries],
    rules: MergeRules,
    *,
    columns: Sequence[str],
    match: RowMatch | None = None,
) -> pa.Table:
    """The rows of the slice: remaining base rows in file order, then rows from the logs.

    base and the tables of `log` have one schema, which contains the rules' columns and `columns`,
    the columns of the result.  log is not empty, and contains a table where there is no base.
    Columns of base that the rules do not use may be dictionary arrays.  match: how log entries
    find base rows; None: by record key, and only then the key column is needed.
    """
    match = match or match_keys(base, log, rules)
    if rules.is_plain:
        return decide(base, log, rules, match).rows(base, data_of(log), columns)
    stored = None if base is None else plain(base.select(columns))
    return _folded(base, stored, log, rules, columns, match).table(stored)


def rows_of_logs(
    base: pa.Table | None,
    log: Sequence[LogEntries],
    rules: MergeRules,
    *,
    columns: Sequence[str],
    match: RowMatch | None = None,
) -> pa.Table:
    """The rows of `merge` that are not unchanged base rows.

    Under plain rules, base needs only the columns that the rules use.
    """
    match = match or match_keys(base, log, rules)
    if not rules.is_plain:
        stored = None if base is None else plain(base.select(columns))
        return _folded(base, stored, log, rules, columns, match).rows
    outcome = decide(base, log, rules, match)
    return Outcome(None, outcome.log).rows(None, data_of(log), columns)


def remaining_rows(
    base: pa.Table, log: Sequence[LogEntries], rules: MergeRules, match: RowMatch | None = None
) -> Mask:
    """Which base rows are in the result of `merge` unchanged.

    base, log: with the columns that the rules use, and at least one more.
    """
    match = match or match_keys(base, log, rules)
    if rules.is_plain:
        live = decide(base, log, rules, match).base
        assert live is not None
        return live.mask
    if rules.function is not None:
        first = np.asarray(number_keys(match.entries)[0].first(match.stored))
        return np.asarray(match.spread(first < 0, base.num_rows, True), np.bool_)
    columns = base.schema.names[:1]
    found = _folded(base, plain(base.select(columns)), log, rules, columns, match).remaining
    assert found is not None
    return found


def decide(
    base: pa.Table | None,
    log: Sequence[LogEntries],
    rules: MergeRules,
    match: RowMatch | None = None,
) -> Outcome:
    """Which rows of base and log are live, under plain rules (`MergeRules.is_plain`).

    match: as for `merge`.
    """
    match = match or match_keys(base, log, rules)
    keys, kinds = match.entries, _kinds(log, rules)
    ranks = _ranks(match.compared(base, rules.ordering), log, rules)
    state = fold(keys, kinds, ranks.log, ranks.log_valid, rules.is_event_time)
    live_base = None
    if base is None:
        take = state.winner[state.winner >= 0]
    else:
        keep, take = state.against_base(match.stored, ranks.base, ranks.base_valid)
        live_base = Live.of(match.spread(keep, base.num_rows, True))
    taken = np.zeros(len(keys), dtype=np.bool_)
    taken[take] = True
    return Outcome(live_base, Live.of(taken[_is_data(log)]))


def match_keys(base: pa.Table | None, log: Sequence[LogEntries], rules: MergeRules) -> RowMatch:
    """Log entries and base rows by their record keys."""
    stored = None if base is None else _text(base.column(rules.key_column))
    return RowMatch(_keys(log, rules), stored)


@dataclass(frozen=True, slots=True)
class FoldColumns:
    """The properties of each log entry that a merge uses, oldest first."""

    keys: pa.ChunkedArray
    kinds: Any
    is_data: Any  # whether it is a row of a data block
    ranks: SliceRanks


def folded_columns(
    base: pa.Table | None, log: Sequence[LogEntries], rules: MergeRules
) -> FoldColumns:
    """The fold columns of a log.  Ranks of base and log are comparable with each other."""
    return FoldColumns(
        _keys(log, rules), _kinds(log, rules), _is_data(log), _ranks(base, log, rules)
    )


def _folded(
    base: pa.Table | None,
    stored: pa.Table | None,
    log: Sequence[LogEntries],
    rules: MergeRules,
    columns: Sequence[str],
    match: RowMatch,
) -> MergedParts:
    """The merge for rules that the native fold does not support.

    stored: the result columns of base.
    """
    ranks = _ranks(match.compared(base, rules.ordering), log, rules)
    table, number, key = number_keys(match.entries)
    is_data = _is_data(log)
    rows = [entry.select(columns) for entry in data_of(log)]
    if not rows:
        assert stored is not None
        rows = [stored.slice(0, 0)]
    entries = Entries(
        key,
        int(key.max(initial=-1)) + 1,
        _kinds(log, rules),
        _ranked(ranks.log, ranks.log_valid, len(key)),
        np.cumsum(is_data) - 1,
        pa.concat_tables(rows),
    )
    if base is None or stored is None:
        return MergedParts(None, fold_entries(entries, rules).rows)
    first = np.asarray(table.first(match.stored))
    base_key = np.where(first >= 0, number[first], NO_ENTRY)
    base_key = match.spread(base_key, base.num_rows, NO_ENTRY)
    if rules.function is not None:
        return fold_onto(stored, base_key, entries, rules)
    order = _ranked(ranks.base, ranks.base_valid, len(first))
    order = Ranked(
        match.spread(order.rank, base.num_rows, 0), match.spread(order.ok, base.num_rows, False)
    )
    return with_base(fold_entries(entries, rules), stored, base_key, order, rules)


def data_of(log: Sequence[LogEntries]) -> list[pa.Table]:
    """The tables of data rows."""
    return [entry for entry in log if isinstance(entry, pa.Table)]


def _ranked(values: Any, valid: Any, count: int) -> Ranked:
    return Ranked.none(count) if values is None else Ranked(values, valid)


@dataclass(frozen=True, slots=True)
class SliceRanks:
    """Ranks of ordering values, comparable between base and log; None under commit-time order.

    The flags are False where a value is null and so not comparable.
    """

    log: Any = None
    log_valid: Any = None
    base: Any = None
    base_valid: Any = None


def _keys(log: Sequence[LogEntries], rules: MergeRules) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for entry in log:
        if isinstance(entry, Deletes):
            chunks.append(entry.keys)
        else:
            chunks += _text(entry.column(rules.key_column)).chunks
    return pa.chunked_array(chunks, type=pa.string())


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pt.is_string(column.type) else column.cast(pa.string())


def _is_data(log: Sequence[LogEntries]) -> Any:
    """Whether each entry is a row of a data block."""
    return np.concatenate(
        [
            np.zeros(len(e.keys), np.bool_)
            if isinstance(e, Deletes)
            else np.ones(e.num_rows, np.bool_)
            for e in log
        ]
    )


def _kinds(log: Sequence[LogEntries], rules: MergeRules) -> Any:
    return np.concatenate(
        [
            _delete_kinds(entry) if isinstance(entry, Deletes) else _row_kinds(entry, rules)
            for entry in log
        ]
    )


def _delete_kinds(deletes: Deletes) -> Any:
    if deletes.ordering is None:
        return np.full(len(deletes.keys), NATURAL_DELETE, np.uint8)
    natural = deletes.ordering.is_null().to_numpy(zero_copy_only=False)
    return np.where(natural, NATURAL_DELETE, ORDERED_DELETE).astype(np.uint8)


def _row_kinds(rows: pa.Table, rules: MergeRules) -> Any:
    """DATA for each row, or ORDERED_DELETE where a column marks it as a delete."""
    kinds = np.full(rows.num_rows, DATA, np.uint8)
    mark = delete_mask(rows, rules.marks)
    if mark is not None:
        kinds[mark] = ORDERED_DELETE
    return kinds


def _ranks(base: pa.Table | None, log: Sequence[LogEntries], rules: MergeRules) -> SliceRanks:
    if not rules.is_event_time:
        return SliceRanks()
    base_rows = 0 if base is None else base.num_rows
    values, valid = _rank_columns(base, log, rules)
    return SliceRanks(values[base_rows:], valid[base_rows:], values[:base_rows], valid[:base_rows])


def _rank_columns(
    base: pa.Table | None, log: Sequence[LogEntries], rules: MergeRules
) -> tuple[Any, Any]:
    """Ranks of the base rows and then of the log entries, and which of them are comparable."""
    columns = [
        _ordering(name, base, log, field=None if len(rules.ordering) == 1 else number)
        for number, name in enumerate(rules.ordering)
    ]
    return ordering_ranks(sequence_columns(columns[0]) if rules.sequence else columns)


def _ordering(
    name: str, base: pa.Table | None, log: Sequence[LogEntries], *, field: int | None
) -> pa.ChunkedArray:
    """Values of one ordering column: of the base rows, then of every log entry in order.

    field: position of the column in a delete's struct of values; None for a single column.
    """
    chunks: list[pa.Array] = [] if base is None else list(values_at(base, name).chunks)
    kind = _ordering_type(name, base, log, field=field)
    for entry in log:
        if not isinstance(entry, Deletes):
            chunks += values_at(entry, name).chunks
        elif entry.ordering is None:
            chunks.append(pa.nulls(len(entry.keys), kind))
        else:
            chunks.append(entry.ordering if field is None else entry.ordering.flatten()[field])
    return pa.chunked_array(chunks, type=kind)


def _ordering_type(
    name: str, base: pa.Table | None, log: Sequence[LogEntries], *, field: int | None
) -> pa.DataType:
    """The type in the rows, or in the deletes if there are no rows; int64 if neither has one."""
    for entry in (base, *log):
        if entry is not None and not isinstance(entry, Deletes):
            return values_at(entry, name).type
    for entry in log:
        if isinstance(entry, Deletes) and entry.ordering is not None:
            kind = entry.ordering.type
            return kind if field is None else kind.field(field).type
    return pa.int64()
