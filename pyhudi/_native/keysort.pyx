"""Stable sorting of key columns in unsigned byte order, eight bytes at a time.

A segment of rows that agree in their first `depth` bytes is sorted by the eight bytes after the
bytes all of them share: radix passes over large segments, insertion below a few dozen rows.  Rows
that also agree in those eight bytes form the next segment, so keys with long common parts cost one
step per eight differing bytes, never a comparison of whole keys per pair.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from pyhudi._native.column cimport Column, ColumnView, Span, first_null, span_at
from pyhudi._native.words cimport common_bytes, compare_bytes, load_prefix
from pyhudi.errors import UserError

cdef enum:
    INSERTION_MAX = 24        # rows up to which insertion beats a radix pass
    WIDE_MIN = 1 << 15        # rows from which a pass by two bytes at once is faster


cdef struct Entry:
    uint64_t prefix           # eight bytes of the key, big-endian
    int64_t row


cdef struct Segment:
    int64_t start
    int64_t size
    int64_t depth             # bytes known equal; not used by radix passes


cdef struct Stack:
    Segment *at
    int64_t size
    int64_t room


cdef struct Work:
    Entry *entries
    Entry *spare              # as many
    int64_t *counts           # one for each two-byte digit and one more
    Stack segments
    Stack passes


def is_strictly_sorted(keys):
    """Whether each key is greater than the preceding one, as unsigned bytes; no null allowed."""
    cdef Column column = column_without_nulls(keys)
    cdef int64_t row
    cdef bint ascending = True
    with nogil:
        for row in range(1, column.view.length):
            if compare_bytes(span_at(&column.view, row - 1), span_at(&column.view, row)) >= 0:
                ascending = False
                break
    return ascending


def argsort(keys):
    """Rows in the order of their keys -> int64[n]; unsigned byte order, equal keys by row.

    Raises UserError for a null key.  Temporary memory: 32 bytes per row.
    """
    cdef Column column = column_without_nulls(keys)
    cdef int64_t rows = column.view.length
    out = np.empty(rows, dtype=np.int64)
    cdef int64_t[::1] order = out
    cdef bint done = True
    if rows:
        with nogil:
            done = sort_rows(&column.view, &order[0])
    if not done:
        raise MemoryError("argsort of keys")
    return out


cdef Column column_without_nulls(keys):
    cdef Column column = Column(keys)
    cdef int64_t null_row = first_null(&column.view)
    if null_row >= 0:
        raise UserError("a key is null", row=null_row)
    return column


# --- core ---------------------------------------------------------------------------------------

cdef bint push(Stack *stack, int64_t start, int64_t size, int64_t depth) noexcept nogil:
    cdef Segment *grown
    if stack.size == stack.room:
        grown = <Segment *>realloc(stack.at, 2 * (stack.room + 32) * sizeof(Segment))
        if grown == NULL:
            return False
        stack.at = grown
        stack.room = 2 * (stack.room + 32)
    stack.at[stack.size] = Segment(start, size, depth)
    stack.size += 1
    return True


cdef bint sort_rows(const ColumnView *keys, int64_t *order) noexcept nogil:
    """False if memory is exhausted."""
    cdef int64_t rows = keys.length
    cdef int64_t row
    cdef bint done
    cdef Work work
    work.entries = <Entry *>malloc(rows * sizeof(Entry))
    work.spare = <Entry *>malloc(rows * sizeof(Entry))
    work.counts = <int64_t *>malloc(65537 * sizeof(int64_t))
    work.segments = Stack(NULL, 0, 0)
    work.passes = Stack(NULL, 0, 0)
    done = work.entries != NULL and work.spare != NULL and work.counts != NULL
    done = done and push(&work.segments, 0, rows, 0)
    if done:
        for row in range(rows):
            work.entries[row].row = row
        done = sort_segments(keys, &work)
    if done:
        for row in range(rows):
            order[row] = work.entries[row].row
    free(work.entries)
    free(work.spare)
    free(work.counts)
    free(work.segments.at)
    free(work.passes.at)
    return done


cdef bint sort_segments(const ColumnView *keys, Work *work) noexcept nogil:
    cdef Segment segment
    while work.segments.size:
        work.segments.size -= 1
        segment = work.segments.at[work.segments.size]
        segment.depth = load_prefixes(
            keys, work.entries + segment.start, segment.size, segment.depth
        )
        if not (sort_prefixes(work, segment.start, segment.size)
                and split_runs(keys, work, segment)):
            return False
    return True


cdef int64_t load_prefixes(
    const ColumnView *keys, Entry *entries, int64_t size, int64_t depth
) noexcept nogil:
    """Skip the bytes all keys of a segment share beyond `depth`, load the next eight of each.

    Returns the depth loaded from.
    """
    cdef Span model = span_at(keys, entries[0].row)
    cdef Span key
    cdef int64_t common = model.size
    cdef int64_t i
    model.data += depth
    common -= depth
    for i in range(1, size):
        if common == 0:
            break
        key = span_at(keys, entries[i].row)
        key.data += depth
        common = common_bytes(model, key, min(common, key.size - depth))
    depth += common
    for i in range(size):
        key = span_at(keys, entries[i].row)
        entries[i].prefix = load_prefix(key.data + depth, key.size - depth)
    return depth


cdef bint sort_prefixes(Work *work, int64_t start, int64_t size) noexcept nogil:
    """Stable sort by prefix: most significant digit first, on a separate stack."""
    cdef Segment part
    work.passes.size = 0
    if not push(&work.passes, start, size, 0):
        return False
    while work.passes.size:
        work.passes.size -= 1
        part = work.passes.at[work.passes.size]
        if part.size <= INSERTION_MAX:
            insertion_sort(work.entries + part.start, part.size)
        elif not radix_pass(work, part):
            return False
    return True


cdef void insertion_sort(Entry *entries, int64_t size) noexcept nogil:
    cdef int64_t i, at
    cdef Entry entry
    for i in range(1, size):
        entry = entries[i]
        at = i
        while at > 0 and entries[at - 1].prefix > entry.prefix:
            entries[at] = entries[at - 1]
            at -= 1
        entries[at] = entry


cdef bint radix_pass(Work *work, Segment part) noexcept nogil:
    """Scatter rows by the first byte that varies, with the next one if many; push the parts."""
    cdef Entry *at = work.entries + part.start
    cdef int64_t *counts = work.counts
    cdef uint64_t varies = 0
    cdef uint64_t mask = 0xFF
    cdef uint64_t digit
    cdef int64_t i, start
    cdef int shift = 56
    for i in range(1, part.size):
        varies |= at[i].prefix ^ at[0].prefix
    if varies == 0:
        return True
    while not varies >> shift:
        shift -= 8
    if part.size >= WIDE_MIN and shift > 0:
        shift -= 8
        mask = 0xFFFF
    memset(counts, 0, (mask + 2) * sizeof(int64_t))
    for i in range(part.size):
        counts[((at[i].prefix >> shift) & mask) + 1] += 1
    for digit in range(1, mask + 1):
        counts[digit] += counts[digit - 1]
    memcpy(work.spare, at, part.size * sizeof(Entry))
    for i in range(part.size):
        digit = (work.spare[i].prefix >> shift) & mask
        at[counts[digit]] = work.spare[i]
        counts[digit] += 1
    start = 0
    for digit in range(mask + 1):
        if counts[digit] - start > 1 and shift > 0:
            if not push(&work.passes, part.start + start, counts[digit] - start, 0):
                return False
        start = counts[digit]
    return True


cdef bint split_runs(const ColumnView *keys, Work *work, Segment segment) noexcept nogil:
    """Finish rows with equal prefixes: ended keys by length, the others as new segments."""
    cdef int64_t start = segment.start
    cdef int64_t end = segment.start + segment.size
    cdef int64_t stop
    cdef Entry *entries = work.entries
    while start < end:
        stop = start + 1
        while stop < end and entries[stop].prefix == entries[start].prefix:
            stop += 1
        if stop - start > 1:
            if not split_run(keys, work, Segment(start, stop - start, segment.depth)):
                return False
        start = stop
    return True


cdef bint split_run(const ColumnView *keys, Work *work, Segment run) noexcept nogil:
    """Order a run by how many of the eight bytes each key has; longer keys are sorted further.

    A short prefix is filled with zeros, so keys that end here may be next to longer ones.
    """
    cdef Entry *at = work.entries + run.start
    cdef int64_t counts[11]
    cdef int64_t i, left
    cdef int64_t ended = 0
    memset(counts, 0, sizeof(counts))
    for i in range(run.size):
        left = min(span_at(keys, at[i].row).size - run.depth, <int64_t>9)
        counts[left + 1] += 1
    if counts[10] < run.size:
        ended = run.size - counts[10]
        for i in range(1, 11):
            counts[i] += counts[i - 1]
        memcpy(work.spare, at, run.size * sizeof(Entry))
        for i in range(run.size):
            left = min(span_at(keys, work.spare[i].row).size - run.depth, <int64_t>9)
            at[counts[left]] = work.spare[i]
            counts[left] += 1
    if run.size - ended > 1:
        return push(&work.segments, run.start + ended, run.size - ended, run.depth + 8)
    return True
