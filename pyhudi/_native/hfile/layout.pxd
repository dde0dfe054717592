"""The metadata of an open HFile: trailer, load-on-open section, FILE_INFO."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from pyhudi._native.hfile.block cimport BlockHeader
from pyhudi._native.hfile.index cimport BlockIndex

cdef uint64_t MAGIC_DATA
cdef uint64_t MAGIC_META
cdef uint64_t MAGIC_LEAF
cdef uint64_t MAGIC_INTERMEDIATE


cdef class Layout:
    cdef readonly object path             # named in errors
    cdef readonly int64_t file_size
    cdef readonly int64_t load_on_open    # start of the root index; DATA blocks are before it
    cdef readonly int64_t entry_count
    cdef readonly int64_t root_count
    cdef readonly int64_t meta_count
    cdef readonly int levels
    cdef readonly int codec
    cdef readonly int checksum_type       # the same for every block of a file
    cdef readonly int64_t first_data
    cdef readonly int64_t last_data
    cdef readonly int tail                # TAIL_MVCC, TAIL_TAGS
    cdef readonly dict metadata           # FILE_INFO: str -> bytes
    cdef readonly dict meta_blocks        # name -> (offset, size)
    cdef readonly bytes prefix            # common prefix of all rows
    cdef public bint ordered              # rows seen so far ascend, so lookups may seek
    cdef readonly bytes last_row          # None if FILE_INFO does not state it
    cdef BlockIndex root
    cdef readonly bint verify_checksums

    cdef int open_header(
        self, const uint8_t *at, int64_t room, int64_t offset, BlockHeader *header
    ) except -1
    cdef bytes body_of(
        self, const uint8_t *block, const BlockHeader *header, int64_t offset
    )
    cdef bytes load(
        self, const uint8_t *at, int64_t room, int64_t offset, uint64_t magic, int64_t *size
    )
    cdef int adopt(self, BlockIndex index) except -1


cdef Layout open_layout(object source, object path, bint verify_checksums)
cdef bytes read_exactly(object source, int64_t offset, int64_t length, object path)
cdef bint is_known(uint64_t magic) noexcept nogil
