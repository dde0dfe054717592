"""The local disk as a file system.

A new file is written under a hidden name next to its target, synced, and linked to its name,
which fails if the name is taken: one atomic create-if-absent.  The folder is synced
afterwards, so the name survives a power loss too.  `operating_system` has what systems without
links or syncs of folders do instead.  Replacing a file removes the checksum
sidecar (`.name.crc`) of Hadoop's local file system, or Java would reject the new bytes.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from filelock import FileLock, Timeout

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError
from pyhudi.storage.filesystem import Bytes, FileInfo, checked, checked_file
from pyhudi.storage.operating_system import (
    is_locked,
    make_folders,
    open_descriptor,
    publish,
    read_at,
    remove,
    replace,
    sync_files,
    sync_folder,
)
from pyhudi.storage.sink import PublishedOnClose

_STAGED: Final = re.compile(r"\.pyhudi-[0-9a-f]{16}")

_RETRYABLE: Final = {errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT}


def staged_name() -> str:
    """A name for a file that is not published yet; listings skip it."""
    return f".pyhudi-{secrets.token_hex(8)}"


def is_staged(name: str) -> bool:
    """Whether a file (not a folder, which may be a partition) is unpublished."""
    return _STAGED.fullmatch(name) is not None


@contextmanager
def scratch_disk() -> Iterator[LocalFileSystem]:
    """A folder on this machine's disk, deleted at the end."""
    with TemporaryDirectory(prefix="pyhudi-") as folder:
        yield LocalFileSystem(folder)


