"""Manifests of the archived timeline: which files of the history folder are live.

```
history/_version_                       N as decimal text, without a line end
        manifest_N                      {"files": [{"fileName": ..., "fileLen": n}, ...]}, the live
                                        files of version N, indented as by Jackson
        <first>_<last>_<level>.parquet  first, last: instant times of its first and last row;
                                        level: one digit, 0 for the file of one archival run
```

A version is published by creating its manifest and then replacing `_version_`.  A manifest above
N was left by a run that stopped in between: nothing reads it, and the next run replaces it.  If
`_version_` is missing or unreadable, or names a version that no such run leaves (two or more below
the largest), the manifest with the largest number is the current one.
Source: writer_v8_v9 10.1, 10.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import CorruptFileError, FileMissingError, WriteConflictError
from pyhudi.filenames import join
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock

LEVEL_MAX: Final = 9
_VERSION: Final = "_version_"
_MANIFEST = re.compile(r"manifest_(0|[1-9][0-9]{0,9})")
_NUMBER = re.compile(r"[0-9]{1,10}")
_FILE = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A Parquet file with archived instants, in order of file names."""

    name: str
    size_bytes: int

    @property
    def first(self) -> InstantTime:
        return InstantTime(self.name.split("_")[0])

    @property
    def last(self) -> InstantTime:
        return InstantTime(self.name.split("_")[1])

    @property
    def level(self) -> int:
        return int(self.name.split("_")[2].partition(".")[0])

    def may_hold(self, since: InstantTime | None, until: InstantTime | None) -> bool:
        """Whether an instant from `since` to `until`, both inclusive, may be in the file."""
        return (since is None or self.last >= since) and (until is None or self.first <= until)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The live files of one version, as listed; version 0 has none and is not stored."""

    number: int = 0
    files: tuple[HistoryFile, ...] = ()


def history_file_name(first: InstantTime, last: InstantTime, level: int) -> str:
    name = f"{first}_{last}_{level}.parquet"
    assert is_history_file(name), name
    return name


def is_history_file(name: str) -> bool:
    return _FILE.fullmatch(name) is not None


def load_manifest(fs: FileSystem, folder: str) -> Manifest:
    """The current version.  Cost: one listing, two small reads.

    Raises CorruptFileError for a manifest that is missing or invalid, or that names a file
    outside the folder.
    """
    number = 0
    for _ in range(_ATTEMPTS):
        # Listed before `_version_` is read: then versions published since cannot be above it.
        largest = max(manifest_numbers(fs, folder), default=0)
        stated = _stated_version(fs, folder)
        number = largest if stated is None or stated < largest - 1 else stated
        if number == 0:
            return Manifest()
        with suppress(FileMissingError):  # deleted, as newer versions have been published
            return read_manifest(fs, folder, number)
    raise CorruptFileError(
        "the archived timeline names a manifest that is missing",
        path=join(folder, f"manifest_{number}"),
        hint="restore the file from a copy of the table",
    )


def _stated_version(fs: FileSystem, folder: str) -> int | None:
    """N of `_version_`; None if the file is missing or has other content."""
    try:
        text = fs.read(join(folder, _VERSION)).decode("ascii").strip()
    except (FileMissingError, UnicodeDecodeError):
        return None
    return int(text) if _NUMBER.fullmatch(text) else None


def manifest_numbers(fs: FileSystem, folder: str) -> list[int]:
    """Numbers of the manifests in the folder, lowest first.  One listing."""
    found = (_MANIFEST.fullmatch(name) for name in fs.names(folder))
    return sorted(int(match[1]) for match in found if match)


def read_manifest(fs: FileSystem, folder: str, number: int) -> Manifest:
    """Raises FileMissingError, CorruptFileError."""
    path = join(folder, f"manifest_{number}")
    try:
        entries = json.loads(fs.read(path))["files"]
        files = [_file(entry["fileName"], entry["fileLen"], path) for entry in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError("not a manifest of the archived timeline", path=path) from error
    return Manifest(number, tuple({file.name: file for file in files}.values()))


def _file(name: Any, size: Any, path: str) -> HistoryFile:
    valid = isinstance(name, str) and is_history_file(name)
    if not valid or type(size) is not int or size < 0:
        raise CorruptFileError(
            "invalid entry in a manifest of the archived timeline",
            path=path,
            file=str(name)[:100],
            length=str(size)[:20],
        )
    return HistoryFile(name, size)


def publish_manifest(
    fs: FileSystem, folder: str, before: Manifest, files: Iterable[HistoryFile]
) -> Manifest:
    """Make `files` the live files, as the version after `before`.  The caller holds the lock.

    Raises WriteConflictError if another process publishes the same version.
    """
    after = Manifest(before.number + 1, tuple(files))
    path, content = join(folder, f"manifest_{after.number}"), _text(after).encode()
    check_lock(fs)
    if not fs.create(path, content):
        fs.delete([path])  # of a run that stopped before it replaced `_version_`
        if not fs.create(path, content):
            raise WriteConflictError("another process archives instants", path=path)
    fs.replace(join(folder, _VERSION), str(after.number).encode())
    return after


def delete_manifests(fs: FileSystem, folder: str, numbers: Iterable[int]) -> None:
    fs.delete(join(folder, f"manifest_{number}") for number in numbers)


def _text(manifest: Manifest) -> str:
    entries = [
        f'{{\n    "fileName" : "{file.name}",\n    "fileLen" : {file.size_bytes}\n  }}'
        for file in manifest.files
    ]
    return f'{{\n  "files" : [ {", ".join(entries)} ]\n}}'
