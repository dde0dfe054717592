"""Encoding and codec of each column of a Parquet file, chosen from a sample.

Candidates are those that Apache Hudi on Spark reads correctly (writer_conformance 4).  The choice
favours speed of writes and reads at a size below Snappy's; `bench/base_file.py` measures it:

- few distinct values: dictionary;
- integers, dates, times: DELTA_BINARY_PACKED uncompressed, which is smaller than zstd over plain
  values and several times faster;
- floats that do not compress: plain, uncompressed;
- strings of equal length (keys): DELTA_LENGTH_BYTE_ARRAY, whose lengths then cost nothing;
- strings with long common prefixes: DELTA_BYTE_ARRAY, which leaves less for zstd;
- other strings: plain under zstd;
- files of few rows: by type, see `_small_plan`.

A choice takes half a millisecond a column.  Files whose rows are like those of another one take its
choice: the next base file of a group (`stored_plan`), the log blocks and the small base files of
one write (`shared_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

PAGE_ROWS: Final = 1 << 17
PAGE_BYTES: Final = 1 << 20
"""Rows per page: few, large pages; readers skip by row group."""

_SAMPLE_SLICES: Final = 3
_SAMPLE_SLICE_ROWS: Final = 1024
_SAMPLE_ROWS_MIN: Final = 1024  # with fewer rows a choice costs more than it saves
_INCOMPRESSIBLE: Final = 0.9
_WRITER: Final = "parquet-cpp-arrow"


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """encoding: None is a dictionary, with plain pages if it grows too large."""

    encoding: str | None
    compressed: bool = True


DICTIONARY: Final = ColumnEncoding(None)
_RAW: Final = ColumnEncoding(None, compressed=False)
PLAIN: Final = ColumnEncoding("PLAIN")
PLAIN_RAW: Final = ColumnEncoding("PLAIN", compressed=False)
DELTA_INTEGERS: Final = ColumnEncoding("DELTA_BINARY_PACKED", compressed=False)
DELTA_LENGTHS: Final = ColumnEncoding("DELTA_LENGTH_BYTE_ARRAY")
DELTA_STRINGS: Final = ColumnEncoding("DELTA_BYTE_ARRAY")


def encoding_plan(schema: pa.Schema, sample: pa.Table) -> dict[str, ColumnEncoding]:
    """Parquet column path -> encoding.  Pure; well under a millisecond per column.

    sample: some of the rows to be written (see `sample_rows`), in their order.
    """
    if sample.num_rows < _SAMPLE_ROWS_MIN:
        return _small_plan(schema)
    plan = {}
    for field in schema:
        if pt.is_nested(field.type):
            plan.update(dict.fromkeys(_leaves(field), DICTIONARY))
        else:
            plan[field.name] = _choose(field.type, sample.column(field.name))
    return plan


def _small_plan(schema: pa.Schema) -> dict[str, ColumnEncoding]:
    """The plan of a small file, by types alone, with few calls of the codec: one costs more than to
    write the column.  A dictionary is a page of its own, so texts are plain, nested values
    compressed dictionaries, and others dictionaries that are not compressed."""
    plan = {}
    for field in schema:
        if pt.is_nested(field.type):
            plan.update(dict.fromkeys(_leaves(field), DICTIONARY))
        else:
            is_text = pt.is_string(field.type) or pt.is_binary(field.type)
            plan[field.name] = PLAIN if is_text else _RAW
    return plan


def sample_rows(rows: pa.Table) -> pa.Table:
    """A few runs of consecutive rows; all rows of a small table."""
    stretch = rows.num_rows // _SAMPLE_SLICES
    if stretch <= _SAMPLE_SLICE_ROWS:
        return rows
    starts = range(0, stretch * _SAMPLE_SLICES, stretch)
    return pa.concat_tables([rows.slice(start, _SAMPLE_SLICE_ROWS) for start in starts])


def stored_plan(
    stored: pq.FileMetaData, schema: pa.Schema, row_count: int
) -> dict[str, ColumnEncoding] | None:
    """The plan by which a file was written, for the one that replaces it.

    stored: the footer of the replaced file; schema, row_count: of the new one.  None if a new
    choice is due: the file is of another writer, has other columns, one without values or none that
    is compressed, or the new one has twice its rows.  Cost: a few microseconds a column.
    """
    if not str(stored.created_by or "").startswith(_WRITER):
        return None
    if stored.num_rows < _SAMPLE_ROWS_MIN or row_count >= 2 * stored.num_rows:
        return None
    group = stored.row_group(0)
    plan: dict[str, ColumnEncoding] = {}
    for column in map(group.column, range(group.num_columns)):
        figures = column.statistics
        if figures is None or figures.null_count == column.num_values:
            return None
        delta = next((name for name in column.encodings if name.startswith("DELTA_")), "PLAIN")
        plan[column.path_in_schema] = ColumnEncoding(
            None if column.has_dictionary_page else delta,
            compressed=column.compression != "UNCOMPRESSED",
        )
    names = {path.partition(".")[0] for path in plan}
    if names != set(schema.names) or not any(each.compressed for each in plan.values()):
        return None
    return plan


def shared_plan(write: str, rows: pa.Table) -> Mapping[str, ColumnEncoding] | None:
    """The plan that the parts of one write with these columns share: of the first with enough rows
    for a choice.  None for fewer rows.

    write: names the write, the same in each call for it; empty: nothing is shared.  Threads that
    ask together may choose twice; the same rows give the same plan.
    """
    if not write or rows.num_rows < _SAMPLE_ROWS_MIN:
        return None
    key = write, rows.schema
    plan = _shared.get(key)
    if plan is None:
        plan = encoding_plan(rows.schema, sample_rows(rows))
        while len(_shared) >= _SHARED_MAX:
            _shared.pop(next(iter(_shared), key), None)
        _shared[key] = plan
    return plan


_SHARED_MAX: Final = 16
_shared: dict[tuple[str, pa.Schema], dict[str, ColumnEncoding]] = {}


def writer_options(
    rows: pa.Table,
    *,
    compression: str = "zstd",
    level: int | None = 1,
    page_bytes: int = PAGE_BYTES,
    plan: Mapping[str, ColumnEncoding] | None = None,
) -> dict[str, Any]:
    """Arguments of ParquetWriter for these rows.

    plan: of their columns, if it is known; else it is chosen.  compression: the codec of columns
    worth compressing, `level` its level if it has one.
    page_bytes: size of values in a data page, which also ends after `PAGE_ROWS`.
    """
    if rows.num_rows < _SAMPLE_ROWS_MIN:
        return _small_options(rows.schema, compression, level, page_bytes)
    plan = plan or encoding_plan(rows.schema, sample_rows(rows))
    return _options(plan, compression, level, page_bytes)


@lru_cache(maxsize=64)
def _small_options(
    schema: pa.Schema, compression: str, level: int | None, page_bytes: int
) -> dict[str, Any]:
    """The options of small files, which follow from the schema.  Callers must not change them."""
    return _options(_small_plan(schema), compression, level, page_bytes)


def _options(
    plan: Mapping[str, ColumnEncoding], compression: str, level: int | None, page_bytes: int
) -> dict[str, Any]:
    codecs = {path: compression if how.compressed else "none" for path, how in plan.items()}
    leveled = compression in ("zstd", "gzip", "brotli") and level is not None
    return {
        "version": "2.6",
        "use_dictionary": [path for path, how in plan.items() if how.encoding is None],
        "column_encoding": {p: how.encoding for p, how in plan.items() if how.encoding is not None},
        "compression": codecs,
        "compression_level": {p: level for p, codec in codecs.items() if codec != "none"}
        if leveled
        else None,
        "max_rows_per_page": PAGE_ROWS,
        "data_page_size": page_bytes,
        # the page size is checked after each batch of values
        "write_batch_size": max(16, min(1 << 14, page_bytes // 32)),
        "write_page_index": True,
        "write_page_checksum": True,
        "use_compliant_nested_type": True,
        "store_schema": False,
    }


def _choose(data_type: pa.DataType, column: pa.ChunkedArray) -> ColumnEncoding:
    if pt.is_dictionary(data_type):
        return DICTIONARY
    values = column.drop_null()
    if len(values) < _SAMPLE_ROWS_MIN:
        return DICTIONARY
    distinct = pc.count_distinct(values).as_py()
    few = distinct * 8 <= len(values)
    if (
        pt.is_integer(data_type)
        or pt.is_date32(data_type)
        or pt.is_timestamp(data_type)
        or pt.is_time(data_type)
    ):
        return _choose_integers(values, distinct)
    if pt.is_boolean(data_type):
        return PLAIN
    if few:
        return DICTIONARY
    if pt.is_floating(data_type):
        if distinct < len(values) * 0.9:
            return DICTIONARY
        return PLAIN if _compresses(values) else PLAIN_RAW
    if pt.is_string(data_type) or pt.is_binary(data_type):
        return _choose_strings(values)
    return PLAIN


def _choose_integers(values: pa.ChunkedArray, distinct: int) -> ColumnEncoding:
    """Dictionary if its indexes are clearly narrower than packed differences."""
    array = values.combine_chunks()
    if pt.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    steps = np.diff(array.to_numpy().astype(np.float64))
    steps = steps[: len(steps) // 32 * 32].reshape(-1, 32)
    widths = np.log2(steps.max(axis=1) - steps.min(axis=1) + 1)
    repeats = distinct < len(values) * 0.9
    if repeats and np.log2(max(distinct, 1)) + 4 < widths.mean():
        return DICTIONARY
    return DELTA_INTEGERS


def _choose_strings(values: pa.ChunkedArray) -> ColumnEncoding:
    array = values.combine_chunks()
    data, lengths, shared = _neighbours(array)
    total = int(lengths.sum())
    if total and len(pa.compress(data, codec="zstd", asbytes=True)) > total * _INCOMPRESSIBLE:
        return PLAIN_RAW
    if total and 0.6 <= shared / total <= 0.9:
        return DELTA_STRINGS
    if lengths.min() == lengths.max():
        return DELTA_LENGTHS
    return PLAIN


def _neighbours(array: pa.Array) -> tuple[bytes, Any, int]:
    """(the bytes, length of each value, total bytes shared with the preceding value)."""
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    lengths = np.diff(offsets)
    common = np.minimum(lengths[1:], lengths[:-1])
    alive = np.arange(len(common))
    shared = 0
    for at in range(int(common.max(initial=0))):
        alive = alive[common[alive] > at]
        alive = alive[data[starts[alive] + at] == data[starts[alive + 1] + at]]
        shared += len(alive)
        if not len(alive):
            break
    return data.tobytes(), lengths, shared


def _compresses(values: pa.ChunkedArray) -> bool:
    data = values.combine_chunks().to_numpy().tobytes()
    return len(pa.compress(data, codec="zstd", asbytes=True)) < len(data) * _INCOMPRESSIBLE


def _leaves(field: pa.Field, prefix: str = "") -> Iterator[str]:
    """Parquet paths of a nested field's leaves, as pyarrow names them."""
    path = prefix + field.name
    if pt.is_struct(field.type):
        for child in field.type:
            yield from _leaves(child, path + ".")
    elif pt.is_list(field.type) or pt.is_large_list(field.type):
        element = pa.field("element", field.type.value_type)
        yield from _leaves(element, path + ".list.")
    elif pt.is_map(field.type):
        yield from _leaves(pa.field("key", field.type.key_type), path + ".key_value.")
        yield from _leaves(pa.field("value", field.type.item_type), path + ".key_value.")
    else:
        yield path
