"""One HFile block: header checks, checksums, inflate.  Layout in the .pxd."""

from isal import igzip_lib

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from pyhudi._native.cursor cimport (
    BAD_CHECKSUM, END, MALFORMED, NO_MEMORY, OK, OUT_OF_ORDER, TRUNCATED, Cursor, Status,
    load_be32, load_be64,
)

from pyhudi.errors import CorruptFileError


cdef extern from "bytes.h" nogil:
    uint32_t POLY_CRC32 "PYHUDI_POLY_CRC32"
    uint32_t POLY_CRC32C "PYHUDI_POLY_CRC32C"
    void crc_fill "pyhudi_crc_fill"(uint32_t (*table)[256], uint32_t poly) noexcept
    uint32_t crc_sliced "pyhudi_crc_sliced"(
        const uint32_t (*table)[256], const uint8_t *p, size_t n) noexcept
    bint crc32c_in_hardware "pyhudi_crc32c_in_hardware"() noexcept
    uint32_t crc32c_hardware "pyhudi_crc32c_hardware"(const uint8_t *p, size_t n) noexcept
    void crc32c_hardware4 "pyhudi_crc32c_hardware4"(
        const uint8_t *p, size_t n, uint32_t *out) noexcept

cdef uint32_t CRC32_TABLE[8][256]
cdef uint32_t CRC32C_TABLE[8][256]
crc_fill(CRC32_TABLE, POLY_CRC32)
crc_fill(CRC32C_TABLE, POLY_CRC32C)
cdef bint HARDWARE = crc32c_in_hardware()

# A deflate stream cannot grow more than this, so a larger size is invalid.
cdef int64_t DEFLATE_GROWTH_MAX = 1032
# Writers never create such blocks; it bounds the allocation that a corrupt length can cause.
cdef int64_t BLOCK_BYTES_MAX = 256 << 20

cdef dict REASONS = {
    END: "truncated block",
    TRUNCATED: "truncated block",
    MALFORMED: "malformed block",
    BAD_CHECKSUM: "checksum mismatch",
    OUT_OF_ORDER: "rows are not in order",
}


cdef int raise_corrupt(Status status, object path, int64_t offset) except -1:
    """Raise the exception for a Status; OK returns."""
    if status == OK:
        return 0
    if status == NO_MEMORY:
        raise MemoryError
    raise CorruptFileError(REASONS[<int>status], path=path, offset=offset)


cdef Status take_header(Cursor *c, BlockHeader *header) noexcept nogil:
    """Take a header with consistent sizes, whose whole block is before c.end."""
    cdef const uint8_t *at = c.at
    cdef uint64_t sums
    if c.end - at < HEADER_SIZE:
        return TRUNCATED
    header.magic = load_be64(at)
    header.stored = load_be32(at + 8)
    header.plain = load_be32(at + 12)
    header.previous = <int64_t>load_be64(at + 16)
    header.checksum_type = at[24]
    header.chunk = load_be32(at + 25)
    header.summed = load_be32(at + 29)
    if header.stored > 0x7FFFFFFF or header.plain > 0x7FFFFFFF or header.summed > 0x7FFFFFFF:
        return MALFORMED
    if header.checksum_type > 2 or header.chunk == 0 or header.chunk > 0x7FFFFFFF:
        return MALFORMED
    sums = 4 * ((<uint64_t>header.summed + header.chunk - 1) // header.chunk)
    if header.checksum_type == 0 and header.stored + HEADER_SIZE == header.summed:
        sums = 0  # pre-release writers of Apache Hudi 1.1 reserved no room for checksums
    if header.summed < HEADER_SIZE or header.stored + HEADER_SIZE != header.summed + sums:
        return MALFORMED
    if c.end - at < <int64_t>HEADER_SIZE + header.stored:
        return TRUNCATED
    c.at += HEADER_SIZE
    return OK


cdef uint32_t sum_of(uint8_t kind, const uint8_t *p, uint32_t n) noexcept nogil:
    if kind == 1:
        return crc_sliced(CRC32_TABLE, p, n)
    if HARDWARE:
        return crc32c_hardware(p, n)
    return crc_sliced(CRC32C_TABLE, p, n)


cdef Status check_sums(const uint8_t *block, const BlockHeader *header) noexcept nogil:
    """Recompute every checksum of a block that take_header accepted; none for type 0."""
    cdef const uint8_t *sums = block + header.summed
    cdef uint32_t done = 0
    cdef uint32_t size
    cdef uint32_t four[4]
    cdef int i
    if header.checksum_type == 0:
        return OK
    while header.checksum_type == 2 and HARDWARE and (
        header.summed - done >= 4 * <uint64_t>header.chunk
    ):
        crc32c_hardware4(block + done, header.chunk, four)
        for i in range(4):
            if four[i] != load_be32(sums + 4 * i):
                return BAD_CHECKSUM
        sums += 16
        done += 4 * header.chunk
    while done < header.summed:
        size = header.summed - done if header.summed - done < header.chunk else header.chunk
        if sum_of(header.checksum_type, block + done, size) != load_be32(sums):
            return BAD_CHECKSUM
        sums += 4
        done += size
    return OK


cdef bytes inflate(object body, uint32_t plain):
    """Body of a GZ block as exactly `plain` bytes, or None if it is not such a stream.

    body: any buffer.  Memory is bounded by `plain`, which is checked against the maximum for a
    stream of this size; the stream's CRC and size are verified.  Drops the GIL.
    """
    cdef int64_t room = DEFLATE_GROWTH_MAX * <int64_t>len(body) + 1024
    cdef bytes out
    if plain > room or plain > BLOCK_BYTES_MAX:
        return None
    stream = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
    try:
        out = stream.decompress(body, <int64_t>plain + 1)
    except (igzip_lib.IsalError, EOFError, ValueError):
        return None
    if len(out) != plain or not stream.eof or stream.unused_data:
        return None
    return out


def crc32c(data not None):
    """CRC-32C of a buffer, as in checksum type 2 for each chunk."""
    cdef const uint8_t[::1] view = data
    return sum_of(2, &view[0], <uint32_t>view.shape[0]) if view.shape[0] else 0
