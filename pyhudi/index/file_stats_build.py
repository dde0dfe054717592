"""Creation of `column_stats`, `partition_stats` and `bloom_filters` on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi.engine import Engine
from pyhudi.errors import IndexNotReadyError, UnsupportedTableError, UserError
from pyhudi.index.index_creation import IndexCreation, check_new
from pyhudi.metadata.bootstrap import check_quiet
from pyhudi.metadata.definitions import (
    COLUMNS_MAX,
    define_column_stats,
    remove_definition,
    stats_definition,
    stats_fields,
)
from pyhudi.metadata.file_stats.build import build_facts
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS, MetadataPartition
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY
from pyhudi.table.properties import TableConfig


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """Statistics of files or partitions, or bloom filters, to create.

    columns: of `column_stats`; none: `default_columns`, or else the first `columns_max`.
    """

    partition: MetadataPartition
    group_count: int
    columns: Sequence[str] = ()
    default_columns: Sequence[str] = ()
    columns_max: int = COLUMNS_MAX

    def plan(self, state: TableState) -> IndexCreation:
        """As `IndexRequest.plan`."""
        return self._result(state, self._indexed(state), entries=0, dry_run=True)

    def build(self, state: TableState, engine: Engine) -> IndexCreation:
        """As `IndexRequest.build`.  Cost: reads the footer of every base file and every log in
        full."""
        indexed = self._indexed(state)
        check_quiet(state.timeline, state.log)
        _, entries = build_facts(
            state.fs,
            self._defined(state),
            state.log,
            group_counts={self.partition: self.group_count},
            engine=engine,
        )
        return self._result(state, indexed, entries=entries, dry_run=False)

    @property
    def _chosen(self) -> Sequence[str]:
        return self.columns or self.default_columns

    def _indexed(self, state: TableState) -> Sequence[str]:
        """The columns that the index describes.  Raises the errors of `IndexRequest`."""
        config = state.config
        check_new(state, self.partition.path)
        if self.partition == BLOOM_FILTERS:
            return (RECORD_KEY,)
        if self.partition == COLUMN_STATS:
            self._check_columns(config)
            return stats_fields(config, state.schema(), self._chosen, self.columns_max)
        _check_partition_stats(config)
        return sorted(stats_definition(state.fs, config).columns or ())

    def _check_columns(self, config: TableConfig) -> None:
        if self.columns and not config.layout.index_version:
            raise UnsupportedTableError(
                "column statistics of tables of this version have every column of a primitive type",
                version=config.version,
                columns=",".join(self.columns),
                hint="name no columns",
            )

    def _defined(self, state: TableState) -> TableConfig:
        """The properties once the definition is stored; one without a listed partition describes
        entries that no longer exist."""
        if self.partition != COLUMN_STATS:
            return state.config
        config = remove_definition(state.fs, state.config, COLUMN_STATS.path)
        return define_column_stats(state.fs, config, state.schema(), self._chosen, self.columns_max)

    def _result(
        self, state: TableState, columns: Sequence[str], *, entries: int, dry_run: bool
    ) -> IndexCreation:
        newest = state.config.layout.index_version or 1
        version = 1 if self.partition == BLOOM_FILTERS else newest
        return IndexCreation(
            self.partition.path,
            ",".join(columns),
            f"V{version}",
            self.group_count,
            entries,
            dry_run=dry_run,
        )


def _check_partition_stats(config: TableConfig) -> None:
    if not config.layout.index_version:
        raise UnsupportedTableError(
            "tables of this version have no partition statistics",
            version=config.version,
            hint="upgrade the table to version 8 or 9",
        )
    if not config.partition_fields:
        raise UserError("a table without partitions cannot have partition statistics")
    if COLUMN_STATS.path not in config.metadata_partitions:
        raise IndexNotReadyError(
            "partition statistics are computed from column statistics",
            hint="create 'column_stats' first",
        )
