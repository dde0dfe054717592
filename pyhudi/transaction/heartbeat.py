"""Heartbeats: a file that is written anew every minute shows that who wrote it lives.

`.hoodie/.heartbeat/<T>` is that of an instant which is worked on outside the table's lock; readers
have others (`services/snapshot_pins`).  On the machine that wrote one the process is asked, so a
killed one is known at once; from elsewhere the file's age tells, as Apache Hudi does, whose
heartbeats are empty files.  Ours state their interval, so that a caller with other options judges
them by it. Ages compare the store's clock with this machine's.  Source: table_format 6.2.
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
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from pyhudi.errors import FileMissingError, StorageError
from pyhudi.filenames import HEARTBEATS, join
from pyhudi.options import Heartbeats
from pyhudi.records import InstantTime
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileInfo, FileSystem

INTERVAL_SECONDS: Final = Heartbeats().interval_seconds
INTERVAL_SECONDS_MAX: Final = 24 * 3600.0
"""A longer interval is not believed of a heartbeat's file."""

_BEATING: Final[set[str]] = set()
"""Tokens of the heartbeats of this process that have not ended."""


def heartbeat_path(instant: InstantTime) -> str:
    return f"{HEARTBEATS}/{instant}"


def remove_heartbeat(fs: FileSystem, instant: InstantTime) -> None:
    fs.delete([heartbeat_path(instant)])


def living(fs: FileSystem, rules: Heartbeats | None = None) -> frozenset[InstantTime]:
    """Instants whose heartbeats are alive.  Cost: one listing, and a read a heartbeat."""
    rules, now = rules or Heartbeats(), time.time()
    found = (i for i in fs.children(HEARTBEATS) if not i.is_folder)
    return frozenset(InstantTime(i.name) for i in found if is_alive(fs, i, rules, now))


def is_alive(fs: FileSystem, beat: FileInfo, rules: Heartbeats, now: float) -> bool:
    """Whether who wrote this file lives.  now: of `time.time()`."""
    try:
        who = _Beater.parse(fs.read(beat.path))
    except FileMissingError:
        return False
    if who is not None and who.is_here:
        return who.lives
    if beat.modified is None:  # a store without times: never roll back what may be alive
        return True
    stated = rules if who is None else who.rules(rules)
    return now - beat.modified <= max(rules.seconds_max, stated.seconds_max)


class Beat:
    """Keeps the file `path` young from `start` to `stop`, which removes it.

    facts: go into the file beside who writes it.  As a context manager it does both.  A beat the
    store refuses is tried again at the next.
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
        self._who = _Beater.own(interval_seconds)
        self._text = json.dumps({**(facts or {}), **asdict(self._who)}).encode()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pyhudi-heartbeat", daemon=True)

    def start(self) -> Self:
        """To be called under the table's lock, which whoever judges it holds too.  Doing it
        again changes nothing."""
        if self._thread.ident is not None:
            return self
        _BEATING.add(self._who.token)
        try:
            # a power loss ends what beats, too
            if not self._fs.create(self._path, self._text, durable=False):
                self._fs.replace(self._path, self._text)
        except BaseException:
            _BEATING.discard(self._who.token)
            raise
        self._thread.start()
        return self

    def stop(self) -> None:
        """Doing it again changes nothing."""
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
    """The beat of an instant."""

    def __init__(
        self, fs: FileSystem, instant: InstantTime, *, interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        super().__init__(fs, heartbeat_path(instant), interval_seconds=interval_seconds)


@dataclass(frozen=True, slots=True)
class _Beater:
    """Who writes a heartbeat.  machine: of the boot and of the process ids, "" where not known.
    interval_seconds: between two beats, 0 where not stated."""

    machine: str
    pid: int
    started: str
    token: str
    interval_seconds: float = 0.0

    @classmethod
    def own(cls, interval_seconds: float) -> _Beater:
        pid = os.getpid()
        return cls(_machine(), pid, _started(pid), secrets.token_hex(8), interval_seconds)

    @classmethod
    def parse(cls, content: bytes) -> _Beater | None:
        """None for another writer's heartbeat."""
        try:
            found = json.loads(content)
            return cls(
                str(found["machine"]), int(found["pid"]), str(found["started"]),
                str(found["token"]), float(found.get("interval_seconds") or 0),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError):
            return None

    def rules(self, rules: Heartbeats) -> Heartbeats:
        """The rules of whoever judges, with the interval that this writer keeps to."""
        if not 0 < self.interval_seconds <= INTERVAL_SECONDS_MAX:
            return rules
        return replace(rules, interval_seconds=self.interval_seconds)

    @property
    def is_here(self) -> bool:
        """Whether the process ids of this machine tell about it."""
        return bool(self.machine) and self.machine == _machine()

    @property
    def lives(self) -> bool:
        if self.pid == os.getpid():
            return self.token in _BEATING
        return bool(self.started) and _started(self.pid) == self.started


@cache
def _machine() -> str:
    """This boot of this machine, and which process ids are meant; "" where it cannot be told."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return join(boot, os.readlink("/proc/self/ns/pid"))
    return ""


def _started(pid: int) -> str:
    """When a process began, in ticks since the boot; "" if there is none, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BEATING.clear)
