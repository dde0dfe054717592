"""Cells of decoded DATA blocks as Arrow columns."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from pyhudi._native.cursor cimport Status


ctypedef struct CellRange:
    const uint8_t *at
    const uint8_t *end


cdef class Body:
    """A decoded DATA block: its cells, and the owner of their memory."""
    cdef object owner
    cdef const uint8_t *at
    cdef uint32_t size
    cdef bint kept            # the cells stay in place for as long as `owner` lives


cdef Body body_of_bytes(bytes data)


cdef class CellColumns:
    cdef int tail
    cdef list owners
    cdef CellRange *ranges
    cdef int64_t range_count
    cdef int64_t range_room
    cdef readonly int64_t cells
    cdef readonly int64_t key_bytes
    cdef readonly int64_t value_bytes

    cdef Status add(self, Body body, bytes start, bytes stop) except *
    cdef object take(self)


cdef class RowOrder:
    cdef int tail
    cdef readonly int64_t cells
    cdef Body last                    # the block of the last row
    cdef const uint8_t *last_at
    cdef int64_t last_size

    cdef Status follow(self, Body body, bytes separator)
    cdef bytes last_row(self)


cdef bint is_bare(const uint8_t *at, uint32_t size) noexcept nogil
cdef object completed(const uint8_t *at, uint32_t size, int tail, Status *status)
cdef Status count_cells(const uint8_t *at, uint32_t size, int tail, int64_t *cells) noexcept nogil
cdef Status order_of(Body body, int tail) noexcept nogil
