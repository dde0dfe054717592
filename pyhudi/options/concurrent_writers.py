"""Settings of concurrent writers: modes, retries, heartbeats, and the lock of Apache Hudi that a
writer takes in addition to the table's own lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyhudi.errors import OptionError


def check_positive(option: str, value: float) -> None:
    """Raise OptionError for a value that is not positive."""
    if value <= 0:
        raise OptionError("must be positive", option=option, value=value)


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """How a pending instant shows that its writer is alive.  Used by transaction/heartbeat."""

    interval_seconds: float = 60.0
    misses: int = 2  # intervals without a beat after which it counts as crashed
    always: bool = False  # also under the lock, for Apache Hudi's writers with the policy LAZY

    @property
    def seconds_max(self) -> float:
        return self.interval_seconds * max(1, self.misses)

    def __post_init__(self) -> None:
        check_positive("hoodie.client.heartbeat.interval_in_ms", self.interval_seconds)


class ConcurrencyMode(Enum):
    """How concurrent writers of a table are coordinated; the value is Apache Hudi's name."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Concurrent writes.  Used by operations/commit and transaction/begin."""

    mode: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
    retries: int = 4  # after conflicts; the last one holds the lock from its start
    retry_seconds: float = 0.1  # at most, before the first retry; doubled for each further one
    retry_seconds_max: float = 5.0
    detects_early: bool = False  # check other writers' markers before files are written
    heartbeats: Heartbeats = field(default_factory=Heartbeats)

    @property
    def optimistic(self) -> bool:
        """Whether others write during a write; if not, none is repeated or needs a heartbeat."""
        return self.mode is not ConcurrencyMode.SINGLE_WRITER

    @property
    def is_non_blocking(self) -> bool:
        """Whether writers append logs to the same file groups without conflicts."""
        return self.mode is ConcurrencyMode.NON_BLOCKING

    @property
    def always_beats(self) -> bool:
        """Whether every write has a heartbeat, also under the lock."""
        return self.heartbeats.always or self.is_non_blocking


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
