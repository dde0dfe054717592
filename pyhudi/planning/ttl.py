"""Selection of partitions whose time to live (TTL) has passed.  Pure.

The age counts from the last commit that wrote to a partition, or from the one that created it.
Source: Apache Hudi's `PartitionTTLStrategy`; unlike there, a commit that wrote only log files
counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyhudi.options import ExpiryOptions
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import FileSlice


def last_written(
    slices: Iterable[FileSlice], commits: Mapping[str, InstantTime]
) -> dict[str, InstantTime]:
    """Partition -> the newest instant that wrote to it, as far as names of files tell.

    commits: the same from the timeline, for partitions that it still covers.  Log files of version
    6 have the name of their slice's instant.
    """
    newest: dict[str, InstantTime] = {}
    for slice_ in slices:
        written = (slice_.instant, *(log.name.instant for log in slice_.logs))
        newest[slice_.partition] = max(newest.get(slice_.partition, slice_.instant), *written)
    return {path: max(at, commits.get(path, at)) for path, at in newest.items()}


def expired(
    since: Mapping[str, InstantTime], options: ExpiryOptions, *, limit: InstantTime
) -> tuple[str, ...]:
    """Paths whose time is before `limit`, sorted; only the oldest if there are too many."""
    selected = set(options.selected)
    old = [
        (at, path)
        for path, at in since.items()
        if path and at < limit and (not selected or path in selected)
    ]
    return tuple(sorted(path for _, path in sorted(old)[: options.partitions_max]))
