"""Column-wise merge of two records of one key, for many keys at a time.

old, new: tables with the same columns and length; row i of each is the stored and the newer record
of one key.  Each column is merged separately by index arrays; no row is touched in Python.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import Mask
from pyhudi.errors import SchemaError, UserError
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.partial_updates import flag_of, is_flag
from pyhudi.merge.payload_classes import Keeps, function_name
from pyhudi.records import META_COLUMNS


def overlay(old: pa.Table, new: pa.Table, old_is_greater: Mask, rules: MergeRules) -> pa.Table:
    """The merged records.  Meta columns come from `new`, or from the greater record under partial
    updates.

    old_is_greater: whether the stored record has the greater ordering value; set only by rules
    that merge such a record.
    """
    if not new.num_rows:
        return new
    if rules.function is not None:
        return _by_function(old, new, rules)
    columns = [_merged(name, old, new, old_is_greater, rules) for name in new.column_names]
    return pa.Table.from_arrays(columns, schema=new.schema)


def _merged(
    name: str, old: pa.Table, new: pa.Table, old_is_greater: Mask, rules: MergeRules
) -> pa.ChunkedArray:
    if name in META_COLUMNS:
        if rules.keeps is Keeps.ABSENT:
            return _column(old.column(name), new.column(name), old_is_greater, rules, None)
        return new.column(name)
    if is_flag(name):
        return pc.or_(old.column(name), new.column(name))
    flag = flag_of(name)
    stated = None
    if rules.keeps is Keeps.ABSENT and flag in new.column_names:
        stated = np.concatenate([_flags(side.column(flag)) for side in (old, new)])
    return _column(old.column(name), new.column(name), old_is_greater, rules, stated)


def _flags(column: pa.ChunkedArray) -> Mask:
    return np.asarray(column.to_numpy(), np.bool_)


def wanting(rows: pa.Table, rules: MergeRules) -> Mask:
    """Which rows have values that are replaced by those of an older record."""
    found = np.zeros(rows.num_rows, np.bool_)
    for name in rows.column_names:
        given = None if name in META_COLUMNS else _given(rows.column(name), rules)
        if given is not None:
            found |= ~given
    return found


def plain(rows: pa.Table) -> pa.Table:
    """The rows without dictionary arrays."""
    for index, field in enumerate(rows.schema):
        if pt.is_dictionary(field.type):
            decoded = field.with_type(field.type.value_type)
            rows = rows.set_column(index, decoded, rows.column(index).cast(decoded.type))
    return rows


def _column(
    old: pa.ChunkedArray,
    new: pa.ChunkedArray,
    old_is_greater: Mask,
    rules: MergeRules,
    stated: Mask | None,
) -> pa.ChunkedArray:
    """stated: which values of old, then of new, are present under partial updates; else None."""
    count = len(new)
    both = pa.chunked_array([*old.chunks, *new.chunks], new.type)
    given = _given(both, rules) if stated is None else stated
    if given is None and not old_is_greater.any():
        return new
    rows = np.arange(count)
    source = np.where(old_is_greater, rows, rows + count)
    if given is not None:
        other = np.where(old_is_greater, rows + count, rows)
        source = np.where(given[source], source, other)
    return both.take(pa.array(source))


def _given(column: pa.ChunkedArray, rules: MergeRules) -> Mask | None:
    """Which values take precedence over the other record's; None if all do."""
    if rules.keeps is Keeps.NULLS:
        if not column.null_count:
            return None
        return np.asarray(column.is_valid().to_numpy(), np.bool_)
    if rules.keeps in (Keeps.NOTHING, Keeps.ABSENT) or not _may_be_unavailable(column.type):
        return None
    absent = pc.fill_null(pc.equal(column, pa.scalar(rules.unavailable).cast(column.type)), False)
    return np.asarray(pc.invert(absent).to_numpy(), np.bool_)


def _may_be_unavailable(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_binary(kind))


def _by_function(old: pa.Table, new: pa.Table, rules: MergeRules) -> pa.Table:
    """The result of the user's merge function, called with the user's columns."""
    assert rules.function is not None
    names = [name for name in new.column_names if name not in META_COLUMNS]
    stored, incoming = (_one_batch(table.select(names)) for table in (old, new))
    name = function_name(rules.function)
    try:
        merged = rules.function(stored, incoming)
    except Exception as failed:  # whatever the user's code raises: a write rolls back at once
        raise UserError(
            "the merge function failed", function=name, error=f"{type(failed).__name__}: {failed}"
        ) from failed
    if not isinstance(merged, pa.RecordBatch):
        raise UserError(
            "a merge function must return a RecordBatch",
            function=name,
            found=type(merged).__name__,
        )
    if merged.num_rows != incoming.num_rows:
        raise UserError(
            "a merge function must return one row for each input row",
            function=name,
            given=incoming.num_rows,
            found=merged.num_rows,
        )
    if not merged.schema.equals(incoming.schema):
        raise SchemaError(
            "a merge function must return the schema of its input",
            function=name,
            expected=str(incoming.schema),
            found=str(merged.schema),
        )
    columns = [
        merged.column(name) if name in names else new.column(name) for name in new.column_names
    ]
    return pa.Table.from_arrays(columns, schema=new.schema)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    schema = rows.schema.remove_metadata()
    columns = [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
