"""An ingest as flags and properties describe it, with its concurrent services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyhudi.engine import Engine
from pyhudi.errors import OptionError
from pyhudi.ingest.bad_rows import BadRows, ErrorTable
from pyhudi.ingest.concurrent_services import ConcurrentServices
from pyhudi.ingest.source import RowSource
from pyhudi.ingest.source_registry import source_from
from pyhudi.ingest.stream import Stream
from pyhudi.ingest.streamer.classes import SourceClass, schemas_of, source_class, transforms_of
from pyhudi.ingest.streamer.properties import SortedProperties, UsedProperties, sorted_properties
from pyhudi.ingest.streamer.target import IngestTarget
from pyhudi.options import parse_options
from pyhudi.options.parse import parsed_value
from pyhudi.options.value_types import BYTES, FLAG, count
from pyhudi.storage.url_resolver import takes_options

OPERATIONS: Final = ("UPSERT", "INSERT", "BULK_INSERT")
_PAYLOAD: Final = "hoodie.datasource.write.payload.class"
_ORDERING: Final = "hoodie.datasource.write.precombine.field"
_BYTES_MAX: Final = 1 << 30
_USUAL: Final[Mapping[str, frozenset[str]]] = {
    "kafka.source.maxEvents": frozenset(),  # a limit of the batch, whatever the source
    "source.kafka.value.deserializer.class": frozenset({"KafkaAvroDeserializer"}),
    "source.hoodieincr.file.format": frozenset({"parquet"}),
    "source.hoodieincr.drop.all.meta.fields.from.source": frozenset({"true"}),
    "s3.source.queue.max.messages.per.request": frozenset(),  # as many as the batch lacks
    "jdbc.incr.fallback.to.full.fetch": frozenset({"false"}),
}
"""Values that request what every source does; empty: any value."""
_CLUSTERING: Final = (
    "hoodie.clustering.async.enabled",
    "hoodie.datasource.clustering.async.enable",
)
_CLUSTERING_COMMITS: Final = "hoodie.clustering.async.max.commits"
_SERVICE_FLAGS: Final = (
    "hoodie.datasource.compaction.async.enable",
    "hoodie.clean.async.enabled",
    "hoodie.clean.async",
    "hoodie.archive.async",
)
"""Flags of services that a continuous ingest runs concurrently whatever their value."""
_NO_COMPACTION: Final = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
}
_CLUSTERING_COMMITS_DEFAULT: Final = "4"  # Apache Hudi's default


@dataclass(frozen=True)
class IngestSettings:
    """Flags of `pyhudi ingest`, with the names of Apache Hudi's streamer, and its properties.

    properties: of the streamer, the table and the client of the source; flags take precedence.
    source_limit: rows of a batch for Kafka, bytes for other sources.  bad_rows: "fail", "skip" or
    the path of an error table.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    source_class: str | None = None
    target_base_path: str | None = None
    target_table: str | None = None
    table_type: str | None = None
    op: str | None = None
    source_ordering_field: str | None = None
    source_limit: int | None = None
    checkpoint: str | None = None
    ignore_checkpoint: str | None = None
    filter_dupes: bool = False
    transformer_class: str | None = None
    schemaprovider_class: str | None = None
    payload_class: str | None = None
    bad_rows: str | None = None
    max_bad_rows: int | None = None
    storage: Mapping[str, Any] = field(default_factory=dict)
    disable_compaction: bool = False
    max_pending_compactions: int | None = None
    max_pending_clustering: int | None = None

    def stream(self, engine: Engine | None = None) -> Stream:
        """The ingest.  Opens the table if it exists; reads no rows.

        Raises OptionError, UserError for settings that are missing, unknown or contradict.
        """
        found = sorted_properties(self.properties)
        found = replace(found, table=self._table_options(found))
        chosen = self._source_class()
        source = _source(chosen, found)
        rows_max, bytes_max = self._limits(chosen, found.streamer)
        skip = found.streamer.get("source.json.skip.invalid.records", "").lower() == "true"
        share = found.streamer.get("pyhudi.ingest.bad.rows.share.max")
        seconds = found.streamer.get("pyhudi.ingest.max.seconds")
        target = self._target(found, engine)
        target.check()
        return Stream(
            source,
            target,
            operation=self._operation(found.table),
            max_rows=rows_max,
            max_bytes=bytes_max,
            transform=transforms_of(
                self.transformer_class or found.streamer.get("transformer.class"), found.streamer
            ),
            bad_rows=_bad_rows(
                self.bad_rows
                or found.streamer.get("pyhudi.ingest.bad.rows", "skip" if skip else "fail"),
                self.storage,
            ),
            max_bad_rows=self._bad_rows_max(found.streamer),
            max_bad_share=None if share is None else _share(share),
            skip_existing=self.filter_dupes,
            checkpoint=self.checkpoint,
            ignore_checkpoint=self.ignore_checkpoint,
            max_seconds=None if seconds is None else float(seconds),
            saves_checkpoint=found.streamer.get("checkpoint.force.skip", "").lower() != "true",
        )

    def services(self) -> ConcurrentServices:
        """The table services of a continuous run.  Raises OptionError."""
        return service_rules(
            sorted_properties(self.properties).table,
            compaction=not self.disable_compaction,
            pending_compactions_max=self.max_pending_compactions,
            pending_clusterings_max=self.max_pending_clustering,
        )

    def source(self) -> RowSource:
        """The source alone."""
        return _source(self._source_class(), sorted_properties(self.properties))

    def _table_options(self, found: SortedProperties) -> Mapping[str, str]:
        """Those that a table has, without those of concurrent services."""
        options = without_service_rules(found.table)
        return without_compaction(options) if self.disable_compaction else options

    def _source_class(self) -> SourceClass:
        if not self.source_class:
            raise OptionError("no source", hint="pass --source-class, such as JsonKafkaSource")
        return source_class(self.source_class)

    def _target(self, found: SortedProperties, engine: Engine | None) -> IngestTarget:
        path = self.target_base_path or found.streamer.get("ingestion.targetBasePath")
        if not path:
            raise OptionError("no table", hint="pass --target-base-path")
        options = dict(found.table)
        if self.payload_class:
            options[_PAYLOAD] = self.payload_class
        if self.source_ordering_field:
            for name in ("hoodie.table.precombine.field", "hoodie.table.ordering.fields"):
                options.pop(name, None)
            options[_ORDERING] = self.source_ordering_field
        parse_options(options)
        schemas = schemas_of(self.schemaprovider_class, found.streamer)
        return IngestTarget(
            path,
            options,
            self.target_table,
            self.table_type,
            schemas.source,
            schemas.target,
            self.storage,
            engine,
        )

    def _operation(self, table: Mapping[str, str]) -> str:
        operation = self.op or parse_options(table).request.operation
        default = "insert" if self.filter_dupes else "upsert"
        name = (operation or default).upper()
        if name not in OPERATIONS:
            raise OptionError(
                "the operation is not one of an ingest",
                op=name,
                hint="use " + ", ".join(OPERATIONS) + "; table.insert_overwrite replaces rows",
            )
        return name.lower()

    def _limits(
        self, chosen: SourceClass, streamer: Mapping[str, str]
    ) -> tuple[int | None, int | None]:
        """Rows and bytes of a batch."""
        size = streamer.get("pyhudi.ingest.max.bytes")
        bytes_max = _BYTES_MAX if size is None else BYTES.parse(size)
        events = streamer.get("kafka.source.maxEvents")
        rows_max = None if events is None else int(events)
        if self.source_limit is None:
            return rows_max, bytes_max
        if chosen.limit_is_rows:
            return self.source_limit, bytes_max
        return rows_max, self.source_limit

    def _bad_rows_max(self, streamer: Mapping[str, str]) -> int | None:
        stated = streamer.get("pyhudi.ingest.bad.rows.max")
        if self.max_bad_rows is not None or stated is None:
            return self.max_bad_rows
        return int(stated)


