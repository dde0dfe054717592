"""The order in which files are read, and its checkpoints.

order        checkpoint                         new files
time         1700000000000                      modified after this millisecond
time, late   1700000000000;1699990000000;a,b    modified after the time less the window and after
                                                the second time, without those of the list
name         name:2026/11/23/trips-7.parquet    whose path follows this one

The first is the text of Apache Hudi's file sources; it has no equivalent of the others.  The list
contains a digest of the path and the time of each file of the window that has been read.
Source: DFSPathSelector of Apache Hudi.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyhudi.errors import UserError
from pyhudi.ingest.files.listing import ListedFile

_NAME: Final = "name:"


class FilePosition(Protocol):
    """A checkpoint, compared with the files of a listing."""

    def new_files(self, listed: Iterable[ListedFile], latest: int) -> Iterator[ListedFile]:
        """Files after the checkpoint that were modified up to `latest`, in no order."""
        ...

    def unit(self, file: ListedFile) -> tuple[int, str]:
        """Files are read in this order; those with equal units are in the same batch."""
        ...

    def checkpoint(self, chosen: Sequence[ListedFile]) -> str:
        """The position after these files, the first in order of `new_files`."""
        ...


def file_position(checkpoint: str | None, order: str, late_seconds: float) -> FilePosition:
    """order: `time` or `name`.  Raises UserError for a checkpoint of another source or order."""
    try:
        if order == "name":
            return _NamePosition(_after_name(checkpoint))
        if late_seconds > 0:
            return _late_position(checkpoint, int(late_seconds * 1000))
        return _TimePosition(_times(checkpoint)[0])
    except ValueError:
        raise UserError(
            "the table's checkpoint is not one of a file source",
            checkpoint=checkpoint,
            order=order,
            hint="the newest commit was written from another source or order of files",
        ) from None


def _after_name(checkpoint: str | None) -> str:
    if checkpoint is None:
        return ""
    if not checkpoint.startswith(_NAME):
        raise ValueError(checkpoint)
    return checkpoint.removeprefix(_NAME)


def _times(checkpoint: str | None) -> tuple[int, int, frozenset[str]]:
    """The newest time, the time up to which everything has been read, and digests after it."""
    if checkpoint is None:
        return -1, -1, frozenset()
    newest, *window = checkpoint.split(";")
    if not window:
        return int(newest), int(newest), frozenset()
    floor, digests = window
    return int(newest), int(floor), frozenset(filter(None, digests.split(",")))


@dataclass(frozen=True, slots=True)
class _TimePosition:
    after: int

    def new_files(self, listed: Iterable[ListedFile], latest: int) -> Iterator[ListedFile]:
        return (file for file in listed if self.after < file.millis <= latest)

    def unit(self, file: ListedFile) -> tuple[int, str]:
        return file.millis, ""

    def checkpoint(self, chosen: Sequence[ListedFile]) -> str:
        return str(chosen[-1].millis)


@dataclass(frozen=True, slots=True)
class _LatePosition:
    """newest: the latest time that was read.  floor: everything up to it has been read.  seen:
    digests of the files after `newest` less `window` that were read; present: those of them that
    the listing has."""

    newest: int
    floor: int
    window: int
    seen: frozenset[str]
    present: dict[str, int] = field(default_factory=dict)

    def new_files(self, listed: Iterable[ListedFile], latest: int) -> Iterator[ListedFile]:
        oldest = max(self.floor, self.newest - self.window)
        for file in listed:
            if not oldest < file.millis <= latest:
                continue
            digest = _digest(file)
            if digest in self.seen:
                self.present[digest] = file.millis
            else:
                yield file

    def unit(self, file: ListedFile) -> tuple[int, str]:
        return file.millis, ""

    def checkpoint(self, chosen: Sequence[ListedFile]) -> str:
        newest = max(self.newest, chosen[-1].millis)
        known = self.present | {_digest(file): file.millis for file in chosen}
        digests = sorted(name for name, at in known.items() if at > newest - self.window)
        floor = max(self.floor, newest - self.window)
        return f"{newest};{floor};{','.join(digests)}"


def _late_position(checkpoint: str | None, window: int) -> _LatePosition:
    newest, floor, seen = _times(checkpoint)
    return _LatePosition(newest, floor, window, seen)


def _digest(file: ListedFile) -> str:
    found = hashlib.blake2b(f"{file.millis}/{file.path}".encode(), digest_size=12).digest()
    return base64.urlsafe_b64encode(found).decode()


@dataclass(frozen=True, slots=True)
class _NamePosition:
    after: str

    def new_files(self, listed: Iterable[ListedFile], latest: int) -> Iterator[ListedFile]:
        """A file that is too young also holds back those after it, which the checkpoint would
        otherwise pass over."""
        files = [file for file in listed if file.path > self.after]
        young = min((file.path for file in files if file.millis > latest), default=None)
        return (file for file in files if young is None or file.path < young)

    def unit(self, file: ListedFile) -> tuple[int, str]:
        return 0, file.path

    def checkpoint(self, chosen: Sequence[ListedFile]) -> str:
        return _NAME + chosen[-1].path
