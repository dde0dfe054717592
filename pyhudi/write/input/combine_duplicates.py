"""Merging of rows with the same key within a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Ints
from pyhudi.merge.column_merge import plain
from pyhudi.merge.combine_batch import merged_rows
from pyhudi.merge.log_fold import number_keys
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.records import PARTITION_PATH
from pyhudi.write.input.batch import BatchChunk, take_rows


@dataclass(frozen=True, slots=True)
class FoldedRows:
    """Rows of a batch after rows with the same key were merged.

    retained: positions of unmerged rows.  rows: merged rows, with the keyed columns.
    """

    retained: npt.NDArray[np.int64]
    rows: pa.Table


def folded_rows(
    keys: pa.ChunkedArray, parts: Sequence[BatchChunk], part: Ints, row: Ints, rules: MergeRules
) -> FoldedRows | None:
    """Merge rows with the same key, in order; None if no key occurs twice.

    keys: of rows ordered by (part, row).  A key whose last effective row is a delete retains that
    row.  Copies only the rows of duplicate keys.
    """
    _, _, key = number_keys(keys)
    several = np.bincount(key)[key] > 1
    if not several.any():
        return None
    at = np.flatnonzero(several)
    merged = merged_rows(key[at], plain(take_rows(parts, part[at], row[at])), rules)
    paths = merged.rows.schema.get_field_index(PARTITION_PATH)
    encoded = merged.rows.column(paths).dictionary_encode()
    rows = merged.rows.set_column(paths, PARTITION_PATH, encoded)
    return FoldedRows(np.sort(np.concatenate([np.flatnonzero(~several), at[merged.removed]])), rows)
