"""Option names of catalog sync: the Hive Metastore, AWS Glue, OpenLineage and DataHub."""

from __future__ import annotations

from typing import Final

from pyhudi.options.catalogs import (
    DATAHUB_ENVIRONMENTS,
    EVENT_URL,
    METASTORE_URIS,
    PROPERTIES_BY_COMMA,
    PROPERTIES_BY_LINE,
    SERVER_URL,
    SYNC_TOOLS,
    MergeOnReadTables,
)
from pyhudi.options.option_row import Row, honoured
from pyhudi.options.value_types import FLAG, NAMES, TEXT, choice, class_name, count, only

_HIVE: Final = "hoodie.datasource.hive_sync."
_META: Final = "hoodie.meta.sync."
_GLUE: Final = "hoodie.datasource.meta.sync.glue."
_LINEAGE: Final = "pyhudi.openlineage."
_DATAHUB: Final = "hoodie.meta.sync.datahub."
_EXTRACTORS: Final = (
    "MultiPartKeysValueExtractor", "SinglePartPartitionValueExtractor",
    "HiveStylePartitionValueExtractor", "SlashEncodedDayPartitionValueExtractor",
    "SlashEncodedHourPartitionValueExtractor", "NonPartitionedExtractor",
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        _HIVE + "enable", FLAG, "catalog.hive_enabled",
        "sync after each commit; a failing catalog is a note in the report and a warning in the "
        "log, and an error of the data source on Spark; the commit stands",
    ),
    honoured(
        _HIVE + "ignore_exceptions", FLAG, "catalog.ignores_failures",
        "the data source on Spark does not raise the error of a sync after a commit",
    ),
    honoured(
        "hoodie.datasource.meta.sync.enable", FLAG, "catalog.enabled",
        "as `hoodie.datasource.hive_sync.enable`, with the tools of `hoodie.meta.sync."
        "client.tool.class`",
    ),
    honoured(_META + "client.tool.class", SYNC_TOOLS, "catalog.kinds"),
    honoured(_HIVE + "metastore.uris", METASTORE_URIS, "catalog.uri"),
    honoured(_HIVE + "mode", only("hms"), None, "the others go through HiveServer2"),
    honoured(
        _HIVE + "database", TEXT, "catalog.database",
        "default: the table's database, else `default`",
    ),
    honoured(_HIVE + "table", TEXT, "catalog.table", "default: the table's name"),
    honoured(
        _HIVE + "partition_fields", NAMES, "catalog.partition_fields",
        "default: the table's partition columns",
    ),
    honoured(
        _HIVE + "partition_extractor_class",
        class_name({n: n for n in _EXTRACTORS}, allowed="one of " + ", ".join(_EXTRACTORS)),
        "catalog.extractor",
        "default: the whole path for one partition column, else a value a level",
    ),
    honoured(
        _META + "decode_partition", FLAG, "catalog.decodes", "partition values are URL-decoded"
    ),
    honoured(_HIVE + "auto_create_database", FLAG, "catalog.creates_database"),
    honoured(_HIVE + "create_managed_table", FLAG, "catalog.managed"),
    honoured(_HIVE + "omit_metadata_fields", FLAG, "catalog.omits_meta_columns"),
    honoured(
        _HIVE + "support_timestamp", FLAG, "catalog.timestamps",
        "times are `timestamp`; otherwise `bigint`, as stored",
    ),
    honoured(_HIVE + "sync_as_datasource", FLAG, "catalog.spark_properties"),
    honoured(_HIVE + "schema_string_length_thresh", count(1), "catalog.schema_part"),
    honoured(_HIVE + "sync_comment", FLAG, "catalog.comments"),
    honoured(_HIVE + "table_properties", PROPERTIES_BY_LINE, "catalog.table_properties"),
    honoured(_HIVE + "serde_properties", PROPERTIES_BY_LINE, "catalog.serde_properties"),
    honoured(
        _HIVE + "table.strategy",
        choice(
            {
                "ALL": MergeOnReadTables.ALL,
                "RO": MergeOnReadTables.READ_OPTIMIZED,
                "RT": MergeOnReadTables.SNAPSHOT,
            }
        ),
        "catalog.merge_on_read",
    ),
    honoured(_META + "sync_snapshot_with_table_name", FLAG, "catalog.plain_snapshot"),
    honoured(_HIVE + "skip_ro_suffix", FLAG, "catalog.read_optimized_plain"),
    honoured(_HIVE + "batch_num", count(1), "catalog.batch", "partitions in one request"),
    honoured(
        _META + "incremental", FLAG, "catalog.incremental",
        "off: every sync compares all partitions",
    ),
    honoured("hoodie.datasource.meta_sync.condition.sync", FLAG, "catalog.only_changes"),
    honoured("hoodie.meta_sync.spark.version", TEXT, "catalog.spark_version"),
    honoured(
        "hoodie.datasource.meta.sync.base.path", TEXT, "catalog.location",
        "the table's URL as engines reach it; default: its own",
    ),
    honoured(_HIVE + "base_file_format", only("PARQUET"), None),
    honoured("hoodie.aws.glue.region", TEXT, "catalog.region"),
    honoured("hoodie.aws.glue.endpoint", TEXT, "catalog.endpoint"),
    honoured(_GLUE + "catalogId", TEXT, "catalog.glue_catalog"),
    honoured(
        _LINEAGE + "url", EVENT_URL, "catalog.lineage_url",
        "gets an event of OpenLineage after each commit; a failing server is a note in the report",
    ),
    honoured(_LINEAGE + "api.key", TEXT, "catalog.lineage_key", "sent as a bearer token"),
    honoured(
        _LINEAGE + "namespace", TEXT, "catalog.lineage_namespace",
        "of the jobs in events; default `pyhudi`",
    ),
    honoured(_DATAHUB + "emitter.server", SERVER_URL, "catalog.datahub_server"),
    honoured(
        _DATAHUB + "emitter.token", TEXT, "catalog.datahub_token", "sent as a bearer token"
    ),
    honoured(_DATAHUB + "dataplatform.name", TEXT, "catalog.datahub_platform"),
    honoured(
        _DATAHUB + "dataset.env", choice({name: name for name in DATAHUB_ENVIRONMENTS}),
        "catalog.datahub_env",
    ),
    honoured(
        _DATAHUB + "database.name", TEXT, "catalog.datahub_database",
        "default: `hoodie.datasource.hive_sync.database`",
    ),
    honoured(
        _DATAHUB + "table.name", TEXT, "catalog.datahub_table",
        "default: `hoodie.datasource.hive_sync.table`",
    ),
    honoured(
        _DATAHUB + "table.properties", PROPERTIES_BY_COMMA, "catalog.datahub_properties",
        "more properties of the dataset",
    ),
)  # fmt: skip
