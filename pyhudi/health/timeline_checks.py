"""Checks of what says what the table is and what happened: properties and the timeline's files.

A completed instant's file is needed by readers.  Of pending ones the plans of services are; what
a pending write says of itself is looked at by nobody but its rollback, which can do without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import HOODIE, PROPERTIES, PROPERTIES_BACKUP, PROPERTIES_COPY
from pyhudi.health.findings import Finding, Mend, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import is_valid, parse_properties
from pyhudi.timeline.instant import COMMITS, Action, Instant, State

_PLANNED: Final = frozenset(
    {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.CLEAN, Action.ROLLBACK,
     Action.RESTORE, Action.REPLACE_COMMIT}
)  # fmt: skip
"""Actions whose requested file is read while they are pending."""

_MENDS: Final = {
    Action.CLEAN: Mend.RECOMPLETE,
    Action.ROLLBACK: Mend.RECOMPLETE,
    Action.SAVEPOINT: Mend.FORGET,
}


def check_properties(fs: FileSystem) -> Iterator[Finding]:
    """hoodie.properties and its backup; can be asked where the table cannot be opened."""
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
            else "write the file anew from another table like it, or from what created the table",
            Mend.PROPERTIES if source else None,
        )
    if backup is False or (backup and main):
        yield Finding(
            "properties-backup",
            Severity.INFO if main else Severity.WARNING,
            PROPERTIES_BACKUP,
            "an update of the properties was cut short" if backup else "the backup is torn",
            "the file is only there while the properties are replaced",
            "repair deletes it",
            Mend.SWEEP if main else None,
        )


def sound_properties(fs: FileSystem) -> str | None:
    """Which file the properties can be restored from; None if there is none.

    The copy that this package keeps is as old as the last change it made itself, so it does not
    serve a table that Apache Hudi has upgraded since.
    """
    if _is_sound(fs, PROPERTIES_BACKUP):
        return PROPERTIES_BACKUP
    upgraded = bool(fs.children(f"{HOODIE}/timeline"))
    return PROPERTIES_COPY if _is_sound(fs, PROPERTIES_COPY) and not upgraded else None


def _is_sound(fs: FileSystem, path: str) -> bool | None:
    """Whether the file holds properties; None if it is not there."""
    try:
        return is_valid(parse_properties(fs.read(path)))
    except FileMissingError:
        return None


def check_instants(ground: TableInventory) -> Iterator[Finding]:
    """Every file of the timeline that somebody will read."""
    for instant in ground.timeline:
        if instant.is_completed:
            yield from _completed(ground, instant)
        elif instant.action in _PLANNED:
            yield from _planned(ground, instant)


def _completed(ground: TableInventory, instant: Instant) -> Iterator[Finding]:
    path = ground.log.path(instant)
    try:
        data = ground.log.read(instant)
        if instant.action in COMMITS:
            ground.log.commit(instant)
            return
        if data or instant.action is Action.INDEXING:
            ground.log.record(instant)
            return
        why = "it is empty"
    except (CorruptFileError, FileMissingError) as broken:
        why = broken.what
    mend = Mend.RECOMPLETE if instant.action in COMMITS else _MENDS.get(instant.action)
    yield Finding(
        f"torn-{instant.action.value}",
        Severity.ERROR,
        path,
        "the file of a completed instant cannot be read",
        why,
        "repair writes it anew from its plan and its files"
        if mend is Mend.RECOMPLETE
        else "repair forgets the savepoint: what it protected may be cleaned"
        if mend is Mend.FORGET
        else "bring the file back from a copy of the table",
        mend,
        loses=mend is Mend.FORGET,
        instant=instant.time,
    )


def _planned(ground: TableInventory, instant: Instant) -> Iterator[Finding]:
    requested = replace(instant, state=State.REQUESTED)
    path = ground.log.path(requested)
    try:
        found = ground.log.record(requested)
    except FileMissingError:
        found, why = {}, "it is not there"
    except CorruptFileError as broken:
        found, why = {}, broken.what
    else:
        why = "it is empty"
    if found or (instant.action is Action.REPLACE_COMMIT and why == "it is empty"):
        return
    rebuilt = instant.action is Action.COMPACTION
    yield Finding(
        f"torn-{instant.action.value}-plan",
        Severity.ERROR,
        path,
        "the plan of a pending service cannot be read",
        why,
        "repair plans it anew from the logs that lie on it"
        if rebuilt
        else "repair sets the plan aside; the service plans anew",
        Mend.RECOMPLETE if rebuilt else Mend.FORGET,
        instant=instant.time,
    )
