"""A hash table over the cells of a whole HFile, for lookups in an open, cached file.

    slot   u16 of the row's hash | u20 block + 1 | u28 offset of the cell in the block; 0 is free

Open addressing at a load of at most a half.  Rows need not be in order.  Lookups run in groups, so
that cache misses of different keys overlap: hash and prefetch the slot, find the
candidate and prefetch its cell, compare; then copy the values while they are in cache.
"""

import os

import pyarrow as pa

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from pyhudi._native.column cimport Column, ColumnView, Span, is_null, span_at
from pyhudi._native.cursor cimport NO_MEMORY, OK, Status, load_be16, load_be32, prefetch
from pyhudi._native.hfile.block cimport ROW_SIZE_MAX, Cell, take_cell
from pyhudi._native.hfile.cells cimport Body
from pyhudi._native.words cimport hash_bytes, same_bytes

cdef enum:
    GROUP = 32
    OFFSET_BITS = 28
    BLOCK_BITS = 20
    TAG_SHIFT = 48

cdef int64_t OFFSET_32_MAX = 0x7FFFFFFF
cdef uint64_t SEED = int.from_bytes(os.urandom(8), "little")


ctypedef struct Probe:
    Span key
    uint64_t hash
    uint64_t at               # slot to examine
    const uint8_t *cell       # candidate; NULL if the key is absent


ctypedef struct Output:
    uint8_t *data
    int64_t room
    int64_t size


cdef class RawBytes:
    """Memory that an Arrow buffer takes over."""
    cdef uint8_t *data

    def __dealloc__(self):
        free(self.data)


