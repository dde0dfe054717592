"""HFile version 3, read: look-ups of key batches, range scans, verification.

The bytes are described at their writer, hfile_writer.pyx.  How a batch is answered is told in
hfile_batch.pyx; this module brings blocks and batch together and is the door for Python.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from pyhudi._native.column cimport Column
from pyhudi._native.cursor cimport (
    MALFORMED, NO_MEMORY, OK, TRUNCATED, Cursor, Status, cursor_over, load_be32,
)
from pyhudi._native.hfile_batch cimport Arena, LookupBatch, Touch
from pyhudi._native.hfile_block cimport (
    HEADER_SIZE, NONE, BlockHeader, check_sums, raise_corrupt, take_header,
)
from pyhudi._native.hfile_cells cimport (
    Body, CellColumns, RowOrder, body_of_bytes, count_cells,
)
from pyhudi._native.hfile_guide cimport BlockGuides, Guide, block_guides
from pyhudi._native.hfile_hash cimport CellHash, cell_hash
from pyhudi._native.hfile_index cimport BlockIndex, node_index
from pyhudi._native.hfile_layout cimport (
    MAGIC_DATA, MAGIC_INTERMEDIATE, MAGIC_LEAF, MAGIC_META, Layout, is_known,
    open_layout, read_exactly,
)

from pyhudi._native.hfile_cells import SCHEMA as CELL_SCHEMA
from pyhudi._native.block_cache import SHARED, BlockCache
from pyhudi._native.hfile_plan import plan_lookup
from pyhudi._native.hfile_source import open_source
from pyhudi.errors import CorruptFileError, UserError

METHODS = ("auto", "seek", "scan")
THREADED_BLOCKS = 64
cdef int64_t GUIDED_BYTES = 512       # between keys, from where a guide saves more than it costs
cdef int64_t TRAILER_SIZE = 4096
cdef int64_t SCAN_BATCH_BYTES = 4 << 20
cdef int64_t WINDOW_BYTES = 8 << 20
cdef int64_t SCAN_WINDOW_BYTES = 64 << 20


cdef class Window:
    """Bytes of the file from offset `begin` on, addressable."""
    cdef object owner
    cdef const uint8_t *at
    cdef int64_t begin


cdef class HFileReader:
    """One open HFile.

    source: a local path (mapped; an `inlinefs:` URL too), bytes, an object with `size` and
    `read_at`, or a seekable file.  Opening reads the trailer and the load-on-open section.
    cache_bytes: bound on decoded blocks kept for the next look-up; None shares one cache of
    256 MiB among all readers, 0 keeps nothing.  path_for_errors: what errors call the file.
    verify_checksums: False trusts CRCs of types 1 and 2 (a gzip body still carries its own).
    threads: how many inflate when a batch touches many GZ blocks; None is up to four.
    hash_after: keys asked for, per entry of the file, after which a hash over all cells is built
    within the bound of the cache; None never builds one.

    Raises CorruptFileError for bytes that cannot be right, now or when they are first read.
    Safe to use from several threads.
    """

    cdef object _source
    cdef Py_buffer _view
    cdef bint _viewed
    cdef const uint8_t *_base         # the whole file, or NULL when it must be read in ranges
    cdef Layout _layout
    cdef object _cache
    cdef object _cache_name           # first part of this file's keys in the cache
    cdef bint _requests_cost
    cdef int _threads
    cdef double _hash_after           # in keys asked for per entry of the file
    cdef int64_t _keys_asked
    cdef int64_t _decoded_count
    cdef int64_t _decoded_bytes
    cdef set _kept_offsets
    cdef BlockGuides _guides          # None for a multi-level index
    cdef dict _nodes                  # offset -> BlockIndex of a leaf or intermediate block
    cdef readonly int64_t blocks_read

    def __cinit__(
        self, source, *, cache_bytes=None, path_for_errors=None, verify_checksums=True,
        threads=None, hash_after=0.2,
    ):
        self._source, path = open_source(source)
        self._nodes = {}
        self._kept_offsets = set()
        self._cache = SHARED if cache_bytes is None else BlockCache(cache_bytes)
        self._cache_name = object()
        self._threads = min(4, os.cpu_count() or 1) if threads is None else max(1, threads)
        self._hash_after = INFINITY if hash_after is None else hash_after
        self._requests_cost = getattr(self._source, "request_cost_seconds", 0) > 0
        buffer = getattr(self._source, "buffer", None)
        if buffer is not None:
            PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE)
            self._viewed = True
            self._base = <const uint8_t *>self._view.buf
        self._layout = open_layout(
            self._source, path_for_errors or path, verify_checksums
        )
        if self._layout.levels <= 1:
            self._guides = block_guides(self._layout.root.count)

    def __dealloc__(self):
        if self._viewed:
            PyBuffer_Release(&self._view)

    def close(self):
        """Drop the cached blocks and the source.  A file or object given stays open."""
        if self._source is None:
            return
        self._drop_blocks()
        self._cache.forget((self._cache_name, -1))
        self._source = None

    cdef int _drop_blocks(self) except -1:
        """Take our blocks out of the cache."""
        for offset in self._kept_offsets:
            self._cache.forget((self._cache_name, offset))
        self._kept_offsets = set()
        return 0

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __repr__(self):
        return f"HFileReader({self._layout.path!r}, entry_count={self._layout.entry_count})"

    @property
    def entry_count(self):
        """Cells in the file."""
        return self._layout.entry_count

    @property
    def metadata(self):
        """FILE_INFO: names to bytes, those of HBase and those of the writer."""
        return dict(self._layout.metadata)

    @property
    def compression(self):
        return "none" if self._layout.codec == NONE else "gz"

    def meta_block(self, str name not None):
        """Body of the META block `name`, or None."""
        where = self._layout.meta_blocks.get(name)
        return None if where is None else self._block(where[0], where[1], MAGIC_META)

    # ---- look-ups -----------------------------------------------------------------------------

    def get(self, key):
        """Value of the first cell whose row is `key` (bytes or str), or None."""
        if isinstance(key, str):
            key = key.encode()
        return self.get_many(pa.array([key], pa.binary()))[0].as_py()

    def get_many(self, keys, *, method="auto"):
        """Arrow binary array in the order of `keys`: the first cell's value, null where absent.

        keys: column of strings or bytes in any order; a null key is absent.  Each block that can
        hold keys is read and decoded once.  method: "seek" reads those blocks, "scan" the whole
        file, "auto" what `plan` finds cheaper, and a hash over all cells once the keys asked for
        pay for it; the answer is the same.
        """
        cdef Column column = Column(keys)
        cdef LookupBatch batch
        cdef BlockIndex index
        cdef CellHash table
        self._check_open()
        if method not in METHODS:
            raise UserError("unknown look-up method", method=method, hint="auto, seek or scan")
        if method == "auto":
            table = self._hash(column.view.length)
            if table is not None:
                return table.answer(column)
        batch = self._batch(column)
        index = self._leaves_for(batch)
        if method == "auto" and self._requests_cost:
            method = self._plan(batch, index).method
        if method == "scan":
            self._answer_by_scan(batch)
        elif self._in_place():
            self._answer_in_place(batch)
        else:
            self._answer(batch)
        return batch.gather()

    def plan(self, keys):
        """What `get_many(keys)` would do, and what either method is predicted to cost."""
        self._check_open()
        cdef LookupBatch batch = self._batch(Column(keys))
        return self._plan(batch, self._leaves_for(batch))

    cdef object _plan(self, LookupBatch batch, BlockIndex index):
        missing = [t for t in range(batch.touch_count) if not self._holds(batch.touches[t].offset)]
        groups = self._groups(batch, missing)
        return plan_lookup(
            self._source,
            keys=batch.sorted_count,
            touched_blocks=len(missing),
            touched_bytes=sum([batch.touches[<int64_t>t].size for t in missing]),
            requests=len(groups),
            requested_bytes=sum([end - begin for begin, end, _ in groups]),
            scan_requests=1 + self._layout.load_on_open // SCAN_WINDOW_BYTES,
            blocks=index.count,
            file_bytes=self._layout.load_on_open,
            entries=self._layout.entry_count,
            compressed=self._compressed(),
            hashed=self._cache.get((self._cache_name, -1)) is not None,
        )

    cdef LookupBatch _batch(self, Column column):
        if not self._layout.ordered:
            raise CorruptFileError(
                "rows are not in byte order, so they cannot be looked up", path=self._layout.path
            )
        return LookupBatch(column, self._layout.prefix)

    cdef int _check_open(self) except -1:
        if self._source is None:
            raise UserError("the reader is closed", path=self._layout.path)
        return 0

    cdef int _answer_in_place(self, LookupBatch batch) except -1:
        """Touched blocks of a mapped file that is not compressed: nothing is copied but answers."""
        cdef int64_t t
        cdef Touch *touch
        cdef Status status = OK
        cdef uint32_t size = 0
        batch.owners.append(self._source)
        with nogil:
            for t in range(batch.touch_count):
                touch = &batch.touches[t]
                status = open_plain(self._layout, self._base + touch.offset, touch.size, &size)
                if status == OK:
                    status = self._merge_body(
                        batch, touch, self._base + touch.offset + HEADER_SIZE, size, None
                    )
                if status != OK:
                    break
        self.blocks_read += batch.touch_count
        if status != OK:
            raise_corrupt(status, self._layout.path, batch.touches[t].offset)
        return 0

    cdef int _answer(self, LookupBatch batch) except -1:
        """Touched blocks that must be fetched or inflated: kept ones first, then the others."""
        cdef int64_t t
        cdef Body body
        arena = Arena()
        batch.owners.append(arena)
        missing = []
        for t in range(batch.touch_count):
            body = self._kept(batch.touches[t].offset)
            if body is None:
                missing.append(t)
            else:
                self._merge(batch, t, body, arena)
        groups = self._groups(batch, missing)
        threads = self._threads if self._compressed() else 1
        shares = shared_out(groups, len(missing), threads, self._base != NULL)
        if len(shares) == 1:
            self._fetch_and_merge(batch, groups, arena)
        else:
            with ThreadPoolExecutor(len(shares)) as pool:
                for done in [pool.submit(self._answer_share, batch, share) for share in shares]:
                    done.result()
        self.blocks_read += len(missing)
        return 0

    def _answer_share(self, LookupBatch batch, list groups):
        """What one of several threads does: its own blocks, its own arena."""
        arena = Arena()
        batch.owners.append(arena)
        self._fetch_and_merge(batch, groups, arena)

    cdef int _fetch_and_merge(self, LookupBatch batch, list groups, Arena arena) except -1:
        cdef int64_t t
        for begin, end, members in groups:
            window = self._window(begin, end)
            for t in members:
                body = self._decode(
                    batch.touches[t].offset, batch.touches[t].size, window, batch
                )
                self._merge(batch, t, body, arena)
        return 0

    cdef int _merge(self, LookupBatch batch, int64_t t, Body body, Arena arena) except -1:
        """Answers point into a body that is kept; from any other they are copied while hot."""
        cdef Status status
        cdef Arena copies = None if body.kept else arena
        if body.kept:
            batch.owners.append(body)
        with nogil:
            status = self._merge_body(batch, &batch.touches[t], body.at, body.size, copies)
        return raise_corrupt(status, self._layout.path, batch.touches[t].offset)

    cdef Status _merge_body(
        self, LookupBatch batch, const Touch *touch, const uint8_t *body, uint32_t size, Arena arena
    ) noexcept nogil:
        """Merge, by the guide of the block where keys are far apart in it.

        There are guides where entries are those of the root index.
        """
        cdef const Guide *guide = NULL
        if self._guides is not None and (touch.end - touch.begin) * GUIDED_BYTES <= size:
            guide = self._guides.guide_of(
                touch.entry, body, size, self._layout.tail, batch.prefix_size
            )
        return batch.merge(touch, body, size, self._layout.tail, arena, guide)

    cdef int _answer_by_scan(self, LookupBatch batch) except -1:
        """Every block in file order, merged where touched; the cells must be all there."""
        cdef BlockIndex index = self._leaves()
        cdef Arena arena = Arena()
        cdef int64_t entry = 0, t = 0, cells = 0
        cdef Body body
        cdef Status status
        batch.lay_over(index)
        batch.owners.append(arena)
        for body in self._bodies(index, 0, index.count):
            with nogil:
                status = count_cells(body.at, body.size, self._layout.tail, &cells)
            raise_corrupt(status, self._layout.path, index.offsets[entry])
            if t < batch.touch_count and batch.touches[t].entry == entry:
                self._merge(batch, t, body, arena)
                t += 1
            entry += 1
        return self._check_count(cells)

    cdef CellHash _hash(self, int64_t keys):
        """The hash over all cells, once enough keys have been asked for; None before, or when
        it does not fit the cache."""
        cdef CellHash table
        cdef BlockIndex index
        cdef Body body
        cdef Status status
        name = (self._cache_name, -1)
        table = self._cache.get(name)
        if table is not None:
            return table
        self._keys_asked += keys
        if self._keys_asked < self._hash_after * self._layout.entry_count or not self._hashable():
            return None
        self._keys_asked = 0
        index = self._leaves()
        table = cell_hash(index.count, self._layout.entry_count, self._layout.tail)
        if table is None:
            return None
        for body in self._bodies(index, 0, index.count):
            status = table.add(body)
            if status == NO_MEMORY or table.size_bytes > self._cache.bytes_max:
                self._hash_after = INFINITY
                return None
            raise_corrupt(status, self._layout.path, index.offsets[table.block_count - 1])
        self._check_count(table.cells)
        self._drop_blocks()
        if not self._cache.put(name, table, table.size_bytes):
            self._hash_after = INFINITY
        return table

    cdef bint _hashable(self):
        """Whether hash and decoded blocks can fit the cache, judged by the blocks met so far."""
        cdef int64_t slots = 32 * self._layout.entry_count
        if self._in_place():
            return slots <= self._cache.bytes_max
        if self._decoded_count == 0:
            return False
        expected = self._decoded_bytes / self._decoded_count * self._layout.root.count
        return slots + expected <= self._cache.bytes_max

    cdef bint _compressed(self):
        return self._layout.codec != NONE

    cdef bint _in_place(self):
        """Whether cells are read where the file is mapped."""
        return self._base != NULL and self._layout.codec == NONE

    cdef int _check_count(self, int64_t cells) except -1:
        if cells != self._layout.entry_count:
            raise CorruptFileError(
                "cells and trailer disagree", path=self._layout.path,
                cells=cells, entry_count=self._layout.entry_count,
            )
        return 0

    # ---- blocks -------------------------------------------------------------------------------

    cdef BlockIndex _leaves_for(self, LookupBatch batch):
        """The index of DATA blocks as far as the batch touches it; batch is laid over it."""
        cdef BlockIndex index = self._layout.root
        cdef int level
        batch.lay_over(index)
        for level in range(self._layout.levels - 1, 0, -1):
            entries = [batch.touches[t].entry for t in range(batch.touch_count)]
            index = self._below(index, entries, level)
            batch.lay_over(index)
        return index

    cdef BlockIndex _leaves(self):
        """The whole index of DATA blocks."""
        cdef BlockIndex index = self._layout.root
        cdef int level
        for level in range(self._layout.levels - 1, 0, -1):
            index = self._below(index, range(index.count), level)
        if index.count:
            self._layout.check_ends(index)
        return index

    cdef BlockIndex _below(self, BlockIndex index, entries, int level):
        """One level down: the entries of the index blocks at `entries`, one behind the other."""
        cdef BlockIndex below = BlockIndex()
        cdef BlockIndex node
        cdef int64_t entry
        cdef uint64_t magic = MAGIC_LEAF if level == 1 else MAGIC_INTERMEDIATE
        below.reserve(0)
        for entry in entries:
            offset = index.offsets[entry]
            node = self._nodes.get(offset)
            if node is None:
                node = node_index(self._block(offset, index.sizes[entry], magic))
                if node is None:
                    raise CorruptFileError(
                        "malformed index block", path=self._layout.path, offset=offset
                    )
                self._layout.adopt(node)
                self._nodes[offset] = node
            below.append(node)
        self._layout.adopt(below)
        return below

    cdef bytes _block(self, int64_t offset, int64_t size, uint64_t magic):
        """Body of one block that is not DATA."""
        cdef bytes block = read_exactly(self._source, offset, size, self._layout.path)
        cdef int64_t stored = 0
        cdef bytes body = self._layout.load(block, size, offset, magic, &stored)
        if stored != size:
            raise CorruptFileError(
                "block and index disagree", path=self._layout.path, offset=offset
            )
        return body

    cdef bint _holds(self, int64_t offset):
        return self._cache.get((self._cache_name, offset)) is not None

    cdef Body _kept(self, int64_t offset):
        """The decoded DATA block at `offset` if the cache has it, else None."""
        cdef Body body
        data = self._cache.get((self._cache_name, offset))
        if data is None:
            return None
        body = body_of_bytes(data)
        body.kept = True
        return body

    cdef Body _decode(self, int64_t offset, int64_t size, Window window, LookupBatch batch):
        """The DATA block at `offset`, checked and decoded.

        For a batch it is kept in the cache, up to the cache's bound, so that a batch larger than
        that neither flushes the cache nor holds more than it.  Scans (None) keep nothing.
        """
        cdef BlockHeader header
        cdef Body body
        cdef const uint8_t *at = window.at + (offset - window.begin)
        self._layout.open_header(at, size, offset, &header)
        if header.magic != MAGIC_DATA or HEADER_SIZE + <int64_t>header.stored != size:
            raise CorruptFileError(
                "block and index disagree", path=self._layout.path, offset=offset
            )
        if self._in_place():
            if header.plain != header.summed - HEADER_SIZE:
                raise_corrupt(MALFORMED, self._layout.path, offset)
            body = Body()
            body.owner = self._source
            body.at = at + HEADER_SIZE
            body.size = header.plain
            body.kept = True
            return body
        data = self._layout.body_of(at, &header, offset)
        body = body_of_bytes(data)
        self._decoded_count += 1
        self._decoded_bytes += body.size
        if batch is None or batch.kept_bytes + body.size > self._cache.bytes_max:
            return body
        body.kept = self._cache.put((self._cache_name, offset), data, body.size)
        if body.kept:
            batch.kept_bytes += body.size
            self._kept_offsets.add(offset)
        return body

    cdef list _groups(self, LookupBatch batch, list touches):
        """(begin, end, touches): byte ranges to fetch, each with the touches it serves.

        Ranges closer than what one request's latency could transfer become one, up to a bound
        that keeps memory small.
        """
        cdef double latency = getattr(self._source, "request_cost_seconds", 0)
        cdef double speed = getattr(self._source, "bytes_per_second", 100e6)
        cdef int64_t gap = <int64_t>(latency * speed)
        cdef int64_t begin = 0, end = 0, t
        cdef Touch *touch
        if self._base != NULL:
            return [(0, self._layout.load_on_open, touches)] if touches else []
        groups = []
        members = []
        for t in touches:
            touch = &batch.touches[t]
            offset, limit = touch.offset, touch.offset + touch.size
            if members and (offset - end > gap or limit - begin > WINDOW_BYTES):
                groups.append((begin, end, members))
                members = []
            if not members:
                begin = offset
            members.append(t)
            end = limit
        if members:
            groups.append((begin, end, members))
        return groups

    cdef Window _window(self, int64_t begin, int64_t end):
        cdef Window window = Window()
        window.begin = begin
        if self._base != NULL:
            window.at = self._base + begin
            return window
        data = read_exactly(self._source, begin, end - begin, self._layout.path)
        window.owner = data
        window.at = <const uint8_t *>PyBytes_AS_STRING(data)
        return window

    def _bodies(self, BlockIndex index, int64_t begin, int64_t end):
        """Decoded DATA blocks of entries [begin, end), fetched in large pieces."""
        cdef int64_t entry = begin, last, limit
        cdef Window window
        while entry < end:
            last = entry
            limit = index.offsets[entry] + SCAN_WINDOW_BYTES
            while last + 1 < end and <int64_t>(index.offsets[last + 1] + index.sizes[last + 1]) <= limit:
                last += 1
            window = self._window(index.offsets[entry], index.offsets[last] + index.sizes[last])
            while entry <= last:
                body = self._kept(index.offsets[entry])
                if body is None:
                    body = self._decode(
                        index.offsets[entry], index.sizes[entry], window, None
                    )
                    self.blocks_read += 1
                yield body
                entry += 1

    # ---- scans --------------------------------------------------------------------------------

    def scan(self, start=None, stop=None):
        """RecordBatchReader of key and value (binary) in key order, start <= key < stop.

        Reads only the blocks of the range, while the batches are taken.  A full scan raises
        CorruptFileError at its end unless it has met every cell that the trailer counts.
        """
        self._check_open()
        return pa.RecordBatchReader.from_batches(
            CELL_SCHEMA, self._batches(as_row(start), as_row(stop))
        )

    def prefix(self, prefix):
        """Like `scan`, for the keys that begin with `prefix`."""
        cdef bytes start = as_row(prefix)
        return self.scan(start, after_prefix(start))

    def _batches(self, bytes start, bytes stop):
        cdef BlockIndex index = self._leaves()
        cdef int64_t begin = 0 if start is None else max(0, index.find(start))
        cdef int64_t end = index.count if stop is None else index.find(stop) + 1
        cdef CellColumns columns = CellColumns(self._layout.tail)
        cdef int64_t entry = begin, cells = 0
        cdef Body body
        for body in self._bodies(index, begin, end):
            status = columns.add(body, start, stop)
            raise_corrupt(status, self._layout.path, index.offsets[entry])
            entry += 1
            if columns.key_bytes + columns.value_bytes >= SCAN_BATCH_BYTES:
                cells += columns.cells
                yield columns.take()
        cells += columns.cells
        if columns.cells:
            yield columns.take()
        if start is None and stop is None:
            self._check_count(cells)

    def verify(self):
        """Read everything and check all that the format promises; gives the count of cells.

        Raises CorruptFileError at the first thing that does not hold.
        """
        self._check_open()
        cdef BlockIndex index = self._leaves()
        cdef int64_t cells = walk_rows(self, index)
        self._check_count(cells)
        walk_blocks(self, index)
        for name in self._layout.meta_blocks:
            self.meta_block(name)
        return cells


cdef int64_t walk_rows(HFileReader reader, BlockIndex index) except -1:
    """Count the cells; rows ascend, and lie where the index says."""
    cdef Layout layout = reader._layout
    cdef RowOrder order = RowOrder(layout.tail)
    cdef int64_t entry = 0
    cdef Body body
    for body in reader._bodies(index, 0, index.count):
        separator = <bytes>index.rows[entry][: index.row_sizes[entry]]
        raise_corrupt(order.follow(body, separator), layout.path, index.offsets[entry])
        entry += 1
    if layout.last_row is not None and order.cells and order.last_row() != layout.last_row:
        raise CorruptFileError("last row and FILE_INFO disagree", path=layout.path)
    return order.cells


cdef int walk_blocks(HFileReader reader, BlockIndex index) except -1:
    """Blocks cover the file from its first byte to the trailer, and the DATA blocks among them
    are those of the index."""
    cdef Layout layout = reader._layout
    cdef int64_t offset = 0, end = layout.file_size - TRAILER_SIZE, entry = 0
    cdef BlockHeader header
    cdef Window window
    while offset < end:
        window = reader._window(offset, min(offset + HEADER_SIZE, end))
        if end - offset < HEADER_SIZE:
            raise_corrupt(TRUNCATED, layout.path, offset)
        size = HEADER_SIZE + <int64_t>load_be32(window.at + 8)
        if size > end - offset:
            raise_corrupt(TRUNCATED, layout.path, offset)
        window = reader._window(offset, offset + size)
        layout.open_header(window.at, size, offset, &header)
        if header.magic == MAGIC_DATA:
            if entry >= index.count or <int64_t>index.offsets[entry] != offset:
                raise CorruptFileError(
                    "a data block is not in the index", path=layout.path, offset=offset
                )
            entry += 1
        elif not is_known(header.magic):
            raise CorruptFileError("unknown block type", path=layout.path, offset=offset)
        offset += size
    if entry != index.count:
        raise CorruptFileError("the index has a block that is not there", path=layout.path)
    return 0


cdef list shared_out(list groups, int64_t blocks, int threads, bint addressable):
    """The groups in at most `threads` shares; a group of a mapped file may be cut."""
    cdef int64_t share, first
    if threads == 1 or blocks < THREADED_BLOCKS:
        return [groups]
    if not addressable:
        share = (len(groups) + threads - 1) // threads
        return [groups[first : first + share] for first in range(0, len(groups), share)]
    share = (blocks + threads - 1) // threads
    begin, end, members = groups[0]
    return [
        [(begin, end, members[first : first + share])] for first in range(0, len(members), share)
    ]


cdef Status open_plain(
    Layout layout, const uint8_t *at, int64_t size, uint32_t *body_size
) noexcept nogil:
    """Header and checksums of a DATA block of `size` bytes that is not compressed."""
    cdef Cursor c = cursor_over(at, size)
    cdef BlockHeader header
    cdef Status status = take_header(&c, &header)
    if status != OK:
        return status
    if header.magic != MAGIC_DATA or HEADER_SIZE + <int64_t>header.stored != size:
        return MALFORMED
    if header.plain != header.summed - HEADER_SIZE or (
        header.checksum_type != layout.checksum_type
    ):
        return MALFORMED
    body_size[0] = header.plain
    return check_sums(at, &header) if layout.verify_checksums else OK


def as_row(key):
    """A bound of a scan as bytes; None stays None."""
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise UserError("a key must be bytes or text", type=type(key).__name__)


def after_prefix(bytes prefix not None):
    """The smallest bytes above everything that begins with `prefix`, or None if there are none."""
    stem = bytearray(prefix.rstrip(b"\xff"))
    if not stem:
        return None
    stem[len(stem) - 1] += 1
    return bytes(stem)
