"""Rows before and after a change, paired by key and classified.

Rows with the same key are paired in order: the first with the first.  Unpaired rows were inserted
or deleted; pairs with different values were updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.read.changes.row_equality import rows_differ

INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"

KEY: Final = "\0record_key"
PARTITION: Final = "\0partition_path"
"""Additional columns, with names that no column of a table has."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Row numbers: of pairs (`before[i]` with `after[i]`) and of unpaired rows."""

    before: Any
    after: Any
    only_before: Any
    only_after: Any


def pair(before: pa.Table, after: pa.Table, names: tuple[str, ...]) -> Pairs:
    """Pair rows whose columns `names` are equal."""
    count = before.num_rows
    codes = np.zeros(count + after.num_rows, np.int64)
    for name in names:
        both = pa.chunked_array(
            [*before.column(name).chunks, *after.column(name).chunks],
            type=before.schema.field(name).type,
        )
        coded = both.combine_chunks().dictionary_encode()
        width = len(coded.dictionary) + 1
        numbers = coded.indices.fill_null(width - 1).to_numpy(zero_copy_only=False)
        codes = np.unique(codes * width + numbers, return_inverse=True)[1].astype(np.int64)
    old, new = _numbered(codes[:count]), _numbered(codes[count:])
    _, at_old, at_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    order = np.argsort(at_new, kind="stable")
    at_old, at_new = at_old[order], at_new[order]
    return Pairs(
        at_old,
        at_new,
        np.setdiff1d(np.arange(count), at_old, assume_unique=True),
        np.setdiff1d(np.arange(after.num_rows), at_new, assume_unique=True),
    )


def _numbered(codes: Any) -> Any:
    """Unique codes: the n-th row of a code gets a number that only n-th rows of that code get."""
    order = np.argsort(codes, kind="stable")
    ranked = codes[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else ranked
    sizes = np.diff(np.r_[starts, len(ranked)]).astype(np.int64)
    nth = np.empty(len(codes), np.int64)
    nth[order] = np.arange(len(codes)) - np.repeat(starts, sizes)
    return codes * np.int64(1 << 31) + nth


def changed(before: pa.Table, after: pa.Table, values: tuple[str, ...]) -> pa.Table:
    """Rows that differ: [record_key, partition_path, change, before, after].

    before, after: same schema, with KEY, PARTITION and the columns `values`.  The columns before
    and after of the result are structs of `values`, null where there is no such row.
    """
    pairs = pair(before, after, (PARTITION, KEY))
    old = before.select(list(values)).take(pa.array(pairs.before))
    new = after.select(list(values)).take(pa.array(pairs.after))
    unlike = rows_differ(old, new)
    updated = pairs.before[unlike], pairs.after[unlike]
    none = np.full(max(len(pairs.only_before), len(pairs.only_after)), -1)
    at_old = np.concatenate([updated[0], pairs.only_before, none[: len(pairs.only_after)]])
    at_new = np.concatenate([updated[1], none[: len(pairs.only_before)], pairs.only_after])
    change = np.repeat(
        np.array([UPDATE, DELETE, INSERT]),
        [len(updated[0]), len(pairs.only_before), len(pairs.only_after)],
    )
    named = pa.concat_tables(
        [
            after.take(pa.array(updated[1])),
            before.take(pa.array(pairs.only_before)),
            after.take(pa.array(pairs.only_after)),
        ]
    ).select([KEY, PARTITION])
    return pa.Table.from_arrays(
        [
            named.column(KEY),
            named.column(PARTITION),
            pa.array(change.tolist() if not len(change) else change, pa.string()),
            _structs(before.select(list(values)), at_old),
            _structs(after.select(list(values)), at_new),
        ],
        schema=change_schema(before.select(list(values)).schema),
    )


def change_schema(values: pa.Schema) -> pa.Schema:
    """The schema of `changed`, for these columns."""
    row = pa.struct(list(values))
    return pa.schema(
        [("record_key", pa.string()), ("partition_path", pa.string()), ("change", pa.string()),
         ("before", row), ("after", row)]
    )  # fmt: skip


def _structs(rows: pa.Table, numbers: Any) -> pa.Array:
    """Rows by number as structs, null for -1."""
    absent = numbers < 0
    taken = rows.take(pa.array(numbers, mask=absent))
    children = [column.combine_chunks() for column in taken.columns]
    whole = [c if isinstance(c, pa.Array) else pa.concat_arrays(c.chunks) for c in children]
    return pa.StructArray.from_arrays(whole, fields=list(rows.schema), mask=pa.array(absent))
