"""Hash functions of Apache Hudi's formats, over whole key columns.

* `java_string_hash`: Java's `String.hashCode`, h = 31 h + unit over UTF-16 units, mod 2^32.
* `bucket_of`: file group of a metadata-table key, |(|h|) rem n| (table format 9.5).
* `murmur3_32`: MurmurHash3 x86 32.
* `xxh32`: XXH32, which places keys on the ring of a consistent-hashing bucket index.
* `group_keys`: keys grouped by bucket.
* `xxh64`, `hash_id`: XXH64, and the ids derived from it in metadata-table keys (table format 9.4).

ASCII is hashed eight characters at a time: three multiplications fold a word of characters into
its polynomial value, so only one multiplication per word depends on the previous one.
"""

import base64

import numpy as np
import pyarrow as pa

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from pyhudi._native.column cimport Column, ColumnView, Span, is_null, span_at
from pyhudi._native.words cimport load32, load64
from pyhudi.errors import UserError

cdef int32_t INT32_MIN = -0x7FFFFFFF - 1
cdef int64_t BUCKETS_MAX = 0x7FFFFFFF
cdef uint64_t ID_SEED = 0xFFFFFFFFDABADABAull    # Java's int 0xdabadaba, sign-extended


def java_string_hash(keys):
    """Java `String.hashCode` of each key -> int32[n]; 0 for nulls.

    Bytes that are not UTF-8 count as U+FFFD, as when Java decodes them.
    """
    cdef Column column = Column(keys)
    out = np.empty(column.view.length, dtype=np.int32)
    cdef int32_t[::1] hashes = out
    cdef int64_t row
    with nogil:
        for row in range(column.view.length):
            hashes[row] = java_hash_at(&column.view, row)
    return out


def bucket_of(keys, count):
    """File group index of each key among `count` file groups -> int32[n], 0 <= index < count.

    Raises UserError if count is not in 1..2^31-1.
    """
    if not 1 <= count <= BUCKETS_MAX:
        raise UserError("the number of file groups must be positive", count=count)
    cdef Column column = Column(keys)
    out = np.empty(column.view.length, dtype=np.int32)
    cdef int32_t[::1] buckets = out
    cdef int32_t groups = count
    cdef int64_t row
    with nogil:
        for row in range(column.view.length):
            buckets[row] = bucket(java_hash_at(&column.view, row), groups)
    return out


def group_keys(keys, buckets, count):
    """(keys in bucket order, their rows, the start of each bucket).

    keys: strings or bytes without nulls.  buckets: int32, one per key, 0 <= bucket < count; keys of
    one bucket retain their order.  rows: int64, one per key.  The starts are int64[count + 1],
    the last of them the number of keys.  Raises UserError for nulls and other buckets.
    """
    cdef Column column = Column(keys)
    cdef const ColumnView *view = &column.view
    cdef int64_t length = view.length
    homes = np.ascontiguousarray(buckets, np.int32)
    if len(homes) != length or not 1 <= count <= BUCKETS_MAX or column.view.valid != NULL:
        raise UserError("keys and buckets do not fit", keys=length, buckets=len(homes))
    begins, bytes_begin = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    rows = np.empty(length, np.int64)
    cdef int64_t groups = count, outside
    cdef const int32_t[::1] home = homes
    cdef int64_t[::1] row_at = begins, byte_at = bytes_begin, row_of = rows
    with nogil:
        outside = measure_groups(view, home, groups, row_at, byte_at)
    if outside >= 0:
        raise UserError("a key has a bucket that is not there", bucket=int(homes[outside]))
    bounds = begins.copy()
    wide = view.off32 == NULL
    offsets = pa.allocate_buffer((length + 1) * (8 if wide else 4))
    data = pa.allocate_buffer(int(bytes_begin[count]))
    cdef uintptr_t offsets_at = offsets.address
    cdef uintptr_t data_at = data.address
    with nogil:
        fill_groups(
            view, home, row_at, byte_at, row_of, <uint8_t *>data_at,
            <int32_t *>offsets_at if view.off32 != NULL else NULL,
            <int64_t *>offsets_at if view.off32 == NULL else NULL,
        )
    grouped = pa.Array.from_buffers(column.array.type, length, [None, offsets, data])
    return grouped, rows, bounds


