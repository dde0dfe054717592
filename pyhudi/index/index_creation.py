"""Indexes to create, and the results of their creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyhudi.engine import Engine
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.read.table_snapshot import TableState
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
            "an index needs a metadata table", path=state.fs.url,
            hint="run table.metadata.rebuild()",
        )  # fmt: skip
