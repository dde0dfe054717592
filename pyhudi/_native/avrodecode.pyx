"""Avro datums to Arrow columns, one pass, no Python object a row.

A schema is compiled into an array of `Op`: the root record first, the children of each type side by
side.  A call copies the array; each copy of an op owns the growing column of its values.  Rows are
walked by `decode_value`, the only function that moves through the bytes, and it checks each step
against the end of its datum.  A null struct costs its children nothing: they are brought up to its
length when it next has a value, and at the end (`pad`).

Wire form (Avro 1.11, "Binary Encoding"): int and long are zigzag varints of at most 10 bytes, float
and double little-endian, bytes and string a long and the bytes, array and map blocks of a count
(negative: followed by the block's bytes) up to a count of 0, a union its branch index and the value.
"""

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from pyhudi._native.avrotypes import AvroField, Kind as TypeKind, Node
from pyhudi.errors import CorruptFileError, UserError

cdef extern from * nogil:
    """
    #define likely(x) __builtin_expect(!!(x), 1)
    #define unlikely(x) __builtin_expect(!!(x), 0)
    """
    int __builtin_ctzll(unsigned long long)
    bint likely(bint)
    bint unlikely(bint)

cdef enum Kind:  # avrotypes.Kind
    K_NULL = 0
    K_BOOLEAN = 1
    K_INT = 2
    K_LONG = 3
    K_TIME_MILLIS = 4
    K_TIME_MICROS = 5
    K_FLOAT = 6
    K_DOUBLE = 7
    K_STRING = 8
    K_BYTES = 9
    K_FIXED = 10
    K_DECIMAL_BYTES = 11
    K_DECIMAL_FIXED = 12
    K_ENUM = 13
    K_ARRAY = 14
    K_MAP = 15
    K_RECORD = 16
    K_UNION = 17

cdef enum Status:
    OK = 0
    TRUNCATED
    BAD_NUMBER
    BAD_BRANCH
    BAD_LENGTH
    BAD_BOOLEAN
    BAD_SYMBOL
    BAD_TIME
    BAD_DECIMAL
    BAD_COUNT
    BAD_TEXT
    RESIDUE
    TOO_MUCH
    TOO_LONG
    NO_MEMORY

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

cdef int64_t ITEMS_WITHOUT_BYTES_MAX = 1 << 24
cdef int64_t COLUMN_BYTES_FREE = 256 << 20
cdef int64_t COLUMN_BYTES_PER_BYTE = 1024
cdef int64_t OFFSET_MAX = 0x7FFFFFFF
cdef int64_t DAY_MICROS = 86400 * 1000000
cdef int64_t SLACK = 16  # bytes behind a string column's end, so that short copies may overrun

cdef struct Op:
    int32_t kind
    int32_t branch_count    # 0: no union around the value
    int32_t null_code       # first byte of the null branch's index, -1 if there is none
    int32_t value_code      # first byte of the value branch's index, -1 if no or a general union
    int32_t null_branch
    int32_t first           # children: ops[first .. first + count)
    int32_t count
    int32_t size            # FIXED, DECIMAL_FIXED: bytes on the wire; ENUM: symbols
    int32_t width           # bytes a slot of `values`, 0 if the column has none of fixed width
    int32_t nullable
    int32_t has_offsets
    int32_t behind          # RECORD: children are shorter than the struct
    int64_t size_min        # fewest bytes on the wire
    uint64_t limit[4]       # decimals: 10 ** precision, lowest limb first
    # the column
    uint8_t *values
    int32_t *offsets
    uint8_t *valid          # a byte a slot
    int64_t length
    int64_t capacity
    int64_t data_size       # bytes of string data in `values`
    int64_t data_capacity
    int64_t null_count

cdef struct Run:
    Op *ops
    const uint8_t *limit    # end of all readable input
    int64_t zero_budget
    int64_t byte_budget
    Status status
    int32_t failed_op
    const uint8_t *failed_at


# ---- errors and memory -----------------------------------------------------------------------------

cdef const uint8_t *fail(Run *run, Op *op, const uint8_t *at, Status status) noexcept nogil:
    """Record the first failure; always NULL."""
    if run.status == OK:
        run.status = status
        run.failed_op = <int32_t>(op - run.ops)
        run.failed_at = at
    return NULL


