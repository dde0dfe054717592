"""Entry points into a DATA block: every eighth cell by the head of its row."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


ctypedef struct Guide:
    int64_t count
    uint64_t *heads           # ascending; those of the batch that created it, see SortKey
    uint32_t *offsets         # of the cells in the body


cdef inline int64_t last_below(const Guide *guide, int64_t from_, uint64_t want) noexcept nogil:
    """The last sample at or after `from_` whose head is below `want`, found by galloping.

    Cells with a head of `want` are after it, or at its position if it is `from_`.
    """
    cdef int64_t low = from_
    cdef int64_t step = 1
    cdef int64_t high = from_ + 1
    cdef int64_t middle
    while high < guide.count and guide.heads[high] < want:
        low = high
        step *= 2
        high += step
    if high > guide.count:
        high = guide.count
    while high - low > 1:
        middle = (low + high) >> 1
        if guide.heads[middle] < want:
            low = middle
        else:
            high = middle
    return low


cdef class BlockGuides:
    cdef Guide **guides
    cdef uint8_t *touched
    cdef int64_t blocks

    cdef const Guide *guide_of(
        self, int64_t entry, const uint8_t *body, uint32_t size, int tail, int64_t prefix_size
    ) noexcept nogil


cdef BlockGuides block_guides(int64_t blocks)
