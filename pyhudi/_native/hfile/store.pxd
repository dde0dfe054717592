"""The blocks of one open HFile: fetched, checked, decoded, cached."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from pyhudi._native.cursor cimport Status
from pyhudi._native.hfile.cells cimport Body
from pyhudi._native.hfile.index cimport BlockIndex
from pyhudi._native.hfile.layout cimport Layout

cdef enum:
    SCAN_WINDOW_BYTES = 64 << 20      # fetched at once by sequential reads


cdef class Window:
    """Bytes of the file from offset `begin` on, addressable."""
    cdef object owner
    cdef const uint8_t *at
    cdef int64_t begin


cdef class BlockStore:
    cdef readonly object source           # None once closed
    cdef readonly Layout layout
    cdef readonly object cache
    cdef readonly int64_t blocks_read     # DATA blocks not served from the cache
    cdef const uint8_t *base              # the whole file, or NULL if it is read in ranges
    cdef bint in_place                    # cells are read in the mapped file
    cdef bint compressed
    cdef bint mapped                      # `base` is a mapped file
    cdef Py_buffer *_view  # NULL without one; a pointer hides it from the garbage collector
    cdef object _cache_name               # first part of this file's keys in the cache
    cdef set _kept_offsets
    cdef set _met_offsets                 # blocks decoded before, cached or not
    cdef dict _nodes                      # offset -> BlockIndex of a leaf or intermediate block
    cdef int64_t _decoded_count
    cdef int64_t _decoded_bytes

    cdef int close(self) except -1
    cdef int drop_blocks(self) except -1
    cdef object name_of(self, int64_t offset)
    cdef BlockIndex leaves(self)
    cdef BlockIndex below(self, BlockIndex index, object entries, int level)
    cdef void let_go(self, int64_t begin, int64_t end) noexcept
    cdef bytes block(self, int64_t offset, int64_t size, uint64_t magic)
    cdef Window window(self, int64_t begin, int64_t end)
    cdef bint holds(self, int64_t offset)
    cdef Body kept(self, int64_t offset)
    cdef list kept_all(self, list offsets)
    cdef Body decode(self, int64_t offset, int64_t size, Window window)
    cdef bint keep(self, int64_t offset, Body body, bint at_once)
    cdef int64_t decoded_bytes_expected(self)
    cdef int check_count(self, int64_t cells) except -1


cdef BlockStore open_store(object source, object cache, object path, bint verify_checksums)
cdef Status open_plain(
    Layout layout, const uint8_t *at, int64_t size, uint32_t *body_size
) noexcept nogil
