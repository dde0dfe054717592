"""The class AvroCodec, which decodes and encodes rows of one compiled schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pyhudi._native.avro.decode import Decoder
from pyhudi._native.avro.encode import Encoder
from pyhudi._native.avro.types import parse_schema
from pyhudi.errors import UserError


class AvroCodec:
    """Reads and writes Avro datums of one record schema, without a Python object per row.

    schema_json: the schema as text; see `types.py` for the Arrow types of its values.
    Immutable; calls drop the GIL and may run in several threads; pickles by its text.

    Raises CorruptFileError for text that is not a record schema, UnsupportedTableError for a schema
    that Arrow columns cannot represent (recursive, or over the bounds in `types.py`).
    """

    def __init__(self, schema_json: str) -> None:
        self.schema_json = schema_json
        self._root = parse_schema(schema_json)
        self._decoder = Decoder(self._root)
        self._encoder = Encoder(self._root)
        self._positions = {field.name: i for i, field in enumerate(self._root.fields)}
        self.arrow_schema = pa.schema([field.arrow for field in self._root.fields])

    def __reduce__(self) -> tuple[type[AvroCodec], tuple[str]]:
        return (AvroCodec, (self.schema_json,))

    def decode_framed(
        self,
        data: object,
        count: int,
        *,
        fields: Sequence[str] | None = None,
        path: str | None = None,
    ) -> pa.RecordBatch:
        """Rows of `count` frames, each a big-endian i32 length and that many bytes of datum.

        data: bytes-like, filled exactly by the frames.  fields: top-level names, also the order of
        the columns; None means all.  Other fields are skipped; bytes after the last requested
        field are not read.  path: named in errors.

        Raises CorruptFileError for bytes that are not such rows, UserError for an unknown field.
        """
        positions = self._selected_positions(fields)
        arrays, _, rows = self._decoder.decode_framed(data, count, positions, path)
        if not positions:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self._projected(positions))

    def decode_column(
        self,
        values: pa.Array | pa.ChunkedArray,
        *,
        fields: Sequence[str] | None = None,
        path: str | None = None,
    ) -> pa.StructArray:
        """One row per slot of a binary or large_binary column; a null slot is a null row.

        fields, path, errors: as in `decode_framed`.  Under a null row a non-nullable column
        contains zeros or empty strings; `StructArray.flatten` shows nulls there.
        """
        positions = self._selected_positions(fields)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
            raise UserError("datums come as a binary column", type=values.type)
        arrays, validity, rows = self._decoder.decode_column(values, positions, path)
        return pa.Array.from_buffers(
            pa.struct(list(self._projected(positions))), rows, [validity], children=arrays
        )

    def encode_column(self, rows: pa.RecordBatch | pa.StructArray) -> pa.BinaryArray:
        """One datum per row; a null row of a struct array is a null slot.

        Columns are matched by name, in any order, and cast if Arrow can do so without loss; large
        types and dictionaries are accepted.  A missing column is null, or the field's default.  A
        general union is a struct of its branches with one value per row, as returned by decoding.

        Raises SchemaError, with column and row, for rows the schema cannot represent, UserError
        for over 2 GiB of datums.
        """
        encoded: pa.BinaryArray = self._encoder.encode_column(rows)
        return encoded

    def encode_framed(self, rows: pa.RecordBatch | pa.StructArray) -> bytes:
        """Each row's datum after its length as a big-endian i32; otherwise as `encode_column`."""
        return self._encoder.encode_framed(rows)

    def _selected_positions(self, fields: Sequence[str] | None) -> list[int]:
        if fields is None:
            return list(range(len(self._positions)))
        unknown = [name for name in fields if name not in self._positions]
        if unknown:
            raise UserError("the Avro schema has no such field", fields=unknown)
        return [self._positions[name] for name in dict.fromkeys(fields)]

    def _projected(self, positions: list[int]) -> pa.Schema:
        return pa.schema([self.arrow_schema.field(i) for i in positions])
