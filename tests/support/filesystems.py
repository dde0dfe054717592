"""File systems that watch and that fail: what crash sweeps and golden traces run on.

`TracingFileSystem` records every change in order.  `CrashingFileSystem` dies at one of them: it
raises Crash, and from then on refuses everything, so that no `finally` of a dead process touches
the store.  A step is one change that a real store makes at once: `create`, `replace`, opening,
writing or closing a sink, deleting one file; `delete` of many files and `delete_folder` are many.

    for stop in every_stop(before, lambda fs: upsert(fs, batch)):
        assert rows(stop.fs) in (OLD, NEW), stop

A sweep runs on MemoryFileSystem, where a copy costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from pyhudi.storage.filesystem import (
    Bytes,
    FileInfo,
    FileSystem,
    RandomAccess,
    Sink,
    StoreMutex,
    checked_file,
)
from pyhudi.storage.memory import MemoryFileSystem


class Crash(BaseException):
    """The process died here.  Not an Exception, so that nothing handles it."""


@dataclass
class Steps:
    """The changes made through one file system and its subs; perhaps one at which to die.

    stop: the number of the step (from 0) to die at, None to live.  when: before the step happens,
    or after it did but before its caller heard of it.
    """

    stop: int | None = None
    when: Literal["before", "after"] = "before"
    crashed: bool = False

    def __post_init__(self) -> None:
        self.trace: list[str] = []

    def alive(self) -> None:
        if self.crashed:
            raise Crash("a dead process touched the store")

    def take(self, what: str, act: Callable[[], Any]) -> Any:
        """Do one step, unless it is the one to die at."""
        self.alive()
        # not only at the number: two threads that end a step together pass it
        dies = self.stop is not None and len(self.trace) >= self.stop
        if dies and self.when == "before":
            self.crashed = True
            raise Crash(f"before: {what}")
        result = act()
        self.trace.append(what)
        if dies:
            self.crashed = True
            raise Crash(f"after: {what}")
        return result


class TracingFileSystem:
    """Any FileSystem, with its changes recorded in `trace` as `verb path`."""

    def __init__(self, inner: FileSystem, *, steps: Steps | None = None, prefix: str = "") -> None:
        self.inner = inner
        self.steps = steps or Steps()
        self._prefix = prefix

    @property
    def trace(self) -> list[str]:
        return self.steps.trace

    @property
    def url(self) -> str:
        return self.inner.url

    def sub(self, folder: str) -> TracingFileSystem:
        return TracingFileSystem(
            self.inner.sub(folder), steps=self.steps, prefix=f"{self._prefix}{folder}/"
        )

    def _step(self, verb: str, path: str, act: Callable[[], Any]) -> Any:
        return self.steps.take(f"{verb} {self._prefix}{path}", act)

    def read(self, path: str) -> bytes:
        self.steps.alive()
        return self.inner.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.steps.alive()
        return self.inner.read_range(path, offset, length)

    def open(self, path: str) -> RandomAccess:
        self.steps.alive()
        return self.inner.open(path)

    def arrow_file(self, path: str) -> Any:
        self.steps.alive()
        return self.inner.arrow_file(path)

    def size(self, path: str) -> int:
        self.steps.alive()
        return self.inner.size(path)

    def exists(self, path: str) -> bool:
        self.steps.alive()
        return self.inner.exists(path)

    def children(self, folder: str = "") -> list[FileInfo]:
        self.steps.alive()
        return self.inner.children(folder)

    def names(self, folder: str = "") -> list[str]:
        self.steps.alive()
        return self.inner.names(folder)

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        created: bool = self._step(
            "create", path, lambda: self.inner.create(path, data, durable=durable)
        )
        return created

    def replace(self, path: str, data: Bytes) -> None:
        self._step("replace", path, lambda: self.inner.replace(path, data))

    def open_sink(self, path: str) -> Sink:
        sink = self._step("open", path, lambda: self.inner.open_sink(path))
        return _TracingSink(self, path, sink)

    def open_scratch(self, path: str) -> Sink:
        return self.open_sink(path)

    def sync(self, paths: Iterable[str]) -> None:
        names = list(paths)
        if names:
            shown = f" {self._prefix}".join(names)
            self._step("sync", shown, lambda: self.inner.sync(names))

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._step("delete", path, lambda path=path: self.inner.delete([path]))  # type: ignore[misc]

    def delete_folder(self, folder: str) -> None:
        self.steps.alive()
        checked_file(folder)
        self.delete(sorted(_files_below(self.inner, folder)))
        self._step("delete folder", folder, lambda: self.inner.delete_folder(folder))

    def mutex(self, path: str) -> StoreMutex:
        return self.inner.mutex(path)


class OpenCountingFileSystem(TracingFileSystem):
    """Any FileSystem, with the files that are read in `opened` (once each read) and the folders
    that are listed in `listed`, by their paths from the first root."""

    def __init__(
        self,
        inner: FileSystem,
        *,
        steps: Steps | None = None,
        prefix: str = "",
        seen: tuple[list[str], set[str]] | None = None,
    ) -> None:
        super().__init__(inner, steps=steps, prefix=prefix)
        self.opened, self.listed = seen or ([], set())

    def sub(self, folder: str) -> OpenCountingFileSystem:
        return OpenCountingFileSystem(
            self.inner.sub(folder),
            steps=self.steps,
            prefix=f"{self._prefix}{folder}/",
            seen=(self.opened, self.listed),
        )

    def read(self, path: str) -> bytes:
        self.opened.append(self._prefix + path)
        return super().read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.opened.append(self._prefix + path)
        return super().read_range(path, offset, length)

    def open(self, path: str) -> RandomAccess:
        self.opened.append(self._prefix + path)
        return super().open(path)

    def arrow_file(self, path: str) -> Any:
        self.opened.append(self._prefix + path)
        return super().arrow_file(path)

    def children(self, folder: str = "") -> list[FileInfo]:
        self.listed.add((self._prefix + folder).rstrip("/"))
        return super().children(folder)

    def names(self, folder: str = "") -> list[str]:
        self.listed.add((self._prefix + folder).rstrip("/"))
        return super().names(folder)


class _TracingSink:
    """A Sink whose steps count.  One that the crash caught open is left as the crash left it."""

    def __init__(self, fs: TracingFileSystem, path: str, inner: Sink) -> None:
        self._fs, self._path, self._inner = fs, path, inner
        self._open = True

    @property
    def closed(self) -> bool:
        return not self._open

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        self._fs.steps.alive()

    def write(self, data: Bytes) -> int:
        size: int = self._fs._step("write", self._path, lambda: self._inner.write(data))
        return size

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._fs._step("close", self._path, self._inner.close)

    def abandon(self) -> None:
        if self._open:
            self._open = False
            if not self._fs.steps.crashed:
                self._fs._step("abandon", self._path, self._inner.abandon)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abandon() if kind else self.close()


class CrashingFileSystem(TracingFileSystem):
    """Any FileSystem that dies at step `stop` (from 0), before or after it happens."""

    def __init__(
        self, inner: FileSystem, *, stop: int, when: Literal["before", "after"] = "before"
    ) -> None:
        super().__init__(inner, steps=Steps(stop, when))


@dataclass(frozen=True)
class Stop:
    """What is left of a run that died: `fs` is the bare store, as a new process finds it.

    done: every step that happened.  died_at: what was about to happen (or just had), None for
    the run that came to its end.
    """

    fs: MemoryFileSystem
    done: tuple[str, ...]
    died_at: str | None

    def __str__(self) -> str:
        last = "\n  ".join(self.done[-5:])
        return f"died {self.died_at or 'never'}; the last steps were\n  {last}"


def clone(fs: MemoryFileSystem) -> MemoryFileSystem:
    """An independent copy of the store, with the same root."""
    return MemoryFileSystem(fs.store.copy(), fs.root)


def every_stop(
    before: MemoryFileSystem,
    act: Callable[[FileSystem], object],
    *,
    after: bool = False,
    one_in: int = 1,
    varies: bool = False,
) -> Iterator[Stop]:
    """What `act` leaves behind if it dies before each of its steps, and if it does not die.

    Every run starts from a copy of `before`.  after: also die after each step, before its caller
    hears of it; this differs from dying before the next one only where the caller counts.
    one_in: only so many of the steps are tried.
    `act` must make the same steps each time: give it an engine of one thread and a fixed clock.
    varies: it makes a few steps more or fewer, because file names decide, which are random.  Of
    the last steps, those that a run does not reach are left out.
    """
    dry = clone(before)
    watched = TracingFileSystem(dry)
    act(watched)
    for number in range(0, len(watched.trace), one_in):
        for when in ("before", "after") if after else ("before",):
            disk = clone(before)
            dying = CrashingFileSystem(disk, stop=number, when=when)
            with suppress(Crash):
                act(dying)
            if varies and not dying.steps.crashed and number > 0.95 * len(watched.trace):
                break
            assert dying.steps.crashed, f"step {number} of the dry run did not come again"
            yield Stop(disk, tuple(dying.trace), f"{when} {watched.trace[number]}")
    yield Stop(dry, tuple(watched.trace), None)


def _files_below(fs: FileSystem, folder: str) -> Iterator[str]:
    todo = [folder]
    while todo:
        for info in fs.children(todo.pop()):
            if info.is_folder:
                todo.append(info.path)
            else:
                yield info.path


def tree(fs: FileSystem, folder: str = "") -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    return {path: fs.read(path) for path in sorted(_files_below(fs, folder))}
