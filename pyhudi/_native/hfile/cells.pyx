"""Cells of decoded DATA blocks as Arrow columns: counted once, copied once."""

import pyarrow as pa

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from pyhudi._native.cursor cimport (
    MALFORMED, OK, OUT_OF_ORDER, TRUNCATED, Status, load_be16, load_be32, store_be32,
)
from pyhudi._native.hfile.block cimport (
    ROW_SIZE_MAX, TAIL_MVCC, TAIL_TAGS, Cell, compare_rows, head_in_place, take_cell,
)

cdef enum:
    SUFFIX_SIZE = 10
# no family, the latest time, a put
cdef const uint8_t *SUFFIX = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"

SCHEMA = pa.schema(
    [pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)


cdef Body body_of_bytes(bytes data):
    cdef Body body = Body()
    body.owner = data
    body.at = data
    body.size = <uint32_t>len(data)
    return body


cdef bint is_bare(const uint8_t *at, uint32_t size) noexcept nogil:
    """Whether keys of a body are rows only, without the ten bytes that follow a row, as
    pre-release writers of Apache Hudi 1.1 wrote them.  The first cell decides."""
    return size >= 10 and load_be32(at) == <uint32_t>load_be16(at + 8) + 2


cdef Status take_bare_cell(
    const uint8_t *at, const uint8_t *end, int tail, Cell *cell
) noexcept nogil:
    """As take_cell, if the key is only the row and one byte follows each value, regardless
    of FILE_INFO."""
    cdef uint64_t room = <uint64_t>(end - at)
    cdef uint64_t value_size, row_size
    if room < 10:
        return TRUNCATED
    row_size = load_be16(at + 8)
    value_size = load_be32(at + 4)
    if load_be32(at) != row_size + 2 or row_size > ROW_SIZE_MAX or tail & TAIL_TAGS:
        return MALFORMED
    if 11 + row_size + value_size > room:
        return TRUNCATED
    cell.row = at + 10
    cell.row_size = <uint32_t>row_size
    cell.value = cell.row + row_size
    cell.value_size = <uint32_t>value_size
    cell.next = cell.value + value_size + 1
    return OK if cell.value[value_size] == 0 else MALFORMED


cdef Status complete_cells(
    const uint8_t *at, uint32_t size, int tail, uint8_t *into, int64_t *cells
) noexcept nogil:
    """Copy bare cells to `into` with the suffix that other writers add to each key; NULL: count."""
    cdef const uint8_t *end = at + size
    cdef uint8_t *to = into
    cdef Cell cell
    cdef Status status
    cells[0] = 0
    while at < end:
        status = take_bare_cell(at, end, tail, &cell)
        if status != OK:
            return status
        if into != NULL:
            store_be32(to, cell.row_size + 12)
            memcpy(to + 4, at + 4, 6 + cell.row_size)
            to += 10 + cell.row_size
            memcpy(to, SUFFIX, SUFFIX_SIZE)
            to += SUFFIX_SIZE
            memcpy(to, cell.value, cell.value_size)
            to += cell.value_size
            if tail & TAIL_MVCC:
                to[0] = 0
                to += 1
        at = cell.next
        cells[0] += 1
    return OK


cdef object completed(const uint8_t *at, uint32_t size, int tail, Status *status):
    """A bare body as other writers would have written it, as bytes; None unless status is OK."""
    cdef int64_t cells = 0
    with nogil:
        status[0] = complete_cells(at, size, tail, NULL, &cells)
    if status[0] == OK and <int64_t>size + SUFFIX_SIZE * cells > 0x7FFFFFFF:
        status[0] = MALFORMED
    if status[0] != OK:
        return None
    cdef int64_t added = SUFFIX_SIZE if tail & TAIL_MVCC else SUFFIX_SIZE - 1
    cdef bytes full = PyBytes_FromStringAndSize(NULL, size + added * cells)
    cdef uint8_t *into = <uint8_t *>PyBytes_AS_STRING(full)
    with nogil:
        status[0] = complete_cells(at, size, tail, into, &cells)
    return full


cdef Status count_cells(const uint8_t *at, uint32_t size, int tail, int64_t *cells) noexcept nogil:
    """Read a whole body and add its cells to `cells`."""
    cdef const uint8_t *end = at + size
    cdef Cell cell
    cdef Status status
    while at < end:
        status = take_cell(at, end, tail, &cell)
        if status != OK:
            return status
        at = cell.next
        cells[0] += 1
    return OK


cdef Status order_of(Body body, int tail) noexcept nogil:
    """Read a whole body: OUT_OF_ORDER unless its rows ascend, as lookups need."""
    cdef const uint8_t *at = body.at
    cdef const uint8_t *end = body.at + body.size
    cdef const uint8_t *row = at
    cdef uint32_t row_size = 0
    cdef uint64_t head, last = 0
    cdef Cell cell
    cdef Status status
    while at < end:
        status = take_cell(at, end, tail, &cell)
        if status != OK:
            return status
        head = head_in_place(cell.row, cell.row_size)
        if head <= last and compare_rows(row, row_size, cell.row, cell.row_size) > 0:
            return OUT_OF_ORDER
        last = head
        row = cell.row
        row_size = cell.row_size
        at = cell.next
    return OK


cdef class CellColumns:
    """Collects bodies, then returns them as one RecordBatch of key and value (both binary)."""

    def __cinit__(self, int tail):
        self.tail = tail
        self.owners = []

    def __dealloc__(self):
        PyMem_Free(self.ranges)

    cdef Status add(self, Body body, bytes start, bytes stop) except *:
        """Add the cells with start <= row < stop; None is no bound.  Keeps the body alive."""
        cdef CellRange *range
        cdef bint from_start = start is not None
        cdef bint to_stop = stop is not None
        cdef bytes low = start if from_start else b""
        cdef bytes high = stop if to_stop else b""
        cdef const uint8_t *start_at = low
        cdef const uint8_t *stop_at = high
        cdef int64_t start_size = len(low)
        cdef int64_t stop_size = len(high)
        cdef const uint8_t *at = body.at
        cdef const uint8_t *end = body.at + body.size
        cdef Cell cell
        cdef Status status
        if self.range_count == self.range_room:
            self.range_room = max(64, 2 * self.range_room)
            range = <CellRange *>PyMem_Realloc(self.ranges, self.range_room * sizeof(CellRange))
            if range == NULL:
                raise MemoryError
            self.ranges = range
        range = &self.ranges[self.range_count]
        range.at = at
        with nogil:
            while at < end:
                status = take_cell(at, end, self.tail, &cell)
                if status != OK:
                    with gil:
                        return status
                if from_start and compare_rows(cell.row, cell.row_size, start_at, start_size) < 0:
                    at = cell.next
                    range.at = at
                    continue
                if to_stop and compare_rows(cell.row, cell.row_size, stop_at, stop_size) >= 0:
                    break
                self.cells += 1
                self.key_bytes += cell.row_size
                self.value_bytes += cell.value_size
                at = cell.next
        range.end = at
        self.range_count += 1
        self.owners.append(body)
        return OK

    cdef object take(self):
        """The collected cells as a RecordBatch; starts an empty one."""
        cdef int64_t cells = self.cells
        key_offsets = pa.allocate_buffer(4 * (cells + 1))
        value_offsets = pa.allocate_buffer(4 * (cells + 1))
        keys = pa.allocate_buffer(self.key_bytes)
        values = pa.allocate_buffer(self.value_bytes)
        cdef uintptr_t key_offsets_at = key_offsets.address
        cdef uintptr_t value_offsets_at = value_offsets.address
        cdef uintptr_t keys_at = keys.address
        cdef uintptr_t values_at = values.address
        with nogil:
            fill(
                self.ranges, self.range_count, self.tail,
                <int32_t *>key_offsets_at, <uint8_t *>keys_at,
                <int32_t *>value_offsets_at, <uint8_t *>values_at,
            )
        self.range_count = self.cells = self.key_bytes = self.value_bytes = 0
        self.owners = []
        return pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(pa.binary(), cells, [None, key_offsets, keys], 0),
                pa.Array.from_buffers(pa.binary(), cells, [None, value_offsets, values], 0),
            ],
            schema=SCHEMA,
        )


