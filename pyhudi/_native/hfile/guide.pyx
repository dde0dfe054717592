"""Entry points into a DATA block, so that few keys in a cached block need not read all its cells.

A guide is created when a block is touched for the second time: one pass then, and about 1.5 bytes
per cell afterwards, for as long as the file is open.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from pyhudi._native.cursor cimport OK
from pyhudi._native.hfile.block cimport CELL_SIZE_MIN, Cell, head_in_place, take_cell

cdef extern from *:
    """
    #define pyhudi_published(slot) __atomic_load_n((slot), __ATOMIC_ACQUIRE)
    #define pyhudi_publish(slot, value) __sync_bool_compare_and_swap((slot), NULL, (value))
    """
    Guide *published "pyhudi_published"(Guide **slot) noexcept nogil
    bint publish "pyhudi_publish"(Guide **slot, Guide *value) noexcept nogil

cdef enum:
    SAMPLE = 8                # cells between samples


cdef class BlockGuides:
    """Guides by entry of the block index.  Several threads may query at once."""

    def __dealloc__(self):
        cdef int64_t entry
        if self.guides != NULL:
            for entry in range(self.blocks):
                free(self.guides[entry])
        PyMem_Free(self.guides)
        PyMem_Free(self.touched)

    cdef const Guide *guide_of(
        self, int64_t entry, const uint8_t *body, uint32_t size, int tail, int64_t prefix_size
    ) noexcept nogil:
        """The guide of a block, or NULL on first touch, for a corrupt body, or out of memory."""
        cdef Guide *guide = published(&self.guides[entry])
        if guide != NULL:
            return guide
        if not self.touched[entry]:
            self.touched[entry] = 1
            return NULL
        guide = sampled(body, size, tail, prefix_size)
        if guide != NULL and not publish(&self.guides[entry], guide):
            free(guide)
            guide = published(&self.guides[entry])
        return guide


cdef Guide *sampled(
    const uint8_t *body, uint32_t size, int tail, int64_t prefix_size
) noexcept nogil:
    cdef int64_t room = size // (CELL_SIZE_MIN * SAMPLE) + 1
    cdef Guide *guide = <Guide *>malloc(sizeof(Guide) + room * (sizeof(uint64_t) + sizeof(uint32_t)))
    cdef const uint8_t *at = body
    cdef const uint8_t *end = body + size
    cdef int64_t cells = 0
    cdef Cell cell
    if guide == NULL:
        return NULL
    guide.count = 0
    guide.heads = <uint64_t *>(guide + 1)
    guide.offsets = <uint32_t *>(guide.heads + room)
    while at < end:
        if take_cell(at, end, tail, &cell) != OK or cell.row_size < prefix_size:
            free(guide)
            return NULL
        if cells % SAMPLE == 0:
            guide.heads[guide.count] = head_in_place(
                cell.row + prefix_size, cell.row_size - prefix_size
            )
            guide.offsets[guide.count] = <uint32_t>(at - body)
            guide.count += 1
        cells += 1
        at = cell.next
    if guide.count == 0:
        free(guide)
        return NULL
    return guide


cdef BlockGuides block_guides(int64_t blocks):
    cdef BlockGuides made = BlockGuides()
    made.guides = <Guide **>PyMem_Calloc(blocks + 1, sizeof(Guide *))
    made.touched = <uint8_t *>PyMem_Calloc(blocks + 1, 1)
    if made.guides == NULL or made.touched == NULL:
        raise MemoryError
    made.blocks = blocks
    return made
