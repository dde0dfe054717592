"""Base files: Parquet with Apache Hudi's footer entries.

Footer keys (storage_format 4.1, table_format 5.8): `parquet.avro.schema`, `writer.model.name`,
`org.apache.hudi.bloomfilter`, `hoodie_bloom_filter_type_code`, `hoodie_min_record_key`,
`hoodie_max_record_key`.  Lists are written as three-level `list.element`, decimals as fixed
bytes, and BYTE_STREAM_SPLIT is not used: other formats lose data in Apache Hudi's next rewrite
(writer_conformance 4).  Columns with NaN have no bounds (`nan_statistics`).

Reads return every style of list as `list<element>`; columns are matched by name, and columns that
a file lacks are added by `conform`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from pyhudi._native import BloomFilter
from pyhudi.errors import CorruptFileError, PyhudiError, UnsupportedTableError
from pyhudi.formats.column_encoding import (
    PAGE_BYTES,
    ColumnEncoding,
    shared_plan,
    stored_plan,
    writer_options,
)
from pyhudi.formats.logical_types import check_unshredded, footer_entries, packed
from pyhudi.formats.nan_statistics import (
    NanColumns,
    bounds_cover_nan,
    has_floats,
    nan_entries,
    without_bounds,
)
from pyhudi.formats.schema_conform import conform, fit, normal_schema
from pyhudi.formats.table_groups import table_groups, writable
from pyhudi.formats.timestamp_repair import relabelled
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem, Sink
from pyhudi.storage.sink import LargeWrites

_AVRO_SCHEMA: Final = "parquet.avro.schema"
_MODEL: Final = "writer.model.name"
_BLOOM: Final = "org.apache.hudi.bloomfilter"
_BLOOM_OLD: Final = "com.uber.hoodie.bloomfilter"
_BLOOM_KINDS: Final = ("SIMPLE", "DYNAMIC_V0")
_BLOOM_KIND: Final = "hoodie_bloom_filter_type_code"
_MIN_KEY: Final = "hoodie_min_record_key"
_MAX_KEY: Final = "hoodie_max_record_key"

_OTHER_FORMATS: Final = ("orc", "hfile", "lance")

ROW_GROUP_ROWS: Final = 1 << 18
_SMALL_BYTES: Final = 1 << 17

RowGroupChoice = Callable[[pq.FileMetaData], Sequence[int] | None]
"""Numbers of the row groups to read; None for all."""

_THREADS_ROWS_MIN: Final = 1 << 14  # below, handing columns to threads costs more than to decode
_SHARED_ROWS_MAX: Final = 1 << 14  # above, encodings of its own cost a file nothing that counts
_DICTIONARY_ROWS_MIN: Final = 4096  # below, opening the file again costs more than it saves


@dataclass(frozen=True, slots=True)
class BaseFileInfo:
    """Facts about a written base file."""

    size_bytes: int
    rows: int
    min_key: str | None
    max_key: str | None


@dataclass(frozen=True, slots=True)
class BaseFooter:
    """The footer of a base file.

    schema: lists normalized, as `read_base` returns the columns.  min_key and max_key are None
    for files without rows or without meta fields.
    """

    schema: pa.Schema
    rows: int
    row_groups: int
    size_bytes: int
    min_key: str | None
    max_key: str | None
    avro_schema: str | None
    bloom_text: str | None
    bloom_kind: str
    metadata: pq.FileMetaData

    @property
    def bloom(self) -> BloomFilter | None:
        """The filter over the record keys, parsed again at each call.  Raises CorruptFileError."""
        if self.bloom_text is None:
            return None
        kind = self.bloom_kind.upper()
        if kind not in _BLOOM_KINDS:
            raise CorruptFileError("unknown kind of bloom filter", kind=self.bloom_kind)
        return BloomFilter.from_base64(self.bloom_text, kind)


def write_base(
    sink: Sink,
    rows: pa.Table | Iterable[pa.RecordBatch | pa.Table],
    *,
    avro_schema: str,
    bloom: BloomFilter | Callable[[], BloomFilter | None] | None,
    min_key: str | None = None,
    max_key: str | None = None,
    schema: pa.Schema | None = None,
    compression: str = "zstd",
    level: int | None = 1,
    row_group_rows: int = ROW_GROUP_ROWS,
    page_bytes: int = PAGE_BYTES,
    replaced: pq.FileMetaData | None = None,
    instant: str = "",
) -> BaseFileInfo:
    """Write a base file; the caller closes (and so publishes) `sink`.

    rows: meta columns first; vectors in avro_schema may be given as lists.  A stream
    is written one row group at a time; `schema` is required if it may be empty.  bloom
    may still be filled while the rows are consumed; a function is called once they are.  min_key
    and max_key default to those of the record-key column.  Constant
    columns are cheapest as dictionary arrays.  replaced: the footer of a file with similar rows,
    whose encodings are used again.  instant: of the write, whose small files have the same ones.
    """
    groups = table_groups(rows, schema, row_group_rows)
    tables: Iterator[pa.Table] = (packed(table, avro_schema) for table in groups)
    first = next(tables)
    keys = _KeyRange(min_key, max_key)
    target = LargeWrites(sink)
    count = 0
    plan: Mapping[str, ColumnEncoding] | None = None
    if replaced:
        plan = stored_plan(replaced, first.schema, first.num_rows)
    if plan is None and first.num_rows < _SHARED_ROWS_MAX:
        plan = shared_plan(instant, first)
    options = writer_options(
        first, compression=compression, level=level, page_bytes=page_bytes, plan=plan
    )
    schema = first.schema
    nan = NanColumns(schema)
    tables = chain(iter([first]), tables)
    del first  # a group is freed once it is written
    with target as stream, pq.ParquetWriter(stream, schema, **options) as writer:
        for table in tables:
            keys.see(table)
            nan.see(table)
            writer.write_table(writable(table), row_group_size=row_group_rows)
            count += table.num_rows
            del table
        if count == 0:
            keys = _KeyRange(None, None)
        bloom = bloom() if callable(bloom) else bloom
        entries = _footer_entries(avro_schema, bloom, keys) | nan_entries(schema)
        writer.add_key_value_metadata(entries)
        if nan.found:
            with target.edited(lambda end: without_bounds(end, nan.found)):
                writer.close()
    return BaseFileInfo(sink.tell(), count, keys.low, keys.high)


def read_base(
    fs: FileSystem,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    schema: pa.Schema | None = None,
    dictionaries: Collection[str] = (),
    row_groups: Sequence[int] | RowGroupChoice | None = None,
) -> pa.Table:
    """The rows of a base file.

    columns: top-level names in the requested order; missing columns are left out.  schema: instead
    of `columns`, exactly these fields, null if the file lacks one, types widened and wrong
    labels of timestamps corrected.  filter:
    only rows for which it is true; row groups that cannot contain one are not read.
    dictionaries: string columns returned as dictionary arrays (index int32) if they have few
    values, which a rewrite filters and writes several times faster; not together with `filter`.
    row_groups: numbers of the row groups to read, or a function that chooses them by the footer;
    default all; not together with `filter`.
    Raises FileMissingError, CorruptFileError, SchemaError, UnsupportedTableError.
    """
    _check_format(path)
    with fs.arrow_file(path) as file:
        return read_parquet(
            _in_memory(file, path),
            path=path,
            columns=columns,
            filter=filter,
            schema=schema,
            dictionaries=dictionaries,
            row_groups=row_groups,
        )


def read_parquet(
    source: Any,
    *,
    path: str,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    schema: pa.Schema | None = None,
    dictionaries: Collection[str] = (),
    row_groups: Sequence[int] | RowGroupChoice | None = None,
    opened: pq.ParquetFile | None = None,
) -> pa.Table:
    """`read_base` for an open pyarrow file; `path` names it in errors.

    opened: a reader of `source` that has read its footer, if there is one.
    """
    requested = schema.names if schema is not None else columns
    with corrupt_as(path):
        file = opened or _open(source)
        if dictionaries and filter is None and file.metadata.num_rows >= _DICTIONARY_ROWS_MIN:
            coded = _few_valued(file, dictionaries)
            file = _open(source, coded, file.metadata) if coded else file
        names = None if requested is None else _present(requested, file.schema_arrow)
        row_groups = row_groups(file.metadata) if callable(row_groups) else row_groups
        if row_groups is not None:
            table = file.read_row_groups(list(row_groups), columns=names)
        elif filter is None:
            in_threads = file.metadata.num_rows >= _THREADS_ROWS_MIN
            table = file.read(columns=names, use_threads=in_threads)
        else:
            table = _filtered(source, file.schema_arrow, names, filter, schema)
        table = _normal(table if names is None else table.select(names))
    if schema is None:
        return table
    check_unshredded(table.schema, schema)
    return conform(relabelled(table, schema), _as_stored(schema, table.schema))


def footer(fs: FileSystem, path: str) -> BaseFooter:
    """The footer of a base file: one or two small reads.

    Raises CorruptFileError, and UnsupportedTableError for another format.
    """
    _check_format(path)
    with fs.arrow_file(path) as file:
        return _footer(file, path)


@contextmanager
def opened_base(
    fs: FileSystem, path: str, *, schema: pa.Schema, dictionaries: Collection[str] = ()
) -> Iterator[OpenedBaseFile]:
    """A base file whose parts are read one after another; schema and dictionaries as for
    `read_base`.  Raises as `read_base`."""
    _check_format(path)
    with fs.arrow_file(path) as file:
        source = _in_memory(file, path)
        with corrupt_as(path):
            opened = _open(source)
        foot = _footer_of(opened, file.size(), path)
        yield OpenedBaseFile(foot, schema, path, dictionaries, source, opened)


@dataclass(frozen=True, slots=True)
class OpenedBaseFile:
    """A base file that is open.  schema: of its rows."""

    footer: BaseFooter
    schema: pa.Schema
    path: str
    dictionaries: Collection[str]
    _source: Any
    _file: pq.ParquetFile

    def read(self, names: Collection[str] | None = None, row_group: int | None = None) -> pa.Table:
        """Columns of all rows, or of those of a row group; all columns if no names are given."""
        return read_parquet(
            self._source,
            path=self.path,
            schema=pa.schema([f for f in self.schema if names is None or f.name in names]),
            dictionaries=self.dictionaries,
            row_groups=None if row_group is None else [row_group],
            opened=self._file,
        )

    @property
    def row_group_rows(self) -> list[int]:
        """The number of rows of each row group."""
        metadata = self._file.metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def hidden_nan(fs: FileSystem, path: str) -> list[str]:
    """The columns with NaN of a base file whose bounds leave NaN out, as paths in the file.

    Cost: the footer, and the floating columns of a file that does not state that its bounds cover
    NaN.  Raises as `footer`.
    """
    _check_format(path)
    with fs.arrow_file(path) as source, corrupt_as(path):
        file = _open(source)
        if bounds_cover_nan(file.metadata):
            return []
        names = [f.name for f in file.schema_arrow if has_floats(f.type)]
        found: set[str] = set()
        for number in range(file.num_row_groups if names else 0):
            rows = file.read_row_group(number, columns=names)
            nan = NanColumns(rows.schema)
            nan.see(rows)
            group = file.metadata.row_group(number)
            read = [
                c
                for c in map(group.column, range(group.num_columns))
                if c.path_in_schema.partition(".")[0] in names
            ]
            stated = [read[n] for n in nan.found if read[n].statistics is not None]
            found |= {c.path_in_schema for c in stated if c.statistics.has_min_max}
        return sorted(found)


def _in_memory(file: Any, path: str) -> Any:
    """A small file as a buffer: one read costs less than one for each column."""
    with corrupt_as(path):
        return pa.BufferReader(file.read()) if file.size() <= _SMALL_BYTES else file


def _footer(file: Any, path: str) -> BaseFooter:
    with corrupt_as(path):
        opened = _open(file)
    return _footer_of(opened, file.size(), path)


def _footer_of(opened: pq.ParquetFile, size_bytes: int, path: str) -> BaseFooter:
    with corrupt_as(path):
        metadata = opened.metadata
        entries = _text_entries(metadata.metadata or {})
        return BaseFooter(
            schema=normal_schema(opened.schema_arrow),
            rows=metadata.num_rows,
            row_groups=metadata.num_row_groups,
            size_bytes=size_bytes,
            min_key=entries.get(_MIN_KEY),
            max_key=entries.get(_MAX_KEY),
            avro_schema=entries.get(_AVRO_SCHEMA),
            bloom_text=entries.get(_BLOOM, entries.get(_BLOOM_OLD)),
            bloom_kind=entries.get(_BLOOM_KIND, "SIMPLE"),
            metadata=metadata,
        )


@contextmanager
def corrupt_as(path: str) -> Iterator[None]:
    """Convert Arrow's errors about invalid Parquet bytes to CorruptFileError."""
    try:
        yield
    except PyhudiError:
        raise
    except (pa.ArrowException, OSError, ValueError) as broken:
        raise CorruptFileError(f"unreadable Parquet: {broken}", path=path) from broken


