"""Entries of secondary indexes in a write: found from its files, written at its commit point."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.errors import Overtaken, OvertakenError, SchemaError, UnsupportedTableError
from pyhudi.index.secondary.changes import IndexShape, StagedChanges, changes_of_commit
from pyhudi.metadata.delta_commit import MetadataCommit
from pyhudi.metadata.expression_index.definition import maintained_expressions
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.secondary_index.changes import combined
from pyhudi.metadata.secondary_index.definition import PREFIX, secondary_indexes
from pyhudi.metadata.secondary_index.key_format import is_indexable, text_kind
from pyhudi.metadata.secondary_index.records import log_blocks_of
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime, with_meta
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.write.write_context import PlannedWrite, WriteContext
from pyhudi.write.write_tasks import WrittenFiles


def maintained_indexes(
    state: TableState, metadata: MetadataTable | None, stored: pa.Schema, schema: pa.Schema
) -> tuple[IndexShape, ...]:
    """The secondary indexes that a write must maintain.

    stored, schema: columns of the table before and after the write.  Raises UnsupportedTableError
    for an index that cannot be maintained, SchemaError for a change of an indexed column's type
    that changes the text of stored values.
    """
    found = {index.name: index for index in secondary_indexes(state.fs, state.config)}
    shapes = []
    for name in sorted(n for n in state.config.metadata_partitions if n.startswith(PREFIX)):
        index = found.get(name)
        kind = None
        if index is not None and index.column in schema.names:
            kind = schema.field(index.column).type
        if index is None or kind is None or not is_indexable(kind) or metadata is None:
            raise UnsupportedTableError(
                "the table has a secondary index that cannot be maintained",
                index=name,
                hint="drop it with table.index.drop()",
            )
        before = stored.field(index.column).type if index.column in stored.names else kind
        if text_kind(before) is not text_kind(kind):
            raise SchemaError(
                "the type of an indexed column cannot change in this way",
                index=name,
                column=index.column,
                stored=str(before),
                incoming=str(kind),
                hint="drop the index with table.index.drop() first",
            )
        shapes.append(IndexShape(index, len(metadata.slices(index.partition))))
    return tuple(shapes)


def check_expressions(state: TableState, schema: pa.Schema) -> None:
    """Raise UnsupportedTableError for an expression index that a write cannot maintain; schema: of
    the table after the write."""
    for index in maintained_expressions(state.fs, state.config):
        kind = schema.field(index.column).type if index.column in schema.names else None
        if kind is None or not index.accepts(kind):
            raise UnsupportedTableError(
                "the table has an expression index that cannot be maintained",
                index=index.name,
                expression=index.expression.function,
                column=index.column,
                type=str(kind),
                hint="drop it with table.index.drop()",
            )


def find_entries(
    context: WriteContext, planned: PlannedWrite, files: WrittenFiles, at: InstantTime
) -> StagedChanges:
    """The changes of entries by the files that a write has written and those it replaces."""
    return changes_of_commit(
        context.state,
        context.secondary,
        with_meta(context.schema),
        files.stats,
        planned.replaced.slices,
        at=at,
        engine=context.engine,
        staging=context.staging,
    )


def write_entry_logs(changes: StagedChanges, commit: MetadataCommit) -> list[WriteStat] | Overtaken:
    """Write the logs of the changed file groups of each index.

    Returns Overtaken where an index has been rebuilt with another number of file groups.
    """
    written = []
    for number, shape in enumerate(changes.shapes):
        targets = commit.secondary_targets(shape.index.name)
        if len(targets) != shape.group_count:
            name = shape.index.name
            return Overtaken(OvertakenError("a secondary index was rebuilt", index=name))
        for target in targets:
            mine = combined(changes.of(number, target.number))
            blocks = log_blocks_of(mine, shape.index.name, instant=commit.time)
            if blocks:
                deletes = len(mine.ended)
                stat = commit.write_log(target, blocks, values=len(mine.added), deletes=deletes)
                written.append(stat)
    return written
