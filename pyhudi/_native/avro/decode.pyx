"""Conversion of Avro datums to Arrow columns in one pass, without a Python object per row.

A schema is compiled into an array of `Op`: the root record first, the children of each type in
sequence.  A call copies the array; each copy of an op owns the growing column of its values.  Rows
are read by `decode_value`, the only function that advances through the bytes, which checks each
step against the end of its datum.  A null struct does not touch its children: they are extended
to its length when it next has a value, and at the end (`pad`).

Encoding (Avro 1.11, "Binary Encoding"): int and long are zigzag varints of at most 10 bytes, float
and double little-endian, bytes and string a long and the bytes, array and map blocks of a count
(negative: followed by the block's bytes) up to a count of 0, a union its branch and the value.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from pyhudi._native.avro.column cimport *
from pyhudi._native.avro.columns cimport Columns, allocate, finish
from pyhudi._native.avro.cursor cimport *
from pyhudi._native.avro.kinds cimport *

from pyhudi._native.avro.types import Kind as TypeKind, lay_out
from pyhudi.errors import CorruptFileError, UserError

REASONS = {
    TRUNCATED: "truncated Avro datum",
    BAD_NUMBER: "an Avro number is too long for its type",
    BAD_BRANCH: "an Avro union names a branch that does not exist",
    BAD_LENGTH: "an Avro value has a length outside of its datum",
    BAD_BOOLEAN: "an Avro boolean is neither 0 nor 1",
    BAD_SYMBOL: "an Avro enum names a symbol that does not exist",
    BAD_TIME: "a time is outside of its day",
    BAD_DECIMAL: "a decimal has more digits than its type",
    BAD_COUNT: "an Avro array or map has more items than its datum can hold",
    BAD_TEXT: "a string is not UTF-8",
    RESIDUE: "an Avro datum is longer than its record",
    TOO_MUCH: "the rows would take far more memory than their bytes account for",
}

cdef int64_t DAY_MILLIS = 86400 * 1000
cdef int64_t DAY_MICROS = 86400 * 1000000
cdef int64_t COLUMN_BYTES_FREE = 256 << 20
cdef int64_t COLUMN_BYTES_PER_BYTE = 1024  # per input byte; a schema can make a row of nulls wide


# ---- one value ----------------------------------------------------------------------------------

cdef bint store_decimal(Op *op, const uint8_t *digits, int64_t size) noexcept nogil:
    """Store big-endian two's complement of any length; False if over the precision."""
    cdef uint8_t *slot = op.values + op.length * op.width
    cdef uint8_t fill = 0xFF if size > 0 and digits[0] & 0x80 else 0
    cdef uint64_t limbs[4]
    cdef uint64_t carry = 1, limb
    cdef int64_t i
    cdef int32_t k, limb_count = op.width // 8
    for i in range(size - op.width):
        if digits[i] != fill:
            return False
    if size > op.width:
        digits += size - op.width
        size = op.width
        if (digits[0] & 0x80) != (fill & 0x80):
            return False
    memset(slot, fill, <size_t>op.width)
    for i in range(size):
        slot[i] = digits[size - 1 - i]
    memcpy(limbs, slot, <size_t>op.width)
    if fill:
        for k in range(limb_count):
            limb = ~limbs[k] + carry
            carry = 1 if carry and limb == 0 else 0
            limbs[k] = limb
    for k in range(limb_count - 1, -1, -1):
        if limbs[k] != op.limit[k]:
            return limbs[k] < op.limit[k]
    return False