def murmur3_32(keys, seed=0):
    """MurmurHash3 x86 32 of each key's bytes -> int32[n]; 0 for nulls."""
    cdef Column column = Column(keys)
    out = np.empty(column.view.length, dtype=np.int32)
    cdef int32_t[::1] hashes = out
    cdef uint32_t start = <uint32_t>(seed & 0xFFFFFFFF)
    cdef int64_t row
    cdef Span key
    with nogil:
        for row in range(column.view.length):
            if is_null(&column.view, row):
                hashes[row] = 0
                continue
            key = span_at(&column.view, row)
            hashes[row] = <int32_t>murmur3(key.data, key.size, start)
    return out


def xxh32(keys, seed=0):
    """XXH32 of each key's bytes -> uint32[n]; 0 for nulls."""
    cdef Column column = Column(keys)
    out = np.empty(column.view.length, dtype=np.uint32)
    cdef uint32_t[::1] hashes = out
    cdef uint32_t start = <uint32_t>(seed & 0xFFFFFFFF)
    cdef int64_t row
    cdef Span key
    with nogil:
        for row in range(column.view.length):
            if is_null(&column.view, row):
                hashes[row] = 0
                continue
            key = span_at(&column.view, row)
            hashes[row] = xxh32_of(key.data, key.size, start)
    return out


def xxh64(bytes data not None, seed=0):
    """XXH64 of the bytes, unsigned."""
    cdef uint64_t start = <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF)
    return xxh64_of(<const uint8_t *>PyBytes_AS_STRING(data), len(data), start)


def hash_id(str text not None):
    """Id of a column or partition name in metadata-table keys: base64 of XXH64, big-endian."""
    data = text.encode()
    number = xxh64_of(<const uint8_t *>PyBytes_AS_STRING(data), len(data), ID_SEED)
    return base64.b64encode(int(number).to_bytes(8, "big")).decode()


# --- core ---------------------------------------------------------------------------------------

cdef inline int32_t java_hash_at(const ColumnView *view, int64_t row) noexcept nogil:
    cdef Span key
    if is_null(view, row):
        return 0
    key = span_at(view, row)
    return <int32_t>java_hash(key.data, key.size)


cdef inline int32_t bucket(int32_t hash, int32_t groups) noexcept nogil:
    if hash < 0 and hash != INT32_MIN:    # Java's abs leaves the smallest int negative
        hash = -hash
    hash = hash % groups
    return -hash if hash < 0 else hash


cdef int64_t measure_groups(
    const ColumnView *view, const int32_t[::1] home, int64_t groups, int64_t[::1] rows,
    int64_t[::1] sizes,
) noexcept nogil:
    """Where the keys and the bytes of each group begin; the row of a bucket that is none, or -1."""
    cdef int64_t row, group
    for row in range(view.length):
        group = home[row]
        if group < 0 or group >= groups:
            return row
        rows[group + 1] += 1
        sizes[group + 1] += span_at(view, row).size
    for group in range(groups):
        rows[group + 1] += rows[group]
        sizes[group + 1] += sizes[group]
    return -1


cdef void fill_groups(
    const ColumnView *view, const int32_t[::1] home, int64_t[::1] rows, int64_t[::1] bytes_at,
    int64_t[::1] row_of, uint8_t *data, int32_t *off32, int64_t *off64,
) noexcept nogil:
    """Copy keys to where `rows` and `bytes_at` say that their groups begin; both move on."""
    cdef int64_t row, group, to, at, end = 0
    cdef Span key
    for row in range(view.length):
        group = home[row]
        key = span_at(view, row)
        to, at = rows[group], bytes_at[group]
        if key.size:
            memcpy(data + at, key.data, key.size)
        if off32 != NULL:
            off32[to] = <int32_t>at
        else:
            off64[to] = at
        row_of[to] = row
        rows[group] = to + 1
        bytes_at[group] = at + key.size
        end += key.size
    if off32 != NULL:
        off32[view.length] = <int32_t>end
    else:
        off64[view.length] = end


