"""Reading of skeleton files: meta columns joined with the data columns of the source file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError
from pyhudi.formats.base_file import corrupt_as, read_base, read_parquet
from pyhudi.records import META_COLUMNS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.bootstrap_index import SOURCE_OPTION
from pyhudi.table.file_group_view import SourceFile


def sourced_rows(
    fs: FileSystem,
    path: str,
    source: SourceFile,
    columns: Sequence[str],
    *,
    dictionaries: Collection[str] = (),
) -> pa.Table:
    """The rows of the skeleton file at `path`, as `read_base` returns them.

    Both files are read completely because their row groups may differ.  Memory: one file.  Raises
    CorruptFileError where the two do not have the same number of rows, or where the source file
    has changed since the bootstrap; StorageError where it is missing.
    """
    meta = [name for name in columns if name in META_COLUMNS]
    skeleton = read_base(fs, path, columns=meta, dictionaries=dictionaries)
    data = [name for name in columns if name not in META_COLUMNS]
    rows = _source_rows(source, data, dictionaries)
    if rows.num_rows != skeleton.num_rows:
        raise CorruptFileError(
            "a skeleton file and its source file have different numbers of rows",
            path=path,
            rows=skeleton.num_rows,
            source=f"{source.fs.url}/{source.path}",
            source_rows=rows.num_rows,
        )
    found = {**_by_name(skeleton), **_by_name(rows)}
    names = [name for name in columns if name in found]
    if not names:
        return skeleton
    return pa.table([found[name] for name in names], names=names)


def _by_name(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(rows.column_names, rows.columns, strict=True))


def _source_rows(
    source: SourceFile, columns: Sequence[str], dictionaries: Collection[str]
) -> pa.Table:
    full = f"{source.fs.url}/{source.path}"
    try:
        with source.fs.arrow_file(source.path) as file:
            with corrupt_as(full):
                size = file.size()
            if source.size_bytes is not None and size != source.size_bytes:
                raise CorruptFileError(
                    "a source file has changed since the table was bootstrapped",
                    path=full,
                    size_bytes=size,
                    bootstrapped_bytes=source.size_bytes,
                )
            return read_parquet(file, path=full, columns=columns, dictionaries=dictionaries)
    except FileMissingError as missing:
        raise StorageError(
            "a source file of a bootstrapped table is missing",
            path=full,
            hint=f"set {SOURCE_OPTION} to the folder where its source files are now",
        ) from missing
