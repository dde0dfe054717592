"""Creation of expression indexes: the checks of a new one, and building those that were lost.

```
files -> entries -> base HFiles -> definition -> partition listed
```

A definition without a listed partition is not in use, so an interrupted creation has no effect and
may be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.engine import Engine
from pyhudi.errors import SchemaError, UnsupportedTableError, UserError
from pyhudi.index.index_creation import IndexCreation, check_new
from pyhudi.metadata.bootstrap import check_quiet, create_partition, delete_partition
from pyhudi.metadata.definitions import add_definition
from pyhudi.metadata.expression_index.changes import ranges_of_files
from pyhudi.metadata.expression_index.definition import (
    ExpressionIndex,
    ExpressionKind,
    expression_indexes,
    expression_of,
    filter_options_of,
    usable_expressions,
)
from pyhudi.metadata.expression_index.entries import IndexedExpression, index_expression
from pyhudi.metadata.expression_index.functions import FUNCTIONS
from pyhudi.metadata.file_stats.build import grouped, newest_file_names, stored_stats
from pyhudi.metadata.file_stats.changes import RecordChanges, bloom_changes
from pyhudi.metadata.file_stats.records import FileIndex
from pyhudi.metadata.payloads import EXPRESSION_PREFIX
from pyhudi.metadata.record_schema import records_of
from pyhudi.near_names import columns_hint
from pyhudi.options import ReadOptions
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import BEFORE_ALL_INSTANTS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant import State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_ONE_ARGUMENT: Final = frozenset({"year", "month", "day", "hour", "lower", "upper", "length"})
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
GROUPS: Final = 2
"""File groups of a new index, as in Apache Hudi."""


@dataclass(frozen=True, slots=True)
class ExpressionRequest:
    """An index to create.  name: None for one made of function and column."""

    column: str
    function: str
    using: str
    name: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def plan(self, state: TableState) -> IndexCreation:
        """As `IndexRequest.plan`."""
        index = _new_expression(state, self)
        version = f"V{index.version}"
        return IndexCreation(index.name, index.column, version, GROUPS, 0, dry_run=True)

    def build(self, state: TableState, engine: Engine) -> IndexCreation:
        """As `IndexRequest.build`, for every file."""
        return create_expression_index(state, _new_expression(state, self), engine)


def _new_expression(state: TableState, request: ExpressionRequest) -> ExpressionIndex:
    """The index to create.  Raises the errors of `IndexRequest`."""
    version = state.config.layout.index_version
    if not version:
        raise UnsupportedTableError(
            "tables of this version have no expression indexes",
            version=state.config.version,
            hint="upgrade the table to version 8 or 9",
        )
    index = _requested(request, version)
    check_new(state, index.name)
    if state.config.is_merge_on_read and not index.is_ranged:
        raise UnsupportedTableError(
            "merge-on-read tables cannot have expression indexes of bloom filters",
            column=request.column,
            hint="Apache Hudi 1.2.0 could not write logs to the table",
        )
    _check_single(state, index)
    schema = state.schema()
    if request.column not in schema.names:
        raise UserError(
            "the table has no such column",
            column=request.column,
            hint=columns_hint([request.column], schema.names),
        )
    history = state.columns()
    if history is not None and request.column in history.moved:
        raise UnsupportedTableError(
            "a renamed column cannot have an expression index",
            column=request.column,
            hint="files have an older name of it",
        )
    kind = schema.field(request.column).type
    if version < 2 and pt.is_temporal(kind) and index.is_ranged:
        raise UnsupportedTableError(
            "column statistics of a function of times cannot be created at this table version",
            version=state.config.version,
            column=request.column,
            expression=request.function,
            hint="Apache Hudi 1.2.0 fails on filters with them; upgrade the table to version 9",
        )
    if not index.accepts(kind):
        raise SchemaError(
            "a column of this type cannot have the expression index",
            column=request.column,
            type=str(kind),
            expression=request.function,
            using=request.using,
            hint="docs/metadata_indexes.md lists the types of each function",
        )
    return index


def _check_single(state: TableState, index: ExpressionIndex) -> None:
    """Apache Hudi 1.2.0 uses the index of any such function for a filter with any other of the same
    column, and then misses rows."""
    for other in expression_indexes(state.fs, state.config):
        functions = {each.expression.function for each in (index, other)}
        if other.column == index.column and len(functions) == 2 and functions <= _ONE_ARGUMENT:
            raise UserError(
                "the column has an expression index of another function of one argument",
                column=index.column,
                index=other.name,
                hint="Apache Hudi 1.2.0 confuses them; drop that index first",
            )


def _requested(request: ExpressionRequest, version: int) -> ExpressionIndex:
    kinds = {kind.value: kind for kind in ExpressionKind}
    if request.using not in kinds:
        raise UserError(
            "an expression index cannot use this", using=request.using, hint=" or ".join(kinds)
        )
    if request.function not in FUNCTIONS:
        raise UserError(
            "no expression index of this function can be created",
            expression=request.function,
            hint=", ".join(FUNCTIONS),
        )
    default = re.sub(r"\W", "_", f"{request.function}_{request.column}")
    name = (request.name or default).removeprefix(EXPRESSION_PREFIX)
    if not _NAME.fullmatch(name):
        raise UserError("the name of an index may contain only letters, digits and _", name=name)
    filters = filter_options_of(request.options)
    if filters and kinds[request.using] is not ExpressionKind.BLOOM_FILTERS:
        raise UserError("column statistics have no such option", option=filters[0][0])
    expression = expression_of(request.function, request.column, request.options)
    index = ExpressionIndex(
        EXPRESSION_PREFIX + name, expression, kinds[request.using], version, filters
    )
    index.check()
    return index


def create_expression_index(
    state: TableState, index: ExpressionIndex, engine: Engine, group_count: int = GROUPS
) -> IndexCreation:
    """Build the index for every file.  The caller holds the table's lock.

    Raises IndexNotReadyError while a write is pending.
    """
    check_quiet(state.timeline, state.log)
    kind = state.schema().field(index.column).type
    _, entries = create_expression(
        state.fs, state.config, state.log, index, kind, group_count=group_count, engine=engine
    )
    return IndexCreation(index.name, index.column, f"V{index.version}", group_count, entries)


def recreate_expressions(fs: FileSystem, group_counts: Mapping[str, int], engine: Engine) -> None:
    """Build the expression indexes among these partitions that the table no longer lists, by their
    definitions; those that it cannot have stay unlisted.

    group_counts: of each partition.  The caller holds the table's lock.
    """
    lost = group_counts.keys() - load_config(fs).metadata_partitions
    for index in usable_expressions(fs, load_config(fs), lost):
        state = load_state(fs, ReadOptions())
        schema = state.schema()
        if index.column in schema.names and index.accepts(schema.field(index.column).type):
            groups = group_counts[index.name] or GROUPS
            create_expression_index(state, index, engine, groups)


def create_expression(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    index: ExpressionIndex,
    kind: pa.DataType,
    *,
    group_count: int,
    engine: Engine,
) -> tuple[TableConfig, int]:
    """Build and list an index; returns the stored properties and the number of its entries.

    kind: of the column in the table.  The caller holds the table's lock, no write is pending, and
    the table has `files`.  Cost: reads the column of every base file, and every log in full.
    """
    timeline = log.load()
    tasks = [IndexedExpression(fs, stat, index, kind) for stat in stored_stats(fs, log, timeline)]
    found = engine.run(index_expression, tasks, label="expression-index") if tasks else []
    if index.is_ranged:
        entries = ranges_of_files(index, found, newest_file_names(fs, config, log, timeline))
    else:
        entries = _filters(config, timeline, found)
    delete_partition(fs, index.name)
    config = add_definition(fs, config, index.to_definition())
    groups = grouped(entries.keys, entries.values, group_count)
    config = create_partition(fs, config, timeline, index.partition, groups)
    return config, len(entries.keys)


def _filters(config: TableConfig, timeline: Timeline, found: Sequence[FileIndex]) -> RecordChanges:
    last = timeline.where(None, State.COMPLETED).last
    time = last.time if last else BEFORE_ALL_INSTANTS
    return bloom_changes(found, time, records_of(config.layout.index_version).stored)
