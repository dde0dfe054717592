"""Lookup of a batch of keys in one HFile.

The batch is sorted once, by a radix sort on the 8 bytes after the common prefix of the file's
rows, with ties resolved 7 bytes at a time; matched to the block index, which finds the blocks
touched; merged with the raw cells of each; and gathered in the requested order.
"""

import pyarrow as pa

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from pyhudi._native.column cimport Column, ColumnView, Span, is_null, span_at
from pyhudi._native.cursor cimport (
    MALFORMED, NO_MEMORY, OK, OUT_OF_ORDER, TRUNCATED, Status, likely, prefetch,
)
from pyhudi._native.hfile.block cimport (
    ROW_SIZE_MAX, Cell, compare_rows, head_in_place, head_of, take_cell,
)
from pyhudi._native.hfile.guide cimport Guide, last_below
from pyhudi._native.hfile.index cimport BlockIndex
from pyhudi._native.words cimport same_bytes

from pyhudi.errors import UserError

cdef enum:
    SMALL_SORT = 24           # insertion sort up to here
    CHUNK_BYTES = 1 << 20
    AHEAD = 12                # keys or values whose bytes are being prefetched

cdef int64_t OFFSET_32_MAX = 0x7FFFFFFF


# ---- sorting --------------------------------------------------------------------------------

ctypedef struct Run:
    int64_t begin
    int64_t end


cdef void insertion_sort(SortKey *keys, int64_t count) noexcept nogil:
    cdef int64_t i, j
    cdef SortKey key
    for i in range(1, count):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1].head > key.head:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


cdef void radix_sort(SortKey *keys, SortKey *spare, int64_t count, int shift) noexcept nogil:
    """By head, whose bits above `shift` + 8 are all equal.  At most eight calls deep."""
    cdef int64_t ends[256]
    cdef int64_t i, at, size
    cdef int digit
    while True:
        if count <= SMALL_SORT:
            insertion_sort(keys, count)
            return
        memset(ends, 0, sizeof(ends))
        for i in range(count):
            ends[(keys[i].head >> shift) & 0xFF] += 1
        if ends[(keys[0].head >> shift) & 0xFF] < count:
            break
        if shift == 0:
            return
        shift -= 8
    at = 0
    for digit in range(256):
        size = ends[digit]
        ends[digit] = at
        at += size
    memcpy(spare, keys, count * sizeof(SortKey))
    for i in range(count):
        digit = (spare[i].head >> shift) & 0xFF
        keys[ends[digit]] = spare[i]
        ends[digit] += 1
    if shift == 0:
        return
    at = 0
    for digit in range(256):
        size = ends[digit] - at
        if size > 1:
            radix_sort(keys + at, spare, size, shift - 8)
        at = ends[digit]


cdef int64_t find_runs(
    const SortKey *keys, int64_t begin, int64_t end, bint tied_heads, Run *runs
) noexcept nogil:
    """Runs of two or more equal heads that need more bytes to be distinguished.

    tied_heads: the heads are those of tie_head, whose low byte marks keys that have ended.
    """
    cdef int64_t found = 0
    cdef int64_t i = begin, j
    while i < end:
        j = i + 1
        while j < end and keys[j].head == keys[i].head:
            j += 1
        if j - i > 1 and not (tied_heads and (keys[i].head & 0xFF) <= 14):
            runs[found].begin = i
            runs[found].end = j
            found += 1
        i = j
    return found


cdef inline uint64_t tie_head(const uint8_t *key, int64_t size, int64_t at) noexcept nogil:
    """Seven bytes from `at` on and, below them, the remaining size of the key: 15 means more.

    Keys that end before `at` + 7 differ in the low byte if their sizes differ, so zero bytes
    at the end of a key are never confused with padding.
    """
    cdef int64_t left = size - at
    cdef uint64_t head = 0
    if left >= 8:
        return (head_of(key + at, 8) & ~<uint64_t>0xFF) | 15
    if left > 0:
        head = head_of(key + at, left if left < 7 else 7) & ~<uint64_t>0xFF
    return head | <uint64_t>(left + 7 if left > -7 else 0)


