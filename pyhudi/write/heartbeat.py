"""Heartbeats: a pending write shows that its writer lives.

`.hoodie/.heartbeat/<T>`, empty, written anew every minute; a writer of a table with the policy
LAZY leaves a pending instant alone while its heartbeat is younger than two.  A table with EAGER
rolls back every pending write it meets, heartbeat or not.  Source: table_format 6.2.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final, Self

from pyhudi.errors import StorageError
from pyhudi.filenames import HEARTBEATS
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem

INTERVAL_SECONDS: Final = 60.0


def heartbeat_path(instant: InstantTime) -> str:
    return f"{HEARTBEATS}/{instant}"


def remove_heartbeat(fs: FileSystem, instant: InstantTime) -> None:
    fs.delete([heartbeat_path(instant)])


class Heartbeat:
    """Keeps an instant's heartbeat while the block runs; leaving it removes the file.

    A beat the store refuses is tried again at the next.
    """

    def __init__(
        self, fs: FileSystem, instant: InstantTime, *, interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        self._fs, self._instant = fs, instant
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pyhudi-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._fs.replace(heartbeat_path(self._instant), b"")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        remove_heartbeat(self._fs, self._instant)

    def _beat(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            with contextlib.suppress(StorageError):
                self._fs.replace(heartbeat_path(self._instant), b"")
