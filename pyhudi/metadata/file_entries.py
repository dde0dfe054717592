"""Entries of new data files in the indexes of files, computed by the tasks that write the files.

The tasks compute them for the indexes that the table has when the write is planned.  A commit uses
those of indexes that still have the same definition, and computes the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyhudi.metadata.definitions import StatsDefinition, stats_definition
from pyhudi.metadata.expression_index.definition import ExpressionIndex, maintained_expressions
from pyhudi.metadata.expression_index.entries import IndexedExpression, index_expression
from pyhudi.metadata.file_stats.records import FileIndex, IndexedFile, index_file
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.commit_metadata import WriteStat

IndexOfFiles: TypeAlias = StatsDefinition | ExpressionIndex
"""What is computed of a file: column statistics with its bloom filter, or an expression index."""

ComputedEntries: TypeAlias = Mapping[IndexOfFiles, Mapping[str, FileIndex]]
"""Entries of files by path, for each index."""


def indexes_of_files(fs: FileSystem, config: TableConfig) -> tuple[IndexOfFiles, ...]:
    """What a commit stores about each new file.  Cost: reads a file, if there are such indexes.

    Raises CorruptFileError where the definitions cannot be read, UnsupportedTableError for an index
    that cannot be maintained.
    """
    expressions = maintained_expressions(fs, config)
    stored = footer_index(fs, config)
    return expressions if stored is None else (stored, *expressions)


def footer_index(fs: FileSystem, config: TableConfig) -> StatsDefinition | None:
    """What column statistics and bloom filters need of a file; None if the table has neither.
    Without column statistics it has no columns."""
    if COLUMN_STATS.path in config.metadata_partitions:
        return stats_definition(fs, config)
    if BLOOM_FILTERS.path in config.metadata_partitions:
        return StatsDefinition(0, frozenset())
    return None


def entry_of_file(fs: FileSystem, stat: WriteStat, index: IndexOfFiles) -> FileIndex:
    """Compute the entry of one file.  Cost: its footer, the column of an expression, or a log."""
    if isinstance(index, ExpressionIndex):
        return index_expression(IndexedExpression(fs, stat, index))
    return index_file(IndexedFile(fs, stat, index.version, index.columns))
