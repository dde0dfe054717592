"""The doctor: runs every check in turn; changes nothing and trusts nothing that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyhudi.engine import LOCAL, Engine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    PyhudiError,
    TableNotFoundError,
)
from pyhudi.filenames import HOODIE
from pyhudi.health.archive_checks import check_archive, check_archive_folder
from pyhudi.health.data_files import (
    check_files,
    check_nan,
    check_partition_metafiles,
    check_paths,
    check_present,
)
from pyhudi.health.findings import Diagnosis, Finding, RepairAction, Severity, in_order
from pyhudi.health.inventory import TableInventory
from pyhudi.health.metadata_verify import check_metadata
from pyhudi.health.orphans import check_leftovers, check_pending
from pyhudi.health.replaced_groups import check_replaced
from pyhudi.health.timeline_checks import (
    check_instants,
    check_payload_class,
    check_properties,
    check_stored_properties,
    check_version_change,
)
from pyhudi.metadata.writer import check_version
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import load_config
from pyhudi.table.timeline_facts import check_not_bootstrapped, check_readable
from pyhudi.timeline.instant import Action, State

Check = Callable[[TableInventory], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_version_change,
    check_payload_class,
    check_stored_properties,
    check_archive_folder,
    check_instants,
    check_paths,
    check_partition_metafiles,
    check_files,
    check_present,
    check_pending,
    check_leftovers,
    check_archive,
    check_replaced,
)


def examine(fs: FileSystem, *, quick: bool = False, engine: Engine = LOCAL) -> Diagnosis:
    """Diagnose the table at `fs`; an empty diagnosis means a healthy table.

    quick: do not verify the record index against the keys, which reads one column of the table, and
    do not search floating columns of files of earlier releases for NaN.
    Other cost: every file of the timeline, the footer of every base file, the frames of every log,
    the whole metadata table.  Raises TableNotFoundError, UnsupportedTableError.
    """
    findings = list(check_properties(fs))
    try:
        config = load_config(fs)
    except TableNotFoundError:
        if not fs.children(HOODIE):
            raise
        return Diagnosis(fs.url, in_order(findings))
    except CorruptFileError:
        return Diagnosis(fs.url, in_order(findings))
    check_readable(config)
    check_not_bootstrapped(config)
    check_version(config)
    inventory = TableInventory.of(fs, config)
    return _examined(inventory, findings, quick=quick, engine=engine)


def examine_inventory(inventory: TableInventory, *, quick: bool, engine: Engine) -> Diagnosis:
    """`examine` for a table whose inventory was taken already.  Raises UnsupportedTableError."""
    check_not_bootstrapped(inventory.config)
    check_version(inventory.config)
    findings = list(check_properties(inventory.fs))
    return _examined(inventory, findings, quick=quick, engine=engine)


def _examined(
    inventory: TableInventory, findings: list[Finding], *, quick: bool, engine: Engine
) -> Diagnosis:
    for check in CHECKS:
        findings += _found(check, inventory)
    findings += _found(
        lambda inventory: check_metadata(inventory, with_keys=not quick, engine=engine), inventory
    )
    if not quick:
        findings += _found(check_nan, inventory)
    if restoring := inventory.timeline.where({Action.RESTORE}, State.REQUESTED, State.INFLIGHT):
        findings = [_until_restored(f, restoring.instants[0].time) for f in findings]
    checked = (
        ("instants", len(inventory.timeline)),
        ("partitions", len(inventory.files)),
        ("data files", len(inventory.data_files)),
    )
    return Diagnosis(inventory.fs.url, in_order(findings), checked)


def _until_restored(finding: Finding, restore: str) -> Finding:
    """A finding about the metadata table, which a restore changes after the files: no damage while
    the restore is pending."""
    if finding.repair is not RepairAction.METADATA or not finding.code.startswith("metadata"):
        return finding
    return replace(
        finding,
        severity=Severity.INFO,
        why=f"the restore {restore} is not completed yet",
        advice="no action needed: the restore brings the metadata table up to date",
        repair=None,
    )


def check_is_table(fs: FileSystem) -> None:
    """Raise TableNotFoundError unless there is a table or at least a `.hoodie` with files."""
    try:
        load_config(fs)
    except TableNotFoundError:
        if not fs.children(HOODIE):
            raise
    except CorruptFileError:
        return


def _found(check: Check, inventory: TableInventory) -> list[Finding]:
    """The findings of one check; a check that meets unexpected damage reports it and ends."""
    found: list[Finding] = []
    try:
        found.extend(check(inventory))
    except (CorruptFileError, FileMissingError) as broken:
        if not any(f.severity is Severity.ERROR for f in found):
            found.append(_unexpected(inventory, broken))
    return found


def _unexpected(inventory: TableInventory, broken: PyhudiError) -> Finding:
    return Finding(
        "unreadable",
        Severity.ERROR,
        str(broken.facts.get("path") or inventory.fs.url),
        "a file of the table cannot be read",
        broken.what,
        broken.hint or "restore the file from a copy of the table",
    )
