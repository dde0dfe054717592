"""The blocks of one open HFile: the source of their bytes, checks and decoding, and the choice of
blocks to cache.

A mapped file is one window; of any other source, windows are fetched on demand.  Bodies of a mapped
file without compression are read in place and never copied.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

from pyhudi._native.cursor cimport MALFORMED, OK, Cursor, Status, cursor_over
from pyhudi._native.hfile.block cimport (
    HEADER_SIZE, NONE, BlockHeader, check_sums, raise_corrupt, take_header,
)
from pyhudi._native.hfile.cells cimport Body, body_of_bytes, completed, is_bare
from pyhudi._native.hfile.index cimport BlockIndex, node_index
from pyhudi._native.hfile.layout cimport (
    MAGIC_DATA, MAGIC_INTERMEDIATE, MAGIC_LEAF, Layout, open_layout, read_exactly,
)

import mmap

from pyhudi._native.hfile.source import open_source
from pyhudi.errors import CorruptFileError, UserError


cdef extern from *:
    """
    #ifdef _WIN32  /* the system takes pages back when it needs them */
    static void pyhudi_give_back(void *address, size_t size) { (void)address; (void)size; }
    #else
    #include <sys/mman.h>
    static void pyhudi_give_back(void *address, size_t size) {
        madvise(address, size, MADV_DONTNEED);
    }
    #endif
    """
    void give_back "pyhudi_give_back"(void *address, size_t size) noexcept nogil

cdef uintptr_t PAGE = mmap.PAGESIZE


cdef class BlockStore:
    """Created by `open_store`.  Safe for several threads under the GIL."""

    def __dealloc__(self):
        if self._view != NULL:
            PyBuffer_Release(self._view)
            PyMem_Free(self._view)

    cdef int close(self) except -1:
        """Remove this file from the cache and drop the source, which stays open."""
        if self.source is not None:
            self.drop_blocks()
            self.cache.forget(self.name_of(-1))
            self.source = None
        return 0

    cdef int drop_blocks(self) except -1:
        """Remove the decoded blocks from the cache."""
        for offset in self._kept_offsets:
            self.cache.forget(self.name_of(offset))
        self._kept_offsets = set()
        return 0

    cdef object name_of(self, int64_t offset):
        """Cache key of the block at `offset`; -1 is the hash over all cells."""
        return self._cache_name, offset

    # ---- index --------------------------------------------------------------------------------

    cdef BlockIndex leaves(self):
        """The whole index of DATA blocks, whose ends must be those of the trailer."""
        cdef BlockIndex index = self.layout.root
        cdef int level
        for level in range(self.layout.levels - 1, 0, -1):
            index = self.below(index, range(index.count), level)
        if index.count:
            self.layout.check_ends(index)
        return index

    cdef BlockIndex below(self, BlockIndex index, object entries, int level):
        """One level down: the entries of the index blocks at `entries`, in sequence."""
        cdef BlockIndex below = BlockIndex()
        cdef BlockIndex node
        cdef int64_t entry
        cdef uint64_t magic = MAGIC_LEAF if level == 1 else MAGIC_INTERMEDIATE
        below.reserve(0)
        for entry in entries:
            offset = index.offsets[entry]
            node = self._nodes.get(offset)
            if node is None:
                node = node_index(self.block(offset, index.sizes[entry], magic))
                if node is None:
                    raise CorruptFileError(
                        "malformed index block", path=self.layout.path, offset=offset
                    )
                self.layout.adopt(node)
                self._nodes[offset] = node
            below.append(node)
        self.layout.adopt(below)
        return below

    # ---- blocks -------------------------------------------------------------------------------

    cdef bytes block(self, int64_t offset, int64_t size, uint64_t magic):
        """Body of one block that is not DATA."""
        cdef bytes block = read_exactly(self.source, offset, size, self.layout.path)
        cdef int64_t stored = 0
        cdef bytes body = self.layout.load(block, size, offset, magic, &stored)
        if stored != size:
            raise CorruptFileError("block and index disagree", path=self.layout.path, offset=offset)
        return body

    cdef Window window(self, int64_t begin, int64_t end):
        """Bytes [begin, end) of the file: one request, unless the file is mapped."""
        cdef Window window = Window()
        window.begin = begin
        if self.base != NULL:
            window.at = self.base + begin
            return window
        if self.source is None:
            raise UserError("the reader is closed", path=self.layout.path)
        data = read_exactly(self.source, begin, end - begin, self.layout.path)
        window.owner = data
        window.at = <const uint8_t *>PyBytes_AS_STRING(data)
        return window

    cdef void let_go(self, int64_t begin, int64_t end) noexcept:
        """Release bytes [begin, end) of a mapped file that are not needed again soon.

        Their pages leave this process, so that an index larger than memory can be read; they
        stay in the page cache.  No effect on memory of any other kind, which would lose its bytes.
        """
        cdef uintptr_t low, high
        if not self.mapped or self.in_place:
            return
        low = (<uintptr_t>self.base + <uintptr_t>begin + PAGE - 1) // PAGE * PAGE
        high = (<uintptr_t>self.base + <uintptr_t>end) // PAGE * PAGE
        if high > low:
            give_back(<void *>low, high - low)

    cdef bint holds(self, int64_t offset):
        return self.cache.get(self.name_of(offset)) is not None

    cdef Body kept(self, int64_t offset):
        """The decoded DATA block at `offset` if the cache has it, else None."""
        cdef Body body
        data = self.cache.get(self.name_of(offset))
        if data is None:
            return None
        body = body_of_bytes(data)
        body.kept = True
        return body

    cdef list kept_all(self, list offsets):
        """Decoded bodies (bytes) of the cached blocks at `offsets`, None for others."""
        name = self._cache_name
        return self.cache.get_all([(name, offset) for offset in offsets])

    cdef Body decode(self, int64_t offset, int64_t size, Window window):
        """The DATA block at `offset`, which the window must cover, checked and decoded."""
        cdef BlockHeader header
        cdef Body body
        cdef Status status = OK
        cdef const uint8_t *at = window.at + (offset - window.begin)
        self.blocks_read += 1
        self.layout.open_header(at, size, offset, &header)
        if header.magic != MAGIC_DATA or HEADER_SIZE + <int64_t>header.stored != size:
            raise CorruptFileError("block and index disagree", path=self.layout.path, offset=offset)
        if self.in_place:
            if header.plain != header.summed - HEADER_SIZE:
                raise_corrupt(MALFORMED, self.layout.path, offset)
            body = Body()
            body.owner = self.source
            body.at = at + HEADER_SIZE
            body.size = header.plain
            body.kept = True
            return body
        body = body_of_bytes(self.layout.body_of(at, &header, offset))
        if is_bare(body.at, body.size):
            full = completed(body.at, body.size, self.layout.tail, &status)
            raise_corrupt(status, self.layout.path, offset)
            body = body_of_bytes(full)
        self._decoded_count += 1
        self._decoded_bytes += body.size
        return body

    cdef bint keep(self, int64_t offset, Body body, bint at_once):
        """Cache a decoded block if it fits there and, unless `at_once`, only on its
        second use: blocks read once must not evict blocks read often."""
        if body.kept:
            return True
        if not at_once and offset not in self._met_offsets:
            self._met_offsets.add(offset)
            return False
        body.kept = self.cache.put(self.name_of(offset), body.owner, body.size)
        if body.kept:
            self._kept_offsets.add(offset)
        return body.kept

    def bodies(self, BlockIndex index, int64_t begin, int64_t end):
        """Decoded DATA blocks of entries [begin, end), fetched in large ranges.  Caches nothing."""
        cdef int64_t entry = begin, last, limit
        cdef Window window
        cdef Body body
        while entry < end:
            last = entry
            limit = index.offsets[entry] + SCAN_WINDOW_BYTES
            while last + 1 < end and index.end_of(last + 1) <= limit:
                last += 1
            window = self.window(index.offsets[entry], index.end_of(last))
            while entry <= last:
                body = self.kept(index.offsets[entry])
                if body is None:
                    body = self.decode(index.offsets[entry], index.sizes[entry], window)
                yield body
                entry += 1
            self.let_go(window.begin, index.end_of(last))

    # ---- facts --------------------------------------------------------------------------------

    cdef int64_t decoded_bytes_expected(self):
        """Decoded size of all DATA blocks, estimated from those decoded; -1 before the first.

        Zero for files that are read in place.
        """
        if self.in_place:
            return 0
        if self._decoded_count == 0:
            return -1
        return self._decoded_bytes // self._decoded_count * self.layout.root.count

    cdef int check_count(self, int64_t cells) except -1:
        """Check that the DATA blocks contain as many cells as the trailer states."""
        if cells != self.layout.entry_count:
            raise CorruptFileError(
                "cells and trailer disagree", path=self.layout.path,
                cells=cells, entry_count=self.layout.entry_count,
            )
        return 0


cdef BlockStore open_store(object source, object cache, object path, bint verify_checksums):
    """Open anything `open_source` accepts; `path`: its name in errors, None for the source's."""
    cdef BlockStore store = BlockStore()
    store.source, name = open_source(source)
    store.cache = cache
    store._cache_name = object()
    store._kept_offsets = set()
    store._met_offsets = set()
    store._nodes = {}
    buffer = getattr(store.source, "buffer", None)
    if buffer is not None:
        take_view(store, buffer)
        store.base = <const uint8_t *>store._view.buf
        store.mapped = getattr(store.source, "mapped", None) is not None
    store.layout = open_layout(store.source, path or name, verify_checksums)
    store.compressed = store.layout.codec != NONE
    store.in_place = store.base != NULL and not store.compressed and not starts_bare(store)
    return store


