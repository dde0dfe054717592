"""Avro container files: their blocks as Arrow batches.

```
"Obj" 1 | map: avro.schema, avro.codec | 16 bytes of sync
block   | count (zigzag) | size (zigzag) | rows, compressed | sync
```

A block is decoded in one step: with its count in front and a 0 at its end it is the encoding of an
Avro array of rows.  Source: Avro 1.11 specification, "Object Container Files".
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi._native.avro.codec import AvroCodec
from pyhudi.errors import CorruptFileError

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_CRC_BYTES: Final = 4
"""After a block that is compressed with Snappy."""
_VARINT_BYTES_MAX: Final = 10
_BLOCK_BYTES_MAX: Final = (1 << 31) - 64


@dataclass(frozen=True, slots=True)
class _Header:
    codec: AvroCodec  # of a record with one column, the list of the rows of a block
    compression: str
    sync: bytes

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self.codec.arrow_schema.field(0).type.value_type))


def avro_facts(file: Any, path: str, *, count: bool) -> tuple[pa.Schema, int | None]:
    """The columns; the number of rows if `count`, for which the blocks are skipped over.

    Raises CorruptFileError, and UnsupportedTableError for a schema that Arrow cannot represent.
    """
    header = _read_header(file, path)
    if not count:
        return header.schema, None
    rows = 0
    while (block := _block_start(file, path)) is not None:
        rows += block[0]
        file.seek(file.tell() + block[1])
        _check_sync(file, header, path)
    return header.schema, rows


def avro_batches(file: Any, path: str) -> Iterator[pa.RecordBatch]:
    """The rows, one batch a block.  Raises CorruptFileError."""
    header = _read_header(file, path)
    while (block := _block_start(file, path)) is not None:
        count, size = block
        data = _exactly(file, size, path)
        _check_sync(file, header, path)
        rows = _decompressed(data, header.compression, path)
        if count:
            datum = _zigzag(count) + rows + b"\0"
            found = header.codec.decode_column(pa.array([datum], pa.large_binary()), path=path)
            yield pa.RecordBatch.from_struct_array(found.field(0).flatten())


def _read_header(file: Any, path: str) -> _Header:
    if _exactly(file, len(_MAGIC), path) != _MAGIC:
        raise CorruptFileError("not an Avro file: it has another beginning", path=path)
    meta: dict[str, bytes] = {}
    while count := _long(file, path):
        if count < 0:
            count = -count
            _long(file, path)  # the size of this part of the map
        for _ in range(count):
            name = _exactly(file, _size(file, path), path).decode("utf-8", "replace")
            meta[name] = _exactly(file, _size(file, path), path)
    sync = _exactly(file, _SYNC_BYTES, path)
    schema = meta.get("avro.schema", b"").decode("utf-8", "replace")
    wrapped = (
        '{"type":"record","name":"pyhudi_block","fields":'
        f'[{{"name":"rows","type":{{"type":"array","items":{schema}}}}}]}}'
    )
    codec = AvroCodec(wrapped)
    if not pa.types.is_struct(codec.arrow_schema.field(0).type.value_type):
        raise CorruptFileError("the values of the Avro file are not records", path=path)
    return _Header(codec, meta.get("avro.codec", b"null").decode("utf-8", "replace"), sync)


def _block_start(file: Any, path: str) -> tuple[int, int] | None:
    """Count and size of the next block; None at the end."""
    if file.tell() == file.size():
        return None
    count = _long(file, path)
    if count < 0:
        raise CorruptFileError("a block of the Avro file has a negative count", path=path)
    return count, _size(file, path)


def _check_sync(file: Any, header: _Header, path: str) -> None:
    if _exactly(file, _SYNC_BYTES, path) != header.sync:
        raise CorruptFileError("a block of the Avro file has no end mark", path=path)


def _decompressed(data: bytes, compression: str, path: str) -> bytes:
    try:
        match compression:
            case "null":
                return data
            case "deflate":
                return zlib.decompress(data, -zlib.MAX_WBITS)
            case "snappy":
                size = _long(io.BytesIO(data), path, zigzag=False)
                _check_size(size, path)
                rows = bytes(pa.decompress(data[:-_CRC_BYTES], size, "snappy", asbytes=True))
                if zlib.crc32(rows) != int.from_bytes(data[-_CRC_BYTES:], "big"):
                    raise ValueError("the checksum is not that of the rows")
                return rows
            case "zstandard":
                with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                    return bytes(stream.read())
            case "bzip2":
                return bz2.decompress(data)
            case "xz":
                return lzma.decompress(data)
    except (zlib.error, lzma.LZMAError, EOFError, ValueError, OSError) as error:
        raise CorruptFileError(
            "a block of the Avro file cannot be decompressed", path=path, reason=str(error)
        ) from error
    raise CorruptFileError("the codec of the Avro file is not known", path=path, codec=compression)


def _exactly(file: Any, size: int, path: str) -> bytes:
    data: bytes = file.read(size)
    if len(data) < size:
        raise CorruptFileError("the Avro file ends early", path=path)
    return data


def _size(file: Any, path: str) -> int:
    return _check_size(_long(file, path), path)


def _check_size(size: int, path: str) -> int:
    if not 0 <= size <= _BLOCK_BYTES_MAX:
        raise CorruptFileError("a part of the Avro file has an invalid size", path=path, size=size)
    return size


def _long(file: Any, path: str, *, zigzag: bool = True) -> int:
    """A number of up to 10 bytes with 7 bits each, lowest first."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = _exactly(file, 1, path)[0]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1) if zigzag else value
    raise CorruptFileError("a number of the Avro file does not end", path=path)


def _zigzag(count: int) -> bytes:
    value = count << 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
