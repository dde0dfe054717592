"""The files behind a frame of `spark.read.parquet`, as files of a pyhudi file system.

Spark reads a store with the configuration of its session, and pyhudi with `storage_options`: the
same URL may name different files.  Files of a store are therefore used only if pyhudi lists them
with the sizes and times that Spark has listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from pyhudi.errors import PyhudiError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.store_failures import plain_scheme
from pyhudi.storage.url_resolver import locate


@dataclass(frozen=True, slots=True)
class FrameFiles:
    """Files of one store.  paths: relative to the root of fs."""

    fs: FileSystem
    paths: tuple[str, ...]


def frame_files(location: Any, store: FileSystem | None) -> FrameFiles | None:
    """The files of a Java `FileIndex`, sorted by URL; None if pyhudi may not have the same files.

    store: the file system of the table; files of its bucket or name node are found with its
    options.
    """
    urls = sorted(map(str, location.inputFiles()))
    paths = tuple(unquote(urlsplit(url).path).lstrip("/") for url in urls)
    places = {_place(url) for url in urls}
    if places <= {("file", "")}:
        return FrameFiles(LocalFileSystem("/"), paths)
    if store is None or places != {_place(store.url)}:
        return None
    root = store.url[: len(store.url) - len(urlsplit(store.url).path)]
    try:
        fs = locate(root, storage_options=getattr(store, "options", None))
        found = _stated(fs, paths)
    except PyhudiError:
        return None  # left to Spark
    return FrameFiles(fs, paths) if found == _listed(location) else None


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return plain_scheme(parts.scheme), parts.netloc


def _stated(fs: FileSystem, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Path to size and time in seconds of the files in the folders of these files that are among
    them.  Cost: one listing per folder."""
    files = set(paths)
    entries = [e for folder in {p.rpartition("/")[0] for p in paths} for e in fs.children(folder)]
    return {e.path: (e.size_bytes, int(e.modified or 0)) for e in entries if e.path in files}


def _listed(location: Any) -> dict[str, tuple[int, int]]:
    """The same as Spark has listed it, without a request."""
    found = {}
    files = location.allFiles()
    for number in range(files.size()):
        status = files.apply(number)
        path = unquote(str(status.getPath().toUri().getRawPath())).lstrip("/")
        found[path] = int(status.getLen()), int(status.getModificationTime()) // 1000
    return found
