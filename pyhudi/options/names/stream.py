"""Option names of streams, Spark SQL, callbacks, validators and error tables."""

from __future__ import annotations

from typing import Final

from pyhudi.options.commit_hooks import HEADERS, QUERIES, URL, VALIDATORS, VALUED_QUERIES
from pyhudi.options.option_row import Row, honoured
from pyhudi.options.value_types import FLAG, TEXT, choice, class_name, count, duration

_STREAM: Final = "hoodie.datasource.write.streaming."
_CALLBACK: Final = "hoodie.write.commit.callback."
_CHECK: Final = "hoodie.precommit.validators."

ROWS: Final[tuple[Row, ...]] = (
    honoured(
        _STREAM + "checkpoint.identifier", TEXT, "stream.identifier",
        "default: the id of the streaming query",
    ),
    honoured(_STREAM + "retry.count", count(), "stream.retry_count"),
    honoured(_STREAM + "retry.interval.ms", duration("ms"), "stream.retry_seconds"),
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
)  # fmt: skip