def _source(chosen: SourceClass, found: SortedProperties) -> RowSource:
    stated = {**found.client, **found.streamer, **chosen.implied}
    registry = stated.get("schemaprovider.registry.url")
    if registry and "schema.registry.url" not in stated:
        stated["schema.registry.url"] = registry.partition("/subjects/")[0]
    properties = UsedProperties(stated)
    source = source_from(chosen.name, properties)
    properties.check_used(chosen.families, chosen.name, _USUAL)
    return source


def _bad_rows(text: str, storage: Mapping[str, Any]) -> BadRows:
    match text:
        case "fail":
            return "fail"
        case "skip":
            return "skip"
        case _:
            return ErrorTable(text, dict(storage) if takes_options(text) else None)


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(
            "invalid option value", option="pyhudi.ingest.bad.rows.share.max", value=text
        ) from None


def without_service_rules(table: Mapping[str, str]) -> dict[str, str]:
    """Options of a table, without those of concurrent services.  Raises OptionError for invalid
    values of these."""
    for name in (*_CLUSTERING, *_SERVICE_FLAGS):
        _is_true(table, name)
    names = {*_CLUSTERING, *_SERVICE_FLAGS, _CLUSTERING_COMMITS}
    return {name: text for name, text in table.items() if name not in names}


def without_compaction(table: Mapping[str, str]) -> dict[str, str]:
    """Options of a table that plan and run no compaction after a batch."""
    return {**table, **_NO_COMPACTION}


def service_rules(
    table: Mapping[str, str],
    *,
    compaction: bool,
    pending_compactions_max: int | None,
    pending_clusterings_max: int | None,
) -> ConcurrentServices:
    """The concurrent services of a continuous ingest, by the options given for its table.

    None: Apache Hudi's default.  Raises OptionError for invalid values.
    """
    default = ConcurrentServices()
    text = table.get(_CLUSTERING_COMMITS, _CLUSTERING_COMMITS_DEFAULT)
    commits = parsed_value(count(1), _CLUSTERING_COMMITS, text)
    clusters = any(_is_true(table, name) for name in _CLUSTERING)
    return ConcurrentServices(
        compaction=compaction,
        clustering_commits=commits if clusters else None,
        pending_compactions_max=pending_compactions_max or default.pending_compactions_max,
        pending_clusterings_max=pending_clusterings_max or default.pending_clusterings_max,
    )


def _is_true(table: Mapping[str, str], name: str) -> bool:
    return bool(parsed_value(FLAG, name, table.get(name, "false")))
