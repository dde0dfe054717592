"""Checks of what lies in the partitions: each file against what commits say of it.

A base file answers by its footer, a log by the frames of its blocks; rows are not read.  A file
is missed where a commit wrote it and nothing took it away since; a file nobody names is one that
a completed instant of the active timeline should have named and does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final

from pyhudi._native.hfile.reader import HFileReader
from pyhudi.errors import CorruptFileError, FileMissingError, PyhudiError
from pyhudi.filenames import (
    PARTITION_METAFILE,
    BaseFileName,
    LogFileName,
    join,
    parse_data_file,
)
from pyhudi.formats.base_file import footer
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.health.findings import Finding, Mend, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.health.quarantine import set_aside_files
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, checked
from pyhudi.storage.inline_file import Window
from pyhudi.table.properties import parse_properties
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.plans.cleaning import CleanPlan

_OURS_BESIDE: Final = re.compile(r"\..*\.crc|\.hoodie_partition_metadata.*|_SUCCESS|\.pyhudi-.*")


def check_partition_metafiles(ground: TableInventory) -> Iterator[Finding]:
    """Partition metafiles."""
    for partition in sorted(ground.files):
        path = join(partition, PARTITION_METAFILE)
        if partition in ground.unmarked:
            what, why = "a partition has no metafile", "listings of the store pass it over"
        else:
            try:
                found = parse_properties(ground.fs.read(path))
            except FileMissingError:  # one in the base file format has an extension
                continue
            if found.get("commitTime", "").isdecimal() and "partitionDepth" in found:
                continue
            what, why = "a partition's metafile is torn", "Apache Hudi cannot read the partition"
        yield Finding(
            "partition-metafile", Severity.ERROR, path, what, why, "repair writes it anew",
            Mend.METAFILE,
        )  # fmt: skip


def check_files(ground: TableInventory) -> Iterator[Finding]:
    """Every base and log file, and every stranger beside them."""
    sizes = _sizes_said(ground)
    for infos in ground.files.values():
        for info in infos:
            name = parse_data_file(info.name)
            if name is None:
                if not _OURS_BESIDE.fullmatch(info.name):
                    yield _stranger(info)
            elif isinstance(name, BaseFileName):
                yield from _base(ground, info, name, sizes)
            else:
                yield from _log(ground, info, name, sizes)


def _stranger(info: FileInfo) -> Finding:
    return Finding(
        "stranger", Severity.INFO, info.path, "a file that is no part of the table",
        "its name is none that writers of tables use", "nothing reads or deletes it",
    )  # fmt: skip


def _base(
    ground: TableInventory, info: FileInfo, name: BaseFileName, sizes: Mapping[str, int]
) -> Iterator[Finding]:
    if not ground.visibility.sees(name.instant):
        if name.instant not in ground.timeline.pending.times:
            yield _nobodys(info, "no instant of its time is on the timeline")
        return
    if info.path not in sizes and name.instant in {i.time for i in ground.commits}:
        yield _nobodys(info, "the commit of its time does not name it")
        return
    said = sizes.get(info.path)
    why = f"it has {info.size_bytes} bytes of {said}" if said not in (None, info.size_bytes) else ""
    try:
        if not why:
            _look_into(ground, info, name)
            return
    except (CorruptFileError, FileMissingError) as broken:
        why = broken.what
    yield _torn(info.path, name.instant, "a base file cannot be read", why)


def _look_into(ground: TableInventory, info: FileInfo, name: BaseFileName) -> None:
    """Read what a base file says of itself.  Raises CorruptFileError."""
    if name.extension == ".parquet":
        footer(ground.fs, info.path)
    elif name.extension == ".hfile":
        with closing(ground.fs.open(info.path)) as file:
            HFileReader(Window(file, 0, file.size), path_for_errors=info.path).verify()


def _nobodys(info: FileInfo, why: str) -> Finding:
    return Finding(
        "orphan", Severity.WARNING, info.path, "a data file that no instant names", why,
        "repair moves it out of the table", Mend.SET_ASIDE,
    )  # fmt: skip


def _torn(path: str, instant: str, what: str, why: str) -> Finding:
    return Finding(
        "torn-data-file", Severity.ERROR, path, what, why,
        "bring the file back from a copy of the table; repair with allow_loss takes back the "
        "newest commit, or gives up the rows that only this file has",
        Mend.SET_ASIDE, loses=True, instant=instant,
    )  # fmt: skip


def _log(
    ground: TableInventory, info: FileInfo, name: LogFileName, sizes: Mapping[str, int]
) -> Iterator[Finding]:
    said = sizes.get(info.path)
    if said is not None and info.size_bytes < said:
        why = f"it has {info.size_bytes} bytes of {said}"
        yield _torn(info.path, name.instant, "a log file is cut short", why)
        return
    try:
        with closing(ground.fs.open(info.path)) as file:
            blocks = read_blocks(file, path=info.path)
            for block in blocks:
                if block.kind is BlockKind.HFILE:
                    content = Window(file, block.content_offset, block.content_length)
                    HFileReader(content, path_for_errors=info.path).verify()
    except (CorruptFileError, FileMissingError) as broken:
        if said is not None:
            yield _torn(info.path, name.instant, "a log file cannot be read", broken.what)
        else:
            yield _nobodys(info, broken.what)
        return
    corrupt = [block for block in blocks if block.kind is BlockKind.CORRUPT]
    stated = {InstantTime(block.instant) for block in corrupt if block.instant}
    lost = sorted(filter(ground.visibility.sees, stated))
    if said is not None and lost:
        why = f"blocks of {', '.join(lost)} cannot be read"
        yield _torn(info.path, name.instant, "a log block of a committed write is damaged", why)
    elif corrupt:
        yield Finding(
            "torn-block", Severity.WARNING if said is not None else Severity.INFO, info.path,
            "a log holds bytes that are no block",
            "a writer failed while it appended; readers skip them",
            "nothing, if a write failed at the time; compaction leaves the bytes behind",
        )  # fmt: skip


def _sizes_said(ground: TableInventory) -> dict[str, int]:
    """Sizes in bytes that commits on the active timeline state, by path."""
    return {
        stat.path: stat.size_bytes
        for commit in ground.commits.values()
        for stat in commit.stats
        if stat.path
    }


def check_present(ground: TableInventory) -> Iterator[Finding]:
    """Files that commits wrote and that are there no more, though nothing took them away."""
    gone = _taken_away(ground)
    for instant, commit in ground.commits.items():
        for stat in commit.stats:
            path = stat.path
            name = parse_data_file(stat.file_name)
            if not path or name is None or path in ground.data_files or path in gone:
                continue
            if not _is_inside(path):
                continue  # the check of foreign paths tells
            yield _torn(path, instant.time, "a file that a commit wrote is missing",
                        f"{instant.action.value} {instant.time} names it")  # fmt: skip


def check_paths(ground: TableInventory) -> Iterator[Finding]:
    """Names and paths in commits that step out of the table."""
    for instant, commit in ground.commits.items():
        paths = {stat.path for stat in commit.stats} | {stat.partition for stat in commit.stats}
        paths |= set(commit.replaced or ())
        for path in sorted(p for p in paths if p and not _is_inside(p)):
            yield Finding(
                "foreign-path", Severity.ERROR, ground.log.path(instant),
                "a commit names a path outside the table", f"it names {path!r}",
                "nothing outside is read or deleted; do not trust where this table comes from",
                instant=instant.time,
            )  # fmt: skip


def _is_inside(path: str) -> bool:
    try:
        checked(path)
    except PyhudiError:
        return False
    return True


def _taken_away(ground: TableInventory) -> set[str]:
    """Paths that cleans (archived ones, too), rollbacks and restores deleted, as far as they can
    be read, and those that a repair has moved out."""
    found = {path for path, _ in set_aside_files(ground.fs)}
    done = {Action.CLEAN, Action.ROLLBACK, Action.RESTORE}
    for instant in ground.timeline.where(done):
        for record in _records(ground, instant):
            found |= set(_deleted(record))
    with suppress(CorruptFileError, FileMissingError):  # the archive's own check reports it
        for clean in ground.archive.cleans:
            found |= set(_deleted(clean.record))
    return found


def _records(ground: TableInventory, instant: Any) -> Iterator[dict[str, Any]]:
    try:
        if instant.state is State.COMPLETED:
            yield ground.log.record(instant)
        if instant.action is Action.CLEAN:
            yield {"plan": ground.log.plan(instant, CleanPlan.from_record).files}
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
