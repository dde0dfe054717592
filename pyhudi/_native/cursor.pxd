"""A cursor over bytes from a file, which checks before it advances.

Header-only: no Python object, no raise.  A `take_*` either advances past the whole item and
returns OK, or returns another Status and leaves `at` at the start of the item.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "bytes.h" nogil:
    uint16_t load_be16 "pyhudi_load16"(const uint8_t *p) noexcept
    uint32_t load_be32 "pyhudi_load32"(const uint8_t *p) noexcept
    uint64_t load_be64 "pyhudi_load64"(const uint8_t *p) noexcept
    void store_be16 "pyhudi_store16"(uint8_t *p, uint16_t value) noexcept
    void store_be32 "pyhudi_store32"(uint8_t *p, uint32_t value) noexcept
    void store_be64 "pyhudi_store64"(uint8_t *p, uint64_t value) noexcept
    bint likely "pyhudi_likely"(bint condition) noexcept
    void prefetch "pyhudi_prefetch"(const void *p) noexcept


ctypedef enum Status:
    OK = 0
    END                # nothing left; not an error by itself
    TRUNCATED          # the bytes end inside an item
    MALFORMED          # the bytes are invalid
    BAD_CHECKSUM
    OUT_OF_ORDER       # rows that must ascend do not
    NO_MEMORY


ctypedef struct Cursor:
    const uint8_t *at
    const uint8_t *end


cdef inline Cursor cursor_over(const uint8_t *data, int64_t size) noexcept nogil:
    cdef Cursor c
    c.at = data
    c.end = data + size
    return c


cdef inline Status take_u8(Cursor *c, uint8_t *out) noexcept nogil:
    if c.end - c.at < 1:
        return TRUNCATED
    out[0] = c.at[0]
    c.at += 1
    return OK


cdef inline Status take_i16(Cursor *c, int16_t *out) noexcept nogil:
    if c.end - c.at < 2:
        return TRUNCATED
    out[0] = <int16_t>load_be16(c.at)
    c.at += 2
    return OK


cdef inline Status take_i32(Cursor *c, int32_t *out) noexcept nogil:
    if c.end - c.at < 4:
        return TRUNCATED
    out[0] = <int32_t>load_be32(c.at)
    c.at += 4
    return OK


cdef inline Status take_i64(Cursor *c, int64_t *out) noexcept nogil:
    if c.end - c.at < 8:
        return TRUNCATED
    out[0] = <int64_t>load_be64(c.at)
    c.at += 8
    return OK


cdef inline Status take_bytes(Cursor *c, int64_t size, const uint8_t **out) noexcept nogil:
    """`size` bytes in place.  A negative size is malformed."""
    if size < 0:
        return MALFORMED
    if c.end - c.at < size:
        return TRUNCATED
    out[0] = c.at
    c.at += size
    return OK


cdef inline Status take_hvint(Cursor *c, int64_t *out) noexcept nogil:
    """Hadoop VInt/VLong: one byte from -112 on is the value, below it is sign and width."""
    cdef int first, width, i
    cdef uint64_t value = 0
    if c.end - c.at < 1:
        return TRUNCATED
    first = <int8_t>c.at[0]
    if first >= -112:
        out[0] = first
        c.at += 1
        return OK
    width = -(first + 112) if first >= -120 else -(first + 120)
    if c.end - c.at < 1 + width:
        return TRUNCATED
    for i in range(width):
        value = (value << 8) | c.at[1 + i]
    out[0] = <int64_t>value if first >= -120 else <int64_t>~value
    c.at += 1 + width
    return OK


cdef inline Status take_uvarint(Cursor *c, uint64_t *out) noexcept nogil:
    """Protobuf base-128 varint, at most ten bytes."""
    cdef uint64_t value = 0
    cdef const uint8_t *at = c.at
    cdef int shift = 0
    while shift < 70:
        if at >= c.end:
            return TRUNCATED
        value |= <uint64_t>(at[0] & 0x7F) << shift if shift < 64 else 0
        if at[0] < 0x80:
            if shift == 63 and at[0] > 1:
                return MALFORMED
            c.at = at + 1
            out[0] = value
            return OK
        at += 1
        shift += 7
    return MALFORMED


cdef inline int put_hvint(uint8_t *at, uint32_t value) noexcept nogil:
    """Write a length as Hadoop VInt; returns its width of at most five bytes."""
    cdef int width, i
    if value <= 127:
        at[0] = <uint8_t>value
        return 1
    width = 1 + (value > 0xFF) + (value > 0xFFFF) + (value > 0xFFFFFF)
    at[0] = <uint8_t>(-112 - width)
    for i in range(width):
        at[1 + i] = <uint8_t>(value >> (8 * (width - 1 - i)))
    return 1 + width


cdef inline int put_uvarint(uint8_t *at, uint64_t value) noexcept nogil:
    """Write a Protobuf varint; returns its width of at most ten bytes."""
    cdef int width = 0
    while value >= 0x80:
        at[width] = <uint8_t>(value | 0x80)
        value >>= 7
        width += 1
    at[width] = <uint8_t>value
    return width + 1
