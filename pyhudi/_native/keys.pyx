"""Key columns as sets and maps: positions of keys, the latest row of each key.

Sorting is in keysort.pyx, the merge of log entries in keyfold.pyx; their names are exported here.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t

from pyhudi._native.column cimport Column
from pyhudi._native.keyindex cimport BATCH, KeyIndex, Slots, batch_size, find_all, link_batch

from pyhudi._native.keyfold import Fold as Fold
from pyhudi._native.keyfold import fold as fold
from pyhudi._native.keysort import argsort as argsort
from pyhudi._native.keysort import is_strictly_sorted as is_strictly_sorted
from pyhudi.errors import UserError

cdef uint32_t ONLY = 0xFFFFFFFFu     # the first occurrence is also the last


cdef class KeyTable:
    """Positions of keys by hash.  Built once, then read by any number of threads.

    keys: Arrow column of strings or bytes without nulls (UserError); kept alive, not copied.
    len(table) is the number of distinct keys.  Memory: 16 to 32 bytes per row, and 4 more if keys
    repeat.
    """

    cdef KeyIndex index
    cdef object last_rows             # uint32[n]: last row by first row, or None if none repeats
    cdef uint32_t *last
    cdef readonly int64_t distinct_count

    def __cinit__(self, keys not None):
        self.index = KeyIndex(keys)
        self.last = NULL
        cdef const Slots *slots = &self.index.slots
        cdef int64_t rows = self.index.column.view.length
        cdef int64_t done = 0
        with nogil:
            done = link_distinct(slots, rows)
        self.distinct_count = done
        if done < rows:
            self._link_repeated(done)

    cdef int _link_repeated(self, int64_t done) except -1:
        """Insert the rows from the batch of the first repeated key on."""
        cdef const Slots *slots = &self.index.slots
        cdef int64_t rows = self.index.column.view.length
        self.last_rows = np.full(rows, ONLY, dtype=np.uint32)
        cdef uint32_t[::1] last = self.last_rows
        self.last = &last[0]
        with nogil:
            self.distinct_count = link_last(slots, done, rows, self.last)
        return 0

    def __len__(self):
        return self.distinct_count

    def first(self, keys not None):
        """Row of each key's first occurrence in the table -> int64[n]; -1 absent or null."""
        cdef Column probes = Column(keys)
        out = np.empty(probes.view.length, dtype=np.int64)
        cdef int64_t[::1] rows = out
        if probes.view.length:
            with nogil:
                find_all(&self.index.slots, &probes.view, &rows[0])
        return out

    def find(self, keys not None):
        """Row of each key's last occurrence in the table -> int64[n]; -1 absent or null."""
        out = self.first(keys)
        cdef int64_t[::1] rows = out
        cdef int64_t i
        cdef uint32_t last
        if self.last != NULL:
            with nogil:
                for i in range(rows.shape[0]):
                    if rows[i] >= 0:
                        last = self.last[rows[i]]
                        if last != ONLY:
                            rows[i] = last
        return out

    def contains(self, keys not None):
        """Whether the table has each key -> bool[n]; False for nulls."""
        return self.first(keys) >= 0


def latest(keys, ranks=None):
    """Row of the winner of each distinct key, in order of first appearance -> int64[k].

    ranks: int64[n], the largest wins, among equal ranks the later row; None: the later row wins.
    Raises UserError for a null key or ranks of another length.
    """
    cdef KeyIndex index = KeyIndex(keys)
    cdef int64_t rows = index.column.view.length
    if ranks is not None and len(ranks) != rows:
        raise UserError("one rank for each key is needed", keys=rows, ranks=len(ranks))
    best_rows = np.empty(rows, dtype=np.int64)
    numbers = np.empty(rows, dtype=np.uint32)
    cdef int64_t[::1] best = best_rows
    cdef uint32_t[::1] number = numbers
    cdef const int64_t[::1] rank
    cdef const int64_t *rank_at = NULL
    cdef int64_t distinct
    if rows == 0:
        return best_rows
    if ranks is not None:
        rank = np.ascontiguousarray(ranks, dtype=np.int64)
        rank_at = &rank[0]
    with nogil:
        distinct = keep_best(&index.slots, rows, rank_at, &number[0], &best[0])
    return best_rows[:distinct].copy()


# --- core ---------------------------------------------------------------------------------------

cdef int64_t link_distinct(const Slots *slots, int64_t rows) noexcept nogil:
    """Insert rows until a key repeats; returns the rows inserted before that batch.

    The rows of the batch that repeats are inserted too; inserting them again changes nothing.
    """
    cdef uint32_t first[BATCH]
    cdef int64_t start = 0
    cdef int i, count
    cdef bint repeated = False
    while start < rows:
        count = batch_size(start, rows)
        link_batch(slots, start, count, first)
        for i in range(count):
            repeated |= first[i] != <uint32_t>(start + i)
        if repeated:
            return start
        start += BATCH
    return rows


cdef int64_t link_last(
    const Slots *slots, int64_t start, int64_t rows, uint32_t *last
) noexcept nogil:
    """Insert rows from `start` on (none repeats before it) and note last rows; returns the keys."""
    cdef uint32_t first[BATCH]
    cdef int64_t distinct = start
    cdef int i, count
    while start < rows:
        count = batch_size(start, rows)
        link_batch(slots, start, count, first)
        for i in range(count):
            if first[i] == <uint32_t>(start + i):
                distinct += 1
            else:
                last[first[i]] = <uint32_t>(start + i)
        start += BATCH
    return distinct


cdef int64_t keep_best(
    const Slots *slots, int64_t rows, const int64_t *rank, uint32_t *number, int64_t *best
) noexcept nogil:
    """number: ordinal of a key, at its first row; best: winner by ordinal.  Returns the keys."""
    cdef uint32_t first[BATCH]
    cdef int64_t distinct = 0
    cdef int64_t start = 0
    cdef int64_t row
    cdef int i, count
    cdef uint32_t key
    while start < rows:
        count = batch_size(start, rows)
        link_batch(slots, start, count, first)
        for i in range(count):
            row = start + i
            if first[i] == <uint32_t>row:
                number[row] = <uint32_t>distinct
                best[distinct] = row
                distinct += 1
                continue
            key = number[first[i]]
            if rank == NULL or rank[row] >= rank[best[key]]:
                best[key] = row
        start += BATCH
    return distinct
