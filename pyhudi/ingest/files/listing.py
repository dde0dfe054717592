"""Listing of the files below a folder, one page or folder at a time.

Memory: one entry of the caller for each file that it selects; the walk itself holds one page of an
object store, or nothing on the local disk.
Source: DFSPathSelector and DatePartitionPathSelector of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final, NamedTuple, Protocol, runtime_checkable

from pyhudi.errors import OptionError, StorageError, UserError
from pyhudi.storage.filesystem import FileInfo, FileSystem

IGNORED_PREFIXES: Final = (".", "_")
IGNORED_SUFFIXES: Final = (".tmp", ".part", ".inprogress", "._COPYING_")


class ListedFile(NamedTuple):
    """A file of a listing.  millis: its modification time, milliseconds since 1970."""

    path: str
    millis: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DateFolders:
    """Folders that are named by a date, of which only recent ones are listed.

    format: of the date, as for `strptime`; a prefix such as `day=` is allowed.  depth: the number
    of folders above the dates.  lookback_days: how many days before today (UTC) are listed.
    Folders whose names are no dates are listed always.
    """

    format: str = "%Y-%m-%d"
    depth: int = 0
    lookback_days: int = 2
    today: date | None = None

    def __post_init__(self) -> None:
        if self.depth < 0 or self.lookback_days < 0:
            raise OptionError(
                "the depth and the days of date folders must not be negative",
                depth=self.depth,
                lookback_days=self.lookback_days,
            )

    def skips(self, folder: str) -> bool:
        """Whether a folder is older than the days to be listed."""
        if folder.count("/") != self.depth:
            return False
        name = folder.rpartition("/")[2].rpartition("=")[2]
        try:
            day = datetime.strptime(name, self.format).date()
        except ValueError:
            return False
        return day < (self.today or datetime.now(UTC).date()) - timedelta(self.lookback_days)


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Which files below a folder belong to a source.

    pattern: a glob of names, or of paths if it has a `/`, where `*` also matches `/`.
    """

    pattern: str = "*"
    recursive: bool = True
    ignored_prefixes: tuple[str, ...] = IGNORED_PREFIXES
    ignored_suffixes: tuple[str, ...] = IGNORED_SUFFIXES
    dates: DateFolders | None = field(default=None)

    def has_name(self, name: str) -> bool:
        return not name.startswith(self.ignored_prefixes)

    def has_path(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        matched = fnmatchcase(path if "/" in self.pattern else name, self.pattern)
        return matched and not name.endswith(self.ignored_suffixes)

    def allows_folder(self, folder: str) -> bool:
        return self.recursive and not (self.dates is not None and self.dates.skips(folder))


@runtime_checkable
class _Paged(Protocol):
    """An object store, which lists a thousand objects below a folder in one request."""

    def pages(self, folder: str = "") -> Iterator[list[FileInfo]]: ...


@runtime_checkable
class _Streamed(Protocol):
    """A store that lists a folder entry by entry."""

    def entries(self, folder: str = "") -> Iterator[FileInfo]: ...


def found_files(fs: FileSystem, selection: FileSelection) -> Iterator[ListedFile]:
    """The files of a source, in no order.  Raises UserError if the folder does not exist, where the
    store has folders, and StorageError where it does not report modification times."""
    infos = _infos(fs, selection)
    first = next(infos, None)
    if first is None:
        _check_folder(fs)
        return
    for info in chain((first,), infos):
        if selection.has_path(info.path):
            yield ListedFile(info.path, _millis(info, fs), info.size_bytes)


def _check_folder(fs: FileSystem) -> None:
    if not isinstance(fs, _Paged) and not fs.exists(""):
        raise UserError(
            "the folder of the source does not exist",
            folder=fs.url,
            hint="create it, mount its disk, or correct its name",
        )


def _infos(fs: FileSystem, selection: FileSelection) -> Iterator[FileInfo]:
    if isinstance(fs, _Paged) and selection.dates is None and selection.recursive:
        for page in fs.pages():
            for info in page:
                if all(map(selection.has_name, info.path.split("/"))):
                    yield info
        return
    folders = [""]
    while folders:
        for info in _entries(fs, folders.pop()):
            if not selection.has_name(info.name):
                continue
            if not info.is_folder:
                yield info
            elif selection.allows_folder(info.path):
                folders.append(info.path)


def _entries(fs: FileSystem, folder: str) -> Iterable[FileInfo]:
    return fs.entries(folder) if isinstance(fs, _Streamed) else fs.children(folder)


def _millis(info: FileInfo, fs: FileSystem) -> int:
    if info.modified is None:
        raise StorageError(
            "the store does not report modification times", url=fs.url, path=info.path
        )
    return int(info.modified * 1000)
