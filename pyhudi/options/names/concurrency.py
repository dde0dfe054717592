"""Option names of concurrent writers: locks, conflicts, heartbeats, markers, clocks."""

from __future__ import annotations

from typing import Final

from pyhudi.options.catalogs import METASTORE_URIS
from pyhudi.options.concurrent_writers import ConcurrencyMode, LockProvider
from pyhudi.options.option_row import Row, honoured, translated_row
from pyhudi.options.settings import MarkerForm
from pyhudi.options.value_types import FLAG, TEXT, choice, class_name, count, duration, only

_LOCK: Final = "hoodie.write.lock."
_STRATEGIES: Final = tuple(
    f"org.apache.hudi.client.transaction.{kind}ConcurrentFileWritesConflictResolutionStrategy"
    for kind in ("Simple", "BucketIndex")
)
_ANY_PROVIDER: Final = "the table lock is always taken; a lock provider of Apache Hudi can be added"
_PROVIDERS: Final = {member.value: member for member in LockProvider}

ROWS: Final[tuple[Row, ...]] = (
    honoured("hoodie.write.lock.wait_time_ms", duration("ms"), "write.lock_seconds"),
    honoured(_LOCK + "client.num_retries", count(), "write.lock_retries"),
    honoured(
        _LOCK + "client.wait_time_ms_between_retry", duration("ms"), "write.lock_retry_seconds"
    ),
    translated_row(
        "hoodie.write.concurrency.mode",
        choice({mode.value: mode for mode in ConcurrencyMode}),
        "write.concurrency.mode",
        "one writer: a write holds the table's lock from start to end; optimistic: at its start "
        "and its end only; non-blocking: likewise, and logs of one file group do not conflict",
    ),
    honoured(
        "hoodie.write.num.retries.on.conflict.failures", count(), "write.concurrency.retries",
        "default: 4; the last attempt holds the lock from its start",
    ),
    honoured(
        "hoodie.write.concurrency.early.conflict.detection.enable", FLAG,
        "write.concurrency.detects_early", "markers are checked once, when a write is planned",
    ),
    honoured(
        _LOCK + "conflict.resolution.strategy", only(*_STRATEGIES), None,
        "file groups are compared, in a bucket index buckets; new keys and columns too",
    ),
    honoured(
        "hoodie.clean.failed.writes.policy",
        choice({"EAGER": False, "LAZY": True}), "write.concurrency.heartbeats.always",
        "the next writer rolls back writes without an active heartbeat; LAZY: every write has one",
        aliases=("hoodie.cleaner.policy.failed.writes",),
    ),
    honoured(
        "hoodie.client.heartbeat.interval_in_ms", duration("ms"),
        "write.concurrency.heartbeats.interval_seconds",
    ),
    honoured(
        "hoodie.client.heartbeat.tolerable.misses", count(1), "write.concurrency.heartbeats.misses"
    ),
    honoured(
        _LOCK + "provider", class_name(_PROVIDERS, allowed=", ".join(_PROVIDERS)),
        "write.lock.provider", _ANY_PROVIDER,
    ),
    honoured(_LOCK + "filesystem.expire", duration("min"), "write.lock.expire_seconds"),
    honoured(_LOCK + "filesystem.path", TEXT, "write.lock.folder"),
    honoured(
        _LOCK + "heartbeat_interval_ms", duration("ms"), "write.lock.heartbeat_seconds",
        "of HiveMetastoreBasedLockProvider; less than 300 s",
    ),
    honoured(_LOCK + "hivemetastore.database", TEXT, "write.lock.metastore_database"),
    honoured(_LOCK + "hivemetastore.table", TEXT, "write.lock.metastore_table"),
    honoured(_LOCK + "hivemetastore.uris", METASTORE_URIS, "write.lock.metastore_uris"),
    honoured(_LOCK + "zookeeper.url", TEXT, "write.lock.zookeeper_url"),
    honoured(_LOCK + "zookeeper.port", count(1, 65535), "write.lock.zookeeper_port"),
    honoured(_LOCK + "zookeeper.base_path", TEXT, "write.lock.zookeeper_base_path"),
    honoured(_LOCK + "zookeeper.lock_key", TEXT, "write.lock.zookeeper_lock_key"),
    honoured(
        _LOCK + "zookeeper.session_timeout_ms", duration("ms"),
        "write.lock.zookeeper_session_seconds",
    ),
    honoured(
        _LOCK + "zookeeper.connection_timeout_ms", duration("ms"),
        "write.lock.zookeeper_connect_seconds",
    ),
    honoured(
        "hoodie.write.markers.type",
        choice({form.value: form for form in (MarkerForm.DIRECT, MarkerForm.TOGETHER)}),
        "write.marker_form",
        "default: a file for each marker, or one for each task if a task writes many files",
    ),
)  # fmt: skip
