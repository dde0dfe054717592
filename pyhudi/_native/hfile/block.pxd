"""One HFile block: header, checksums, body, and the cells of a DATA body.  Layout: writer.pyx.

    header  magic 8 | i32 stored | i32 plain | i64 previous | u8 checksum type | i32 chunk | i32 summed
    body    summed - 33 bytes, compressed with the file's codec
    sums    one u32 per `chunk` bytes of header and body
    cell    i32 key size | i32 value size | i16 row size | row | family | qualifier | 9 bytes
            | value | [u16 tags size, tags] | [hvint mvcc]
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from pyhudi._native.cursor cimport (
    MALFORMED, OK, TRUNCATED, Cursor, Status, likely, load_be16, load_be32, load_be64, take_hvint,
)

cdef enum:
    HEADER_SIZE = 33
    CELL_SIZE_MIN = 20          # row, value and mvcc empty
    ROW_SIZE_MAX = 32767

ctypedef enum Codec:
    GZ = 1
    NONE = 2

# The fields after each value, according to FILE_INFO.
cdef enum:
    TAIL_MVCC = 1
    TAIL_TAGS = 2


ctypedef struct BlockHeader:
    uint64_t magic
    uint32_t stored           # bytes after the header, checksums included
    uint32_t plain            # bytes of the body after decompression
    int64_t previous          # offset of the preceding block of the same type; never relied on
    uint8_t checksum_type     # 0 none, 1 CRC-32, 2 CRC-32C
    uint32_t chunk            # bytes each checksum covers
    uint32_t summed           # header and body as stored, without checksums


ctypedef struct Cell:
    const uint8_t *row
    const uint8_t *value
    const uint8_t *next       # the cell after this one, or the end of the body
    uint32_t row_size
    uint32_t value_size


cdef Status take_header(Cursor *c, BlockHeader *header) noexcept nogil
cdef Status check_sums(const uint8_t *block, const BlockHeader *header) noexcept nogil
cdef bytes inflate(object body, uint32_t plain)
cdef int raise_corrupt(Status status, object path, int64_t offset) except -1


cdef inline Status take_tail(Cell *cell, const uint8_t *end, int tail) noexcept nogil:
    """Skip tags and mvcc after the value; take_cell handles the common one-byte mvcc."""
    cdef Cursor c
    cdef int64_t mvcc
    cdef Status status
    c.at = cell.next
    c.end = end
    if tail & TAIL_TAGS:
        if end - c.at < 2:
            return TRUNCATED
        if end - c.at - 2 < load_be16(c.at):
            return TRUNCATED
        c.at += 2 + load_be16(c.at)
    if tail & TAIL_MVCC:
        status = take_hvint(&c, &mvcc)
        if status != OK:
            return status
    cell.next = c.at
    return OK


cdef inline Status take_cell(
    const uint8_t *at, const uint8_t *end, int tail, Cell *cell
) noexcept nogil:
    """The cell at `at`, completely inside the body.  At least ten bytes follow its row."""
    cdef uint64_t room = <uint64_t>(end - at)
    cdef uint64_t key_size, value_size, row_size
    if room < CELL_SIZE_MIN:
        return TRUNCATED
    key_size = load_be32(at)
    value_size = load_be32(at + 4)
    row_size = load_be16(at + 8)
    if key_size < row_size + 12 or row_size > ROW_SIZE_MAX:
        return MALFORMED
    if 8 + key_size + value_size > room:
        return TRUNCATED
    cell.row = at + 10
    cell.row_size = <uint32_t>row_size
    cell.value = at + 8 + key_size
    cell.value_size = <uint32_t>value_size
    cell.next = cell.value + value_size
    if likely(tail == TAIL_MVCC and cell.next < end and cell.next[0] < 0x80):
        cell.next += 1
        return OK
    return take_tail(cell, end, tail) if tail else OK


cdef inline uint64_t head_in_place(const uint8_t *at, int64_t size) noexcept nogil:
    """First eight bytes as a number with the same order; eight bytes must be readable."""
    if likely(size >= 8):
        return load_be64(at)
    if size <= 0:
        return 0
    return load_be64(at) & (~<uint64_t>0 << (8 * (8 - size)))


cdef inline uint64_t head_of(const uint8_t *at, int64_t size) noexcept nogil:
    """Like head_in_place if only `size` bytes may be read."""
    cdef uint64_t head = 0
    cdef int64_t i
    if likely(size >= 8):
        return load_be64(at)
    for i in range(size):
        head |= <uint64_t>at[i] << (8 * (7 - i))
    return head


cdef inline int compare_rows(
    const uint8_t *a, int64_t a_size, const uint8_t *b, int64_t b_size
) noexcept nogil:
    """Compare unsigned bytes, a prefix first; negative, zero or positive."""
    cdef int64_t shorter = a_size if a_size < b_size else b_size
    cdef int order = memcmp(a, b, <size_t>shorter) if shorter > 0 else 0
    if order == 0:
        return (a_size > b_size) - (a_size < b_size)
    return order
