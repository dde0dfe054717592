"""Byte strings by machine words: unaligned loads, equality, order and a hash.  Header-only."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from pyhudi._native.column cimport Span


cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t pyhudi_fold_product(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    static inline uint64_t pyhudi_big_endian(uint64_t word) {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        return word;
    #else
        return __builtin_bswap64(word);
    #endif
    }
    """
    uint64_t fold_product "pyhudi_fold_product"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t big_endian "pyhudi_big_endian"(uint64_t word) noexcept nogil
    void prefetch "__builtin_prefetch"(const void *at) noexcept nogil
    int count_leading_zeros "__builtin_clzll"(uint64_t word) noexcept nogil


cdef inline uint64_t load64(const uint8_t *at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint32_t load32(const uint8_t *at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


cdef inline uint64_t load_prefix(const uint8_t *at, int64_t size) noexcept nogil:
    """The first eight bytes as a number with the same order; zeros after a shorter end."""
    cdef uint64_t word = 0
    if size >= 8:
        return big_endian(load64(at))
    if size > 0:
        memcpy(&word, at, size)
    return big_endian(word)


cdef inline bint same_bytes(Span a, Span b) noexcept nogil:
    """Whether two spans contain the same bytes; words first, the last one overlapping."""
    cdef int64_t at = 0
    if a.size != b.size:
        return False
    if a.size < 8:
        return memcmp(a.data, b.data, a.size) == 0
    while at + 8 <= a.size:
        if load64(a.data + at) != load64(b.data + at):
            return False
        at += 8
    return load64(a.data + a.size - 8) == load64(b.data + b.size - 8)


cdef inline int compare_bytes(Span a, Span b) noexcept nogil:
    """Compare unsigned bytes, a prefix first: -1, 0 or 1."""
    cdef int64_t shorter = a.size if a.size < b.size else b.size
    cdef int order = memcmp(a.data, b.data, shorter)
    if order != 0:
        return -1 if order < 0 else 1
    return (a.size > b.size) - (a.size < b.size)


cdef inline int64_t common_bytes(Span a, Span b, int64_t most) noexcept nogil:
    """How many of the first `most` bytes agree; `most` must not exceed either end."""
    cdef int64_t at = 0
    cdef uint64_t differs
    while at + 8 <= most:
        differs = big_endian(load64(a.data + at) ^ load64(b.data + at))
        if differs:
            return at + (count_leading_zeros(differs) >> 3)
        at += 8
    while at < most and a.data[at] == b.data[at]:
        at += 1
    return at


cdef inline uint64_t hash_bytes(Span key, uint64_t seed) noexcept nogil:
    """A 64-bit hash by folded products (the scheme of wyhash).  Not stable between builds."""
    cdef const uint8_t *at = key.data
    cdef int64_t left = key.size
    cdef uint64_t a = 0
    cdef uint64_t b = 0
    if left > 16:
        while left > 16:
            seed = fold_product(load64(at) ^ 0x2D358DCCAA6C78A5ull, load64(at + 8) ^ seed)
            at += 16
            left -= 16
        a = load64(at + left - 16)
        b = load64(at + left - 8)
    elif left >= 8:
        a = load64(at)
        b = load64(at + left - 8)
    elif left >= 4:
        a = load32(at)
        b = load32(at + left - 4)
    elif left > 0:
        a = (<uint64_t>at[0] << 16) | (<uint64_t>at[left >> 1] << 8) | at[left - 1]
    seed = fold_product(a ^ 0x8BB84B93962EACC9ull, b ^ seed)
    return fold_product(seed ^ <uint64_t>key.size, 0x4B33A62ED433D4A3ull)
