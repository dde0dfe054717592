"""The block index of an HFile: root entries, and the nodes below them that HBase writes.

    root entry   i64 block offset | i32 block size | hvint key size | key
    node         i32 n | (n + 1) x i32 relative offset | n x { i64 offset, i32 size, key }
    key          i16 row size | row | [10 bytes of suffix]

A multi-level root is followed by 16 bytes of mid-key metadata.  The first native writer of Apache
Hudi wrote key sizes as Protobuf varints, equal below 128: `native_lengths` reads those.
"""

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from pyhudi._native.cursor cimport (
    MALFORMED, OK, OUT_OF_ORDER, Cursor, Status, cursor_over, load_be16, load_be32, take_bytes,
    take_hvint, take_i32, take_i64, take_uvarint,
)
from pyhudi._native.hfile.block cimport HEADER_SIZE, ROW_SIZE_MAX, compare_rows, head_of

cdef int ENTRY_SIZE_MIN = 15       # offset, size, one byte of key size, an empty row
cdef int NODE_ENTRY_SIZE_MIN = 14


cdef Status row_of(const uint8_t *key, int64_t size, const uint8_t **row, uint32_t *row_size) noexcept nogil:
    """Row inside an index key with the 10-byte suffix or, from native writers, without."""
    cdef int64_t rows
    if size < 2:
        return MALFORMED
    rows = load_be16(key)
    if rows > ROW_SIZE_MAX or (size != rows + 2 and size < rows + 12):
        return MALFORMED
    row[0] = key + 2
    row_size[0] = <uint32_t>rows
    return OK


