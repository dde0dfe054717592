"""A writer lock made of an object with a lease, for stores without locks.

The object states who holds the lock, and the holder rewrites it while it lives.  Every write
replaces the version that was read: of concurrent writes one succeeds.  A free lock
remains as an object, so that its fencing token keeps increasing: each holder has a greater token
than all before.  Another process that has observed one version for a whole lease takes the lock.
Only the observer measures time, by a monotonic clock: clocks of other machines
and steps of the local clock do not matter.

A holder that could not renew in time (a stopped process, a cut network) has lost the lock.
`confirm`, called right before each publish, reports this at the latest.  The next writer rolls
back what the holder wrote, as for any crashed writer.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from contextlib import suppress
from typing import Any, Final, Protocol

from pyhudi.errors import StorageError
from pyhudi.storage.locks.monotonic_clock import Watch, ending_within, keep_trying, steady_seconds

LEASE_SECONDS: Final = 30.0
_RENEWALS: Final = 4  # in one lease, so that one or two lost requests are harmless
_POLL_SECONDS: Final = 0.5
_REQUEST_SHARE: Final = 0.5  # of a lease, for one request with its retries


class LeaseObject(Protocol):
    """One object of a store, read and written by version."""

    def read(self) -> tuple[bytes, Any] | None:
        """Content and version; None if there is none."""
        ...

    def write(self, content: bytes, version: Any) -> Any | None:
        """Replace that version (None: create); the new version, or None if another
        was there."""
        ...

    def modified(self) -> float | None:
        """When it was written last, in seconds by the store's clock; None if unknown."""
        ...


_WATCHED: Final = Watch()
"""Versions of locks held by others, by key."""

_CONDITIONAL: set[str] = set()
"""Keys of locks whose store is known to check the condition of a put."""


class LeaseMutex:
    """Mutex by a lease on an object.  lease_seconds: how long a holder may be silent.

    token: the fencing token of the last acquisition, 0 before.
    """

    def __init__(
        self, target: LeaseObject, key: str, *, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self.key = "lease:" + key
        self.token = 0
        self._target = target
        self._lease_seconds = lease_seconds
        self._held = threading.Lock()
        self._text = ""
        self._holder = ""
        self._version: Any = None
        self._renewed = 0.0
        self._renewal: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def is_lost(self) -> bool:
        """Whether the lock was held and may be another's by now, without a request to the store."""
        return self._renewal is not None and not self.seconds_left()

    def seconds_left(self) -> float:
        """Others wait for a whole lease after they observe the last version written here."""
        if self._version is None:
            return 0.0
        return max(self._renewed + self._lease_seconds - steady_seconds(), 0.0)

    def acquire(self, wait_seconds: float) -> bool:
        pause = min(_POLL_SECONDS, self._lease_seconds / _RENEWALS)
        return keep_trying(self._try, wait_seconds=wait_seconds, poll_seconds=pause)

    def is_held(self) -> bool:
        """By the store's and the local clock, with a lease of tolerance for their difference: a
        hint, where `acquire` watches the object."""
        try:
            found = self._read()
            if found is None or not _holder(found[0]) or self._is_silent(found[1]):
                return False
            modified = self._target.modified()
        except StorageError:
            return False
        return modified is None or time.time() - modified <= 2 * self._lease_seconds

    def _try(self) -> bool:
        """Take the lock if it is free, or if its holder has been silent for a lease."""
        found = self._read()
        if found is not None and _holder(found[0]) and not self._is_silent(found[1]):
            return False
        holder, started = secrets.token_hex(8), steady_seconds()
        token = 1 + (0 if found is None else _token(found[0]))
        version = self._put(_content(token, holder, ""), found[1] if found else None)
        if version is None:
            return False
        _WATCHED.forget(self.key)
        try:
            self._check_condition()
        except StorageError:
            with suppress(StorageError):
                self._put(_content(token, "", ""), version)
            raise
        self.token, self._holder, self._text = token, holder, ""
        self._version, self._renewed = version, started
        self._ended = threading.Event()
        self._renewal = threading.Thread(target=self._renew, args=(self._ended,), daemon=True)
        self._renewal.start()
        return True

    def _put(self, content: bytes, version: Any) -> Any | None:
        """Replace a version; the new one, or None if another was there.

        A put that succeeded although its answer was lost is recognized by the stored content.  If
        that is an earlier put of the same holder, it is replaced by this one.
        """
        failed: StorageError | None = None
        try:
            written = self._write_object(content, version)
        except StorageError as error:
            failed, written = error, None
        if written is None:
            found = self._read()
            if found is not None and found[0] == content:  # all contents are distinct
                return found[1]
            if found is not None and self._is_mine(found[0]) and found[1] != version:
                return self._write_object(content, found[1])
        if failed is not None:
            raise failed
        return written

    def _read(self) -> tuple[bytes, Any] | None:
        with ending_within(self._lease_seconds * _REQUEST_SHARE):
            return self._target.read()

    def _write_object(self, content: bytes, version: Any) -> Any | None:
        with ending_within(self._lease_seconds * _REQUEST_SHARE):
            return self._target.write(content, version)

    def _is_mine(self, content: bytes) -> bool:
        return bool(self._holder) and _holder(content) == self._holder

    def _check_condition(self) -> None:
        """Raise StorageError for a store that overwrites objects despite a condition."""
        if self.key in _CONDITIONAL:
            return
        if self._target.write(_content(0, "", ""), None) is not None:
            raise StorageError(
                "the store ignores the condition of a put, so it cannot lock a table",
                path=self.key,
                hint="write to a store that honours If-None-Match",
            )
        _CONDITIONAL.add(self.key)

    def _is_silent(self, version: Any) -> bool:
        return _WATCHED.unchanged_seconds(self.key, version) > self._lease_seconds

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(self._lease_seconds / _RENEWALS):
            with self._held:
                if not ended.is_set() and not self._write():
                    return

    def _write(self) -> bool:
        """Rewrite the lock; whether it is still held, as far as is known."""
        started = steady_seconds()
        if self._version is None:
            return False
        try:
            content = _content(self.token, self._holder, self._text)
            self._version = self._put(content, self._version)
        except StorageError:
            return True  # the lease continues; it is lost if it ends before a renewal succeeds
        if self._version is not None:
            self._renewed = started
        return self._version is not None

    def confirm(self) -> bool:
        """Whether the lock is held; if so, rewrites it, for another lease."""
        with self._held:
            if self.is_lost:
                return False
            before = self._renewed
            return self._write() and self._renewed > before

    def release(self) -> None:
        self._ended.set()
        with self._held:
            is_held, self._renewal = self._renewal is not None and not self.is_lost, None
            if is_held:
                self._put(_content(self.token, "", ""), self._version)
            self._version, self._holder = None, ""

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


def _content(token: int, holder: str, text: str) -> bytes:
    facts = {"token": token, "holder": holder, "text": text, "at": secrets.token_hex(4)}
    return json.dumps(facts).encode()


def _facts(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _holder(content: bytes) -> str | None:
    """The holder; an empty text if the lock is free, None if the content is not a pyhudi lock."""
    holder = _facts(content).get("holder")
    return holder if isinstance(holder, str) else "unknown"


def _token(content: bytes) -> int:
    token = _facts(content).get("token")
    return token if isinstance(token, int) else 0
