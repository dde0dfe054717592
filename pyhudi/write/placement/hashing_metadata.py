"""Rings of a consistent-hashing bucket index that a write needs, and those it leaves behind.

A partition's first ring may be kept before its write commits, as it says the same whoever makes
it.  A replace commit leaves a ring with other file groups in each partition it empties, as a
group that was replaced is not read any more, whatever is written to it later; the ring counts
once the commit has completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyhudi.errors import OvertakenError, UserError
from pyhudi.index.bucket import BucketRule
from pyhudi.index.consistent_hashing import (
    Ring,
    first_ring,
    load_ring,
    ring_anew,
    ring_of,
    ring_path,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import TableView
from pyhudi.table.timeline_facts import replaced_groups
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.plans.checks import is_partition


def rings_of(
    state: TableState,
    view: TableView,
    rule: BucketRule,
    partitions: Iterable[str],
    *,
    emptied: Sequence[str] = (),
) -> dict[str, Ring]:
    """The ring of each partition; emptied: those whose file groups all leave with this write.

    Raises UserError where a ring names groups that were replaced: what is written there is lost.
    """
    seen = view.visibility
    bases = {group for group, found in view.groups.items() if found.latest_base() is not None}

    def believed(instant: str, ring: Ring) -> bool:
        time = InstantTime(instant)
        if time in seen.completed or not seen.sees(time):
            return time in seen.completed
        return not bases.isdisjoint(ring.groups())  # of an archived commit, or one rolled back

    gone = replaced_groups(state.log, state.timeline)
    rings = {}
    for partition in sorted({*partitions, *emptied}):
        ring = load_ring(state.fs, partition, believed)
        if ring is None:
            ring = first_ring(partition, rule.count)
        elif partition in emptied:
            ring = ring_anew(ring)
        _check_alive(ring, gone.keys())
        rings[partition] = ring
    return rings


def _check_alive(ring: Ring, gone: Iterable[FileGroupId]) -> None:
    dead = sorted({*ring.groups()} & set(gone))
    if dead:
        raise UserError(
            "the partition's hashing metadata names file groups that were replaced",
            partition=ring.partition, file_ids=", ".join(group.file_id for group in dead),
            hint="an insert_overwrite or delete_partition of Apache Hudi did that; what is written "
            "to these groups is not read any more, so copy the rows into a new table",
        )  # fmt: skip


def keep_rings(fs: FileSystem, rings: Iterable[Ring], time: InstantTime) -> None:
    """Keep those rings that are new.  time: of the write.  Raises WriteConflictError where another
    writer has begun the same partition otherwise."""
    for ring in rings:
        if ring.is_kept:
            continue
        named = ring if ring.instant else replace(ring, instant=time)
        if not fs.create(named.path, named.to_json()) and fs.read(named.path) != named.to_json():
            raise OvertakenError(
                "another writer has begun the partition with other buckets",
                path=named.path,
                hint="write again",
            )


def mark_rings(state: TableState, archived: Iterable[Instant]) -> None:
    """Write the commit marker of rings whose replace commits are about to be archived and whose
    buckets have no base file.

    Without a marker every reader accepts an archived ring by a base file of one of its buckets,
    so only an emptied partition needs one.  Markers are written nowhere else: Apache Hudi 0.15.0
    finds no ring at all where the newest marker is older than a ring that is not committed yet,
    and its clustering fails.  Cost: one request for each partition that the instants replaced file
    groups of, and a listing of those partitions where there is a ring.
    """
    rings = []
    for instant in archived:
        for partition in state.log.commit(instant).replaced or {}:
            path = ring_path(partition, instant.time)
            if is_partition(partition) and state.fs.exists(path):
                rings.append(ring_of(state.fs.read(path), path))
    if not rings:
        return
    view = state.view(partitions=sorted({ring.partition for ring in rings}))
    bases = {group for group, found in view.groups.items() if found.latest_base() is not None}
    for ring in rings:
        if bases.isdisjoint(ring.groups()):
            state.fs.create(ring.marker, b"")
