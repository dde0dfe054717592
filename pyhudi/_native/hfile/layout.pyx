"""The metadata of an open HFile: trailer, load-on-open section, FILE_INFO.

    load-on-open   ROOT_INDEX of data | ROOT_INDEX of meta blocks | FILE_INFO | [HBase blooms]
    trailer        last 4096 bytes: magic, uvarint size, message, zeros, minor version, 3 of major

The trailer has no checksum, so none of it is trusted alone: the root index must be filled
exactly by the stated entries, the section must end where the trailer begins, and first and
last block must be those of the index.  Fields 1, 3 and 4 are wrong in real files and not read.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ

from pyhudi._native.cursor cimport (
    MALFORMED, OK, TRUNCATED, Cursor, Status, cursor_over, load_be16, load_be32, load_be64,
    take_bytes, take_uvarint,
)
from pyhudi._native.hfile.block cimport (
    GZ, HEADER_SIZE, NONE, TAIL_MVCC, TAIL_TAGS, BlockHeader, check_sums, inflate, raise_corrupt,
    take_header,
)
from pyhudi._native.hfile.index cimport BlockIndex, root_index

from pyhudi.errors import CorruptFileError

cdef uint64_t magic_of(bytes name):
    cdef const uint8_t *at = name
    return load_be64(at)


MAGIC_DATA = magic_of(b"DATABLK*")
MAGIC_META = magic_of(b"METABLKc")
MAGIC_LEAF = magic_of(b"IDXLEAF2")
MAGIC_INTERMEDIATE = magic_of(b"IDXINTE2")
cdef uint64_t MAGIC_ROOT = magic_of(b"IDXROOT2")
cdef uint64_t MAGIC_INFO = magic_of(b"FILEINF2")
cdef uint64_t MAGIC_BLOOM_CHUNK = magic_of(b"BLMFBLK2")
cdef uint64_t MAGIC_BLOOM_META = magic_of(b"BLMFMET2")
cdef uint64_t MAGIC_DELETE_BLOOM_META = magic_of(b"DFBLMET2")

cdef enum:
    TRAILER_SIZE = 4096

TRAILER_MAGIC = b'TRABLK"$'
MAJOR_VERSION = 3
LEVELS_MAX = 16
CODECS = {0: "LZO", 1: "GZ", 2: "NONE", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}
NO_BLOCK = (1 << 64) - 1


cdef list fields_of(bytes message):
    """(number, value) of a Protobuf message, or None if it is malformed.

    A value is an int for varints and bytes for everything else.
    """
    cdef const uint8_t *begin = message
    cdef Cursor c = cursor_over(begin, len(message))
    cdef uint64_t tag, value
    cdef const uint8_t *at
    cdef int64_t size
    cdef int kind
    fields = []
    while c.at < c.end:
        if take_uvarint(&c, &tag) != OK or tag < 8 or tag > 0xFFFFFFFF:
            return None
        kind = tag & 7
        if kind == 0:
            if take_uvarint(&c, &value) != OK:
                return None
            fields.append((tag >> 3, value))
            continue
        if kind == 2:
            if take_uvarint(&c, &value) != OK or value > <uint64_t>len(message):
                return None
            size = value
        elif kind == 1 or kind == 5:
            size = 8 if kind == 1 else 4
        else:
            return None
        if take_bytes(&c, size, &at) != OK:
            return None
        fields.append((tag >> 3, <bytes>at[:size]))
    return fields


cdef bytes delimited(const uint8_t *data, int64_t room):
    """The message after a uvarint size, or None if it does not fit."""
    cdef Cursor c = cursor_over(data, room)
    cdef uint64_t size
    cdef const uint8_t *at
    if take_uvarint(&c, &size) != OK or size > <uint64_t>room:
        return None
    if take_bytes(&c, <int64_t>size, &at) != OK:
        return None
    return <bytes>at[:<int64_t>size]


cdef bytes row_in_key(bytes key):
    """Row of a whole key, with or without its suffix, or None."""
    cdef const uint8_t *at = key
    cdef int64_t size = len(key)
    if size < 2 or 2 + load_be16(at) > size:
        return None
    return key[2 : 2 + load_be16(at)]


cdef bytes shared_prefix(bytes a, bytes b):
    size = 0
    for x, y in zip(a, b):
        if x != y:
            break
        size += 1
    return a[:size]


cdef bint names_no_cell(bytes body):
    """Whether a root index is one entry with an empty key, of a DATA block without cells.

    hudi-rs 0.6 writes such a block and entry into files that it states to have none:
    offset (8 bytes), size of the block (4), length of the key (1): 0.
    """
    return len(body) == 13 and body[12] == 0 and int.from_bytes(body[8:12]) <= HEADER_SIZE + 4


cdef class Layout:
    """Created by `open_layout`.  Invariant: `root` was checked against the file's sizes."""

    cdef int open_header(
        self, const uint8_t *at, int64_t room, int64_t offset, BlockHeader *header
    ) except -1:
        """Parse and check a header at file offset `offset`, checksums included.

        room: bytes that may be read from `at` on.
        """
        cdef Cursor c = cursor_over(at, room)
        cdef Status status = take_header(&c, header)
        if status == OK and self.checksum_type >= 0:
            status = OK if header.checksum_type == self.checksum_type else MALFORMED
        if status == OK and self.verify_checksums:
            status = check_sums(at, header)
        raise_corrupt(status, self.path, offset)
        return 0

    cdef bytes body_of(self, const uint8_t *block, const BlockHeader *header, int64_t offset):
        """The decompressed body of a block whose header has been checked."""
        cdef int64_t size = header.summed - HEADER_SIZE
        cdef bytes body
        if self.codec == NONE:
            if header.plain != size:
                raise_corrupt(MALFORMED, self.path, offset)
            return PyBytes_FromStringAndSize(<const char *>block + HEADER_SIZE, size)
        body = inflate(
            PyMemoryView_FromMemory(<char *>block + HEADER_SIZE, size, PyBUF_READ), header.plain
        )
        if body is None:
            raise CorruptFileError("damaged compressed block", path=self.path, offset=offset)
        return body

    cdef bytes load(
        self, const uint8_t *at, int64_t room, int64_t offset, uint64_t magic, int64_t *size
    ):
        """Body of the block of this type at `at`; its size as stored goes to `size`."""
        cdef BlockHeader header
        self.open_header(at, room, offset, &header)
        if header.magic != magic:
            raise CorruptFileError("a block of another type", path=self.path, offset=offset)
        size[0] = <int64_t>HEADER_SIZE + header.stored
        return self.body_of(at, &header, offset)

    cdef int adopt(self, BlockIndex index) except -1:
        """Check an index level against the file and prepare it for lookups."""
        cdef const uint8_t *prefix = self.prefix
        raise_corrupt(index.check_blocks(self.load_on_open), self.path, self.load_on_open)
        if not (index.rows_ascend() and index.set_heads(prefix, len(self.prefix)) == OK):
            self.ordered = False
        return 0

    def _take_trailer(self, bytes trailer not None):
        cdef const uint8_t *at = trailer
        if trailer[:8] != TRAILER_MAGIC:
            raise CorruptFileError("not an HFile: no trailer", path=self.path)
        if load_be32(at + TRAILER_SIZE - 4) & 0xFFFFFF != MAJOR_VERSION:
            raise CorruptFileError("not an HFile of version 3", path=self.path)
        message = delimited(at + 8, TRAILER_SIZE - 12)
        fields = fields_of(message) if message is not None else None
        if fields is None or len(dict(fields)) != len(fields):
            raise CorruptFileError("malformed trailer", path=self.path)
        values = dict(fields)
        numbers = [values.get(n, 0) for n in (2, 5, 6, 7, 8, 9, 10)] + [values.get(12, 2)]
        if not all(isinstance(n, int) for n in numbers):
            raise CorruptFileError("malformed trailer", path=self.path)
        start, roots, metas, entries, levels, first, last, codec = numbers
        if codec not in (GZ, NONE):
            raise CorruptFileError(
                "blocks are compressed with a codec that is not supported",
                path=self.path, codec=CODECS.get(codec, codec),
            )
        if not HEADER_SIZE <= start + HEADER_SIZE <= self.file_size - TRAILER_SIZE:
            raise CorruptFileError("the trailer points outside the file", path=self.path)
        if max(roots, metas) > self.file_size or entries >= 1 << 62 or levels > LEVELS_MAX:
            raise CorruptFileError("impossible counts in the trailer", path=self.path)
        if (entries == 0) != (roots == 0) or (roots and levels < 1):
            raise CorruptFileError("counts in the trailer disagree", path=self.path)
        self.load_on_open, self.root_count, self.meta_count = start, roots, metas
        self.entry_count, self.levels, self.codec = entries, levels, codec
        self.first_data = -1 if first == NO_BLOCK or first >= 1 << 62 else first
        self.last_data = -1 if last == NO_BLOCK or last >= 1 << 62 else last

    def _take_section(self, bytes section not None):
        """Load-on-open blocks; `section` begins at load_on_open and ends with the trailer."""
        cdef const uint8_t *at = section
        cdef int64_t room = len(section)
        cdef int64_t done = 0, size = 0
        cdef BlockHeader header
        if self.verify_checksums and has_no_sums(at, room):
            self.verify_checksums = False
        body = self.load(at, room, self.load_on_open, MAGIC_ROOT, &size)
        self.checksum_type = at[24]
        done += size
        metas = self.load(at + done, room - done, self.load_on_open + done, MAGIC_ROOT, &size)
        done += size
        info = self.load(at + done, room - done, self.load_on_open + done, MAGIC_INFO, &size)
        done += size
        while done < room:
            self.open_header(at + done, room - done, self.load_on_open + done, &header)
            if header.magic not in (MAGIC_BLOOM_META, MAGIC_DELETE_BLOOM_META):
                raise CorruptFileError(
                    "a block of another type", path=self.path, offset=self.load_on_open + done
                )
            done += HEADER_SIZE + header.stored
        self._take_info(info)
        self._take_metas(metas)
        self.root = root_index(body, self.root_count, 0 if self.levels <= 1 else 16)
        if self.root is None and self.root_count == 0 and names_no_cell(body):
            self.root = root_index(b"", 0, 0)
        if self.root is None:
            raise CorruptFileError("malformed root index", path=self.path, offset=self.load_on_open)
        self._find_prefix()
        self.adopt(self.root)
        if self.root.count and self.levels == 1:
            self.check_ends(self.root)

    def check_ends(self, BlockIndex leaves not None):
        """Check that first and last DATA block of the whole index are those of the trailer."""
        if (
            <int64_t>leaves.offsets[0] != self.first_data
            or <int64_t>leaves.offsets[leaves.count - 1] != self.last_data
        ):
            raise CorruptFileError("index and trailer disagree", path=self.path)

    def _take_info(self, bytes body not None):
        cdef const uint8_t *at = body
        message = delimited(at + 4, len(body) - 4) if body[:4] == b"PBUF" else None
        pairs = fields_of(message) if message is not None else None
        if pairs is None:
            raise CorruptFileError("malformed FILE_INFO", path=self.path)
        self.metadata = {}
        for number, pair in pairs:
            parts = fields_of(pair) if number == 1 and isinstance(pair, bytes) else None
            values = dict(parts) if parts is not None else {}
            key, value = values.get(1, b""), values.get(2, b"")
            if parts is None or not isinstance(key, bytes) or not isinstance(value, bytes):
                raise CorruptFileError("malformed FILE_INFO", path=self.path)
            self.metadata[key.decode("utf-8", "surrogateescape")] = value
        if self.metadata.get("KEY_VALUE_VERSION") == b"\0\0\0\1":
            self.tail |= TAIL_MVCC
        if "hfile.MAX_TAGS_LEN" in self.metadata:
            self.tail |= TAIL_TAGS
        if self.metadata.get("DATA_BLOCK_ENCODING", b"NONE") != b"NONE":
            raise CorruptFileError("encoded data blocks are not supported", path=self.path)

    def _take_metas(self, bytes body not None):
        """Parse the meta index: bare names, which the row parser of the data index cannot read."""
        self.meta_blocks = named_entries(body, self.meta_count, self.load_on_open)
        if self.meta_blocks is None:
            raise CorruptFileError(
                "malformed meta index", path=self.path, offset=self.load_on_open
            )

    def _find_prefix(self):
        """Common prefix of the first and last row, hence of all rows; empty when unknown."""
        cdef bytes first
        self.prefix = b""
        self.last_row = row_in_key(self.metadata.get("hfile.LASTKEY", b""))
        if self.last_row is not None and self.root.count:
            first = self.root.rows[0][: self.root.row_sizes[0]]
            self.prefix = shared_prefix(first, self.last_row)


