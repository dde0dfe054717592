"""Indexes to create and the results of their creation; the creation of a record index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyhudi.engine import Engine
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.index.maintenance.partitioned_build import (
    build_by_partition,
    check_partitionable,
    planned_counts,
)
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.index.maintenance.sizing import planned_groups
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.by_partition import check_no_secondary
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import PARTITION_PATH, RECORD_KEY
from pyhudi.reports import Report


@dataclass(frozen=True, slots=True)
class IndexCreation(Report):
    """Result of the creation of an index.  column: several are joined with commas.  entries: 0 for
    a dry run, which counts none."""

    name: str
    column: str
    version: str
    file_groups: int
    entries: int
    dry_run: bool = False


class IndexRequest(Protocol):
    """An index of the metadata table to create.

    Both methods raise UserError, SchemaError, UnsupportedTableError or IndexNotReadyError where the
    table cannot have the index.
    """

    def plan(self, state: TableState) -> IndexCreation:
        """What `build` would create now; changes nothing."""
        ...

    def build(self, state: TableState, engine: Engine) -> IndexCreation:
        """Build the index from the newest snapshot and list its partition.

        The caller holds the table's lock.  Raises IndexNotReadyError while a write is pending.
        """
        ...


def check_new(state: TableState, name: str) -> None:
    """Raise UserError where the table has this metadata partition, IndexNotReadyError where it has
    no metadata table."""
    if name in state.config.metadata_partitions:
        raise UserError("the table has an index of this name", name=name)
    if state.metadata is None:
        raise IndexNotReadyError(
            "an index needs a metadata table",
            path=state.fs.url,
            hint="run table.metadata.rebuild()",
        )


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """A record index to create.  rules: state the number of its file groups.  partitioned: by
    partition of the table."""

    rules: WriteOptions
    partitioned: bool = False

    def plan(self, state: TableState) -> IndexCreation:
        """As `IndexRequest.plan`."""
        count = self._group_count(state)
        return IndexCreation(RECORD_INDEX.path, self._columns, "V1", count, 0, dry_run=True)

    def build(self, state: TableState, engine: Engine) -> IndexCreation:
        """As `IndexRequest.build`.  Cost: reads the key column of the table."""
        count = self._group_count(state)
        if self.partitioned:
            built = build_by_partition(state, self.rules, engine, silent)
        else:
            built = build_now(state, count, engine, silent)
        return IndexCreation(RECORD_INDEX.path, self._columns, "V1", count, built.entries)

    @property
    def _columns(self) -> str:
        return f"{PARTITION_PATH},{RECORD_KEY}" if self.partitioned else RECORD_KEY

    def _group_count(self, state: TableState) -> int:
        check_new(state, RECORD_INDEX.path)
        if is_elastic(state.config):
            raise UserError(
                "the table has an elastic index instead of a record index",
                path=state.fs.url,
                hint="table.index.rebuild(kind='record') replaces it",
            )
        if self.partitioned:
            check_partitionable(state.config)
            check_no_secondary(state.fs, state.config)
            return sum(planned_counts(state, self.rules).values())
        return planned_groups(state, self.rules)
