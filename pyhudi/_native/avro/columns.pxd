"""The columns of one decoding call.  Filled by decode.pyx, row by row; converted to arrays here."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyhudi._native.avro.column cimport Block, Op, Run


cdef class Columns:
    cdef Op *ops
    cdef list blocks    # Arrow buffers: BLOCK_COUNT per op, None before its first row

    cdef object block(self, int32_t index, Block block, int64_t size)
    cdef object validity(self, int32_t index)
    cdef object array(self, tuple parts, int32_t index)


cdef bint finish(Run *run, int32_t op_count, uint8_t *asked, int64_t *bad_slot) noexcept nogil
cdef void *allocate(Run *run, Op *op, Block block, int64_t size) noexcept with gil