cdef class RowOrder:
    """Reads bodies in file order and checks that rows ascend; equal rows are in one block."""

    def __cinit__(self, int tail):
        self.tail = tail

    cdef Status follow(self, Body body, bytes separator):
        """Check the next body; its index row `separator` is above all before, at most its first."""
        cdef const uint8_t *at = body.at
        cdef const uint8_t *end = body.at + body.size
        cdef const uint8_t *row = separator
        cdef int64_t row_size = len(separator)
        cdef int order
        cdef Cell cell
        cdef Status status
        if self.last is not None and (
            compare_rows(self.last_at, self.last_size, row, row_size) >= 0
        ):
            return OUT_OF_ORDER
        with nogil:
            while at < end:
                status = take_cell(at, end, self.tail, &cell)
                if status != OK:
                    break
                if compare_rows(row, row_size, cell.row, cell.row_size) > 0:
                    status = OUT_OF_ORDER
                    break
                row = cell.row
                row_size = cell.row_size
                at = cell.next
                self.cells += 1
        if at == body.at and body.size == 0:
            return MALFORMED
        self.last = body
        self.last_at = row
        self.last_size = row_size
        return status

    cdef bytes last_row(self):
        return <bytes>self.last_at[: self.last_size]


cdef void fill(
    const CellRange *ranges, int64_t count, int tail,
    int32_t *key_offsets, uint8_t *keys, int32_t *value_offsets, uint8_t *values,
) noexcept nogil:
    """Copy the cells of ranges whose sizes have been checked by a first pass."""
    cdef int64_t r, i = 0, key_at = 0, value_at = 0
    cdef const uint8_t *at
    cdef Cell cell
    for r in range(count):
        at = ranges[r].at
        while at < ranges[r].end:
            if take_cell(at, ranges[r].end, tail, &cell) != OK:
                break
            key_offsets[i] = <int32_t>key_at
            value_offsets[i] = <int32_t>value_at
            memcpy(keys + key_at, cell.row, cell.row_size)
            memcpy(values + value_at, cell.value, cell.value_size)
            key_at += cell.row_size
            value_at += cell.value_size
            at = cell.next
            i += 1
    key_offsets[i] = <int32_t>key_at
    value_offsets[i] = <int32_t>value_at
