"""Bloom filters bit-identical to Apache Hudi's SIMPLE and DYNAMIC_V0.

Serialised, base64 of big-endian:

    SIMPLE:      i32 -1, i32 k, i8 hash type 1, i32 m, then ceil(m / 8) bytes:
                 bit i is in byte i / 8, the lowest bit first
    DYNAMIC_V0:  i32 -1, i32 k, i8 hash type 1, i32 m, i32 keys per row, i32 keys counted,
                 i32 rows, then each row as a SIMPLE

A key sets bits |s_i rem m| for the k hashes s_i = murmur(key, s_(i-1)), s_0 = 0, in one row.
The row of a key in a dynamic filter is the last one, until it has its keys; then a new one while
rows * keys per row is below the maximum; then the filter is full, and keys go to row 0 once and
then to all rows in turn.  The count continues from the keys of the last row, so a count above the
keys per row shows that a filter is full and which row is next; only the maximum is not stored.

Source: storage format chapter 4.
"""

import base64
import binascii
import math
import struct
import threading

import numpy as np
import pyarrow as pa

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memset

from pyhudi._native.column cimport Column, ColumnView, Span, is_null, span_at
from pyhudi._native.words cimport prefetch

from pyhudi._native.column import plain
from pyhudi.errors import CorruptFileError, UserError


cdef extern from "bloom_lanes.h" nogil:
    enum:
        LANES "PYHUDI_LANES"
        LANE_WORDS "PYHUDI_LANE_WORDS"
    ctypedef struct Lanes "pyhudi_lanes":
        uint32_t lane[16]
    ctypedef struct LaneKeys "pyhudi_lane_keys":
        pass
    int32_t murmur "pyhudi_murmur"(const uint8_t *key, int64_t size, int32_t seed) noexcept
    uint32_t bit_of "pyhudi_bit_of"(int32_t hash, int32_t bits) noexcept
    void lane_set "pyhudi_lane_set"(
        LaneKeys *keys, int lane, const uint8_t *key, int64_t size) noexcept
    void lanes_prepare "pyhudi_lanes_prepare"(LaneKeys *keys, int used) noexcept
    void lanes_rounds "pyhudi_lanes_rounds"(
        const LaneKeys *keys, int rounds, int32_t bits, Lanes *seed, Lanes *out) noexcept


cdef enum:
    HASHES_MAX = 1100         # hashes per key; fpp of the smallest double needs fewer
    EARLY = 4                 # hashes that exclude most absent keys
    BLOCK = 256               # keys looked up together
    BLOCK_LANES = 16          # BLOCK / LANES

SIMPLE_HEADER = struct.Struct(">iibi")
DYNAMIC_HEADER = struct.Struct(">iibiiii")
VERSION = -1
MURMUR = 1
INT32_MAX = 0x7FFFFFFF
KINDS = ("SIMPLE", "DYNAMIC_V0")


