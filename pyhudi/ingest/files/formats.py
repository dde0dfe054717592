"""Formats of files: their columns, and their rows as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import (
    CorruptFileError,
    SchemaError,
    StorageError,
    UnsupportedTableError,
    UserError,
)
from pyhudi.formats.column_names import check_names
from pyhudi.formats.schema_conform import conform, map_values
from pyhudi.ingest.files.avro_files import avro_batches, avro_facts
from pyhudi.ingest.files.csv_rows import CsvDialect, Opener, csv_batches, csv_facts
from pyhudi.ingest.files.json_lines import json_batches, json_facts
from pyhudi.ingest.message_formats.json_values import check_json_columns
from pyhudi.ingest.source import RejectedRows

FORMATS: Final = ("parquet", "arrow", "avro", "orc", "csv", "json")
_SUFFIXES: Final = {
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".avro": "avro", ".orc": "orc",
    ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip


_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Of CSV and JSON lines, by the last suffix, whatever the stated format."""
TEXTS: Final = ("csv", "json")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """name: one of FORMATS; None: by the suffix of each file."""

    name: str | None = None
    csv: CsvDialect = field(default_factory=CsvDialect)

    def of(self, path: str) -> str:
        """Raises UserError for an unknown suffix."""
        plain = path[: -len(suffix)] if (suffix := _compressed_suffix(path)) else path
        found = self.name or _SUFFIXES.get(PurePosixPath(plain).suffix.lower())
        if found is None or (suffix and self.name is None and found not in TEXTS):
            raise UserError(
                "the format of the file is not known",
                path=path,
                hint=f"state the format: {', '.join(FORMATS)}",
            )
        return found


def _compressed_suffix(path: str) -> str:
    suffix = PurePosixPath(path).suffix.lower()
    return suffix if suffix in _COMPRESSIONS else ""


def _text_opener(opened: Opener, path: str) -> Opener:
    """Opens a file of text, decompressed."""
    compression = _COMPRESSIONS.get(_compressed_suffix(path))
    if compression is None:
        return opened
    return lambda: pa.CompressedInputStream(opened(), compression)


@dataclass(frozen=True, slots=True)
class FileContent:
    """Columns and number of rows of a file; rows: None where they were not counted.  is_text:
    whether columns of the table that the file lacks are null."""

    schema: pa.Schema
    rows: int | None
    is_text: bool = False


def content_of(
    opened: Opener, path: str, form: FileFormat, known: pa.Schema, *, count: bool
) -> FileContent:
    """As `file_facts`, with whether it is text; no columns for a file that is not of its format,
    which is reported when its rows are read."""
    try:
        found = file_facts(opened, path, form, known, count=count)
    except CorruptFileError:
        return FileContent(pa.schema([]), 0)
    return replace(found, is_text=form.of(path) in TEXTS)


def file_facts(
    opened: Opener, path: str, form: FileFormat, known: pa.Schema, *, count: bool
) -> FileContent:
    """opened: opens the file.  known: columns of the table, which type those of CSV and JSON.
    count: whether the number of rows is needed; of CSV it is the number of lines.

    Reads the footer or the header; of CSV one block, or all to count; JSON lines whole, a block at
    a time.  Raises CorruptFileError for a file that is not of its format, SchemaError for JSON if
    the table has columns that JSON cannot fill.
    """
    name = form.of(path)
    if name == "json":
        check_json_columns(known)
    with _typed(name, path):
        match name:
            case "parquet":
                import pyarrow.parquet as pq

                parquet = pq.ParquetFile(opened(), coerce_int96_timestamp_unit="us")
                found = FileContent(parquet.schema_arrow, parquet.metadata.num_rows)
            case "orc":
                from pyarrow.orc import ORCFile

                orc = ORCFile(opened())
                found = FileContent(orc.schema, orc.nrows)
            case "arrow":
                found = FileContent(*_arrow_facts(opened(), count))
            case "avro":
                found = FileContent(*avro_facts(opened(), path, count=count))
            case "csv":
                text = _text_opener(opened, path)
                found = FileContent(*csv_facts(text, path, known, form.csv, count=count))
            case _:
                found = FileContent(*json_facts(_text_opener(opened, path)(), known))
        check_names(found.schema)
        return found


