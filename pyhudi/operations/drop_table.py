"""Deletion of a table, from the lock to the report.

```
data files, partition metafiles -> .hoodie without properties and lock -> hoodie.properties
```

The properties are deleted last: a drop that was interrupted is finished by another one.  The file
of the table's lock remains, as other processes may wait for it.  Files that are not of the table,
and folders with a table of their own, are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pyhudi.filenames import (
    HOODIE,
    PARTITION_METAFILE,
    PROPERTIES,
    PROPERTIES_BACKUP,
    PROPERTIES_COPY,
    parse_data_file,
)
from pyhudi.options import Options
from pyhudi.reports import Report
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.locks.table_lock import LOCK
from pyhudi.storage.path_remap import files_below
from pyhudi.table.properties import load_config
from pyhudi.transaction.begin import table_lock
from pyhudi.transaction.heartbeat import check_no_writer

_LAST: Final = (PROPERTIES_BACKUP, PROPERTIES_COPY, PROPERTIES)
_EXAMPLES: Final = 20


@dataclass(frozen=True, slots=True)
class DropReport(Report):
    """files, bytes: of the table, with those of `.hoodie`.  other_files: number of files below the
    table's path that are not of the table; examples: some of them."""

    name: str
    files: int
    bytes: int
    other_files: int = 0
    examples: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass
class _Contents:
    """Files below the path of a table: its own, with sizes, and others."""

    own: dict[str, int] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)  # that have only files of the table


def drop_table(fs: FileSystem, options: Options, *, dry_run: bool = False) -> DropReport:
    """Delete the table at the root of `fs`.

    dry_run: report only.  Raises TableNotFoundError, LockError, and WriteConflictError while a
    writer works on the table; then nothing is deleted.
    """
    name = load_config(fs).name
    if dry_run:
        return _report(name, _contents(fs), dry_run=True)
    with table_lock(fs, options.write, "drop table"):
        name = load_config(fs).name
        check_no_writer(fs, options.write.concurrency.heartbeats, "drop")
        found = _contents(fs)
        for folder in found.folders:
            fs.delete_folder(folder)
        fs.delete(path for path in found.own if not path.startswith(f"{HOODIE}/"))
        _delete_hoodie(fs)
    return _report(name, found)


def _delete_hoodie(fs: FileSystem) -> None:
    """Delete `.hoodie` except the lock, the properties last."""
    for entry in fs.children(HOODIE):
        if entry.is_folder:
            fs.delete_folder(entry.path)
        elif entry.path not in _LAST and not entry.path.startswith(LOCK):
            fs.delete([entry.path])
    for path in _LAST:
        fs.delete([path])


def _contents(fs: FileSystem) -> _Contents:
    found = _Contents()
    for entry in fs.children(""):
        if entry.path == HOODIE:
            found.own |= {
                f.path: f.size_bytes for f in files_below(fs, HOODIE) if not f.path.startswith(LOCK)
            }
        elif entry.is_folder:
            _add_folder(fs, entry.path, found)
        else:
            _add_file(entry, found)
    return found


def _add_folder(fs: FileSystem, folder: str, found: _Contents) -> bool:
    """Add the contents of a folder; whether they are all of the table."""
    entries = fs.children(folder)
    if any(entry.name == HOODIE for entry in entries):  # another table
        found.others.append(folder)
        return False
    before = len(found.folders)
    is_own = bool(entries)
    for entry in entries:
        is_entry_own = (
            _add_folder(fs, entry.path, found) if entry.is_folder else _add_file(entry, found)
        )
        is_own = is_entry_own and is_own
    if is_own:
        found.folders[before:] = [folder]
    return is_own


def _add_file(entry: FileInfo, found: _Contents) -> bool:
    """Add a file; whether it is of the table."""
    name = entry.name
    is_checksum = name.startswith(".") and name.endswith(".crc")
    stem = name[1:-4] if is_checksum else name
    if stem.startswith(PARTITION_METAFILE) or parse_data_file(stem) is not None:
        found.own[entry.path] = entry.size_bytes
        return True
    found.others.append(entry.path)
    return False


def _report(name: str, found: _Contents, *, dry_run: bool = False) -> DropReport:
    others = found.others
    return DropReport(
        name,
        len(found.own),
        sum(found.own.values()),
        len(others),
        tuple(others[:_EXAMPLES]),
        dry_run,
    )