cdef uint32_t java_hash(const uint8_t *at, int64_t size) noexcept nogil:
    """ASCII by words; from the first other byte on, unit by unit."""
    cdef const uint8_t *end = at + size
    cdef uint32_t h = 0
    cdef uint64_t word
    while end - at >= 8:
        word = load64(at)
        if word & 0x8080808080808080ull:
            return java_hash_utf8(at, end, h)
        # Characters -> pairs in 16 bits -> fours in 32 bits; each first one times a power of 31.
        word = (word & 0x00FF00FF00FF00FFull) * 31 + ((word >> 8) & 0x00FF00FF00FF00FFull)
        word = (word & 0x0000FFFF0000FFFFull) * 961 + ((word >> 16) & 0x0000FFFF0000FFFFull)
        h = h * 2_487_512_833u + <uint32_t>word * 923_521u + <uint32_t>(word >> 32)
        at += 8
    while at < end:
        if at[0] & 0x80:
            return java_hash_utf8(at, end, h)
        h = h * 31 + at[0]
        at += 1
    return h


cdef uint32_t java_hash_utf8(const uint8_t *at, const uint8_t *end, uint32_t h) noexcept nogil:
    """The same over any UTF-8: two units for a code point above U+FFFF."""
    cdef uint32_t point
    while at < end:
        point = take_code_point(&at, end)
        if point >= 0x10000:
            h = h * 31 + 0xD7C0 + (point >> 10)
            h = h * 31 + 0xDC00 + (point & 0x3FF)
        else:
            h = h * 31 + point
    return h


cdef uint32_t take_code_point(const uint8_t **cursor, const uint8_t *end) noexcept nogil:
    """Next code point, cursor moved after it.

    A malformed sequence returns U+FFFD for its longest well-formed start (at least one byte),
    which is what Java's and Python's decoders put in its place.
    """
    cdef const uint8_t *at = cursor[0]
    cdef uint32_t lead = at[0]
    cdef uint32_t low = 0x80      # allowed range of the second byte
    cdef uint32_t high = 0xBF
    cdef int follow
    at += 1
    cursor[0] = at
    if lead < 0x80:
        return lead
    if lead < 0xC2 or lead > 0xF4:
        return 0xFFFD
    if lead < 0xE0:
        follow = 1
        lead &= 0x1F
    elif lead < 0xF0:
        follow = 2
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
        lead &= 0x0F
    else:
        follow = 3
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
        lead &= 0x07
    while follow > 0:
        if at >= end or at[0] < low or at[0] > high:
            cursor[0] = at
            return 0xFFFD
        lead = (lead << 6) | (at[0] & 0x3F)
        at += 1
        low = 0x80
        high = 0xBF
        follow -= 1
    cursor[0] = at
    return lead


cdef inline uint32_t rotl32(uint32_t x, int by) noexcept nogil:
    return (x << by) | (x >> (32 - by))


cdef inline uint64_t rotl64(uint64_t x, int by) noexcept nogil:
    return (x << by) | (x >> (64 - by))


cdef inline uint32_t murmur3_mix(uint32_t k) noexcept nogil:
    return rotl32(k * 0xCC9E2D51u, 15) * 0x1B873593u


cdef uint32_t murmur3(const uint8_t *at, int64_t size, uint32_t seed) noexcept nogil:
    cdef uint32_t h = seed
    cdef uint32_t tail = 0
    cdef int64_t left = size
    while left >= 4:
        h = rotl32(h ^ murmur3_mix(load32(at)), 13) * 5 + 0xE6546B64u
        at += 4
        left -= 4
    if left > 0:
        if left == 3:
            tail = <uint32_t>at[2] << 16
        if left >= 2:
            tail |= <uint32_t>at[1] << 8
        h ^= murmur3_mix(tail | at[0])
    h ^= <uint32_t>size
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu
    h = (h ^ (h >> 13)) * 0xC2B2AE35u
    return h ^ (h >> 16)


