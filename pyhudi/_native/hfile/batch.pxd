"""A batch of keys looked up in one HFile: sorted once, answered in the requested order."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from pyhudi._native.column cimport Column, ColumnView
from pyhudi._native.cursor cimport Status
from pyhudi._native.hfile.guide cimport Guide
from pyhudi._native.hfile.index cimport BlockIndex


ctypedef struct SortKey:
    uint64_t head             # the 8 bytes after the file's common prefix, zero-padded
    uint32_t row              # position in the batch
    uint32_t size             # bytes of the whole key


ctypedef struct Hit:
    const uint8_t *value      # NULL if absent
    int64_t size


ctypedef struct Touch:
    uint64_t offset           # of the block in the file
    uint32_t size             # of the whole block as stored
    uint32_t entry            # its position in the index that the batch was matched to
    int64_t begin             # sorted keys [begin, end) can only be in this block
    int64_t end


ctypedef struct Chunk:
    Chunk *before
    uint8_t *at
    uint8_t *end


cdef class Arena:
    """Copies of values that outlive the block they were found in; addresses never change."""
    cdef Chunk *last

    cdef uint8_t *take(self, int64_t size) noexcept nogil


cdef class LookupBatch:
    cdef Column column
    cdef const ColumnView *keys
    cdef readonly int64_t prefix_size
    cdef SortKey *sorted
    cdef readonly int64_t sorted_count    # keys that can be in the file
    cdef readonly bint arrived_sorted
    cdef Hit *hits
    cdef Touch *touches
    cdef readonly int64_t touch_count
    cdef bint is_small            # so that its blocks may be cached at once
    cdef int64_t kept_bytes       # of decoded blocks that were cached for this batch
    cdef list owners              # arenas and blocks that answers point into

    cdef int lay_over(self, BlockIndex index) except -1
    cdef Status merge(
        self, const Touch *touch, const uint8_t *body, uint32_t size, int tail, Arena arena,
        const Guide *guide,
    ) noexcept nogil
    cdef object gather(self)
