"""Settings of the Apache Hudi lock that a writer takes in addition to the table's own lock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class LockProvider(Enum):
    """A lock provider of Apache Hudi."""

    IN_PROCESS = "InProcessLockProvider"  # the table's own lock already covers it
    FILE = "FileSystemBasedLockProvider"
    ZOOKEEPER = "ZookeeperBasedLockProvider"
    HIVE_METASTORE = "HiveMetastoreBasedLockProvider"


@dataclass(frozen=True, slots=True)
class LockRules:
    """A lock provider and its settings.  None: only the table's own lock.

    Used by storage/locks/providers.py.
    """

    provider: LockProvider | None = None
    folder: str | None = None  # of the file `lock`; None: the table's `.hoodie`
    expire_seconds: float = 0.0  # after this, other writers may replace its file; 0: never
    zookeeper_url: str | None = None  # host:port, several separated by commas
    zookeeper_port: int | None = None
    zookeeper_base_path: str | None = None
    zookeeper_lock_key: str | None = None
    zookeeper_session_seconds: float = 60.0
    zookeeper_connect_seconds: float = 15.0
    metastore_uris: str | None = None  # thrift://host:port, several separated by commas
    metastore_database: str | None = None
    metastore_table: str | None = None
    heartbeat_seconds: float = 60.0  # of a lock in a metastore
