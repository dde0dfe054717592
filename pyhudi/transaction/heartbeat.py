"""Heartbeats: files rewritten every minute to show that their writer is alive.

`.hoodie/.heartbeat/<T>` is the heartbeat of an instant that is processed outside the table's lock;
readers have others (`services/snapshot_pins`).  On the writer's machine the process itself is
checked, so a killed one is detected at once; other machines use the file's age, as Apache Hudi
does, whose heartbeats are empty files.  Ours state their interval, which callers with other
options use too.  Ages compare the store's clock with this machine's.  Source: table_format 6.2.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from pyhudi.errors import FileMissingError, StorageError, WriteConflictError
from pyhudi.filenames import HEARTBEATS
from pyhudi.options import Heartbeats
from pyhudi.records import InstantTime
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.operating_system import machine_id, process_started

INTERVAL_SECONDS: Final = Heartbeats().interval_seconds
INTERVAL_SECONDS_MAX: Final = 24 * 3600.0
"""A longer interval in a heartbeat file is ignored."""

_BEATING: Final[set[str]] = set()
"""Tokens of the running heartbeats of this process."""


def heartbeat_path(instant: InstantTime) -> str:
    return f"{HEARTBEATS}/{instant}"


def remove_heartbeat(fs: FileSystem, instant: InstantTime) -> None:
    fs.delete([heartbeat_path(instant)])


def living(fs: FileSystem, rules: Heartbeats | None = None) -> frozenset[InstantTime]:
    """Instants with live heartbeats.  Cost: one listing, and one read per heartbeat."""
    rules, now = rules or Heartbeats(), time.time()
    found = (i for i in fs.children(HEARTBEATS) if not i.is_folder)
    return frozenset(InstantTime(i.name) for i in found if is_alive(fs, i, rules, now))


def check_no_writer(fs: FileSystem, rules: Heartbeats, act: str) -> None:
    """Raise WriteConflictError while a writer works on the table.  act: what has to wait."""
    if writers := sorted(living(fs, rules)):
        raise WriteConflictError(
            "writers are working on the table",
            path=fs.url,
            instants=", ".join(writers),
            hint=f"{act} the table when they have finished",
        )


def is_alive(fs: FileSystem, beat: FileInfo, rules: Heartbeats, now: float) -> bool:
    """Whether the writer of this file is alive.  now: of `time.time()`."""
    try:
        who = _Beater.parse(fs.read(beat.path))
    except FileMissingError:
        return False
    if who is not None and who.is_here:
        return who.lives
    if beat.modified is None:  # a store without times: never roll back a possibly live writer
        return True
    stated = rules if who is None else who.rules(rules)
    return now - beat.modified <= max(rules.seconds_max, stated.seconds_max)


class Beat:
    """Rewrites the file `path` regularly from `start` to `stop`, which removes it.

    facts: stored in the file in addition to its writer.  Can be used as a context manager.  If the
    store rejects a beat, the next beat is the retry.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._fs, self._path = fs, path
        self._interval_seconds = interval_seconds
        self._who = _Beater.unshared(interval_seconds)
        self._text = json.dumps({**(facts or {}), **asdict(self._who)}).encode()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pyhudi-heartbeat", daemon=True)

    def start(self) -> Self:
        """Call it under the table's lock, under which heartbeats are also checked.  A second call
        has no effect."""
        if self._thread.ident is not None:
            return self
        _BEATING.add(self._who.token)
        try:
            # a power loss also ends the writer
            if not self._fs.create(self._path, self._text, durable=False):
                self._fs.replace(self._path, self._text)
        except BaseException:
            _BEATING.discard(self._who.token)
            raise
        self._thread.start()
        return self

    def stop(self) -> None:
        """A second call has no effect."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        _BEATING.discard(self._who.token)
        if self._thread.is_alive():
            self._thread.join()
        with tolerating("a heartbeat", self._path):
            self._fs.delete([self._path])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _beat(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            with contextlib.suppress(StorageError):
                self._fs.replace(self._path, self._text)


class Heartbeat(Beat):
    """The heartbeat of an instant."""

    def __init__(
        self, fs: FileSystem, instant: InstantTime, *, interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        super().__init__(fs, heartbeat_path(instant), interval_seconds=interval_seconds)


@dataclass(frozen=True, slots=True)
class _Beater:
    """The writer of a heartbeat.  machine: id of the boot and of the process id namespace, "" if
    unknown.  interval_seconds: between two beats, 0 if not stated."""

    machine: str
    pid: int
    started: str
    token: str
    interval_seconds: float = 0.0

    @classmethod
    def unshared(cls, interval_seconds: float) -> _Beater:
        pid = os.getpid()
        return cls(machine_id(), pid, process_started(pid), secrets.token_hex(8), interval_seconds)

    @classmethod
    def parse(cls, content: bytes) -> _Beater | None:
        """None for another writer's heartbeat."""
        try:
            found = json.loads(content)
            return cls(
                str(found["machine"]),
                int(found["pid"]),
                str(found["started"]),
                str(found["token"]),
                float(found.get("interval_seconds") or 0),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def rules(self, rules: Heartbeats) -> Heartbeats:
        """The caller's rules, with the interval that this writer states."""
        if not 0 < self.interval_seconds <= INTERVAL_SECONDS_MAX:
            return rules
        return replace(rules, interval_seconds=self.interval_seconds)

    @property
    def is_here(self) -> bool:
        """Whether the process ids of this machine apply."""
        return bool(self.machine) and self.machine == machine_id()

    @property
    def lives(self) -> bool:
        if self.pid == os.getpid():
            return self.token in _BEATING
        return bool(self.started) and process_started(self.pid) == self.started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BEATING.clear)