cdef class BloomFilter:
    """Record keys of a file as Apache Hudi stores them in Parquet footers and HFiles.

    entries: keys for which the rate holds, per row of a dynamic filter; fpp: false positive rate;
    kind: "SIMPLE" or "DYNAMIC_V0"; entries_max: keys up to which a dynamic filter adds rows.

    Keys are UTF-8 strings or bytes; an empty key has no hash and raises UserError.  Any number of
    threads may query while one adds; adds are serialized.
    """

    cdef readonly str kind
    cdef readonly int bit_count           # of one row
    cdef readonly int hash_count
    cdef readonly int64_t entries         # keys per row; 0 for a SIMPLE filter that was read
    cdef readonly int64_t entries_max
    cdef list _rows                       # uint8 arrays
    cdef int64_t _counted                 # keys of the last row, continuing when full; -1 unknown
    cdef object _adding

    def __init__(self, entries=60_000, fpp=1e-9, *, kind="DYNAMIC_V0", entries_max=100_000):
        if not 1 <= entries <= INT32_MAX or not 1 <= entries_max <= INT32_MAX:
            raise UserError(
                "a bloom filter needs a positive number of keys",
                entries=entries, entries_max=entries_max,
            )
        if not 0.0 < fpp < 1.0:
            raise UserError("a rate of false hits is between 0 and 1", fpp=fpp)
        log2 = math.log(2)
        bits = math.ceil(entries * (-math.log(fpp) / (log2 * log2)))
        if bits > INT32_MAX:
            raise UserError("the bloom filter would be too large", entries=entries, fpp=fpp)
        self._shape(kind, bits, math.ceil(log2 * bits / entries), entries, entries_max)
        self._rows = [self._new_row()]

    cdef _shape(self, kind, bits, hashes, entries, entries_max):
        self.kind = checked_kind(kind)
        self.bit_count = bits
        self.hash_count = hashes
        self.entries = entries
        self.entries_max = entries_max
        self._counted = 0
        self._adding = threading.Lock()

    cdef _new_row(self):
        return np.zeros((<int64_t>self.bit_count + 7) // 8, dtype=np.uint8)

    @property
    def key_count(self):
        """Keys added, including duplicates; None for a SIMPLE filter that was read."""
        if self._counted < 0:
            return None
        return (len(self._rows) - 1) * self.entries + self._counted

    @property
    def row_count(self):
        return len(self._rows)

    def __repr__(self):
        return (
            f"BloomFilter(kind={self.kind!r}, entries={self.entries}, "
            f"bit_count={self.bit_count}, hash_count={self.hash_count}, "
            f"row_count={self.row_count}, key_count={self.key_count})"
        )

    def __reduce__(self):
        return (restore, (self.to_base64(), self.kind, self.entries_max))

    def copy(self):
        """A separate filter with the same bits, count and maximum."""
        cdef BloomFilter twin = BloomFilter.__new__(BloomFilter)
        with self._adding:
            twin._shape(
                self.kind, self.bit_count, self.hash_count, self.entries, self.entries_max
            )
            twin._rows = [row.copy() for row in self._rows]
            twin._counted = self._counted
        return twin

    def add(self, keys not None):
        """Add a column of keys in order; a null or empty one raises UserError and none is added."""
        cdef Column column = Column(keys)
        cdef int64_t row = first_unusable(&column.view, False)
        if row >= 0:
            raise UserError("a key of a bloom filter is null or empty", row=row)
        with self._adding:
            self._add(column)

    cdef _add(self, Column column):
        cdef int64_t done = 0
        cdef int64_t left = column.view.length
        cdef int64_t run
        while left > 0:
            if self.kind == "SIMPLE" or self._counted < self.entries:
                run = left if self.kind == "SIMPLE" else min(left, self.entries - self._counted)
                self._add_run(column, done, run, self._rows[len(self._rows) - 1 :], 0)
            elif self._counted == self.entries and self._grows():
                self._rows.append(self._new_row())
                self._counted = 0
                continue
            elif self._counted == self.entries:
                run = 1
                self._add_run(column, done, run, self._rows[:1], 0)
            else:
                run = left
                turn = (self._counted - self.entries - 1) % len(self._rows)
                self._add_run(column, done, run, self._rows, turn)
            if self._counted >= 0:
                self._counted += run
            done += run
            left -= run

    cdef bint _grows(self):
        return len(self._rows) * self.entries < self.entries_max

    cdef _add_run(self, Column column, int64_t start, int64_t count, list rows, int64_t turn):
        """Add keys start .. start + count: the first to row `turn`, each later one to the next."""
        addresses = addresses_of(rows)
        cdef uintptr_t[::1] at = addresses
        cdef Adding adding
        adding.rows = <uint8_t **>&at[0]
        adding.row_count = len(rows)
        adding.bits = self.bit_count
        adding.hashes = self.hash_count
        adding.turn = turn
        with nogil:
            add_range(&column.view, start, count, &adding)

    def contains(self, keys not None):
        """Whether each key may have been added -> BooleanArray; False is certain, null for nulls.

        An empty key raises UserError.
        """
        cdef Column column = Column(keys)
        cdef int64_t row = first_unusable(&column.view, True)
        if row >= 0:
            raise UserError("a key of a bloom filter is empty", row=row)
        cdef int64_t length = column.view.length
        hits = np.zeros(length, dtype=np.uint8)
        cdef uint8_t[::1] hit = hits
        rows = list(self._rows)           # keeps them alive when another thread adds rows
        addresses = addresses_of(rows)
        cdef uintptr_t[::1] at = addresses
        cdef Adding asking
        asking.rows = <uint8_t **>&at[0]
        asking.row_count = len(rows)
        asking.bits = self.bit_count
        asking.hashes = self.hash_count
        if length:
            with nogil:
                contains_all(&column.view, &asking, &hit[0])
        answer = hits.view(np.bool_)
        if column.view.valid != NULL:
            return pa.array(answer, mask=column.array.is_null().to_numpy(zero_copy_only=False))
        return pa.array(answer)

    def contains_one(self, key not None):
        """Whether one key, bytes or str, may have been added."""
        return self.contains([key])[0].as_py()

    def to_base64(self):
        """The text stored in a Parquet footer, an HFile or the metadata table."""
        with self._adding:
            parts = []
            head = (VERSION, self.hash_count, MURMUR, self.bit_count)
            if self.kind == "DYNAMIC_V0":
                count = min(self._counted, INT32_MAX)
                parts.append(DYNAMIC_HEADER.pack(*head, self.entries, count, len(self._rows)))
            for row in self._rows:
                parts.append(SIMPLE_HEADER.pack(*head))
                parts.append(memoryview(row))
            return base64.b64encode(b"".join(parts)).decode()

    @staticmethod
    def from_base64(text not None, kind="DYNAMIC_V0", *, entries_max=100_000, path=None):
        """The filter of a serialized text; raises CorruptFileError for an invalid one.

        kind: from the file's type code, upper or lower case; without a code it is SIMPLE.
        entries_max is not in the text: it is used only when keys are added.  Fullness and turn
        of a dynamic filter follow from its count (see the top of this file), so that keys can be
        added as in the original filter.  path: named in the error.
        """
        kind = checked_kind(kind)
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptFileError("a bloom filter is not base64", path=path) from error
        return parse(data, kind, entries_max, path)


def restore(text, kind, entries_max):
    return BloomFilter.from_base64(text, kind, entries_max=entries_max)


def checked_kind(kind):
    known = kind.upper()
    if known not in KINDS:
        raise UserError("unknown kind of bloom filter", kind=kind, known=", ".join(KINDS))
    return known


def addresses_of(rows):
    return np.array([row.ctypes.data for row in rows], dtype=np.uintp)


def parse(data, kind, entries_max, path):
    """The filter of serialized bytes; every size is checked against the available bytes."""
    cdef BloomFilter filter_ = BloomFilter.__new__(BloomFilter)
    dynamic = kind == "DYNAMIC_V0"
    head = DYNAMIC_HEADER if dynamic else SIMPLE_HEADER
    if len(data) < head.size:
        raise CorruptFileError("truncated bloom filter", path=path, size=len(data))
    version, hashes, hash_type, bits, *growth = head.unpack_from(data)
    entries, counted, rows = growth if dynamic else (1, 0, 1)
    if version != VERSION or hash_type != MURMUR:
        raise CorruptFileError(
            "a bloom filter of a form that Apache Hudi does not write",
            path=path, version=version, hash_type=hash_type,
        )
    row_size = (bits + 7) // 8
    body = head.size if dynamic else 0
    if (
        not 1 <= hashes <= HASHES_MAX or bits < 1 or entries < 1 or counted < 0 or rows < 1
        or body + rows * (SIMPLE_HEADER.size + row_size) != len(data)
    ):
        raise CorruptFileError(
            "the sizes in a bloom filter cannot be right",
            path=path, size=len(data), hashes=hashes, bits=bits, rows=rows, entries=entries,
        )
    entries = entries if dynamic else 0
    filter_._shape(kind, bits, hashes, entries, max(entries_max, (rows - 1) * entries + 1))
    filter_._counted = counted if dynamic else -1
    filter_._rows = []
    for at in range(body, len(data), SIMPLE_HEADER.size + row_size):
        if SIMPLE_HEADER.unpack_from(data, at) != (VERSION, hashes, MURMUR, bits):
            raise CorruptFileError("rows of a bloom filter differ", path=path, offset=at)
        bytes_of_row = np.frombuffer(data, np.uint8, row_size, at + SIMPLE_HEADER.size)
        filter_._rows.append(bytes_of_row.copy())
    return filter_


# --- core ---------------------------------------------------------------------------------------

cdef struct Adding:
    uint8_t **rows
    int64_t row_count
    int32_t bits
    int32_t hashes
    int64_t turn


cdef int64_t first_unusable(const ColumnView *keys, bint nulls_allowed) noexcept nogil:
    """Row of the first empty key, or null one unless allowed; -1 if there is none."""
    cdef int64_t row
    for row in range(keys.length):
        if is_null(keys, row):
            if not nulls_allowed:
                return row
        elif span_at(keys, row).size == 0:
            return row
    return -1


cdef inline bint in_lanes(Span key) noexcept nogil:
    return key.size < 4 * LANE_WORDS


cdef inline void set_bit(uint8_t *row, uint32_t bit) noexcept nogil:
    row[bit >> 3] |= <uint8_t>(1 << (bit & 7))


cdef inline bint has_bit(const uint8_t *row, uint32_t bit) noexcept nogil:
    return (row[bit >> 3] >> (bit & 7)) & 1


cdef void add_range(
    const ColumnView *keys, int64_t start, int64_t count, const Adding *adding
) noexcept nogil:
    cdef LaneKeys lanes
    cdef uint8_t *row[16]
    cdef int used = 0
    cdef int64_t i
    cdef Span key
    cdef uint8_t *target
    for i in range(count):
        key = span_at(keys, start + i)
        target = adding.rows[(adding.turn + i) % adding.row_count]
        if not in_lanes(key):
            add_long(key, adding, target)
            continue
        lane_set(&lanes, used, key.data, key.size)
        row[used] = target
        used += 1
        if used == LANES:
            add_lanes(&lanes, used, adding, row)
            used = 0
    if used:
        add_lanes(&lanes, used, adding, row)


cdef void add_long(Span key, const Adding *adding, uint8_t *row) noexcept nogil:
    cdef int32_t seed = 0
    cdef int32_t i
    for i in range(adding.hashes):
        seed = murmur(key.data, key.size, seed)
        set_bit(row, bit_of(seed, adding.bits))


cdef void add_lanes(
    LaneKeys *lanes, int used, const Adding *adding, uint8_t **row
) noexcept nogil:
    cdef Lanes seed
    cdef Lanes bits[EARLY]
    cdef int32_t left = adding.hashes
    cdef int rounds, i, lane
    memset(&seed, 0, sizeof(seed))
    lanes_prepare(lanes, used)
    while left > 0:
        rounds = min(left, <int32_t>EARLY)
        lanes_rounds(lanes, rounds, adding.bits, &seed, bits)
        for i in range(rounds):
            for lane in range(used):
                set_bit(row[lane], bits[i].lane[lane])
        left -= rounds


cdef struct Block:
    int64_t row[BLOCK]            # rows of the keys examined
    int count
    Lanes bits[BLOCK_LANES * EARLY]
    LaneKeys lanes


cdef void contains_all(
    const ColumnView *keys, const Adding *asking, uint8_t *hit
) noexcept nogil:
    """Test a few hashes of a block of keys first; the remaining keys then get all of them."""
    cdef Block block
    cdef int64_t row = 0
    cdef Span key
    while row < keys.length:
        block.count = 0
        while row < keys.length and block.count < BLOCK:
            if not is_null(keys, row):
                key = span_at(keys, row)
                if in_lanes(key):
                    block.row[block.count] = row
                    block.count += 1
                else:
                    hit[row] = contains_long(key, asking)
            row += 1
        drop_absent(keys, asking, &block)
        confirm(keys, asking, &block, hit)


cdef bint contains_long(Span key, const Adding *asking) noexcept nogil:
    cdef int64_t row
    cdef int32_t seed
    cdef int32_t i
    cdef bint found
    for row in range(asking.row_count):
        seed = 0
        found = True
        for i in range(asking.hashes):
            seed = murmur(key.data, key.size, seed)
            if not has_bit(asking.rows[row], bit_of(seed, asking.bits)):
                found = False
                break
        if found:
            return True
    return False


cdef int fill_lanes(const ColumnView *keys, Block *block, int start) noexcept nogil:
    cdef int used = min(block.count - start, <int>LANES)
    cdef int lane
    cdef Span key
    for lane in range(used):
        key = span_at(keys, block.row[start + lane])
        lane_set(&block.lanes, lane, key.data, key.size)
    lanes_prepare(&block.lanes, used)
    return used


cdef void drop_absent(const ColumnView *keys, const Adding *asking, Block *block) noexcept nogil:
    """Retain in the block only keys whose first hashes are all set in some row."""
    cdef int rounds = min(asking.hashes, <int32_t>EARLY)
    cdef int start = 0
    cdef int kept = 0
    cdef int used, lane, i
    cdef int64_t row
    cdef Lanes seed
    cdef Lanes *bits
    while start < block.count:
        used = fill_lanes(keys, block, start)
        memset(&seed, 0, sizeof(seed))
        bits = block.bits + start // LANES * EARLY
        lanes_rounds(&block.lanes, rounds, asking.bits, &seed, bits)
        for i in range(rounds):
            for lane in range(used):
                prefetch(asking.rows[0] + (bits[i].lane[lane] >> 3))
        start += LANES
    for i in range(block.count):
        bits = block.bits + i // LANES * EARLY
        for row in range(asking.row_count):
            if has_all(asking.rows[row], bits, rounds, i % LANES):
                block.row[kept] = block.row[i]
                kept += 1
                break
    block.count = kept


cdef inline bint has_all(
    const uint8_t *row, const Lanes *bits, int rounds, int lane
) noexcept nogil:
    cdef int i
    for i in range(rounds):
        if not has_bit(row, bits[i].lane[lane]):
            return False
    return True


cdef void confirm(
    const ColumnView *keys, const Adding *asking, Block *block, uint8_t *hit
) noexcept nogil:
    """Test all hashes of the keys left in a block; each row of bits in turn."""
    cdef int start = 0
    cdef int used
    while start < block.count:
        used = fill_lanes(keys, block, start)
        confirm_lanes(asking, &block.lanes, used, block.row + start, hit)
        start += LANES


cdef void confirm_lanes(
    const Adding *asking, LaneKeys *lanes, int used, const int64_t *rows, uint8_t *hit
) noexcept nogil:
    cdef Lanes seed
    cdef Lanes bits[EARLY]
    cdef uint32_t alive, all_keys
    cdef int64_t row
    cdef int32_t left
    cdef int rounds, lane
    all_keys = (<uint32_t>1 << used) - 1
    for row in range(asking.row_count):
        memset(&seed, 0, sizeof(seed))
        left = asking.hashes
        alive = all_keys
        while left > 0 and alive:
            rounds = min(left, <int32_t>EARLY)
            lanes_rounds(lanes, rounds, asking.bits, &seed, bits)
            for lane in range(used):
                if alive >> lane & 1 and not has_all(asking.rows[row], bits, rounds, lane):
                    alive &= ~(<uint32_t>1 << lane)
            left -= rounds
        for lane in range(used):
            if alive >> lane & 1:
                hit[rows[lane]] = 1
