"""The lock of Apache Hudi's HiveMetastoreBasedLockProvider: an exclusive lock of a Hive Metastore
on the name of a table.

The metastore queues requests and removes those that it has not heard of for metastore.txn.timeout
(300 s by default), also those of crashed writers; a thread sends heartbeats.  `confirm` sends
one too: the metastore rejects it for a lock that it has removed.  The id of a lock is the fencing
token.  Each request uses a connection opened for it, so that a restart of the metastore ends no
lock.
Needs `pip install "pyhudi[hive]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CatalogError, StorageError
from pyhudi.storage.hive_thrift import answer_of, connect_any, interface
from pyhudi.storage.locks.monotonic_clock import keep_trying, steady_seconds

METASTORE_TIMEOUT_SECONDS: Final = 300.0
"""The default of metastore.txn.timeout."""
_REQUEST_MILLIS: Final = 30_000
_POLL_SECONDS: Final = 0.2
_NEEDS: Final = "see the metastore's log; its catalog needs the tables of Hive's transactions"
_GONE: Final = "NoSuchLockException"


@dataclass(frozen=True, slots=True)
class HiveLockPlace:
    """A table's name in a metastore; the table itself need not exist.  servers: host and port."""

    servers: tuple[tuple[str, int], ...]
    database: str
    table: str
    heartbeat_seconds: float = 60.0


@dataclass(slots=True)
class _Hold:
    """A lock request that the metastore has granted.  renewed: when its last successful heartbeat
    was sent."""

    lock_id: int
    renewed: float
    ended: threading.Event = field(default_factory=threading.Event)


class HiveMetastoreMutex:
    """Mutex by the first request in the metastore's queue for a table."""

    def __init__(self, place: HiveLockPlace) -> None:
        hosts = ",".join(f"{host}:{port}" for host, port in place.servers)
        self.key = f"hive-metastore:thrift://{hosts}/{place.database}.{place.table}"
        self._place = place
        self._hold: _Hold | None = None

    @property
    def token(self) -> int:
        """The id of the lock; 0 if it is not held."""
        return 0 if self._hold is None else self._hold.lock_id

    def acquire(self, wait_seconds: float) -> bool:
        started, states = steady_seconds(), interface().LockState
        answer = self._call(lambda client: client.lock(self._request()))
        hold = _Hold(answer.lockid, started)
        taken: bool = answer.state == states.ACQUIRED
        try:
            if not taken and wait_seconds > 0:
                taken = keep_trying(
                    lambda: self._is_granted(hold),
                    wait_seconds=wait_seconds,
                    poll_seconds=_POLL_SECONDS,
                )
        finally:
            if not taken:
                with suppress(StorageError):  # the metastore removes it after its timeout
                    self._unlock(hold.lock_id)
        if taken:
            self._hold = hold
            threading.Thread(target=self._keep_renewing, args=(hold,), daemon=True).start()
        return taken

    def confirm(self) -> bool:
        hold = self._hold
        if hold is None or not self.seconds_left():
            return False
        try:
            return self._renew(hold)
        except StorageError:
            return False

    def seconds_left(self) -> float:
        """The metastore keeps a lock for at least its timeout after the last heartbeat."""
        hold = self._hold
        if hold is None or hold.ended.is_set():
            return 0.0
        return max(hold.renewed + METASTORE_TIMEOUT_SECONDS - steady_seconds(), 0.0)

    def release(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.ended.set()
            self._unlock(hold.lock_id)

    def sign(self, text: str) -> None:
        """Without effect: the request has named the process, and cannot be changed."""

    def signature(self) -> str:
        """The host and the process or user that the holder has stated in its request."""
        types, place = interface(), self._place
        request = types.ShowLocksRequest(dbname=place.database, tablename=place.table)
        try:
            locks = self._call(lambda client: client.show_locks(request)).locks or []
        except StorageError:
            return ""
        held = [each for each in locks if each.state == types.LockState.ACQUIRED]
        if not held:
            return ""
        holder = held[0]
        purpose = f"{holder.agentInfo or 'unknown'}, user {holder.user}"
        return json.dumps({"host": holder.hostname, "purpose": purpose})

    def _request(self) -> Any:
        types, place = interface(), self._place
        component = types.LockComponent(
            type=types.LockType.EXCLUSIVE,
            level=types.LockLevel.TABLE,
            dbname=place.database,
            tablename=place.table,
        )
        return types.LockRequest(
            component=[component],
            user=getpass.getuser(),
            hostname=socket.gethostname(),
            agentInfo=f"pyhudi, process {os.getpid()}",
        )

    def _is_granted(self, hold: _Hold) -> bool:
        """Whether the metastore has granted the request by now; also a heartbeat."""
        types, started = interface(), steady_seconds()
        request = types.CheckLockRequest(lockid=hold.lock_id)
        answer = self._call(lambda client: client.check_lock(request))
        hold.renewed = started
        return bool(answer.state == types.LockState.ACQUIRED)

    def _keep_renewing(self, hold: _Hold) -> None:
        while not hold.ended.wait(self._place.heartbeat_seconds):
            with suppress(StorageError):  # it is lost if no heartbeat succeeds within the timeout
                self._renew(hold)

    def _renew(self, hold: _Hold) -> bool:
        """Send a heartbeat; False, and the hold ends, if the metastore has removed the lock."""
        started = steady_seconds()
        request = interface().HeartbeatRequest(lockid=hold.lock_id)
        if self._call(lambda client: client.heartbeat(request) is None, unless=_GONE) is None:
            hold.ended.set()
            return False
        hold.renewed = started
        return True

    def _unlock(self, lock_id: int) -> None:
        """Remove a request; one that is not there any more is none."""
        request = interface().UnlockRequest(lockid=lock_id)
        self._call(lambda client: client.unlock(request), unless=_GONE)

    def _call(self, request: Callable[[Any], Any], *, unless: str = "") -> Any:
        """The answer; None if it is the exception `unless`.  Raises StorageError."""

        def connected() -> Any:
            client = connect_any(self._place.servers, timeout_millis=_REQUEST_MILLIS)
            try:
                return request(client)
            finally:
                client.close()

        try:
            return answer_of(connected, url=self.key, unless=unless, is_first=True)
        except CatalogError as error:
            raise StorageError(
                "the Hive Metastore does not lock",
                path=self.key,
                hint=error.hint or _NEEDS,
                reason=error.facts.get("reason"),
                retryable=True,
            ) from error
