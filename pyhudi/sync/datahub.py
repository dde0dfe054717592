"""The dataset of a table in DataHub: its schema, its properties and that it exists.

```
POST {server}/aspects?action=ingestProposal
{"proposal": {"entityType": "dataset", "entityUrn": "urn:li:dataset:(platform,database.table,env)",
              "changeType": "UPSERT", "aspectName",
              "aspect": {"contentType": "application/json", "value": the aspect as JSON text}}}
```

Source: DataHubSyncClient and HoodieDataHubDatasetIdentifier of Apache Hudi, the field paths of
DataHub (version 2), and its ingest API.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyhudi.errors import UserError
from pyhudi.formats.avro_schema import arrow_to_avro, with_meta_fields
from pyhudi.options.catalogs import CatalogOptions, LineageKind
from pyhudi.read.table_snapshot import TableState
from pyhudi.sync.json_requests import post_json
from pyhudi.sync.sync_report import EntryChange, SyncReport
from pyhudi.sync.synchronize import entry_facts

_ACTION: Final = "/aspects?action=ingestProposal"
_HEADERS: Final = {"X-RestLi-Protocol-Version": "2.0.0"}
_VERSIONS: Final = {6: "SIX", 8: "EIGHT", 9: "NINE"}
"""As Apache Hudi writes them into properties."""
_SCHEMA: Final = "com.linkedin.schema."
_KINDS: Final[Mapping[str, str]] = {
    "boolean": "BooleanType", "int": "NumberType", "long": "NumberType", "float": "NumberType",
    "double": "NumberType", "map": "MapType", "enum": "EnumType", "null": "NullType",
    "array": "ArrayType", "bytes": "BytesType", "fixed": "FixedType", "union": "UnionType",
    "record": "RecordType", "string": "StringType",
}  # fmt: skip
"""The class of DataHub for each type of Avro."""
_NATIVE: Final[Mapping[str, str]] = {
    "date": "date", "uuid": "uuid", "time-millis": "time_millis", "time-micros": "time_micros",
    "timestamp-millis": "timestamp_ntz_millis", "timestamp-micros": "timestamp_ntz_micros",
    "local-timestamp-millis": "timestamp_millis", "local-timestamp-micros": "timestamp_micros",
}  # fmt: skip
"""Names of logical types, as Apache Hudi writes them; it has the two kinds of timestamps so."""


def send_dataset(
    state: TableState, options: CatalogOptions, *, dry_run: bool = False
) -> SyncReport:
    """Send the table's schema and properties.

    Raises CatalogError if the server fails, after which some of the aspects may be new; UserError
    before anything is sent.
    """
    started = time.perf_counter()
    if options.datahub_server is None:
        raise UserError(
            "no server of DataHub is set",
            hint="pass uri=, or set hoodie.meta.sync.datahub.emitter.server",
        )
    commit = state.timeline.commits.last
    aspects = dict(_aspects(state, options, None if commit is None else commit.time))
    if not dry_run:
        url, urn = options.datahub_server.rstrip("/") + _ACTION, dataset_urn(state, options)
        for name, aspect in aspects.items():
            proposal = _proposal(urn, name, aspect)
            post_json(url, proposal, token=options.datahub_token, headers=_HEADERS)
    database, table = _names(state, options)
    entry = EntryChange(
        table, events_sent=len(aspects), synced_instant=None if commit is None else commit.time
    )
    seconds = time.perf_counter() - started
    kind = LineageKind.DATAHUB.value
    return SyncReport(kind, options.datahub_server, database, False, (entry,), seconds, dry_run)


def dataset_urn(state: TableState, options: CatalogOptions) -> str:
    name = ".".join(_names(state, options))
    platform = f"urn:li:dataPlatform:{options.datahub_platform}"
    return f"urn:li:dataset:({platform},{name},{options.datahub_env})"


def schema_fields(avro: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields of a record schema of Avro, each followed by those within it."""
    return [found for field in avro["fields"] for found in _field("[version=2.0]", field)]