class LocalFileSystem:
    """FileSystem over a folder of the local disk."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute().as_posix()

    @property
    def url(self) -> str:
        return self.root

    def __repr__(self) -> str:
        return f"LocalFileSystem({self.root!r})"

    def sub(self, folder: str) -> LocalFileSystem:
        return LocalFileSystem(self._at(folder))

    def _at(self, path: str) -> str:
        return f"{self.root}/{checked(path)}" if path else self.root

    def local_path(self, path: str) -> str:
        """The path of the file for the operating system."""
        return self._file(path)

    def _file(self, path: str) -> str:
        return self._unlinked(self._at(checked_file(path)))

    def _unlinked(self, place: str) -> str:
        """`place`, unless it or a link on its path leads out of the root, or it is neither a file
        nor a folder: to open a named pipe would wait for a writer."""
        if self._has_link(place):
            found = os.path.realpath(place)
            root = os.path.realpath(self.root)
            if found != root and not found.startswith(root.rstrip(os.sep) + os.sep):
                raise StorageError(
                    "a symbolic link leads out of the table",
                    path=place,
                    hint="replace the link by the files",
                )
            with contextlib.suppress(OSError):
                _check_mode(os.stat(found).st_mode, place)
        return place

    def _has_link(self, place: str) -> bool:
        """Whether something between the root and `place`, included, is a symbolic link.

        Raises StorageError for what is neither a link, a file nor a folder.
        """
        below = self.root
        for part in filter(None, place[len(self.root) :].split("/")):
            below = f"{below}/{part}"
            try:
                mode = os.lstat(below).st_mode
            except OSError:  # nothing is there, or nothing that can be followed
                return False
            if stat.S_ISLNK(mode):
                return True
            _check_mode(mode, below)
        return False

    def read(self, path: str) -> bytes:
        with local_errors(self._file(path)) as place, open(place, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read()
            if len(data) < size:  # a read ends early if the disk or a file server loses bytes
                raise OSError(errno.EIO, f"{len(data)} of {size} bytes were read")
            return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with contextlib.closing(self.open(path)) as file:
            return file.read_at(offset, length)

    def open(self, path: str) -> LocalFile:
        with local_errors(self._file(path)) as place:
            return LocalFile(place)

    def arrow_file(self, path: str) -> Any:
        with local_errors(self._file(path)) as place:
            if os.path.getsize(place) == 0:
                return pa.BufferReader(b"")
            return pa.OSFile(place)

    def size(self, path: str) -> int:
        with local_errors(self._file(path)) as place:
            return os.stat(place).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def children(self, folder: str = "") -> list[FileInfo]:
        return sorted(self.entries(folder), key=lambda info: info.path)

    def entries(self, folder: str = "") -> Iterator[FileInfo]:
        """`children` one by one, in no order."""
        prefix = f"{folder}/" if folder else ""
        with local_errors(self._at(folder)) as place:
            try:
                with os.scandir(place) as entries:
                    for entry in entries:
                        with contextlib.suppress(FileNotFoundError):
                            if entry.is_symlink():
                                self._unlinked(entry.path)
                            is_folder = entry.is_dir()
                            if not is_folder and is_staged(entry.name):
                                continue
                            found_stat = None if is_folder else entry.stat()
                            if found_stat is not None:
                                _check_mode(found_stat.st_mode, entry.path)
                            yield FileInfo(
                                prefix + entry.name,
                                found_stat.st_size if found_stat else 0,
                                is_folder,
                                modified=found_stat.st_mtime if found_stat else None,
                            )
            except (FileNotFoundError, NotADirectoryError):
                return

    def names(self, folder: str = "") -> list[str]:
        with local_errors(self._at(folder)) as place:
            try:
                with os.scandir(place) as entries:
                    found = [entry.name for entry in entries if not entry.is_dir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted([name for name in found if not is_staged(name)])

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        try:
            with self._new_sink(path, durable=durable) as sink:
                sink.write(data)
        except _NameTakenError:
            return False
        return True

    def replace(self, path: str, data: Bytes) -> None:
        with local_errors(self._file(path)) as place:
            staged = _staged(place)
            try:
                with open(staged, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                replace(staged, place)
            except BaseException:
                remove(staged)
                raise
            remove(_sidecar(place))
            sync_folder(os.path.dirname(place))

    def set_modified(self, path: str, seconds: float) -> None:
        """Set a file's modification time, in seconds since 1970."""
        with local_errors(self._file(path)) as place:
            os.utime(place, (seconds, seconds))

    def open_sink(self, path: str) -> LocalSink:
        return self._new_sink(path, durable=True)

    def _new_sink(self, path: str, *, durable: bool) -> LocalSink:
        place = self._file(path)
        if os.path.lexists(place):
            raise _NameTakenError("the file already exists", path=place)
        with local_errors(place):
            return LocalSink(place, durable=durable)

    def open_scratch(self, path: str) -> LocalSink:
        with local_errors(self._file(path)) as place:
            return LocalSink(place, durable=False)

    def sync(self, paths: Iterable[str]) -> None:
        with local_errors(self.root):
            sync_files([self._file(path) for path in paths], self.root)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with local_errors(self._file(path)) as place:
                remove(place)
                remove(_sidecar(place))

    def delete_folder(self, folder: str) -> None:
        with local_errors(self._file(folder)) as place, contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)

    def mutex(self, path: str) -> LocalMutex:
        return LocalMutex(self._file(path))


@contextlib.contextmanager
def local_errors(place: str) -> Iterator[str]:
    """Convert errors of the operating system to those of this package; yields `place`."""
    try:
        yield place
    except StorageError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise FileMissingError("no such file", path=place) from None
    except OSError as error:
        raise StorageError(
            _reason(error),
            path=place,
            retryable=error.errno in _RETRYABLE,
        ) from error


def _reason(error: OSError) -> str:
    """In one line, also for errors of pyarrow, whose text has the path."""
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


def _check_mode(mode: int, place: str) -> None:
    """Raise StorageError for named pipes, sockets and devices."""
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise StorageError(
            "neither a file nor a folder",
            path=place,
            hint="remove the named pipe, socket or device",
        )


class _NameTakenError(StorageError):
    """The name of a new file is taken."""

    code = "NAME_TAKEN"


