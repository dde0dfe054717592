"""Files of the archived timeline of layout 2: Parquet, one row per completed instant.

```
column          type          content
instantTime     string        the instant time; rows are in its order
completionTime  string        the completion time
action          string        the completed action: commit, deltacommit, replacecommit, clean, ...
metadata        binary        the completed file as it was, an Avro container; null if it is empty
plan            binary        the requested file of a clean, compaction or log compaction; of a
                              replacecommit or clustering the inflight file if it is not empty,
                              else the requested one; null for other actions
version         int32         1; the only column that is required
```

Columns are GZIP-compressed.  The footer has `parquet.avro.schema`, the record
HoodieLSMTimelineInstant, and `writer.model.name`, "avro".  Source: writer_v8_v9 10.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import join
from pyhudi.formats.base_file import check_row_counts, corrupt_as
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.avro_schemas import STRING, optional, record
from pyhudi.timeline.history.manifest import HistoryFile

INSTANT: Final = ("instantTime", "completionTime", "action")
ROW_VERSION: Final = 1
_DIGITS: Final = "^[0-9]+$"
_ROW_GROUP_BYTES: Final = 16 << 20
_KINDS: Final = {
    pa.string(): (pt.is_string, pt.is_large_string),
    pa.binary(): (pt.is_binary, pt.is_large_binary),
    pa.int32(): (pt.is_integer,),
}
"""Type of a column -> what files of other writers may have."""

_AVRO: Final = record(
    "HoodieLSMTimelineInstant",
    *((name, optional(STRING), None) for name in INSTANT),
    ("metadata", optional("bytes"), None),
    ("plan", optional("bytes"), None),
    ("version", "int", ROW_VERSION),
)

ROWS: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in INSTANT),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_FOOTER: Final = {
    "writer.model.name": "avro",
    "parquet.avro.schema": json.dumps(_AVRO, separators=(",", ":")),
}


def write_history_file(
    fs: FileSystem, folder: str, name: str, rows: Iterable[pa.Table]
) -> HistoryFile:
    """Write a file from tables with the schema `ROWS`; each becomes a row group.

    A file of this name that a stopped run left is replaced.  Memory: one table.
    """
    path = join(folder, name)
    if fs.exists(path):  # otherwise a late request could delete the file of the next holder
        fs.delete([path])
    with fs.open_sink(path) as sink:
        with pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            ROWS,
            compression="gzip",
            store_schema=False,
            use_dictionary=["action", "version"],
            write_statistics=[*INSTANT, "version"],
            write_page_checksum=True,
        ) as writer:
            for table in rows:
                writer.write_table(table)
            writer.add_key_value_metadata(_FOOTER)
        size = sink.tell()
    return HistoryFile(name, size)


def read_history_file(
    fs: FileSystem, folder: str, file: HistoryFile, columns: Sequence[str] = ROWS.names
) -> Iterator[pa.Table]:
    """Some columns of a file, one row group at a time, with the types of `ROWS`.

    Raises FileMissingError; CorruptFileError for a file with another length than the manifest
    states, other columns, or an instant time that is not a number.
    """
    path = join(folder, file.name)
    with corrupt_as(path), fs.arrow_file(path) as source:
        if source.size() != file.size_bytes:
            raise CorruptFileError(
                "a file of the archived timeline has another length than its manifest states",
                path=path,
                length=source.size(),
                stated=file.size_bytes,
            )
        parquet = pq.ParquetFile(source, page_checksum_verification=True)
        _check_columns(parquet.schema_arrow, columns, path)
        check_row_counts(parquet.metadata)
        for group in range(parquet.num_row_groups):
            table = parquet.read_row_group(group, columns=list(columns), use_threads=False)
            yield _checked(table, path)


def _check_columns(schema: pa.Schema, columns: Sequence[str], path: str) -> None:
    for name in columns:
        kinds = [field.type for field in schema if field.name == name]
        if len(kinds) != 1 or not any(test(kinds[0]) for test in _KINDS[ROWS.field(name).type]):
            raise CorruptFileError(
                "a column of the archived timeline is missing or has another type",
                path=path,
                column=name,
                type=", ".join(map(str, kinds)),
            )


def _checked(table: pa.Table, path: str) -> pa.Table:
    if "instantTime" in table.column_names:
        times = table["instantTime"]
        digits = pc.all(pc.match_substring_regex(times, _DIGITS)).as_py()
        if times.null_count or digits is False:
            raise CorruptFileError("an archived instant has no valid time", path=path)
    fields = [ROWS.field(name) for name in table.column_names]
    return table.cast(pa.schema(fields))


def concatenated_rows(
    fs: FileSystem, folder: str, files: Iterable[HistoryFile]
) -> Iterator[pa.Table]:
    """All rows of several files, unchanged and in order, in tables of at least 16 MB.

    Memory: one table and one row group.
    """
    waiting: list[pa.Table] = []
    for file in files:
        for table in read_history_file(fs, folder, file):
            waiting.append(table)
            if sum(each.nbytes for each in waiting) >= _ROW_GROUP_BYTES:
                yield pa.concat_tables(waiting)
                waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
