"""A writer lock as an object with a lease, for stores that have no locks of their own.

Who creates the object holds the lock, and writes it anew while he lives.  Another process that
has watched one version of it for a whole lease takes its place, by a put that succeeds only in
place of that version: of several takers one wins.  Time is measured by the watcher alone, so
clocks need not agree.

A holder that could not renew in time (a stopped process, a cut network) has lost the lock; it
learns so from `is_lost`, and must not publish.  What it writes after that is rolled back by the
next writer as any dead writer's remains are.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from typing import Any, Final, Protocol

from pyhudi.errors import StorageError

LEASE_SECONDS: Final = 30.0
_RENEWALS: Final = 4  # in one lease, so that a lost request or two do no harm
_POLL_SECONDS: Final = 0.5


class LeaseObject(Protocol):
    """One object of a store, read and written by version."""

    def read(self) -> tuple[bytes, Any] | None:
        """Content and version; None if there is none."""
        ...

    def write(self, content: bytes, version: Any) -> Any | None:
        """Put in place of that version (None: of nothing): the new one, or None if another was
        there."""
        ...

    def remove(self) -> None: ...


_WATCHED: dict[str, tuple[Any, float]] = {}
"""By key, the version seen last and since when; kept between attempts shorter than a lease."""


class LeaseMutex:
    """Mutex by a lease on an object.  lease_seconds: how long a holder may be silent."""

    def __init__(
        self, target: LeaseObject, key: str, *, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self.key = "lease:" + key
        self._target = target
        self._lease_seconds = lease_seconds
        self._held = threading.Lock()
        self._text = ""
        self._token = ""
        self._version: Any = None
        self._renewed = 0.0
        self._renewal: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def is_lost(self) -> bool:
        """Whether the lock was held and may be another's by now."""
        return self._renewal is not None and (
            self._version is None or time.monotonic() - self._renewed > self._lease_seconds
        )

    def acquire(self, wait_seconds: float) -> bool:
        end = time.monotonic() + wait_seconds
        while True:
            if self._try():
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL_SECONDS, self._lease_seconds / _RENEWALS, left))

    def _try(self) -> bool:
        """Take the lock if it is free, or if its holder has been silent for a lease."""
        token, started = secrets.token_hex(8), time.monotonic()
        content = _content(token, "")
        version = self._target.write(content, None)
        if version is None:
            found = self._target.read()
            if found is not None:
                if _token(found[0]) == token:  # the put came through, its answer did not
                    version = found[1]
                elif self._is_silent(found[1]):
                    version = self._target.write(content, found[1])
        if version is None:
            return False
        _WATCHED.pop(self.key, None)
        self._token, self._version, self._text, self._renewed = token, version, "", started
        self._ended = threading.Event()
        self._renewal = threading.Thread(target=self._renew, args=(self._ended,), daemon=True)
        self._renewal.start()
        return True

    def _is_silent(self, version: Any) -> bool:
        known, since = _WATCHED.get(self.key, (None, 0.0))
        if known != version:
            _WATCHED[self.key] = (version, time.monotonic())
            return False
        return time.monotonic() - since > self._lease_seconds

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(self._lease_seconds / _RENEWALS):
            with self._held:
                if not ended.is_set() and not self._write():
                    return

    def _write(self) -> bool:
        """Write the lock anew; whether it is still held."""
        started = time.monotonic()
        content = _content(self._token, self._text)
        try:
            version = self._target.write(content, self._version)
            if version is None:
                found = self._target.read()
                ours = found is not None and _token(found[0]) == self._token
                version = found[1] if found is not None and ours else None
        except StorageError:
            return True  # the lease goes on; it is lost when it ends before a renewal succeeds
        self._version = version
        if version is not None:
            self._renewed = started
        return version is not None

    def release(self) -> None:
        self._ended.set()
        with self._held:
            lost, self._renewal = self.is_lost, None
            if not lost:
                found = self._target.read()
                if found is not None and _token(found[0]) == self._token:
                    self._target.remove()
            self._version = None

    def sign(self, text: str) -> None:
        with self._held:
            self._text = text
            self._write()

    def signature(self) -> str:
        try:
            found = self._target.read()
        except StorageError:
            return ""
        return "" if found is None else str(_facts(found[0]).get("text") or "")


def _content(token: str, text: str) -> bytes:
    return json.dumps({"token": token, "text": text, "at": secrets.token_hex(4)}).encode()


def _facts(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _token(content: bytes) -> str | None:
    return _facts(content).get("token")
