"""Checks and packing of complete columns.  Header-only."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline void pack_bits(uint8_t *flags, int64_t count) noexcept nogil:
    """A byte per slot to a bit per slot, in place: no byte is written before it has been read."""
    cdef int64_t i, tail = count & 7
    cdef uint64_t word
    for i in range(count // 8):
        memcpy(&word, flags + i * 8, 8)
        flags[i] = <uint8_t>((word * <uint64_t>0x0102040810204080) >> 56)
    if tail:
        word = 0
        memcpy(&word, flags + count - tail, <size_t>tail)
        flags[count // 8] = <uint8_t>((word * <uint64_t>0x0102040810204080) >> 56)


cdef inline bint is_ascii(const uint8_t *data, int64_t size) noexcept nogil:
    cdef uint64_t seen = 0, word
    cdef int64_t i = 0, k
    while size - i >= 64:
        for k in range(8):
            memcpy(&word, data + i + k * 8, 8)
            seen |= word
        if seen & <uint64_t>0x8080808080808080:
            return False
        i += 64
    while i < size:
        seen |= data[i]
        i += 1
    return (seen & <uint64_t>0x8080808080808080) == 0


cdef inline bint is_utf8(const uint8_t *data, int64_t size) noexcept nogil:
    """Well-formed by Unicode table 3-7: no overlong forms, no surrogates, none above U+10FFFF."""
    cdef const uint8_t *at = data
    cdef const uint8_t *end = data + size
    cdef uint8_t lead
    cdef uint64_t word
    while at < end:
        if end - at >= 8:
            memcpy(&word, at, 8)
            if not word & <uint64_t>0x8080808080808080:
                at += 8
                continue
        lead = at[0]
        if lead < 0x80:
            at += 1
        elif lead < 0xC2:
            return False
        elif lead < 0xE0:
            if end - at < 2 or at[1] & 0xC0 != 0x80:
                return False
            at += 2
        elif lead < 0xF0:
            if end - at < 3 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80:
                return False
            if (lead == 0xE0 and at[1] < 0xA0) or (lead == 0xED and at[1] > 0x9F):
                return False
            at += 3
        elif lead < 0xF5:
            if end - at < 4 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80 or at[3] & 0xC0 != 0x80:
                return False
            if (lead == 0xF0 and at[1] < 0x90) or (lead == 0xF4 and at[1] > 0x8F):
                return False
            at += 4
        else:
            return False
    return True


cdef inline int64_t find_bad_text(
    const uint8_t *data, const int32_t *offsets, int64_t length
) noexcept nogil:
    """The first slot of a string column that is not UTF-8, or -1."""
    cdef int64_t i, size = offsets[length] if length > 0 else 0
    cdef bint sound
    if size == 0 or is_ascii(data, size):
        return -1
    sound = is_utf8(data, size)
    if sound:
        for i in range(length):
            if offsets[i] < size and data[offsets[i]] & 0xC0 == 0x80:
                sound = False
                break
    if sound:
        return -1
    for i in range(length):
        if not is_utf8(data + offsets[i], offsets[i + 1] - offsets[i]):
            return i
    return -1
