"""Checks that the file groups of a metadata partition are complete, and their files whole."""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import METADATA_TABLE, LogFileName, join, parse_data_file
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.metadata.hfile_slices import StoredFile, only_marks, open_log
from pyhudi.metadata.payloads import MetadataPartition
from pyhudi.metadata.visible_instants import is_creation
from pyhudi.records import is_before_all
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog


def in_group_order(
    file_slices: Iterable[FileSlice], partition: MetadataPartition
) -> tuple[FileSlice, ...]:
    """Slices ordered by group number.  Raises CorruptFileError if one is missing."""
    by_number: dict[int | None, FileSlice] = {}
    count = 0
    for file_slice in file_slices:
        by_number[partition.number(file_slice.file_id)] = file_slice
        count += 1
    if count == 0 or by_number.keys() != set(range(count)):
        raise CorruptFileError(
            "the file groups of a metadata partition are incomplete",
            partition=partition.path,
            found=sorted(map(str, by_number)),
            hint="rebuild the metadata table",
        )
    return tuple(by_number[number] for number in range(count))


def check_bases(file_slices: Iterable[FileSlice], layout: TableLayout) -> None:
    """Raise CorruptFileError if a slice lacks its base file.

    A group is created with an empty log: a slice without that log and without a base file follows
    a compaction."""
    for file_slice in file_slices:
        if file_slice.base is not None:
            continue
        time = file_slice.instant
        is_first = any(map(only_marks, file_slice.logs)) or (
            layout.logs_name_slices and (is_before_all(time) or is_creation(time))
        )
        if not is_first:
            raise CorruptFileError(
                "a base file of the metadata table is missing",
                path=join(METADATA_TABLE, file_slice.partition),
                group=file_slice.file_id,
                instant=time,
                hint="run table.metadata.rebuild() or pyhudi repair",
            )


def check_whole(
    file_slices: Iterable[FileSlice],
    written: Iterable[tuple[Instant, WriteStat]],
    log: TimelineLog,
) -> None:
    """Raise CorruptFileError if a file written to a slice is missing, truncated or another: with an
    index that lost keys, the next write would insert them a second time.

    written: files of their partition, with the commits that wrote them.  A log belongs to the slice
    during which its commit completed, where completion times are recorded.  log: of the metadata
    table.  Cost: the blocks of logs that are longer, as a write was appended that did not
    complete."""
    slices = {file_slice.file_id: file_slice for file_slice in file_slices}
    # of a group without a slice, files that are older than all slices: the partition was dropped
    oldest = min((file_slice.instant for file_slice in slices.values()), default=None)
    for commit, stat in written:
        name = parse_data_file(stat.file_name)
        if name is None or oldest is None:
            continue
        file_slice = slices.get(stat.file_id)
        done = commit.completed_at if isinstance(name, LogFileName) else None
        if (done or name.instant) < (file_slice.instant if file_slice else oldest):
            continue
        files = file_slice.files if file_slice else ()
        size = next((file.size_bytes for file in files if file.path == stat.path), -1)
        if size > stat.size_bytes and isinstance(name, LogFileName):
            blocks = open_log(log.fs, StoredFile(stat.path, size)).blocks
            ends = (each.offset + each.size for each in blocks if each.instant == commit.time)
            is_whole = any(end <= stat.size_bytes for end in ends)
        else:
            is_whole = size == stat.size_bytes
        if not is_whole:
            raise CorruptFileError(
                "a file of the metadata table is missing or not as its commit wrote it",
                path=join(METADATA_TABLE, stat.path),
                size_bytes=size if size >= 0 else None,
                written_bytes=stat.size_bytes,
                hint="run table.metadata.rebuild() or pyhudi repair",
            )
