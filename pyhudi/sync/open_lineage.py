"""Events of OpenLineage: which job wrote which table, with its schema, version and amounts.

```
{"eventType": "COMPLETE", "eventTime", "producer", "schemaURL",
 "run": {"runId", "facets"}, "job": {"namespace", "name", "facets"}, "inputs": [],
 "outputs": [{"namespace", "name", "facets", "outputFacets"}]}
```

A commit has one run id, however often its event is sent.
Source: OpenLineage 2-0-2, and the versions of facets in `_FACETS`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import NAMESPACE_URL, uuid5

from pyhudi.errors import CatalogError, StorageError, UserError
from pyhudi.options.catalogs import CatalogOptions, LineageKind
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import META_COLUMNS
from pyhudi.storage.operating_system import open_descriptor
from pyhudi.sync.column_types import hive_type
from pyhudi.sync.json_requests import post_json
from pyhudi.sync.sync_report import EntryChange, SyncReport
from pyhudi.sync.synchronize import entry_facts
from pyhudi.sync.table_entries import EntryFacts, as_url
from pyhudi.timeline.clock import parse_instant
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Instant

_SPEC: Final = "https://openlineage.io/spec"
_FACETS: Final = {
    "SchemaDatasetFacet": "1-2-0",
    "DatasetVersionDatasetFacet": "1-0-1",
    "DatasourceDatasetFacet": "1-0-1",
    "StorageDatasetFacet": "1-0-1",
    "LifecycleStateChangeDatasetFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ProcessingEngineRunFacet": "1-1-1",
    "JobTypeJobFacet": "2-0-4",
}
_PRODUCER: Final = "urn:pyhudi"
_ENDPOINT: Final = "/api/v1/lineage"
_CHANGES: Final = {
    "INSERT_OVERWRITE": "OVERWRITE",
    "INSERT_OVERWRITE_TABLE": "OVERWRITE",
    "DELETE_PARTITION": "TRUNCATE",
}
"""Operations, and the change of the life of a dataset that each is."""
_SERVICES: Final = ("COMPACT", "LOG_COMPACT", "CLUSTER")


def send_event(
    state: TableState,
    options: CatalogOptions,
    *,
    instant: str | None = None,
    dry_run: bool = False,
) -> SyncReport:
    """Send the event of one commit.  instant: None for the newest one that is not a table service.

    Raises CatalogError if the server or the file fails; UserError, SchemaError before that.
    """
    started = time.perf_counter()
    if options.lineage_url is None:
        raise UserError(
            "no server of OpenLineage is set",
            hint="pass uri=, or set pyhudi.openlineage.url",
        )
    found = _commit(state, instant)
    namespace, name = options.lineage_namespace, options.table or state.config.name
    entry = EntryChange(name)
    if found is not None:
        event = run_event(state, options, found)
        name = event["job"]["name"]
        entry = EntryChange(name, events_sent=1, synced_instant=found.time)
        if not dry_run:
            _send(options, event)
    seconds = time.perf_counter() - started
    kind = LineageKind.OPEN_LINEAGE.value
    return SyncReport(kind, options.lineage_url, namespace, False, (entry,), seconds, dry_run)


def run_event(state: TableState, options: CatalogOptions, instant: Instant) -> dict[str, Any]:
    """The RunEvent of a completed commit.  Raises UserError for a table in memory."""
    facts = entry_facts(state, options)
    commit = state.log.commit(instant)
    url = as_url(facts.location)
    ended = parse_instant(instant.completion, state.zone)
    return {
        "eventType": "COMPLETE",
        "eventTime": ended.astimezone(UTC).isoformat(timespec="milliseconds"),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {
            "runId": str(uuid5(NAMESPACE_URL, f"{url}#{instant.time}")),
            "facets": {
                "processing_engine": _facet(
                    "ProcessingEngineRunFacet", name="pyhudi",
                    version=str(import_module("pyhudi").__version__),
                )
            },
        },
        "job": {
            "namespace": options.lineage_namespace,
            "name": _job(state, options, commit),
            "facets": {
                "jobType": _facet(
                    "JobTypeJobFacet", processingType="BATCH", integration="PYHUDI", jobType="JOB"
                )
            },
        },
        "inputs": [],
        "outputs": [_output(state, facts, instant, commit)],
    }  # fmt: skip


def dataset_name(url: str) -> tuple[str, str]:
    """The namespace and name of the dataset at a URL, by OpenLineage's specification of names."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return "file", parts.path.rstrip("/")
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}.get(
        parts.scheme, parts.scheme
    )
    path = parts.path.rstrip("/")
    is_bucket = scheme in ("s3", "gs")
    return f"{scheme}://{parts.netloc}", path.lstrip("/") if is_bucket else path


