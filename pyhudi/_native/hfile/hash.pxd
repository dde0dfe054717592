"""A hash table over the cells of a whole HFile, for lookups in an open, cached file."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from pyhudi._native.column cimport Column
from pyhudi._native.cursor cimport Status
from pyhudi._native.hfile.cells cimport Body


cdef class CellHash:
    cdef int tail
    cdef uint64_t seed
    cdef uint64_t *slots
    cdef uint64_t mask
    cdef const uint8_t **bases
    cdef int64_t block_room
    cdef int64_t block_count
    cdef int64_t cell_room
    cdef list owners
    cdef readonly int64_t cells
    cdef readonly int64_t size_bytes      # slots and the decoded blocks it keeps alive

    cdef Status add(self, Body body) except *
    cdef object answer(self, Column column)


cdef CellHash cell_hash(int64_t blocks, int64_t cells, int tail)
