"""Checks of values that could be written but not read: strings, keys, vectors and variants.

Each raises UserError with column and row, before anything is written.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import Mask
from pyhudi.errors import UserError
from pyhudi.formats.logical_types import VARIANT, Logical, Vector, logical_type

KEY_BYTES_MAX = (1 << 15) - 1
"""An HFile stores the key length as a signed 16-bit number."""


def check_texts(rows: pa.Table, *, first_row: int = 0) -> None:
    """Raise UserError for a string that is not UTF-8, with its column and row."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        start = first_row
        for chunk in column.chunks:
            if not _is_sound(chunk):
                sound = (_is_sound(chunk.slice(row, 1)) for row in range(len(chunk)))
                bad = next((row for row, is_sound in enumerate(sound) if not is_sound), 0)
                raise UserError(
                    "a string is not valid UTF-8",
                    column=name,
                    row=start + bad,
                    hint="decode it with its actual encoding, or store it as binary",
                )
            start += len(chunk)


def _is_sound(array: pa.Array) -> bool:
    """Whether all strings are UTF-8; reads only the rows of a slice.  The types are those of a
    table's schema."""
    if not len(array):  # lists of the JVM then have no offsets at all
        return True
    kind = array.type
    if pt.is_string(kind) or pt.is_large_string(kind):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True
    if pt.is_struct(kind):
        return all(map(_is_sound, array.flatten()))
    if pt.is_map(kind) or pt.is_list(kind):
        low, high = array.offsets[0].as_py(), array.offsets[-1].as_py()
        children = (array.keys, array.items) if pt.is_map(kind) else (array.values,)
        return all(_is_sound(child.slice(low, high - low)) for child in children)
    return True


def check_key_lengths(keys: pa.ChunkedArray, *, first_row: int = 0) -> None:
    """Raise UserError for a record key too long for an index file."""
    lengths = pc.binary_length(keys)
    if (pc.max(lengths).as_py() or 0) > KEY_BYTES_MAX:
        row = int(np.argmax(lengths.to_numpy() > KEY_BYTES_MAX))
        raise UserError(
            f"a record key is longer than {KEY_BYTES_MAX} bytes, which the table's record index "
            "cannot hold",
            row=first_row + row,
            bytes=lengths[row].as_py(),
            hint="use a shorter key, such as a hash, or another index",
        )


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
            bad = _first_incomplete(chunk, logical)
            if bad is not None:
                raise _invalid(field.name, start + bad, chunk[bad], logical)
            start += len(chunk)


def _invalid(column: str, row: int, value: pa.Scalar, logical: Logical) -> UserError:
    if logical == VARIANT:
        return UserError("a variant has no metadata or no value", column=column, row=row)
    return UserError(
        "a vector has the wrong number of values for its column's type, or a null value",
        column=column,
        row=row,
        type=str(logical),
        values=len(value),
        hint="pad or truncate it, or store null for the whole vector",
    )


def _first_incomplete(values: pa.Array, logical: Logical) -> int | None:
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
