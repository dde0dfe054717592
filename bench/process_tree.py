"""CPU seconds and resident memory of a process with all its descendants.  Linux only."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_SAMPLE_SECONDS = 0.05
_UTIME = 11  # first of user, system, and both of ended children, behind the name in `stat`
_RSS = 21


def _stat(pid: int) -> list[str]:
    """The fields of a process behind its name; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _tree(pid: int) -> list[int]:
    """A process and its descendants; threads that end meanwhile hide none but their children."""
    found = [pid]
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for task in tasks:
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    return found


def spent() -> float:
    """CPU seconds of this process, its descendants and those of them that have ended."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    fields = [stat for pid in _tree(os.getpid())[1:] if (stat := _stat(pid))]
    ticks = sum(int(text) for stat in fields for text in stat[_UTIME : _UTIME + 4])
    return sum(u.ru_utime + u.ru_stime for u in own) + ticks / os.sysconf("SC_CLK_TCK")


def resident_mib() -> float:
    """Memory of this process and its descendants; pages that they share count for each."""
    pages = sum(int(stat[_RSS]) for pid in _tree(os.getpid()) if (stat := _stat(pid)))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class PeakMemory:
    """The peak of `resident_mib` inside the block, by samples."""

    def __init__(self) -> None:
        self.mib = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self.mib = max(self.mib, resident_mib())

    def __enter__(self) -> PeakMemory:
        self.mib = resident_mib()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.mib = max(self.mib, resident_mib())


def measured(name: str, act: Callable[[], Any]) -> Any:
    """Run a step and print its wall and CPU seconds and its peak of memory as a line of JSON; what
    it returned."""
    cpu, began = spent(), time.perf_counter()
    with PeakMemory() as peak:
        result = act()
    wall, used = time.perf_counter() - began, spent() - cpu
    print(json.dumps({"step": name, "wall": wall, "cpu": used, "mib": peak.mib}), flush=True)
    return result
