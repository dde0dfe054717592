"""Files of a folder as a source, in the order of their modification times.

The checkpoint is the modification time of the newest file that was read, in milliseconds since
1970, as the file sources of Apache Hudi's streamer store it.  A batch ends before a file with a
later modification time, so files with the same time are in the same batch.
Source: DFSPathSelector of Apache Hudi.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import StorageError, UserError
from pyhudi.formats.schema_conform import Loss, conform
from pyhudi.ingest.file_rows import FORMATS, read_rows
from pyhudi.ingest.source import SourceBatch, SourceLimits
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.url_resolver import locate

_IGNORED: Final = (".", "_")


@dataclass(frozen=True, slots=True)
class _NewFile:
    info: FileInfo
    millis: int


class FileSource:
    """New files of a folder and the folders in it.

    format: `parquet`, `arrow`, `csv` or `json` (lines); None: by the suffix of each file.
    pattern: of file names, such as `*.parquet`.  Names that begin with `.` or `_` are ignored.
    quiet_seconds: files that were modified less than this time ago are left for later.  A file
    whose modification time is not later than the checkpoint is never read, so give files that are
    still being written, and clocks that differ, this much time.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        format: str | None = None,
        pattern: str = "*",
        quiet_seconds: float = 2.0,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise UserError("unknown file format", format=format, hint="use " + ", ".join(FORMATS))
        self._fs = locate(folder, storage_options=storage_options)
        self._format, self._pattern, self._quiet_seconds = format, pattern, quiet_seconds

    def __repr__(self) -> str:
        return f"FileSource({self._fs.url!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """Lists the whole folder and opens each file of the batch; memory of the rows is a row
        group or a block of text, and the whole of each file of JSON.

        Raises UserError for a checkpoint that is not a time, CorruptFileError for a file that is
        not of its format.  Reading the rows raises SchemaError for values that no common type has.
        """
        chosen = _within(limits, self._new_files(_millis(checkpoint)))
        if not chosen:
            return None
        opened = [self._rows(file.info.path, schema) for file in chosen]
        return SourceBatch(_joined(opened), str(chosen[-1].millis))

    def _new_files(self, after: int) -> list[_NewFile]:
        latest = (time.time() - self._quiet_seconds) * 1000
        found = [
            _NewFile(info, int(_modified(info, self._fs) * 1000))
            for info in _files(self._fs)
            if fnmatch(info.name, self._pattern)
        ]
        new = (file for file in found if after < file.millis <= latest)
        return sorted(new, key=lambda file: (file.millis, file.info.path))

    def _rows(self, path: str, schema: pa.Schema) -> pa.RecordBatchReader:
        return read_rows(partial(self._fs.arrow_file, path), path, self._format, schema)


def _modified(info: FileInfo, fs: FileSystem) -> float:
    """Seconds since 1970.  Raises StorageError where the store does not report it."""
    if info.modified is None:
        raise StorageError(
            "the store does not report modification times", url=fs.url, path=info.path
        )
    return info.modified


def _files(fs: FileSystem, folder: str = "") -> Iterator[FileInfo]:
    for entry in fs.children(folder):
        if entry.name.startswith(_IGNORED):
            continue
        if entry.is_folder:
            yield from _files(fs, entry.path)
        else:
            yield entry


def _within(limits: SourceLimits, files: Sequence[_NewFile]) -> list[_NewFile]:
    """The first files up to the limit, and all files with the time of the last of them."""
    chosen: list[_NewFile] = []
    size = 0
    for file in files:
        size += file.info.size_bytes
        is_full = limits.bytes is not None and size > limits.bytes
        if chosen and is_full and file.millis > chosen[-1].millis:
            break
        chosen.append(file)
    return chosen


def _millis(checkpoint: str | None) -> int:
    if checkpoint is None:
        return -1
    try:
        return int(checkpoint)
    except ValueError:
        raise UserError(
            "the table's checkpoint is not one of a file source", checkpoint=checkpoint,
            hint="the newest commit was written from another source",
        ) from None  # fmt: skip


def _joined(readers: Iterable[pa.RecordBatchReader]) -> pa.RecordBatchReader:
    """The rows of several readers, one after another.  Columns that a reader lacks are null.

    Raises UserError if a column has types that have no common type.
    """
    parts = list(readers)
    try:
        schema = pa.unify_schemas([part.schema for part in parts], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError("the files of a batch have different columns", reason=str(error)) from error
    schema = schema.remove_metadata()
    return pa.RecordBatchReader.from_batches(schema, _fitted(parts, schema))


def _fitted(parts: Iterable[pa.RecordBatchReader], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for batch in part:
            rows = conform(pa.Table.from_batches([batch]), schema, loss=Loss.REFUSED)
            yield from rows.to_batches()