cdef bint reserve(Run *run, Op *op, int64_t capacity) noexcept nogil:
    """Room for `capacity` slots in all buffers of the op's own column but the string data."""
    cdef int64_t slot = op.width + op.nullable + (4 if op.has_offsets else 0)
    cdef void *grown
    if capacity <= op.capacity:
        return True
    run.byte_budget -= (capacity - op.capacity) * slot
    if run.byte_budget < 0:
        fail(run, op, NULL, TOO_MUCH)
        return False
    if op.width > 0:
        grown = realloc(op.values, <size_t>(capacity * op.width))
        if grown == NULL:
            fail(run, op, NULL, NO_MEMORY)
            return False
        op.values = <uint8_t *>grown
    if op.has_offsets:
        grown = realloc(op.offsets, <size_t>((capacity + 1) * 4))
        if grown == NULL:
            fail(run, op, NULL, NO_MEMORY)
            return False
        op.offsets = <int32_t *>grown
        if op.capacity == 0:
            op.offsets[0] = 0
    if op.nullable:
        grown = realloc(op.valid, <size_t>capacity)
        if grown == NULL:
            fail(run, op, NULL, NO_MEMORY)
            return False
        op.valid = <uint8_t *>grown
    op.capacity = capacity
    return True


cdef bint grow(Run *run, Op *op, int64_t needed) noexcept nogil:
    cdef int64_t capacity = op.capacity * 2
    if capacity < 64:
        capacity = 64
    if capacity < needed:
        capacity = needed
    return reserve(run, op, capacity)


cdef bint grow_data(Run *run, Op *op, int64_t needed, const uint8_t *at) noexcept nogil:
    """Room for `needed` bytes of string data and the slack."""
    cdef int64_t capacity = op.data_capacity * 2
    cdef void *grown
    if needed > OFFSET_MAX:
        fail(run, op, at, TOO_LONG)
        return False
    if capacity < 1024:
        capacity = 1024
    if capacity < needed + SLACK:
        capacity = needed + SLACK
    grown = realloc(op.values, <size_t>capacity)
    if grown == NULL:
        fail(run, op, at, NO_MEMORY)
        return False
    op.values = <uint8_t *>grown
    op.data_capacity = capacity
    return True


cdef bint pad(Run *run, Op *op, int64_t count) noexcept nogil:
    """Append `count` null slots; in a column without nulls, zeros that a null parent hides."""
    cdef int64_t n = op.length, i
    cdef int32_t last
    if n + count > op.capacity and not grow(run, op, n + count):
        return False
    if op.nullable:
        memset(op.valid + n, 0, <size_t>count)
        op.null_count += count
    if op.width > 0:
        memset(op.values + n * op.width, 0, <size_t>(count * op.width))
    elif op.has_offsets:
        last = op.offsets[n]
        for i in range(n + 1, n + count + 1):
            op.offsets[i] = last
    op.behind = 1
    op.length = n + count
    return True


cdef bint catch_up(Run *run, Op *parent) noexcept nogil:
    """Bring the children of a struct to the struct's length."""
    cdef int32_t i
    cdef Op *child
    for i in range(parent.first, parent.first + parent.count):
        child = &run.ops[i]
        if child.length < parent.length and not pad(run, child, parent.length - child.length):
            return False
    parent.behind = 0
    return True


# ---- the cursor ------------------------------------------------------------------------------------

