"""Which partitions have lived long enough.  Pure.

The age counts from the last commit that wrote to a partition, or from the one that made it.
Source: Apache Hudi's `PartitionTTLStrategy`; a commit that only wrote logs counts here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyhudi.options import ExpiryOptions
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import FileSlice


def last_written(
    slices: Iterable[FileSlice], commits: Mapping[str, InstantTime]
) -> dict[str, InstantTime]:
    """Partition -> the newest instant that wrote to it.

    commits: the same as the timeline tells it, where it still does: logs do not name their commit.
    """
    newest: dict[str, InstantTime] = {}
    for piece in slices:
        known = newest.get(piece.partition, piece.instant)
        newest[piece.partition] = max(known, piece.instant)
    return {path: max(at, commits.get(path, at)) for path, at in newest.items()}


def expired(
    since: Mapping[str, InstantTime], options: ExpiryOptions, *, limit: InstantTime
) -> tuple[str, ...]:
    """Paths in order, the oldest if there are too many: those whose time is before `limit`."""
    wanted = set(options.selected)
    old = [
        (at, path)
        for path, at in since.items()
        if path and at < limit and (not wanted or path in wanted)
    ]
    return tuple(sorted(path for _, path in sorted(old)[: options.partitions_max]))
