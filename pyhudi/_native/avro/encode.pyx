"""Conversion of Arrow columns to Avro datums in one pass, without a Python object per row.

The counterpart of `decode.pyx`: the schema is an array of sources, the root first, the children of
each type in sequence; each source points into the buffers of its fitted column (`shape.py`).
Datums are encoded as by Java's encoder: an array or map is one block with a positive count.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.avro.kinds cimport *

from pyhudi._native.avro.shape import shape_rows
from pyhudi._native.avro.types import Kind as TypeKind, lay_out
from pyhudi.errors import SchemaError, UserError

cdef extern from * nogil:
    int __builtin_clzll(unsigned long long)

cdef enum Status:
    OK = 0
    UNEXPECTED_NULL
    NO_BRANCH
    TWO_BRANCHES
    WIDE_DECIMAL
    TOO_LONG
    NO_MEMORY

REASONS = {
    UNEXPECTED_NULL: "a column that cannot hold nulls has one",
    NO_BRANCH: "a union that cannot be null has no value",
    TWO_BRANCHES: "a union has more than one value",
    WIDE_DECIMAL: "a decimal does not fit its fixed bytes",
}

cdef enum:
    OFFSET_MAX = 0x7FFFFFFF
    SLACK = 32              # room available to every step without a check
    ROW_BYTES_GUESS = 16    # per column, for the first block

cdef struct Source:
    int32_t kind
    int32_t branch_count
    int32_t null_branch
    int32_t value_branch    # of ["null", T]: index of T
    int32_t first           # children: sources[first .. first + count)
    int32_t count
    int32_t size            # FIXED, DECIMAL_FIXED: bytes on the wire
    int32_t width           # decimals: bytes per slot
    const uint8_t *valid    # bits, or NULL without nulls
    const uint8_t *values
    const int32_t *offsets
    int64_t offset

cdef struct Sink:
    uint8_t *base
    uint8_t *at
    uint8_t *end            # SLACK bytes after it can be written
    void *block             # the Arrow buffer that owns the bytes
    Status status
    int32_t failed_source


# ---- bytes out ----------------------------------------------------------------------------------

cdef bint widen(Sink *sink, int64_t needed) noexcept with gil:
    """Reserve `needed` bytes and the slack after `at`; False with the failure in `sink`.

    Arrow's pool retains freed blocks, so that the next call reuses their pages.
    """
    cdef int64_t used = sink.at - sink.base
    cdef int64_t capacity = (sink.end - sink.base) * 2
    if capacity < used + needed:
        capacity = used + needed
    block = <object>sink.block
    try:
        block.resize(capacity + SLACK)
    except MemoryError:
        sink.status = NO_MEMORY
        return False
    sink.base = <uint8_t *><uintptr_t>block.address
    sink.at = sink.base + used
    sink.end = sink.base + capacity
    return True


cdef inline bint room(Sink *sink, int64_t needed) noexcept nogil:
    return likely(sink.end - sink.at >= needed) or widen(sink, needed)


cdef inline void put_long(Sink *sink, int64_t number) noexcept nogil:
    """Write a zigzag varint into the slack; up to 8 bytes are spread at once."""
    cdef uint64_t raw = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef uint64_t word
    cdef int size
    if raw < 0x80:
        sink.at[0] = <uint8_t>raw
        sink.at += 1
        return
    if raw < <uint64_t>1 << 56:
        size = (70 - __builtin_clzll(raw)) // 7
        word = (raw & <uint64_t>0x000000000FFFFFFF) | ((raw & <uint64_t>0x00FFFFFFF0000000) << 4)
        word = (word & <uint64_t>0x00003FFF00003FFF) | ((word & <uint64_t>0x0FFFC0000FFFC000) << 2)
        word = (word & <uint64_t>0x007F007F007F007F) | ((word & <uint64_t>0x3F803F803F803F80) << 1)
        word |= <uint64_t>0x8080808080808080 & ((<uint64_t>1 << (8 * (size - 1))) - 1)
        memcpy(sink.at, &word, 8)
        sink.at += size
        return
    while raw >= 0x80:
        sink.at[0] = <uint8_t>(raw | 0x80)
        sink.at += 1
        raw >>= 7
    sink.at[0] = <uint8_t>raw
    sink.at += 1


cdef inline bint put_text(Sink *sink, const uint8_t *data, int64_t size) noexcept nogil:
    if not room(sink, size + SLACK):
        return False
    put_long(sink, size)
    memcpy(sink.at, data, <size_t>size)
    sink.at += size
    return True


cdef bint put_decimal(Sink *sink, Source *source, const uint8_t *slot) noexcept nogil:
    """Write big-endian two's complement: the fewest bytes, or all of a fixed."""
    cdef int32_t size = source.width, k
    cdef uint8_t fill = 0xFF if slot[source.width - 1] & 0x80 else 0
    while size > 1 and slot[size - 1] == fill and (slot[size - 2] & 0x80) == (fill & 0x80):
        size -= 1
    if source.kind == K_DECIMAL_BYTES:
        put_long(sink, size)
    else:
        if size > source.size:
            sink.status = WIDE_DECIMAL
            return False
        for k in range(source.size - size):
            sink.at[k] = fill
        sink.at += source.size - size
    for k in range(size):
        sink.at[k] = slot[size - 1 - k]
    sink.at += size
    return True


