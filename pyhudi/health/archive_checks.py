"""Checks of the archived timeline, which reads of old snapshots and of schemas need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import PROPERTIES, archive_number
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.archive_files import has_history

ARCHIVE_FOLDER: Final = "hoodie.archivelog.folder"
ARCHIVE_FOLDERS: Final = ("archived", "history")
"""Names of the folder in versions up to 6, and since 8."""


def check_archive(inventory: TableInventory) -> Iterator[Finding]:
    """Files of the archive that are torn."""
    if has_history(inventory.log):
        yield from _check_history(inventory)
        return
    folder = inventory.config.archive_folder
    torn = False
    for info in inventory.fs.children(folder):
        if archive_number(info.name) is None or not info.size_bytes:
            continue
        try:
            with closing(inventory.fs.open(info.path)) as file:
                blocks = read_blocks(file, path=info.path)
            whole = all(block.kind is not BlockKind.CORRUPT for block in blocks)
            why = "bytes at its end are not a block"
        except CorruptFileError as broken:
            whole, why = False, broken.what
        if not whole:
            torn = True
            yield _torn(info.path, why)
    if torn:
        return
    try:
        assert inventory.archive.commits is not None
    except (CorruptFileError, FileMissingError) as broken:
        yield _torn(str(broken.facts.get("path") or folder), broken.what)


def archive_elsewhere(fs: FileSystem, config: TableConfig) -> str | None:
    """The name of the folder that has the archive of a table of version 6 if the one that the
    properties name has none, as after a downgrade by Apache Hudi 1.x; else None."""
    if config.layout.timeline_version != 1 or _archives(fs, config.archive_folder):
        return None
    others = (name for name in ARCHIVE_FOLDERS if f".hoodie/{name}" != config.archive_folder)
    return next((name for name in others if _archives(fs, f".hoodie/{name}")), None)


def _archives(fs: FileSystem, folder: str) -> bool:
    return any(archive_number(info.name) is not None for info in fs.children(folder))


def check_archive_folder(inventory: TableInventory) -> Iterator[Finding]:
    """An archived timeline that the properties do not name, so that readers do not see it."""
    config = inventory.config
    name = archive_elsewhere(inventory.fs, config)
    if name is not None:
        yield Finding(
            "archive-folder",
            Severity.ERROR,
            PROPERTIES,
            f"the archived timeline is in .hoodie/{name}, the properties state another folder",
            f"{ARCHIVE_FOLDER}={config.archive_folder.removeprefix('.hoodie/')}",
            "repair states the folder that has it",
            RepairAction.ARCHIVE_FOLDER,
        )


def _check_history(inventory: TableInventory) -> Iterator[Finding]:
    try:
        assert inventory.archive.commits is not None
    except CorruptFileError as broken:
        path = str(broken.facts.get("path") or HISTORY)
        yield Finding(
            "torn-archive",
            Severity.ERROR,
            path,
            "the archived timeline cannot be read",
            broken.what,
            "restore it from a copy of the table: readers of log files need the "
            "completion times in it",
        )


def _torn(path: str, why: str) -> Finding:
    return Finding(
        "torn-archive",
        Severity.ERROR,
        path,
        "a file of the archived timeline is torn",
        why,
        "restore it from a copy of the table; repair with allow_loss moves it out: its history of "
        "old commits is lost, but no rows are",
        RepairAction.QUARANTINE,
        loses=True,
    )