class LocalMutex:
    """Mutex by an advisory lock of the operating system on a permanent file.

    Waiting processes pass a turnstile one at a time, so a holder that acquires the lock again
    immediately does not overtake them.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self.key = "local:" + os.path.realpath(place)
        self._lock: FileLock | None = None
        self._inode = -1

    def acquire(self, wait_seconds: float) -> bool:
        with local_errors(self._place):
            make_folders(os.path.dirname(self._place))
            end = time.monotonic() + wait_seconds
            turn = FileLock(self._place + ".turn", thread_local=False)
            self._lock = FileLock(self._place, thread_local=False)
            try:
                with turn.acquire(timeout=wait_seconds, poll_interval=0.01):
                    left = max(end - time.monotonic(), 0)
                    self._lock.acquire(timeout=left, poll_interval=0.002)
            except Timeout:
                return False
            self._inode = os.stat(self._place).st_ino
        return True

    def confirm(self) -> bool:
        """False if the file was removed by hand: another process may lock a new one."""
        try:
            return os.stat(self._place).st_ino == self._inode
        except FileNotFoundError:
            return False

    def seconds_left(self) -> float:
        return math.inf

    def release(self) -> None:
        with contextlib.suppress(OSError):  # for information only
            remove(self._signature)
        if self._lock is not None:
            self._lock.release()

    def is_held(self) -> bool:
        return is_locked(self._place)

    @property
    def _signature(self) -> str:
        return self._place + ".holder"

    def sign(self, text: str) -> None:
        with contextlib.suppress(OSError), open(self._signature, "w", encoding="utf-8") as file:
            file.write(text)

    def signature(self) -> str:
        with contextlib.suppress(OSError), open(self._signature, encoding="utf-8") as file:
            return file.read(4096)
        return ""


class LocalFile:
    """RandomAccess by positional reads."""

    _fd = -1

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = open_descriptor(path)
        self._size = os.fstat(self._fd).st_size

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise CorruptFileError(
                "read past the end of the file", path=self.path, offset=offset, length=length
            )
        with local_errors(self.path):
            data = read_at(self._fd, length, offset)
            while len(data) < length:  # one call returns at most 2 GiB, or less on a signal
                more = read_at(self._fd, length - len(data), offset + len(data))
                if not more:
                    raise CorruptFileError(
                        "the file shrank while read", path=self.path, offset=offset
                    )
                data += more
        return data

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


class LocalSink(PublishedOnClose):
    """A file that gets its name when it is closed, if the name is free."""

    def __init__(self, place: str, *, durable: bool = True) -> None:
        super().__init__()
        self._place = place
        self._durable = durable
        self._written = 0
        self._staged = _staged(place, durable=durable)
        self._file = open(self._staged, "xb", buffering=1 << 20)  # noqa: SIM115

    def write(self, data: Any) -> int:
        with local_errors(self._place):
            count = self._file.write(data)
        self._written += count
        return count

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            with local_errors(self._place):
                if not self.abandoned:
                    self._publish()
        finally:  # the rest of the temporary file is hidden, and no reason to fail
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(OSError):
                remove(self._staged)

    def _publish(self) -> None:
        self._file.flush()
        if os.fstat(self._file.fileno()).st_size != self._written:
            raise OSError(errno.EIO, "the file does not have the size that was written")
        if self._durable:
            os.fsync(self._file.fileno())
        self._file.close()
        try:
            publish(self._staged, self._place)
        except FileExistsError:
            raise _NameTakenError("the file already exists", path=self._place) from None
        remove(_sidecar(self._place))
        if self._durable:
            sync_folder(os.path.dirname(self._place))

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # otherwise there is nothing to publish
            super().__del__()


def _staged(place: str, *, durable: bool = True) -> str:
    """The hidden name of a new file, in its folder, which is created."""
    folder, _ = os.path.split(place)
    make_folders(folder, durable=durable)
    return f"{folder}/{staged_name()}"


def _sidecar(place: str) -> str:
    folder, name = os.path.split(place)
    return f"{folder}/.{name}.crc"
