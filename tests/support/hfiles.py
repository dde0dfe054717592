"""HFiles of every dialect, written in plain Python from storage_format 1: an independent twin of
the writer that can also make what the writer refuses (levels, checksums, tags, duplicates)."""

from __future__ import annotations

import binascii
import itertools
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

Cell = tuple[bytes, bytes]
SUFFIX = b"\0" + b"\x7f" + b"\xff" * 7 + b"\4"
FAKE_SUFFIX = b"\0" + b"\x7f" + b"\xff" * 7 + b"\xff"
CHUNK = 16384


def crc32c(data: bytes) -> int:
    """Bit by bit, from the definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def hvint(value: int) -> bytes:
    if -112 <= value <= 127:
        return struct.pack("b", value)
    magnitude = value if value >= 0 else ~value
    body = magnitude.to_bytes((magnitude.bit_length() + 7) // 8 or 1, "big")
    return struct.pack("b", (-112 if value >= 0 else -120) - len(body)) + body


def uvarint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def proto(*fields: tuple[int, int | bytes]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += uvarint(number << 3 | 2) + uvarint(len(value)) + value
        else:
            out += uvarint(number << 3) + uvarint(value)
    return out


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written; the default is that of HBase (dialect H)."""

    gz: bool = True
    checksum: int = 2
    levels: int = 1
    block_cells: int = 10
    node_entries: int = 3
    suffix: bool = True  # index keys end with type and time
    cell_suffix: bool = True  # keys of cells do
    sums: bool = True  # blocks have room for checksums
    versioned: bool = True  # FILE_INFO tells that cells have mvcc
    fake_first_keys: bool = False
    size_of_key: Callable[[int], bytes] = hvint
    mvcc: Sequence[int] | None = (0,)  # cycled through; None writes none
    tags: bytes | None = None
    minor: int = 3
    last_key: bool = True
    info: dict[bytes, bytes] = field(default_factory=dict)
    metas: dict[bytes, bytes] = field(default_factory=dict)


H = Dialect()
N1 = Dialect(checksum=0, suffix=False, size_of_key=uvarint, minor=0)
N2 = Dialect(checksum=0, minor=0)
N0 = replace(N1, cell_suffix=False, sums=False, versioned=False)
"""Of pre-release writers of Apache Hudi 1.1."""


def split(cells: Sequence[Cell], most: int) -> list[list[Cell]]:
    """Blocks of `most` rows; equal rows stay together."""
    rows = [list(group) for _, group in itertools.groupby(cells, key=lambda cell: cell[0])]
    return [
        list(itertools.chain.from_iterable(rows[i : i + most])) for i in range(0, len(rows), most)
    ]


def fake_first(last: bytes, first: bytes) -> bytes:
    """HBase's shortest separator, with its signed comparison."""
    common = next((i for i, (a, b) in enumerate(zip(last, first, strict=False)) if a != b), None)
    if common is None:
        return first[: min(len(last), len(first)) + 1]
    byte = last[common]
    signed = byte - 256 if byte > 127 else byte
    if byte < 255 and signed + 1 < first[common]:
        return last[:common] + bytes([byte + 1])
    return first[: common + 1]