cdef class BlockIndex:
    """Entries in file order, one allocation per column."""

    def __dealloc__(self):
        PyMem_Free(self.offsets)
        PyMem_Free(self.sizes)
        PyMem_Free(<void *>self.rows)
        PyMem_Free(self.row_sizes)
        PyMem_Free(self.heads)

    cdef int reserve(self, int64_t more) except -1:
        """Reserve `more` entries beyond `count`."""
        cdef int64_t room = self.count + more
        cdef void *at
        if self.owners is None:
            self.owners = []
        if room <= self.room:
            return 0
        room = max(room, 2 * self.room)
        at = PyMem_Realloc(self.offsets, room * sizeof(uint64_t))
        if at == NULL:
            raise MemoryError
        self.offsets = <uint64_t *>at
        at = PyMem_Realloc(self.sizes, room * sizeof(uint32_t))
        if at == NULL:
            raise MemoryError
        self.sizes = <uint32_t *>at
        at = PyMem_Realloc(<void *>self.rows, room * sizeof(void *))
        if at == NULL:
            raise MemoryError
        self.rows = <const uint8_t **>at
        at = PyMem_Realloc(self.row_sizes, room * sizeof(uint32_t))
        if at == NULL:
            raise MemoryError
        self.row_sizes = <uint32_t *>at
        at = PyMem_Realloc(self.heads, room * sizeof(uint64_t))
        if at == NULL:
            raise MemoryError
        self.heads = <uint64_t *>at
        self.room = room
        return 0

    cdef void put(
        self, uint64_t offset, uint32_t size, const uint8_t *row, uint32_t row_size
    ) noexcept nogil:
        self.offsets[self.count] = offset
        self.sizes[self.count] = size
        self.rows[self.count] = row
        self.row_sizes[self.count] = row_size
        self.count += 1

    cdef Status take_root(
        self, const uint8_t *body, int64_t size, int64_t count, int64_t residue, bint native_lengths
    ) noexcept nogil:
        """`count` root entries that leave exactly `residue` bytes.  Room must be reserved."""
        cdef Cursor c = cursor_over(body, size)
        cdef int64_t offset, key_size, i
        cdef uint64_t unsigned_size
        cdef int32_t block_size
        cdef const uint8_t *key
        cdef const uint8_t *row
        cdef uint32_t row_size
        cdef Status status
        self.count = 0
        for i in range(count):
            status = take_i64(&c, &offset)
            if status == OK:
                status = take_i32(&c, &block_size)
            if status == OK and native_lengths:
                status = take_uvarint(&c, &unsigned_size)
                key_size = <int64_t>unsigned_size
            elif status == OK:
                status = take_hvint(&c, &key_size)
            if status == OK:
                status = take_bytes(&c, key_size, &key)
            if status == OK:
                status = row_of(key, key_size, &row, &row_size)
            if status != OK:
                return status
            if block_size < HEADER_SIZE or offset < 0:
                return MALFORMED
            self.put(<uint64_t>offset, <uint32_t>block_size, row, row_size)
        return OK if c.end - c.at == residue else MALFORMED

    cdef Status take_node(self, const uint8_t *body, int64_t size, int64_t count) noexcept nogil:
        """The `count` entries of a leaf or intermediate node.  Room must be reserved."""
        cdef const uint8_t *table = body + 4
        cdef const uint8_t *entries = table + 4 * (count + 1)
        cdef int64_t room = size - 4 - 4 * (count + 1)
        cdef int64_t begin, end, i
        cdef const uint8_t *row
        cdef uint32_t row_size
        cdef Status status
        cdef Cursor c
        cdef int64_t offset
        cdef int32_t block_size
        if room < 0 or load_be32(table) != 0 or <int64_t>load_be32(table + 4 * count) != room:
            return MALFORMED
        for i in range(count):
            begin = load_be32(table + 4 * i)
            end = load_be32(table + 4 * (i + 1))
            if begin > end or end > room or end - begin < NODE_ENTRY_SIZE_MIN:
                return MALFORMED
            c = cursor_over(entries + begin, end - begin)
            if take_i64(&c, &offset) != OK or take_i32(&c, &block_size) != OK:
                return MALFORMED
            status = row_of(c.at, c.end - c.at, &row, &row_size)
            if status != OK:
                return status
            if block_size < HEADER_SIZE or offset < 0:
                return MALFORMED
            self.put(<uint64_t>offset, <uint32_t>block_size, row, row_size)
        return OK

    cdef Status set_heads(self, const uint8_t *prefix, int64_t prefix_size) noexcept nogil:
        """Set the heads after `prefix`, with which every row must begin."""
        cdef int64_t i
        for i in range(self.count):
            if self.row_sizes[i] < prefix_size:
                return OUT_OF_ORDER
            if prefix_size and memcmp(self.rows[i], prefix, prefix_size) != 0:
                return OUT_OF_ORDER
            self.heads[i] = head_of(self.rows[i] + prefix_size, self.row_sizes[i] - prefix_size)
        return OK

    cdef Status check_blocks(self, uint64_t below) noexcept nogil:
        """Blocks follow each other and end at or before offset `below`."""
        cdef int64_t i
        cdef uint64_t end = 0
        for i in range(self.count):
            if self.offsets[i] < end or self.offsets[i] > below:
                return MALFORMED
            if self.sizes[i] > below - self.offsets[i]:
                return MALFORMED
            end = self.offsets[i] + self.sizes[i]
        return OK

    cdef bint rows_ascend(self) noexcept nogil:
        cdef int64_t i
        for i in range(1, self.count):
            if compare_rows(
                self.rows[i - 1], self.row_sizes[i - 1], self.rows[i], self.row_sizes[i]
            ) >= 0:
                return False
        return True

    cdef int64_t end_of(self, int64_t entry) noexcept nogil:
        """Offset of the first byte after the block of an entry."""
        return <int64_t>(self.offsets[entry] + self.sizes[entry])

    cdef int64_t find(self, bytes row) except -2:
        """The last entry whose row is at or before `row`, or -1."""
        cdef const uint8_t *at = row
        cdef int64_t size = len(row)
        cdef int64_t low = -1, high = self.count, middle
        while high - low > 1:
            middle = (low + high) // 2
            if compare_rows(self.rows[middle], self.row_sizes[middle], at, size) <= 0:
                low = middle
            else:
                high = middle
        return low

    cdef int append(self, BlockIndex other) except -1:
        """Add the entries of `other`; keeps the memory of its rows alive."""
        self.reserve(other.count)
        memcpy(self.offsets + self.count, other.offsets, other.count * sizeof(uint64_t))
        memcpy(self.sizes + self.count, other.sizes, other.count * sizeof(uint32_t))
        memcpy(<void *>(self.rows + self.count), other.rows, other.count * sizeof(void *))
        memcpy(self.row_sizes + self.count, other.row_sizes, other.count * sizeof(uint32_t))
        memcpy(self.heads + self.count, other.heads, other.count * sizeof(uint64_t))
        self.count += other.count
        self.owners.extend(other.owners)
        return 0


cdef BlockIndex root_index(bytes body, int64_t count, int64_t residue):
    """Root entries with either key-size encoding, or None if neither fits the body exactly."""
    cdef BlockIndex index = BlockIndex()
    cdef const uint8_t *at = body
    if count < 0 or count > len(body) // ENTRY_SIZE_MIN:
        return None
    index.reserve(count)
    index.owners.append(body)
    if index.take_root(at, len(body), count, residue, False) == OK:
        return index
    return index if index.take_root(at, len(body), count, residue, True) == OK else None


cdef BlockIndex node_index(bytes body):
    """Entries of a leaf or intermediate node, or None if it is malformed."""
    cdef BlockIndex index = BlockIndex()
    cdef const uint8_t *at = body
    cdef int64_t count
    if len(body) < 8:
        return None
    count = load_be32(at)
    if count < 1 or count > len(body) // NODE_ENTRY_SIZE_MIN:
        return None
    index.reserve(count)
    index.owners.append(body)
    return index if index.take_node(at, len(body), count) == OK else None