cdef const uint8_t *take_long_slow(
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
    """A zigzag varint; up to 8 bytes are folded at once where 8 can be read."""
    cdef uint64_t word, stops
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
            word = (word & <uint64_t>0x007F007F007F007F) | ((word & <uint64_t>0x7F007F007F007F00) >> 1)
            word = (word & <uint64_t>0x00003FFF00003FFF) | ((word & <uint64_t>0x3FFF00003FFF0000) >> 2)
            word = (word & <uint64_t>0x000000000FFFFFFF) | ((word & <uint64_t>0x0FFFFFFF00000000) >> 4)
            out[0] = <int64_t>(word >> 1) ^ -<int64_t>(word & 1)
            return at
    return take_long_slow(run, op, at, end, out)


cdef inline const uint8_t *take_size(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *out
) noexcept nogil:
    """A length that lies within the datum."""
    cdef const uint8_t *start = at
    at = take_long(run, op, at, end, out)
    if unlikely(at == NULL):
        return NULL
    if unlikely(out[0] < 0 or out[0] > end - at):
        return fail(run, op, start, BAD_LENGTH)
    return at


cdef const uint8_t *take_count(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *count, int64_t *block_bytes
) noexcept nogil:
    """Head of an array or map block: items, and their bytes where the writer tells them, else -1."""
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


# ---- one value -------------------------------------------------------------------------------------

cdef const uint8_t *take_branch(
    Run *run, Op *op, const uint8_t *at, const uint8_t *end, int64_t *branch
) noexcept nogil:
    cdef const uint8_t *start = at
    at = take_long(run, op, at, end, branch)
    if at != NULL and (branch[0] < 0 or branch[0] >= op.branch_count):
        return fail(run, op, start, BAD_BRANCH)
    return at


cdef bint store_decimal(Op *op, const uint8_t *digits, int64_t size) noexcept nogil:
    """Big-endian two's complement of any length into the slot; False if over the precision."""
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
    if size <= 16 and run.limit - at >= 16:
        memcpy(op.values + op.data_size, at, 16)
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
    """A general union: the branch's column gets the value, the others catch up when they are used."""
    cdef int64_t branch
    cdef Op *child
    at = take_branch(run, op, at, end, &branch)
    if at == NULL:
        return NULL
    if branch == op.null_branch:
        return at if pad(run, op, 1) else NULL
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
    """Append one value to the op's column; the byte behind it, or NULL with the failure in `run`."""
    cdef int64_t number
    cdef int32_t i
    cdef int64_t n
    if op.branch_count and op.kind != K_UNION:
        if unlikely(at >= end):
            return fail(run, op, at, TRUNCATED)
        if likely(at[0] == op.value_code):
            at += 1
        elif at[0] == op.null_code:
            return at + 1 if pad(run, op, 1) else NULL
        else:
            at = take_branch(run, op, at, end, &number)
            if at == NULL:
                return NULL
            if number == op.null_branch:
                return at if pad(run, op, 1) else NULL
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
        if op.kind == K_TIME_MILLIS and (number < 0 or number >= 86400000):
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
    """The byte behind a value that nobody asked for."""
    cdef int64_t number, block_bytes
    cdef int32_t i
    if op.branch_count:
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
        return take_long(run, op, at, end, &number)
    if end - at < number:
        return fail(run, op, at, TRUNCATED)
    return at + number


# ---- rows ------------------------------------------------------------------------------------------

cdef struct Projection:
    uint8_t *wanted         # a byte a top-level field
    int32_t stop            # fields behind this one are not asked for
    int32_t whole           # all fields are asked for


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


# ---- finished columns ------------------------------------------------------------------------------

cdef uint8_t *pack_bits(const uint8_t *flags, int64_t count) noexcept nogil:
    """A byte a slot to a bit a slot; NULL without memory."""
    cdef int64_t byte_count = (count + 7) // 8, i, tail = count & 7
    cdef uint8_t *bits = <uint8_t *>malloc(<size_t>(byte_count + 8))
    cdef uint64_t word
    if bits == NULL:
        return NULL
    for i in range(count // 8):
        memcpy(&word, flags + i * 8, 8)
        bits[i] = <uint8_t>((word * <uint64_t>0x0102040810204080) >> 56)
    if tail:
        word = 0
        memcpy(&word, flags + count - tail, <size_t>tail)
        bits[byte_count - 1] = <uint8_t>((word * <uint64_t>0x0102040810204080) >> 56)
    return bits


cdef bint is_ascii(const uint8_t *data, int64_t size) noexcept nogil:
    cdef uint64_t seen = 0, word
    cdef int64_t i = 0, k
    while size - i >= 64:
        for k in range(8):
            memcpy(&word, data + i + k * 8, 8)
            seen |= word
        if seen & <uint64_t>0x8080808080808080:
            return False
        i += 64
    while i < size:
        seen |= data[i]
        i += 1
    return (seen & <uint64_t>0x8080808080808080) == 0


cdef bint is_utf8(const uint8_t *data, int64_t size) noexcept nogil:
    """Well-formed by Unicode table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF."""
    cdef const uint8_t *at = data
    cdef const uint8_t *end = data + size
    cdef uint8_t lead
    cdef uint64_t word
    while at < end:
        if end - at >= 8:
            memcpy(&word, at, 8)
            if not word & <uint64_t>0x8080808080808080:
                at += 8
                continue
        lead = at[0]
        if lead < 0x80:
            at += 1
        elif lead < 0xC2:
            return False
        elif lead < 0xE0:
            if end - at < 2 or at[1] & 0xC0 != 0x80:
                return False
            at += 2
        elif lead < 0xF0:
            if end - at < 3 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80:
                return False
            if (lead == 0xE0 and at[1] < 0xA0) or (lead == 0xED and at[1] > 0x9F):
                return False
            at += 3
        elif lead < 0xF5:
            if end - at < 4 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80 or at[3] & 0xC0 != 0x80:
                return False
            if (lead == 0xF0 and at[1] < 0x90) or (lead == 0xF4 and at[1] > 0x8F):
                return False
            at += 4
        else:
            return False
    return True


cdef int64_t find_bad_text(Op *op) noexcept nogil:
    """The first slot of a string column that is not UTF-8, or -1."""
    cdef int64_t i
    cdef bint sound
    if op.data_size == 0 or is_ascii(op.values, op.data_size):
        return -1
    sound = is_utf8(op.values, op.data_size)
    if sound:
        for i in range(op.length):
            if op.offsets[i] < op.data_size and op.values[op.offsets[i]] & 0xC0 == 0x80:
                sound = False
                break
    if sound:
        return -1
    for i in range(op.length):
        if not is_utf8(op.values + op.offsets[i], op.offsets[i + 1] - op.offsets[i]):
            return i
    return -1


cdef bint finish(Run *run, int32_t op_count, uint8_t *asked, int64_t *bad_slot) noexcept nogil:
    """Even out struct children, check strings, pack flags to bits.  Parents stand before children."""
    cdef int32_t i, k
    cdef Op *op
    cdef uint8_t *bits
    for i in range(op_count):
        if not asked[i]:
            continue
        op = &run.ops[i]
        if op.kind == K_RECORD or op.kind == K_UNION:
            for k in range(op.first, op.first + op.count):
                if asked[k] and run.ops[k].length < op.length:
                    if not pad(run, &run.ops[k], op.length - run.ops[k].length):
                        return False
        if op.kind == K_STRING:
            bad_slot[0] = find_bad_text(op)
            if bad_slot[0] >= 0:
                fail(run, op, NULL, BAD_TEXT)
                return False
        if op.kind == K_BOOLEAN and op.length > 0:
            bits = pack_bits(op.values, op.length)
            if bits == NULL:
                fail(run, op, NULL, NO_MEMORY)
                return False
            free(op.values)
            op.values = bits
        if op.nullable and op.null_count > 0:
            bits = pack_bits(op.valid, op.length)
            if bits == NULL:
                fail(run, op, NULL, NO_MEMORY)
                return False
            free(op.valid)
            op.valid = bits
    return True


cdef class Memory:
    """One malloc'ed block that an Arrow buffer keeps alive."""

    cdef void *block

    def __dealloc__(self):
        free(self.block)


cdef object to_buffer(void **block, int64_t size):
    """Hand a block over to an Arrow buffer; an absent one becomes an empty buffer."""
    cdef Memory owner
    cdef void *shrunk
    if block[0] == NULL:
        return pa.py_buffer(b"\0\0\0\0")
    shrunk = realloc(block[0], <size_t>(size if size > 0 else 1))
    if shrunk != NULL:
        block[0] = shrunk
    owner = Memory.__new__(Memory)
    owner.block = block[0]
    block[0] = NULL
    return pa.foreign_buffer(<uintptr_t>owner.block, size, owner)


cdef class Columns:
    """The ops of one call with their columns; frees what was not handed over to Arrow."""

    cdef Op *ops
    cdef int32_t count

    def __dealloc__(self):
        cdef int32_t i
        if self.ops != NULL:
            for i in range(self.count):
                free(self.ops[i].values)
                free(self.ops[i].offsets)
                free(self.ops[i].valid)
            free(self.ops)

    cdef object array(self, list fields, int32_t index):
        """The Arrow array of an op, its buffers handed over."""
        cdef Op *op = &self.ops[index]
        cdef int64_t n = op.length
        cdef list children = []
        cdef int32_t i
        node = fields[index].node
        validity = None
        if op.kind == K_NULL:
            return pa.nulls(n)
        if op.null_count > 0:
            validity = to_buffer(<void **>&op.valid, (n + 7) // 8)
        if op.kind == K_RECORD or op.kind == K_UNION:
            for i in range(op.first, op.first + op.count):
                children.append(self.array(fields, i))
            return pa.StructArray.from_buffers(
                node.arrow, n, [validity], null_count=op.null_count, children=children
            )
        if op.kind == K_ENUM:
            codes = pa.Array.from_buffers(
                pa.int32(), n, [validity, to_buffer(<void **>&op.values, n * 4)], op.null_count
            )
            return pa.DictionaryArray.from_arrays(codes, list(node.symbols)).dictionary_decode()
        if op.has_offsets:
            offsets = to_buffer(<void **>&op.offsets, (n + 1) * 4)
            if op.kind == K_STRING or op.kind == K_BYTES:
                data = to_buffer(<void **>&op.values, op.data_size)
                return pa.Array.from_buffers(node.arrow, n, [validity, offsets, data], op.null_count)
            items = self.array(fields, op.first + op.count - 1)
            if op.kind == K_MAP:
                keys = self.array(fields, op.first)
                items = pa.StructArray.from_arrays(
                    [keys, items], fields=[node.arrow.key_field, node.arrow.item_field]
                )
            return pa.Array.from_buffers(
                node.arrow, n, [validity, offsets], op.null_count, children=[items]
            )
        size = (n + 7) // 8 if op.kind == K_BOOLEAN else n * op.width
        values = to_buffer(<void **>&op.values, size)
        return pa.Array.from_buffers(node.arrow, n, [validity, values], op.null_count)


# ---- the face --------------------------------------------------------------------------------------

cdef int32_t width_of(object node):
    """Bytes a slot of a fixed-width column; booleans take a byte until they are packed."""
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
    """An op without children from a part of the schema."""
    node = part.node
    op.kind = node.kind
    op.branch_count = node.branch_count
    op.null_branch = node.null_branch
    op.null_code = 2 * node.null_branch if node.null_branch >= 0 else -1
    op.value_code = -1
    if node.branch_count and node.kind not in (TypeKind.UNION, TypeKind.NULL):
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
    """A compiled schema.  Immutable, so calls may run at once in several threads.

    root: the parsed schema (`avrotypes.parse_schema`).
    """

    cdef Op *ops
    cdef int32_t count
    cdef readonly object root
    cdef list parts     # AvroField an op
    cdef list paths     # dotted column name an op
    cdef list tops      # index of the top-level field an op belongs to, -1 for the root

    def __cinit__(self, root):
        key = AvroField("key", Node(TypeKind.STRING, pa.string(), 1))
        self.root = root
        self.parts = [AvroField("", root, optional=True)]
        self.paths = [""]
        self.tops = [-1]
        spans = []
        index = 0
        while index < len(self.parts):
            part = self.parts[index]
            children = list(part.node.fields)
            if part.node.kind == TypeKind.MAP:
                children = [key, *children]
            spans.append((len(self.parts), len(children)))
            for position, child in enumerate(children):
                self.parts.append(child)
                prefix = self.paths[index]
                self.paths.append(f"{prefix}.{child.name}" if prefix else child.name)
                self.tops.append(position if index == 0 else self.tops[index])
            index += 1
        self.count = len(self.parts)
        self.ops = <Op *>calloc(<size_t>self.count, sizeof(Op))
        if self.ops == NULL:
            raise MemoryError
        for index in range(self.count):
            fill_op(&self.ops[index], self.parts[index])
            self.ops[index].first, self.ops[index].count = spans[index]

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
        """A list of arrays, one a wanted field in the order asked, and the root's validity."""
        cdef Columns columns = Columns.__new__(Columns)
        cdef Run run
        cdef Projection projection
        cdef bint done = False
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
        columns.ops = <Op *>malloc(self.count * sizeof(Op))
        if columns.ops == NULL:
            raise MemoryError
        columns.count = self.count
        memcpy(columns.ops, self.ops, self.count * sizeof(Op))
        run.ops = columns.ops
        run.limit = end
        run.zero_budget = ITEMS_WITHOUT_BYTES_MAX
        run.byte_budget = COLUMN_BYTES_FREE + COLUMN_BYTES_PER_BYTE * (end - start)
        run.status = OK
        run.failed_op = 0
        run.failed_at = NULL
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
        validity = None
        if columns.ops.null_count > 0:
            validity = to_buffer(<void **>&columns.ops.valid, (count + 7) // 8)
        return arrays, validity, count

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