def _names(state: TableState, options: CatalogOptions) -> tuple[str, str]:
    """Of the database and of the table."""
    database = options.datahub_database or options.database or state.config.database or "default"
    return database, options.datahub_table or options.table or state.config.name


def _proposal(urn: str, name: str, aspect: Mapping[str, Any]) -> dict[str, Any]:
    content = {"contentType": "application/json", "value": json.dumps(aspect)}
    return {
        "proposal": {
            "entityType": "dataset", "entityUrn": urn, "changeType": "UPSERT",
            "aspectName": name, "aspect": content,
        }
    }  # fmt: skip


def _aspects(
    state: TableState, options: CatalogOptions, synced: str | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    facts, config = entry_facts(state, options), state.config
    text = facts.avro
    if text is None:
        text = arrow_to_avro(facts.schema, name=config.name, namespace="hoodie")
    if not options.omits_meta_columns:
        text = with_meta_fields(text)
    yield "schemaMetadata", {
        "schemaName": _names(state, options)[1],
        "platform": f"urn:li:dataPlatform:{options.datahub_platform}",
        "version": 0, "hash": "",
        "platformSchema": {f"{_SCHEMA}OtherSchema": {"rawSchema": text}},
        "fields": schema_fields(json.loads(text)),
    }  # fmt: skip
    yield "status", {"removed": False}  # a dataset that was deleted is shown again
    properties = {
        "hudi.table.type": "MERGE_ON_READ" if config.is_merge_on_read else "COPY_ON_WRITE",
        "hudi.table.version": _VERSIONS.get(config.version, str(config.version)),
        "hudi.base.path": facts.location,
        **dict(options.datahub_properties),
    }
    if config.partition_fields:
        properties["hudi.partition.fields"] = ",".join(config.partition_fields)
    if synced is not None:
        properties["last_commit_time_sync"] = synced
    yield "datasetProperties", {"customProperties": properties}


def _field(
    parent: str, field: Mapping[str, Any], *, nullable: bool = False
) -> Iterator[dict[str, Any]]:
    """One field of Avro, `name` and `type`, and the fields within it."""
    kind, path = field["type"], f"{parent}.{field['name']}"
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        rest: Any = others[0] if len(others) == 1 else others
        if len(others) == 1 or len(others) < len(kind):
            is_null = nullable or len(others) < len(kind)
            yield from _field(parent, {**field, "type": rest}, nullable=is_null)
            return
    name = _kind(kind)
    found = {
        "fieldPath": path, "nullable": nullable, "nativeDataType": _native(kind),
        "type": {"type": {f"{_SCHEMA}{_KINDS[name]}": {}}},
    }  # fmt: skip
    yield found | ({"description": field["doc"]} if field.get("doc") else {})
    for inner in _within(kind):
        yield from _field(path, inner)


def _kind(kind: Any) -> str:
    """The name of a type of Avro; that of a named type that was defined before is its own."""
    if isinstance(kind, list):
        return "union"
    name = kind["type"] if isinstance(kind, dict) else kind
    if isinstance(name, dict | list):
        return _kind(name)
    return name if name in _KINDS else "record"


def _within(kind: Any) -> list[dict[str, Any]]:
    if isinstance(kind, list):
        return [{"name": _kind(each), "type": each} for each in kind]
    match kind:
        case {"type": "record", "fields": fields}:
            return list(fields)
        case {"type": "array", "items": items}:
            return [{"name": "element", "type": items}]
        case {"type": "map", "values": values}:
            return [{"name": "key", "type": "string"}, {"name": "value", "type": values}]
    return []


def _native(kind: Any) -> str:
    match kind:
        case {"logicalType": "decimal", "precision": precision, **others}:
            return f"decimal({precision},{others.get('scale', 0)})"
        case {"logicalType": str(logical)} if logical in _NATIVE:
            return _NATIVE[logical]
    return _kind(kind)
