"""The inflight file: how many rows each file group and partition will take.

Source: table_format 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.write.placement.assignment import Target


def profile(
    targets: Iterable[Target],
    operation: str,
    *,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
) -> bytes:
    """The content of the inflight file of a write to `targets`.

    replaced: file groups that it takes out, of which nothing else tells before it is complete.
    """
    fresh: dict[str, int] = {}
    stats = []
    for target in targets:
        if target.insert_count:
            partition = target.group.partition
            fresh[partition] = fresh.get(partition, 0) + target.insert_count
        if target.update_count and target.slice:
            stats.append(_profile_stat(target))
    heads = [WriteStat(p, "", "", None, 0, 0, 0, count, 0, 0) for p, count in sorted(fresh.items())]
    written = CommitMetadata((*heads, *stats), operation=operation, replaced=replaced)
    return written.to_json()


def _profile_stat(target: Target) -> WriteStat:
    assert target.slice is not None
    group = target.group
    return WriteStat(
        group.partition, group.file_id, "", target.slice.instant, 0, 0, target.update_count, 0, 0, 0
    )