def file_batches(
    opened: Opener, path: str, form: FileFormat, schema: pa.Schema, rejected: RejectedRows
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with its columns or those of `schema`.

    schema: types of the columns of CSV and JSON, which other columns of such files lack.
    rejected: gets lines of CSV and JSON that cannot be decoded.
    Memory: a row group, a stripe, or one block of text.  Raises CorruptFileError.
    """
    name = form.of(path)
    with _typed(name, path):
        match name:
            case "parquet":
                yield from _with_unique_names(_parquet_batches(opened))
            case "orc":
                from pyarrow.orc import ORCFile

                orc = ORCFile(opened())
                stripes = (orc.read_stripe(number) for number in range(orc.nstripes))
                yield from _with_unique_names(stripes)
            case "arrow":
                yield from _with_unique_names(_arrow_batches(opened()))
            case "avro":
                yield from avro_batches(opened(), path)
            case "csv":
                text = _text_opener(opened, path)
                yield from csv_batches(text, path, schema, form.csv, rejected)
            case _:
                yield from json_batches(_text_opener(opened, path)(), path, schema, rejected)


def _with_unique_names(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Raises SchemaError for a name that the columns of a file, or fields of a struct, share."""
    for number, batch in enumerate(batches):
        if not number:
            check_names(batch.schema)
        yield batch


def _parquet_batches(opened: Opener) -> Iterator[pa.RecordBatch]:
    """Times of INT96 in microseconds, for years that nanoseconds do not have."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(opened(), coerce_int96_timestamp_unit="us")
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    stamps = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    names = [n for n in file.schema_arrow.names if any(f"{s}.".startswith(f"{n}.") for s in stamps)]
    if not names:
        yield from file.iter_batches()
        return
    nanos = pq.ParquetFile(opened(), coerce_int96_timestamp_unit="ns")
    for group in range(file.num_row_groups):
        times, first = nanos.read_row_group(group, columns=names), 0
        for batch in file.iter_batches(row_groups=[group]):
            yield from _by_precision(batch, times.slice(first, batch.num_rows))
            first += batch.num_rows


def _by_precision(batch: pa.RecordBatch, times: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in parts; values with nanoseconds have them, so that they are not cut off.

    times: in nanoseconds, modulo 2**64.
    """
    exact = {name: times.column(name).combine_chunks() for name in times.column_names}
    cut = {name: _cut_off(batch.column(name), nanos) for name, nanos in exact.items()}
    for name in [name for name, nanos in exact.items() if pt.is_timestamp(nanos.type)]:
        numbers = exact[name].cast(pa.int64())
        is_whole = cut[name] & (np.asarray(pc.fill_null(numbers, 0)) % 1000 == 0)
        # never a whole microsecond by the modulus
        exact[name] = pc.add(numbers, pa.array(is_whole.astype(np.int64))).cast(exact[name].type)
    changes = np.any([np.diff(places) for places in cut.values()], axis=0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(edges):
        part = batch.slice(start, end - start)
        for name in [name for name, places in cut.items() if places[start:end].any()]:
            values = exact[name].slice(start, end - start)
            part = part.set_column(part.schema.get_field_index(name), name, values)
        yield part


def _cut_off(micros: pa.Array, nanos: pa.Array, *, is_inner: bool = False) -> np.ndarray:
    """Which values, also nested ones, have nanoseconds that microseconds lack.

    Raises UnsupportedTableError for a nested one whose nanoseconds look like none by the modulus.
    """
    found = np.zeros(len(micros), np.bool_)
    if micros.type.equals(nanos.type):
        return found
    if pt.is_struct(micros.type):
        for pair in zip(micros.flatten(), nanos.flatten(), strict=True):
            found |= _cut_off(*pair, is_inner=True)
        return found
    if pt.is_map(micros.type):
        micros, nanos = map_values(micros), map_values(nanos)
    if pt.is_list(micros.type):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(micros), 0))
        owners = np.repeat(np.arange(len(micros)), lengths)
        found[owners[_cut_off(micros.flatten(), nanos.flatten(), is_inner=True)]] = True
        return found
    low, high = (np.asarray(pc.fill_null(a.cast(pa.int64()), 0)) for a in (nanos, micros))
    found |= low != high * 1000
    if is_inner and (found & (low % 1000 == 0)).any():
        raise UnsupportedTableError(
            "a nested INT96 time with nanoseconds after 2262 or before 1677"
        )
    return found


def read_rows(
    opened: Opener, path: str, form: FileFormat, schema: pa.Schema
) -> pa.RecordBatchReader:
    """The rows of one file, typed as by `file_facts`; reading them raises CorruptFileError for the
    first row that cannot be decoded."""
    found = file_facts(opened, path, form, schema, count=False).schema.remove_metadata()
    rejected = RejectedRows()

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in file_batches(opened, path, form, found, rejected):
            yield from conform(pa.Table.from_batches([batch]), found).to_batches()
            _check_decoded(rejected, path)
        _check_decoded(rejected, path)

    return pa.RecordBatchReader.from_batches(found, rows())


def _check_decoded(rejected: RejectedRows, path: str) -> None:
    for row in rejected.take().slice(0, 1).to_pylist():
        raise CorruptFileError(
            "a row of the file cannot be decoded",
            path=path,
            position=row["position"],
            reason=row["reason"],
            hint="correct the row, or ingest the file and skip such rows",
        )


@contextmanager
def _typed(form: str, path: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (pa.ArrowException, OSError, EOFError, SchemaError, UnsupportedTableError) as error:
        raise CorruptFileError(
            f"not a {form} file that fits the table",
            path=path,
            reason=str(error),
            hint="check the file, or state its format",
        ) from error


def _arrow_reader(file: Any) -> tuple[Any, bool]:
    """The reader of an Arrow file or stream, and whether it is a file."""
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return (pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)), is_file


def _arrow_facts(file: Any, count: bool) -> tuple[pa.Schema, int | None]:
    reader, _ = _arrow_reader(file)
    if not count:
        return reader.schema, None
    file.seek(0)
    return reader.schema, sum(batch.num_rows for batch in _arrow_batches(file))


def _arrow_batches(file: Any) -> Iterator[pa.RecordBatch]:
    reader, is_file = _arrow_reader(file)
    if not is_file:
        yield from reader
        return
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)
