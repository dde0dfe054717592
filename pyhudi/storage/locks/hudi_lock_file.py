"""The lock file of Apache Hudi's FileSystemBasedLockProvider, so that its writers wait for ours.

Whoever creates `<folder>/lock` holds the lock; to delete it is to free it.  Nothing renews it: its
holder's death frees it only where an expiry is set, which is for Apache Hudi a matter of the
file's time and its own clock.  Here a file is followed when it was watched unchanged for the whole
expiry, by a clock that nobody sets; and a holder here has lost the lock when the expiry is over,
or when the file is gone: Apache Hudi's writers delete it on closing, though it be another's.
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
"""Contents of lock files of others, by key."""


class LockFileMutex:
    """Mutex by the file `path`.  expire_seconds: after which it is another's; 0: never."""

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
        """Whether one content was there for a whole expiry."""
        if not self._expire_seconds:
            return False
        found = self._read()
        if found is None:  # freed since, or another's by now
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
        """What the holder wrote, in Apache Hudi's words, as the purpose."""
        return json.dumps({"purpose": (self._read() or b"").decode(errors="replace")[:200]})

    def _read(self) -> bytes | None:
        try:
            return self._fs.read(self._path)
        except FileMissingError:
            return None


def _content() -> bytes:
    """What Apache Hudi shows of a holder; no two are equal."""
    facts = {
        "lockCreateTime": datetime.now().isoformat(sep=" ", timespec="milliseconds"),
        "lockThreadName": f"pyhudi {threading.current_thread().name} {secrets.token_hex(8)}",
        "lockStacksInfo": [],
    }
    return json.dumps(facts).encode()
