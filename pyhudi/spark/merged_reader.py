"""Reads of file slices with logs whose base files are read by Spark's own Parquet reader.

    base file        Spark's reader, with the number of each row in its file
    replaced rows    workers, from the columns that decide the merge: one bitmap for 16,384 rows of
                     a base file that has such rows
    result           base rows less those of the bitmaps (an anti join), and the rows that the logs
                     add, from the workers

A bitmap is found by a number that combines a hash of the name of the base file and the position of
its rows.  The planner verifies that these numbers are distinct; every part can be computed again
with the same result, because a plan names the files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from pyhudi._native import xxh64
from pyhudi.arrays import Longs
from pyhudi.errors import UnsupportedTableError

_STRETCH_BITS: Final = 14
"""Rows of a bitmap, as a power of two."""

BITMAP_BYTES: Final = 1 << (_STRETCH_BITS - 3)

_NUMBER_BITS: Final = 20
"""Bits for the number of a bitmap in its file: up to 2^34 rows in a file."""

_SEED: Final = 42
"""The seed of Spark's `xxhash64`."""

_SALTS: Final = ("", "1", "2", "3", "4")

_NAME: Final = re.compile(r"[\w.\-]+", re.ASCII)

STRETCH: Final = "_pyhudi_stretch"
ROW: Final = "_pyhudi_row"
BITMAP: Final = "_pyhudi_bitmap"
WORDS: Final = "_pyhudi_words"
RESERVED: Final = frozenset({"_metadata", STRETCH, ROW, BITMAP, WORDS})
"""Column names that the plan uses, in lower case."""

BITMAPS: Final = StructType(
    [StructField(BITMAP, LongType()), StructField(WORDS, ArrayType(LongType()))]
)

_IS_REPLACED: Final = (
    f"{STRETCH} = {BITMAP} and shiftrightunsigned(get({WORDS}, cast(shiftright({ROW} & "
    f"{(1 << _STRETCH_BITS) - 1}, 6) as int)), cast({ROW} & 63 as int)) & 1 = 1"
)


def file_number(name: str, salt: str) -> int:
    """The number of the first bitmap of a file, as a signed long."""
    number = xxh64((salt + name).encode(), _SEED) >> _NUMBER_BITS << _NUMBER_BITS
    return number - (1 << 64) if number >= 1 << 63 else number


def salt_for(names: Sequence[str]) -> str | None:
    """A prefix with which the names of files have distinct numbers; None if none is found."""
    return next((salt for salt in _SALTS if are_distinct(names, salt)), None)


def are_distinct(names: Sequence[str], salt: str) -> bool:
    """Whether the names of files have distinct numbers, in Spark as in Python."""
    if len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        return False
    return len({file_number(name, salt) for name in names}) == len(names)


def bitmaps(rows: Longs, name: str, salt: str) -> pa.RecordBatch:
    """The bitmaps of row numbers, ascending, of a base file: columns of `BITMAPS`."""
    if len(rows) and int(rows[-1]) >> (_STRETCH_BITS + _NUMBER_BITS):
        raise UnsupportedTableError("too many rows in a base file", path=name, row=int(rows[-1]))
    stretches, begins = np.unique(rows >> _STRETCH_BITS, return_index=True)
    words = np.zeros((len(stretches), 1 << (_STRETCH_BITS - 3)), np.uint8)
    ends = np.r_[begins[1:], len(rows)]
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        mask = np.zeros(1 << _STRETCH_BITS, np.bool_)
        mask[rows[begin:end] & ((1 << _STRETCH_BITS) - 1)] = True
        words[number] = np.packbits(mask, bitorder="little")
    count = 1 << (_STRETCH_BITS - 6)
    offsets = pa.array(np.arange(len(stretches) + 1, dtype=np.int32) * count)
    lists = pa.ListArray.from_arrays(
        offsets,
        pa.array(words.reshape(-1).view("<i8")),
        type=pa.list_(pa.field("element", pa.int64())),
    )
    numbers = pa.array(stretches + file_number(name, salt), pa.int64())
    return pa.record_batch([numbers, lists], names=[BITMAP, WORDS])


def place_columns(salt: str) -> tuple[Column, Column]:
    """The number of the bitmap of a base row, and the row's number in its file."""
    row = F.col("_metadata.row_index")
    name = F.col("_metadata.file_name")
    salted = F.concat(F.lit(salt), name) if salt else name
    first = F.xxhash64(salted).bitwiseAND(F.lit(-1 << _NUMBER_BITS))
    return first.bitwiseOR(F.shiftright(row, _STRETCH_BITS)).alias(STRETCH), row.alias(ROW)


def without_replaced(base: DataFrame, replaced: DataFrame) -> DataFrame:
    """Base rows, with the columns of `place_columns`, less those of the bitmaps, which are sent to
    every executor."""
    return base.join(F.broadcast(replaced), F.expr(_IS_REPLACED), "left_anti")