cdef bint has_no_sums(const uint8_t *at, int64_t room) noexcept nogil:
    """Whether all blocks of a load-on-open section state CRC-32C and have zeros for checksums.

    hudi-rs 0.6 reserves the room and computes none.  Damage does not look like this: it would have
    to clear the checksums of each of the three or more blocks and nothing else.
    """
    cdef Cursor c = cursor_over(at, room)
    cdef BlockHeader header
    cdef const uint8_t *block
    cdef int64_t i
    while c.at < c.end:
        block = c.at
        if take_header(&c, &header) != OK or header.checksum_type != 2:
            return False
        for i in range(header.summed, <int64_t>HEADER_SIZE + header.stored):
            if block[i] != 0:
                return False
        c.at = block + HEADER_SIZE + header.stored
    return room > 0


cdef dict named_entries(bytes body, int64_t count, int64_t below):
    """{name: (offset, size)} of the meta index, or None; it must be filled exactly."""
    cdef const uint8_t *begin = body
    cdef Cursor c = cursor_over(begin, len(body))
    cdef const uint8_t *at
    cdef uint64_t size, key_size
    entries = {}
    for _ in range(count):
        if take_bytes(&c, 12, &at) != OK:
            return None
        offset, size = load_be64(at), load_be32(at + 8)
        if take_name_size(&c, &key_size) != OK or take_bytes(&c, <int64_t>key_size, &at) != OK:
            return None
        if size < HEADER_SIZE or offset > <uint64_t>below or size > <uint64_t>below - offset:
            return None
        entries[(<bytes>at[:<int64_t>key_size]).decode("utf-8", "surrogateescape")] = (offset, size)
    return entries if c.at == c.end else None