class _File:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.data = bytearray()
        self.previous: dict[bytes, int] = {}

    def block(self, magic: bytes, body: bytes) -> tuple[int, int]:
        """(offset, size) of the block appended."""
        offset = len(self.data)
        packed = zlib.compress(body, 6, 31) if self.dialect.gz else body
        summed = 33 + len(packed)
        sum_count = -(-summed // CHUNK) if self.dialect.sums else 0
        header = magic + struct.pack(
            ">iiqBii",
            len(packed) + 4 * sum_count,
            len(body),
            self.previous.get(magic, -1),
            self.dialect.checksum,
            CHUNK,
            summed,
        )
        block = header + packed
        sum_of = {0: lambda _: 0, 1: binascii.crc32, 2: crc32c}[self.dialect.checksum]
        sums = [sum_of(block[i : i + CHUNK]) for i in range(0, len(block), CHUNK)]
        self.data += block + b"".join(struct.pack(">I", s) for s in sums[:sum_count])
        self.previous[magic] = offset
        return offset, len(self.data) - offset


def data_body(cells: Sequence[Cell], dialect: Dialect) -> bytes:
    versions = itertools.cycle(dialect.mvcc or ())
    out = b""
    for row, value in cells:
        key = struct.pack(">h", len(row)) + row + (SUFFIX if dialect.cell_suffix else b"")
        out += struct.pack(">ii", len(key), len(value)) + key + value
        if dialect.tags is not None:
            out += struct.pack(">H", len(dialect.tags)) + dialect.tags
        if dialect.mvcc is not None:
            out += hvint(next(versions))
    return out


def node(entries: Sequence[tuple[int, int, bytes]]) -> bytes:
    parts = [struct.pack(">qi", offset, size) + key for offset, size, key in entries]
    ends = list(itertools.accumulate(map(len, parts), initial=0))
    table = struct.pack(">i", len(parts)) + struct.pack(f">{len(ends)}i", *ends)
    return table + b"".join(parts)


def build(cells: Sequence[Cell], dialect: Dialect = H) -> bytes:
    """A whole HFile.  cells: in row order."""
    file = _File(dialect)
    entries, leaves = _data_blocks(file, cells)
    metas = []
    for name, body in sorted(dialect.metas.items()):
        offset, size = file.block(b"METABLKc", body)
        metas.append((offset, size, name))
    first = entries[0][0] if entries else -1
    last = entries[-1][0] if entries else -1
    roots = leaves if dialect.levels > 1 else entries
    for _ in range(dialect.levels - 2):
        groups = [
            roots[i : i + dialect.node_entries] for i in range(0, len(roots), dialect.node_entries)
        ]
        roots = [(*file.block(b"IDXINTE2", node(group)), group[0][2]) for group in groups]
    load_on_open = len(file.data)
    body = b"".join(
        struct.pack(">qi", offset, size) + dialect.size_of_key(len(key)) + key
        for offset, size, key in roots
    )
    file.block(b"IDXROOT2", body + (bytes(16) if dialect.levels > 1 else b""))
    file.block(
        b"IDXROOT2",
        b"".join(struct.pack(">qi", o, s) + dialect.size_of_key(len(n)) + n for o, s, n in metas),
    )
    info_at = len(file.data)
    file.block(b"FILEINF2", _info(cells, dialect))
    trailer = proto(
        (1, info_at), (2, load_on_open), (3, 0), (4, 0), (5, len(roots)), (6, len(metas)),
        (7, len(cells)), (8, dialect.levels), (9, first), (10, last), (11, b"comparator"),
        (12, 1 if dialect.gz else 2),
    )  # fmt: skip
    head = b'TRABLK"$' + uvarint(len(trailer)) + trailer
    return bytes(file.data) + head.ljust(4092, b"\0") + bytes([dialect.minor, 0, 0, 3])


def _data_blocks(
    file: _File, cells: Sequence[Cell]
) -> tuple[list[tuple[int, int, bytes]], list[tuple[int, int, bytes]]]:
    """Entries of the DATA blocks, and of the LEAF blocks written between them."""
    dialect = file.dialect
    entries: list[tuple[int, int, bytes]] = []
    leaves: list[tuple[int, int, bytes]] = []
    waiting: list[tuple[int, int, bytes]] = []
    last_row = None
    for block in split(cells, dialect.block_cells):
        row = block[0][0]
        suffix = SUFFIX if dialect.suffix else b""
        if dialect.fake_first_keys and last_row is not None:
            row, suffix = fake_first(last_row, row), FAKE_SUFFIX
        offset, size = file.block(b"DATABLK*", data_body(block, dialect))
        entries.append((offset, size, struct.pack(">h", len(row)) + row + suffix))
        waiting.append(entries[-1])
        last_row = block[-1][0]
        if dialect.levels > 1 and len(waiting) == dialect.node_entries:
            leaves.append((*file.block(b"IDXLEAF2", node(waiting)), waiting[0][2]))
            waiting = []
    if dialect.levels > 1 and waiting:
        leaves.append((*file.block(b"IDXLEAF2", node(waiting)), waiting[0][2]))
    return entries, leaves


def _info(cells: Sequence[Cell], dialect: Dialect) -> bytes:
    info = {
        b"hfile.AVG_KEY_LEN": b"\0\0\0\x1e",
        b"hfile.AVG_VALUE_LEN": b"\0\0\0\x14",
        **dialect.info,
    }
    if dialect.mvcc is not None and dialect.versioned:
        info |= {b"KEY_VALUE_VERSION": b"\0\0\0\1", b"MAX_MEMSTORE_TS_KEY": bytes(8)}
    if dialect.tags is not None:
        info[b"hfile.MAX_TAGS_LEN"] = struct.pack(">i", len(dialect.tags))
    if cells and dialect.last_key:
        row = cells[-1][0]
        info[b"hfile.LASTKEY"] = (
            struct.pack(">h", len(row)) + row + (SUFFIX if dialect.suffix else b"")
        )
    message = b"".join(proto((1, proto((1, k), (2, v)))) for k, v in info.items())
    return b"PBUF" + uvarint(len(message)) + message


def with_(dialect: Dialect, **changes: object) -> Dialect:
    return replace(dialect, **changes)  # type: ignore[arg-type]
