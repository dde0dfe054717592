"""Check of vectors and variants in a batch, before anything is written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Mask
from pyhudi.errors import UserError
from pyhudi.formats.logical_types import VARIANT, Logical, Vector, logical_type


def check_logical_types(rows: pa.Table, *, first_row: int = 0) -> None:
    """Raise UserError for a vector with too few or too many values or a null value, and a variant
    without metadata or value.

    rows: with the fields of the table's schema, which define vectors and variants.
    """
    for field, column in zip(rows.schema, rows.columns, strict=True):
        logical = logical_type(field)
        if logical is None:
            continue
        start = first_row
        for chunk in column.chunks:
            bad = _first_bad(chunk, logical)
            if bad is not None:
                raise _error(field.name, start + bad, chunk[bad], logical)
            start += len(chunk)


def _error(column: str, row: int, value: pa.Scalar, logical: Logical) -> UserError:
    if logical == VARIANT:
        return UserError("a variant has no metadata or no value", column=column, row=row)
    return UserError(
        "a vector has the wrong number of values for its column's type, or a null value",
        column=column, row=row, type=str(logical), values=len(value),
        hint="pad or truncate it, or store null for the whole vector",
    )  # fmt: skip


def _first_bad(values: pa.Array, logical: Logical) -> int | None:
    """Number of the first row that is neither null nor a complete value."""
    bad = _bad_vectors(values, logical) if isinstance(logical, Vector) else _bad_variants(values)
    return int(np.argmax(bad)) if bad.any() else None


def _bad_vectors(vectors: pa.ListArray, kind: Vector) -> Mask:
    lengths = pc.fill_null(vectors.value_lengths(), kind.dimension)
    bad: Mask = np.asarray(lengths) != kind.dimension
    values = vectors.flatten()
    if values.null_count:
        parents = np.asarray(pc.list_parent_indices(vectors))
        bad[parents[np.asarray(values.is_null())]] = True
    return bad


def _bad_variants(variants: pa.StructArray) -> Mask:
    bad = np.zeros(len(variants), np.bool_)
    for part in variants.flatten():
        bad |= np.asarray(part.is_null()) & np.asarray(variants.is_valid())
    return bad