# ---- one value ----------------------------------------------------------------------------------

cdef inline bint is_valid(Source *source, int64_t i) noexcept nogil:
    i += source.offset
    return source.valid == NULL or (source.valid[i >> 3] >> (i & 7)) & 1


cdef bint fail(Sink *sink, Source *sources, Source *source, Status status) noexcept nogil:
    if sink.failed_source < 0:
        if sink.status == OK:
            sink.status = status
        sink.failed_source = <int32_t>(source - sources)
    return False


cdef bint encode_union(Sink *sink, Source *sources, Source *source, int64_t i) noexcept nogil:
    """Encode the branch whose child has a value at `i`; null if none has."""
    cdef int32_t k, chosen = -1
    if is_valid(source, i):
        for k in range(source.count):
            if is_valid(&sources[source.first + k], i):
                if chosen >= 0:
                    return fail(sink, sources, source, TWO_BRANCHES)
                chosen = k
    if chosen < 0:
        if source.null_branch < 0:
            return fail(sink, sources, source, NO_BRANCH)
        put_long(sink, source.null_branch)
        return True
    k = chosen + 1 if source.null_branch >= 0 and chosen >= source.null_branch else chosen
    put_long(sink, k)
    return encode_value(sink, sources, &sources[source.first + chosen], i)


cdef bint encode_items(Sink *sink, Source *sources, Source *source, int64_t i) noexcept nogil:
    """Encode one block of all items, and the closing 0."""
    cdef int64_t start = source.offsets[source.offset + i]
    cdef int64_t stop = source.offsets[source.offset + i + 1]
    cdef int32_t k
    if stop > start:
        put_long(sink, stop - start)
    while start < stop:
        for k in range(source.first, source.first + source.count):
            if not encode_value(sink, sources, &sources[k], start):
                return False
        start += 1
    if not room(sink, SLACK):
        return False
    sink.at[0] = 0
    sink.at += 1
    return True


