"""The HFile version 3 writer, for the format variant that every released reader accepts.

    offset 0   DATA blocks          cells in row order; a block ends before the first row that
                                    follows `block_size` or more bytes in it
               META block           `bloomFilter`: base64 text of the filter, if there is one
    LOO        ROOT_INDEX of data   i64 offset | i32 block size | hvint key size | first key, per block
               ROOT_INDEX of meta   the same with the bare name as key
               FILE_INFO            "PBUF" | uvarint size | { key, value } messages, sorted by key
    EOF-4096   trailer              magic | uvarint size | message | zeros | 03 00 00 03

    block      magic 8 | i32 stored size | i32 plain size | i64 previous | u8 0 | i32 16384
               | i32 33 + body size | body | 4 zero bytes for each 16384 bytes of header and body
    cell       i32 row size + 12 | i32 value size | key | value | 00
    key        i16 row size | row | 00 | 7f ff ff ff ff ff ff ff | 04

Bodies are gzip members or plain.  `stored size` is the bytes after the header; `previous` links
DATA blocks and is -1 elsewhere.  An empty file has no DATA block, first and last offset -1 and no
`hfile.LASTKEY`.

Every block avoids two defects of released readers (storage_format 1.10):
  rule 1  the Java reader misses cells that begin in the last `sums` bytes of a body, so the last
          cell must be longer than that;
  rule 3  readers count checksum chunks over header, body and sums; the count must be the same as
          over header and body.  Otherwise the body is compressed at another level, the last cell
          moves to the next block, or the block gets larger chunks.
Source: storage_format 1.11.
"""

import os
from pathlib import Path

from isal import igzip_lib

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from pyhudi._native.column cimport Column, ColumnView, Span, first_null, span_at
from pyhudi._native.cursor cimport (
    load_be32, put_hvint, put_uvarint, store_be16, store_be32, store_be64,
)
from pyhudi._native.hfile.block cimport HEADER_SIZE, ROW_SIZE_MAX, compare_rows

from pyhudi.errors import UserError

cdef enum:
    CELL_FIXED = 21           # a cell without row and value
    KEY_SUFFIX = 10
    SUM_CHUNK = 16384

cdef int64_t VALUE_SIZE_MAX = 1 << 30
cdef int64_t FILE_SIZE_MAX = (1 << 31) - 1

WRITE_BYTES = 1 << 20
"""Sizes of writes: the page cache then stores the file in large folios, which halves the time to
map it later."""
BLOCK_SIZE = 64 << 10
BLOCK_SIZE_MIN, BLOCK_SIZE_MAX = 64, 64 << 10
GZ_LEVELS = (1, 0, 2, 3)
"""ISA-L's, best first; the others are only for rule 3."""
GZ_HEADER = bytes.fromhex("1f8b0800000000000000")
CODEC_IDS = {"gz": 1, "none": 2}
COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
TRAILER_SIZE = 4096
NO_BLOCK = (1 << 64) - 1
OWN_METADATA = frozenset(
    ("KEY_VALUE_VERSION", "MAX_MEMSTORE_TS_KEY", "minRecordKey", "maxRecordKey", "bloomFilterTypeCode")
)

ctypedef enum Stop:
    ALL_TAKEN
    BLOCK_FULL
    ROW_EMPTY
    ROW_TOO_LONG
    VALUE_TOO_LONG
    ROW_REPEATED
    ROW_UNSORTED
    MEMORY_SPENT

cdef dict REFUSALS = {
    ROW_EMPTY: "a key is empty",
    ROW_TOO_LONG: "a key is longer than 32767 bytes",
    VALUE_TOO_LONG: "a value is longer than 1 GiB",
    ROW_REPEATED: "a key is there twice",
    ROW_UNSORTED: "keys are not in ascending byte order",
}


