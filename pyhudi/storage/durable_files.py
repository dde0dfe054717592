"""Durability of files on the local disk: their bytes, their names and their folders.

A file survives a power loss once its bytes, its folder and, for a new folder, all folders above it
are synced.  The journal of a file system commits concurrent requests together, so many files are
synced by several threads: 900 files take as long as about 30 one after the other.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_THREADS: Final = 8
_PER_THREAD: Final = 2


def sync_files(places: Sequence[str], root: str) -> None:
    """Make files below `root` durable, with their names and the folders between.  Raises OSError.

    places, root: absolute paths.  Bytes are synced before names.
    """
    _sync_all(places)
    folders: set[str] = set()
    for place in places:
        folder = os.path.dirname(place)
        while folder not in folders and len(folder) >= len(root):
            folders.add(folder)
            folder = os.path.dirname(folder)
    _sync_all(sorted(folders))


def _sync_all(places: Sequence[str]) -> None:
    threads = min(_THREADS, len(places) // _PER_THREAD)
    if threads <= 1:
        for place in places:
            sync(place)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="pyhudi-sync") as pool:
        for _ in pool.map(_sync_some, (places[n::threads] for n in range(threads))):
            continue


def _sync_some(places: Iterable[str]) -> None:
    for place in places:
        sync(place)


def sync(place: str) -> None:
    """Sync the bytes of a file, or the names in a folder."""
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(folder: str, *, durable: bool = True) -> None:
    """Create a folder and its parents, each with a durable name unless `sync_files` follows."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
        if durable:
            sync(os.path.dirname(place))
