"""Option names of streams, Spark SQL, callbacks, validators and error tables."""

from __future__ import annotations

from typing import Final

from pyhudi.options.commit_hooks import HEADERS, QUERIES, URL, VALIDATORS, VALUED_QUERIES
from pyhudi.options.option_row import Row, honoured, refused, refused_all, without_effect
from pyhudi.options.value_types import FLAG, TEXT, choice, class_name, count, duration

_STREAM: Final = "hoodie.datasource.write.streaming."
_CALLBACK: Final = "hoodie.write.commit.callback."
_CHECK: Final = "hoodie.precommit.validators."
_CLASS: Final = "a Java class cannot be called from Python"

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        _STREAM + "checkpoint.identifier", TEXT, "stream.identifier",
        "default: the id of the streaming query",
    ),
    *without_effect(
        "a stream compacts only with hoodie.compact.inline",
        _STREAM + "disable.compaction",
    ),
    refused(
        _STREAM + "ignore.failed.batch", "a skipped batch is lost",
        "correct the rows and restart the stream", harmless=("false",),
    ),
    honoured(_STREAM + "retry.count", count(), "stream.retry_count"),
    honoured(_STREAM + "retry.interval.ms", duration("ms"), "stream.retry_seconds"),
    *refused_all(
        "for Spark SQL statements that pyhudi does not add", "the verbs of Table",
        "hoodie.spark.sql.insert.into.operation",
        "hoodie.sql.bulk.insert.enable",
        "hoodie.sql.insert.mode",
        "hoodie.bulkinsert.overwrite.operation.type",
    ),
    *without_effect(
        "for Spark SQL statements that pyhudi does not add",
        "hoodie.spark.sql.merge.into.partial.updates",
        "hoodie.spark.sql.optimized.writes.enable",
    ),
    honoured(
        _CALLBACK + "on", FLAG, "write.callback.enabled",
        "a failure is a note of the report; the commit stands",
    ),
    honoured(
        _CALLBACK + "class",
        class_name({"HoodieWriteCommitHttpCallback": "http"}, allowed=(
            "HoodieWriteCommitHttpCallback; callbacks by Kafka and Pulsar are not supported"
        )),
        "write.callback.kind",
    ),
    honoured(_CALLBACK + "http.api.key", TEXT, "write.callback.api_key"),
    honoured(_CALLBACK + "http.custom.headers", HEADERS, "write.callback.headers"),
    honoured(_CALLBACK + "http.timeout.seconds", duration("s"), "write.callback.timeout_seconds"),
    honoured(_CALLBACK + "http.url", URL, "write.callback.url"),
    *without_effect(
        "a failing callback never fails the write",
        ("hoodie.write.can.ignore.post.commit.failures", "hoodie.post.commit.failures.ignored"),
    ),
    refused("hoodie.client.init.callback.classes", _CLASS, harmless=("",)),
    honoured("hoodie.precommit.validators", VALIDATORS, "write.checks.validators"),
    honoured(_CHECK + "equality.sql.queries", QUERIES, "write.checks.equality"),
    honoured(_CHECK + "inequality.sql.queries", QUERIES, "write.checks.inequality"),
    honoured(
        _CHECK + "single.value.sql.queries", VALUED_QUERIES, "write.checks.single_value"
    ),
    honoured(
        _CHECK + "failure.policy", choice({"FAIL": False, "WARN_LOG": True}), "write.checks.warns",
        "WARN_LOG: a failed check is a note of the report",
    ),
    refused(
        _CHECK + "streaming.offset.tolerance.percentage", "counts of offsets are not checked",
        "a query with the expected count", harmless=("0", "0.0"),
    ),
    refused("hoodie.prewrite.validators", _CLASS, "check the rows first", harmless=("",)),
    refused(
        "hoodie.errortable.enable", "a row that cannot be written fails the write",
        "pyhudi ingest --bad-rows PATH", harmless=("false",),
    ),
    *without_effect(
        "there is no error table",
        "hoodie.errortable.base.path",
        "hoodie.errortable.insert.shuffle.parallelism",
        "hoodie.errortable.source.rdd.persist",
        "hoodie.errortable.target.table.name",
        "hoodie.errortable.upsert.shuffle.parallelism",
        "hoodie.errortable.validate.recordcreation.enable",
        "hoodie.errortable.validate.targetschema.enable",
        "hoodie.errortable.write.class",
        "hoodie.errortable.write.failure.strategy",
        "hoodie.errortable.write.union.enable",
    ),
    refused("hoodie.metaserver.enabled", "there is no metaserver", harmless=("false",)),
    *without_effect(
        "there is no metaserver",
        "hoodie.metaserver.connect.retries",
        "hoodie.metaserver.connect.retry.delay",
        "hoodie.metaserver.uris",
    ),
)  # fmt: skip