cdef uint32_t XXS1 = 0x9E3779B1u
cdef uint32_t XXS2 = 0x85EBCA77u
cdef uint32_t XXS3 = 0xC2B2AE3Du
cdef uint32_t XXS4 = 0x27D4EB2Fu
cdef uint32_t XXS5 = 0x165667B1u


cdef inline uint32_t xx32_round(uint32_t lane, uint32_t word) noexcept nogil:
    return rotl32(lane + word * XXS2, 13) * XXS1


cdef uint32_t xxh32_of(const uint8_t *at, int64_t size, uint32_t seed) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef uint32_t h, a, b, c, d
    if size >= 16:
        a = seed + XXS1 + XXS2
        b = seed + XXS2
        c = seed
        d = seed - XXS1
        while end - at >= 16:
            a = xx32_round(a, load32(at))
            b = xx32_round(b, load32(at + 4))
            c = xx32_round(c, load32(at + 8))
            d = xx32_round(d, load32(at + 12))
            at += 16
        h = rotl32(a, 1) + rotl32(b, 7) + rotl32(c, 12) + rotl32(d, 18)
    else:
        h = seed + XXS5
    h += <uint32_t>size
    while end - at >= 4:
        h = rotl32(h + load32(at) * XXS3, 17) * XXS4
        at += 4
    while at < end:
        h = rotl32(h + <uint32_t>at[0] * XXS5, 11) * XXS1
        at += 1
    h = (h ^ (h >> 15)) * XXS2
    h = (h ^ (h >> 13)) * XXS3
    return h ^ (h >> 16)


cdef uint64_t XXP1 = 0x9E3779B185EBCA87ull
cdef uint64_t XXP2 = 0xC2B2AE3D27D4EB4Full
cdef uint64_t XXP3 = 0x165667B19E3779F9ull
cdef uint64_t XXP4 = 0x85EBCA77C2B2AE63ull
cdef uint64_t XXP5 = 0x27D4EB2F165667C5ull


cdef inline uint64_t xx_round(uint64_t lane, uint64_t word) noexcept nogil:
    return rotl64(lane + word * XXP2, 31) * XXP1


cdef inline uint64_t xx_merge(uint64_t h, uint64_t lane) noexcept nogil:
    return (h ^ xx_round(0, lane)) * XXP1 + XXP4


cdef uint64_t xxh64_of(const uint8_t *at, int64_t size, uint64_t seed) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef uint64_t h, a, b, c, d
    if size >= 32:
        a = seed + XXP1 + XXP2
        b = seed + XXP2
        c = seed
        d = seed - XXP1
        while end - at >= 32:
            a = xx_round(a, load64(at))
            b = xx_round(b, load64(at + 8))
            c = xx_round(c, load64(at + 16))
            d = xx_round(d, load64(at + 24))
            at += 32
        h = rotl64(a, 1) + rotl64(b, 7) + rotl64(c, 12) + rotl64(d, 18)
        h = xx_merge(xx_merge(xx_merge(xx_merge(h, a), b), c), d)
    else:
        h = seed + XXP5
    h += <uint64_t>size
    while end - at >= 8:
        h = rotl64(h ^ xx_round(0, load64(at)), 27) * XXP1 + XXP4
        at += 8
    if end - at >= 4:
        h = rotl64(h ^ (<uint64_t>load32(at) * XXP1), 23) * XXP2 + XXP3
        at += 4
    while at < end:
        h = rotl64(h ^ (<uint64_t>at[0] * XXP5), 11) * XXP1
        at += 1
    h = (h ^ (h >> 33)) * XXP2
    h = (h ^ (h >> 29)) * XXP3
    return h ^ (h >> 32)
