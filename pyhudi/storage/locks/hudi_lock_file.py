"""The lock file of Apache Hudi's FileSystemBasedLockProvider, shared with its writers.

The writer that creates `<folder>/lock` holds the lock; deleting the file releases it.  Nothing
renews it: a crash of its holder releases it only if an expiry is set, which Apache Hudi judges
by the file's time and its own clock.  Here, a lock is taken over when its file was observed
unchanged for the whole expiry, by a monotonic clock; and a holder loses the lock when the expiry
is over or the file is gone: Apache Hudi's writers delete it on close, even another writer's.
Source: FileSystemBasedLockProvider of Apache Hudi 0.15.0 and 1.2.0.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from datetime import datetime
from typing import Final

from pyhudi.errors import FileMissingError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.monotonic_clock import Watch, keep_trying, steady_seconds

_POLL_SECONDS: Final = 0.2
_WATCHED: Final = Watch()
"""Contents of lock files of other writers, by key."""


class LockFileMutex:
    """Mutex by the file `path`.  expire_seconds: after this it may be taken over; 0: never."""

    def __init__(self, fs: FileSystem, path: str, *, expire_seconds: float = 0.0) -> None:
        self.key = f"file:{fs.url}/{path}"
        self._fs, self._path = fs, path
        self._expire_seconds = expire_seconds
        self._content = b""
        self._since = 0.0

    def acquire(self, wait_seconds: float) -> bool:
        return keep_trying(self._try, wait_seconds=wait_seconds, poll_seconds=_POLL_SECONDS)

    def _try(self) -> bool:
        content, since = _content(), steady_seconds()
        if not self._fs.create(self._path, content):
            if not self._is_expired():
                return False
            self._fs.delete([self._path])
            if not self._fs.create(self._path, content):
                return False
        self._content, self._since = content, since
        _WATCHED.forget(self.key)
        return True

    def _is_expired(self) -> bool:
        """Whether the content was the same for a whole expiry."""
        if not self._expire_seconds:
            return False
        found = self._read()
        if found is None:  # released since, or acquired by another writer
            _WATCHED.forget(self.key)
            return False
        return _WATCHED.unchanged_seconds(self.key, found) > self._expire_seconds

    def confirm(self) -> bool:
        over = self._expire_seconds and steady_seconds() - self._since > self._expire_seconds
        return not over and self._read() == self._content

    def seconds_left(self) -> float:
        if not self._expire_seconds:
            return math.inf
        return max(self._since + self._expire_seconds - steady_seconds(), 0.0)

    def release(self) -> None:
        if self._read() == self._content:
            self._fs.delete([self._path])
        self._content = b""

    def sign(self, text: str) -> None:
        """Nothing: the file stays as it was created."""

    def signature(self) -> str:
        """The holder's record, in Apache Hudi's format, as the purpose."""
        return json.dumps({"purpose": (self._read() or b"").decode(errors="replace")[:200]})

    def _read(self) -> bytes | None:
        try:
            return self._fs.read(self._path)
        except FileMissingError:
            return None


def _content() -> bytes:
    """A holder's record in the format of Apache Hudi; all are distinct."""
    facts = {
        "lockCreateTime": datetime.now().isoformat(sep=" ", timespec="milliseconds"),
        "lockThreadName": f"pyhudi {threading.current_thread().name} {secrets.token_hex(8)}",
        "lockStacksInfo": [],
    }
    return json.dumps(facts).encode()
