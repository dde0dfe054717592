"""Contents of the blocks of a log file: rows, deletes, commands.

    AVRO, CDC   i32 version 1..3, i32 count, count x {i32 length, Avro datum of the header's SCHEMA}
    PARQUET     a Parquet file; empty content if there are no rows
    HFILE       an HFile: key -> Avro datum
    DELETE      see delete_block.py
    COMMAND     empty; everything is in the header

Source: storage_format 2.5.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi._native import AvroCodec, HFileReader
from pyhudi.errors import CorruptFileError, UserError
from pyhudi.formats.base_file import read_parquet
from pyhudi.formats.column_encoding import shared_plan, writer_options
from pyhudi.formats.delete_block import DELETE_VERSION, encode_deletes
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, write_block
from pyhudi.formats.logical_types import filled_variants, footer_entries
from pyhudi.formats.nan_statistics import NanColumns, nan_entries, without_bounds
from pyhudi.formats.record_positions import RecordPositions, position_headers
from pyhudi.formats.schema_conform import conform
from pyhudi.storage.filesystem import RandomAccess
from pyhudi.storage.inline_file import Window
from pyhudi.storage.seekable_file import as_pyarrow_file

_DATA_VERSION: Final = 3
_HEAD = struct.Struct(">ii")


@lru_cache(maxsize=64)
def _codec(schema: str) -> AvroCodec:
    return AvroCodec(schema)


def data_batches(
    block: LogBlock, file: RandomAccess, *, path: str, columns: list[str] | None = None
) -> pa.Table:
    """The rows of a data block in its writer's schema, in block order.

    columns: top-level names in the requested order; those the block lacks are omitted, as are those
    that a block of partial updates (`is_partial`) does not change.  An HFILE
    block returns [key: binary, value: binary] regardless of `columns`.
    Raises CorruptFileError, UnsupportedTableError.
    """
    match block.kind:
        case BlockKind.AVRO | BlockKind.CDC:
            return _avro_rows(block, file, path, columns)
        case BlockKind.PARQUET:
            return _parquet_rows(block, file, path, columns)
        case BlockKind.HFILE:
            with HFileReader(_window(block, file), path_for_errors=path) as reader:
                return reader.scan().read_all()
        case _:
            raise UserError("not a data block", kind=block.kind.name, path=path)


def read_content(block: LogBlock, file: RandomAccess) -> bytes:
    return file.read_at(block.content_offset, block.content_length)


def encode_data(
    rows: pa.Table, *, kind: BlockKind, avro_schema: str, instant: str = ""
) -> pa.Buffer:
    """The content of a data block.

    rows: columns are matched by name and fitted to the schema.  kind: AVRO, PARQUET or CDC.
    instant: of the write, whose Parquet blocks have the same encodings.
    """
    codec = _codec(avro_schema)
    fitted = conform(rows, codec.arrow_schema)
    if kind is BlockKind.PARQUET:
        return _parquet_content(filled_variants(fitted, avro_schema), avro_schema, instant)
    if kind not in (BlockKind.AVRO, BlockKind.CDC):
        raise UserError("rows are logged as Avro or Parquet", kind=kind.name)
    batches = fitted.combine_chunks().to_batches()
    body = [codec.encode_framed(batch) for batch in batches]
    return pa.py_buffer(b"".join([_HEAD.pack(_DATA_VERSION, fitted.num_rows), *body]))


def data_block(
    rows: pa.Table,
    *,
    kind: BlockKind,
    instant: str,
    avro_schema: str,
    merged: Sequence[str] = (),
    positions: RecordPositions | None = None,
    is_partial: bool = False,
) -> bytes:
    """A whole block of rows, written by the delta commit `instant`.

    merged: instants whose blocks this one replaces, newest first.  positions: of the rows in the
    base file, in their order.  is_partial: the rows have only the columns that they change.
    """
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: avro_schema, **_merged(merged)}
    if is_partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    header |= _positioned(positions, rows.num_rows)
    content = encode_data(rows, kind=kind, avro_schema=avro_schema, instant=instant)
    return write_block(kind, header, content)


def _merged(instants: Sequence[str]) -> dict[HeaderKey, str]:
    return {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(instants)} if instants else {}


def _positioned(positions: RecordPositions | None, count: int) -> dict[HeaderKey, str]:
    if positions is not None and len(positions.rows) != count:
        raise UserError(
            "a block needs one position for each record",
            records=count,
            positions=len(positions.rows),
        )
    return position_headers(positions)


def delete_block(
    keys: Any,
    partition_path: Any,
    ordering: pa.Array | None,
    *,
    instant: str,
    avro_schema: str | None = None,
    merged: Sequence[str] = (),
    positions: RecordPositions | None = None,
) -> bytes:
    """A whole block of deletes; the arguments are those of `encode_deletes` and `data_block`."""
    header = {HeaderKey.INSTANT_TIME: instant, **_merged(merged)}
    if avro_schema is not None:
        header[HeaderKey.SCHEMA] = avro_schema
    header |= _positioned(positions, len(keys))
    return write_block(BlockKind.DELETE, header, encode_deletes(keys, partition_path, ordering))


def rollback_block(instant: str, target: str) -> bytes:
    """The command by which `instant` rolls back what `target` wrote earlier to the slice."""
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
        HeaderKey.TARGET_INSTANT_TIME: target,
    }
    return write_block(BlockKind.COMMAND, header, b"")


def empty_delete_block(instant: str) -> bytes:
    """The block that creates a file group of the metadata table."""
    content = _HEAD.pack(DELETE_VERSION, 1) + b"\0"
    return write_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)


def _window(block: LogBlock, file: RandomAccess) -> Window:
    return Window(file, block.content_offset, block.content_length)


def _writer_schema(block: LogBlock, path: str) -> str:
    if block.schema is None:
        raise CorruptFileError("a data block has no schema", path=path, offset=block.offset)
    return block.schema


def _present(columns: list[str], schema: pa.Schema) -> list[str]:
    return [name for name in columns if name in schema.names]


def _avro_rows(
    block: LogBlock, file: RandomAccess, path: str, columns: list[str] | None
) -> pa.Table:
    codec = _codec(_writer_schema(block, path))
    content = read_content(block, file)
    if len(content) < _HEAD.size:
        raise CorruptFileError("truncated head of a data block", path=path, offset=block.offset)
    version, count = _HEAD.unpack_from(content)
    if not 1 <= version <= _DATA_VERSION:
        raise CorruptFileError("unknown version of a data block", path=path, version=version)
    if not 0 <= count * 4 <= len(content) - _HEAD.size:
        raise CorruptFileError("invalid row count in a data block", path=path, count=count)
    names = None if columns is None else _present(columns, codec.arrow_schema)
    body = memoryview(content)[_HEAD.size :]
    batch = codec.decode_framed(body, count, fields=names, path=path)
    table = pa.Table.from_batches([batch])
    return table if names is None else table.select(names)


def _parquet_rows(
    block: LogBlock, file: RandomAccess, path: str, columns: list[str] | None
) -> pa.Table:
    if block.content_length == 0:
        nothing = _codec(_writer_schema(block, path)).arrow_schema.empty_table()
        return nothing if columns is None else nothing.select(_present(columns, nothing.schema))
    with as_pyarrow_file(_window(block, file)) as source:
        return read_parquet(source, path=path, columns=columns)


def _parquet_content(rows: pa.Table, avro_schema: str, instant: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    nan = NanColumns(rows.schema)
    nan.see(rows)
    options = writer_options(rows, plan=shared_plan(instant, rows))
    with pq.ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(rows)
        more = footer_entries(avro_schema) | nan_entries(rows.schema)
        writer.add_key_value_metadata(
            {"parquet.avro.schema": avro_schema, "writer.model.name": "avro", **more}
        )
    content = sink.getvalue()
    return pa.py_buffer(without_bounds(content.to_pybytes(), nan.found)) if nan.found else content
