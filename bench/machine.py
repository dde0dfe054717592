"""Programs run one after another on one machine: bounded in time, with the CPU that others used.

A figure counts only if nothing else used the processors meanwhile, so each run reports the share of
the machine's time that other programs took.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRESS = ". "
"""Lines that begin so are shown while a bench runs, and are no part of its result."""

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_ERROR_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    status: its exit status; None where it was stopped at its time limit.  cpu_seconds: of the
    program and all its descendants.  others: share (0 to 1) of the machine's processor time that
    programs of others used, with that of Python workers on Spark, which nobody collects as their
    parent ignores when they end.  error: the end of its standard error, where it failed.
    """

    status: int | None
    seconds: float
    cpu_seconds: float
    others: float
    error: str = ""

    @property
    def verdict(self) -> str:
        """Empty for success."""
        if self.status is None:
            return f"stopped after {self.seconds:.0f} s"
        return f"failed with status {self.status}" if self.status else ""


def run(
    command: Sequence[str],
    *,
    on_line: Callable[[str], None],
    limit_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program from the root of the project; each line it prints goes to `on_line`.

    At the time limit the program and its descendants are killed.  Descendants that it leaves (the
    JVM of a Spark session) have ended when this returns, so that they disturb no later run.
    Linux only.
    """
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    strangers = _children()
    began, busy, own = time.monotonic(), busy_seconds(), _children_seconds()
    expired = threading.Event()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            errors="replace",
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )

        def stop() -> None:
            expired.set()
            _kill_group(process.pid)

        timer = threading.Timer(limit_seconds, stop)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                on_line(line.rstrip("\n"))
            status = process.wait()
        finally:
            timer.cancel()
            _kill_group(process.pid)
            process.wait()
            _reap_orphans(strangers)
        output.seek(0)
        error = output.read()[-_ERROR_CHARS:] if status else ""
    seconds, cpu = time.monotonic() - began, _children_seconds() - own
    foreign = busy_seconds() - busy - cpu
    others = max(0.0, foreign) / (seconds * (os.cpu_count() or 1))
    return Outcome(None if expired.is_set() else status, seconds, cpu, others, error)


def _kill_group(leader: int) -> None:
    """The session of a program that was started with one of its own."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reap_orphans(strangers: set[int], patience_seconds: float = 20.0) -> None:
    """Wait for descendants whose parent has ended; they count as children of this process then.
    strangers: children that are none of them."""
    until = time.monotonic() + patience_seconds
    while (left := _children() - strangers) and time.monotonic() < until:
        for process in left:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.05)


def _children() -> set[int]:
    """The processes that this one has started or adopted, ended ones included."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def busy_seconds() -> float:
    """Processor time that the machine has not idled since its start, stolen time included."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, stolen = fields[:8]
    ticks = user + nice + system + interrupts + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK")


def description() -> str:
    """The machine and the interpreter, in a line."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}"
