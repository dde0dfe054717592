"""Checks of the archived timeline, which reads of old snapshots and of schemas need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import archive_number
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.archive_files import has_history


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


def _check_history(inventory: TableInventory) -> Iterator[Finding]:
    try:
        assert inventory.archive.commits is not None
    except CorruptFileError as broken:
        path = str(broken.facts.get("path") or HISTORY)
        yield Finding(
            "torn-archive", Severity.ERROR, path, "the archived timeline cannot be read",
            broken.what, "restore it from a copy of the table: readers of log files need the "
            "completion times in it",
        )  # fmt: skip


def _torn(path: str, why: str) -> Finding:
    return Finding(
        "torn-archive", Severity.ERROR, path, "a file of the archived timeline is torn", why,
        "restore it from a copy of the table; repair with allow_loss moves it out: its history of "
        "old commits is lost, but no rows are",
        RepairAction.QUARANTINE, loses=True,
    )  # fmt: skip