def _check_format(path: str) -> None:
    """Raise UnsupportedTableError for a base file whose name has another extension than Parquet."""
    extension = path.rpartition(".")[2]
    if extension in _OTHER_FORMATS:
        raise UnsupportedTableError(f"base files of format {extension}", path=path)


class _KeyRange:
    """The lowest and highest record key seen, unless the caller passes them."""

    def __init__(self, low: str | None, high: str | None) -> None:
        self.low = low
        self.high = high
        self._known = low is not None

    def see(self, table: pa.Table) -> None:
        if self._known or RECORD_KEY not in table.schema.names:
            return
        found = pc.min_max(table.column(RECORD_KEY)).as_py()
        if found["min"] is not None:
            self.low = found["min"] if self.low is None else min(self.low, found["min"])
            self.high = found["max"] if self.high is None else max(self.high, found["max"])


def _footer_entries(avro_schema: str, bloom: BloomFilter | None, keys: _KeyRange) -> dict[str, str]:
    entries = {_AVRO_SCHEMA: avro_schema, _MODEL: "avro", **footer_entries(avro_schema)}
    if bloom is not None:
        entries[_BLOOM] = bloom.to_base64()
        if "DYNAMIC" in bloom.kind:
            entries[_BLOOM_KIND] = bloom.kind
    if keys.low is not None and keys.high is not None:
        entries[_MIN_KEY] = keys.low
        entries[_MAX_KEY] = keys.high
    return entries


