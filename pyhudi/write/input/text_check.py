"""Check of strings that could be written but not read, before anything is written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UserError

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
                    "a string is not valid UTF-8", column=name, row=start + bad,
                    hint="decode it with its actual encoding, or store it as binary",
                )  # fmt: skip
            start += len(chunk)


def _is_sound(array: pa.Array) -> bool:
    """Whether all strings are UTF-8; reads only the rows of a slice.  The types are those of a
    table's schema."""
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
            row=first_row + row, bytes=lengths[row].as_py(),
            hint="use a shorter key, such as a hash, or another index",
        )  # fmt: skip
