"""The HFile version 3 reader for Python.

Batch lookups, range scans, verification.  writer.pyx describes the bytes; store.pyx reads
blocks, batch.pyx answers a batch from them, and hash.pyx answers from a cached
file.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint32_t

from pyhudi._native.column cimport Column, span_at
from pyhudi._native.cursor cimport OK, OUT_OF_ORDER, Status, prefetch
from pyhudi._native.hfile.batch cimport Arena, LookupBatch, Touch
from pyhudi._native.hfile.block cimport HEADER_SIZE, raise_corrupt
from pyhudi._native.hfile.cells cimport Body, CellColumns, count_cells, order_of
from pyhudi._native.hfile.guide cimport BlockGuides, Guide, block_guides, last_below
from pyhudi._native.hfile.hash cimport CellHash, cell_hash
from pyhudi._native.hfile.index cimport BlockIndex
from pyhudi._native.hfile.layout cimport MAGIC_META, Layout
from pyhudi._native.hfile.store cimport SCAN_WINDOW_BYTES, BlockStore, Window, open_plain, open_store
from pyhudi._native.hfile.verify cimport verify_store

from pyhudi._native.hfile.block_cache import SHARED, BlockCache
from pyhudi._native.hfile.cells import SCHEMA as CELL_SCHEMA
from pyhudi._native.hfile.plan import plan_lookup
from pyhudi._native.hfile.source import check_not_cut
from pyhudi.errors import UserError

METHODS = ("auto", "seek", "scan")
HASH_AFTER = 0.2
THREADS_MAX = 4
cdef int64_t THREADED_BLOCKS = 64     # GZ blocks from which on threads share the work
cdef int64_t GUIDED_BYTES = 4096      # between keys: closer ones are reached faster by reading on
cdef int64_t FEW_KEYS = 4             # per touched block, up to which memory is prefetched
cdef int64_t SMALL_PART = 16          # of the cache: stored blocks of a batch cached at once
cdef int64_t SCAN_BATCH_BYTES = 1 << 20
cdef int64_t GROUP_BYTES = 8 << 20    # of a fetched range, to limit memory
cdef int64_t LET_GO_BYTES = 1 << 20   # of a mapped file that a batch has inflated


ctypedef struct Spot:
    const uint8_t *body
    uint32_t size
    int64_t touch


cdef class Spots:
    """Bodies in memory that a batch touches."""
    cdef Spot *spots
    cdef int64_t count

    def __cinit__(self, int64_t room):
        self.spots = <Spot *>PyMem_Malloc((room + 1) * sizeof(Spot))
        if self.spots == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.spots)

    cdef void put(self, int64_t touch, const uint8_t *body, uint32_t size) noexcept:
        self.spots[self.count].touch = touch
        self.spots[self.count].body = body
        self.spots[self.count].size = size
        self.count += 1


cdef class HFileReader:
    """One open HFile.

    source: a local path (mapped; an `inlinefs:` URL too), bytes, an object with `size` and
    `read_at`, or a seekable file.  Opening reads the trailer and the load-on-open section.
    cache_bytes: bound on decoded blocks cached for later lookups; None shares one cache of
    256 MiB among all readers, 0 caches nothing.  Blocks of a large batch are cached on their
    second use, those of a small one at once.  path_for_errors: the file's name in errors.
    verify_checksums: False skips CRCs of types 1 and 2 (a gzip body still has its own).
    threads: how many inflate if a batch touches many GZ blocks; None is up to four.
    hash_after: requested keys, per entry of the file, after which a hash over all cells is built
    within the bound of the cache; None never builds one.

    Raises CorruptFileError for invalid bytes, on open or when they are first read.
    Safe to use from several threads.
    """

    cdef BlockStore _store
    cdef Layout _layout
    cdef BlockGuides _guides          # None for a multi-level index
    cdef object _mapped               # the memory map behind the source, if any
    cdef bint _requests_cost
    cdef int _threads
    cdef double _hash_after
    cdef int64_t _keys_asked

    def __cinit__(
        self, source, *, cache_bytes=None, path_for_errors=None, verify_checksums=True,
        threads=None, hash_after=HASH_AFTER,
    ):
        cache = SHARED if cache_bytes is None else BlockCache(cache_bytes)
        self._store = open_store(source, cache, path_for_errors, verify_checksums)
        self._layout = self._store.layout
        self._mapped = getattr(self._store.source, "mapped", None)
        self._threads = min(THREADS_MAX, os.cpu_count() or 1) if threads is None else threads
        self._hash_after = INFINITY if hash_after is None else hash_after
        self._requests_cost = getattr(self._store.source, "request_cost_seconds", 0) > 0
        if self._layout.levels <= 1:
            self._guides = block_guides(self._layout.root.count)

    def close(self):
        """Drop the cached blocks and the source.  A file or object passed in stays open."""
        self._store.close()

    def __del__(self):
        if self._store is not None:
            self._store.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __repr__(self):
        return f"HFileReader({self._layout.path!r}, entry_count={self._layout.entry_count})"

    cdef int _check_open(self) except -1:
        if self._store.source is None:
            raise UserError("the reader is closed", path=self._layout.path)
        if self._mapped is not None:
            check_not_cut(self._mapped, self._layout.path)
        return 0

    @property
    def entry_count(self):
        """Cells in the file."""
        return self._layout.entry_count

    @property
    def key_range(self):
        """(least key, greatest key); None if the file has no cells or does not state them."""
        cdef BlockIndex root = self._layout.root
        if self._layout.last_row is None or not root.count:
            return None
        return root.rows[0][: root.row_sizes[0]], self._layout.last_row

    @property
    def blocks_read(self):
        """DATA blocks fetched or decoded since opening, without those served from memory."""
        return self._store.blocks_read

    @property
    def metadata(self):
        """FILE_INFO: names to bytes, those of HBase and those of the writer."""
        return dict(self._layout.metadata)

    @property
    def compression(self):
        return "gz" if self._store.compressed else "none"

    def meta_block(self, str name not None):
        """Body of the META block `name`, or None."""
        self._check_open()
        where = self._layout.meta_blocks.get(name)
        return None if where is None else self._store.block(where[0], where[1], MAGIC_META)

    def verify(self):
        """Read everything and verify the whole format; returns the number of cells.

        Raises CorruptFileError at the first violation.
        """
        self._check_open()
        return verify_store(self._store)

    # ---- lookups ------------------------------------------------------------------------------

    def get(self, key):
        """Value of the first cell whose row is `key` (bytes or str), or None."""
        return self.get_many(pa.array([as_row(key)], pa.binary()))[0].as_py()

    def get_many(self, keys, *, method="auto"):
        """Arrow binary array in the order of `keys`: the first cell's value, null if absent.

        keys: column of strings or bytes in any order; a null key is absent.  Each block that can
        contain keys is read and decoded once.  method: "seek" reads those blocks, "scan" the whole
        file, "auto" the cheaper one by `plan`, and a hash over all cells once enough keys were
        requested; the answer is the same.

        Files of Java writers whose keys are sorted as UTF-16 and not as bytes are answered by a
        hash too, which reads them completely.
        """
        cdef Column column = Column(keys)
        cdef LookupBatch batch
        cdef CellHash table
        self._check_open()
        if method not in METHODS:
            raise UserError("unknown look-up method", method=method, hint="auto, seek or scan")
        if self._layout.ordered and method == "auto":
            table = self._hash_if_due(column.view.length)
            if table is not None:
                return table.answer(column)
        if self._layout.ordered:
            batch = LookupBatch(column, self._layout.prefix)
            self._answer(batch, method)
        if not self._layout.ordered:
            return self._hash().answer(column)
        return batch.gather()

    def plan(self, keys):
        """The method that `get_many(keys)` would use, and the estimated cost of either."""
        self._check_open()
        cdef LookupBatch batch = LookupBatch(Column(keys), self._layout.prefix)
        return self._plan(batch, self._leaves_for(batch))

    cdef object _plan(self, LookupBatch batch, BlockIndex index):
        missing = self._missing(batch)
        groups = self._groups(batch, missing)
        return plan_lookup(
            self._store.source,
            keys=batch.sorted_count,
            touched_blocks=len(missing),
            touched_bytes=sum([batch.touches[<int64_t>t].size for t in missing]),
            requests=len(groups),
            requested_bytes=sum([end - begin for begin, end, _ in groups]),
            scan_requests=1 + self._layout.load_on_open // SCAN_WINDOW_BYTES,
            blocks=index.count,
            file_bytes=self._layout.load_on_open,
            entries=self._layout.entry_count,
            compressed=self._store.compressed,
            hashed=self._store.holds(-1),
        )

    cdef BlockIndex _leaves_for(self, LookupBatch batch):
        """The index of the DATA blocks that the batch touches; matches the batch to it."""
        cdef BlockIndex index = self._layout.root
        cdef int level
        batch.lay_over(index)
        for level in range(self._layout.levels - 1, 0, -1):
            entries = [batch.touches[t].entry for t in range(batch.touch_count)]
            index = self._store.below(index, entries, level)
            batch.lay_over(index)
        return index

    cdef int _answer(self, LookupBatch batch, method) except -1:
        """Fill the batch by a method; if rows turn out not to ascend, `ordered` is cleared."""
        cdef BlockIndex index = self._leaves_for(batch)
        if method == "auto" and self._requests_cost:
            method = self._plan(batch, index).method
        if method == "scan":
            return self._answer_by_scan(batch)
        if self._store.in_place:
            return self._answer_in_place(batch)
        return self._answer_by_seek(batch)

    cdef int _answer_in_place(self, LookupBatch batch) except -1:
        """Touched blocks of an uncompressed mapped file: only answers are copied.

        Ascending rows are assumed here: a check would cost more than the lookup, and
        the Java writers that violate it compress.
        """
        cdef Spots spots = Spots(batch.touch_count)
        cdef int64_t t
        batch.owners.append(self._store)
        for t in range(batch.touch_count):
            spots.put(t, self._store.base + batch.touches[t].offset + HEADER_SIZE, 0)
        self._merge_spots(batch, spots)
        self._store.blocks_read += batch.touch_count
        return 0

    cdef int _answer_by_seek(self, LookupBatch batch) except -1:
        """Touched blocks that must be fetched or inflated: cached ones first, then the others."""
        cdef Spots spots = Spots(batch.touch_count)
        cdef int64_t t, stored = 0
        cdef bytes data
        missing = []
        bodies = self._store.kept_all([batch.touches[t].offset for t in range(batch.touch_count)])
        for t in range(batch.touch_count):
            data = bodies[t]
            if data is None:
                missing.append(t)
                stored += batch.touches[t].size
            else:
                spots.put(t, data, <uint32_t>len(data))
        batch.owners.append(bodies)
        self._merge_spots(batch, spots)
        batch.is_small = stored <= self._store.cache.bytes_max // SMALL_PART
        groups = self._groups(batch, missing)
        threads = self._threads if self._store.compressed else 1
        shares = shared_out(groups, len(missing), threads, self._store.base != NULL)
        if len(shares) == 1:
            self._answer_share(batch, groups)
            return 0
        with ThreadPoolExecutor(len(shares)) as pool:
            for done in [pool.submit(self._answer_share, batch, share) for share in shares]:
                done.result()
        return 0

    cdef int _merge_spots(self, LookupBatch batch, Spots spots) except -1:
        """Merge bodies that stay in memory, without the GIL; answers point into them."""
        cdef Spot *spot
        cdef Touch *touch
        cdef Status status = OK
        cdef int64_t s
        with nogil:
            for s in range(spots.count):
                self._look_ahead(batch, spots, s)
                spot = &spots.spots[s]
                touch = &batch.touches[spot.touch]
                if self._store.in_place:
                    status = open_plain(
                        self._layout, spot.body - HEADER_SIZE, touch.size, &spot.size
                    )
                if status == OK:
                    status = self._merge_body(batch, touch, spot.body, spot.size, None)
                if status != OK:
                    break
        if status != OK:
            raise_corrupt(status, self._layout.path, touch.offset)
        return 0

    cdef void _look_ahead(self, LookupBatch batch, Spots spots, int64_t s) noexcept nogil:
        """Prefetch the memory of later touches, if each has only a few keys.

        In three steps, because each address is read from the memory of the previous step: header,
        key and guide; the heads of the guide; the cells where the search for the first key starts.
        """
        cdef const Guide *guide
        cdef Spot *spot
        cdef Touch *touch
        cdef int64_t line, sample
        if self._guides is None or batch.sorted_count > FEW_KEYS * batch.touch_count:
            return
        if s + 12 < spots.count:
            spot = &spots.spots[s + 12]
            touch = &batch.touches[spot.touch]
            prefetch(spot.body - HEADER_SIZE)
            prefetch(span_at(batch.keys, batch.sorted[touch.begin].row).data)
            guide = self._guides.guides[touch.entry]
            if guide != NULL:
                prefetch(guide)
        if s + 8 < spots.count:
            guide = self._guides.guides[batch.touches[spots.spots[s + 8].touch].entry]
            if guide != NULL:
                for line in range(0, guide.count, 8):
                    prefetch(guide.heads + line)
        if s + 4 < spots.count:
            spot = &spots.spots[s + 4]
            touch = &batch.touches[spot.touch]
            guide = self._guides.guides[touch.entry]
            if guide != NULL:
                sample = last_below(guide, 0, batch.sorted[touch.begin].head)
                for line in range(0, 1024, 64):
                    prefetch(spot.body + guide.offsets[sample] + line)

    def _answer_share(self, LookupBatch batch, list groups):
        """The work of one of several threads: separate blocks, a separate arena."""
        arena = Arena()
        batch.owners.append(arena)
        self._fetch_and_merge(batch, groups, arena)

    cdef int _fetch_and_merge(self, LookupBatch batch, list groups, Arena arena) except -1:
        """Blocks are cached up to the cache's bound, so that a larger batch neither flushes it nor
        uses more memory; those of a large batch only on their second use."""
        cdef int64_t t
        cdef Body body
        cdef Window window
        cdef Status status
        cdef int64_t walked = -1, at = 0
        for begin, end, members in groups:
            window = self._store.window(begin, end)
            walked = -1
            for t in members:
                at = batch.touches[t].offset
                if walked < 0:
                    walked = at
                elif at - walked >= LET_GO_BYTES:
                    self._store.let_go(walked, at)
                    walked = at
                body = self._store.decode(batch.touches[t].offset, batch.touches[t].size, window)
                status = order_of(body, self._layout.tail)
                if status == OUT_OF_ORDER:
                    self._layout.ordered = False
                    return 0
                raise_corrupt(status, self._layout.path, batch.touches[t].offset)
                if batch.kept_bytes + body.size <= self._store.cache.bytes_max and (
                    self._store.keep(batch.touches[t].offset, body, batch.is_small)
                ):
                    batch.kept_bytes += body.size
                self._merge(batch, t, body, arena)
            if walked >= 0:
                self._store.let_go(walked, at + batch.touches[t].size)
        return 0

    cdef int _merge(self, LookupBatch batch, int64_t t, Body body, Arena arena) except -1:
        """Answers point into a body that stays in memory; from others they are copied at once."""
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
        """Merge, by the guide of the block if keys are far apart in it.

        Guides exist if entries are those of the root index.  A block gets one on its second
        use whatever the batch: the next may be a small one.
        """
        cdef const Guide *guide = NULL
        if self._guides is not None:
            guide = self._guides.guide_of(
                touch.entry, body, size, self._layout.tail, batch.prefix_size
            )
            if (touch.end - touch.begin) * GUIDED_BYTES > size:
                guide = NULL
        return batch.merge(touch, body, size, self._layout.tail, arena, guide)

    cdef int _answer_by_scan(self, LookupBatch batch) except -1:
        """Every block in file order, merged if touched; all cells must be present."""
        cdef BlockIndex index = self._store.leaves()
        cdef Arena arena = Arena()
        cdef int64_t entry = 0, t = 0, cells = 0
        cdef Body body
        cdef Status status
        batch.lay_over(index)
        batch.owners.append(arena)
        for body in self._store.bodies(index, 0, index.count):
            status = order_of(body, self._layout.tail)
            if status == OUT_OF_ORDER:
                self._layout.ordered = False
                return 0
            with nogil:
                if status == OK:
                    status = count_cells(body.at, body.size, self._layout.tail, &cells)
            raise_corrupt(status, self._layout.path, index.offsets[entry])
            if t < batch.touch_count and batch.touches[t].entry == entry:
                self._merge(batch, t, body, arena)
                t += 1
            entry += 1
        return self._store.check_count(cells)

    cdef list _missing(self, LookupBatch batch):
        """Touches whose blocks are not in the cache."""
        return [
            t for t in range(batch.touch_count) if not self._store.holds(batch.touches[t].offset)
        ]

    cdef list _groups(self, LookupBatch batch, list touches):
        """(begin, end, touches): byte ranges to fetch, each with the touches it serves.

        Ranges closer than the bytes transferred in one request's latency are joined.
        """
        cdef double latency = getattr(self._store.source, "request_cost_seconds", 0)
        cdef double speed = getattr(self._store.source, "bytes_per_second", 100e6)
        cdef int64_t gap = <int64_t>(latency * speed)
        cdef int64_t begin = 0, end = 0, t
        cdef Touch *touch
        if self._store.base != NULL:
            return [(0, self._layout.load_on_open, touches)] if touches else []
        groups = []
        members = []
        for t in touches:
            touch = &batch.touches[t]
            offset, limit = touch.offset, touch.offset + touch.size
            if members and (offset - end > gap or limit - begin > GROUP_BYTES):
                groups.append((begin, end, members))
                members = []
            if not members:
                begin = offset
            members.append(t)
            end = limit
        if members:
            groups.append((begin, end, members))
        return groups

    # ---- hash ---------------------------------------------------------------------------------

    cdef CellHash _hash_if_due(self, int64_t keys):
        """The hash over all cells, once enough keys have been requested; None before, and if it
        does not fit in the cache with the decoded blocks."""
        cdef int64_t decoded
        if self._store.holds(-1):
            return self._hash()
        if self._keys_asked < self._hash_after * self._layout.entry_count:
            self._keys_asked += keys  # counted after the answer: a first batch uses no hash
            return None
        decoded = self._store.decoded_bytes_expected()
        if decoded < 0 or decoded + 32 * self._layout.entry_count > self._store.cache.bytes_max:
            return None
        self._keys_asked = 0
        return self._hash()

    cdef CellHash _hash(self):
        """The hash over all cells, built if the cache has none; cached if it fits."""
        cdef CellHash table = self._store.cache.get(self._store.name_of(-1))
        cdef BlockIndex index
        cdef Body body
        cdef int64_t cells = 0
        cdef Status status = OK
        if table is not None:
            return table
        index = self._store.leaves()
        bodies = list(self._store.bodies(index, 0, index.count))
        for entry, body in enumerate(bodies):
            with nogil:
                status = count_cells(body.at, body.size, self._layout.tail, &cells)
            raise_corrupt(status, self._layout.path, index.offsets[<int64_t>entry])
        self._store.check_count(cells)
        table = cell_hash(index.count, cells, self._layout.tail)
        for body in bodies:
            raise_corrupt(table.add(body), self._layout.path, -1)
        self._store.drop_blocks()
        if not self._store.cache.put(self._store.name_of(-1), table, table.size_bytes):
            self._hash_after = INFINITY
        return table

    # ---- scans --------------------------------------------------------------------------------

    def scan(self, start=None, stop=None):
        """RecordBatchReader of key and value (binary) in key order, start <= key < stop.

        Reads only the blocks of the range, while the batches are consumed.  A full scan returns the
        cells in the order of the file, and raises CorruptFileError at its end unless their number
        matches the trailer; a range raises it for rows that do not ascend.
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
        cdef BlockIndex index = self._store.leaves()
        cdef int64_t begin = 0 if start is None else max(0, index.find(start))
        cdef int64_t end = index.count if stop is None else index.find(stop) + 1
        cdef CellColumns columns = CellColumns(self._layout.tail)
        cdef int64_t entry = begin, cells = 0
        cdef Body body
        cdef Status status
        cdef bint full = start is None and stop is None
        if not full and not self._layout.ordered:
            raise_corrupt(OUT_OF_ORDER, self._layout.path, self._layout.load_on_open)
        for body in self._store.bodies(index, begin, end):
            status = OK if full else order_of(body, self._layout.tail)
            raise_corrupt(status, self._layout.path, index.offsets[entry])
            status = columns.add(body, start, stop)
            raise_corrupt(status, self._layout.path, index.offsets[entry])
            entry += 1
            if columns.key_bytes + columns.value_bytes >= SCAN_BATCH_BYTES:
                cells += columns.cells
                yield columns.take()
                self._check_open()
        cells += columns.cells
        if columns.cells:
            yield columns.take()
        if full:
            self._store.check_count(cells)


cdef list shared_out(list groups, int64_t blocks, int threads, bint addressable):
    """The groups divided among at most `threads` shares; a group of a mapped file may be split."""
    cdef int64_t share, first
    if threads <= 1 or blocks < THREADED_BLOCKS:
        return [groups]
    if not addressable:
        share = (len(groups) + threads - 1) // threads
        return [groups[first : first + share] for first in range(0, len(groups), share)]
    share = (blocks + threads - 1) // threads
    begin, end, members = groups[0]
    return [
        [(begin, end, members[first : first + share])] for first in range(0, len(members), share)
    ]


def as_row(key):
    """A key as bytes; None (no bound) stays None."""
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
