"""The compiled form of a schema, and the growing columns that decoding fills.

Header-only: structs, and functions that move no bytes of the input.  A column is up to three
blocks: values (string data for text), offsets, and validity at a byte per slot until packed.
Blocks come from `Run.allocate`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from pyhudi._native.avro.kinds cimport *

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

cdef enum Block:
    VALUES = 0
    OFFSETS = 1
    VALID = 2
    BLOCK_COUNT = 3

cdef enum:
    OFFSET_MAX = 0x7FFFFFFF
    SLACK = 32              # bytes after string data, so that short copies may overrun

cdef struct Op:
    int32_t kind
    int32_t wrapped         # a union index precedes the value; 0 for a general union
    int32_t null_code       # first byte of the null branch's index, -1 if there is none
    int32_t value_code      # first byte of the value branch's index, -1 if there is none
    int32_t branch_count    # 0: no union around the value
    int32_t null_branch
    int32_t first           # children: ops[first .. first + count)
    int32_t count
    int32_t size            # FIXED, DECIMAL_FIXED: bytes on the wire; ENUM: symbols
    int32_t width           # bytes per slot of `values`, 0 if the column has none of fixed width
    int32_t nullable
    int32_t has_offsets
    int32_t behind          # RECORD: children may be shorter than the struct
    int64_t size_min        # fewest bytes on the wire
    # the column
    int64_t length
    int64_t capacity
    uint8_t *values
    int32_t *offsets
    uint8_t *valid
    int64_t data_size       # bytes of string data in `values`
    int64_t data_capacity
    int64_t null_count
    uint64_t limit[4]       # decimals: 10 ** precision, lowest limb first

cdef struct Run:
    Op *ops
    void *owner             # of the blocks
    void *(*allocate)(Run *run, Op *op, Block block, int64_t size) noexcept nogil
    const uint8_t *limit    # end of all readable input
    int64_t row_count       # remaining rows
    int64_t zero_budget     # remaining zero-byte items allowed
    int64_t byte_budget     # remaining column bytes allowed
    Status status
    int32_t failed_op
    const uint8_t *failed_at


cdef inline const uint8_t *fail(Run *run, Op *op, const uint8_t *at, Status status) noexcept nogil:
    """Record the first failure; always returns NULL."""
    if run.status == OK:
        run.status = status
        run.failed_op = <int32_t>(op - run.ops)
        run.failed_at = at
    return NULL


cdef inline bint reserve(Run *run, Op *op, int64_t capacity) noexcept nogil:
    """Reserve `capacity` slots in all blocks of the op's column except the string data."""
    cdef int64_t slot = op.width + op.nullable + (4 if op.has_offsets else 0)
    if capacity <= op.capacity:
        return True
    run.byte_budget -= (capacity - op.capacity) * slot
    if run.byte_budget < 0:
        fail(run, op, NULL, TOO_MUCH)
        return False
    if op.width > 0:
        op.values = <uint8_t *>run.allocate(run, op, VALUES, capacity * op.width)
        if op.values == NULL:
            return False
    if op.has_offsets:
        op.offsets = <int32_t *>run.allocate(run, op, OFFSETS, (capacity + 1) * 4)
        if op.offsets == NULL:
            return False
        if op.capacity == 0:
            op.offsets[0] = 0
    if op.nullable:
        op.valid = <uint8_t *>run.allocate(run, op, VALID, capacity)
        if op.valid == NULL:
            return False
    op.capacity = capacity
    return True


cdef inline int64_t expected(Run *run, int64_t needed) noexcept nogil:
    """Estimated need of the remaining rows, if they are like the rows so far; at least `needed`."""
    cdef int64_t done = run.ops.length + 1
    if run.row_count <= done:
        return needed
    return <int64_t>(<double>needed * run.row_count / done * 1.1)


cdef inline bint grow(Run *run, Op *op, int64_t needed) noexcept nogil:
    cdef int64_t capacity = op.capacity * 2
    if op.capacity >= 256 and expected(run, needed) < 16 * needed:
        capacity = expected(run, needed)
    if capacity < 64:
        capacity = 64
    if capacity < needed:
        capacity = needed
    return reserve(run, op, capacity)


cdef inline bint grow_data(Run *run, Op *op, int64_t needed, const uint8_t *at) noexcept nogil:
    """Reserve `needed` bytes of string data and the slack; at most what the input can fill."""
    cdef int64_t capacity = expected(run, needed)
    if needed > OFFSET_MAX:
        fail(run, op, at, TOO_LONG)
        return False
    if capacity < 2 * op.data_capacity:
        capacity = 2 * op.data_capacity
    if capacity > needed + (run.limit - at):
        capacity = needed + (run.limit - at)
    op.values = <uint8_t *>run.allocate(run, op, VALUES, capacity + SLACK)
    if op.values == NULL:
        return False
    op.data_capacity = capacity + SLACK
    return True


cdef inline bint pad(Run *run, Op *op, int64_t count) noexcept nogil:
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


cdef inline bint append_null(Run *run, Op *op) noexcept nogil:
    """`pad` by one slot of a nullable column, without a call for the usual widths."""
    cdef int64_t n = op.length
    if op.nullable == 0 or op.width > 8 or n == op.capacity:
        return pad(run, op, 1)
    op.valid[n] = 0
    op.null_count += 1
    if op.has_offsets:
        op.offsets[n + 1] = op.offsets[n]
    elif op.width == 8:
        (<int64_t *>op.values)[n] = 0
    elif op.width == 4:
        (<int32_t *>op.values)[n] = 0
    elif op.width > 0:
        memset(op.values + n * op.width, 0, <size_t>op.width)
    op.behind = 1
    op.length = n + 1
    return True


cdef inline bint catch_up(Run *run, Op *parent) noexcept nogil:
    """Extend the children of a struct to the struct's length."""
    cdef int32_t i
    cdef Op *child
    for i in range(parent.first, parent.first + parent.count):
        child = &run.ops[i]
        if child.length < parent.length and not pad(run, child, parent.length - child.length):
            return False
    parent.behind = 0
    return True
