"""Changes of the properties of a table that do not affect its files, and of its folder.

The name, the database and properties of users can change.  All other `hoodie.*` properties describe
existing files or the format: a different value would make rows unreadable or change their keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import UserError
from pyhudi.options import Options
from pyhudi.reports import Report
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import load_config, store_config
from pyhudi.transaction.begin import check_table, table_lock
from pyhudi.transaction.heartbeat import check_no_writer

_NAME: Final = "hoodie.table.name"
_CHANGEABLE: Final = frozenset({_NAME, "hoodie.database.name"})
_RESERVED: Final = ("hoodie.", "pyhudi.", "_hoodie")


@dataclass(frozen=True, slots=True)
class PropertyChanges(Report):
    """set: properties with another value than before; removed: names that the table had."""

    set: Mapping[str, str]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    dry_run: bool = False


def set_properties(
    fs: FileSystem,
    options: Options,
    changes: Mapping[str, str | None],
    *,
    dry_run: bool = False,
) -> PropertyChanges:
    """Set properties of the table; None removes one.

    dry_run: report only.  Raises UserError, before any change, for a property that describes files
    or the format, and for an empty name; UnsupportedTableError for a table that cannot be written;
    LockError.
    """
    stored = load_config(fs).properties
    _check(changes)
    if dry_run:
        return _compared(stored, changes, dry_run=True)
    with table_lock(fs, options.write, "set properties"):
        config = load_config(fs)
        check_table(config)
        report = _compared(config.properties, changes)
        if report.set or report.removed:
            store_config(fs, config.with_properties(changes))
        return report


def rename_folder(fs: FileSystem, options: Options, name: str, target: FileSystem) -> None:
    """Move the table to the folder of `target`, which has none, and set its name.

    The name is set first: the move is one step of the file system.  Raises UserError for stores
    that cannot move a folder and for a folder that exists, WriteConflictError while a writer works
    on the table, LockError.
    """
    if not (fs.url.startswith("/") and target.url.startswith("/")):
        raise UserError(
            "tables are renamed on local disks only",
            path=fs.url,
            hint="table.copy(path) copies it; then drop it",
        )
    with table_lock(fs, options.write, "rename"):
        check_no_writer(fs, options.write.concurrency.heartbeats, "rename")
        if os.path.lexists(target.url):
            raise UserError("the new name is that of a folder", path=target.url)
        config = load_config(fs)
        check_table(config)
        store_config(fs, config.with_properties({_NAME: name}))
        os.rename(fs.url, target.url)


def _check(changes: Mapping[str, str | None]) -> None:
    if not changes:
        raise UserError("no properties are given", hint="pass NAME=VALUE")
    for name, value in changes.items():
        if not name.strip() or (name.startswith(_RESERVED) and name not in _CHANGEABLE):
            raise UserError(
                "the property cannot be changed",
                property=name,
                hint=f"changeable: {', '.join(sorted(_CHANGEABLE))}, and names without hoodie.",
            )
        if name == _NAME and not (value or "").strip():
            raise UserError("a table needs a name", property=name)


def _compared(
    stored: Mapping[str, str], changes: Mapping[str, str | None], *, dry_run: bool = False
) -> PropertyChanges:
    written = {n: v for n, v in changes.items() if v is not None and stored.get(n) != v}
    removed = tuple(n for n, v in changes.items() if v is None and n in stored)
    unchanged = tuple(n for n in changes if n not in written and n not in removed)
    return PropertyChanges(written, removed, unchanged, dry_run)
