"""An open-addressing hash table over the rows of a key column, used by find, latest and fold.

A slot is one word, 0 when empty: the low half of the key's hash above the row of the key's first
occurrence plus one.  The high bits of the hash choose the slot, the next slots follow on
collision, and at most half of them are taken.  Bytes are compared before a key counts as found.

Rows are processed in batches: a batch hashes all its keys and prefetches their cache lines before
it reads the first, so the misses of one batch overlap.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from pyhudi._native.column cimport Column, ColumnView, Span, is_null, span_at
from pyhudi._native.words cimport hash_bytes, prefetch, same_bytes

cdef enum:
    BATCH = 32


ctypedef struct Slots:
    uint64_t *slot
    const ColumnView *keys
    uint64_t seed
    uint64_t mask     # slots - 1, slots being a power of two
    int shift         # 64 - log2(slots)


cdef inline int batch_size(int64_t start, int64_t rows) noexcept nogil:
    return <int>(rows - start) if rows - start < BATCH else BATCH


cdef inline uint64_t row_of(uint64_t slot) noexcept nogil:
    return (slot & 0xFFFFFFFFu) - 1


cdef inline bint tagged(uint64_t slot, uint64_t hash) noexcept nogil:
    return (slot >> 32) == (hash & 0xFFFFFFFFu)


cdef inline void prefetch_row(const ColumnView *keys, uint64_t row) noexcept nogil:
    if keys.off32 != NULL:
        prefetch(keys.off32 + row)
    else:
        prefetch(keys.off64 + row)


cdef inline void prefetch_bytes(const ColumnView *keys, uint64_t row) noexcept nogil:
    cdef Span key = span_at(keys, row)
    prefetch(key.data)
    prefetch(key.data + key.size)


cdef inline uint64_t seek(
    const Slots *table, Span key, uint64_t hash, uint64_t at
) noexcept nogil:
    """The slot that contains the key, or the empty slot where it belongs; from slot `at` on."""
    cdef uint64_t slot
    while True:
        slot = table.slot[at]
        if slot == 0:
            return at
        if tagged(slot, hash) and same_bytes(key, span_at(table.keys, row_of(slot))):
            return at
        at = (at + 1) & table.mask


cdef inline void link_batch(
    const Slots *table, int64_t start, int count, uint32_t *first
) noexcept nogil:
    """Insert rows start .. start + count of the table's own column, count <= BATCH.

    first: for each the row of its key's first occurrence, itself if the key is new.
    """
    cdef uint64_t hash[BATCH]
    cdef uint64_t slot, at
    cdef Span key
    cdef int i
    for i in range(count):
        hash[i] = hash_bytes(span_at(table.keys, start + i), table.seed)
        prefetch(table.slot + (hash[i] >> table.shift))
    for i in range(count):
        slot = table.slot[hash[i] >> table.shift]
        if slot != 0 and tagged(slot, hash[i]):
            prefetch_row(table.keys, row_of(slot))
    for i in range(count):
        slot = table.slot[hash[i] >> table.shift]
        if slot != 0 and tagged(slot, hash[i]):
            prefetch_bytes(table.keys, row_of(slot))
    for i in range(count):
        key = span_at(table.keys, start + i)
        at = seek(table, key, hash[i], hash[i] >> table.shift)
        if table.slot[at] == 0:
            table.slot[at] = (hash[i] << 32) | <uint64_t>(start + i + 1)
        first[i] = <uint32_t>row_of(table.slot[at])


cdef inline void find_batch(
    const Slots *table, const ColumnView *probes, int64_t start, int count, int64_t *first
) noexcept nogil:
    """Look up rows start .. start + count of another column, count <= BATCH.

    first: for each the row of the key's first occurrence in the table, -1 if absent or null.
    """
    cdef uint64_t hash[BATCH]
    cdef uint64_t at[BATCH]
    cdef int hit[BATCH]
    cdef int hits = 0
    cdef int i, j
    cdef uint64_t slot, here
    for i in range(count):
        hash[i] = hash_bytes(span_at(probes, start + i), table.seed)
        at[i] = hash[i] >> table.shift
        prefetch(table.slot + at[i])
    for i in range(count):
        here = at[i]
        slot = table.slot[here]
        while slot != 0 and not tagged(slot, hash[i]):
            here = (here + 1) & table.mask
            slot = table.slot[here]
        first[i] = -1
        if slot != 0:
            prefetch_row(table.keys, row_of(slot))
            at[i] = here
            hit[hits] = i
            hits += 1
    for j in range(hits):
        prefetch_bytes(table.keys, row_of(table.slot[at[hit[j]]]))
    for j in range(hits):
        i = hit[j]
        if probes.valid != NULL and is_null(probes, start + i):
            continue
        here = seek(table, span_at(probes, start + i), hash[i], at[i])
        first[i] = <int64_t>row_of(table.slot[here])    # of an empty slot: -1


cdef inline void find_all(
    const Slots *table, const ColumnView *probes, int64_t *first
) noexcept nogil:
    cdef int64_t start = 0
    while start < probes.length:
        find_batch(table, probes, start, batch_size(start, probes.length), first + start)
        start += BATCH


cdef class KeyIndex:
    cdef Column column
    cdef Slots slots
    cdef object words     # the array behind slots.slot
