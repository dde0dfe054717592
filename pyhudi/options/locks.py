"""Which lock a writer takes besides the table's own, so that writers of Apache Hudi know of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class LockProvider(Enum):
    """A lock of Apache Hudi."""

    IN_PROCESS = "InProcessLockProvider"  # the table's own lock holds more than it promises
    FILE = "FileSystemBasedLockProvider"
    ZOOKEEPER = "ZookeeperBasedLockProvider"


@dataclass(frozen=True, slots=True)
class LockRules:
    """A lock provider and its settings.  None: the table's own lock only.

    Used by storage/locks/providers.py.
    """

    provider: LockProvider | None = None
    folder: str | None = None  # of the file `lock`; None: the table's `.hoodie`
    expire_seconds: float = 0.0  # after which its file is another's; 0: never
    zookeeper_url: str | None = None  # host:port, several with commas between
    zookeeper_port: int | None = None
    zookeeper_base_path: str | None = None
    zookeeper_lock_key: str | None = None
    zookeeper_session_seconds: float = 60.0
    zookeeper_connect_seconds: float = 15.0
