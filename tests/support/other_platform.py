"""This machine as another platform, for pyhudi: a plugin of pytest, or `become(name)`.

    python -m pytest -p tests.support.other_platform tests/...     as PYHUDI_TEST_PLATFORM says

windows     no fcntl, no resource, no /proc, no alarms, no positional reads, no O_CLOEXEC; folders
            cannot be opened; a file that is open can be neither replaced, renamed nor removed; a
            rename fails if the name is taken; a sync needs a file that may be written; no links, as
            on exFAT
no-links    Linux with a file system without links whose folders cannot be synced, as some of FUSE

Nothing of pyhudi is replaced, and it must not be imported before.  Third-party libraries have their
own ways for other platforms: they are imported before.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import io
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import filelock
import numpy
import pyarrow.dataset
import pyarrow.parquet

__all__ = ["become", "filelock", "numpy", "pyarrow"]

_SHARING_VIOLATION = 32
_AT_CWD, _NO_REPLACE = -100, 1


def become(name: str) -> None:
    """Take away what the platform lacks, in this process and for good."""
    assert "pyhudi.storage" not in sys.modules
    {"windows": _windows, "no-links": _without_links}[name]()


def _without_links() -> None:
    real_sync = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real_sync(fd)

    _put(os, fsync=fsync, link=_no_link)


def _no_link(source: Any, target: Any, **_: Any) -> None:
    raise OSError(errno.EPERM, "Operation not permitted", target)


def _windows() -> None:
    own = SimpleNamespace(**vars(os))
    _put(tempfile, _os=own)  # it removes files that are open where that can be done
    for module in ("fcntl", "resource"):
        sys.modules[module] = None  # type: ignore[assignment]
    for owner, lacking in (
        (os, ("O_CLOEXEC", "O_DIRECTORY", "pread", "register_at_fork")),
        (signal, ("setitimer", "alarm", "SIGALRM")),
    ):
        for name in lacking:
            delattr(owner, name)
    # Of CPython up to 3.13 the first decides how folders are removed, of newer ones the second.
    _put(shutil, _use_fd_functions=False, _rmtree_impl=vars(shutil)["_rmtree_unsafe"])
    shutil.rmtree.avoids_symlink_attacks = False
    _put(os, link=_no_link)
    _without_proc()
    _with_open_files_fixed()


def _without_proc() -> None:
    real_open, real_readlink = io.open, os.readlink

    def open_file(file: Any, *given: Any, **more: Any) -> Any:
        if str(file).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", file)
        return real_open(file, *given, **more)

    def readlink(path: Any, **given: Any) -> Any:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return real_readlink(path, **given)

    _put(builtins, open=open_file)
    _put(io, open=open_file)
    _put(os, readlink=readlink)


def _with_open_files_fixed() -> None:
    open_descriptor, sync = os.open, os.fsync
    library = ctypes.CDLL(None, use_errno=True)

    def is_open(path: Any) -> bool:
        try:
            target = os.stat(path)
        except OSError:
            return False
        for name in os.listdir("/proc/self/fd"):
            try:
                found = os.fstat(int(name))
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and os.path.samestat(found, target):
                return True
        return False

    def fixed_while_open(act: Callable[..., None]) -> Callable[..., None]:
        def guarded(*paths: Any, **given: Any) -> None:
            for path in paths[:2]:
                # The probe that filelock 4 removes while it has it open is made on POSIX only.
                if is_open(path) and not os.path.basename(path).startswith(".filelock-probe-"):
                    error = PermissionError(errno.EACCES, "in use by another process", path)
                    error.winerror = _SHARING_VIOLATION  # type: ignore[attr-defined]
                    raise error
            act(*paths, **given)

        return guarded

    def rename_to_free_name(old: Any, new: Any) -> None:
        """In one step, as there: a check before it would let two threads pass."""
        names = os.fsencode(old), os.fsencode(new)
        if library.renameat2(_AT_CWD, names[0], _AT_CWD, names[1], _NO_REPLACE):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), new)

    def open_no_folder(path: Any, flags: int, *given: Any, **more: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open_descriptor(path, flags, *given, **more)

    def sync_writable(fd: int) -> None:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        sync(fd)

    unlink = fixed_while_open(os.unlink)
    _put(os, open=open_no_folder, fsync=sync_writable, unlink=unlink, remove=unlink)
    _put(os, rename=fixed_while_open(rename_to_free_name))
    _put(os, replace=fixed_while_open(os.replace))


def _put(owner: ModuleType, **given: Any) -> None:
    vars(owner).update(given)


if "PYHUDI_TEST_PLATFORM" in os.environ:
    become(os.environ["PYHUDI_TEST_PLATFORM"])