cdef int take_view(BlockStore store, object buffer) except -1:
    """Export a buffer for the life of the store.

    CPython 3.11 clears a memoryview in a garbage cycle although a buffer of it is exported, and
    crashes when that is released.  The collector does not see the export behind a pointer, so it
    counts as a use from outside of the cycle, and the memoryview lives until it is released.
    """
    cdef Py_buffer *view = <Py_buffer *>PyMem_Malloc(sizeof(Py_buffer))
    if view == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    except BaseException:
        PyMem_Free(view)
        raise
    store._view = view
    return 0


cdef bint starts_bare(BlockStore store):
    """Whether the cells of a mapped file cannot be read in place."""
    cdef int64_t first = store.layout.first_data
    if first < 0 or first + HEADER_SIZE + 10 > store.layout.load_on_open:
        return False
    return is_bare(store.base + first + HEADER_SIZE, 10)


cdef Status open_plain(
    Layout layout, const uint8_t *at, int64_t size, uint32_t *body_size
) noexcept nogil:
    """Check header and checksums of an uncompressed DATA block of `size` bytes."""
    cdef Cursor c = cursor_over(at, size)
    cdef BlockHeader header
    cdef Status status = take_header(&c, &header)
    if status != OK:
        return status
    if header.magic != MAGIC_DATA or HEADER_SIZE + <int64_t>header.stored != size:
        return MALFORMED
    if header.plain != header.summed - HEADER_SIZE:
        return MALFORMED
    if header.checksum_type != layout.checksum_type:
        return MALFORMED
    body_size[0] = header.plain
    return check_sums(at, &header) if layout.verify_checksums else OK
