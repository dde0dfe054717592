"""Column ranges and bloom filters of data files, as stored in the metadata table.

What is computed depends on the version of the index (`value_types`); 0 is that of tables of
version 6.  Versions 1 and 2 have ranges of the columns of the index definition alone.

A range: least and greatest value, counts of values and nulls, sizes in the file.  Columns of
version 0 are the meta columns and every primitive that is not inside a list or map, nested ones by
dotted path: each indexed file has entries for all of them, whatever columns Apache Hudi was
configured to index.
Ranges of base files come from their footers; a column without statistics is read.  A log's ranges
cover the rows of its data blocks; a log with only deletes has entries without values.
NaN is the greatest value, as for Apache Hudi and Spark.  Footers that Arrow wrote leave it out, so
floating columns of such files are read.

If a range of a file cannot be represented, the file gets no entries at all: readers do not skip
such files, whereas a missing column of an indexed file would make them skip it.
Source: table_format 9.4, 9.7.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native.hashing import hash_id
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.formats.avro_schema import avro_to_arrow
from pyhudi.formats.base_file import BaseFooter, footer, read_base
from pyhudi.formats.log_block import data_batches
from pyhudi.formats.log_file import BlockKind, LogBlock, read_blocks
from pyhudi.formats.nan_statistics import bounds_cover_nan
from pyhudi.metadata.file_stats.value_types import (
    NULL_ORDINAL,
    V1_DIGITS,
    V1_SCALE,
    ValueType,
    unscaled_bytes,
    value_type,
)
from pyhudi.metadata.payloads import NON_PARTITIONED
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.commit_metadata import WriteStat

_DATA: Final = (BlockKind.AVRO, BlockKind.PARQUET)


FileName = tuple[str, str]
"""(partition path, file name) of a data file."""


class _NotRepresentableError(Exception):
    """A range cannot be represented in the metadata table's types."""


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The range of one column.  wrapper: the Avro branch of low and high.  low, high: None if all
    values are null.  typed: how index version 2 stores them; None in older versions."""

    column: str
    wrapper: str
    low: Any
    high: Any
    value_count: int
    null_count: int
    size_bytes: int = 0
    plain_bytes: int = 0
    typed: ValueType | None = None

    def to_record(self, file_name: str) -> dict[str, Any]:
        def wrapped(value: Any) -> dict[str, Any] | None:
            return None if value is None else {self.wrapper: {"value": value}}

        return {
            "fileName": file_name,
            "columnName": self.column,
            "minValue": wrapped(self.low),
            "maxValue": wrapped(self.high),
            "valueCount": self.value_count,
            "nullCount": self.null_count,
            "totalSize": self.size_bytes,
            "totalUncompressedSize": self.plain_bytes,
            "isDeleted": False,
        }


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The metadata table's entries for one data file; ranges: empty if it has none."""

    partition: str
    file_name: str
    ranges: tuple[ColumnRange, ...]
    bloom_text: str | None
    bloom_kind: str

    @property
    def bloom_key(self) -> str:
        return bloom_key(self.partition, self.file_name)

    def range_key(self, column: str) -> str:
        return range_key(column, self.partition, self.file_name)


def bloom_key(partition: str, file_name: str) -> str:
    """Key of a file in `bloom_filters`; in `column_stats` it follows the column's id."""
    digest = hashlib.md5(file_name.encode(), usedforsecurity=False).digest()
    return hash_id(partition or NON_PARTITIONED) + base64.b64encode(digest).decode()


def range_key(column: str, partition: str, file_name: str) -> str:
    """Key of a column of a file in `column_stats`."""
    return hash_id(column) + bloom_key(partition, file_name)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One data file to index.  fs: rooted at the data table.  version: of the index.  columns: to
    index, as dotted paths; None: all."""

    fs: FileSystem
    stat: WriteStat
    version: int = 0
    columns: frozenset[str] | None = None

    def selected(self, schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
        for column, kind in primitives(schema):
            if self.columns is None or column in self.columns:
                yield column, kind


def index_file(task: IndexedFile) -> FileIndex:
    """Compute the metadata table's entries for a file.  Cost: reads its footer, or a whole log."""
    stat = task.stat
    if isinstance(parse_data_file(stat.file_name), LogFileName):
        ranges = _log_ranges(task)
        return FileIndex(stat.partition, stat.file_name, ranges, None, "")
    found = footer(task.fs, stat.path)
    ranges = _base_ranges(task, found)
    return FileIndex(stat.partition, stat.file_name, ranges, found.bloom_text, found.bloom_kind)


