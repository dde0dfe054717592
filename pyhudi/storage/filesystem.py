"""Interfaces of file systems: bytes in a store, below one root folder.

A FileSystem is rooted: every path is relative to its root, uses `/`, and never leaves it, so
a caller's mistake cannot delete or write outside the table.  `fs.sub("a/b")` is the same
store with a deeper root.  Implementations pickle (Spark tasks carry them) and hold no open file.

Durability: when `create`, `replace` or a closed `Sink` returns, the bytes and the name survive a
power loss; files that are not durable yet do so once `sync` returns.  Visibility: a file written
by these three appears completely or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from pyhudi.errors import UserError

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a listing: its path relative to the file system's root.

    tag: changes with the content, if the store has tags.  modified: when the content was written,
    in seconds since 1970 by the store's clock; None if the store does not report it.
    """

    path: str
    size_bytes: int
    is_folder: bool = False
    tag: str | None = field(default=None, compare=False)
    modified: float | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class RandomAccess(Protocol):
    """An open file: positional reads only, safe to use from several threads."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes.  Raises CorruptFileError if the file ends earlier."""
        ...

    def close(self) -> None: ...


class Sink(Protocol):
    """A file being written.  Leaving it with an exception (or `abandon`) leaves no file."""

    def write(self, data: Bytes) -> int: ...

    def tell(self) -> int: ...

    def close(self) -> None:
        """Make the bytes durable and the name visible."""
        ...

    def abandon(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Mutex(Protocol):
    """A lock, released when its holder's process ends.  Not re-entrant; see `table_lock.py`."""

    @property
    def key(self) -> str:
        """Equal for two mutexes of this process that exclude each other."""
        ...

    def acquire(self, wait_seconds: float) -> bool:
        """Whether the lock was acquired within the wait."""
        ...

    def confirm(self) -> bool:
        """Whether the lock is still held, according to its provider; renews a lease."""
        ...

    def seconds_left(self) -> float:
        """How long from now no other process can hold it, without a request to the store; 0 if it
        may be lost already, infinity if only the end of this process releases it."""
        ...

    def release(self) -> None:
        """Release it, if it is still held.  Raises StorageError if its state is unknown."""
        ...

    def sign(self, text: str) -> None:
        """Store a text for waiting processes; best effort."""
        ...

    def signature(self) -> str:
        """The text signed last, or an empty text."""
        ...


class StoreMutex(Mutex, Protocol):
    """A lock of a store, which can also be observed."""

    def is_held(self) -> bool:
        """Whether a process holds it, without taking it.  A lease of a holder that has been silent
        for long is not held; neither is a lock whose file cannot be read."""
        ...


class FileSystem(Protocol):
    """What the table layer needs from a store."""

    @property
    def url(self) -> str:
        """The root as in user input and commit files: an absolute path, or a URL."""
        ...

    def sub(self, folder: str) -> FileSystem: ...

    def read(self, path: str) -> bytes:
        """The whole file.  Raises FileMissingError."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes: ...

    def open(self, path: str) -> RandomAccess:
        """Raises FileMissingError."""
        ...

    def arrow_file(self, path: str) -> Any:
        """A pyarrow NativeFile for random access.  Not a memory map: truncating a mapped file
        in place would end the process, where a read raises an error."""
        ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def children(self, folder: str = "") -> list[FileInfo]:
        """Direct children in name order; empty if the folder does not exist."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """Sorted names of the files directly in a folder.  Cheaper than `children` if the
        store needs a request for the size of each file."""
        ...

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        """Create a whole file if the name is free; False (and nothing changed) if it is taken.

        durable: False for a file that a power loss may remove until a durable file follows it
        in its folder; stores without this distinction ignore it.
        """
        ...

    def replace(self, path: str, data: Bytes) -> None:
        """Write a whole file under a name, replacing any existing one atomically."""
        ...

    def open_sink(self, path: str) -> Sink:
        """A new file, written in parts.  Raises StorageError if the name is taken."""
        ...

    def open_scratch(self, path: str) -> Sink:
        """`open_sink` for a file that need not survive a power loss, or not until `sync`."""
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make files of `open_scratch` and of `create` with durable=False survive a power loss,
        with their names and folders.  Many files together cost little more than one.  Raises
        StorageError; then none of them may be relied on."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; missing files are not an error."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and everything below it; a missing folder is not an error."""
        ...

    def mutex(self, path: str) -> StoreMutex:
        """The lock named `path`.  What it stores there is not a file of the table."""
        ...


def is_encodable(text: str) -> bool:
    """Whether UTF-8 has the text: it has no lone surrogates, which Arrow and paths lack."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_file(path: str) -> str:
    """`path` if it names something below the root, not the root itself.  Raises UserError."""
    if not path:
        raise UserError("a path inside the table must not be empty")
    return checked(path)


def checked(path: str) -> str:
    """`path` if it stays below the root (empty: the root).  Raises UserError otherwise."""
    if path.startswith("/"):
        raise UserError("a path inside the table must be relative", path=path)
    if "\\" in path or "\0" in path:
        raise UserError(
            "a path must not contain a backslash or a NUL character",
            path=path,
            hint="rename the file or the value",
        )
    parts = path.split("/")
    if ".." in parts or "." in parts:
        raise UserError("a path inside the table must not leave it", path=path)
    if path and "" in parts:
        raise UserError("a path inside the table must not have an empty part", path=path)
    return path
