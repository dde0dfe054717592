"""Resolution of a path or a URL to a FileSystem with that root.

/data/trips, data/trips, ~/trips, Path("trips"), file:///data/trips    the local disk
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
from pyhudi.storage.filesystem import FileSystem, is_encodable
from pyhudi.storage.hdfs import HDFS_SCHEMES, HdfsFileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.storage.object_store import OBJECT_STORE_SCHEMES, ObjectStoreFileSystem

_MEMORY: Final = MemoryStore()


def locate(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> FileSystem:
    """The store at `path`; nothing is read.  Raises UserError for a URL with an unsupported scheme,
    for an argument that is neither text nor a path, and for options of a store that takes none."""
    text = path_text(path)
    _check_options(storage_options)
    scheme, _, rest = text.partition(":")
    if storage_options and not takes_options(text):
        raise UserError(
            "this path takes no storage options",
            path=text,
            options=", ".join(storage_options),
            hint="leave storage_options out, or pass a URL such as s3://bucket/table",
        )
    if _is_plain(text):
        return LocalFileSystem(os.path.expanduser(text))
    if scheme == "file":
        return LocalFileSystem(unquote(urlsplit(text).path))
    if scheme == "memory":
        return MemoryFileSystem(_MEMORY, rest.strip("/"))
    if scheme in OBJECT_STORE_SCHEMES:
        if not rest.startswith("//"):
            raise UserError(
                "the URL names no bucket",
                path=text,
                hint=f"write {scheme}://{rest.lstrip('/')}, with two slashes",
            )
        return ObjectStoreFileSystem(text, storage_options)
    if scheme in HDFS_SCHEMES:
        return HdfsFileSystem(text, storage_options)
    known = ("file", "memory", *OBJECT_STORE_SCHEMES, *HDFS_SCHEMES)
    hint = f"supported: {', '.join(known)}"
    if scheme.lower() in known:
        hint = f"write it in small letters: {scheme.lower()}:{rest}"
    elif scheme in ("http", "https"):
        hint = "write s3://bucket/path; the address of a store is endpoint in storage_options"
    raise UserError(f"the URL scheme {scheme}: is not supported", path=text, hint=hint)


def path_text(path: str | os.PathLike[str]) -> str:
    """A path as text.  Raises UserError for anything that is no path of a file or folder."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise UserError(
            "the path of a table must be text or a path object",
            type=type(text).__name__,
            hint="pass a local path or a URL such as s3://bucket/table",
        )
    if not text:
        raise UserError("the path of a table must not be empty")
    if "\0" in text or not is_encodable(text):
        raise UserError("the path of a table has characters that no path has", path=ascii(text))
    return text


def locate_all(
    *paths: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> tuple[FileSystem, ...]:
    """As `locate`, of paths that share options, of which at least one has to take them."""
    shared = any(map(takes_options, paths))
    return tuple(
        locate(p, storage_options=None if shared and not takes_options(p) else storage_options)
        for p in paths
    )


def takes_options(path: str | os.PathLike[str]) -> bool:
    """Whether the store of a path has storage options: the local disk and the memory have none."""
    text = str(path)
    return not _is_plain(text) and text.partition(":")[0] not in ("file", "memory")


def _is_plain(text: str) -> bool:
    """Whether this is a path of the local disk, not a URL; `C:/trips` is one too."""
    scheme, separator, _ = text.partition(":")
    return not separator or len(scheme) == 1 or not scheme.isalnum()


def _check_options(given: Mapping[str, Any] | None) -> None:
    is_mapping = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
    if given is not None and not is_mapping:
        raise UserError(
            "storage_options must map names to values",
            type=type(given).__name__,
            hint='pass a dict, such as {"endpoint": "http://127.0.0.1:9000"}',
        )
