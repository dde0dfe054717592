"""Entries of one level of an HFile's block index as arrays."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from pyhudi._native.cursor cimport Status


cdef class BlockIndex:
    cdef readonly int64_t count
    cdef int64_t room
    cdef uint64_t *offsets
    cdef uint32_t *sizes              # whole blocks as stored
    cdef const uint8_t **rows         # first rows (or HBase's shorter separators)
    cdef uint32_t *row_sizes
    cdef uint64_t *heads              # after the file's common prefix; see set_heads
    cdef list owners                  # the bytes that `rows` point into

    cdef int reserve(self, int64_t more) except -1
    cdef void put(
        self, uint64_t offset, uint32_t size, const uint8_t *row, uint32_t row_size
    ) noexcept nogil
    cdef Status take_root(
        self, const uint8_t *body, int64_t size, int64_t count, int64_t residue, bint native_lengths
    ) noexcept nogil
    cdef Status take_node(self, const uint8_t *body, int64_t size, int64_t count) noexcept nogil
    cdef Status set_heads(self, const uint8_t *prefix, int64_t prefix_size) noexcept nogil
    cdef Status check_blocks(self, uint64_t below) noexcept nogil
    cdef bint rows_ascend(self) noexcept nogil
    cdef int64_t end_of(self, int64_t entry) noexcept nogil
    cdef int64_t find(self, bytes row) except -2
    cdef int append(self, BlockIndex other) except -1


cdef BlockIndex root_index(bytes body, int64_t count, int64_t residue)
cdef BlockIndex node_index(bytes body)
