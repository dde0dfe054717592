"""New files of a folder as a source.

In the order of time the checkpoint is the modification time of the newest file that was read, in
milliseconds since 1970, as the file sources of Apache Hudi's streamer store it.  A batch ends
before a file with a later modification time, so files with the same time are in the same batch.
Source: DFSPathSelector of Apache Hudi.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import OptionError
from pyhudi.ingest.files.csv_rows import CsvDialect
from pyhudi.ingest.files.formats import FORMATS, FileContent, FileFormat, content_of
from pyhudi.ingest.files.listing import DateFolders, FileSelection, ListedFile, found_files
from pyhudi.ingest.files.order import FilePosition, file_position
from pyhudi.ingest.files.splits import (
    FileSplit,
    chained_rows,
    common_schema,
    listed,
    stated_columns,
)
from pyhudi.ingest.source import RejectedRows, RowPlaces, SourceBatch, SourceLag, SourceLimits
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.path_remap import copy_file
from pyhudi.storage.url_resolver import locate_all

ORDERS: Final = ("time", "name")
AFTER_COMMIT: Final = ("delete", "archive")
_WAITING_MAX: Final = 100_000


class FileSource:
    """New files of a folder and the folders in it.

    format: `parquet`, `arrow`, `avro`, `orc`, `csv` or `json` (lines); None: by the suffix of each
    file.  delimiter, header: of CSV; without a header the columns are those of the table.  csv:
    these and all other options of CSV.  CSV and JSON may be compressed: `.gz`, `.bz2`, `.zst`.
    pattern: a glob of file names such as `*.parquet`, or of paths if it has a `/`.  recursive:
    whether folders in the folder are read.  ignored: prefixes of names of files and folders; files
    that end with `.tmp`, `.part`, `.inprogress` or `._COPYING_` are ignored too.
    dates: folders named by a date, of which only recent ones are listed.
    order: `time` of modification, or `name`: by path, for names that only increase.
    quiet_seconds: files that were modified less than this time ago are left for later.  A file
    whose modification time is not later than the checkpoint is never read, so give files that are
    still being written, and clocks that differ, this much time.
    late_seconds: files with an older time than the checkpoint are read if the difference is
    smaller.  The checkpoint then lists the files of this window, which Apache Hudi cannot continue.
    after_commit: `delete` or `archive` the files of a batch once its commit is complete; archive:
    the folder or URL that they are copied to.  A crash between the two leaves them in place.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        format: str | None = None,
        pattern: str = "*",
        recursive: bool = True,
        ignored: Sequence[str] = (".", "_"),
        dates: DateFolders | None = None,
        order: str = "time",
        quiet_seconds: float = 2.0,
        late_seconds: float = 0.0,
        delimiter: str = ",",
        header: bool = True,
        csv: CsvDialect | None = None,
        after_commit: str | None = None,
        archive: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        _check_choice("format", format, FORMATS)
        _check_choice("order", order, ORDERS)
        _check_choice("after_commit", after_commit, AFTER_COMMIT)
        if (after_commit == "archive") != (archive is not None):
            raise OptionError("after_commit='archive' and archive=FOLDER belong together")
        if late_seconds < 0 or (late_seconds and order == "name"):
            raise OptionError(
                "late_seconds must be a positive time, for files in order of time",
                late_seconds=late_seconds,
                order=order,
            )
        places = (folder,) if archive is None else (folder, archive)
        self._fs, *archives = locate_all(*places, storage_options=storage_options)
        self._format = FileFormat(format, csv or CsvDialect(delimiter, header))
        self._selection = FileSelection(pattern, recursive, _prefixes(ignored), dates=dates)
        self._order, self._quiet_seconds = order, quiet_seconds
        self._late_seconds, self._after_commit = late_seconds, after_commit
        self._archive = archives[0] if archives else None

    def __repr__(self) -> str:
        return f"FileSource({self._fs.url!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """Lists the folder, opens each file of the batch for its columns and closes it, and opens
        it again when its rows are read.  Memory: an entry for each new file, at most some 100,000
        where `limits` has bytes; of the rows, a row group or a block of text.

        limits: of rows, for Avro and CSV files reads them once more to count.
        A column whose types in several files have none in common gets that of the table, or of
        the first file.  Rows with values that it does not have, and files that are not of their
        format, are rejected rows.
        Raises UserError for a folder that does not exist and for a checkpoint that is not of this
        source and order; FileMissingError with `retryable` for a file that was removed meanwhile.
        """
        position = file_position(checkpoint, self._order, self._late_seconds)
        chosen, facts = self._sized(self._first(position, limits.bytes), position, limits, schema)
        if not chosen:
            return None
        common = common_schema(facts, schema)
        splits = [FileSplit(self._fs, file.path, self._format, common) for file in chosen]
        rejected, places = RejectedRows(), RowPlaces()
        return SourceBatch(
            pa.RecordBatchReader.from_batches(common, chained_rows(splits, rejected, places)),
            position.checkpoint(chosen),
            rejected=rejected,
            committed=partial(self._finish, [file.path for file in chosen]),
            splits=splits,
            places=places,
            columns=stated_columns((f.path, fact) for f, fact in zip(chosen, facts, strict=True)),
        )

    def lag(self, checkpoint: str | None) -> SourceLag:
        """Files after a checkpoint, their bytes, and the age of the oldest; lists the folder."""
        position = file_position(checkpoint, self._order, self._late_seconds)
        latest = int((time.time() - self._quiet_seconds) * 1000)
        files = size = 0
        oldest = latest
        for file in position.new_files(found_files(self._fs, self._selection), latest):
            files, size, oldest = files + 1, size + file.size_bytes, min(oldest, file.millis)
        seconds = max(0.0, time.time() - oldest / 1000) if files else 0.0
        return SourceLag(bytes=size, files=files, seconds=round(seconds, 3))

    def _first(self, position: FilePosition, limit: int | None) -> list[ListedFile]:
        """The first new files up to the limit of bytes, in order."""
        latest = int((time.time() - self._quiet_seconds) * 1000)
        found: list[ListedFile] = []
        waiting_max = _WAITING_MAX
        for file in position.new_files(found_files(self._fs, self._selection), latest):
            found.append(file)
            if limit is not None and len(found) >= waiting_max:
                found = _within(found, position, limit)
                waiting_max = max(_WAITING_MAX, 2 * len(found))
        return _within(found, position, limit)

    def _sized(
        self,
        files: Sequence[ListedFile],
        position: FilePosition,
        limits: SourceLimits,
        schema: pa.Schema,
    ) -> tuple[list[ListedFile], list[FileContent]]:
        """The first files up to the limit of rows, and what is known of each."""
        facts: list[FileContent] = []
        rows, is_over = 0, limits.timer()
        for number, file in enumerate(files):
            is_unit = number and position.unit(file) != position.unit(files[number - 1])
            if is_unit and is_over():
                return list(files[:number]), facts
            opened = partial(self._fs.arrow_file, file.path)
            with listed(file.path):
                fact = content_of(
                    opened, file.path, self._format, schema, count=limits.rows is not None
                )
            rows += fact.rows or 0
            is_full = limits.rows is not None and rows > limits.rows
            if is_unit and is_full:
                return list(files[:number]), facts
            facts.append(fact)
        return list(files), facts

    def _finish(self, paths: Sequence[str]) -> None:
        """Delete or archive the files of a committed batch; a file that is gone is no error."""
        if self._after_commit is None:
            return
        for path in paths:
            if self._archive is not None and self._fs.exists(path):
                _copy(self._fs, self._archive, path)
        self._fs.delete(paths)


def _within(files: list[ListedFile], position: FilePosition, limit: int | None) -> list[ListedFile]:
    """The first files up to the limit of bytes, with all of the unit of the last of them."""
    files.sort(key=lambda file: (position.unit(file), file.path))
    size = 0
    for number, file in enumerate(files):
        size += file.size_bytes
        is_full = limit is not None and size > limit
        if number and is_full and position.unit(file) != position.unit(files[number - 1]):
            return files[:number]
    return files


def _copy(source: FileSystem, target: FileSystem, path: str) -> None:
    """Copy a file to another store, replacing one with its name."""
    target.delete([path])
    copy_file(source, path, path, to=target)


def _prefixes(ignored: Sequence[str]) -> tuple[str, ...]:
    """A text is one prefix."""
    return (ignored,) if isinstance(ignored, str) else tuple(ignored)


def _check_choice(name: str, value: str | None, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise OptionError(f"unknown {name} of a file source", value=value, hint=", ".join(choices))
