"""A view of an Arrow string or binary column as C pointers.

Functions over key columns use it: a Python-level function makes a `Column` from an Arrow
object, drops the GIL and passes `&column.view` to C functions.  A `Column` keeps the Arrow
array alive; the view must not outlive it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t


ctypedef struct ColumnView:
    const uint8_t *data       # bytes of all values; never NULL
    const int32_t *off32      # length + 1 offsets from the first row on, or NULL if 64 bits wide
    const int64_t *off64      # likewise, or NULL if 32 bits wide
    const uint8_t *valid      # Arrow validity bitmap, or NULL if no row is null
    int64_t length            # rows
    int64_t offset            # bit of the first row in `valid`


ctypedef struct Span:
    const uint8_t *data
    int64_t size


cdef inline Span span_at(const ColumnView *view, int64_t row) noexcept nogil:
    """Bytes of a row; a null row returns the bytes in its slot, usually none."""
    cdef Span span
    if view.off32 != NULL:
        span.data = view.data + view.off32[row]
        span.size = view.off32[row + 1] - view.off32[row]
    else:
        span.data = view.data + view.off64[row]
        span.size = view.off64[row + 1] - view.off64[row]
    return span


cdef inline bint is_null(const ColumnView *view, int64_t row) noexcept nogil:
    cdef int64_t bit
    if view.valid == NULL:
        return False
    bit = view.offset + row
    return not (view.valid[bit >> 3] >> (bit & 7)) & 1


cdef inline int64_t first_null(const ColumnView *view) noexcept nogil:
    """Row of the first null, or -1."""
    cdef int64_t row
    if view.valid != NULL:
        for row in range(view.length):
            if is_null(view, row):
                return row
    return -1


cdef class Column:
    cdef ColumnView view
    cdef readonly object array    # the pyarrow array the view points into

    cdef int _point(self) except -1
