"""Checks of the table's properties and of the timeline's files.

Readers need the files of completed instants and the plans of pending services.  Only its rollback
reads the file of a pending write, and it works without that file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pyhudi.errors import CorruptFileError, FileMissingError, UnsupportedTableError
from pyhudi.filenames import (
    HOODIE,
    PROPERTIES,
    PROPERTIES_BACKUP,
    PROPERTIES_COPY,
    BaseFileName,
    LogFileName,
    parse_data_file,
)
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.layouts.v8 import V8
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import (
    PAYLOAD_CLASS,
    SLASHES,
    MergeMode,
    TableConfig,
    is_valid,
    parse_properties,
)
from pyhudi.table.stored_properties import (
    STORED,
    check_writable_properties,
    hints_at_slashes,
    without_effect,
)
from pyhudi.table.timeline_facts import lacking_bases
from pyhudi.table.version_record import RECORD, load_record
from pyhudi.timeline.instant import COMMITS, Action, Instant, State

_PLANNED: Final = frozenset(
    {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.CLEAN, Action.ROLLBACK,
     Action.RESTORE, Action.REPLACE_COMMIT}
)  # fmt: skip
"""Actions whose requested file is read while they are pending."""

_REPAIRS: Final = {
    Action.CLEAN: RepairAction.RECOMPLETE,
    Action.ROLLBACK: RepairAction.RECOMPLETE,
    Action.SAVEPOINT: RepairAction.FORGET,
}


def check_properties(fs: FileSystem) -> Iterator[Finding]:
    """hoodie.properties and its backup; works where the table cannot be opened."""
    main, backup = (_is_sound(fs, path) for path in (PROPERTIES, PROPERTIES_BACKUP))
    source = sound_properties(fs)
    if main is not True:
        yield Finding(
            "properties",
            Severity.ERROR,
            PROPERTIES,
            "the table's properties are missing" if main is None else "the properties are torn",
            "every reader and writer needs them",
            f"repair restores {source}"
            if source
            else "recreate the file from a similar table, or from what created the table",
            RepairAction.PROPERTIES if source else None,
        )
    if backup is False or (backup and main):
        yield Finding(
            "properties-backup",
            Severity.INFO if main else Severity.WARNING,
            PROPERTIES_BACKUP,
            "an update of the properties was interrupted" if backup else "the backup is torn",
            "the file only exists while the properties are replaced",
            "repair deletes it",
            RepairAction.SWEEP if main else None,
        )


def check_version_change(inventory: TableInventory) -> Iterator[Finding]:
    """A change of the table's version whose process ended before it was finished."""
    record = load_record(inventory.fs)
    if record is None:
        return
    yield Finding(
        "unfinished-version-change",
        Severity.WARNING,
        RECORD,
        f"a change of the table {record} is running or was interrupted",
        "metadata partitions that it rebuilds at its end may be absent until then",
        f"run {record.verb}, which finishes it",
    )


def check_payload_class(inventory: TableInventory) -> Iterator[Finding]:
    """The payload class of a merge-on-read table of version 6, by which Apache Hudi 0.x reads logs.

    A downgrade by Apache Hudi 1.x of a table without one, as it creates them, adds none.
    """
    config = inventory.config
    has_logs = config.is_merge_on_read and config.layout.timeline_version == 1
    if not has_logs or config.payload_class or config.merge_mode is MergeMode.CUSTOM:
        return
    yield Finding(
        "payload-class",
        Severity.WARNING,
        PROPERTIES,
        f"the properties of a merge-on-read table lack {PAYLOAD_CLASS}",
        "Apache Hudi 0.x fails to read its logs",
        "repair adds the class of the table's merge mode",
        RepairAction.PAYLOAD_CLASS,
    )


def check_stored_properties(inventory: TableInventory) -> Iterator[Finding]:
    """Properties that are unknown, that have no effect, or that contradict each other."""
    config = inventory.config
    try:
        check_writable_properties(config)
    except UnsupportedTableError as refused:
        name = str(refused.facts["property"])
        if name == SLASHES or name not in STORED:
            yield Finding(
                "unsupported-property",
                Severity.INFO,
                PROPERTIES,
                f"{name}={refused.facts['found']}: the table is read only",
                refused.what,
                refused.hint or "write it with Apache Hudi",
            )
    for name, value in without_effect(config):
        yield Finding(
            "unused-property",
            Severity.INFO,
            PROPERTIES,
            f"{name}={value} is an option of a writer, not a property of a table",
            "pyhudi takes options from its caller only",
            "pass it as an option",
        )
    extractor = hints_at_slashes(config)
    if extractor:
        yield Finding(
            "slash-partitions",
            Severity.INFO,
            PROPERTIES,
            f"the extractor {extractor} is for dates that slashes separate in partition paths",
            f"{SLASHES} is not set: the values of the partition column are the paths as they are",
            f"set {SLASHES}=true in the file if the column contains dates with dashes",
        )


def sound_properties(fs: FileSystem) -> str | None:
    """The file from which the properties can be restored; None if there is none.

    The copy that this package maintains is as old as the last change that this package made, so it
    is not used for a table that Apache Hudi has upgraded since.
    """
    if _is_sound(fs, PROPERTIES_BACKUP):
        return PROPERTIES_BACKUP
    if not _is_sound(fs, PROPERTIES_COPY):
        return None
    copy = TableConfig(parse_properties(fs.read(PROPERTIES_COPY)))
    upgraded = copy.layout.timeline_folder == HOODIE and fs.children(V8.timeline_folder)
    return None if upgraded else PROPERTIES_COPY


