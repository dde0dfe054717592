"""What the package asks of the operating system, with what stands in for it where that lacks it.

    POSIX                           Windows, or a file system that lacks it
    open without inheritance        descriptors of Windows are not inherited; bytes, not text
    positional reads                a seek and a read under one lock
    sync of a folder                Windows and NTFS keep names by their journal: nothing
    link to a free name             a rename that fails if the name is taken
    replace, remove an open file    tried again until the file is closed, OPEN_FILE_SECONDS at most
    advisory locks to look at       the lock is taken and released
    start times of processes        unknown: heartbeats are judged by their age
    limits of memory, alarms        no limit of memory; a thread that ends the process

A file survives a power loss once its bytes, its folder and, for a new folder, all folders above it
are synced.  The journal of a file system commits concurrent requests together, so many files are
synced by several threads: 900 files take as long as about 30 one after the other.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from pyhudi.errors import StorageError

_THREADS: Final = 8
_PER_THREAD: Final = 2
OPEN_FILE_SECONDS: Final = 10.0
"""How long a file that another process has open is waited for, where that hinders."""

_OPENS_FOLDERS: Final = hasattr(os, "O_DIRECTORY")
_ALWAYS: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SYNCED: Final = os.O_RDONLY if _OPENS_FOLDERS else os.O_RDWR  # Windows syncs what it may write
_IN_USE: Final = (5, 32, 33, 1224)  # Windows: access denied, a sharing or lock violation, mapped
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_FOLDER_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_AT_CWD: Final = -100  # of Linux
_NO_REPLACE: Final = 1  # of Linux
_EXCLUSIVE: Final = 4  # of macOS


# --- files ------------------------------------------------------------------------------------


def open_descriptor(place: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """A descriptor of the file's bytes that processes started later do not get.  Raises OSError."""
    return os.open(place, flags | _ALWAYS, mode)


if hasattr(os, "pread"):
    read_at: Callable[[int, int, int], bytes] = os.pread
else:
    _READING: Final = threading.Lock()

    def read_at(descriptor: int, length: int, offset: int, /) -> bytes:
        """At most `length` bytes from `offset`."""
        with _READING:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)


def publish(staged: str, place: str) -> None:
    """Give a complete, closed file its name, in one step and only if the name is free.

    `staged`, in the same folder, may remain.  Raises FileExistsError, other OSError, and
    StorageError where the file system has neither links nor such renames.
    """
    try:
        os.link(staged, place)
    except OSError as error:
        if error.errno not in _NO_LINKS and (_OPENS_FOLDERS or isinstance(error, FileExistsError)):
            raise
        _rename_to_free_name(staged, place)


def _rename_to_free_name(staged: str, place: str) -> None:
    if not _OPENS_FOLDERS:
        os.rename(staged, place)  # which fails on Windows if the name is taken
        return
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(staged), os.fsencode(place)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(old, new, _EXCLUSIVE)
        else:
            failed = library.renameat2(_AT_CWD, old, _AT_CWD, new, _NO_REPLACE)
        code = ctypes.get_errno() if failed else 0
    except AttributeError:
        code = errno.ENOSYS
    if code in (errno.EINVAL, errno.ENOSYS):
        raise StorageError(
            "the file system has no links and no exclusive renames, by which a commit is published",
            path=place,
            hint="use a folder on another file system, such as ext4, XFS, APFS or NTFS",
        )
    if code:
        raise OSError(code, os.strerror(code), place)


def link_or_copy(source: Path, target: Path) -> None:
    """Let `target` have the content of `source`, which nobody changes; a copy where links fail.

    Raises FileExistsError, FileNotFoundError and as `publish`.
    """
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS and (
            _OPENS_FOLDERS or isinstance(error, FileExistsError | FileNotFoundError)
        ):
            raise
        staged = target.with_name(f".{secrets.token_hex(8)}")
        try:
            shutil.copyfile(source, staged)
            _rename_to_free_name(str(staged), str(target))
        finally:
            staged.unlink(missing_ok=True)


def replace(staged: str, place: str) -> None:
    """Rename a closed file over another one.  Raises OSError with EBUSY if that one stays open."""
    _once_closed(lambda: os.replace(staged, place))


def remove(place: str) -> None:
    """Remove a file if it is there.  Raises OSError with EBUSY if it stays open."""
    with contextlib.suppress(FileNotFoundError):
        _once_closed(lambda: os.unlink(place))


def _once_closed(act: Callable[[], None]) -> None:
    end = 0.0
    while True:
        try:
            return act()
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _IN_USE:
                raise
            end = end or time.monotonic() + OPEN_FILE_SECONDS
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), error.filename) from error
        time.sleep(0.01)


def is_locked(place: str) -> bool:
    """Whether some process, or this one by another lock, holds the FileLock of `place`."""
    try:
        import fcntl
    except ImportError:
        lock = FileLock(place, thread_local=False)
        try:
            if os.path.exists(place):
                lock.acquire(timeout=0)
        except Timeout:
            return True
        finally:
            lock.release()
        return False
    try:
        with open(place, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until the file is closed
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


# --- durability -------------------------------------------------------------------------------


def sync_files(places: Sequence[str], root: str) -> None:
    """Make files below `root` durable, with their names and the folders between.  Raises OSError.

    places, root: absolute paths.  Bytes are synced before names.
    """
    _sync_all(_sync_file, places)
    folders: set[str] = set()
    for place in places:
        folder = os.path.dirname(place)
        while folder not in folders and len(folder) >= len(root):
            folders.add(folder)
            folder = os.path.dirname(folder)
    _sync_all(sync_folder, sorted(folders))


def _sync_all(sync: Callable[[str], None], places: Sequence[str]) -> None:
    threads = min(_THREADS, len(places) // _PER_THREAD)
    if threads <= 1:
        _sync_some(sync, places)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="pyhudi-sync") as pool:
        for _ in pool.map(lambda n: _sync_some(sync, places[n::threads]), range(threads)):
            continue


def _sync_some(sync: Callable[[str], None], places: Iterable[str]) -> None:
    for place in places:
        sync(place)


def _sync_file(place: str) -> None:
    fd = open_descriptor(place, _SYNCED)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """Sync the names in a folder, as far as its file system can.  Raises OSError."""
    if not _OPENS_FOLDERS:
        return
    try:
        _sync_file(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folders(folder: str, *, durable: bool = True) -> None:
    """Create a folder and its parents, each with a durable name unless `sync_files` follows."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
        if missing[-1] == folder:  # a drive that is not there
            break
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
        if durable:
            sync_folder(os.path.dirname(place))


# --- processes --------------------------------------------------------------------------------


@cache
def machine_id() -> str:
    """Id of this boot and of the process id namespace; "" if unknown."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return ""


def process_started(pid: int) -> str:
    """Start time of a process in ticks since boot; "" if unknown, not there or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def limit_memory(size: int) -> None:
    """Let this process allocate that many more bytes, where the system is Linux; else nothing."""
    try:
        import resource

        status = Path("/proc/self/status").read_text("ascii")
    except (ImportError, OSError):
        return
    used = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData"))
    most = (used << 10) + size
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


@contextlib.contextmanager
def ends_after(seconds: float) -> Iterator[None]:
    """End this process, whatever it does, if the block takes longer.  For the main thread."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        return
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()
