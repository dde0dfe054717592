"""Merging the log entries of a slice into the rows of its base file.

    base   b1 b2 b3 b4        rows of the base file, one a key
    log    d1 | x2 | d3       tables of data rows and batches of deletes, oldest first

Every entry gets a kind and a rank (the ordering value as an int64); the native `fold` finds each
key's state, `against_base` which base rows stay.  The result is filters and one concatenation:
no row is touched in Python.  The rules are those of `pyhudi._native.fold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pyhudi._native.keys import fold
from pyhudi.merge.column_merge import plain
from pyhudi.merge.log_fold import (
    DATA,
    NATURAL_DELETE,
    NO_ENTRY,
    ORDERED_DELETE,
    Entries,
    fold_entries,
    fold_onto,
    number_keys,
    with_base,
)
from pyhudi.merge.merge_cache import Live, Outcome
from pyhudi.merge.merge_rules import MergeRules, delete_mask
from pyhudi.merge.ordering_values import ordering_ranks, sequence_columns
from pyhudi.merge.precedence import Ranked


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deletes of one block, in block order.

    ordering: the deletes' ordering values (of several columns: structs of them), null for one
    that wins by commit time alone; None under commit-time order.
    """

    keys: pa.Array
    ordering: pa.Array | None = None


LogEntries: TypeAlias = pa.Table | Deletes


def merge(
    base: pa.Table | None,
    log: Sequence[LogEntries],
    rules: MergeRules,
    *,
    columns: Sequence[str],
) -> pa.Table:
    """The rows of the slice: base rows that stay in file order, then rows from the logs.

    base and the tables of `log` have one schema, which holds the rules' columns and `columns`,
    those of the result.  log is not empty, and has a table where there is no base.  Columns of
    base that decide nothing may be dictionary arrays.
    """
    if rules.is_plain:
        return decide(base, log, rules).rows(base, data_of(log), columns)
    keys = _keys(log, rules)
    ranks = _ranks(base, log, rules)
    return _folded(base, log, rules, columns, keys, ranks)


def decide(base: pa.Table | None, log: Sequence[LogEntries], rules: MergeRules) -> Outcome:
    """Which rows of base and log are live, by plain rules (`MergeRules.is_plain`)."""
    columns = folded_columns(base, log, rules)
    keys, ranks = columns.keys, columns.ranks
    state = fold(keys, columns.kinds, ranks.log, ranks.log_valid, rules.is_event_time)
    kept = None
    if base is None:
        take = state.winner[state.winner >= 0]
    else:
        base_keys = _text(base.column(rules.key_column))
        keep, take = state.against_base(base_keys, ranks.base, ranks.base_valid)
        kept = Live.of(keep)
    taken = np.zeros(len(keys), dtype=np.bool_)
    taken[take] = True
    return Outcome(kept, Live.of(taken[columns.is_data]))


@dataclass(frozen=True, slots=True)
class FoldColumns:
    """Of each log entry, oldest first, what merging looks at."""

    keys: pa.ChunkedArray
    kinds: Any
    is_data: Any  # whether it is a row of a data block
    ranks: SliceRanks


def folded_columns(
    base: pa.Table | None, log: Sequence[LogEntries], rules: MergeRules
) -> FoldColumns:
    """Ranks are alike over base and log."""
    return FoldColumns(
        _keys(log, rules), _kinds(log, rules), _is_data(log), _ranks(base, log, rules)
    )


def _folded(
    base: pa.Table | None,
    log: Sequence[LogEntries],
    rules: MergeRules,
    columns: Sequence[str],
    keys: pa.ChunkedArray,
    ranks: SliceRanks,
) -> pa.Table:
    """`merge` by rules that the native fold does not know."""
    table, number, key = number_keys(keys)
    is_data = _is_data(log)
    rows = [entry.select(columns) for entry in data_of(log)]
    if not rows:
        assert base is not None
        rows = [plain(base.slice(0, 0).select(columns))]
    entries = Entries(
        key,
        int(key.max(initial=-1)) + 1,
        _kinds(log, rules),
        _ranked(ranks.log, ranks.log_valid, len(key)),
        np.cumsum(is_data) - 1,
        pa.concat_tables(rows),
    )
    if base is None:
        return fold_entries(entries, rules).rows
    first = np.asarray(table.first(_text(base.column(rules.key_column))))
    base_key = np.where(first >= 0, number[first], NO_ENTRY)
    stored = plain(base.select(columns))
    if rules.function is not None:
        return fold_onto(stored, base_key, entries, rules)
    order = _ranked(ranks.base, ranks.base_valid, base.num_rows)
    return with_base(fold_entries(entries, rules), stored, base_key, order, rules)


def data_of(log: Sequence[LogEntries]) -> list[pa.Table]:
    """The tables of data rows."""
    return [entry for entry in log if isinstance(entry, pa.Table)]


def _ranked(values: Any, valid: Any, count: int) -> Ranked:
    return Ranked.none(count) if values is None else Ranked(values, valid)


@dataclass(frozen=True, slots=True)
class SliceRanks:
    """Ordering values as int64, alike over base and log; None under commit-time order.  The
    flags are False where a value is null and so cannot be compared."""

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
    """Of each entry, whether it is a row of a data block."""
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
    """Rows are data, unless a column marks them as deletes."""
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
    """Ranks of the base rows and then of the log entries, and which of them can be compared."""
    columns = [
        _ordering(name, base, log, field=None if len(rules.ordering) == 1 else number)
        for number, name in enumerate(rules.ordering)
    ]
    return ordering_ranks(sequence_columns(columns[0]) if rules.sequence else columns)


def _ordering(
    name: str, base: pa.Table | None, log: Sequence[LogEntries], *, field: int | None
) -> pa.ChunkedArray:
    """Values of one ordering column: of the base rows, then of every log entry in order.

    field: which of a delete's values are meant, if it has several.
    """
    chunks: list[pa.Array] = [] if base is None else list(base.column(name).chunks)
    kind = _ordering_type(name, base, log, field=field)
    for entry in log:
        if isinstance(entry, pa.Table):
            chunks += entry.column(name).chunks
        elif entry.ordering is None:
            chunks.append(pa.nulls(len(entry.keys), kind))
        else:
            chunks.append(entry.ordering if field is None else entry.ordering.flatten()[field])
    return pa.chunked_array(chunks, type=kind)


def _ordering_type(
    name: str, base: pa.Table | None, log: Sequence[LogEntries], *, field: int | None
) -> pa.DataType:
    """By the rows; by the deletes where these are all there is, which need not bear a value."""
    for entry in (base, *log):
        if isinstance(entry, pa.Table):
            return entry.schema.field(name).type
    for entry in log:
        if isinstance(entry, Deletes) and entry.ordering is not None:
            kind = entry.ordering.type
            return kind if field is None else kind.field(field).type
    return pa.int64()
