"""The first seam: bytes on a store, seen from one root folder.

A FileSystem is rooted: every path is relative to its root, uses `/`, and can never leave it, so
no mistake above this floor deletes or writes outside the table.  `fs.sub("a/b")` is the same
store rooted deeper.  Implementations pickle (Spark tasks carry them) and hold no open file.

Durability: when `create`, `replace` or a closed `Sink` returns, the bytes and the name survive a
power loss.  Visibility: a file of these three appears whole or not at all.
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

    tag: other for other content, where the store tells one.  modified: when the content was put
    there, in seconds since 1970 by the store's clock; None where it does not tell.
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
        """Exactly `length` bytes.  Raises CorruptFileError if the file ends before."""
        ...

    def close(self) -> None: ...


class Sink(Protocol):
    """A file being written.  Leaving it by an exception (or `abandon`) leaves no file."""

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
    """A lock that ends with its holder's process.  Not re-entrant; see `lock.py`."""

    @property
    def key(self) -> str:
        """Equal for two mutexes of this process that exclude each other."""
        ...

    def acquire(self, wait_seconds: float) -> bool:
        """Whether it was got within the wait."""
        ...

    def confirm(self) -> bool:
        """Whether it is held still, asked of whoever gives it; a lease is renewed by this."""
        ...

    def seconds_left(self) -> float:
        """For how long from now no other process can hold it, without asking the store; 0 where
        it may be lost already, infinity where only the end of this process frees it."""
        ...

    def release(self) -> None:
        """Free it, if it is held still.  Raises StorageError where nobody knows whether it is."""
        ...

    def sign(self, text: str) -> None:
        """Leave a text for those who wait; no promise that it is kept."""
        ...

    def signature(self) -> str:
        """The text signed last, or an empty one."""
        ...


class FileSystem(Protocol):
    """What the table layer needs of a store."""

    @property
    def url(self) -> str:
        """The root as users and commit files name it: an absolute path, or a URL."""
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
        """A pyarrow NativeFile for random access.  Not a memory map: one of a file that is
        truncated in place ends the process, where a read is an error."""
        ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def children(self, folder: str = "") -> list[FileInfo]:
        """Direct children in name order; empty if the folder does not exist."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """Names of the files right in a folder, in order.  Cheaper than `children` where the
        store is asked for each file's size."""
        ...

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        """Put a whole file if the name is free; False (and nothing changed) if it is taken.

        durable: False for a file that a power loss may take, until a durable one has followed it
        in its folder; a store that has no use for this passes over it.
        """
        ...

    def replace(self, path: str, data: Bytes) -> None:
        """Put a whole file in place of whatever has the name, atomically."""
        ...

    def open_sink(self, path: str) -> Sink:
        """A new file to be written in pieces.  Raises StorageError if the name is taken."""
        ...

    def open_scratch(self, path: str) -> Sink:
        """`open_sink` for a file that need not survive a power loss."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those already gone are no error."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and all below it; one already gone is no error."""
        ...

    def mutex(self, path: str) -> Mutex:
        """The lock named `path`.  What it keeps there is no file of the table."""
        ...


def checked_file(path: str) -> str:
    """`path` if it names something below the root, not the root itself.  Raises UserError."""
    if not path:
        raise UserError("a path inside the table must not be empty")
    return checked(path)


def checked(path: str) -> str:
    """`path` if it stays below the root (empty: the root).  Raises UserError if it could not."""
    if path.startswith("/") or "\\" in path or "\0" in path:
        raise UserError("a path inside the table must be relative", path=path)
    parts = path.split("/")
    if ".." in parts or "." in parts:
        raise UserError("a path inside the table may not step out of it", path=path)
    if path and "" in parts:
        raise UserError("a path inside the table may not have an empty part", path=path)
    return path
