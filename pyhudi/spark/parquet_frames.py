"""Direct reads of DataFrames that are plain Parquet files: workers read the files themselves.

The transfer of rows from the JVM to Python costs more than processing them, so the rows of an
unmodified `spark.read.parquet` frame are read without the JVM.  Used only where both ways are
certain to return the same rows: flat columns whose types Spark and Arrow read identically, a plan
of one file relation without partition columns, nothing cached; files of the local disk, or of the
table's store if sizes and times there are those that Spark has listed: Spark reads a store with the
configuration of its session, and pyhudi with `storage_options`, so the same URL may name different
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyspark.sql import DataFrame

from pyhudi.errors import PyhudiError
from pyhudi.spark.frames import is_connect
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.store_failures import plain_scheme
from pyhudi.storage.url_resolver import locate

_ALIKE: Final = frozenset(
    [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary()]
)
_LEGACY: Final = b"org.apache.spark.legacy"
"""Prefix of the footer keys of files whose dates may use the legacy hybrid calendar."""

_FIRST_YEAR: Final = 1900
"""Earlier dates may have been written in another calendar; Spark decides how to read them."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of one file, and the columns to read."""

    fs: FileSystem
    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    first_row: int


def row_groups(
    frame: DataFrame,
    schema: pa.Schema,
    columns: Sequence[str],
    *,
    rows: int,
    store: FileSystem | None = None,
) -> list[RowGroups] | None:
    """The frame's rows as ranges of row groups of about `rows` rows each; None if Spark must read
    them.

    schema: the schema of the frame.  store: a file system whose store may also hold the files.
    Cost: one footer per file; on that store, also a listing per folder.
    """
    files = _plain_files(frame, store)
    if files is None:
        return None
    fields = [field for field in schema if field.name in set(columns)]
    if len({field.name for field in fields}) != len(fields):
        return None
    found: list[RowGroups] = []
    for path in files.paths:
        try:
            with _opened(files.fs, path) as file:
                if not _reads_alike(file, fields):
                    return None
                found += _stretches(files.fs, path, file.metadata, [f.name for f in fields], rows)
        except (OSError, pa.ArrowException, PyhudiError):
            return None  # left to Spark, which reports the error
    return found


def _opened(fs: FileSystem, path: str) -> pq.ParquetFile:
    return pq.ParquetFile(fs.arrow_file(path), pre_buffer=True)


def _plain_files(frame: DataFrame, store: FileSystem | None) -> FrameFiles | None:
    """The Parquet files that a frame reads; None for a frame that does anything else."""
    if is_connect(frame) or frame.isStreaming:
        return None
    java: Any = frame._jdf
    plan = java.queryExecution().optimizedPlan()
    if plan.nodeName() != "LogicalRelation":  # for example, a cached frame
        return None
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    if relation.fileFormat().getClass().getSimpleName() != "ParquetFileFormat":
        return None
    if not relation.partitionSchema().isEmpty() or relation.bucketSpec().isDefined():
        return None
    return frame_files(relation.location(), store)


def _reads_alike(file: pq.ParquetFile, fields: Sequence[pa.Field]) -> bool:
    """Whether Arrow and Spark read the columns identically."""
    metadata = file.metadata
    if any(key.startswith(_LEGACY) for key in metadata.metadata or {}):
        return False
    stored = file.schema_arrow
    for field in fields:
        position = stored.get_field_index(field.name)
        if position < 0 or stored.field(position).type != field.type:
            return False
        if field.type in _ALIKE or pt.is_decimal128(field.type):
            continue
        if not (pt.is_date32(field.type) or pt.is_timestamp(field.type)):
            return False
        if not _is_recent(metadata, field.name):
            return False
    return True


def _is_recent(metadata: pq.FileMetaData, name: str) -> bool:
    """Whether statistics prove that both calendars agree on all dates of a column."""
    columns = [metadata.schema.column(i).path for i in range(len(metadata.schema))]
    at = columns.index(name)
    if metadata.schema.column(at).physical_type == "INT96":
        return False
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group).column(at)
        statistics = found.statistics
        if statistics is None or statistics.null_count == found.num_values:
            return False
        low = statistics.min if statistics.has_min_max else None
        if not isinstance(low, (date, datetime)) or low.year < _FIRST_YEAR:
            return False
    return True


def _stretches(
    fs: FileSystem, path: str, metadata: pq.FileMetaData, columns: Sequence[str], rows: int
) -> list[RowGroups]:
    """Ranges of row groups of a file; small adjacent row groups are combined."""
    found: list[RowGroups] = []
    groups: list[int] = []
    first = row_count = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        row_count += metadata.row_group(group).num_rows
        if row_count >= rows:
            found.append(RowGroups(fs, path, tuple(groups), tuple(columns), first))
            first, row_count, groups = first + row_count, 0, []
    if row_count:
        found.append(RowGroups(fs, path, tuple(groups), tuple(columns), first))
    return found


def read_row_groups(stretch: RowGroups, *, rows: int) -> Any:
    """The rows of a range as record batches of at most `rows` rows."""
    with _opened(stretch.fs, stretch.path) as file:
        yield from file.iter_batches(
            batch_size=rows, row_groups=list(stretch.groups), columns=list(stretch.columns)
        )


@dataclass(frozen=True, slots=True)
class FrameFiles:
    """Files of one store.  paths: relative to the root of fs."""

    fs: FileSystem
    paths: tuple[str, ...]


def frame_files(location: Any, store: FileSystem | None) -> FrameFiles | None:
    """The files of a Java `FileIndex`, sorted by URL; None if pyhudi may not have the same files.

    store: the file system of the table; files of its bucket or name node are found with its
    options.
    """
    urls = sorted(map(str, location.inputFiles()))
    paths = tuple(unquote(urlsplit(url).path).lstrip("/") for url in urls)
    places = {_place(url) for url in urls}
    if places <= {("file", "")}:
        return FrameFiles(LocalFileSystem("/"), paths)
    if store is None or places != {_place(store.url)}:
        return None
    root = store.url[: len(store.url) - len(urlsplit(store.url).path)]
    try:
        fs = locate(root, storage_options=getattr(store, "options", None))
        found = _stated(fs, paths)
    except PyhudiError:
        return None  # left to Spark
    return FrameFiles(fs, paths) if found == _listed(location) else None


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return plain_scheme(parts.scheme), parts.netloc


def _stated(fs: FileSystem, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Path to size and time in seconds of the files in the folders of these files that are among
    them.  Cost: one listing per folder."""
    files = set(paths)
    entries = [e for folder in {p.rpartition("/")[0] for p in paths} for e in fs.children(folder)]
    return {e.path: (e.size_bytes, int(e.modified or 0)) for e in entries if e.path in files}


def _listed(location: Any) -> dict[str, tuple[int, int]]:
    """The same as Spark has listed it, without a request."""
    found = {}
    files = location.allFiles()
    for number in range(files.size()):
        status = files.apply(number)
        path = unquote(str(status.getPath().toUri().getRawPath())).lstrip("/")
        found[path] = int(status.getLen()), int(status.getModificationTime()) // 1000
    return found
