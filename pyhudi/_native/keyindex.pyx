"""Construction of the empty hash table of keyindex.pxd for a column; its users fill it."""

import os

import numpy as np

from libc.stdint cimport int64_t, uint64_t

from pyhudi._native.column cimport Column, first_null
from pyhudi.errors import UserError

# Drawn once per process, so that no file can be created whose keys all collide.
cdef uint64_t SEED = int.from_bytes(os.urandom(8), "little")
cdef int64_t ROWS_MAX = 0xFFFFFFFEll
cdef int LEAST_BITS = 5


cdef class KeyIndex:
    """The column and an empty hash table with room for all its rows.

    Raises UserError for a null key, with its row, and for more than 2^32 - 2 rows.
    """

    def __cinit__(self, keys not None):
        self.column = Column(keys)
        cdef int64_t rows = self.column.view.length
        cdef int64_t null_row = first_null(&self.column.view)
        cdef uint64_t[::1] words
        if null_row >= 0:
            raise UserError("a key is null", row=null_row)
        if rows > ROWS_MAX:
            raise UserError("too many keys for one table", rows=rows)
        bits = max(LEAST_BITS, (2 * rows - 1).bit_length()) if rows else LEAST_BITS
        self.words = np.zeros(1 << bits, dtype=np.uint64)
        words = self.words
        self.slots.slot = &words[0]
        self.slots.keys = &self.column.view
        self.slots.seed = SEED
        self.slots.mask = (<uint64_t>1 << bits) - 1
        self.slots.shift = 64 - bits
