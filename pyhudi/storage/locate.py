"""From what users type (a path or a URL) to a FileSystem rooted there.

/data/trips, data/trips, Path("data/trips"), file:///data/trips    the local disk
memory://trips                                                     this process's memory
s3://bucket/trips, gs://bucket/trips, abfs://container@account...  object stores
hdfs://host:port/trips, webhdfs://host:port/trips                  HDFS
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyhudi.errors import UserError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.hdfs import SCHEMES as HDFS_SCHEMES
from pyhudi.storage.hdfs import HdfsFileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.storage.object_store import SCHEMES, ObjectStoreFileSystem

_MEMORY: Final = MemoryStore()


def locate(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> FileSystem:
    """The store at `path`; nothing is read.  Raises UserError for a URL no store serves."""
    text = os.fspath(path)
    if not text:
        raise UserError("a table needs a path")
    scheme, separator, rest = text.partition(":")
    if not separator or len(scheme) == 1 or not scheme.isalnum():
        return LocalFileSystem(text)
    if scheme == "file":
        return LocalFileSystem(unquote(urlsplit(text).path))
    if scheme == "memory":
        return MemoryFileSystem(_MEMORY, rest.strip("/"))
    if scheme in SCHEMES:
        return ObjectStoreFileSystem(text, storage_options)
    if scheme in HDFS_SCHEMES:
        return HdfsFileSystem(text, storage_options)
    raise UserError(
        f"stores of the scheme {scheme}: are not served yet",
        path=text,
        hint=f"these are: file, memory, {', '.join((*SCHEMES, *HDFS_SCHEMES))}",
    )
