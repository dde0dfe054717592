"""The processes that run statements: a bounded number, each ended when it exceeds a limit.

A query or write that reaches its time, is cancelled or is not read by its client loses its
process, so no function of DuckDB, constant or not, and no client can keep one.  The next one gets
a new process.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final

from pyhudi.api.table import Table
from pyhudi.errors import OptionError, PyhudiError, SchemaError, UserError
from pyhudi.server.queries import BATCH_BYTES, ROW_BYTES_MAX, Limits, Queries, QueryLimits
from pyhudi.server.query_process import COUNT, END, ERROR, FRAME, LENGTH, ROWS, SCHEMA, WRITE
from pyhudi.server.writes import WriteLimits, Writes

_WATCH_SECONDS: Final = 0.1
_UNREAD_SECONDS: Final = 2.0
_FRAME_BYTES_MAX: Final = 2 * (ROW_BYTES_MAX + BATCH_BYTES)
_ENVIRONMENT: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve memory, which counts as allocated
    "MALLOC_ARENA_MAX": "2",
    "PYTHONUNBUFFERED": "1",
}

Parts = tuple[bytes, bytes]
"""The metadata and the body of a message of an Arrow stream."""


def _never() -> bool:
    return False


def _nothing() -> None:
    return


def _lower(tables: Mapping[str, Table]) -> dict[str, Table]:
    return {name.lower(): table for name, table in tables.items()}


class EndedError(UserError):
    """A process was ended, or ended itself, before it had answered."""


class _Pool:
    """Runs statements in processes.  Safe for threads.

    setup: what the processes read first.  places: the number of processes.  Raises UserError for
    limits that the query engine refuses, and for tables with functions that cannot be sent to a
    process.
    """

    def __init__(self, limits: Limits, places: int, setup: tuple[Any, ...]) -> None:
        self.limits = limits
        self._free = threading.BoundedSemaphore(places)
        self._guard = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._closed = False
        try:
            self._setup = pickle.dumps(setup)
        except (pickle.PicklingError, AttributeError, TypeError) as local:
            raise UserError(
                "a table cannot be sent to the processes that run queries",
                reason=str(local),
                hint="define its functions in a module",
            ) from local
        self._idle.append(_Process(self._setup))

    def close(self) -> None:
        """End all processes."""
        with self._guard:
            self._closed = True
            ended = [*self._idle, *self._busy]
            self._idle.clear()
        for process in ended:
            process.kill()

    def parameter_count(self, text: str) -> int:
        """The number of parameters of a statement.  Raises UserError for one that is not allowed,
        and at the limits."""
        (frame,) = self._frames(COUNT, text, None)
        return int(frame[1])

    def _frames(
        self,
        kind: str,
        text: str,
        parameters: bytes | None,
        is_cancelled: Callable[[], bool] = _never,
        on_unread: Callable[[], None] = _nothing,
        metadata: Mapping[str, str] | None = None,
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """The frames of an answer, without its end.  Frees the process when closed, or earlier."""
        with _Run(self, is_cancelled, on_unread) as run:
            run.process.request(kind, text, parameters, metadata or {})
            while True:
                frame = run.process.frame()
                if frame is None:
                    raise run.reason()
                if frame[0] == ERROR:
                    run.is_whole = True
                    raise _error(frame[1])
                if frame[0] == END:
                    run.is_whole = True
                    return
                yield frame

    def take(self) -> _Process:
        """A process that runs nothing.  Raises UserError if none is free in time."""
        if not self._free.acquire(timeout=self.limits.seconds):
            raise UserError("the server runs too many queries", hint="try again later")
        try:
            with self._guard:
                process = self._idle.pop() if self._idle else None
            if process is None:
                process = _Process(self._setup)
            with self._guard:
                self._busy.add(process)
                if self._closed:
                    process.kill()
            return process
        except BaseException:
            self._free.release()
            raise

    def give_back(self, process: _Process, *, reusable: bool) -> None:
        """Free the place of a process, and end it unless it can run another query."""
        with self._guard:
            if process not in self._busy:
                return
            self._busy.discard(process)
            if reusable and not self._closed:
                self._idle.append(process)
            else:
                process.kill()
        self._free.release()


class QueryPool(_Pool):
    """Runs queries."""

    limits: QueryLimits

    def __init__(self, tables: Mapping[str, Table], limits: QueryLimits) -> None:
        super().__init__(limits, limits.queries, (Queries, _lower(tables), limits))

    def schema(self, query: str, parameters: bytes | None = None) -> bytes:
        """The metadata of a message with the columns of a query's result.

        parameters: an Arrow stream of one row.  Raises UserError for a query that is not allowed
        or fails, and at the limits.
        """
        ((metadata, _),) = self._messages(SCHEMA, query, parameters)
        return metadata

    def rows(
        self,
        query: str,
        parameters: bytes | None = None,
        *,
        is_cancelled: Callable[[], bool],
        on_unread: Callable[[], None],
    ) -> Generator[Parts, None, None]:
        """The messages of a query's result: its columns, then rows.

        is_cancelled: ends the query when it returns True; called until the iterator is closed.
        on_unread: called if the iterator was not used for a while after the query's time ended.
        Raises as `schema` does.
        """
        return self._messages(ROWS, query, parameters, is_cancelled, on_unread)

    def _messages(self, *request: Any) -> Generator[Parts, None, None]:
        with closing(self._frames(*request)) as frames:
            for _, content in frames:
                (length,) = LENGTH.unpack_from(content)
                start = LENGTH.size
                yield content[start : start + length], content[start + length :]


class WritePool(_Pool):
    """Runs writes.  writable: the tables that they may write to."""

    limits: WriteLimits

    def __init__(
        self, tables: Mapping[str, Table], limits: WriteLimits, writable: frozenset[str]
    ) -> None:
        super().__init__(limits, limits.writes, (Writes, _lower(tables), limits, writable))

    def run(
        self,
        text: str,
        parameters: bytes | None,
        metadata: Mapping[str, str],
        *,
        is_cancelled: Callable[[], bool],
    ) -> Iterator[dict[str, Any]]:
        """Run a statement; facts about it, as `Writes.run` gives them.

        is_cancelled: ends the write when it returns True.  Raises as `Writes.run` does, and
        EndedError for a write that was ended: a commit that it had made stands.
        """
        request = (WRITE, text, parameters, is_cancelled, _nothing, metadata)
        with closing(self._frames(*request)) as frames:
            for _, content in frames:
                yield json.loads(content)


class _Run:
    """One statement in one process, watched by a thread."""

    def __init__(
        self, pool: _Pool, is_cancelled: Callable[[], bool], on_unread: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._is_cancelled = is_cancelled
        self._on_unread = on_unread
        self._ended = threading.Event()
        self._stopped: str | None = None
        self.is_whole = False

    def __enter__(self) -> _Run:
        self.process = self._pool.take()
        self._deadline = time.monotonic() + self._pool.limits.seconds
        self._watcher = threading.Thread(target=self._watch, name="pyhudi-query-watch", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *failed: object) -> None:
        self._ended.set()
        self._watcher.join()
        self._pool.give_back(self.process, reusable=self.is_whole and self._stopped is None)

    def reason(self) -> EndedError:
        """Why the process ended."""
        self._ended.set()
        self._watcher.join()  # it states the reason before it kills the process
        if self._stopped is not None:
            return EndedError(self._stopped)
        return EndedError(
            "the statement ended its process", hint="it needs more memory than the server allows"
        )

    def _watch(self) -> None:
        while not self._ended.wait(_WATCH_SECONDS):
            late = time.monotonic() > self._deadline
            if late or self._is_cancelled():
                self._stopped = (
                    "the statement took longer than the server allows"
                    if late
                    else "the client cancelled the statement"
                )
                self._pool.give_back(self.process, reusable=False)
                if not self._ended.wait(_UNREAD_SECONDS):
                    self._on_unread()
                return


class _Process:
    """A process that runs queries.  setup: what it reads first.  Raises UserError if it refuses."""

    def __init__(self, setup: bytes) -> None:
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "pyhudi.server.query_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # an interrupt at the terminal is for the server
        )
        self._send(setup)
        started = self.frame()
        if started is None or started[0] == ERROR:
            self.kill()
            reason = None if started is None else json.loads(started[1])["text"]
            raise UserError("the process of the query engine cannot start", reason=reason)

    def request(self, *request: Any) -> None:
        """Send a request; `frame` returns the answer."""
        self._send(pickle.dumps(request))

    def frame(self) -> tuple[bytes, bytes] | None:
        """The next frame of the answer; None if the process has ended."""
        pipe = self._child.stdout
        assert pipe is not None
        try:
            head = pipe.read(FRAME.size)
            if len(head) < FRAME.size:
                return None
            kind, length = FRAME.unpack(head)
            if length > _FRAME_BYTES_MAX:
                return None
            content = pipe.read(length)
        except ValueError:  # closed by kill
            return None
        return (kind, content) if len(content) == length else None

    def kill(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()

    def _send(self, content: bytes) -> None:
        pipe = self._child.stdin
        assert pipe is not None
        with suppress(BrokenPipeError, ValueError):  # `frame` finds the end
            pipe.write(LENGTH.pack(len(content)) + content)
            pipe.flush()


def _error(content: bytes) -> PyhudiError:
    found = json.loads(content)
    is_ours = found["code"] in (UserError.code, OptionError.code, SchemaError.code)
    return UserError(found["text"]) if is_ours else PyhudiError(found["text"])