def primitives(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """(dotted path, type) of every primitive that is not inside a list or map."""
    for field in fields:
        path = prefix + field.name
        if pt.is_struct(field.type):
            yield from primitives(field.type, f"{path}.")
        elif not pt.is_nested(field.type):
            yield path, field.type


def _stored_as(kind: pa.DataType, version: int) -> tuple[str, ValueType | None]:
    """(wrapper, V2 type) of the bounds of a column."""
    if version < 2:
        return _wrapper(kind), None
    typed = value_type(kind)
    if typed is None:
        raise _NotRepresentableError
    return typed.wrapper, typed


def _wrapper(kind: pa.DataType) -> str:
    if pt.is_dictionary(kind):
        kind = kind.value_type
    tests = {
        "BooleanWrapper": pt.is_boolean,
        "IntWrapper": lambda t: pt.is_signed_integer(t) and t.bit_width <= 32,
        "LongWrapper": lambda t: pt.is_int64(t) or pt.is_timestamp(t) or pt.is_time64(t),
        "FloatWrapper": pt.is_float32,
        "DoubleWrapper": pt.is_float64,
        "StringWrapper": lambda t: pt.is_string(t) or pt.is_large_string(t),
        "BytesWrapper": lambda t: (
            pt.is_binary(t) or pt.is_large_binary(t) or pt.is_fixed_size_binary(t)
        ),
        "DateWrapper": pt.is_date32,
        "DecimalWrapper": pt.is_decimal,
    }
    if pt.is_time32(kind):
        return "IntWrapper"
    for name, test in tests.items():
        if test(kind):
            return name
    raise _NotRepresentableError


# ---- base files ---------------------------------------------------------------------------------


def _base_ranges(task: IndexedFile, found: BaseFooter) -> tuple[ColumnRange, ...]:
    metadata = found.metadata
    chunks: dict[str, list[Any]] = {}
    covers_nan = bounds_cover_nan(metadata)
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            if metadata.schema.column(number).max_repetition_level == 0:
                chunk = metadata.row_group(group).column(number)
                chunks.setdefault(chunk.path_in_schema, []).append(chunk)
    try:
        return tuple(
            _footer_range(task, column, kind, chunks.get(column, []), covers_nan=covers_nan)
            for column, kind in task.selected(found.schema)
        )
    except _NotRepresentableError:
        return ()


def _footer_range(
    task: IndexedFile, column: str, kind: pa.DataType, chunks: list[Any], *, covers_nan: bool
) -> ColumnRange:
    sizes = {
        "size_bytes": sum(c.total_compressed_size for c in chunks),
        "plain_bytes": sum(c.total_uncompressed_size for c in chunks),
    }
    count = sum(c.num_values for c in chunks)
    wrapper, typed = _stored_as(kind, task.version)
    nulls = 0
    lows, highs = [], []
    if pt.is_floating(kind) and not covers_nan:
        return _read_range(task, column, kind, sizes)
    for chunk in chunks:
        found = chunk.statistics
        if found is None or not found.has_null_count:
            return _read_range(task, column, kind, sizes)
        nulls += found.null_count
        if found.has_min_max:
            lows.append(_from_raw(found.min_raw, kind, task.version))
            highs.append(_from_raw(found.max_raw, kind, task.version))
        elif found.null_count < chunk.num_values:
            return _read_range(task, column, kind, sizes)
    by = _unscaled if pt.is_decimal(kind) and task.version >= 2 else None
    if any(bound != bound for bound in (*lows, *highs)):  # NaN
        return _read_range(task, column, kind, sizes)
    low, high = min(lows, default=None, key=by), max(highs, default=None, key=by)
    return ColumnRange(column, wrapper, low, high, count, nulls, **sizes, typed=typed)


def _unscaled(number: bytes) -> int:
    return int.from_bytes(number, "big", signed=True)


def _from_raw(value: Any, kind: pa.DataType, version: int) -> Any:
    """A footer value converted to the type of its wrapper."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_decimal(kind):
        number = value if isinstance(value, int) else _unscaled(value)
        if version >= 2:
            return unscaled_bytes(number)
        return _decimal(Decimal(number).scaleb(-kind.scale))
    if pt.is_string(kind) or pt.is_large_string(kind):
        return value if isinstance(value, str) else value.decode()
    return value


def _read_range(
    task: IndexedFile, column: str, kind: pa.DataType, sizes: dict[str, int]
) -> ColumnRange:
    top, *inner = column.split(".")
    values = _inner(read_base(task.fs, task.stat.path, columns=[top]).column(0), inner)
    return _range_of(column, kind, values, sizes, task.version)


# ---- logs ---------------------------------------------------------------------------------------


def log_rows(fs: FileSystem, path: str) -> pa.Table:
    """The rows of a log's data blocks, with the columns that the blocks have."""
    file = fs.open(path)
    try:
        blocks = read_blocks(file, path=path)
        tables = [data_batches(b, file, path=path) for b in blocks if b.kind in _DATA]
    finally:
        file.close()
    return pa.concat_tables(tables, promote_options="permissive") if tables else _no_rows(blocks)


def _log_ranges(task: IndexedFile) -> tuple[ColumnRange, ...]:
    if task.columns is not None and not task.columns:
        return ()
    rows = log_rows(task.fs, task.stat.path)
    try:
        return tuple(
            _in_log(_range_of(column, kind, _inner(rows.column(top), inner), {}, task.version))
            for column, kind in task.selected(rows.schema)
            for top, *inner in [column.split(".")]
        )
    except _NotRepresentableError:
        return ()


def _in_log(found: ColumnRange) -> ColumnRange:
    """A range as Apache Hudi states it for a log: without values it has the type NULL."""
    if found.typed is None or found.low is not None:
        return found
    return replace(found, typed=ValueType(NULL_ORDINAL, found.wrapper))


def _no_rows(blocks: list[LogBlock]) -> pa.Table:
    """An empty table with the columns of the log's writer schema."""
    text = next((block.schema for block in blocks if block.schema), None)
    return pa.table({}) if text is None else avro_to_arrow(text).empty_table()


def _inner(column: pa.ChunkedArray, path: list[str]) -> pa.ChunkedArray:
    """The values at a path into structs; null where an enclosing struct is null."""
    return pc.struct_field(column, path) if path else column


def range_of_values(
    column: str, values: pa.ChunkedArray, size_bytes: int, version: int
) -> ColumnRange:
    """The range of a function's values in a file, in the type of the values."""
    sizes = {"size_bytes": size_bytes, "plain_bytes": size_bytes}
    return _range_of(column, values.type, values, sizes, version)


def _range_of(
    column: str, kind: pa.DataType, values: pa.ChunkedArray, sizes: dict[str, int], version: int
) -> ColumnRange:
    wrapper, typed = _stored_as(kind, version)
    if pt.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = kind.value_type
    found: dict[str, Any] = {"min": None, "max": None}
    if values.null_count < len(values):
        bounds = pc.min_max(values)
        found = {name: _plain(bounds[name], kind, version) for name in ("min", "max")}
        if pt.is_floating(kind) and pc.any(pc.is_nan(values)).as_py():
            found["max"] = float("nan")
            found["min"] = found["max"] if pc.all(pc.is_nan(values)).as_py() else found["min"]
    return ColumnRange(
        column,
        wrapper,
        found["min"],
        found["max"],
        len(values),
        values.null_count,
        **sizes,
        typed=typed,
    )


def _plain(value: pa.Scalar, kind: pa.DataType, version: int) -> Any:
    """A scalar converted to the type of its wrapper."""
    if pt.is_date32(kind) or pt.is_time32(kind):
        return value.cast(pa.int32()).as_py()
    if pt.is_timestamp(kind) or pt.is_time64(kind):
        return value.cast(pa.int64()).as_py()
    if pt.is_decimal(kind):
        if version < 2:
            return _decimal(value.as_py())
        sign, digits, _ = value.as_py().as_tuple()
        number = int("".join(map(str, digits)))
        return unscaled_bytes(-number if sign else number)
    return value.as_py()


def _decimal(value: Decimal) -> Decimal:
    """`value` at V1_SCALE, exactly.  Raises _NotRepresentableError if that loses digits."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise CorruptFileError("a decimal is not a number", value=value)
    shift = exponent + V1_SCALE
    number = int("".join(map(str, digits)))
    if shift < 0:
        number, rest = divmod(number, 10**-shift)
        if rest:
            raise _NotRepresentableError
    else:
        number *= 10**shift
    if number >= 10**V1_DIGITS:
        raise _NotRepresentableError
    text = str(number).rjust(V1_SCALE + 1, "0")
    return Decimal(f"{'-' * sign}{text[:-V1_SCALE]}.{text[-V1_SCALE:]}")
