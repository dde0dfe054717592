"""Verification of a whole HFile: all blocks, all rows, and their consistency."""

from libc.stdint cimport int64_t

from pyhudi._native.cursor cimport TRUNCATED, load_be32
from pyhudi._native.hfile.block cimport HEADER_SIZE, BlockHeader, raise_corrupt
from pyhudi._native.hfile.cells cimport Body, RowOrder
from pyhudi._native.hfile.index cimport BlockIndex
from pyhudi._native.hfile.layout cimport MAGIC_DATA, MAGIC_META, Layout, is_known
from pyhudi._native.hfile.store cimport BlockStore, Window

from pyhudi.errors import CorruptFileError

cdef int64_t TRAILER_SIZE = 4096


cdef int64_t verify_store(BlockStore store) except -1:
    """The number of cells, all of which were read."""
    cdef BlockIndex index = store.leaves()
    cdef int64_t cells = walk_rows(store, index)
    store.check_count(cells)
    walk_blocks(store, index)
    for offset, size in store.layout.meta_blocks.values():
        store.block(offset, size, MAGIC_META)
    return cells


cdef int64_t walk_rows(BlockStore store, BlockIndex index) except -1:
    """Count the cells; rows must ascend and match the index."""
    cdef Layout layout = store.layout
    cdef RowOrder order = RowOrder(layout.tail)
    cdef int64_t entry = 0
    cdef Body body
    for body in store.bodies(index, 0, index.count):
        separator = <bytes>index.rows[entry][: index.row_sizes[entry]]
        raise_corrupt(order.follow(body, separator), layout.path, index.offsets[entry])
        entry += 1
    if layout.last_row is not None and order.cells and order.last_row() != layout.last_row:
        raise CorruptFileError("last row and FILE_INFO disagree", path=layout.path)
    return order.cells


cdef int walk_blocks(BlockStore store, BlockIndex index) except -1:
    """Check that blocks cover the file from its first byte to the trailer, and that the DATA blocks
    are those of the index."""
    cdef Layout layout = store.layout
    cdef int64_t offset = 0, end = layout.file_size - TRAILER_SIZE, entry = 0, size
    cdef BlockHeader header
    cdef Window window
    while offset < end:
        if end - offset < HEADER_SIZE:
            raise_corrupt(TRUNCATED, layout.path, offset)
        window = store.window(offset, offset + HEADER_SIZE)
        size = HEADER_SIZE + <int64_t>load_be32(window.at + 8)
        if size > end - offset:
            raise_corrupt(TRUNCATED, layout.path, offset)
        window = store.window(offset, offset + size)
        layout.open_header(window.at, size, offset, &header)
        if header.magic == MAGIC_DATA and (header.plain or index.count):  # see `names_no_cell`
            if entry >= index.count or <int64_t>index.offsets[entry] != offset:
                raise CorruptFileError(
                    "a data block is not in the index", path=layout.path, offset=offset
                )
            entry += 1
        elif not is_known(header.magic):
            raise CorruptFileError("unknown block type", path=layout.path, offset=offset)
        offset += size
    if entry != index.count:
        raise CorruptFileError("the index has a block that is not there", path=layout.path)
    return 0