cdef Status take_name_size(Cursor *c, uint64_t *size) noexcept nogil:
    """Meta names are far shorter than 112 bytes, where both varint encodings agree."""
    if c.end - c.at < 1:
        return TRUNCATED
    if c.at[0] > 127:
        return MALFORMED
    size[0] = c.at[0]
    c.at += 1
    return OK


cdef Layout open_layout(object source, object path, bint verify_checksums):
    """Read trailer and load-on-open section: two reads, or one if requests are expensive."""
    cdef Layout layout = Layout()
    layout.path = path
    layout.file_size = source.size
    layout.checksum_type = -1
    layout.verify_checksums = verify_checksums
    layout.ordered = True
    if layout.file_size < TRAILER_SIZE:
        raise CorruptFileError("too short for an HFile", path=path, size=layout.file_size)
    ahead = TRAILER_SIZE if not getattr(source, "request_cost_seconds", 0) else 256 << 10
    begin = max(0, layout.file_size - ahead)
    end = read_exactly(source, begin, layout.file_size - begin, path)
    layout._take_trailer(end[len(end) - TRAILER_SIZE :])
    size = layout.file_size - TRAILER_SIZE - layout.load_on_open
    if layout.load_on_open >= begin:
        section = end[layout.load_on_open - begin :][:size]
    else:
        section = read_exactly(source, layout.load_on_open, size, path)
    layout._take_section(section)
    return layout


cdef bint is_known(uint64_t magic) noexcept nogil:
    """Whether a file may contain a block of this type."""
    return (
        magic == MAGIC_DATA or magic == MAGIC_META or magic == MAGIC_LEAF
        or magic == MAGIC_INTERMEDIATE or magic == MAGIC_ROOT or magic == MAGIC_INFO
        or magic == MAGIC_BLOOM_CHUNK or magic == MAGIC_BLOOM_META
        or magic == MAGIC_DELETE_BLOOM_META
    )


cdef bytes read_exactly(object source, int64_t offset, int64_t length, object path):
    data = source.read_at(offset, length)
    if len(data) != length:
        raise CorruptFileError("file ends before its content", path=path, offset=offset)
    return bytes(data)
