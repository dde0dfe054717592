"""Facts of the index, and of the overlap of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.engine import Engine
from pyhudi.index.maintenance.stats import index_stats
from pyhudi.index.selection import choose_index
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.metadata.file_stats.collect import read_ranges
from pyhudi.metadata.file_stats.ranges import ColumnRanges
from pyhudi.metadata.file_stats.value_types import has_ranges
from pyhudi.metadata.payloads import COLUMN_STATS
from pyhudi.metadata.record_index.lookup_explain import explain_lookup
from pyhudi.options import IndexKind, Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY
from pyhudi.report.facts import ColumnOverlap, IndexFacts, LookupFacts, OverlapFacts, Unavailable
from pyhudi.table.file_group_view import FileSlice

PROBES: Final = 32
"""Keys of the measured look-up."""
FILES_MAX: Final = 2_000
"""Base files whose overlap is measured."""
OVERLAP_COLUMNS_MAX: Final = 6


def index_facts(state: TableState, options: Options, engine: Engine) -> IndexFacts:
    """Statistics of the record index, and a measured look-up of keys that it does not have.

    Cost: head and trailer of each file of the index; at most `PROBES` keys in each file.
    Raises IndexNotReadyError, UnsupportedTableError where the index cannot be read."""
    choice = choose_index(state.fs, state.config, options.write)
    listed = state.metadata is not None and state.metadata.has_record_index
    if choice is not None and choice.kind.is_store:
        return IndexFacts(choice.kind.value)
    if not listed:
        return IndexFacts(choice.kind.value if choice is not None else "none")
    stats = index_stats(state, engine)
    keys = pa.array([f"\u0000pyhudi-report-{n}" for n in range(PROBES)], pa.string())
    rows = explain_lookup(state.fs, state.record_index, keys)
    sums = [
        pc.sum(rows[name]).as_py() or 0.0 for name in ("seek_seconds", "scan_seconds", "seconds")
    ]
    kind = IndexKind.ELASTIC if is_elastic(state.config) else IndexKind.RECORD
    return IndexFacts(kind.value, stats, LookupFacts(PROBES, rows.num_rows, *sums))


def overlap_facts(
    state: TableState, options: Options, slices: Sequence[FileSlice]
) -> OverlapFacts | Unavailable:
    """How much the ranges of base files overlap, by column, from the column statistics.

    Cost: look-ups of at most `FILES_MAX` files times `OVERLAP_COLUMNS_MAX` columns."""
    if state.metadata is None or COLUMN_STATS.path not in state.config.metadata_partitions:
        return Unavailable(
            "the table has no column statistics; `pyhudi index create PATH column_stats` "
            "creates them"
        )
    bases = [each.base for each in slices if each.base is not None]
    sample = sorted(bases, key=lambda f: f.name.instant, reverse=True)[:FILES_MAX]
    sorted_by = options.services.clustering.sort_columns
    columns = _columns(state, sorted_by)
    names = [(file.partition, str(file.name)) for file in sample]
    places = np.unique([file.partition for file in sample], return_inverse=True)[1]
    found = read_ranges(state.metadata, names, columns) if sample else {}
    measured = (
        _overlap(column, ranges, places, is_sorted_by=column in sorted_by)
        for column, ranges in found.items()
    )
    return OverlapFacts(tuple(filter(None, measured)), len(sample), len(bases))


def _columns(state: TableState, sorted_by: Sequence[str]) -> dict[str, pa.DataType]:
    """Columns to measure: those that clustering sorts by, the record key, then the first ones."""
    schema = state.schema()
    first = [*sorted_by, *state.config.record_key_fields, *state.config.ordering_fields]
    order = dict.fromkeys([*first, RECORD_KEY, *schema.names])
    fit = (
        (name, schema.field(name).type)
        for name in order
        if name in schema.names and (name == RECORD_KEY or not name.startswith("_hoodie_"))
    )
    usable = [(name, kind) for name, kind in fit if has_ranges(kind, 1) and not pt.is_boolean(kind)]
    return dict(usable[:OVERLAP_COLUMNS_MAX])


def _overlap(
    column: str, ranges: ColumnRanges, places: Any, *, is_sorted_by: bool
) -> ColumnOverlap | None:
    """The depth at the bounds of all files: how many ranges of the same partition contain each."""
    usable = np.flatnonzero(np.asarray(ranges.is_bounded, np.bool_))
    if not len(usable):
        return None
    at = pa.array(usable)
    bounds = pa.concat_arrays([ranges.low.take(at), ranges.high.take(at)])
    ranks = pc.rank(bounds, tiebreaker="dense").to_numpy().astype(np.int64)
    offset = places[usable] * (ranks.max() + 2)
    low, high = ranks[: len(usable)] + offset, ranks[len(usable) :] + offset
    starts, ends, points = np.sort(low), np.sort(high), np.concatenate([low, high])
    depth = np.searchsorted(starts, points, "right") - np.searchsorted(ends, points, "left")
    return ColumnOverlap(
        column, len(usable), round(float(depth.mean()), 3), int(depth.max()), is_sorted_by
    )