def _is_sound(fs: FileSystem, path: str) -> bool | None:
    """Whether the file contains valid properties; None if it does not exist."""
    try:
        return is_valid(parse_properties(fs.read(path)))
    except FileMissingError:
        return None


def check_instants(inventory: TableInventory) -> Iterator[Finding]:
    """Check every file of the timeline that a later operation reads."""
    for instant in inventory.timeline:
        if instant.is_completed:
            yield from _completed(inventory, instant)
        elif instant.action in _PLANNED:
            yield from _planned(inventory, instant)
            if instant.action is Action.COMPACTION:
                yield from _merged_already(inventory, instant)
    if inventory.log.layout.logs_name_slices:
        compacting = inventory.view(inventory.claimed).pending.compacting.values()
        for lost in sorted(set(compacting) - inventory.timeline.times):
            yield from _planned(inventory, Instant(lost, Action.COMPACTION, State.REQUESTED))


def _completed(inventory: TableInventory, instant: Instant) -> Iterator[Finding]:
    path = inventory.log.path(instant)
    try:
        data = inventory.log.read(instant)
        if instant.action in COMMITS:
            why = _names_others(inventory, instant)
            if not why:
                return
        elif data or instant.action is Action.INDEXING:
            inventory.log.record(instant)
            return
        else:
            why = "it is empty"
    except (CorruptFileError, FileMissingError) as broken:
        why = broken.what
    repair = RepairAction.RECOMPLETE if instant.action in COMMITS else _REPAIRS.get(instant.action)
    yield Finding(
        f"torn-{instant.action.value}",
        Severity.ERROR,
        path,
        "the file of a completed instant cannot be read",
        why,
        "repair reconstructs it from its plan and its files"
        if repair is RepairAction.RECOMPLETE
        else "repair removes the savepoint: the files that it protected may be cleaned"
        if repair is RepairAction.FORGET
        else "restore the file from a copy of the table",
        repair,
        loses=repair is RepairAction.FORGET,
        instant=instant.time,
    )


def _names_others(inventory: TableInventory, instant: Instant) -> str:
    """Whose files a commit names instead of its own; empty if they are its own.

    In layout 1 logs have the name of their slice's instant, so that they tell nothing.  So have
    those of commits before an upgrade, whose slice is the one that the commit wrote on.
    """
    for stat in inventory.log.commit(instant).stats:
        name = parse_data_file(stat.file_name)
        own = {instant.time}
        if isinstance(name, LogFileName):
            if inventory.log.layout.logs_name_slices:
                continue
            own.add(InstantTime(stat.previous_instant or ""))
        if isinstance(name, BaseFileName | LogFileName) and name.instant not in own:
            return f"it names files of the instant {name.instant}"
    return ""


def _planned(inventory: TableInventory, instant: Instant) -> Iterator[Finding]:
    requested = replace(instant, state=State.REQUESTED)
    path = inventory.log.path(requested)
    try:
        found = inventory.log.record(requested)
    except FileMissingError:
        found, why = {}, "it is missing"
    except CorruptFileError as broken:
        found, why = {}, broken.what
    else:
        why = "it is empty"
    if found or (instant.action is Action.REPLACE_COMMIT and why == "it is empty"):
        return
    rebuilt = instant.action is Action.COMPACTION and inventory.log.layout.logs_name_slices
    yield Finding(
        f"torn-{instant.action.value}-plan",
        Severity.ERROR,
        path,
        "the plan of a pending service cannot be read",
        why,
        "repair rebuilds the plan from the logs that later writes based on it"
        if rebuilt
        else "repair moves the plan out of the timeline; the service plans again",
        RepairAction.RECOMPLETE if rebuilt else RepairAction.FORGET,
        instant=instant.time,
    )


def _merged_already(inventory: TableInventory, pending: Instant) -> Iterator[Finding]:
    """A pending compaction whose base files are gone: it had completed, or they are lost."""
    replaced = {
        group: instant.time
        for instant, commit in inventory.commits.items()
        for group in commit.replaced_groups
    }
    try:
        found = [*lacking_bases(inventory.log, pending, inventory.view(), replaced=replaced)]
    except CorruptFileError:  # a torn plan or archive, which other checks report
        return
    if not found:
        return
    written = {
        FileGroupId(path.rpartition("/")[0], name.file_id)
        for path, (_, name) in inventory.data_files.items()
        if isinstance(name, BaseFileName) and name.instant == pending.time
    }
    is_done = all(each.group in written for each in found)
    yield Finding(
        "lost-commit",
        Severity.ERROR,
        inventory.log.path(replace(pending, state=State.INFLIGHT if is_done else State.REQUESTED)),
        "base files that a pending compaction merges are gone",
        "its completed file was lost" if is_done else f"{found[0].base_file} is lost",
        "repair completes it again from its files"
        if is_done
        else "restore the base files from a copy of the table; repair plans without them",
        RepairAction.RECOMPLETE,
        loses=not is_done,
        instant=pending.time,
    )
