"""Log files: block framing, truncated tails, and finding the next block after corruption.

A log file is blocks back to back, all integers big-endian:

    magic           6  `#HUDI#`
    length L      i64  bytes from the next field through the last
    version       i32  1
    kind          i32  BlockKind
    header             i32 n, then n x {i32 HeaderKey, i32 length, UTF-8 bytes}
    content length i64
    content
    footer             as header, n = 0
    reverse pointer i64  L + 6

Source: storage_format 2.2, 2.3, 2.6.  The contents are in `log_block.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import Final

from pyhudi.errors import CorruptFileError, UnsupportedTableError, UserError
from pyhudi.storage.filesystem import RandomAccess

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
BLOCK_BYTES_MAX: Final = (1 << 31) - 1  # Java stores block and content lengths in an int

_PREFIX: Final = len(MAGIC) + 8
_SMALLEST: Final = 4 + 4 + 4 + 8 + 4 + 8  # version, kind, two empty maps, content length, pointer
_PAGE: Final = 1 << 16
_SEARCH: Final = 1 << 20
_STATED_TEXT_MAX: Final = 1 << 20  # of a header that may be corrupt
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


@unique
class BlockKind(IntEnum):
    """Type of a block's content; the value is the ordinal on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2  # never written: the reader's name for bytes it could not frame
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


