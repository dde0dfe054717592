"""The rows of a slice from its two parts, as an engine with its own base file reader gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.slice_parts import logged_rows, replaced_rows
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice


def read_in_parts(
    fs: FileSystem,
    file_slice: FileSlice,
    spec: SliceSpec,
    values: Mapping[str, pa.Scalar],
    *,
    logged_first: bool = False,
) -> pa.Table:
    """As `read_slice`.  logged_first: neither part finds the decision of the other."""
    OUTCOMES.clear()
    if logged_first:
        logged = logged_rows(fs, file_slice, spec=spec, partition_values=values)
        OUTCOMES.clear()
    replaced = replaced_rows(fs, file_slice, spec=spec, partition_values=values)
    if not logged_first:
        logged = logged_rows(fs, file_slice, spec=spec, partition_values=values)
    if file_slice.base is None:
        return logged
    names = tuple(dict.fromkeys((*spec.columns, *spec.filter_columns)))
    wide = replace(spec, columns=names, where=None, keys=None)
    base = read_slice(fs, replace(file_slice, logs=()), spec=wide, partition_values=values)
    keep = np.ones(base.num_rows, np.bool_)
    keep[replaced] = False
    assert (np.diff(replaced) > 0).all()
    rows = base.filter(pa.array(keep))
    if spec.where is not None:
        rows = spec.where.passing(rows)
    return pa.concat_tables([rows.select(list(spec.columns)), logged])