cdef Status sort_ties(
    const ColumnView *column, SortKey *keys, SortKey *spare, int64_t count, int64_t prefix_size
) noexcept nogil:
    """Order keys that share a head by the bytes after it, level by level; heads are retained."""
    cdef Run *first = <Run *>malloc((count // 2 + 1) * sizeof(Run))
    cdef Run *runs
    cdef Run *deeper
    cdef uint64_t *heads
    cdef int64_t tied, found, left, at, r, i
    cdef Span key
    if first == NULL:
        return NO_MEMORY
    tied = find_runs(keys, 0, count, False, first)
    if tied == 0:
        free(first)
        return OK
    runs = <Run *>malloc((count // 2 + 1) * sizeof(Run))
    deeper = <Run *>malloc((count // 2 + 1) * sizeof(Run))
    heads = <uint64_t *>malloc(tied * sizeof(uint64_t))
    if runs == NULL or deeper == NULL or heads == NULL:
        free(first); free(runs); free(deeper); free(heads)
        return NO_MEMORY
    memcpy(runs, first, tied * sizeof(Run))
    for r in range(tied):
        heads[r] = keys[first[r].begin].head
    left = tied
    at = prefix_size + 7
    while left:
        found = 0
        for r in range(left):
            for i in range(runs[r].begin, runs[r].end):
                key = span_at(column, keys[i].row)
                keys[i].head = tie_head(key.data, key.size, at)
            radix_sort(keys + runs[r].begin, spare, runs[r].end - runs[r].begin, 56)
            found += find_runs(keys, runs[r].begin, runs[r].end, True, deeper + found)
        runs, deeper = deeper, runs
        left = found
        at += 7
    for r in range(tied):
        for i in range(first[r].begin, first[r].end):
            keys[i].head = heads[r]
    free(first); free(runs); free(deeper); free(heads)
    return OK


# ---- values that outlive their block ----------------------------------------------------------

cdef class Arena:
    def __dealloc__(self):
        cdef Chunk *chunk = self.last
        cdef Chunk *before
        while chunk != NULL:
            before = chunk.before
            free(chunk)
            chunk = before

    cdef uint8_t *take(self, int64_t size) noexcept nogil:
        """`size` fresh bytes, or NULL without memory."""
        cdef Chunk *chunk = self.last
        cdef int64_t room
        cdef uint8_t *at
        if chunk == NULL or chunk.end - chunk.at < size:
            room = size if size > CHUNK_BYTES else CHUNK_BYTES
            chunk = <Chunk *>malloc(sizeof(Chunk) + room)
            if chunk == NULL:
                return NULL
            chunk.before = self.last
            chunk.at = <uint8_t *>(chunk + 1)
            chunk.end = chunk.at + room
            self.last = chunk
        at = chunk.at
        chunk.at += size
        return at


# ---- the batch --------------------------------------------------------------------------------

cdef Status sift(
    const ColumnView *column, const uint8_t *prefix, int64_t prefix_size,
    SortKey *keys, int64_t *count, bint *in_order
) noexcept nogil:
    """Select keys that can be in the file, with their heads, and whether they were in order."""
    cdef int64_t found = 0
    cdef int64_t row
    cdef bint ordered = True
    cdef uint64_t head, last = 0
    cdef Span key, before
    before.data = NULL
    before.size = 0
    for row in range(column.length):
        if is_null(column, row):
            continue
        key = span_at(column, row)
        if key.size < prefix_size or key.size > ROW_SIZE_MAX:
            continue
        if prefix_size and memcmp(key.data, prefix, prefix_size) != 0:
            continue
        head = head_of(key.data + prefix_size, key.size - prefix_size)
        keys[found].head = head
        keys[found].row = <uint32_t>row
        keys[found].size = <uint32_t>key.size
        if ordered:
            if head < last or (
                head == last and found
                and compare_rows(before.data, before.size, key.data, key.size) > 0
            ):
                ordered = False
            last = head
            before = key
        found += 1
    count[0] = found
    in_order[0] = ordered
    return OK


cdef inline int order_at(
    BlockIndex index, int64_t entry, uint64_t head, Span key
) noexcept nogil:
    """Sign of (row of the entry) - (key), both known to share the common prefix."""
    if index.heads[entry] != head:
        return -1 if index.heads[entry] < head else 1
    return compare_rows(index.rows[entry], index.row_sizes[entry], key.data, key.size)


cdef inline Status take_head(
    const uint8_t *at, const uint8_t *end, int tail, int64_t prefix_size, Cell *cell, uint64_t *head
) noexcept nogil:
    """The cell at `at` and the head of its row."""
    cdef Status status = take_cell(at, end, tail, cell)
    if status != OK:
        return status
    if cell.row_size < prefix_size:
        return OUT_OF_ORDER
    head[0] = head_in_place(cell.row + prefix_size, cell.row_size - prefix_size)
    return OK


cdef inline int order_in_block(
    const ColumnView *column, const Cell *cell, uint64_t head, const SortKey *want
) noexcept nogil:
    """Sign of (row of the cell) - (key)."""
    cdef Span key, row
    if head != want.head:
        return -1 if head < want.head else 1
    key = span_at(column, want.row)
    row.data = cell.row
    row.size = cell.row_size
    if same_bytes(row, key):
        return 0
    return compare_rows(row.data, row.size, key.data, key.size)


cdef inline bint put_hit(Hit *hit, const Cell *cell, Arena arena) noexcept nogil:
    """Store the cell as the answer; False without memory."""
    cdef uint8_t *copy
    hit.size = cell.value_size
    hit.value = cell.value
    if arena is not None:
        copy = arena.take(cell.value_size)
        if copy == NULL:
            return False
        memcpy(copy, cell.value, cell.value_size)
        hit.value = copy
    return True


cdef class LookupBatch:
    """keys: Arrow column, any order, nulls and duplicates allowed.  prefix: the common prefix of
    all rows of the file; keys without it are absent.

    Owns the answers until `gather`; an answer points into an arena or into memory that its producer
    promises to keep valid.
    """

    def __cinit__(self, Column column not None, bytes prefix not None):
        cdef int64_t count = column.view.length
        cdef const uint8_t *prefix_at = prefix
        cdef Status status
        cdef SortKey *spare
        if count > 0xFFFFFFFF:
            raise UserError("too many keys in one batch", keys=count)
        self.column = column
        self.keys = &column.view
        self.prefix_size = len(prefix)
        self.owners = []
        self.sorted = <SortKey *>PyMem_Malloc((count + 1) * sizeof(SortKey))
        self.hits = <Hit *>PyMem_Malloc((count + 1) * sizeof(Hit))
        if self.sorted == NULL or self.hits == NULL:
            raise MemoryError
        with nogil:
            memset(self.hits, 0, count * sizeof(Hit))
            status = sift(
                self.keys, prefix_at, self.prefix_size,
                self.sorted, &self.sorted_count, &self.arrived_sorted,
            )
        if self.arrived_sorted:
            return
        spare = <SortKey *>PyMem_Malloc(self.sorted_count * sizeof(SortKey))
        if spare == NULL:
            raise MemoryError
        with nogil:
            radix_sort(self.sorted, spare, self.sorted_count, 56)
            status = sort_ties(
                self.keys, self.sorted, spare, self.sorted_count, self.prefix_size
            )
        PyMem_Free(spare)
        if status != OK:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.sorted)
        PyMem_Free(self.hits)
        PyMem_Free(self.touches)

    cdef int lay_over(self, BlockIndex index) except -1:
        """Set `touches`: the entries that can contain keys, in order, each with its keys."""
        cdef int64_t room = min(self.sorted_count, index.count)
        PyMem_Free(self.touches)
        self.touches = NULL
        self.touch_count = 0
        self.touches = <Touch *>PyMem_Malloc((room + 1) * sizeof(Touch))
        if self.touches == NULL:
            raise MemoryError
        with nogil:
            self.touch_count = lay(self, index)
        return 0

    cdef Status merge(
        self, const Touch *touch, const uint8_t *body, uint32_t size, int tail, Arena arena,
        const Guide *guide,
    ) noexcept nogil:
        """Answer a touch from the cells of its block; stops after its last key.

        arena: where values are copied while in the CPU cache, or None to point into `body`.
        guide: of this body, or NULL to start at its beginning.
        """
        cdef const uint8_t *at = body
        cdef const uint8_t *end = body + size
        cdef int64_t i = touch.begin
        cdef int64_t sample = 0
        cdef uint64_t head = 0, want
        cdef Span key
        cdef Cell cell
        cdef int order
        cdef Status status
        if size == 0:
            return OK
        if guide != NULL:
            sample = last_below(guide, 0, self.sorted[i].head)
            at = body + guide.offsets[sample]
        status = take_head(at, end, tail, self.prefix_size, &cell, &head)
        while status == OK and i < touch.end:
            want = self.sorted[i].head
            if i + AHEAD < touch.end:
                key = span_at(self.keys, self.sorted[i + AHEAD].row)
                prefetch(key.data)
                prefetch(key.data + key.size - 1)
            order = order_in_block(self.keys, &cell, head, &self.sorted[i])
            if order >= 0:
                if order == 0 and not put_hit(
                    &self.hits[self.sorted[i].row], &cell, arena
                ):
                    return NO_MEMORY
                i += 1
                continue
            at = cell.next
            if guide != NULL and head < want:
                sample = last_below(guide, sample, want)
                if body + guide.offsets[sample] > at:
                    at = body + guide.offsets[sample]
            while True:
                if at >= end:
                    return OK
                # The processor prefetches to the end of a page: the next page is asked for here,
                # and the lines ahead in bodies of less than a page.
                prefetch(at + 512)
                prefetch(at + 4096)
                status = take_head(at, end, tail, self.prefix_size, &cell, &head)
                if status != OK or head >= want:
                    break
                at = cell.next
        return status

    cdef object gather(self):
        """The answers as an Arrow binary array in the requested order, null if absent.

        large_binary if the values together exceed 32-bit offsets.
        """
        cdef int64_t count = self.keys.length
        cdef int64_t bytes_total = 0, absent = 0
        cdef int64_t i
        with nogil:
            for i in range(count):
                if self.hits[i].value == NULL:
                    absent += 1
                else:
                    bytes_total += self.hits[i].size
        cdef bint wide = bytes_total > OFFSET_32_MAX
        offsets = pa.allocate_buffer((count + 1) * (8 if wide else 4))
        data = pa.allocate_buffer(bytes_total)
        validity = pa.allocate_buffer((count + 7) // 8) if absent else None
        cdef uintptr_t offsets_at = offsets.address
        cdef uintptr_t data_at = data.address
        cdef uintptr_t validity_at = validity.address if absent else 0
        with nogil:
            write_answers(
                self.hits, count, <uint8_t *>data_at,
                NULL if wide else <int32_t *>offsets_at,
                <int64_t *>offsets_at if wide else NULL,
                <uint8_t *>validity_at,
            )
        return pa.Array.from_buffers(
            pa.large_binary() if wide else pa.binary(), count, [validity, offsets, data], absent
        )


cdef int64_t lay(LookupBatch batch, BlockIndex index) noexcept nogil:
    """Fill batch.touches by galloping through keys and entries in parallel."""
    cdef int64_t entry = -1
    cdef int64_t i = 0, found = 0, step, low, high, middle
    cdef int64_t count = batch.sorted_count
    cdef SortKey *keys = batch.sorted
    cdef Touch *touch
    while i < count:
        step = 1
        low = entry
        high = entry + 1
        while high < index.count and order_at(
            index, high, keys[i].head, span_at(batch.keys, keys[i].row)
        ) <= 0:
            low = high
            high += step
            step *= 2
        high = min(high, index.count)
        while high - low > 1:
            middle = (low + high) // 2
            if order_at(index, middle, keys[i].head, span_at(batch.keys, keys[i].row)) <= 0:
                low = middle
            else:
                high = middle
        entry = low
        if entry < 0:
            i += 1
            continue
        touch = &batch.touches[found]
        found += 1
        touch.entry = <uint32_t>entry
        touch.offset = index.offsets[entry]
        touch.size = index.sizes[entry]
        touch.begin = i
        i += 1
        if entry + 1 == index.count:
            i = count
        else:
            while i < count and order_at(
                index, entry + 1, keys[i].head, span_at(batch.keys, keys[i].row)
            ) > 0:
                i += 1
        touch.end = i
    return found


cdef void write_answers(
    const Hit *hits, int64_t count, uint8_t *data, int32_t *narrow, int64_t *wide, uint8_t *validity
) noexcept nogil:
    """Write offsets (32 or 64 bits), values and, if keys are absent, the validity bitmap."""
    cdef int64_t at = 0
    cdef int64_t i
    if validity != NULL:
        memset(validity, 0, (count + 7) // 8)
    for i in range(count):
        if i + AHEAD < count and hits[i + AHEAD].value != NULL:
            prefetch(hits[i + AHEAD].value)
            prefetch(hits[i + AHEAD].value + hits[i + AHEAD].size - 1)
        if narrow != NULL:
            narrow[i] = <int32_t>at
        else:
            wide[i] = at
        if hits[i].value != NULL:
            memcpy(data + at, hits[i].value, hits[i].size)
            at += hits[i].size
            if validity != NULL:
                validity[i >> 3] |= <uint8_t>(1 << (i & 7))
    if narrow != NULL:
        narrow[count] = <int32_t>at
    else:
        wide[count] = at