cdef bint encode_value(Sink *sink, Source *sources, Source *source, int64_t i) noexcept nogil:
    """Append slot `i` of a column."""
    cdef int64_t n = source.offset + i
    cdef int32_t k, start
    if not room(sink, 2 * SLACK):
        return False
    if source.kind == K_NULL:
        if source.branch_count:
            sink.at[0] = 0
            sink.at += 1
        return True
    if source.kind == K_UNION:
        return encode_union(sink, sources, source, i)
    if source.valid != NULL and not (source.valid[n >> 3] >> (n & 7)) & 1:
        if source.null_branch < 0:
            return fail(sink, sources, source, UNEXPECTED_NULL)
        sink.at[0] = <uint8_t>(2 * source.null_branch)
        sink.at += 1
        return True
    if source.branch_count:
        sink.at[0] = <uint8_t>(2 * source.value_branch)
        sink.at += 1
    if source.kind == K_LONG or source.kind == K_TIME_MICROS:
        put_long(sink, (<const int64_t *>source.values)[n])
    elif source.kind == K_INT or source.kind == K_TIME_MILLIS or source.kind == K_ENUM:
        put_long(sink, (<const int32_t *>source.values)[n])
    elif source.kind == K_STRING or source.kind == K_BYTES:
        start = source.offsets[n]
        if not put_text(sink, source.values + start, source.offsets[n + 1] - start):
            return False
    elif source.kind == K_DOUBLE:
        memcpy(sink.at, source.values + n * 8, 8)
        sink.at += 8
    elif source.kind == K_FLOAT:
        memcpy(sink.at, source.values + n * 4, 4)
        sink.at += 4
    elif source.kind == K_BOOLEAN:
        sink.at[0] = (source.values[n >> 3] >> (n & 7)) & 1
        sink.at += 1
    elif source.kind == K_RECORD:
        for k in range(source.first, source.first + source.count):
            if unlikely(not encode_value(sink, sources, &sources[k], i)):
                return fail(sink, sources, &sources[k], sink.status)
    elif source.kind == K_ARRAY or source.kind == K_MAP:
        return encode_items(sink, sources, source, i)
    elif source.kind == K_DECIMAL_BYTES or source.kind == K_DECIMAL_FIXED:
        if not room(sink, source.size + source.width + SLACK):
            return False
        if not put_decimal(sink, source, source.values + n * source.width):
            return fail(sink, sources, source, WIDE_DECIMAL)
    elif source.kind == K_FIXED:
        if not room(sink, source.size + SLACK):
            return False
        memcpy(sink.at, source.values + n * source.size, <size_t>source.size)
        sink.at += source.size
    return True


# ---- rows ---------------------------------------------------------------------------------------

cdef int64_t encode_slots(
    Sink *sink, Source *sources, int64_t count, int32_t *offsets
) noexcept nogil:
    """Encode datums end to end, `offsets` between them; the number of rows written."""
    cdef int64_t i, used
    offsets[0] = 0
    for i in range(count):
        if is_valid(sources, i) and not encode_value(sink, sources, sources, i):
            return i
        used = sink.at - sink.base
        if used > OFFSET_MAX:
            sink.status = TOO_LONG
            return i
        offsets[i + 1] = <int32_t>used
    return count


cdef int64_t encode_frames(Sink *sink, Source *sources, int64_t count) noexcept nogil:
    """Encode datums with their big-endian i32 lengths; the number of rows written."""
    cdef int64_t i, start, size
    cdef uint8_t *head
    for i in range(count):
        if not room(sink, SLACK):
            return i
        start = sink.at - sink.base
        sink.at += 4
        if not encode_value(sink, sources, sources, i):
            return i
        size = sink.at - sink.base - start - 4
        if size > OFFSET_MAX:
            sink.status = TOO_LONG
            return i
        head = sink.base + start
        head[0] = <uint8_t>(size >> 24)
        head[1] = <uint8_t>(size >> 16)
        head[2] = <uint8_t>(size >> 8)
        head[3] = <uint8_t>size
    return count


# ---- the Python class ---------------------------------------------------------------------------

cdef void attach(Source *source, object array) except *:
    """Point a source at the buffers of its column."""
    buffers = array.buffers()
    source.offset = array.offset
    if buffers[0] is not None and array.null_count > 0:
        source.valid = <const uint8_t *><uintptr_t>buffers[0].address
    if source.kind in (K_RECORD, K_UNION, K_NULL):
        return
    if source.kind in (K_STRING, K_BYTES, K_ARRAY, K_MAP):
        if buffers[1] is not None:
            source.offsets = <const int32_t *><uintptr_t>buffers[1].address
        if source.kind in (K_ARRAY, K_MAP):
            return
        buffers = buffers[1:]
    if buffers[1] is not None:
        source.values = <const uint8_t *><uintptr_t>buffers[1].address


cdef class Sources:
    """The sources of one call and the arrays they point into."""

    cdef Source *items
    cdef list arrays

    def __dealloc__(self):
        free(self.items)


