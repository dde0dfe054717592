"""Hash rings of a consistent-hashing bucket index: those a write reads and those it stores.

A partition's first ring may be stored before its write commits, because every writer creates the
same one.  A replace commit stores a ring with new file groups in each partition it empties,
because replaced groups are never read again; the ring takes effect when the commit completes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyhudi.errors import Overtaken, OvertakenError, UserError
from pyhudi.index.bucket import BucketRule
from pyhudi.index.consistent_hashing import (
    Ring,
    first_ring,
    load_ring,
    ring_of,
    ring_path,
    ring_with_new_groups,
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
    """The ring of each partition.  emptied: partitions whose file groups this write replaces.

    Raises UserError if a ring contains replaced groups: rows written to them would be lost; and for
    a partition without a ring that has other file groups: their keys would be written twice.
    """
    seen = view.visibility
    bases = {group for group, found in view.groups.items() if found.latest_base() is not None}

    def committed(instant: str, ring: Ring) -> bool:
        time = InstantTime(instant)
        if time in seen.completed or not seen.sees(time):
            return time in seen.completed
        return not bases.isdisjoint(ring.groups())  # of an archived or rolled-back commit

    gone = replaced_groups(state.log, state.timeline)
    rings = {}
    for partition in sorted({*partitions, *emptied}):
        ring = load_ring(state.fs, partition, committed)
        if ring is None:
            ring = first_ring(partition, rule.count)
            if partition not in emptied:
                _check_only_buckets(ring, view)
        elif partition in emptied:
            ring = ring_with_new_groups(ring)
        _check_not_replaced(ring, gone.keys())
        rings[partition] = ring
    return rings


def _check_only_buckets(ring: Ring, view: TableView) -> None:
    found = {each.group for each in view.latest_slices() if each.partition == ring.partition}
    strange = sorted(found.difference(ring.groups()))
    if strange:
        raise UserError(
            "the partition has file groups but no hashing metadata",
            partition=ring.partition,
            file_ids=", ".join(group.file_id for group in strange[:3]),
            hint="its writers use another index: leave hoodie.index.type and "
            "hoodie.index.bucket.engine out, or set them to the table's values",
        )


def _check_not_replaced(ring: Ring, gone: Iterable[FileGroupId]) -> None:
    replaced = sorted({*ring.groups()} & set(gone))
    if replaced:
        raise UserError(
            "the partition's hashing metadata contains replaced file groups",
            partition=ring.partition,
            file_ids=", ".join(group.file_id for group in replaced),
            hint="caused by an insert_overwrite or delete_partition of Apache Hudi; rows written "
            "to these groups are never read, so copy the rows into a new table",
        )


def store_rings(fs: FileSystem, rings: Iterable[Ring], time: InstantTime) -> Overtaken | None:
    """Store the rings that are new.  time: of the write.  Stops and returns the reason if another
    writer has created the same partition with another ring."""
    for ring in rings:
        if ring.is_stored:
            continue
        named = ring if ring.instant else replace(ring, instant=time)
        if not fs.create(named.path, named.to_json()) and fs.read(named.path) != named.to_json():
            error = OvertakenError(
                "another writer created the partition with different buckets",
                path=named.path,
                hint="write again",
            )
            return Overtaken(error)
    return None


def mark_rings(state: TableState, archived: Iterable[Instant]) -> None:
    """Write the commit marker of rings whose replace commits are about to be archived and whose
    buckets have no base file.

    Without a marker, readers accept an archived ring if one of its buckets has a base file, so
    only an emptied partition needs a marker.  Markers are written nowhere else: if the newest
    marker is older than a ring that is not committed yet, Apache Hudi 0.15.0 finds no ring and
    its clustering fails.  Cost: one request per partition in which the instants replaced file
    groups, and a listing of those partitions that have a ring.
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