cdef class HFileWriter:
    """Writes one HFile from sorted batches.

    target: a path (replaced; removed if the `with` block fails), an object with `write`
    (which stays open), or None: `finish` then returns the bytes.  compression: "gz" or "none".
    block_size: bytes of cells after which a block ends, at most 64 KiB, which every released
    reader reads correctly.  bloom: a filter with `kind`, `to_base64()`; an empty one (`key_count`
    of 0) is filled with the keys written, any other must contain them already.  metadata: FILE_INFO
    entries besides those of the format, str or bytes to str or bytes.

    Keys must ascend strictly over all `add` calls, in unsigned byte order.
    Raises UserError, with the row, for keys that do not.  The file is not synced.
    """

    cdef object _sink
    cdef object _path
    cdef list _parts
    cdef object _bloom
    cdef bint _fills_bloom
    cdef dict _metadata
    cdef int64_t _block_size
    cdef bint _compress
    cdef bint _open
    cdef uint8_t *_buffer             # header of the open block, then its cells
    cdef int64_t _room
    cdef int64_t _used                # bytes of cells in the open block
    cdef int64_t _last_cell           # start of its last cell
    cdef bytes _last_row              # last row of the completed blocks
    cdef Span _before                 # the same as pointer and size
    cdef object _first_row
    cdef list _blocks                 # (offset, size, first row) of DATA blocks
    cdef int64_t _last_block          # offset of the last of them, -1 if none
    cdef int64_t _plain_bytes         # trailer field 4
    cdef int64_t _row_bytes
    cdef int64_t _value_bytes
    cdef readonly int64_t entry_count
    cdef readonly int64_t bytes_written

    def __cinit__(self, target, *, compression="gz", block_size=BLOCK_SIZE, bloom=None, metadata=None):
        if compression not in CODEC_IDS:
            raise UserError("unknown compression", compression=compression, hint="gz or none")
        if not BLOCK_SIZE_MIN <= block_size <= BLOCK_SIZE_MAX:
            raise UserError(
                f"block_size must be between {BLOCK_SIZE_MIN} and {BLOCK_SIZE_MAX}",
                block_size=block_size,
            )
        self._metadata = checked_metadata(metadata or {})
        self._compress = compression == "gz"
        self._block_size = block_size
        self._bloom = bloom
        self._fills_bloom = bloom is not None and getattr(bloom, "key_count", None) == 0
        self._blocks = []
        self._last_block = -1
        self._make_room(block_size)
        if target is None:
            self._parts = []
        elif isinstance(target, (str, os.PathLike)):
            self._path = Path(target)
            self._sink = self._path.open("wb", buffering=WRITE_BYTES)
        elif hasattr(target, "write"):
            self._sink = target
        else:
            raise UserError("an HFile is written to a path or a file", type=type(target).__name__)
        self._open = True

    def __dealloc__(self):
        free(self._buffer)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.abandon()

    # ---- rows ---------------------------------------------------------------------------------

    def add(self, keys, values):
        """Append rows.  keys, values: columns of equal length, strings or bytes, no nulls."""
        cdef Column key_column = Column(keys)
        cdef Column value_column = Column(values)
        cdef int64_t row = 0, count = key_column.view.length
        cdef Stop stop
        if not self._open:
            raise UserError("the writer is closed")
        if value_column.view.length != count:
            raise UserError(
                "as many values as keys are needed", keys=count, values=value_column.view.length
            )
        for column, name in ((key_column, "key"), (value_column, "value")):
            nothing = first_null(&(<Column>column).view)
            if nothing >= 0:
                raise UserError(f"a {name} is null", row=nothing)
        if count == 0:
            return
        if self._first_row is None:
            self._first_row = row_bytes(&key_column.view, 0)
        while row < count:
            with nogil:
                stop = self._append(&key_column.view, &value_column.view, &row)
            if stop == BLOCK_FULL:
                self._flush()
            elif stop == MEMORY_SPENT:
                raise MemoryError
            elif stop != ALL_TAKEN:
                raise UserError(REFUSALS[<int>stop], row=row)
        if self._fills_bloom:
            self._bloom.add(key_column.array)

    cdef Stop _append(self, const ColumnView *keys, const ColumnView *values, int64_t *row) noexcept nogil:
        """Append rows from `row` on until one exceeds the block or is invalid."""
        cdef Span key, value, before
        cdef int64_t size
        cdef uint8_t *at
        cdef int order
        self._row_before(&before)
        while row[0] < keys.length:
            key = span_at(keys, row[0])
            value = span_at(values, row[0])
            if key.size <= 0 or key.size > ROW_SIZE_MAX:
                return ROW_EMPTY if key.size <= 0 else ROW_TOO_LONG
            if value.size > VALUE_SIZE_MAX:
                return VALUE_TOO_LONG
            order = compare_rows(before.data, before.size, key.data, key.size)
            if order >= 0:
                return ROW_REPEATED if order == 0 else ROW_UNSORTED
            if self._used >= self._block_size:
                return BLOCK_FULL
            size = CELL_FIXED + key.size + value.size
            if not self._make_room(self._used + size):
                return MEMORY_SPENT
            self._last_cell = self._used
            at = self._buffer + HEADER_SIZE + self._used
            store_be32(at, <uint32_t>key.size + 12)
            store_be32(at + 4, <uint32_t>value.size)
            at = put_key(at + 8, key.data, key.size)
            before.data = at - KEY_SUFFIX - key.size
            before.size = key.size
            memcpy(at, value.data, value.size)
            at[value.size] = 0
            self._used += size
            self._row_bytes += key.size
            self._value_bytes += value.size
            self.entry_count += 1
            row[0] += 1
        return ALL_TAKEN

    cdef bint _make_room(self, int64_t cells) noexcept nogil:
        """Reserve a block of `cells` bytes with header and sums; may move the buffer."""
        cdef int64_t need = HEADER_SIZE + cells + 4 * (cells // SUM_CHUNK + 2)
        cdef uint8_t *grown
        if need <= self._room:
            return True
        need += need // 2
        grown = <uint8_t *>realloc(self._buffer, need)
        if grown == NULL:
            return False
        self._buffer = grown
        self._room = need
        return True

    cdef void _row_before(self, Span *row) noexcept nogil:
        """The last appended row, at its current address; empty at the beginning."""
        cdef const uint8_t *at
        if self._used:
            at = self._buffer + HEADER_SIZE + self._last_cell
            row.size = (at[8] << 8) | at[9]
            row.data = at + 10
        else:
            row[0] = self._before

    # ---- blocks -------------------------------------------------------------------------------

    cdef int _flush(self) except -1:
        """Write the open block; by rule 3 its last cell may be deferred to the next one."""
        cdef int64_t size = self._used
        cdef int64_t moved = 0
        cdef Span row
        self._row_before(&row)
        last_row = <bytes>row.data[:row.size]
        if not self._compress and self._last_cell and not counts_agree(HEADER_SIZE + size, SUM_CHUNK):
            moved = size - self._last_cell
            size = self._last_cell
        first = self._buffer + HEADER_SIZE
        first_row = <bytes>(first + 10)[: (first[8] << 8) | first[9]]
        offset = self.bytes_written
        tail = PyBytes_FromStringAndSize(<const char *>first + size, moved) if moved else b""
        previous = self._last_block
        stored = self._put_block(b"DATABLK*", first, size, previous)
        assert 4 * pieces(HEADER_SIZE + stored, SUM_CHUNK) < self._size_of_last(size), (
            "rule 1: the last cell would be overlooked"
        )
        self._last_block = offset
        self._blocks.append((offset, HEADER_SIZE + stored, first_row))
        if self.bytes_written > FILE_SIZE_MAX:
            raise UserError(
                "the file would exceed 2 GiB, which Java readers cannot read",
                hint="split the keys over several files",
            )
        self._used = moved
        self._last_cell = 0
        self._last_row = last_row
        self._before.data = <const uint8_t *>last_row
        self._before.size = len(last_row)
        if moved:
            memcpy(first, <const uint8_t *>tail, moved)
        return 0

    cdef int64_t _size_of_last(self, int64_t size) noexcept:
        """Bytes of the last cell of a body of `size`; after a move, one pass finds it."""
        cdef const uint8_t *begin = self._buffer + HEADER_SIZE
        cdef int64_t at = 0, cell
        if size != self._last_cell:
            return size - self._last_cell
        while True:
            cell = 9 + load_be32(begin + at) + load_be32(begin + at + 4)
            if at + cell >= size:
                return cell
            at += cell

    cdef int64_t _put_block(
        self, bytes magic, uint8_t *body, int64_t size, int64_t previous
    ) except -1:
        """Write one block; returns its stored size.  body: HEADER_SIZE bytes before it and room for
        sums after it are overwritten."""
        cdef int64_t chunk, sums, stored
        cdef uint8_t *block = body - HEADER_SIZE
        self._plain_bytes += HEADER_SIZE + size
        if self._compress:
            packed, chunk = compressed(PyMemoryView_FromMemory(<char *>body, size, PyBUF_READ))
            stored = len(packed)
        else:
            stored = size
            chunk = chunk_for(HEADER_SIZE + size)
        sums = 4 * pieces(HEADER_SIZE + stored, chunk)
        memcpy(block, <const uint8_t *>magic, 8)
        store_be32(block + 8, <uint32_t>(stored + sums))
        store_be32(block + 12, <uint32_t>size)
        store_be64(block + 16, <uint64_t>previous)
        block[24] = 0
        store_be32(block + 25, <uint32_t>chunk)
        store_be32(block + 29, <uint32_t>(HEADER_SIZE + stored))
        if self._compress:
            header = PyBytes_FromStringAndSize(<const char *>block, HEADER_SIZE)
            self._write(b"".join((header, packed, bytes(sums))))
        else:
            memset(body + size, 0, sums)
            self._write(PyMemoryView_FromMemory(
                <char *>block, HEADER_SIZE + size + sums, PyBUF_READ
            ))
        return stored + sums

    cdef int64_t _put_bytes(self, bytes magic, bytes body) except -1:
        """Write a block that is not DATA."""
        cdef bytearray held = bytearray(HEADER_SIZE) + body + bytes(4 * (len(body) // SUM_CHUNK + 2))
        cdef uint8_t *at = held
        return self._put_block(magic, at + HEADER_SIZE, len(body), -1)

    cdef int _write(self, data) except -1:
        """data: bytes, or a view of the buffer, passed only to pyhudi's own files."""
        if self._parts is not None:
            self._parts.append(bytes(data))
        elif self._path is None:
            self._sink.write(bytes(data))
        else:
            self._sink.write(data)
        self.bytes_written += len(data)
        return 0

    # ---- the end ------------------------------------------------------------------------------

    def finish(self):
        """Complete the file.  Returns its bytes if the target is None, else None."""
        if not self._open:
            raise UserError("the writer is closed")
        while self._used:
            self._flush()
        metas = []
        if self._bloom is not None:
            self._check_bloom()
            offset = self.bytes_written
            size = self._put_bytes(b"METABLKc", self._bloom.to_base64().encode("ascii"))
            metas.append((offset, HEADER_SIZE + size, b"bloomFilter"))
        load_on_open = self.bytes_written
        roots = index_body([(at, size, whole_key(row)) for at, size, row in self._blocks])
        self._put_bytes(b"IDXROOT2", roots)
        self._plain_bytes -= HEADER_SIZE + len(roots)
        self._put_bytes(b"IDXROOT2", index_body(metas))
        info_at = self.bytes_written
        self._put_bytes(b"FILEINF2", self._info_body())
        self._write(self._trailer(load_on_open, info_at, len(roots), len(metas)))
        self._open = False
        if self._path is not None:
            self._sink.close()
        return None if self._parts is None else b"".join(self._parts)

    def close(self):
        """Complete the file, if `finish` has not."""
        if self._open:
            self.finish()

    def abandon(self):
        """Discard the file; a path that was opened is removed."""
        if self._open:
            self._open = False
            if self._path is not None:
                self._sink.close()
                self._path.unlink(missing_ok=True)

    cdef int _check_bloom(self) except -1:
        held = getattr(self._bloom, "key_count", self.entry_count)
        if held != self.entry_count:
            raise UserError(
                "the bloom filter does not hold the keys written",
                filter_keys=held, entry_count=self.entry_count,
                hint="pass an empty filter, and the writer fills it",
            )
        return 0

    cdef bytes _info_body(self):
        entries = dict(self._metadata)
        count = max(self.entry_count, 1)
        key_bytes = self._row_bytes + 12 * self.entry_count
        entries[b"hfile.AVG_KEY_LEN"] = (key_bytes // count).to_bytes(4, "big")
        entries[b"hfile.AVG_VALUE_LEN"] = (self._value_bytes // count).to_bytes(4, "big")
        entries[b"hfile.CREATE_TIME_TS"] = bytes(8)
        entries[b"KEY_VALUE_VERSION"] = (1).to_bytes(4, "big")
        entries[b"MAX_MEMSTORE_TS_KEY"] = bytes(8)
        if self.entry_count:
            entries[b"hfile.LASTKEY"] = whole_key(self._last_row)
        if self._bloom is not None:
            entries[b"bloomFilterTypeCode"] = str(self._bloom.kind).encode()
            entries[b"minRecordKey"] = self._first_row or b""
            entries[b"maxRecordKey"] = self._last_row or b""
        groups = [
            field(1, field(1, key) + field(2, value)) for key, value in sorted(entries.items())
        ]
        message = b"".join(groups)
        return b"PBUF" + uvarint(len(message)) + message

    cdef bytes _trailer(self, load_on_open, info_at, root_bytes, meta_count):
        first = self._blocks[0][0] if self._blocks else NO_BLOCK
        last = self._last_block if self._blocks else NO_BLOCK
        numbers = [
            info_at, load_on_open, root_bytes, self._plain_bytes + TRAILER_SIZE, len(self._blocks),
            meta_count, self.entry_count, 1, first, last,
        ]
        message = b"".join([number(n, value) for n, value in enumerate(numbers, 1)])
        message += field(11, COMPARATOR) + number(12, CODEC_IDS["gz" if self._compress else "none"])
        head = b'TRABLK"$' + uvarint(len(message)) + message
        return head.ljust(TRAILER_SIZE - 4, b"\0") + bytes((3, 0, 0, 3))


cdef inline int64_t pieces(int64_t size, int64_t chunk) noexcept nogil:
    return (size + chunk - 1) // chunk


cdef inline bint counts_agree(int64_t summed, int64_t chunk) noexcept nogil:
    """Rule 3: equal numbers of chunks over header and body, and over these with the sums."""
    return pieces(summed, chunk) == pieces(summed + 4 * pieces(summed, chunk), chunk)


cdef int64_t chunk_for(int64_t summed) noexcept:
    """The usual chunk size, or a larger one if rule 3 requires it."""
    cdef int64_t chunk = SUM_CHUNK
    while not counts_agree(summed, chunk):
        chunk *= 2
    return chunk


cdef tuple compressed(body):
    """A body as a gzip member, and the chunk size that fits it; see rule 3."""
    for level in GZ_LEVELS:
        packed = GZ_HEADER + igzip_lib.compress(body, level, igzip_lib.COMP_GZIP_NO_HDR)
        if counts_agree(HEADER_SIZE + len(packed), SUM_CHUNK):
            return packed, SUM_CHUNK
    return packed, chunk_for(HEADER_SIZE + len(packed))


cdef inline uint8_t *put_key(uint8_t *at, const uint8_t *row, int64_t size) noexcept nogil:
    """Write row size, row and suffix; returns the position after them."""
    store_be16(at, <uint64_t>size)
    memcpy(at + 2, row, size)
    at += 2 + size
    at[0] = 0
    store_be64(at + 1, 0x7FFFFFFFFFFFFFFF)
    at[9] = 4
    return at + KEY_SUFFIX


cdef bytes whole_key(bytes row):
    cdef bytearray key = bytearray(2 + len(row) + KEY_SUFFIX)
    cdef uint8_t *at = key
    put_key(at, row, len(row))
    return bytes(key)


cdef bytes index_body(entries):
    """Root index entries of (offset, block size, key)."""
    cdef uint8_t width[8]
    parts = []
    for offset, size, key in entries:
        bytes_used = put_hvint(width, <uint32_t>len(key))
        parts.append(offset.to_bytes(8, "big") + size.to_bytes(4, "big"))
        parts.append(<bytes>(<const uint8_t *>width)[:bytes_used])
        parts.append(key)
    return b"".join(parts)


cdef bytes uvarint(value):
    cdef uint8_t at[10]
    return <bytes>(<const uint8_t *>at)[: put_uvarint(at, value)]


cdef bytes field(int n, bytes value):
    """A Protobuf field of bytes."""
    return uvarint(n << 3 | 2) + uvarint(len(value)) + value


cdef bytes number(int n, value):
    return uvarint(n << 3) + uvarint(value)


cdef bytes row_bytes(const ColumnView *view, int64_t row):
    cdef Span span = span_at(view, row)
    return <bytes>span.data[: span.size]


def checked_metadata(metadata):
    """Metadata as bytes to bytes.  Raises UserError for names that the format itself uses."""
    entries = {}
    for name, value in metadata.items():
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        if text in OWN_METADATA or text.startswith("hfile."):
            raise UserError("this FILE_INFO entry is set by the writer", name=text)
        entries[text.encode()] = value.encode() if isinstance(value, str) else bytes(value)
    return entries
