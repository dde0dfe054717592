"""HDFS (`hdfs://`, `webhdfs://`) through WebHDFS, with fsspec's connection and authentication.

A new file is written under a hidden name next to its target and renamed, which the name node
does atomically and rejects if the name is taken.  If the answer to a rename was lost, the hidden
file shows the outcome: it is gone only if the rename succeeded.  HDFS has no locks and no
conditional overwrite: the writer lock is a lease made of numbered files, see `numbered_lease.py`.
HDFS keeps the bytes of a closed file on its data nodes; `dfs.datanode.synconclose` sets whether
they sync their disks.  A name must not contain a colon.
Needs `pip install "pyhudi[hdfs]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError, UserError
from pyhudi.filenames import BaseFileName, parse_data_file
from pyhudi.storage.filesystem import Bytes, FileInfo, checked, checked_file
from pyhudi.storage.local import is_staged, staged_name
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.numbered_lease import NumberedLease
from pyhudi.storage.locks.table_lock import check_fence
from pyhudi.storage.range_reader import (
    AHEAD_BYTES,
    RangedFile,
    UploadedSink,
    arrow_file,
    name_taken,
)
from pyhudi.storage.webhdfs import NameNode

HDFS_SCHEMES: Final = ("hdfs", "webhdfs")
_HTTP_PORT: Final = 9870
_SIZES_MAX: Final = 10_000


class HdfsFileSystem:
    """FileSystem over one folder of HDFS.

    url: `hdfs://host:port/folder`, where the port is the name node's and is not used, or
    `webhdfs://host:port/folder` with the port of WebHDFS.  options: `port` (of WebHDFS, 9870),
    `host`, `user`, `kerberos`, `token`, `use_https`, `data_proxy`, other options of fsspec's
    `webhdfs`, and `timeout` in seconds for each request.  Pickles as url and options.
    """

    def __init__(
        self, url: str, options: Mapping[str, Any] | None = None, *, node: NameNode | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self.options = dict(options or {})
        parts = urlsplit(self._url)
        self._root = parts.path
        self._sizes: dict[str, int] = {}
        self._parent: HdfsFileSystem | None = None
        self._node = node or _name_node(parts.scheme, parts.hostname, parts.port, self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        return HdfsFileSystem, (self._url, self.options)

    def __repr__(self) -> str:
        return f"HdfsFileSystem({self._url!r})"

    @property
    def url(self) -> str:
        return self._url

    def sub(self, folder: str) -> HdfsFileSystem:
        url = f"{self._url}/{quoted}" if (quoted := checked(folder)) else self._url
        deeper = HdfsFileSystem(url, self.options, node=self._node)
        deeper._root = self._at(folder)
        deeper._sizes = self._sizes
        deeper._parent = self._parent or self
        return deeper

    def _at(self, path: str) -> str:
        return f"{self._root}/{checked(path)}" if path else self._root

    def _fence(self, path: str) -> None:
        check_fence(self._parent or self, path)

    def _file(self, path: str) -> str:
        return self._at(checked_file(path))

    def read(self, path: str) -> bytes:
        return self._node.read(self._file(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if offset < 0 or length <= 0:
            return self.open(path).read_at(offset, length)
        found = self._node.read(self._file(path), offset=offset, length=length)
        if len(found) < length:
            raise CorruptFileError(
                "read past the end of the file",
                path=f"{self._url}/{path}",
                offset=offset,
                length=length,
            )
        return found

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_range(path, offset, length)

    def open(self, path: str) -> RangedFile:
        first = self._node.read(self._file(path), offset=0, length=AHEAD_BYTES)
        size = len(first) if len(first) < AHEAD_BYTES else self.size(path)
        return RangedFile(self, path, size, 0, first)

    def arrow_file(self, path: str) -> Any:
        size = self._size_to_read(path)
        start = max(size - AHEAD_BYTES, 0)
        last = self.read_range(path, start, size - start) if size else b""
        return arrow_file(RangedFile(self, path, size, start, last))

    def _size_to_read(self, path: str) -> int:
        """The size of a file; that of a base file, which never changes, is requested once."""
        place = self._file(path)
        known = self._sizes.get(place)
        if known is None:
            known = self.size(path)
            if isinstance(parse_data_file(place.rpartition("/")[2]), BaseFileName):
                if len(self._sizes) >= _SIZES_MAX:
                    self._sizes.clear()
                self._sizes[place] = known
        return known

    def size(self, path: str) -> int:
        return int(self._node.status(self._file(path))["length"])

    def exists(self, path: str) -> bool:
        try:
            self._node.status(self._at(path))
        except FileMissingError:
            return False
        return True

    def children(self, folder: str = "") -> list[FileInfo]:
        prefix = f"{folder}/" if folder else ""
        try:
            entries = self._node.listed(self._at(folder))
        except FileMissingError:
            return []
        found = (
            FileInfo(
                prefix + one["pathSuffix"],
                int(one["length"]),
                one["type"] == "DIRECTORY",
                modified=one["modificationTime"] / 1000,
            )
            for one in entries
            if one["pathSuffix"]
        )
        shown = (info for info in found if info.is_folder or not is_staged(info.name))
        return sorted(shown, key=lambda info: info.path)

    def names(self, folder: str = "") -> list[str]:
        return [info.name for info in self.children(folder) if not info.is_folder]

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        return self._put(path, bytes(data), over=False)

    def replace(self, path: str, data: Bytes) -> None:
        self._put(path, bytes(data), over=True)

    def _put(self, path: str, content: Any, *, over: bool) -> bool:
        """Write a whole file; whether the name was free or its file was replaced."""
        place = self._file(path)
        self._fence(path)
        folder = place.rpartition("/")[0]
        staged = f"{folder}/{staged_name()}"
        try:
            self._node.write(staged, content)
            done = self._node.rename(staged, place, over=over)
        except BaseException:
            with suppress(StorageError):
                self._node.delete(staged)
            raise
        if not done:
            self._node.delete(staged)
        return done

    def open_sink(self, path: str) -> UploadedSink:
        self._file(path)
        if self.exists(path):
            raise name_taken(f"{self._url}/{path}")
        return self.open_scratch(path)

    def open_scratch(self, path: str) -> UploadedSink:
        self._file(path)
        return UploadedSink(f"{self._url}/{path}", partial(self._upload, path))

    def sync(self, paths: Iterable[str]) -> None:
        """Every file is durable when it is published."""

    def _upload(self, path: str, content: Any, _: int) -> bool:
        return self._put(path, content, over=False)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._fence(path)
            self._node.delete(self._file(path))

    def delete_folder(self, folder: str) -> None:
        place = self._at(checked_file(folder))
        self._fence(folder)
        with suppress(FileMissingError):
            if self._node.status(place)["type"] != "DIRECTORY":
                raise StorageError("not a folder", path=f"{self._url}/{folder}")
            self._node.delete(place, recursive=True)

    def mutex(self, path: str) -> LeaseMutex:
        self._file(path)
        return LeaseMutex(NumberedLease(self, path), f"{self._url}/{path}")


def _name_node(
    scheme: str, host: str | None, port: int | None, options: Mapping[str, Any]
) -> NameNode:
    given = {str(key).lower(): value for key, value in options.items()}
    host = given.pop("host", None) or host
    if not host:
        raise UserError(
            "HDFS requires the host of its name node",
            hint="hdfs://host:port/path, or host in storage_options",
        )
    http_port = given.pop("port", None) or (port if scheme == "webhdfs" else None) or _HTTP_PORT
    return NameNode(str(host), int(http_port), given)
