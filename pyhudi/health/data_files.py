"""Checks of the files in the partitions against the commits that wrote them.

Base files are checked by their footers, logs by the frames of their blocks; rows are read only to
find NaN in files of earlier releases.  A file is missing if a commit wrote it and nothing has
deleted it since.  A file is an orphan if its instant does not exist, or is a completed one of the
active timeline that does not name the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final

from pyhudi._native.hfile.reader import HFileReader
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    PyhudiError,
    UnsupportedTableError,
)
from pyhudi.filenames import (
    PARTITION_METAFILE,
    BaseFileName,
    DataFileName,
    LogFileName,
    join,
    parse_data_file,
)
from pyhudi.formats.base_file import footer, hidden_nan
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.health.quarantine import quarantined_files
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, checked
from pyhudi.storage.inline_file import Window
from pyhudi.table.properties import parse_properties
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.cleaning import CleanPlan

_AUXILIARY: Final = re.compile(r"\..*\.crc|\.hoodie_partition_metadata.*|_SUCCESS|\.pyhudi-.*")


def check_partition_metafiles(inventory: TableInventory) -> Iterator[Finding]:
    """Partition metafiles."""
    for partition in sorted(inventory.files):
        path = join(partition, PARTITION_METAFILE)
        if partition in inventory.unmarked:
            what, why = "a partition has no metafile", "listings of the store skip it"
        else:
            try:
                found = parse_properties(inventory.fs.read(path))
            except FileMissingError:  # a metafile in the base file format has an extension
                continue
            if found.get("commitTime", "").isdecimal() and "partitionDepth" in found:
                continue
            what, why = "a partition's metafile is torn", "Apache Hudi cannot read the partition"
        yield Finding(
            "partition-metafile",
            Severity.ERROR,
            path,
            what,
            why,
            "repair rewrites it",
            RepairAction.METAFILE,
        )


def check_files(inventory: TableInventory) -> Iterator[Finding]:
    """Check every base and log file, and report foreign files next to them."""
    sizes = _recorded_sizes(inventory)
    for infos in inventory.files.values():
        for info in infos:
            name = parse_data_file(info.name)
            if name is None:
                if not _AUXILIARY.fullmatch(info.name):
                    yield _foreign_file(info)
            elif isinstance(name, BaseFileName):
                yield from _base(inventory, info, name, sizes)
            else:
                yield from _log(inventory, info, name, sizes)


def _foreign_file(info: FileInfo) -> Finding:
    return Finding(
        "stranger",
        Severity.INFO,
        info.path,
        "a file that is not part of the table",
        "its name is not one that table writers use",
        "nothing reads or deletes it",
    )


def _base(
    inventory: TableInventory, info: FileInfo, name: BaseFileName, sizes: Mapping[str, int]
) -> Iterator[Finding]:
    orphan = _orphan_reason(inventory, info, name, sizes)
    if orphan:
        yield _orphan(info, orphan)
    if orphan or not inventory.visibility.sees(name.instant):
        return
    recorded = sizes.get(info.path)
    why = (
        f"it has {info.size_bytes} bytes of {recorded}"
        if recorded not in (None, info.size_bytes)
        else ""
    )
    try:
        if not why:
            _verify_base(inventory, info, name)
            return
    except (CorruptFileError, FileMissingError) as broken:
        why = broken.what
    yield _torn(info.path, name.instant, "a base file cannot be read", why)


def _orphan_reason(
    inventory: TableInventory, info: FileInfo, name: DataFileName, sizes: Mapping[str, int]
) -> str:
    """Why no write of this instant names the file; empty if one does, or may."""
    if not inventory.visibility.sees(name.instant):
        is_pending = name.instant in inventory.timeline.pending.times
        return "" if is_pending else "the timeline has no instant of its time"
    if info.path not in sizes and name.instant in {i.time for i in inventory.commits}:
        return "the commit of its time does not name it"
    return ""


def _verify_base(inventory: TableInventory, info: FileInfo, name: BaseFileName) -> None:
    """Read the footer or the blocks of a base file.  Raises CorruptFileError."""
    if name.extension == ".parquet":
        footer(inventory.fs, info.path)
    elif name.extension == ".hfile":
        with closing(inventory.fs.open(info.path)) as file:
            HFileReader(Window(file, 0, file.size), path_for_errors=info.path).verify()


def _orphan(info: FileInfo, why: str) -> Finding:
    return Finding(
        "orphan",
        Severity.WARNING,
        info.path,
        "a data file that no instant names",
        why,
        "repair moves it out of the table",
        RepairAction.QUARANTINE,
    )


def _torn(path: str, instant: str, what: str, why: str) -> Finding:
    return Finding(
        "torn-data-file",
        Severity.ERROR,
        path,
        what,
        why,
        "restore the file from a copy of the table; repair with allow_loss rolls back the newest "
        "commit, or drops the rows that only this file contains",
        RepairAction.QUARANTINE,
        loses=True,
        instant=instant,
    )


def _log(
    inventory: TableInventory, info: FileInfo, name: LogFileName, sizes: Mapping[str, int]
) -> Iterator[Finding]:
    if not inventory.log.layout.logs_are_shared:
        orphan = _orphan_reason(inventory, info, name, sizes)
        if orphan and not _is_of_shared_logs(inventory, info, name):
            yield _orphan(info, orphan)
        if orphan or not inventory.visibility.sees(name.instant):
            return
    recorded = sizes.get(info.path)
    if recorded is not None and info.size_bytes < recorded:
        why = f"it has {info.size_bytes} bytes of {recorded}"
        yield _torn(info.path, name.instant, "a log file is truncated", why)
        return
    try:
        with closing(inventory.fs.open(info.path)) as file:
            blocks = read_blocks(file, path=info.path)
            for block in blocks:
                if block.kind is BlockKind.HFILE:
                    content = Window(file, block.content_offset, block.content_length)
                    HFileReader(content, path_for_errors=info.path).verify()
    except (CorruptFileError, FileMissingError) as broken:
        if recorded is not None:
            yield _torn(info.path, name.instant, "a log file cannot be read", broken.what)
        else:
            yield _orphan(info, broken.what)
        return
    corrupt = [block for block in blocks if block.kind is BlockKind.CORRUPT]
    stated = {InstantTime(block.instant) for block in corrupt if block.instant}
    lost = sorted(filter(inventory.visibility.sees, stated))
    if recorded is not None and lost:
        why = f"blocks of {', '.join(lost)} cannot be read"
        yield _torn(info.path, name.instant, "a log block of a committed write is damaged", why)
    elif corrupt:
        yield Finding(
            "torn-block",
            Severity.WARNING if recorded is not None else Severity.INFO,
            info.path,
            "a log contains bytes that are not a block",
            "a writer failed while appending; readers skip them",
            "no action needed if a write failed at that time; compaction drops the bytes",
        )


def _is_of_shared_logs(inventory: TableInventory, info: FileInfo, name: LogFileName) -> bool:
    """Whether a log was written at version 6, which names logs after the slice, not the write.

    Rollbacks at that version leave logs that no commit names; they go with their slice."""
    if not inventory.visibility.sees(name.instant):
        return False
    try:
        with closing(inventory.fs.open(info.path)) as file:
            blocks = read_blocks(file, path=info.path)
    except (CorruptFileError, FileMissingError):
        return False
    return bool(blocks) and all(block.instant not in (None, name.instant) for block in blocks)


def check_nan(inventory: TableInventory) -> Iterator[Finding]:
    """Base files whose statistics hide NaN: earlier releases wrote the bounds of Arrow.

    Cost: the footer of every base file, and the floating columns of those of earlier releases.
    """
    for path, (_, name) in inventory.data_files.items():
        if not isinstance(name, BaseFileName) or not inventory.visibility.sees(name.instant):
            continue
        try:
            columns = hidden_nan(inventory.fs, path)
        except (CorruptFileError, FileMissingError, UnsupportedTableError):
            continue  # check_files reports it
        if columns:
            yield Finding(
                "hidden-nan",
                Severity.WARNING,
                path,
                "statistics of a base file leave NaN out",
                f"{', '.join(columns)} contain NaN, but the footer states bounds of numbers alone;"
                " other engines that read the file skip rows with NaN",
                "pyhudi returns all rows; table.cluster(sort_by=...), or an update of a row of the"
                " file and a compaction, writes the file again",
                instant=name.instant,
            )


def _recorded_sizes(inventory: TableInventory) -> dict[str, int]:
    """Sizes in bytes that commits on the active timeline state, by path."""
    found: dict[str, int] = {}
    for commit in inventory.commits.values():
        for stat in commit.stats:
            found |= {stat.path: stat.size_bytes} if stat.path else {}
            found |= stat.cdc_sizes or {}
    return found


def check_present(inventory: TableInventory) -> Iterator[Finding]:
    """Files that commits wrote and that are missing although nothing deleted them."""
    gone = _deleted_paths(inventory)
    for instant, commit in inventory.commits.items():
        for stat in commit.stats:
            path = stat.path
            name = parse_data_file(stat.file_name)
            if not path or name is None or path in inventory.data_files or path in gone:
                continue
            if not _is_inside(path):
                continue  # check_paths reports it
            yield _torn(
                path,
                instant.time,
                "a file that a commit wrote is missing",
                f"{instant.action.value} {instant.time} names it",
            )


def check_paths(inventory: TableInventory) -> Iterator[Finding]:
    """Names and paths in commits that point outside the table."""
    for instant, commit in inventory.commits.items():
        paths = {stat.path for stat in commit.stats} | {stat.partition for stat in commit.stats}
        paths |= set(commit.replaced or ())
        for path in sorted(p for p in paths if p and not _is_inside(p)):
            yield Finding(
                "foreign-path",
                Severity.ERROR,
                inventory.log.path(instant),
                "a commit names a path outside the table",
                f"it names {path!r}",
                "nothing outside is read or deleted; do not trust the source of this table",
                instant=instant.time,
            )


def _is_inside(path: str) -> bool:
    try:
        checked(path)
    except PyhudiError:
        return False
    return True


def _deleted_paths(inventory: TableInventory) -> set[str]:
    """Paths that cleans (including archived ones), rollbacks and restores deleted, as far as they
    can be read, and those that a repair has moved out."""
    found = {path for path, _ in quarantined_files(inventory.fs)}
    done = inventory.timeline.where({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})
    found |= _deleted_by(inventory, done)
    with suppress(CorruptFileError, FileMissingError):  # the archive's own check reports it
        for clean in inventory.archive.cleans:
            found |= set(_deleted(clean.record))
    return found


def paths_being_cleaned(inventory: TableInventory) -> set[str]:
    """Paths that pending cleans delete, before they say so to the metadata table."""
    pending = inventory.timeline.where({Action.CLEAN}, State.REQUESTED, State.INFLIGHT)
    return _deleted_by(inventory, pending)


def _deleted_by(inventory: TableInventory, instants: Iterable[Instant]) -> set[str]:
    records = (record for instant in instants for record in _records(inventory, instant))
    return {path for record in records for path in _deleted(record)}


def _records(inventory: TableInventory, instant: Any) -> Iterator[dict[str, Any]]:
    try:
        if instant.state is State.COMPLETED:
            yield inventory.log.record(instant)
        if instant.action is Action.CLEAN:
            yield {"plan": inventory.log.plan(instant, CleanPlan.from_record).files}
    except (CorruptFileError, FileMissingError):
        return


def _deleted(record: Mapping[str, Any]) -> Iterator[str]:
    for partition, names in (record.get("plan") or {}).items():
        yield from (join(partition, name) for name in names)
    for partition, part in (record.get("partitionMetadata") or {}).items():
        for path in (*part.get("successDeleteFiles", ()), *part.get("deletePathPatterns", ())):
            yield join(partition, path.rsplit("/", 1)[-1])
    for rollbacks in (record.get("hoodieRestoreMetadata") or {}).values():
        for rollback in rollbacks:
            yield from _deleted(rollback)
