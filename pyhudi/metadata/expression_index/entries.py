"""Entries of expression indexes for data files: the range or the bloom filter of a function.

A file that has no such column has nulls in it.  Filters contain the text of the values that are not
null; logs have no filters.  Source: entries written by Apache Hudi 1.2.0, which differ in that
`valueCount` leaves out nulls and a log of deletes has no entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.formats.base_file import footer, read_base
from pyhudi.metadata.expression_index.definition import ExpressionIndex
from pyhudi.metadata.file_stats.records import FileIndex, log_rows, range_of_values
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.commit_metadata import WriteStat


@dataclass(frozen=True, slots=True)
class IndexedExpression:
    """One data file to index.  fs: rooted at the data table.

    kind: of the column in the table, to which older files are widened; None: as in the file, which
    a writer of this table's columns has just written.
    """

    fs: FileSystem
    stat: WriteStat
    index: ExpressionIndex
    kind: pa.DataType | None = None


def index_expression(task: IndexedExpression) -> FileIndex:
    """Compute the entry of a file.  Cost: reads the column, or a whole log.

    Raises UnsupportedTableError where the file has the column with another type.
    """
    stat, index = task.stat, task.index
    is_log = isinstance(parse_data_file(stat.file_name), LogFileName)
    if is_log and not index.is_ranged:
        return FileIndex(stat.partition, stat.file_name, (), None, "")
    values = _values(task, is_log=is_log)
    if index.is_ranged:
        found = range_of_values(index.column, values, stat.size_bytes, index.version)
        return FileIndex(stat.partition, stat.file_name, (found,), None, "")
    bloom = index.new_filter()
    for chunk in values.chunks:
        texts = chunk.drop_null().cast(pa.string())
        # Filters of Apache Hudi cannot contain the empty text; readers look for it in every file.
        bloom.add(texts.filter(pc.not_equal(texts, "")))
    return FileIndex(stat.partition, stat.file_name, (), bloom.to_base64(), bloom.kind)


def _values(task: IndexedExpression, *, is_log: bool) -> pa.ChunkedArray:
    """The function's value of each row of the file."""
    column, index = _column(task, is_log=is_log), task.index
    if pt.is_null(column.type):  # Apache Hudi fails to merge ranges of the type NULL with others
        return pa.chunked_array([pa.nulls(len(column), index.expression.own_type)])
    if not index.accepts(column.type):
        raise UnsupportedTableError(
            "a file has an indexed column with a type that the index cannot have",
            path=task.stat.path,
            index=index.name,
            column=index.column,
            type=str(column.type),
            hint="drop the index with table.index.drop()",
        )
    chunks = [index.expression.values(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, index.expression.result_type(column.type))


def _column(task: IndexedExpression, *, is_log: bool) -> pa.ChunkedArray:
    """The column's values; of type null where the file has no such column."""
    name, path, kind = task.index.column, task.stat.path, task.kind
    if is_log:
        rows = log_rows(task.fs, path)
        if name not in rows.column_names:
            return pa.chunked_array([pa.nulls(rows.num_rows)])
        column = rows.column(name)
        return column if kind is None else column.cast(kind)
    if kind is not None:
        return read_base(task.fs, path, schema=pa.schema([(name, kind)])).column(0)
    found = footer(task.fs, path)
    if name not in found.schema.names:
        return pa.chunked_array([pa.nulls(found.rows)])
    return read_base(task.fs, path, columns=[name]).column(0)
