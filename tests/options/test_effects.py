"""Every option that is marked honoured changes something that can be observed.

To add an option: give it a case in `CASES`, a scenario of `effects.py` and two values between which
the scenario must give different results.  `ELSEWHERE` holds the few that need a server or another
process: where their effect is tested, and why not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.options import IndexKind
from pyhudi.options.option_row import Fate
from pyhudi.options.registry import AREAS
from tests.options import effects as see

ROOT = Path(__file__).parents[2]
NAMES = {
    row.name: row
    for rows in AREAS.values()
    for row in rows
    if row.fate in (Fate.HONOURED, Fate.MAPPED)
}


@dataclass(frozen=True)
class Case:
    """Two values of an option, None for the default, that give a scenario different results."""

    scenario: Callable[[see.Given], Any]
    one: str | None
    other: str | None = None
    base: dict[str, str] = field(default_factory=dict)


_GEN = "hoodie.keygen.timebased."
_TEXTS = {_GEN + "timestamp.type": "DATE_STRING", _GEN + "input.dateformat": "yyyy-MM-dd HH:mm"}
_PLAN = "hoodie.clustering.plan.strategy."
_STRATEGY = "hoodie.compaction.strategy"
_INLINE = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
_CLUSTERS = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
_CURVE = {_PLAN + "sort.columns": "ts,v"}
_MODE = "hoodie.clustering.plan.partition.filter.mode"
_PAYLOADS = "org.apache.hudi.common.model."
_CHECK = "hoodie.precommit.validators."
_SINGLE = "SqlQuerySingleResultPreCommitValidator"
_COUNT = "SELECT COUNT(*) FROM <TABLE_NAME>"
_QUERIES = {_CHECK + "single.value.sql.queries": _COUNT + "#1"}

_texts = see.times(["2023-11-14 22:10"], pa.string())
_numbers = see.times([1_700_000_000], pa.int64())

_DATAHUB = "hoodie.meta.sync.datahub."
_SYNC = "hoodie.datasource."
CASES: dict[str, Case] = {
    # tables
    "hoodie.table.name": Case(see.agreement, "other"),
    "hoodie.datasource.write.table.type": Case(see.agreement, "MERGE_ON_READ"),
    "hoodie.datasource.write.operation": Case(see.agreement, "insert"),
    "hoodie.datasource.write.recordkey.field": Case(see.agreement, "v"),
    "hoodie.datasource.write.partitionpath.field": Case(see.agreement, "v"),
    "hoodie.table.ordering.fields": Case(see.agreement, "v"),
    "hoodie.datasource.write.keygenerator.class": Case(see.agreement, "ComplexKeyGenerator"),
    "hoodie.datasource.write.keygenerator.type": Case(see.properties, "COMPLEX"),
    "hoodie.datasource.write.hive_style_partitioning": Case(see.properties, "true"),
    "hoodie.datasource.write.partitionpath.urlencode": Case(see.properties, "true"),
    "hoodie.datasource.write.slash.separated.date.partitioning": Case(see.agreement, "true"),
    "hoodie.table.timeline.timezone": Case(see.properties, "LOCAL"),
    "hoodie.database.name": Case(see.properties, "lake"),
    "hoodie.write.table.version": Case(see.properties, "9", "6"),
    "hoodie.timeline.layout.version": Case(see.agreement, "2"),
    "hoodie.table.partial.update.mode": Case(
        see.properties, "IGNORE_DEFAULTS", base={"hoodie.write.table.version": "9"}
    ),
    "hoodie.write.auto.upgrade": Case(
        see.agreement, "true", base={"hoodie.write.table.version": "9"}
    ),
    "hoodie.skip.default.partition.validation": Case(see.upgraded, "true"),
    "hoodie.base.file.format": Case(see.parsed, "ORC"),
    "hoodie.table.log.file.format": Case(see.parsed, "HFILE"),
    "hoodie.table.format": Case(see.parsed, "iceberg"),
    "hoodie.archivelog.folder": Case(see.parsed, "elsewhere"),
    "hoodie.keygen.datetime.parser.class": Case(see.parsed, "org.example.Parser"),
    _GEN + "timestamp.type": Case(_numbers, "UNIX_TIMESTAMP", "EPOCHMILLISECONDS"),
    _GEN + "input.dateformat": Case(
        _texts, "yyyy-MM-dd HH:mm", "yyyy-dd-MM HH:mm", {_GEN + "timestamp.type": "DATE_STRING"}
    ),
    _GEN + "input.dateformat.list.delimiter.regex": Case(
        _texts, ";", None,
        {**_TEXTS, _GEN + "input.dateformat": "yyyy;yyyy-MM-dd HH:mm"},
    ),
    _GEN + "output.dateformat": Case(_texts, "yyyyMM", None, _TEXTS),
    _GEN + "timestamp.scalar.time.unit": Case(
        see.times([19675], pa.int64()), "DAYS", "HOURS", {_GEN + "timestamp.type": "SCALAR"}
    ),
    _GEN + "timezone": Case(
        _numbers, "Asia/Tokyo", None, {_GEN + "timestamp.type": "UNIX_TIMESTAMP"}
    ),
    _GEN + "input.timezone": Case(
        _texts, "Asia/Tokyo", None, {**_TEXTS, _GEN + "output.timezone": "UTC"}
    ),
    _GEN + "output.timezone": Case(_texts, "Asia/Tokyo", None, _TEXTS),
    "hoodie.write.complex.keygen.new.encoding": Case(see.complex_keys, "true", "false"),
    "hoodie.table.cdc.enabled": Case(see.properties, "true"),
    "hoodie.table.cdc.supplemental.logging.mode": Case(
        see.properties, "OP_KEY_ONLY", "DATA_BEFORE", {"hoodie.table.cdc.enabled": "true"}
    ),
    # reading
    "hoodie.datasource.query.type": Case(see.spark_read, "read_optimized"),
    "as.of.instant": Case(see.spark_read, "2026-11-21"),
    "hoodie.datasource.read.begin.instanttime": Case(
        see.spark_read, "20260101", "20260202", {"hoodie.datasource.query.type": "incremental"}
    ),
    "hoodie.datasource.read.end.instanttime": Case(
        see.spark_read, "20260303", None,
        {"hoodie.datasource.query.type": "incremental",
         "hoodie.datasource.read.begin.instanttime": "000"},
    ),
    "hoodie.datasource.read.incr.path.glob": Case(see.changes, "p0*"),
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable": Case(
        see.changes_of_a_cleaned_range, "true"
    ),
    "hoodie.read.timeline.holes.resolution.policy": Case(
        see.changes_past_a_pending_instant, "block", "fail"
    ),
    "hoodie.enable.data.skipping": Case(see.skipped, "false"),
    "hoodie.datasource.read.schema.use.end.instanttime": Case(
        see.changes_of_an_older_schema, "true"
    ),
    "hoodie.datasource.streaming.startOffset": Case(see.spark_stream, "latest"),
    # writing
    "hoodie.parquet.max.file.size": Case(see.loaded(), "20kb"),
    "hoodie.parquet.small.file.limit": Case(see.inserted_twice(), "0"),
    "hoodie.copyonwrite.record.size.estimate": Case(
        see.loaded(), "1000", None, {"hoodie.parquet.max.file.size": "1mb"}
    ),
    "hoodie.copyonwrite.insert.split.size": Case(see.loaded("insert"), "500"),
    "hoodie.record.size.estimation.threshold": Case(
        see.sized_by_history, "0", "1000", {"hoodie.parquet.small.file.limit": "1kb"}
    ),
    "hoodie.merge.small.file.group.candidates.limit": Case(see.inserted_twice("mor"), "0"),
    "hoodie.parquet.compression.codec": Case(see.base_file, "gzip"),
    "hoodie.parquet.page.size": Case(see.base_file, "1kb"),
    "hoodie.logfile.data.block.format": Case(see.logged, "avro"),
    "hoodie.logfile.data.block.max.size": Case(see.logged, "2kb"),
    "hoodie.write.record.positions": Case(see.positioned, "false"),
    "hoodie.write.partial.update.schema": Case(
        see.partially_updated,
        '{"type":"record","name":"r","fields":[{"name":"ts","type":["null","long"]}]}',
    ),
    "hoodie.logfile.max.size": Case(
        see.logged, "2kb", None, {"hoodie.logfile.data.block.max.size": "16kb"}
    ),
    "hoodie.bulkinsert.sort.mode": Case(see.loaded(), "GLOBAL_SORT"),
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns": Case(see.loaded(), "v"),
    "hoodie.bulkinsert.sort.suffix.record_key": Case(
        see.loaded(), "false", None,
        {"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "v"},
    ),
    "hoodie.datasource.write.insert.drop.duplicates": Case(see.inserted_again, "true"),
    "hoodie.datasource.insert.dup.policy": Case(see.inserted_again, "fail"),
    "hoodie.datasource.overwrite.mode": Case(see.overwritten, "STATIC"),
    "hoodie.static.overwrite.partition.paths": Case(see.overwritten, "p0,p1"),
    "hoodie.datasource.write.commitmeta.key.prefix": Case(see.options_only, "my."),
    # merging
    **{
        _SYNC + name: Case(see.registered("cow"), *values)
        for name, *values in (
            ("hive_sync.database", "lake"),
            ("hive_sync.table", "other"),
            ("hive_sync.partition_fields", "v"),
            ("hive_sync.partition_extractor_class", "SlashEncodedDayPartitionValueExtractor"),
            ("hive_sync.create_managed_table", "true"),
            ("hive_sync.omit_metadata_fields", "true"),
            ("hive_sync.sync_as_datasource", "false"),
            ("hive_sync.schema_string_length_thresh", "100"),
            ("hive_sync.table_properties", "a=b"),
            ("hive_sync.serde_properties", "a=b"),
            ("hive_sync.batch_num", "1"),
            ("meta.sync.base.path", "s3://lake/other"),
        )
    },
    "hoodie.meta.sync.decode_partition": Case(see.registered("cow"), "true"),
    "hoodie.meta_sync.spark.version": Case(see.registered("cow"), "3.5"),
    "hoodie.meta.sync.incremental": Case(see.registered("cow"), "false"),
    "hoodie.datasource.meta_sync.condition.sync": Case(see.registered_again, "true"),
    _SYNC + "hive_sync.table.strategy": Case(see.registered("mor"), "RO"),
    _SYNC + "hive_sync.skip_ro_suffix": Case(see.registered("mor"), "true"),
    "hoodie.meta.sync.sync_snapshot_with_table_name": Case(
        see.registered("mor"), "false"
    ),
    "pyhudi.openlineage.url": Case(see.sent_event, see.server() + "/other"),
    "pyhudi.openlineage.api.key": Case(see.sent_event, "secret"),
    "pyhudi.openlineage.namespace": Case(see.sent_event, "lake"),
    _DATAHUB + "emitter.server": Case(see.sent_dataset, see.server() + "/gms"),
    _DATAHUB + "emitter.token": Case(see.sent_dataset, "secret"),
    _DATAHUB + "dataplatform.name": Case(see.sent_dataset, "lakehouse"),
    _DATAHUB + "dataset.env": Case(see.sent_dataset, "PROD"),
    _DATAHUB + "database.name": Case(see.sent_dataset, "lake"),
    _DATAHUB + "table.name": Case(see.sent_dataset, "rides"),
    _DATAHUB + "table.properties": Case(see.sent_dataset, "owner=data"),
    _SYNC + "hive_sync.enable": Case(see.registered_inline, "true"),
    _SYNC + "meta.sync.enable": Case(see.registered_inline, "true"),
    _SYNC + "hive_sync.metastore.uris": Case(see.parsed, "http://lake"),
    _SYNC + "hive_sync.mode": Case(see.parsed, "jdbc"),
    _SYNC + "hive_sync.base_file_format": Case(see.parsed, "ORC"),
    "hoodie.meta.sync.client.tool.class": Case(see.parsed, "org.example.Tool"),
    "hoodie.precommit.validators": Case(see.checked, _SINGLE, base=_QUERIES),
    _CHECK + "single.value.sql.queries": Case(
        see.checked, _COUNT + "#2", _COUNT + "#1", base={"hoodie.precommit.validators": _SINGLE}
    ),
    _CHECK + "equality.sql.queries": Case(
        see.checked, _COUNT, "SELECT 1 FROM (SELECT 1), (SELECT COUNT(*) FROM <TABLE_NAME>)",
        base={"hoodie.precommit.validators": "SqlQueryEqualityPreCommitValidator"},
    ),
    _CHECK + "inequality.sql.queries": Case(
        see.checked, _COUNT, "SELECT 1 FROM (SELECT 1), (SELECT COUNT(*) FROM <TABLE_NAME>)",
        base={"hoodie.precommit.validators": "SqlQueryInequalityPreCommitValidator"},
    ),
    _CHECK + "failure.policy": Case(
        see.checked, "WARN_LOG", base={"hoodie.precommit.validators": _SINGLE, **_QUERIES}
    ),
    "hoodie.write.commit.callback.on": Case(see.called_back, "false"),
    "hoodie.write.commit.callback.class": Case(see.parsed, "Other"),
    "hoodie.write.commit.callback.http.url": Case(see.called_back, see.server() + "/other"),
    "hoodie.write.commit.callback.http.api.key": Case(see.called_back, "secret"),
    "hoodie.write.commit.callback.http.custom.headers": Case(see.called_back, "Team:data"),
    "hoodie.write.commit.callback.http.timeout.seconds": Case(see.called_back, "0.2"),
    "hoodie.combine.before.upsert": Case(see.doubled("upsert"), "false"),
    "hoodie.combine.before.insert": Case(see.doubled("insert"), "true"),
    "hoodie.datasource.write.payload.class": Case(
        see.properties, _PAYLOADS + "OverwriteNonDefaultsWithLatestAvroPayload"
    ),
    "hoodie.record.merge.mode": Case(
        see.agreement, "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"
    ),
    "hoodie.record.merge.strategy.id": Case(
        see.properties, "ce9acb64-bde0-424c-9b91-f6ebba25356d",
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    ),
    "hoodie.payload.delete.field": Case(
        see.marked_delete, "v", "part", {"hoodie.payload.delete.marker": "77"}
    ),
    "hoodie.payload.delete.marker": Case(
        see.marked_delete, "77", "99", {"hoodie.payload.delete.field": "v"}
    ),
    "hoodie.datasource.write.reconcile.schema": Case(see.lacking_a_column, "true"),
    "hoodie.write.set.null.for.missing.columns": Case(see.lacking_a_column, "true"),
    # indexes
    "hoodie.index.type": Case(see.found_by(), "BLOOM"),
    "pyhudi.index.lookup.adaptive": Case(
        see.found_by(), "false", None, {"pyhudi.index.lookup.method": "scan"}
    ),
    "pyhudi.index.lookup.method": Case(
        see.found_by(), "scan", "seek", {"pyhudi.index.lookup.adaptive": "false"}
    ),
    "hoodie.bloom.index.filter.type": Case(see.base_file, "SIMPLE"),
    "hoodie.index.bloom.num_entries": Case(see.base_file, "5000"),
    "hoodie.parquet.bloom.filter.enabled": Case(see.base_file, "false"),
    "hoodie.index.bloom.fpp": Case(see.base_file, "0.1"),
    "hoodie.bloom.index.filter.dynamic.max.entries": Case(see.base_file, "100"),
    "hoodie.record.index.update.partition.path": Case(see.moved(IndexKind.RECORD), "true"),
    "hoodie.bloom.index.update.partition.path": Case(see.moved(IndexKind.GLOBAL_BLOOM), "false"),
    "hoodie.simple.index.update.partition.path": Case(
        see.moved(IndexKind.GLOBAL_SIMPLE), "false"
    ),
    "pyhudi.record.index.inserts.to.logs": Case(see.found_by("mor"), "true"),
    "hoodie.bloom.index.use.metadata": Case(
        see.found_by(index=IndexKind.BLOOM), "true", None,
        {"hoodie.metadata.index.bloom.filter.enable": "true",
         "hoodie.metadata.index.column.stats.enable": "true"},
    ),
    "hoodie.index.bucket.engine": Case(
        see.found_by("mor", IndexKind.BUCKET), "CONSISTENT_HASHING", "SIMPLE"
    ),
    "hoodie.bucket.index.num.buckets": Case(see.found_by(index=IndexKind.BUCKET), "2", "5"),
    # the metadata table
    "hoodie.metadata.enable": Case(see.listed_by, "false"),
    "hoodie.metadata.global.record.level.index.enable": Case(
        see.metadata_files(IndexKind.BLOOM), "true"
    ),
    "hoodie.metadata.global.record.level.index.min.filegroup.count": Case(
        see.metadata_files(base={}), "3", "1"
    ),
    "hoodie.metadata.global.record.level.index.max.filegroup.count": Case(
        see.built_index, "3", None, {"hoodie.metadata.record.index.max.filegroup.size": "480"}
    ),
    "hoodie.metadata.record.level.index.enable": Case(see.partition_groups, "true"),
    "hoodie.metadata.record.level.index.min.filegroup.count": Case(
        see.partition_groups, "3", None, {"hoodie.metadata.record.level.index.enable": "true"}
    ),
    "hoodie.metadata.record.level.index.max.filegroup.count": Case(
        see.partition_groups, "2", None,
        {"hoodie.metadata.record.level.index.enable": "true",
         "hoodie.metadata.record.index.max.filegroup.size": "480"},
    ),
    "hoodie.metadata.record.index.growth.factor": Case(
        see.built_index, "4", "1", {"hoodie.metadata.record.index.max.filegroup.size": "480"}
    ),
    "hoodie.metadata.record.index.max.filegroup.size": Case(see.built_index, "480"),
    "hoodie.metadata.index.column.stats.enable": Case(see.metadata_files(), "true"),
    "hoodie.metadata.index.column.stats.file.group.count": Case(
        see.metadata_files(), "3", None, {"hoodie.metadata.index.column.stats.enable": "true"}
    ),
    "hoodie.metadata.index.column.stats.column.list": Case(see.indexed_columns, "ts"),
    "hoodie.metadata.index.column.stats.max.columns.to.index": Case(see.indexed_columns, "1"),
    "hoodie.metadata.index.bloom.filter.enable": Case(see.metadata_files(), "true"),
    "hoodie.metadata.index.bloom.filter.file.group.count": Case(
        see.metadata_files(), "2", None, {"hoodie.metadata.index.bloom.filter.enable": "true"}
    ),
    "hoodie.metadata.compact.max.delta.commits": Case(see.metadata_files(), "2"),
    # services
    "hoodie.compact.inline": Case(
        see.after_writes(3, "mor"), "true", None, {"hoodie.compact.inline.max.delta.commits": "2"}
    ),
    "hoodie.compact.schedule.inline": Case(
        see.after_writes(3, "mor"), "true", None, {"hoodie.compact.inline.max.delta.commits": "2"}
    ),
    "hoodie.compact.inline.max.delta.commits": Case(see.planned_compaction, "2", "50"),
    "hoodie.compact.inline.max.delta.seconds": Case(
        see.planned_later, "1", "9000", {"hoodie.compact.inline.trigger.strategy":
                                               "TIME_ELAPSED"}
    ),
    "hoodie.compact.inline.trigger.strategy": Case(
        see.planned_compaction, "TIME_ELAPSED", None,
        {"hoodie.compact.inline.max.delta.commits": "1"},
    ),
    "hoodie.compaction.daybased.target.partitions": Case(
        see.planned_compaction, "1", None, {_STRATEGY: "DayBasedCompactionStrategy"}
    ),
    "hoodie.compaction.logfile.num.threshold": Case(
        see.planned_compaction, "50", None, {_STRATEGY: "LogFileNumBasedCompactionStrategy"}
    ),
    "hoodie.compaction.logfile.size.threshold": Case(see.planned_compaction, "1gb"),
    "hoodie.compaction.partition.path.regex": Case(
        see.planned_compaction, "p1", "nothing",
        {_STRATEGY: "PartitionRegexBasedCompactionStrategy"},
    ),
    _STRATEGY: Case(
        see.planned_compaction, "PartitionRegexBasedCompactionStrategy", None,
        {"hoodie.compaction.partition.path.regex": "nothing"},
    ),
    "hoodie.log.compaction.inline": Case(
        see.after_writes(4, "mor"), "true", None, {"hoodie.log.compaction.blocks.threshold": "2"}
    ),
    "hoodie.log.compaction.blocks.threshold": Case(see.planned_log_compaction, "2", "50"),
    "hoodie.clean.automatic": Case(
        see.after_writes(4), "false", None, {"hoodie.clean.commits.retained": "1"}
    ),
    "hoodie.clean.commits.retained": Case(see.planned_clean, "3"),
    "hoodie.clean.fileversions.retained": Case(
        see.planned_clean, "1", "50", {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}
    ),
    "hoodie.clean.policy": Case(see.planned_clean, "KEEP_LATEST_BY_HOURS"),
    "hoodie.clean.partition.filter.regex": Case(
        see.planned_clean, "p1|q.*", None, {"hoodie.clean.incremental.enabled": "false"}
    ),
    "hoodie.clean.partition.filter.selected": Case(
        see.planned_clean, "p1", None, {"hoodie.clean.incremental.enabled": "false"}
    ),
    "hoodie.clean.trigger.max.commits": Case(
        see.after_writes(4), "3", None, {"hoodie.clean.commits.retained": "1"}
    ),
    "hoodie.clean.trigger.strategy": Case(see.parsed, "OTHER"),
    "hoodie.archive.automatic": Case(
        see.after_writes(8), "false", None,
        {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
         "hoodie.clean.commits.retained": "1", "hoodie.metadata.compact.max.delta.commits": "1"},
    ),
    "hoodie.archive.beyond.savepoint": Case(
        see.archived, "true", None, {"hoodie.metadata.compact.max.delta.commits": "1",
                                     "hoodie.clean.commits.retained": "1"}
    ),
    "hoodie.keep.max.commits": Case(
        see.archived, "5", "20", {"hoodie.metadata.compact.max.delta.commits": "1",
                                  "hoodie.clean.commits.retained": "1"}
    ),
    "hoodie.keep.min.commits": Case(
        see.archive_files, "1", None, {"hoodie.clean.commits.retained": "1"}
    ),
    "hoodie.archive.merge.enable": Case(
        see.archive_files, "true", None,
        {**see.OLDEST, "hoodie.archive.merge.files.batch.size": "2",
         "hoodie.clean.commits.retained": "1"},
    ),
    "hoodie.archive.merge.files.batch.size": Case(
        see.archive_files, "2", None,
        {**see.OLDEST, "hoodie.archive.merge.enable": "true", "hoodie.clean.commits.retained": "1"},
    ),
    "hoodie.archive.merge.small.file.limit.bytes": Case(
        see.archive_files, "1", None,
        {**see.OLDEST, "hoodie.archive.merge.enable": "true",
         "hoodie.archive.merge.files.batch.size": "2", "hoodie.clean.commits.retained": "1"},
    ),
    "hoodie.commits.archival.batch": Case(
        see.archive_files, "1", None, {"hoodie.clean.commits.retained": "1"}
    ),
    "hoodie.timeline.compaction.batch.size": Case(see.history_files, "3"),
    "hoodie.timeline.compaction.target.file.max.bytes": Case(
        see.history_files, "1", None, {"hoodie.timeline.compaction.batch.size": "3"}
    ),
    "hoodie.timeline.manifest.retained.versions": Case(see.history_files, "1"),
    "hoodie.table.services.enabled": Case(
        see.after_writes(4), "false", None, {"hoodie.clean.commits.retained": "1"}
    ),
    # clustering
    "hoodie.clustering.inline": Case(
        see.after_writes(2), "true", None, {"hoodie.clustering.inline.max.commits": "1"}
    ),
    "hoodie.clustering.schedule.inline": Case(
        see.after_writes(1), "true", None,
        {"hoodie.clustering.inline.max.commits": "1", _PLAN + "sort.columns": "v"},
    ),
    "hoodie.clustering.inline.max.commits": Case(
        see.after_writes(3), "1", "3",
        {"hoodie.clustering.inline": "true", _PLAN + "sort.columns": "v"},
    ),
    "hoodie.clustering.execution.strategy.class": Case(
        see.planned_clustering, "SparkSingleFileSortExecutionStrategy", None,
        {"hoodie.clustering.plan.strategy.class": "SparkSingleFileSortPlanStrategy",
         _PLAN + "target.file.max.bytes": "1kb"},
    ),
    "hoodie.clustering.plan.strategy.class": Case(
        see.planned_clustering, "SparkSingleFileSortPlanStrategy", None, _CURVE
    ),
    _MODE: Case(see.planned_clustering, "RECENT_DAYS", None,
                {_PLAN + "daybased.lookback.partitions": "1"}),
    _PLAN + "cluster.begin.partition": Case(
        see.planned_clustering, "p1", None, {_MODE: "SELECTED_PARTITIONS"}
    ),
    _PLAN + "cluster.end.partition": Case(
        see.planned_clustering, "p0", None, {_MODE: "SELECTED_PARTITIONS"}
    ),
    _PLAN + "daybased.lookback.partitions": Case(
        see.planned_clustering, "1", None, {_MODE: "RECENT_DAYS"}
    ),
    _PLAN + "daybased.skipfromlatest.partitions": Case(
        see.planned_clustering, "1", None, {_MODE: "RECENT_DAYS"}
    ),
    _PLAN + "partition.regex.pattern": Case(see.planned_clustering, "p1"),
    _PLAN + "partition.selected": Case(see.planned_clustering, "p1"),
    _PLAN + "earliest.commit.to.cluster": Case(see.planned_clustering, "9"),
    _PLAN + "max.bytes.per.group": Case(see.planned_clustering, "1kb", None, _CURVE),
    _PLAN + "max.num.groups": Case(see.planned_clustering, "1"),
    _PLAN + "single.group.clustering.enabled": Case(
        see.planned_clustering, "false", None,
        {_PLAN + "max.bytes.per.group": "1kb", _PLAN + "target.file.max.bytes": "1kb"},
    ),
    _PLAN + "small.file.limit": Case(see.planned_clustering, "1"),
    _PLAN + "sort.columns": Case(see.planned_clustering, "v"),
    _PLAN + "target.file.max.bytes": Case(see.planned_clustering, "1kb"),
    "hoodie.layout.optimize.strategy": Case(see.planned_clustering, "ZORDER", None, _CURVE),
}  # fmt: skip

_HBASE = "it needs a gateway: the stand-in of this module serves one"
_PROCESS = "it takes another writer, whose crash or delay is staged there"
_SERVER = "it needs a server of locks, started there"
_STREAM = "it takes a streaming query"
_STATE = "it takes a table whose history is staged there"
_PLACES = {
    _HBASE: ("tests/index/test_hbase.py", "hoodie.index.hbase.", "pyhudi.index.hbase.",
             "hoodie.hbase."),
    _SERVER: ("tests/contracts/test_locks.py", "hoodie.write.lock.zookeeper.",
              "hoodie.write.lock.hivemetastore.", "hoodie.write.lock.heartbeat_interval_ms",
              "hoodie.write.lock.provider", "hoodie.write.lock.filesystem."),
    _PROCESS: ("tests/concurrency/test_conflicts.py", "hoodie.write.lock.wait_time_ms",
               "hoodie.write.lock.client.", "hoodie.write.concurrency.",
               "hoodie.write.num.retries.on.conflict.failures",
               "hoodie.write.lock.conflict.resolution.strategy",
               "hoodie.clean.failed.writes.policy", "hoodie.client.heartbeat.",
               "hoodie.clustering.updates.strategy", "hoodie.rollback.using.markers",
               "hoodie.clustering.rollback.pending.replacecommit.on.conflict"),
    _STREAM: ("tests/spark/test_stream_session.py", "hoodie.datasource.write.streaming.",
              "hoodie.datasource.write.partitions.to.delete"),
    "it takes partitions of a certain age": ("tests/services/test_expiry.py",
                                             "hoodie.partition.ttl."),
    "it takes a service that fails": ("tests/services/test_inline.py",
                                      "hoodie.fail.writes.on.", "hoodie.fail.on.timeline."),
    "it takes a look at files that are deleted at the end": (
        "tests/write/test_file_batches.py", "hoodie.write.markers.type"),
    "it takes an index of its own": ("tests/index/test_elastic.py", "pyhudi.index.elastic."),
    "it takes stores of its own": ("tests/index/test_rocks.py", "pyhudi.index.rocksdb."),
    "it takes buckets that are resized": (
        "tests/services/test_resizing.py", "hoodie.bucket.index.max.num.buckets",
        "hoodie.bucket.index.min.num.buckets", "hoodie.bucket.index.split.threshold",
        "hoodie.bucket.index.merge.threshold",
    ),
    "it takes a bootstrapped table": ("tests/read/test_bootstrap.py", "pyhudi.bootstrap.base.path"),
    "it takes columns of these kinds, or a database": (
        "tests/sync/test_entries.py", _SYNC + "hive_sync.support_timestamp",
        _SYNC + "hive_sync.sync_comment", _SYNC + "hive_sync.auto_create_database",
    ),
    "it takes a save on Spark": (
        "tests/spark/test_failed_sync.py", _SYNC + "hive_sync.ignore_exceptions"
    ),
    "it takes a service of AWS": (
        "tests/sync/test_glue.py", "hoodie.aws.glue.", _SYNC + "meta.sync.glue.",
    ),
    "it takes two indexes": ("tests/index/test_shadow_index.py", "pyhudi.index.shadow"),
    _STATE: ("tests/index/test_kinds.py", "hoodie.bloom.index.prune.by.ranges",
             "hoodie.bucket.index.hash.field"),
    "it takes amounts or times too large for a test of all options": (
        "tests/services/test_compaction.py", "hoodie.compaction.target.io",
        "hoodie.clean.hours.retained", "hoodie.clean.incremental.enabled",
        "hoodie.archive.block.on.latest.clean.ectr", _PLAN + "file.slices.sort.by",
        "hoodie.layout.optimize.build.curve.sample.size",
    ),
}  # fmt: skip


def elsewhere(name: str) -> tuple[str, str] | None:
    """(test file, reason) of an option whose effect is tested in another module."""
    for reason, (file, *starts) in _PLACES.items():
        if any(name == start or (start[-1] in "." and name.startswith(start)) for start in starts):
            return file, reason
    return None


def test_every_honoured_option_has_an_effect_that_is_tested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = [name for name in NAMES if name not in CASES and elsewhere(name) is None]
    assert silent == [], "give each of these options a case"
    assert sorted(CASES.keys() - NAMES.keys()) == [], "these are not honoured"
    with capsys.disabled():
        for name in sorted(NAMES.keys() - CASES.keys()):
            file, reason = elsewhere(name) or ("", "")
            assert (ROOT / file).is_file(), file
            print(f"\neffect of {name}: see {file}; {reason}", end="")


@cache
def observed(scenario: Callable[[see.Given], Any], options: frozenset[tuple[str, str]]) -> Any:
    """Many cases compare with what a scenario gives without options."""
    return scenario(dict(options))


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_honoured_option_changes_what_is_observed(name: str) -> None:
    case = CASES[name]

    def seen(value: str | None) -> Any:
        stated = {} if value is None else {name: value}
        return observed(case.scenario, frozenset({**case.base, **stated}.items()))

    assert seen(case.one) != seen(case.other)


@pytest.mark.parametrize("scenario", ["planned_clustering", "archive_files", "base_file"])
def test_a_scenario_gives_the_same_twice(scenario: str) -> None:
    look = getattr(see, scenario)
    assert look({}) == look({})
