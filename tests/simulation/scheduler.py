"""A deterministic scheduler of threads, with a virtual clock.

Threads hold a baton: one runs, all others wait.  It changes hands only in `pause` and `wait`, which
calls of the store, locks, reads of the clock and sleeps lead to; one random generator decides who
is next.  Time passes only by `pause`: when nobody can run, the clock moves on to whoever wakes
first.

A process is one or more threads (a writer with the renewal of its lease, say).  It can be frozen,
which stops all of them, and killed: then each of its calls raises Killed, so that unwinding has
no effect on the store.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import math
import os
import random
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Any, Final
from unittest.mock import patch

START: Final = 1_750_000_000.0
_TURNS_MAX: Final = 400_000
_REAL_THREAD: Final = threading.Thread
_REAL: Final = {
    name: getattr(time, name) for name in ("time", "time_ns", "monotonic", "sleep", "clock_gettime")
}


class Killed(BaseException):
    """The process of this thread has ended: nothing it does from here on has an effect."""


class BrokenError(AssertionError):
    """A promise of the library does not hold."""


class StuckError(AssertionError):
    """No thread can run any more, or they run for ever."""


@dataclass(eq=False)
class Process:
    """skew: its wall clock minus the true time, in seconds.  frozen_until: it stands still.

    pid: that of an earlier process of its machine may be used again.  started: unique.
    """

    name: str
    machine: str
    pid: int
    started: str
    skew: float = 0.0
    frozen_until: float = 0.0
    has_ended: bool = False


@dataclass(eq=False)
class Task:
    """A thread.  wake: when it runs at the latest; ready: what makes it run earlier."""

    name: str
    process: Process
    act: Callable[[], object]
    is_background: bool = False
    wake: float = 0.0
    ready: Callable[[], bool] | None = None
    is_done: bool = False
    ident: int = 0
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None

    def can_run(self, now: float) -> bool:
        if self.process.has_ended:
            return True
        if self.process.frozen_until > now:
            return False
        return self.wake <= now or (self.ready is not None and self.ready())

    def next_at(self) -> float:
        return max(self.wake, self.process.frozen_until)


class Scheduler:
    """stay: the probability that a thread goes on where another one could run."""

    def __init__(self, dice: random.Random, *, stay: float) -> None:
        self.now = START
        self.turns = 0
        self.failures: list[BaseException] = []
        self._dice, self._stay = dice, stay
        self._tasks: list[Task] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers, self._idents = itertools.count(), itertools.count(1)
        self._by_ident: dict[int, Task] = {}
        self._main = threading.Semaphore(0)
        self._stuck: StuckError | None = None
        self.is_quiet = False  # an observer looks: no thread changes meanwhile

    # ---- threads ---------------------------------------------------------------------------

    @property
    def current(self) -> Task | None:
        """The running task; None in a thread that the scheduler does not know."""
        return self._by_ident.get(threading.get_ident())

    def spawn(
        self, process: Process, name: str, act: Callable[[], object], *, after: float = 0.0,
        background: bool = False,
    ) -> Task:  # fmt: skip
        task = Task(name, process, act, background, wake=self.now + after, ident=next(self._idents))
        task.thread = _REAL_THREAD(target=self._run, args=(task,), name=name, daemon=True)
        self._tasks.append(task)
        task.thread.start()
        return task

    def _run(self, task: Task) -> None:
        self._by_ident[threading.get_ident()] = task
        task.turn.acquire()
        try:
            if not task.process.has_ended:
                task.act()
        except Killed:
            pass
        except BaseException as error:
            self.failures.append(error)
        task.is_done = True
        self._tasks.remove(task)
        self._by_ident.pop(threading.get_ident(), None)
        self._pass_on()

    def run(self) -> None:
        """Until every task ended that is not in the background; raises StuckError."""
        self._pass_on()
        self._main.acquire()
        if self._stuck is not None:
            raise self._stuck

    def at(self, moment: float, event: Callable[[], None]) -> None:
        """Something outside of all processes, such as the arrival of a late request."""
        heapq.heappush(self._due, (moment, next(self._numbers), event))

    def kill(self, process: Process) -> None:
        process.has_ended = True

    # ---- turns -----------------------------------------------------------------------------

    def pause(self, seconds: float = 0.0) -> None:
        """Let time pass, and others run."""
        self.wait(None, seconds)

    def wait(self, ready: Callable[[], bool] | None, seconds: float) -> bool:
        """Until `ready`, for some seconds at most; whether it is."""
        task = self.current
        if task is None or self.is_quiet:
            return ready is None or ready()
        if task.process.has_ended:
            raise Killed
        task.wake, task.ready = self.now + max(seconds, 0.0), ready
        chosen = self._choose(task)
        if chosen is not task:
            self._hand_to(chosen)
            task.turn.acquire()
        if task.process.has_ended:
            raise Killed
        task.ready = None
        return ready is None or ready()

    def _pass_on(self) -> None:
        self._hand_to(self._choose(None))

    def _hand_to(self, task: Task | None) -> None:
        (self._main if task is None else task.turn).release()

    def _choose(self, last: Task | None) -> Task | None:
        """Who runs next; None if only the background is left, or nobody ever can."""
        self.turns += 1
        while True:
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            if self.turns > _TURNS_MAX:
                return self._give_up(f"{_TURNS_MAX} turns and no end")
            if all(task.is_background for task in self._tasks):
                return None
            able = [task for task in self._tasks if task.can_run(self.now)]
            if able:
                if last in able and self._dice.random() < self._stay:
                    return last
                return self._dice.choice(able)
            then = min(task.next_at() for task in self._tasks)
            if self._due:
                then = min(then, self._due[0][0])
            if math.isinf(then):
                return self._give_up("all threads wait for each other")
            self.now = max(then, self.now)

    def _give_up(self, why: str) -> None:
        names = ", ".join(task.name for task in self._tasks)
        self._stuck = StuckError(f"{why}: {names}")


# ---- what replaces time, threads and chance ---------------------------------------------------


class Simulated:
    """Modules as the library sees them inside a simulation; real in threads it does not know."""

    def __init__(self, scheduler: Scheduler, dice: random.Random) -> None:
        self.scheduler, self.dice = scheduler, dice

    def time(self) -> float:
        task = self.scheduler.current
        return _REAL["time"]() if task is None else self.scheduler.now + task.process.skew

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def monotonic(self) -> float:
        return _REAL["monotonic"]() if self.scheduler.current is None else self.scheduler.now

    def clock_gettime(self, clock: int) -> float:
        if self.scheduler.current is None:
            return float(_REAL["clock_gettime"](clock))
        self.scheduler.pause()
        return self.scheduler.now

    def sleep(self, seconds: float) -> None:
        if self.scheduler.current is None:
            return _REAL["sleep"](seconds)
        return self.scheduler.pause(seconds)

    def get_ident(self) -> int:
        """Unique: the system may give the number of a thread that has ended to another one."""
        task = self.scheduler.current
        return threading.get_ident() if task is None else task.ident

    def getpid(self) -> int:
        task = self.scheduler.current
        return _REAL_PID() if task is None else task.process.pid

    def token_hex(self, size: int = 32) -> str:
        return f"{self.dice.getrandbits(8 * size):0{2 * size}x}"

    def randbelow(self, bound: int) -> int:
        return self.dice.randrange(bound)

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self.dice.getrandbits(128), version=4)

    def machine(self) -> str:
        task = self.scheduler.current
        return "" if task is None else task.process.machine

    def started(self, pid: int) -> str:
        """The start time of the living process with this pid on this machine, or nothing."""
        found = (t.process for t in self.scheduler._tasks if not t.process.has_ended)
        here = self.machine()
        return next((p.started for p in found if (p.machine, p.pid) == (here, pid)), "")


_REAL_PID: Final = os.getpid


def _datetime_of(world: Simulated) -> type[datetime]:
    class VirtualDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            world.scheduler.pause()
            return datetime.fromtimestamp(world.time(), tz)

    return VirtualDatetime


class _Threading:
    """The module `threading` with threads and locks of the scheduler."""

    def __init__(self, scheduler: Scheduler, get_ident: Callable[[], int]) -> None:
        names = itertools.count()

        class Thread:
            def __init__(
                self, *, target: Callable[..., object], args: tuple[Any, ...] = (),
                name: str = "renewal", daemon: bool = False,
            ) -> None:  # fmt: skip
                self._act, self._name = (lambda: target(*args)), name
                self._task: Task | None = None
                self.ident: int | None = None

            def start(self) -> None:
                mine = scheduler.current
                assert mine is not None
                self.ident = next(names)
                name = f"{mine.process.name}.{self._name}"
                self._task = scheduler.spawn(mine.process, name, self._act, background=True)

            def is_alive(self) -> bool:
                return self._task is not None and not self._task.is_done

            def join(self, timeout: float | None = None) -> None:
                scheduler.wait(
                    lambda: not self.is_alive(), math.inf if timeout is None else timeout
                )

        class Event:
            def __init__(self) -> None:
                self._is_set = False

            def set(self) -> None:
                self._is_set = True

            def clear(self) -> None:
                self._is_set = False

            def is_set(self) -> bool:
                return self._is_set

            def wait(self, timeout: float | None = None) -> bool:
                return scheduler.wait(self.is_set, math.inf if timeout is None else timeout)

        class Lock:
            depth_max = 1

            def __init__(self) -> None:
                self._owner: int | None = None
                self._depth = 0

            def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
                me = get_ident()
                if scheduler.is_quiet:
                    return True

                def free() -> bool:
                    return self._depth == 0 or (self._owner == me and self._depth < self.depth_max)

                if not free():
                    longest = (math.inf if timeout < 0 else timeout) if blocking else 0.0
                    if not scheduler.wait(free, longest):
                        return False
                self._owner, self._depth = me, self._depth + 1
                return True

            def release(self) -> None:
                if not scheduler.is_quiet:
                    self._depth -= 1

            def locked(self) -> bool:
                return self._depth > 0

            def __enter__(self) -> bool:
                return self.acquire()

            def __exit__(self, *_: object) -> None:
                self.release()

        class RLock(Lock):
            depth_max = sys.maxsize

        self.Thread, self.Event, self.Lock, self.RLock = Thread, Event, Lock, RLock
        self.get_ident = get_ident

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class _Inline:
    """A pool of threads that runs what it is given at once."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, act: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(act(*args))
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def virtual_world(scheduler: Scheduler, dice: random.Random) -> Iterator[None]:
    """Inside, the library's clocks, sleeps, threads, process ids and random numbers are virtual."""
    world = Simulated(scheduler, dice)
    stand_ins: dict[str, Any] = {
        "datetime": _datetime_of(world), "threading": _Threading(scheduler, world.get_ident),
        "ThreadPoolExecutor": _Inline, "sleep": world.sleep,
    }  # fmt: skip
    originals = {"datetime": datetime, "threading": threading, "sleep": _REAL["sleep"]}
    patches = [patch.object(time, name, getattr(world, name)) for name in _REAL]
    patches += [patch.object(secrets, name, getattr(world, name)) for name in
                ("token_hex", "randbelow")]  # fmt: skip
    patches += [
        patch.object(secrets, "randbits", dice.getrandbits),
        patch.object(uuid, "uuid4", world.uuid4),
        patch.object(random, "uniform", dice.uniform),
        patch.object(os, "getpid", world.getpid),
        patch("pyhudi.transaction.heartbeat.machine_id", world.machine),
        patch("pyhudi.transaction.heartbeat.process_started", world.started),
    ]
    for name, module in list(sys.modules.items()):
        if not name.startswith("pyhudi"):
            continue
        for attribute, stand_in in stand_ins.items():
            held = getattr(module, attribute, None)
            if held is not None and held is originals.get(attribute, held):
                patches.append(patch.object(module, attribute, stand_in))
    for each in gc.get_objects():  # Python 3.11 computes these under a lock that all tables share
        if type(each) is cached_property and hasattr(each, "lock"):
            patches.append(patch.object(each, "lock", nullcontext()))
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
