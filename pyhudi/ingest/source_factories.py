"""Sources of tables, databases and queues from properties, with the names of Apache Hudi."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from typing import Final

from pyhudi.errors import OptionError
from pyhudi.ingest.databases.postgres_changes import PostgresChanges
from pyhudi.ingest.databases.query_source import QuerySource
from pyhudi.ingest.queues.s3_event_source import S3EventSource
from pyhudi.ingest.source import RowSource
from pyhudi.ingest.source_registry import csv_dialect, needed
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


def postgres_changes_from(properties: Mapping[str, str]) -> RowSource:
    """The source `postgres-changes`: properties `jdbc.url`, `jdbc.table.name`, and
    `pyhudi.ingest.postgres.*` with the arguments of PostgresChanges."""
    own, source = "pyhudi.ingest.postgres.", "postgres-changes"
    return PostgresChanges(
        needed(properties, "jdbc.url", of=source).removeprefix("jdbc:"),
        needed(properties, "jdbc.table.name", of=source),
        publication=needed(properties, own + "publication", of=source),
        slot=needed(properties, own + "slot", of=source),
        snapshot=properties.get(own + "snapshot", "true").lower() == "true",
        truncate=properties.get(own + "truncate", "fail"),
    )


def s3_events_from(properties: Mapping[str, str]) -> RowSource:
    """The source `s3-events`: properties `s3.source.queue.*`, and those of `source.cloud.data.*`
    and `source.s3incr.*` that select objects."""
    queue, cloud, incr = "s3.source.queue.", "source.cloud.data.", "source.s3incr."
    for name in (queue + "fs", incr + "fs.prefix"):
        if properties.get(name, "s3").lower().removesuffix("://") not in ("s3", "s3a", "s3n"):
            raise OptionError(
                "a queue of S3 names objects of S3",
                option=f"hoodie.streamer.{name}",
                value=properties[name],
            )

    def of(name: str, other: str = "", default: str = "") -> str:
        return (properties.get(cloud + name) or properties.get(incr + other) or default).strip()

    hidden = properties.get(queue + "visibility.timeout")
    form = properties.get(cloud + "datafile.format")
    starts = of("ignore.relpath.prefix", "ignore.key.prefix")
    part = of("ignore.relpath.substring", "ignore.key.substring")
    excluded = [starts and glob.escape(starts) + "*", part and f"*{glob.escape(part)}*"]
    return S3EventSource(
        needed(properties, queue + "url", of="s3-events"),
        format=form or properties.get("format") or properties.get("source.hoodieincr.file.format"),
        prefix=of("select.relpath.prefix", "key.prefix"),
        pattern="*" + glob.escape(of("select.file.extension")),
        excluded=[each for each in excluded if each],
        csv=csv_dialect(properties),
        max_messages=int(properties.get(queue + "max.messages.per.batch", "1000")),
        wait_seconds=int(properties.get(queue + "long.poll.wait", "1")),
        visibility_seconds=None if hidden is None else int(hidden),
        skip_missing=of("check.file.exists", "check.file.exists", "false").lower() == "true",
        region=properties.get(queue + "region"),
    )