@unique
class HeaderKey(IntEnum):
    """Keys of a block's header.  Readers of table version 6 fail on keys above 6."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One framed block; its content is still in the file.

    header: unknown keys stay plain ints; for a CORRUPT block the header in its first bytes, or
    nothing if unreadable.  offset and size cover the whole block; for CORRUPT
    everything up to the next block.
    """

    kind: BlockKind
    header: Mapping[HeaderKey | int, str] = field(hash=False)
    offset: int
    size: int
    content_offset: int
    content_length: int
    format_version: int = FORMAT_VERSION

    @property
    def instant(self) -> str | None:
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def target_instant(self) -> str | None:
        """The instant that a rollback command rolls back."""
        return self.header.get(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str | None:
        """The writer's schema, Avro JSON with the meta fields."""
        return self.header.get(HeaderKey.SCHEMA)

    @property
    def is_rollback(self) -> bool:
        return (
            self.kind is BlockKind.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == "0"
        )

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """Instants that a log compaction merged into this block, newest first; else empty."""
        text = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        return tuple(text.split(",")) if text else ()

    @property
    def is_partial(self) -> bool:
        """Whether records contain changed columns only."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"


def read_blocks(file: RandomAccess, *, path: str) -> list[LogBlock]:
    """Frame every block, as Apache Hudi does.  Contents are not read.

    A truncated or damaged block results in one CORRUPT block up to the next magic that frames, or
    the end; so does a whole block followed by bytes that are not a magic.  Less than a magic at the
    end, and an empty file, are ignored.  Cost: about two reads per block.
    Raises CorruptFileError if the file does not begin with a magic or a framed block contradicts
    itself, UnsupportedTableError for another log format.
    """
    return list(_blocks(_Pages(file), path))


def frame(
    kind: BlockKind, header: Mapping[HeaderKey, str], content_length: int
) -> tuple[bytes, bytes]:
    """The bytes before and after a content of that length, which complete the block."""
    before = b"".join(
        (
            struct.pack(">iii", FORMAT_VERSION, kind, len(header)),
            *(_entry(key, text) for key, text in header.items()),
            _I64.pack(content_length),
        )
    )
    length = len(before) + content_length + 4 + 8
    if length > BLOCK_BYTES_MAX:
        raise UserError("a log block must be smaller than 2 GiB", size=length)
    return MAGIC + _I64.pack(length) + before, struct.pack(">iq", 0, length + len(MAGIC))


def write_block(kind: BlockKind, header: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """A whole block."""
    before, after = frame(kind, header, len(content))
    return b"".join((before, content, after))


def _entry(key: HeaderKey, text: str) -> bytes:
    data = text.encode()
    return struct.pack(">ii", key, len(data)) + data


class _Pages:
    """Small reads served from the last few pages of a file, so that an object store gets about
    two requests per block, and a search for a magic one read per page."""

    KEEP: Final = 4

    def __init__(self, file: RandomAccess) -> None:
        self._file = file
        self._pages: dict[int, bytes] = {}
        self.size = file.size

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes: fewer only at the end of the file."""
        end = min(offset + length, self.size)
        if end - offset > _PAGE:
            return self._file.read_at(offset, end - offset)
        parts = []
        while offset < end:
            page_offset = offset - offset % _PAGE
            page = self._page(page_offset)
            parts.append(page[offset - page_offset : end - page_offset])
            offset = page_offset + len(page)
        return b"".join(parts)

    def _page(self, offset: int) -> bytes:
        page = self._pages.pop(offset, None)
        if page is None:
            page = self._file.read_at(offset, min(_PAGE, self.size - offset))
            if len(self._pages) >= self.KEEP:
                del self._pages[next(iter(self._pages))]
        self._pages[offset] = page
        return page


def _blocks(pages: _Pages, path: str) -> Iterator[LogBlock]:
    at = 0
    damage = None  # start of a range of bytes that do not frame
    while at + len(MAGIC) <= pages.size:
        if pages.read(at, len(MAGIC)) != MAGIC:
            raise CorruptFileError("a log file must begin with #HUDI#", path=path, offset=at)
        end = _framed_end(pages, at)
        if end is not None:
            if damage is not None:
                yield _corrupt(pages, damage, at, path)
                damage = None
            yield _parse(pages, at, end, path)
            at = end
        else:
            damage = at if damage is None else damage
            at = _next_magic(pages, at + len(MAGIC))
    if damage is not None:
        yield _corrupt(pages, damage, pages.size, path)


def _corrupt(pages: _Pages, start: int, end: int, path: str) -> LogBlock:
    content = min(start + len(MAGIC), end)
    header = _stated_header(pages, start, end, path)
    return LogBlock(BlockKind.CORRUPT, header, start, end - start, content, end - content)


def _stated_header(pages: _Pages, start: int, end: int, path: str) -> Mapping[HeaderKey | int, str]:
    """The header of a data or delete block that does not frame, as far as it is readable."""
    fields = _Fields(pages, min(start + _PREFIX, end), end, path)
    found: dict[HeaderKey | int, str] = {}
    with suppress(CorruptFileError):
        fields.take(4)  # the version may be damaged
        if _KINDS.get(fields.i32()) is BlockKind.COMMAND:
            return found
        for _ in range(fields.i32()):
            key, length = fields.i32(), fields.i32()
            if length > _STATED_TEXT_MAX:
                break
            found[_HEADER_KEYS.get(key, key)] = fields.take(length).decode("utf-8", "replace")
    return found


def _framed_end(pages: _Pages, at: int) -> int | None:
    """The end of the block at `at`; None if it is truncated or its two lengths disagree."""
    head = pages.read(at + len(MAGIC), 8)
    if len(head) < 8:
        return None
    (length,) = _I64.unpack(head)
    end = at + _PREFIX + length
    if length < _SMALLEST or end > pages.size:
        return None
    tail = pages.read(end - 8, 8 + len(MAGIC))
    if _I64.unpack_from(tail)[0] != length + len(MAGIC):
        return None
    following = tail[8:]
    return end if following == MAGIC or len(following) < len(MAGIC) else None


def _next_magic(pages: _Pages, start: int) -> int:
    """Offset of the first magic at or after `start`, or the size of the file."""
    at = start
    while at < pages.size:
        first = pages.read(at, 4096).find(MAGIC)  # usually the next one is near
        if first >= 0:
            return at + first
        found = pages.read(at, _SEARCH).find(MAGIC)
        if found >= 0:
            return at + found
        at += _SEARCH - len(MAGIC) + 1
    return pages.size


class _Fields:
    """The fields of one framed block, read forward within [at, end)."""

    def __init__(self, pages: _Pages, at: int, end: int, path: str) -> None:
        self._pages = pages
        self._path = path
        self.at = at
        self.end = end

    def take(self, length: int) -> bytes:
        if not 0 <= length <= self.end - self.at:
            raise self.bad("a field of a log block is longer than the block")
        data = self._pages.read(self.at, length)
        self.at += length
        return data

    def i32(self) -> int:
        value: int = _I32.unpack(self.take(4))[0]
        return value

    def i64(self) -> int:
        value: int = _I64.unpack(self.take(8))[0]
        return value

    def mapping(self) -> dict[HeaderKey | int, str]:
        count = self.i32()
        if not 0 <= count * 8 <= self.end - self.at:
            raise self.bad("a log block's header has an invalid entry count")
        entries: dict[HeaderKey | int, str] = {}
        for _ in range(count):
            key = self.i32()
            text = self.take(self.i32())
            try:
                entries[_HEADER_KEYS.get(key, key)] = text.decode()
            except UnicodeDecodeError as broken:
                raise self.bad("a log block's header is not UTF-8") from broken
        return entries

    def bad(self, what: str) -> CorruptFileError:
        return CorruptFileError(what, path=self._path, offset=self.at)


_HEADER_KEYS: Final[dict[int, HeaderKey]] = {int(key): key for key in HeaderKey}
_KINDS: Final[dict[int, BlockKind]] = {
    int(kind): kind for kind in BlockKind if kind is not BlockKind.CORRUPT
}


def _parse(pages: _Pages, at: int, end: int, path: str) -> LogBlock:
    fields = _Fields(pages, at + _PREFIX, end, path)
    version = fields.i32()
    if version == 0:
        raise UnsupportedTableError("log format version 0 is not supported", path=path, offset=at)
    if version != FORMAT_VERSION:
        raise fields.bad("unknown log format version")
    kind = _KINDS.get(fields.i32())
    if kind is None:
        raise fields.bad("unknown kind of log block")
    header = fields.mapping()
    content_length = fields.i64()
    content_offset = fields.at
    if not 0 <= content_length <= fields.end - fields.at:
        raise fields.bad("a log block's content is longer than the block")
    if kind is BlockKind.COMMAND and content_length:
        raise fields.bad("a command block of a log has content")
    fields.at += content_length
    fields.mapping()  # the footer: always empty, and ignored
    fields.i64()
    if fields.at != end:
        raise fields.bad("a log block has trailing bytes")
    return LogBlock(kind, header, at, end - at, content_offset, content_length, version)