cdef inline const uint8_t *decode_text(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    cdef int64_t size, stop
    at = take_size(run, op, at, end, &size)
    if unlikely(at == NULL):
        return NULL
    stop = op.data_size + size
    if unlikely(stop + SLACK > op.data_capacity) and not grow_data(run, op, stop, at):
        return NULL
    if likely(size <= SLACK and run.limit - at >= SLACK):
        memcpy(op.values + op.data_size, at, SLACK)
    else:
        memcpy(op.values + op.data_size, at, <size_t>size)
    op.data_size = stop
    op.offsets[op.length + 1] = <int32_t>stop
    return at + size


cdef const uint8_t *decode_items(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    """Blocks of an array or a map; closes the slot's offset."""
    cdef int64_t count, block_bytes
    cdef Op *last = &run.ops[op.first + op.count - 1]
    while True:
        at = take_count(run, op, at, end, &count, &block_bytes)
        if at == NULL:
            return NULL
        if count == 0:
            break
        if last.length + count > OFFSET_MAX:
            return fail(run, op, at, TOO_LONG)
        if op.kind == K_ARRAY:
            while count > 0:
                at = decode_value(run, last, at, end)
                if unlikely(at == NULL):
                    return NULL
                count -= 1
        else:
            while count > 0:
                at = decode_value(run, last - 1, at, end)
                if unlikely(at == NULL):
                    return NULL
                at = decode_value(run, last, at, end)
                if unlikely(at == NULL):
                    return NULL
                count -= 1
    op.offsets[op.length + 1] = <int32_t>last.length
    return at


cdef const uint8_t *decode_union(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    """A general union: the branch's column gets the value, the others are extended when used."""
    cdef int64_t branch
    cdef Op *child
    at = take_branch(run, op, at, end, &branch)
    if at == NULL:
        return NULL
    if branch == op.null_branch:
        return at if append_null(run, op) else NULL
    if op.null_branch >= 0 and branch > op.null_branch:
        branch -= 1
    child = &run.ops[op.first + branch]
    if child.length < op.length and not pad(run, child, op.length - child.length):
        return NULL
    at = decode_value(run, child, at, end)
    if at == NULL:
        return NULL
    if op.length == op.capacity and not grow(run, op, op.length + 1):
        return NULL
    if op.nullable:
        op.valid[op.length] = 1
    op.length += 1
    op.behind = 1
    return at


cdef const uint8_t *decode_value(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    """Append one value to the op's column; the byte after it, or NULL and a failure in `run`."""
    cdef int64_t number
    cdef int32_t i
    cdef int64_t n
    if op.wrapped:
        if unlikely(at >= end):
            return fail(run, op, at, TRUNCATED)
        if likely(at[0] == op.value_code):
            at += 1
        elif at[0] == op.null_code:
            return at + 1 if append_null(run, op) else NULL
        else:
            at = take_branch(run, op, at, end, &number)
            if at == NULL:
                return NULL
            if number == op.null_branch:
                return at if append_null(run, op) else NULL
    n = op.length
    if unlikely(n == op.capacity) and not grow(run, op, n + 1):
        return NULL
    if op.kind == K_LONG:
        at = take_long(run, op, at, end, &number)
        if unlikely(at == NULL):
            return NULL
        (<int64_t *>op.values)[n] = number
    elif op.kind == K_INT or op.kind == K_TIME_MILLIS or op.kind == K_ENUM:
        at = take_long(run, op, at, end, &number)
        if unlikely(at == NULL):
            return NULL
        if unlikely(number != <int32_t>number):
            return fail(run, op, at, BAD_NUMBER)
        if op.kind == K_ENUM and (number < 0 or number >= op.size):
            return fail(run, op, at, BAD_SYMBOL)
        if op.kind == K_TIME_MILLIS and (number < 0 or number >= DAY_MILLIS):
            return fail(run, op, at, BAD_TIME)
        (<int32_t *>op.values)[n] = <int32_t>number
    elif op.kind == K_STRING or op.kind == K_BYTES:
        at = decode_text(run, op, at, end)
        if unlikely(at == NULL):
            return NULL
    elif op.kind == K_DOUBLE:
        if unlikely(end - at < 8):
            return fail(run, op, at, TRUNCATED)
        memcpy(op.values + n * 8, at, 8)
        at += 8
    elif op.kind == K_FLOAT:
        if unlikely(end - at < 4):
            return fail(run, op, at, TRUNCATED)
        memcpy(op.values + n * 4, at, 4)
        at += 4
    elif op.kind == K_BOOLEAN:
        if unlikely(at >= end):
            return fail(run, op, at, TRUNCATED)
        if unlikely(at[0] > 1):
            return fail(run, op, at, BAD_BOOLEAN)
        op.values[n] = at[0]
        at += 1
    elif op.kind == K_RECORD:
        if op.behind and not catch_up(run, op):
            return NULL
        for i in range(op.first, op.first + op.count):
            at = decode_value(run, &run.ops[i], at, end)
            if unlikely(at == NULL):
                return NULL
    elif op.kind == K_DECIMAL_FIXED or op.kind == K_DECIMAL_BYTES:
        number = op.size
        if op.kind == K_DECIMAL_BYTES:
            at = take_size(run, op, at, end, &number)
            if unlikely(at == NULL):
                return NULL
        elif unlikely(end - at < number):
            return fail(run, op, at, TRUNCATED)
        if unlikely(not store_decimal(op, at, number)):
            return fail(run, op, at, BAD_DECIMAL)
        at += number
    elif op.kind == K_ARRAY or op.kind == K_MAP:
        at = decode_items(run, op, at, end)
        if unlikely(at == NULL):
            return NULL
    elif op.kind == K_UNION:
        return decode_union(run, op, at, end)
    elif op.kind == K_FIXED:
        if unlikely(end - at < op.size):
            return fail(run, op, at, TRUNCATED)
        if op.size > 0:
            memcpy(op.values + n * op.width, at, <size_t>op.size)
        at += op.size
    elif op.kind == K_TIME_MICROS:
        at = take_long(run, op, at, end, &number)
        if unlikely(at == NULL):
            return NULL
        if unlikely(number < 0 or number >= DAY_MICROS):
            return fail(run, op, at, BAD_TIME)
        (<int64_t *>op.values)[n] = number
    if op.nullable:
        op.valid[n] = 1
    op.length = n + 1
    return at


cdef const uint8_t *skip_value(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    """The byte after a value that is not requested."""
    cdef int64_t number, block_bytes
    cdef int32_t i
    if op.branch_count:
        if likely(at < end) and at[0] == op.value_code:
            at += 1
        elif at < end and at[0] == op.null_code:
            return at + 1
        else:
            at = take_branch(run, op, at, end, &number)
            if at == NULL or number == op.null_branch:
                return at
            if op.kind == K_UNION:
                if op.null_branch >= 0 and number > op.null_branch:
                    number -= 1
                return skip_value(run, &run.ops[op.first + number], at, end)
    if op.kind == K_NULL:
        return at
    if op.kind == K_STRING or op.kind == K_BYTES or op.kind == K_DECIMAL_BYTES:
        at = take_size(run, op, at, end, &number)
        if at == NULL:
            return NULL
        return at + number
    if op.kind == K_RECORD:
        for i in range(op.first, op.first + op.count):
            at = skip_value(run, &run.ops[i], at, end)
            if at == NULL:
                return NULL
        return at
    if op.kind == K_ARRAY or op.kind == K_MAP:
        while True:
            at = take_count(run, op, at, end, &number, &block_bytes)
            if at == NULL or number == 0:
                return at
            if block_bytes >= 0:
                at += block_bytes
                continue
            while number > 0:
                for i in range(op.first, op.first + op.count):
                    at = skip_value(run, &run.ops[i], at, end)
                    if at == NULL:
                        return NULL
                number -= 1
    if op.kind == K_BOOLEAN:
        number = 1
    elif op.kind == K_FLOAT:
        number = 4
    elif op.kind == K_DOUBLE:
        number = 8
    elif op.kind == K_FIXED or op.kind == K_DECIMAL_FIXED:
        number = op.size
    else:
        return pass_long(run, op, at, end)
    if end - at < number:
        return fail(run, op, at, TRUNCATED)
    return at + number


# ---- rows ---------------------------------------------------------------------------------------

cdef struct Projection:
    uint8_t *wanted         # a byte per top-level field
    int32_t stop            # later fields are not requested
    int32_t whole           # all fields are requested


cdef bint decode_row(
    Run *run, Projection *projection, const uint8_t *at, const uint8_t *end
) noexcept nogil:
    """Append one datum that fills [at, end) to the root's children and to the root."""
    cdef Op *root = run.ops
    cdef int32_t i
    cdef Op *op
    for i in range(projection.stop):
        op = &run.ops[root.first + i]
        if projection.wanted[i]:
            if op.length < root.length and not pad(run, op, root.length - op.length):
                return False
            at = decode_value(run, op, at, end)
        else:
            at = skip_value(run, op, at, end)
        if unlikely(at == NULL):
            return False
    if projection.whole and at != end:
        fail(run, root, at, RESIDUE)
        return False
    if unlikely(root.length == root.capacity) and not grow(run, root, root.length + 1):
        return False
    if root.nullable:
        root.valid[root.length] = 1
    root.length += 1
    return True


cdef bint decode_frames(
    Run *run, Projection *projection, const uint8_t *at, const uint8_t *end, int64_t count
) noexcept nogil:
    cdef uint32_t size
    while count > 0:
        if end - at < 4:
            fail(run, run.ops, at, TRUNCATED)
            return False
        size = (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]
        if size > end - at - 4:
            fail(run, run.ops, at, BAD_LENGTH)
            return False
        at += 4
        if not decode_row(run, projection, at, at + size):
            return False
        at += size
        count -= 1
    if at != end:
        fail(run, run.ops, at, RESIDUE)
        return False
    return True


cdef bint decode_slots(
    Run *run,
    Projection *projection,
    const uint8_t *data,
    int64_t size,
    const int32_t *offsets,
    const int64_t *wide_offsets,
    const uint8_t *valid,
    int64_t offset,
    int64_t count,
) noexcept nogil:
    """Rows of a binary column; one of the offset arrays is NULL, `valid` may be."""
    cdef int64_t i, start, stop
    for i in range(offset, offset + count):
        if valid != NULL and not (valid[i >> 3] >> (i & 7)) & 1:
            if not pad(run, run.ops, 1):
                return False
            continue
        if offsets != NULL:
            start, stop = offsets[i], offsets[i + 1]
        else:
            start, stop = wide_offsets[i], wide_offsets[i + 1]
        if start < 0 or stop < start or stop > size:
            fail(run, run.ops, data, BAD_LENGTH)
            return False
        if not decode_row(run, projection, data + start, data + stop):
            return False
    return True


# ---- the Python class----------------------------------------------------------------------------

cdef int32_t width_of(object node):
    """Bytes per slot of a fixed-width column; booleans take a byte until they are packed."""
    kind = node.kind
    if kind in (TypeKind.INT, TypeKind.TIME_MILLIS, TypeKind.FLOAT, TypeKind.ENUM):
        return 4
    if kind in (TypeKind.LONG, TypeKind.TIME_MICROS, TypeKind.DOUBLE):
        return 8
    if kind == TypeKind.BOOLEAN:
        return 1
    if kind == TypeKind.FIXED:
        return node.size
    if kind in (TypeKind.DECIMAL_BYTES, TypeKind.DECIMAL_FIXED):
        return node.arrow.byte_width
    return 0


cdef void fill_op(Op *op, object part) except *:
    """Initialize an op without children from a part of the schema."""
    node = part.node
    op.kind = node.kind
    op.branch_count = node.branch_count
    op.null_branch = node.null_branch
    op.null_code = 2 * node.null_branch if node.null_branch >= 0 else -1
    op.wrapped = node.branch_count > 0 and node.kind != TypeKind.UNION
    op.value_code = -1
    if op.wrapped and node.kind != TypeKind.NULL:
        op.value_code = 2 if node.null_branch == 0 else 0
    op.size = len(node.symbols) if node.kind == TypeKind.ENUM else node.size
    op.size_min = node.size_min
    op.width = width_of(node)
    op.nullable = part.arrow.nullable and node.kind != TypeKind.NULL
    op.has_offsets = node.kind in (TypeKind.STRING, TypeKind.BYTES, TypeKind.ARRAY, TypeKind.MAP)
    if node.kind in (TypeKind.DECIMAL_BYTES, TypeKind.DECIMAL_FIXED):
        limit = 10 ** node.arrow.precision
        for k in range(4):
            op.limit[k] = (limit >> (64 * k)) & 0xFFFFFFFFFFFFFFFF


cdef class Decoder:
    """A compiled schema.  Immutable, so that several threads may call it at once.

    root: the parsed schema (`types.parse_schema`).
    """

    cdef Op *ops
    cdef int32_t count
    cdef readonly object root
    cdef tuple parts    # of types.Layout, one per op
    cdef tuple paths
    cdef tuple tops

    def __cinit__(self, root):
        cdef int32_t index
        layout = lay_out(root)
        self.root = root
        self.parts, self.paths, self.tops = layout.parts, layout.paths, layout.tops
        self.count = len(layout.parts)
        self.ops = <Op *>calloc(<size_t>self.count, sizeof(Op))
        if self.ops == NULL:
            raise MemoryError
        for index in range(self.count):
            fill_op(&self.ops[index], self.parts[index])
            self.ops[index].first, self.ops[index].count = layout.spans[index]

    def __dealloc__(self):
        free(self.ops)

    def decode_framed(self, data, int64_t count, list wanted, path):
        """See `AvroCodec.decode_framed`; wanted: positions of top-level fields."""
        source = pa.py_buffer(data)
        cdef const uint8_t *start = <const uint8_t *><uintptr_t>source.address
        cdef const uint8_t *end = start + <int64_t>source.size
        if count < 0 or count > (end - start) // (4 + self.ops[0].size_min):
            raise CorruptFileError(
                "a block counts more records than it can hold", path=path, count=count,
                size_bytes=source.size,
            )
        return self._decode(wanted, path, start, end, NULL, NULL, NULL, 0, count)

    def decode_column(self, values, list wanted, path):
        """See `AvroCodec.decode_column`; values: one binary or large_binary array."""
        validity, offsets, data = values.buffers()
        cdef const uint8_t *start = NULL
        cdef const uint8_t *valid = NULL
        cdef const int32_t *narrow = NULL
        cdef const int64_t *wide = NULL
        cdef int64_t size = 0
        if data is not None:
            start = <const uint8_t *><uintptr_t>data.address
            size = data.size
        if validity is not None:
            valid = <const uint8_t *><uintptr_t>validity.address
        if len(values) == 0:
            return self._decode(wanted, path, NULL, NULL, NULL, NULL, NULL, 0, 0)
        if pa.types.is_large_binary(values.type):
            wide = <const int64_t *><uintptr_t>offsets.address
        else:
            narrow = <const int32_t *><uintptr_t>offsets.address
        return self._decode(
            wanted, path, start, start + size, narrow, wide, valid, values.offset, len(values)
        )

    cdef object _decode(
        self, list wanted, object path, const uint8_t *start, const uint8_t *end,
        const int32_t *narrow, const int64_t *wide, const uint8_t *valid,
        int64_t offset, int64_t count,
    ):
        """Arrays of the wanted fields in the requested order, the rows' validity, the row count."""
        cdef Columns columns = Columns.__new__(Columns)
        cdef Run run
        cdef Projection projection
        cdef bint done
        cdef bint framed = narrow == NULL and wide == NULL
        cdef int64_t bad_slot = -1
        cdef int32_t i, field_count = self.ops[0].count
        flags = bytearray(field_count + 1)
        for position in wanted:
            flags[position] = 1
        asked = bytearray([i == 0 or flags[self.tops[i]] for i in range(self.count)])
        cdef uint8_t *asked_flags = asked
        projection.wanted = flags
        projection.stop = max(wanted) + 1 if wanted else 0
        projection.whole = projection.stop == field_count
        columns.blocks = [None] * (self.count * BLOCK_COUNT)
        columns.ops = <Op *>malloc(self.count * sizeof(Op))
        if columns.ops == NULL:
            raise MemoryError
        memcpy(columns.ops, self.ops, self.count * sizeof(Op))
        memset(&run, 0, sizeof(run))
        run.ops = columns.ops
        run.owner = <void *>columns
        run.allocate = allocate
        run.limit = end
        run.row_count = count
        run.zero_budget = ITEMS_WITHOUT_BYTES_MAX
        run.byte_budget = COLUMN_BYTES_FREE + COLUMN_BYTES_PER_BYTE * (end - start)
        run.status = OK
        with nogil:
            done = reserve(&run, run.ops, count)
            for i in range(field_count):
                if done and projection.wanted[i]:
                    done = reserve(&run, &run.ops[run.ops.first + i], count)
            if done and framed:
                done = decode_frames(&run, &projection, start, end, count)
            elif done:
                done = decode_slots(
                    &run, &projection, start, end - start, narrow, wide, valid, offset, count
                )
            if done:
                done = finish(&run, self.count, asked_flags, &bad_slot)
        if not done:
            self._raise(&run, path, start, bad_slot)
        arrays = [columns.array(self.parts, run.ops.first + position) for position in wanted]
        return arrays, columns.validity(0), count

    cdef object _raise(self, Run *run, object path, const uint8_t *start, int64_t bad_slot):
        column = self.paths[run.failed_op] or None
        if run.status == NO_MEMORY:
            raise MemoryError
        if run.status == TOO_LONG:
            raise UserError(
                "a column would hold over 2 GiB", path=path, column=column,
                hint="decode fewer rows at once",
            )
        offset = run.failed_at - start if run.failed_at != NULL else None
        row = run.ops[0].length if run.failed_at != NULL else None
        if run.status == BAD_TEXT:
            row = bad_slot
        raise CorruptFileError(
            REASONS[run.status], path=path, column=column, row=row, offset=offset
        )
