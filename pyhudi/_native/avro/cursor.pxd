"""Cursor over the bytes of Avro datums: each step checks against the datum's end.

Header-only.  Functions return the byte after the item, or NULL with the failure in `run`.
"""

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from pyhudi._native.avro.column cimport *
from pyhudi._native.avro.kinds cimport *

cdef extern from * nogil:
    int __builtin_ctzll(unsigned long long)

cdef enum:
    ITEMS_WITHOUT_BYTES_MAX = 1 << 24  # in all rows of a call: nulls, empty records


cdef inline const uint8_t *take_long_slow(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *out
) noexcept nogil:
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    cdef const uint8_t *start = at
    while shift < 70:
        if at >= end:
            return fail(run, op, start, TRUNCATED)
        byte = at[0]
        at += 1
        if shift == 63 and byte > 1:
            return fail(run, op, start, BAD_NUMBER)
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
            return at
        shift += 7
    return fail(run, op, start, BAD_NUMBER)


cdef inline const uint8_t *take_long(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *out
) noexcept nogil:
    """A zigzag varint; up to 8 bytes are folded at once if 8 can be read."""
    cdef uint64_t word, stops, odd
    if likely(at < end) and at[0] < 0x80:
        out[0] = <int64_t>(at[0] >> 1) ^ -<int64_t>(at[0] & 1)
        return at + 1
    if end - at >= 8:
        memcpy(&word, at, 8)
        stops = ~word & <uint64_t>0x8080808080808080
        if stops:
            at += (__builtin_ctzll(stops) >> 3) + 1
            word &= stops ^ (stops - 1)
            word &= <uint64_t>0x7F7F7F7F7F7F7F7F
            odd = word & <uint64_t>0x7F007F007F007F00
            word = (word & <uint64_t>0x007F007F007F007F) | (odd >> 1)
            odd = word & <uint64_t>0x3FFF00003FFF0000
            word = (word & <uint64_t>0x00003FFF00003FFF) | (odd >> 2)
            odd = word & <uint64_t>0x0FFFFFFF00000000
            word = (word & <uint64_t>0x000000000FFFFFFF) | (odd >> 4)
            out[0] = <int64_t>(word >> 1) ^ -<int64_t>(word & 1)
            return at
    return take_long_slow(run, op, at, end, out)


cdef inline const uint8_t *take_size(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *out
) noexcept nogil:
    """A length that does not exceed the datum."""
    cdef const uint8_t *start = at
    at = take_long(run, op, at, end, out)
    if unlikely(at == NULL):
        return NULL
    if unlikely(out[0] < 0 or out[0] > end - at):
        return fail(run, op, start, BAD_LENGTH)
    return at


cdef inline const uint8_t *take_count(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *count, int64_t *block_bytes
) noexcept nogil:
    """Head of an array or map block: its items, and its bytes if the writer states them or -1."""
    cdef const uint8_t *start = at
    cdef int64_t item_min = 0
    cdef int32_t i
    at = take_long(run, op, at, end, count)
    if at == NULL:
        return NULL
    block_bytes[0] = -1
    if count[0] < 0:
        if count[0] == INT64_MIN:
            return fail(run, op, start, BAD_COUNT)
        count[0] = -count[0]
        at = take_size(run, op, at, end, block_bytes)
        if at == NULL:
            return NULL
    for i in range(op.first, op.first + op.count):
        item_min += run.ops[i].size_min
    if item_min > 0:
        if count[0] > (end - at) // item_min:
            return fail(run, op, start, BAD_COUNT)
    else:
        run.zero_budget -= count[0]
        if count[0] > ITEMS_WITHOUT_BYTES_MAX or run.zero_budget < 0:
            return fail(run, op, start, BAD_COUNT)
    return at


cdef inline const uint8_t *take_branch(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *branch
) noexcept nogil:
    cdef const uint8_t *start = at
    at = take_long(run, op, at, end, branch)
    if at != NULL and (branch[0] < 0 or branch[0] >= op.branch_count):
        return fail(run, op, start, BAD_BRANCH)
    return at


cdef inline const uint8_t *pass_long(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    """The byte after a varint whose value is not needed."""
    cdef uint64_t word
    cdef int64_t ignored
    if likely(at < end) and at[0] < 0x80:
        return at + 1
    if end - at >= 8:
        memcpy(&word, at, 8)
        word = ~word & <uint64_t>0x8080808080808080
        if word:
            return at + (__builtin_ctzll(word) >> 3) + 1
    return take_long_slow(run, op, at, end, &ignored)
