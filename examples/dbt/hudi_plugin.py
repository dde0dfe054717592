"""A plugin of dbt-duckdb: sources that are snapshots of Hudi tables, and models that are merged
into Hudi tables by their record key.

A source has the meta `plugin: hudi`, `path` and, for time travel, `as_of`.  A model has
`materialized='external', format='parquet', plugin='hudi', path=..., record_key=...`.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt.adapters.duckdb.utils import SourceConfig, TargetConfig

import pyhudi


class Plugin(BasePlugin):
    """Reads and writes Hudi tables."""

    def load(self, source_config: SourceConfig) -> Any:
        """The rows of a table's newest snapshot, or as of a time."""
        table = pyhudi.open_table(source_config["path"])
        return table.scan(as_of=source_config.get("as_of")).to_pyarrow_dataset()

    def store(self, target_config: TargetConfig) -> None:
        """Upsert the rows that dbt-duckdb has written to a file; new tables are created."""
        config, location = target_config.config, target_config.location
        assert location is not None
        rows = pq.read_table(location.path)
        if rows.num_rows == 1 and all(column.null_count for column in rows.columns):
            return  # of a model without rows dbt-duckdb writes one row of nulls
        report = pyhudi.upsert(config.get("path"), rows, record_key=config.get("record_key"))
        print(f"{target_config.relation.identifier}: {report}")

    def default_materialization(self) -> str:
        return "view"
