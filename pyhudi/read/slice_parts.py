"""The two parts of a merged slice, for engines that read base files by their own reader.

    remaining    rows of the base file that no log entry replaces: all but `replaced_rows`
    logged       all other rows: `logged_rows`

Together they are the rows of `read_slice`.  Both merge independently of each other, and find the
other's decision in the cache if the same process computed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Longs
from pyhudi.formats.base_file import footer
from pyhudi.formats.log_file import BlockKind
from pyhudi.formats.log_scan import PlacedBlock
from pyhudi.merge.merge_cache import OUTCOMES, Outcome, outcome_key
from pyhudi.merge.partial_updates import flagged
from pyhudi.merge.slice_merge import (
    data_of,
    decide,
    remaining_rows,
    rows_of_logs,
)
from pyhudi.read.file_slice import (
    Loaded,
    SliceSpec,
    finish,
    load,
    log_blocks,
    log_entries,
    merged_columns,
    present_rules,
    readable_row_groups,
    stored_columns,
    with_partial_rules,
)
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice


def replaced_rows(
    fs: FileSystem, slice: FileSlice, *, spec: SliceSpec, partition_values: Mapping[str, pa.Scalar]
) -> Longs:
    """Row numbers in the base file of the rows that log entries replace or delete, ascending.

    spec: its columns do not matter.  With a filter, only rows of row groups that may contain
    matching rows are returned.  Reads the columns that decide the merge.  Raises as `read_slice`
    does.
    """
    none = np.empty(0, np.int64)
    if slice.base is None:
        return none
    read = _matching(fs, slice, spec, partition_values)
    blocks = log_blocks(fs, slice, spec.visibility) if read is None or read else []
    if not blocks:
        return none
    spec.rules.check()
    spec = replace(spec, columns=(), where=None, keys=None)
    spec, partial = with_partial_rules(spec, blocks)
    if spec.rules.is_plain and read is None:
        live = _outcome(fs, slice, blocks, spec).base
        assert live is not None
        return np.flatnonzero(~live.mask)
    found = load(fs, slice, blocks, spec, {}, read, narrow=True)
    assert found.base is not None
    base = flagged(found.base, found.base.schema.names, None) if partial else found.base
    rules = present_rules(spec.rules, found.needed)
    replaced = np.flatnonzero(~remaining_rows(base, found.log, rules, found.match))
    return replaced if read is None else _in_file(fs, slice.base.path, read)[replaced]


def _matching(
    fs: FileSystem, slice: FileSlice, spec: SliceSpec, values: Mapping[str, pa.Scalar]
) -> list[int] | None:
    """The row groups of the base file that may contain matching rows; None for all."""
    if spec.where is None or slice.source is not None:
        return None
    assert slice.base is not None
    found = readable_row_groups(fs, slice, spec=spec, partition_values=values)
    return None if len(found) == footer(fs, slice.base.path).row_groups else found


def _in_file(fs: FileSystem, path: str, row_groups: Sequence[int]) -> Longs:
    """The numbers in the file of the rows of some row groups."""
    stored = footer(fs, path).metadata
    counts = [stored.row_group(number).num_rows for number in range(stored.num_row_groups)]
    ends = np.cumsum(counts)
    return np.concatenate([np.arange(ends[n] - counts[n], ends[n]) for n in row_groups])


def logged_rows(
    fs: FileSystem, slice: FileSlice, *, spec: SliceSpec, partition_values: Mapping[str, pa.Scalar]
) -> pa.Table:
    """The rows of a slice that are not unchanged rows of its base file; as `read_slice`."""
    blocks = log_blocks(fs, slice, spec.visibility)
    if not blocks:
        return spec.schema.empty_table()
    spec.rules.check()
    spec, partial = with_partial_rules(replace(spec, keys=None), blocks)
    if spec.rules.is_plain:
        rows = _live_log(fs, slice, blocks, spec, partition_values)
    else:
        rows = _merged(
            load(fs, slice, blocks, spec, partition_values, None),
            spec,
            partition_values,
            partial=partial,
        )
    return finish(rows, spec, partition_values)


def _merged(
    found: Loaded, spec: SliceSpec, values: Mapping[str, pa.Scalar], *, partial: bool
) -> pa.Table:
    base = found.base
    if base is None and not data_of(found.log):
        return found.needed.empty_table()
    if partial and base is not None:
        base = flagged(base, found.needed.names, None)
    rules = present_rules(spec.rules, found.needed)
    columns = merged_columns(spec, values, found.needed, partial=partial)
    return rows_of_logs(base, found.log, rules, columns=columns, match=found.match)


def _live_log(
    fs: FileSystem,
    slice: FileSlice,
    blocks: list[PlacedBlock],
    spec: SliceSpec,
    values: Mapping[str, pa.Scalar],
) -> pa.Table:
    """The live rows of the logs under plain rules."""
    known = OUTCOMES.get(outcome_key(fs.url, slice, blocks, spec.rules))
    names = stored_columns(spec, values)
    if known is not None:
        stored = pa.schema(map(spec.table.field, names))
        data = [placed for placed in blocks if placed.block.kind is not BlockKind.DELETE]
        log = data_of(list(log_entries(fs, data, stored, spec)))
        if not log:
            return stored.empty_table()
        return Outcome(None, known.log).rows(None, log, names)
    if not spec.rules.is_event_time:  # base rows never win
        slice = replace(slice, base=None)
    found = load(fs, slice, blocks, spec, values, None, narrow=True)
    if not data_of(found.log):
        return found.needed.empty_table()
    rules = present_rules(spec.rules, found.needed)
    return rows_of_logs(found.base, found.log, rules, columns=names, match=found.match)


def _outcome(
    fs: FileSystem, slice: FileSlice, blocks: list[PlacedBlock], spec: SliceSpec
) -> Outcome:
    """The cached decision of a merge, or a new one, which is cached."""
    key = outcome_key(fs.url, slice, blocks, spec.rules)
    known = OUTCOMES.get(key)
    if known is None:
        found = load(fs, slice, blocks, spec, {}, None, narrow=True)
        rules = present_rules(spec.rules, found.needed)
        known = decide(found.base, found.log, rules, found.match)
        OUTCOMES.put(key, known)
    return known


__all__ = ["logged_rows", "replaced_rows"]