cdef class Encoder:
    """A compiled schema.  Immutable, so that several threads may call it at once.

    root: the parsed schema (`types.parse_schema`).
    """

    cdef Source *sources
    cdef int32_t count
    cdef readonly object root
    cdef tuple paths    # dotted column name per source

    def __cinit__(self, root):
        cdef Source *source
        cdef int32_t index
        layout = lay_out(root)
        self.root = root
        self.paths = layout.paths
        self.count = len(layout.parts)
        self.sources = <Source *>calloc(<size_t>self.count, sizeof(Source))
        if self.sources == NULL:
            raise MemoryError
        for index in range(self.count):
            source = &self.sources[index]
            node = layout.parts[index].node
            source.kind = node.kind
            source.branch_count = node.branch_count
            source.null_branch = node.null_branch
            source.value_branch = 1 if node.null_branch == 0 else 0
            source.size = node.size
            if node.kind in (TypeKind.DECIMAL_BYTES, TypeKind.DECIMAL_FIXED):
                source.width = node.arrow.byte_width
            source.first, source.count = layout.spans[index]

    def __dealloc__(self):
        free(self.sources)

    def encode_column(self, rows):
        """See `AvroCodec.encode_column`."""
        shaped = shape_rows(rows, self.root)
        cdef Sources sources = self._attach(shaped)
        cdef int64_t count = len(shaped.array), done
        cdef Sink sink
        offsets = pa.allocate_buffer((count + 1) * 4)
        cdef int32_t *stops = <int32_t *><uintptr_t>offsets.address
        data = open_sink(&sink, shaped.array)
        with nogil:
            done = encode_slots(&sink, sources.items, count, stops)
        if done < count:
            self._raise(&sink, done)
        data.resize(sink.at - sink.base, shrink_to_fit=True)
        validity = None
        if shaped.array.null_count > 0:
            validity = pc.is_valid(shaped.array).buffers()[1]
        return pa.Array.from_buffers(
            pa.binary(), count, [validity, offsets, data], shaped.array.null_count
        )

    def encode_framed(self, rows):
        """See `AvroCodec.encode_framed`."""
        shaped = shape_rows(rows, self.root)
        cdef Sources sources = self._attach(shaped)
        cdef int64_t count = len(shaped.array), done
        cdef Sink sink
        data = open_sink(&sink, shaped.array)
        with nogil:
            done = encode_frames(&sink, sources.items, count)
        if done < count:
            self._raise(&sink, done)
        return PyBytes_FromStringAndSize(<char *>sink.base, sink.at - sink.base)

    cdef Sources _attach(self, object shaped):
        """The sources of one call, pointing into the shaped columns."""
        cdef Sources sources = Sources.__new__(Sources)
        sources.arrays = []
        sources.items = <Source *>malloc(self.count * sizeof(Source))
        if sources.items == NULL:
            raise MemoryError
        memcpy(sources.items, self.sources, self.count * sizeof(Source))
        todo = [shaped]
        for index in range(self.count):
            todo.extend(todo[index].children)
            sources.arrays.append(todo[index].array)
            attach(&sources.items[index], todo[index].array)
        return sources

    cdef object _raise(self, Sink *sink, int64_t row):
        if sink.status == NO_MEMORY:
            raise MemoryError
        if sink.status == TOO_LONG:
            raise UserError(
                "the encoded rows would be over 2 GiB", row=row, hint="encode fewer rows at once"
            )
        column = self.paths[sink.failed_source] or None
        raise SchemaError(REASONS[sink.status], column=column, row=row)


cdef object open_sink(Sink *sink, object rows):
    """The buffer of a new sink, which the caller must retain."""
    cdef int64_t capacity = len(rows) * (4 + ROW_BYTES_GUESS * rows.type.num_fields)
    block = pa.allocate_buffer(capacity + SLACK, resizable=True)
    sink.base = <uint8_t *><uintptr_t>block.address
    sink.at = sink.base
    sink.end = sink.base + capacity
    sink.block = <void *>block
    sink.status = OK
    sink.failed_source = -1
    return block
