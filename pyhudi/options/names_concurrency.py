"""Option names of several writers: locks, conflicts, heartbeats, markers, clocks."""

from __future__ import annotations

from typing import Final

from pyhudi.options.row import NOT_YET, Row, honoured, refused, refused_all, without_effect
from pyhudi.options.values import duration, only

_LOCK: Final = "hoodie.write.lock."
_OWN_LOCK: Final = "the table's own lock is always taken; it needs no provider"

ROWS: Final[tuple[Row, ...]] = (
    honoured("hoodie.write.lock.wait_time_ms", duration("ms"), "write.lock_seconds"),
    honoured(
        "hoodie.write.concurrency.mode", only("SINGLE_WRITER"), None,
        "writers of this package take turns anyway",
    ),
    refused(_LOCK + "provider", NOT_YET, _OWN_LOCK),
    refused(_LOCK + "conflict.resolution.strategy", NOT_YET),
    refused(_LOCK + "client.num_retries", NOT_YET),
    refused(_LOCK + "client.wait_time_ms_between_retry", NOT_YET),
    refused(_LOCK + "filesystem.expire", NOT_YET),
    refused(_LOCK + "filesystem.path", NOT_YET),
    refused(_LOCK + "heartbeat_interval_ms", NOT_YET),
    refused(_LOCK + "max_wait_time_ms_between_retry", NOT_YET),
    refused(_LOCK + "num_retries", NOT_YET),
    refused(_LOCK + "wait_time_ms_between_retry", NOT_YET),
    refused(
        _LOCK + "storage.renew.interval.secs", NOT_YET,
        aliases=(_LOCK + "storage.heartbeat.poll.secs",),
    ),
    refused(_LOCK + "storage.validity.timeout.secs", NOT_YET),
    *refused_all(
        NOT_YET, _OWN_LOCK,
        _LOCK + "hivemetastore.database",
        _LOCK + "hivemetastore.table",
        _LOCK + "hivemetastore.uris",
        _LOCK + "zookeeper.base_path",
        _LOCK + "zookeeper.connection_timeout_ms",
        _LOCK + "zookeeper.lock_key",
        _LOCK + "zookeeper.port",
        _LOCK + "zookeeper.session_timeout_ms",
        _LOCK + "zookeeper.url",
    ),
    refused("hoodie.write.num.retries.on.conflict.failures", NOT_YET, harmless=("0",)),
    refused("hoodie.auto.adjust.lock.configs", NOT_YET, harmless=("false",)),
    refused(
        "hoodie.write.concurrency.early.conflict.detection.enable", NOT_YET,
        harmless=("false",),
    ),
    *refused_all(
        NOT_YET, "",
        "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
        "hoodie.write.concurrency.async.conflict.detector.period_ms",
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
        "hoodie.write.concurrency.early.conflict.detection.strategy",
    ),
    refused("hoodie.client.heartbeat.interval_in_ms", NOT_YET, harmless=("60000",)),
    refused("hoodie.client.heartbeat.tolerable.misses", NOT_YET, harmless=("2",)),
    refused("hoodie.write.markers.type", NOT_YET, harmless=("DIRECT",)),
    refused(
        "_.hoodie.allow.multi.write.on.same.instant", "an instant has one write",
        harmless=("false",),
    ),
    *without_effect(
        "the next instant of a table is always later than its last",
        "_hoodie.time.generator.reuse.enable",
        "hoodie.time.generator.max_expected_clock_skew_ms",
        "hoodie.time.generator.type",
    ),
    *without_effect(
        "of markers kept by a timeline server",
        "hoodie.markers.delete.parallelism",
        "hoodie.markers.timeline_server_based.batch.interval_ms",
        "hoodie.markers.timeline_server_based.batch.num_threads",
    ),
)  # fmt: skip
