"""The ZooKeeper lock of Apache Hudi's ZookeeperBasedLockProvider, by the library kazoo.

Contenders are ephemeral sequential nodes below `<base_path>/<lock_key>`, named as in the
recipe of Apache Hudi's library (Curator), `<unique>-lock-<sequence>`: the lowest sequence
holds the lock, whoever created the node.  The end of a session removes its node, so a crash of
the holder releases the lock after the session timeout.  `confirm` requests the node after a sync,
so that a lagging server cannot mislead it; ZooKeeper's sequence is the fencing token.
Needs `pip install "pyhudi[zookeeper]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pyhudi.errors import StorageError
from pyhudi.libraries import load_library

_NODE: Final = "-lock-"


@dataclass(frozen=True, slots=True)
class ZooKeeperPlace:
    """A node of ZooKeeper.  hosts: host:port, several separated by commas."""

    hosts: str
    path: str
    session_seconds: float = 60.0
    connect_seconds: float = 15.0


@cache
def _library() -> Any:
    """The module kazoo, loaded when first needed."""
    for part in ("client", "exceptions", "handlers.threading", "recipe.lock"):
        load_library(f"kazoo.{part}", extra="zookeeper", needed_for="ZooKeeper locks")
    return load_library("kazoo", extra="zookeeper", needed_for="ZooKeeper locks")


@cache
def _recipe() -> Any:
    """kazoo's lock with the node names of Curator's contenders."""
    library = _library()
    names = {"_NODE_NAME": _NODE, "_EXCLUDE_NAMES": [_NODE]}
    return type("CuratorLock", (library.recipe.lock.Lock,), names)


@cache
def _failures() -> tuple[type[Exception], ...]:
    """The exceptions of kazoo if the server rejects, is unreachable or does not answer."""
    library = _library()
    return (
        library.exceptions.KazooException,
        library.handlers.threading.KazooTimeoutError,
        OSError,
    )


class ZooKeeperMutex:
    """Mutex by the lowest node of the contenders."""

    def __init__(self, place: ZooKeeperPlace) -> None:
        self.key = f"zookeeper:{place.hosts}{place.path}"
        self._place = place
        self._client: Any = None
        self._lock: Any = None

    @property
    def token(self) -> int:
        """The sequence of the node that holds the lock; 0 if it is not held."""
        return int(self._lock.node[-10:]) if self._lock is not None else 0

    def acquire(self, wait_seconds: float) -> bool:
        client = self._connected()
        lock = _recipe()(client, self._place.path, "")
        taken = False
        try:
            taken = _acquired(lock, wait_seconds)
        except _failures() as error:
            raise self._failed(error) from error
        finally:
            if not taken:
                _close(client)
        if taken:
            self._client, self._lock = client, lock
        return taken

    def confirm(self) -> bool:
        node = f"{self._place.path}/{self._lock.node}"
        try:
            self._client.sync(node)
            found = self._client.exists(node)
        except _failures():
            return False  # disconnected: the session, and its node, may have ended
        session = (self._client.client_id or (None,))[0]
        return found is not None and found.ephemeralOwner == session

    def seconds_left(self) -> float:
        """Unknown: the client renews the session by pings that are not visible here."""
        return math.inf if self._lock is not None and self._client.connected else 0.0

    def release(self) -> None:
        client, lock = self._client, self._lock
        self._client = self._lock = None
        try:
            lock.release()
        except _failures():
            pass  # the end of the session removes the node
        finally:
            _close(client)

    def sign(self, text: str) -> None:
        with suppress(*_failures()):
            self._client.set(f"{self._place.path}/{self._lock.node}", text.encode())

    def signature(self) -> str:
        """The content of the lowest node: a signature, or the address of an Apache Hudi writer."""
        try:
            client = self._connected()
        except StorageError:
            return ""
        try:
            found = client.get_children(self._place.path)
            names = sorted((n for n in found if _NODE in n), key=lambda n: n[-10:])
            text = client.get(f"{self._place.path}/{names[0]}")[0].decode() if names else ""
        except _failures():
            return ""
        finally:
            _close(client)
        return text if text.startswith("{") else json.dumps({"purpose": text[:200]})

    def _connected(self) -> Any:
        """A client with a session.  Raises StorageError."""
        library = _library()
        client = library.client.KazooClient(
            hosts=self._place.hosts, timeout=self._place.session_seconds
        )
        try:
            client.start(timeout=self._place.connect_seconds)
        except _failures() as error:
            _close(client)
            raise self._failed(error) from error
        return client

    def _failed(self, error: Exception) -> StorageError:
        reason = str(error) or type(error).__name__
        return StorageError(
            "ZooKeeper does not answer", path=self.key, reason=reason, retryable=True
        )


def _acquired(lock: Any, wait_seconds: float) -> bool:
    try:
        taken: bool = lock.acquire(blocking=wait_seconds > 0, timeout=wait_seconds or None)
    except _library().exceptions.LockTimeout:
        return False
    return taken


def _close(client: Any) -> None:
    client.stop()
    client.close()