cdef class CellHash:
    """Created by `cell_hash`, filled by `add` with every block in file order, then read-only.

    Keeps the blocks alive.  Of equal rows, which are adjacent, the first cell is used.
    """

    def __dealloc__(self):
        free(self.slots)
        PyMem_Free(<void *>self.bases)

    cdef Status add(self, Body body) except *:
        cdef Status status
        if self.block_count == self.block_room or body.size >= 1 << OFFSET_BITS:
            return NO_MEMORY
        self.bases[self.block_count] = body.at
        self.owners.append(body)
        if isinstance(body.owner, bytes):
            self.size_bytes += body.size
        with nogil:
            status = insert_cells(self, body)
        self.block_count += 1
        return status

    cdef object answer(self, Column column):
        """Arrow binary array of the first values in the order of the keys."""
        cdef const ColumnView *keys = &column.view
        cdef int64_t count = keys.length
        cdef int64_t absent = 0
        cdef RawBytes values = RawBytes()
        cdef Output out
        offsets = pa.allocate_buffer((count + 1) * 8)
        validity = pa.allocate_buffer((count + 7) // 8)
        cdef uintptr_t offsets_at = offsets.address
        cdef uintptr_t validity_at = validity.address
        cdef Status status
        cdef bint wide
        memset(&out, 0, sizeof(out))
        with nogil:
            status = look_up(
                self, keys, &out, <int64_t *>offsets_at, <uint8_t *>validity_at, &absent
            )
        values.data = out.data
        if status != OK:
            raise MemoryError
        wide = out.size > OFFSET_32_MAX
        if not wide:
            with nogil:
                narrow(<int64_t *>offsets_at, count + 1)
        data = pa.foreign_buffer(<uintptr_t>out.data, out.size, base=values)
        return pa.Array.from_buffers(
            pa.large_binary() if wide else pa.binary(), count,
            [validity if absent else None, offsets, data], absent,
        )


cdef CellHash cell_hash(int64_t blocks, int64_t cells, int tail):
    """An empty hash for these blocks and cells, or None if it could not address them."""
    cdef CellHash made = CellHash()
    cdef uint64_t slots = 16
    if blocks >= (1 << BLOCK_BITS) - 1:
        return None
    while slots < 2 * <uint64_t>cells:
        slots *= 2
    made.tail = tail
    made.seed = SEED
    made.mask = slots - 1
    made.slots = <uint64_t *>calloc(slots, sizeof(uint64_t))
    made.bases = <const uint8_t **>PyMem_Malloc((blocks + 1) * sizeof(void *))
    if made.slots == NULL or made.bases == NULL:
        raise MemoryError
    made.owners = []
    made.block_room = blocks
    made.cell_room = cells
    made.size_bytes = slots * sizeof(uint64_t)
    return made


cdef Status insert_cells(CellHash table, Body body) noexcept nogil:
    """Insert a block's cells in groups: hash and prefetch the slots, then fill them."""
    cdef const uint8_t *at = body.at
    cdef const uint8_t *end = body.at + body.size
    cdef uint64_t hashes[GROUP]
    cdef uint64_t offsets[GROUP]
    cdef uint64_t block = <uint64_t>(table.block_count + 1) << OFFSET_BITS
    cdef uint64_t last = 0, slot
    cdef Span row, row_before
    cdef Cell cell
    cdef Status status
    cdef int count, i
    row_before.data = NULL
    row_before.size = -1
    while at < end:
        count = 0
        while at < end and count < GROUP:
            status = take_cell(at, end, table.tail, &cell)
            if status != OK:
                return status
            table.cells += 1
            row.data = cell.row
            row.size = cell.row_size
            hashes[count] = hash_bytes(row, table.seed)
            offsets[count] = at - body.at
            at = cell.next
            if hashes[count] == last and same_bytes(row, row_before):
                continue
            last = hashes[count]
            row_before = row
            prefetch(&table.slots[last & table.mask])
            count += 1
        if table.cells > table.cell_room:
            return NO_MEMORY
        for i in range(count):
            slot = hashes[i] & table.mask
            while table.slots[slot]:
                slot = (slot + 1) & table.mask
            table.slots[slot] = (hashes[i] >> TAG_SHIFT << TAG_SHIFT) | block | offsets[i]
    return OK


cdef inline void find_candidate(CellHash table, Probe *probe) noexcept nogil:
    """The next slot from probe.at on whose tag matches, or absence."""
    cdef uint64_t tag = probe.hash >> TAG_SHIFT
    cdef uint64_t slot
    while True:
        slot = table.slots[probe.at]
        if slot == 0:
            probe.cell = NULL
            return
        if slot >> TAG_SHIFT == tag:
            probe.cell = table.bases[((slot >> OFFSET_BITS) & ((1 << BLOCK_BITS) - 1)) - 1] + (
                slot & ((1 << OFFSET_BITS) - 1)
            )
            return
        probe.at = (probe.at + 1) & table.mask


cdef inline bint is_row(const uint8_t *cell, Span key) noexcept nogil:
    cdef Span row
    row.data = cell + 10
    row.size = load_be16(cell + 8)
    return same_bytes(row, key)


cdef inline Status take_room(Output *out, int64_t more) noexcept nogil:
    cdef int64_t room
    cdef uint8_t *grown
    if out.size + more <= out.room:
        return OK
    room = out.size + more + out.room // 2 + 4096
    grown = <uint8_t *>realloc(out.data, room)
    if grown == NULL:
        return NO_MEMORY
    out.data = grown
    out.room = room
    return OK


cdef Status look_up(
    CellHash table, const ColumnView *keys, Output *out, int64_t *offsets, uint8_t *validity,
    int64_t *absent,
) noexcept nogil:
    """Answer all keys, group by group, in the requested order."""
    cdef Probe probes[GROUP]
    cdef Probe *probe
    cdef int64_t begin, size, value_size
    cdef int i
    memset(validity, 0, (keys.length + 7) // 8)
    if take_room(out, 1) != OK:       # Arrow needs an address even if there is no value
        return NO_MEMORY
    begin = 0
    while begin < keys.length:
        size = GROUP if keys.length - begin > GROUP else keys.length - begin
        for i in range(size):
            probe = &probes[i]
            probe.key = span_at(keys, begin + i)
            probe.hash = hash_bytes(probe.key, table.seed)
            probe.at = probe.hash & table.mask
            prefetch(&table.slots[probe.at])
        for i in range(size):
            probe = &probes[i]
            if is_null(keys, begin + i) or probe.key.size > ROW_SIZE_MAX:
                probe.cell = NULL
                continue
            find_candidate(table, probe)
            if probe.cell != NULL:
                prefetch(probe.cell)
                prefetch(probe.cell + 64)
        for i in range(size):
            probe = &probes[i]
            offsets[begin + i] = out.size
            while probe.cell != NULL and not is_row(probe.cell, probe.key):
                probe.at = (probe.at + 1) & table.mask
                find_candidate(table, probe)
            if probe.cell == NULL:
                absent[0] += 1
                continue
            value_size = load_be32(probe.cell + 4)
            if take_room(out, value_size) != OK:
                return NO_MEMORY
            memcpy(out.data + out.size, probe.cell + 8 + load_be32(probe.cell), value_size)
            out.size += value_size
            validity[(begin + i) >> 3] |= <uint8_t>(1 << ((begin + i) & 7))
        begin += size
    offsets[keys.length] = out.size
    return OK


cdef void narrow(int64_t *offsets, int64_t count) noexcept nogil:
    """64-bit offsets to 32 bits in place."""
    cdef int32_t *small = <int32_t *>offsets
    cdef int64_t i
    for i in range(count):
        small[i] = <int32_t>offsets[i]