def _commit(state: TableState, time_: str | None) -> Instant | None:
    """The commit at a time, or the newest; None for a table without commits."""
    for instant in reversed(list(state.timeline.commits)):
        if time_ is None and not _is_service(state, instant):
            return instant
        if instant.time == time_:
            return instant
    if time_ is not None:
        raise StorageError("the commit is not on the timeline", instant=time_)
    return None


def _is_service(state: TableState, instant: Instant) -> bool:
    return state.log.commit(instant).operation in _SERVICES or state.log.is_clustering(instant)


def _job(state: TableState, options: CatalogOptions, commit: CommitMetadata) -> str:
    """`table.operation`, after the table's database if it has one."""
    database = options.database or state.config.database
    table = options.table or state.config.name
    names = (database, table, commit.operation.lower())
    return ".".join(name for name in names if name)


def _output(
    state: TableState, facts: EntryFacts, instant: Instant, commit: CommitMetadata
) -> dict[str, Any]:
    """The table as a dataset, with what the commit wrote."""
    url = as_url(facts.location)
    namespace, name = dataset_name(url)
    facets = {
        "schema": _facet("SchemaDatasetFacet", fields=_fields(facts)),
        "version": _facet("DatasetVersionDatasetFacet", datasetVersion=instant.time),
        "dataSource": _facet("DatasourceDatasetFacet", name=namespace, uri=url),
        "storage": _facet(
            "StorageDatasetFacet", storageLayer="hudi",
            fileFormat=state.config.base_file_format.lower(),
        ),
    }  # fmt: skip
    change = _change(state, instant, commit)
    if change:
        facets["lifecycleStateChange"] = _facet(
            "LifecycleStateChangeDatasetFacet", lifecycleStateChange=change
        )
    statistics = _facet(
        "OutputStatisticsOutputDatasetFacet",
        rowCount=sum(stat.insert_count + stat.update_count for stat in commit.stats),
        size=sum(stat.write_bytes for stat in commit.stats),
        fileCount=len(commit.stats),
    )
    return {
        "namespace": namespace, "name": name, "facets": facets,
        "outputFacets": {"outputStatistics": statistics},
    }  # fmt: skip


def _fields(facts: EntryFacts) -> list[dict[str, Any]]:
    """The columns, with the names of types in Hive."""
    found = []
    for column in facts.schema:
        if column.name not in META_COLUMNS:
            field = {"name": column.name, "type": hive_type(column.type, timestamps=True)}
            comment = facts.comments.get(column.name)
            found.append({**field, "description": comment} if comment else field)
    return found


def _change(state: TableState, instant: Instant, commit: CommitMetadata) -> str | None:
    """What the commit changed in the life of the table; None for rows only."""
    if commit.operation in _CHANGES:
        return _CHANGES[commit.operation]
    earlier = [i for i in state.timeline.commits if i.time < instant.time]
    if not earlier:
        return None if state.archive.has_commits else "CREATE"
    before = state.log.commit(earlier[-1]).schema
    return "ALTER" if before and commit.schema and _differ(before, commit.schema) else None


def _differ(one: str, other: str) -> bool:
    return bool(json.loads(one)["fields"] != json.loads(other)["fields"])


def _facet(name: str, /, **fields: Any) -> dict[str, Any]:
    schema = f"{_SPEC}/facets/{_FACETS[name]}/{name}.json#/$defs/{name}"
    return {"_producer": _PRODUCER, "_schemaURL": schema, **fields}


def _send(options: CatalogOptions, event: Mapping[str, Any]) -> None:
    """To a server, or as a line of a file."""
    url = options.lineage_url or ""
    parts = urlsplit(url)
    if parts.scheme != "file":
        target = url if parts.path.strip("/") else url.rstrip("/") + _ENDPOINT
        post_json(target, event, token=options.lineage_key)
        return
    line = json.dumps(event).encode() + b"\n"
    try:
        descriptor = open_descriptor(
            unquote(parts.path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        try:
            os.write(descriptor, line)  # one call, so that lines of several writers do not mix
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CatalogError("the file of events failed", url=url, reason=str(error)) from error