def _open(
    source: Any,
    dictionaries: list[str] | None = None,
    metadata: pq.FileMetaData | None = None,
) -> pq.ParquetFile:
    source.seek(0)
    file = pq.ParquetFile(
        source,
        metadata=metadata,
        coerce_int96_timestamp_unit="us",
        read_dictionary=dictionaries or [],
        page_checksum_verification=True,  # no effect if the writer stored none
    )
    if metadata is None:
        check_row_counts(file.metadata)
    return file


def check_row_counts(metadata: pq.FileMetaData) -> None:
    """Raise ValueError if the row groups of a file have another number of rows than the file.

    Footers have no checksum, and readers of Parquet return no rows of a group whose number is
    damaged.
    """
    rows = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise ValueError(f"{rows} rows in row groups, {metadata.num_rows} in the file")


def _present(names: Sequence[str], schema: pa.Schema) -> list[str]:
    known = set(schema.names)
    return [name for name in names if name in known]


def _few_valued(file: pq.ParquetFile, names: Collection[str]) -> list[str]:
    """The string columns among `names` whose dictionary is so small that its indexes dominate
    the size."""
    metadata = file.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    texts = {f.name for f in file.schema_arrow if f.name in names and f.type == pa.string()}
    found = []
    for index in range(metadata.num_columns if texts and groups else 0):
        # The schema of the metadata would be a reference cycle that keeps a bloom filter alive.
        name = groups[0].column(index).path_in_schema
        if name not in texts:
            continue
        chunks = [group.column(index) for group in groups]
        if all(
            chunk.has_dictionary_page and chunk.total_uncompressed_size < chunk.num_values * 3
            for chunk in chunks
        ):
            found.append(name)
    return found


