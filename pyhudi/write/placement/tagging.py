"""Tagging of rows: one row per record, with the file group it belongs to.

There is one task per index bucket of the batch.  It gathers the keys of its partition, retains
one row per record, queries the index, and determines the destination of each retained row.

Columns of the staged tags:
`part: int32`, `row: int32`, `home: int32` (position in `homes`; -1: a new record),
`path: int32` (position in `paths`), `action: uint8` (RowAction), and where the index knows it
`position: int32` (row of the stored record in the base file, or UNKNOWN).
Rows are grouped by home, in order of homes, then new rows by path, in order of paths; within a
group they are ordered by (part, row).  A target's rows are therefore a few slices.

An index that is maintained in addition to the queried one has a separate column in the tags,
`entry-<its name>: uint8`: 0, the row changes none of its entries; 1, the row adds or removes an
entry; REPLACES, the row replaces an entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Ints, Mask
from pyhudi.errors import UserError
from pyhudi.index.bucket import BucketFinder
from pyhudi.index.consistent_hashing import RingFinder
from pyhudi.index.contract import UNKNOWN, Finder, Located, StatedFinder, path_codes
from pyhudi.index.known_places import KnownPlaces
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.options import IndexKind
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.spill import Staged
from pyhudi.write.input.deduplicate import (
    DELETED,
    ExistingKeyPolicy,
    Gathered,
    GatheredRows,
    GatherTask,
    TagPlan,
    deduplicate,
)

NEW: Final = -1
REPLACES: Final = 2
RECORDS: Final = "record"
"""Name of the record index among the additionally maintained indexes."""


def entry_column(index: str) -> str:
    """The tag column with the entry changes of an additionally maintained index."""
    return f"entry-{index}"


class RowAction(IntEnum):
    """Effect of a tagged row on its file group."""

    PUT = 0
    DELETE = 1
    LEAVE = 2  # the record moves to another partition: delete it where it was


@dataclass(frozen=True, slots=True)
class TagTask:
    """Input of the task of one index bucket.

    finder: the queried index; None if none is queried.  additional: more indexes by name, which are
    compared with it, and updated if they have entries.  gathered: the partition's rows, if
    already gathered.  places: file groups of new rows, if their keys determine them and the
    finder does not.
    """

    plan: TagPlan
    bucket: int
    finder: Finder | None
    additional: tuple[tuple[str, Finder], ...] = ()
    gathered: Gathered | None = None
    places: Finder | None = None


@dataclass(frozen=True, slots=True)
class BucketTags:
    """Destinations of the rows of one index bucket, and counts for planning.

    update_counts, insert_counts: indexed like `homes`, `paths`.  folded: rows merged from several
    rows of the batch; tags refer to them by part number = number of parts + bucket number.
    """

    bucket: int
    tags: Staged
    homes: tuple[FileGroupId, ...]
    paths: tuple[str, ...]
    update_counts: tuple[int, ...]
    insert_counts: tuple[int, ...]
    contested: tuple[int, ...]  # positions in homes with rows whose effect depends on stored order
    duplicate_count: int = 0
    missing_count: int = 0
    delete_count: int = 0
    entry_count: int = 0  # rows whose entry in an additional index changes
    mismatches: tuple[tuple[str, int], ...] = ()  # rows that an additional index has elsewhere
    stayed_count: int = 0  # rows written to the partition of their record, not the one they state
    known: KnownPlaces | None = None  # of the rows, if the plan only finds them
    folded: Staged | None = None
    lookup: LookupCost | None = None


@dataclass(slots=True)
class _Tags:
    """Tags under construction, by column.  at: their rows in the gathered partition."""

    at: npt.NDArray[np.int64]
    home: Ints
    action: npt.NDArray[np.uint8]
    entries: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    position: Ints | None = None

    def sorted_by(self, order: npt.NDArray[np.int64]) -> _Tags:
        entries = {name: entry[order] for name, entry in self.entries.items()}
        position = None if self.position is None else self.position[order]
        return _Tags(self.at[order], self.home[order], self.action[order], entries, position)


def tag_bucket(task: TagTask) -> BucketTags:
    """Tag the rows of one index bucket.  Raises UserError for a key that the record index maps
    to another partition, if it is maintained in addition to an index that is not global."""
    plan = task.plan
    if task.gathered is None:
        found_rows = deduplicate(GatherTask(plan, task.bucket))
    else:
        done = task.gathered
        found_rows = GatheredRows(done.rows.load(), done.duplicate_count, done.folded)
    rows, duplicates = found_rows.rows, found_rows.duplicate_count
    path, paths = path_codes(rows.column(PARTITION_PATH))
    deleted = np.asarray(rows.column(DELETED).to_numpy(), np.bool_)
    located = Located.nothing() if task.finder is None else task.finder.locate(plan.fs, rows)
    cost = located.cost
    found = np.zeros(len(path), np.bool_)
    found[located.found] = True
    stayed = 0
    if plan.known is ExistingKeyPolicy.REFUSE and found.any():
        key = rows.column(RECORD_KEY)[int(np.argmax(found))].as_py()
        raise UserError(
            "a key to insert already exists in the table",
            key=key,
            hint="upsert, or drop such rows with hoodie.datasource.insert.dup.policy=drop",
        )
    if plan.known is ExistingKeyPolicy.REQUIRE:
        _check_known(rows, found | deleted)
    if not plan.known.updates:
        ended = located.only_ended()
        located = ended if task.places is None else task.places.locate(plan.fs, rows)
        tags = _new_only(~found & ~deleted, located)
        duplicates += int(found.sum())
    else:
        tags = _tags(plan, located, path, paths, deleted)
        if not plan.moves and located.groups:
            elsewhere = _elsewhere(located, path, paths) & ~deleted[located.rows]
            stayed = len(np.unique(located.rows[elsewhere]))
        if plan.known is ExistingKeyPolicy.REQUIRE:
            _check_known(rows, ~np.isin(np.arange(len(path)), tags.at[tags.home == NEW]))
    mismatches = []
    for name, finder in task.additional:
        entry, count = _entries(task, name, finder, rows, tags, located)
        mismatches.append((name, count))
        if IndexKind(name).stores_entries:
            tags.entries[name] = entry
    known = None
    if plan.finds_only and not isinstance(task.finder, BucketFinder | RingFinder | None):
        known = KnownPlaces.of(rows, located, plan.staging, everywhere=plan.everywhere)
    missing = int((deleted & ~found).sum())
    places, counts = (located.groups, path, paths), (duplicates, missing)
    summary = _summary(task, rows, tags, places, counts)
    return replace(
        summary,
        folded=found_rows.folded,
        mismatches=tuple(mismatches),
        stayed_count=stayed,
        known=known,
        lookup=cost,
    )


def _check_known(rows: pa.Table, known: Mask) -> None:
    """Raise UserError for a row of a partial update that has no stored record in its partition."""
    if not known.all():
        at = int(np.argmin(known))
        raise UserError(
            "a partial update of a record that is not stored in the partition of the row",
            key=rows.column(RECORD_KEY)[at].as_py(),
            rows=int((~known).sum()),
            hint="insert whole rows first, without hoodie.write.partial.update.schema",
        )


def _new_only(fresh: Mask, places: Located) -> _Tags:
    """Tags of new rows, with their file groups if determined."""
    home = np.full(len(fresh), NEW, np.int32)
    home[places.rows] = places.homes
    at = np.flatnonzero(fresh)
    tags = _Tags(at, home[at], np.full(len(at), RowAction.PUT, np.uint8))
    if places.positions is not None:
        position = np.full(len(fresh), UNKNOWN, np.int32)
        position[places.rows] = places.positions
        tags.position = position[at]
    return tags


def _tags(
    plan: TagPlan, located: Located, path: Ints, paths: tuple[str, ...], deleted: Mask
) -> _Tags:
    """One tag per place of a row, and one per row that is new at its destination."""
    at, home = located.rows, located.homes
    gone = deleted[at]
    leaves = np.zeros(len(at), np.bool_)
    if plan.moves and located.groups:
        leaves = ~gone & _elsewhere(located, path, paths)
    stays = deleted.copy()
    stays[at[~leaves]] = True
    fresh = np.flatnonzero(~stays)
    action = np.where(gone, np.uint8(RowAction.DELETE), np.uint8(RowAction.PUT))
    action[leaves] = RowAction.LEAVE
    if not len(fresh):
        return _Tags(at, home, action, position=located.positions)
    tags = _Tags(
        np.concatenate([at, fresh]),
        np.concatenate([home, np.full(len(fresh), NEW, np.int32)]),
        np.concatenate([action, np.full(len(fresh), RowAction.PUT, np.uint8)]),
    )
    if located.positions is not None:
        unknown = np.full(len(fresh), UNKNOWN, np.int32)
        tags.position = np.concatenate([located.positions, unknown])
    if not len(at):
        return tags
    return tags.sorted_by(np.argsort(tags.at, kind="stable"))


def _elsewhere(located: Located, path: Ints, paths: tuple[str, ...]) -> Mask:
    """Mask of the places that are not in the partition that their row states."""
    numbers = {name: number for number, name in enumerate(paths)}
    place = np.array([numbers.get(group.partition, -1) for group in located.groups], np.int32)
    return np.asarray(place[located.homes] != path[located.rows], np.bool_)


def _entries(
    task: TagTask, name: str, finder: Finder, rows: pa.Table, tags: _Tags, located: Located
) -> tuple[npt.NDArray[np.uint8], int]:
    """(tags that change an additional index, the number of rows the two indexes place
    differently).  Puts that it has elsewhere or not at all change it, and deletes of its keys."""
    known = finder.locate(task.plan.fs, rows)
    numbers = {group: number for number, group in enumerate(known.groups)}
    same = np.array([*(numbers.get(group, -1) for group in located.groups), -1], np.int64)
    if known.ended is not None:
        known = Located(known.found, known.homes[~known.ended], known.groups)
    stated = np.full(rows.num_rows, NEW, np.int32)
    stated[known.rows] = known.homes
    there = stated[tags.at]
    if not task.plan.is_global and IndexKind(name).is_global:
        _check_one_partition(name, rows, tags, there, known.groups)
    width = max(1, len(known.groups))
    place = same[tags.home]
    match = (place >= 0) & np.isin(tags.at * width + place, known.rows * width + known.homes)
    ends = match if not task.plan.copies else (there != NEW) & _first_of_each(tags.at)
    if task.plan.copies and not IndexKind(name).is_global:
        ends = np.ones(len(there), np.bool_)  # in each partition; an entry may be removed twice
    changed = np.where(
        tags.action == RowAction.PUT, ~match, ends & (tags.action == RowAction.DELETE)
    )
    computed = isinstance(task.finder, BucketFinder | RingFinder | StatedFinder)
    looked_up = not computed and task.plan.known.updates and not task.plan.copies
    mismatches = _mismatches(tags, located, match, there != NEW) if looked_up else 0
    entry = changed.astype(np.uint8)
    entry[changed & (there != NEW)] = REPLACES
    return entry, mismatches


def _first_of_each(rows: npt.NDArray[np.int64]) -> Mask:
    """Mask of the first of each distinct number, for ascending row numbers."""
    return np.concatenate([np.ones(min(1, len(rows)), np.bool_), rows[1:] != rows[:-1]])


def _mismatches(tags: _Tags, located: Located, match: Mask, listed: Mask) -> int:
    """Number of rows that the two indexes place differently or only one has.  A row with copies
    matches if one copy does; a row deleted by a log has no entry in the record index."""
    stored = tags.home != NEW
    if located.ended is not None:
        stored &= ~np.isin(tags.at, located.rows[located.ended])
    differs = stored & ~np.isin(tags.at, tags.at[stored & match])
    differs |= (tags.home == NEW) & listed & ~np.isin(tags.at, tags.at[stored])
    return len(np.unique(tags.at[differs]))


def _check_one_partition(
    name: str, rows: pa.Table, tags: _Tags, there: Ints, groups: tuple[FileGroupId, ...]
) -> None:
    """Raise UserError for a key that is new in its partition but indexed in another."""
    path, paths = path_codes(rows.column(PARTITION_PATH))
    numbers = {name: number for number, name in enumerate(paths)}
    place = np.array([*(numbers.get(group.partition, -1) for group in groups), -1], np.int32)
    puts = (tags.action == RowAction.PUT) & (there != NEW)
    wrong = np.flatnonzero(puts & (place[there] != path[tags.at]))
    if len(wrong):
        at = int(tags.at[wrong[0]])
        raise UserError(
            f"a key has another partition than in the {name} index",
            key=rows.column(RECORD_KEY)[at].as_py(),
            partition=paths[path[at]],
            stored_in=groups[there[wrong[0]]].partition,
            hint="that index has one entry per key: use a global index, or do not use it (drop "
            "record_index, or pyhudi.index.shadow)",
        )


def _summary(
    task: TagTask,
    rows: pa.Table,
    tags: _Tags,
    places: tuple[tuple[FileGroupId, ...], Ints, tuple[str, ...]],
    counts: tuple[int, int],
) -> BucketTags:
    homes, path, paths = places
    groups = np.where(tags.home >= 0, tags.home, np.int32(len(homes)) + path[tags.at])
    if len(homes) + len(paths) <= np.iinfo(np.uint16).max:
        groups = groups.astype(np.uint16)  # enables radix sort
    tags = tags.sorted_by(np.argsort(groups, kind="stable"))
    columns: dict[str, Any] = {
        name: rows.column(name).to_numpy()[tags.at] for name in ("part", "row")
    }
    columns |= {"home": tags.home, "path": path[tags.at], "action": tags.action}
    columns |= {entry_column(name): entry for name, entry in tags.entries.items()}
    if tags.position is not None:
        columns["position"] = tags.position
    known = tags.home >= 0
    contested = known & _contested(task.plan, tags.action)
    return BucketTags(
        task.bucket,
        task.plan.staging.put(f"tags-{task.bucket:05d}", pa.table(columns)),
        homes,
        paths,
        tuple(np.bincount(tags.home[known], minlength=len(homes)).tolist()),
        tuple(np.bincount(columns["path"][~known], minlength=len(paths)).tolist()),
        tuple(np.unique(tags.home[contested]).tolist()),
        *counts,
        int((tags.action == RowAction.DELETE).sum()),
        sum(int(np.count_nonzero(entry)) for entry in tags.entries.values()),
    )


def _contested(plan: TagPlan, action: npt.NDArray[np.uint8]) -> Mask:
    """Rows whose effect on the index depends on stored records.

    Deletes by key are not compared with them, nor are deletes under rules where deletes always
    win.
    """
    if plan.skips_unchanged:
        return np.ones(len(action), np.bool_)
    rules = plan.rules
    if plan.deletes_all or rules is None or not rules.is_event_time:
        return np.zeros(len(action), np.bool_)
    if rules.deletes_always_win:
        return np.zeros(len(action), np.bool_)
    return np.asarray(action != RowAction.PUT, np.bool_)
