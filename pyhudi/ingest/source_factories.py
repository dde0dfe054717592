"""Sources of tables and databases from properties, under the names of Apache Hudi's streamer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.ingest.databases.query_source import QuerySource
from pyhudi.ingest.source import RowSource
from pyhudi.ingest.source_registry import needed
from pyhudi.ingest.table_source import TableSource

_STARTS: Final = {"READ_LATEST": "latest", "READ_UPTO_LATEST_COMMIT": "earliest"}


def table_from(properties: Mapping[str, str]) -> RowSource:
    """The source `table`: properties `source.hoodieincr.path`, `source.hoodieincr.num_instants`
    and `source.hoodieincr.missing.checkpoint.strategy`."""
    strategy = properties.get("source.hoodieincr.missing.checkpoint.strategy", "").upper()
    commits = properties.get("source.hoodieincr.num_instants")
    return TableSource(
        needed(properties, "source.hoodieincr.path", of="table"),
        start=_STARTS.get(strategy, "snapshot"),
        max_commits=None if commits is None else int(commits),
    )


def query_from(properties: Mapping[str, str]) -> RowSource:
    """The source `query`: properties `jdbc.url`, `jdbc.table.name` (a table or a query) and, if
    `jdbc.incr.pull` is true, `jdbc.table.incr.column.name`."""
    is_incremental = properties.get("jdbc.incr.pull", "false").lower() == "true"
    column = "jdbc.table.incr.column.name"
    return QuerySource(
        needed(properties, "jdbc.url", of="query").removeprefix("jdbc:"),
        needed(properties, "jdbc.table.name", of="query"),
        incremental=needed(properties, column, of="query") if is_incremental else None,
    )