def _as_stored(schema: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """`schema`, with dictionary types for columns that were read as such."""
    fields = []
    for field in schema:
        position = stored.get_field_index(field.name)
        found = stored.field(position).type if position >= 0 else field.type
        if pt.is_dictionary(found) and found.value_type == field.type:
            field = field.with_type(found)
        fields.append(field)
    return pa.schema(fields)


def _normal(table: pa.Table) -> pa.Table:
    """Every list as `list<element>`, no schema metadata."""
    if not table.num_columns:
        return table  # only its row count is used
    schema = normal_schema(table.schema)
    columns = [
        fit(column, field.type, name=field.name)
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _filtered(
    source: Any,
    physical: pa.Schema,
    columns: list[str] | None,
    filter: pc.Expression,
    requested: pa.Schema | None,
) -> pa.Table:
    """Matching rows only; columns of the filter that the file lacks count as null."""
    import pyarrow.dataset as ds  # slow to import

    absent = [field for field in requested or [] if field.name not in physical.names]
    parquet = ds.ParquetFileFormat(
        coerce_int96_timestamp_unit="us",
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(
            page_checksum_verification=True
        ),
    )
    source.seek(0)
    return parquet.make_fragment(source).to_table(
        schema=pa.schema([*physical, *absent]),
        columns=physical.names if columns is None else columns,
        filter=filter,
    )


def _text_entries(entries: dict[bytes, bytes]) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in entries.items()}
    except UnicodeDecodeError as broken:
        raise CorruptFileError("a footer entry is not UTF-8") from broken
