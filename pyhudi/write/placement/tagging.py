"""Tagging: one record of each key, and the file group it belongs to.

One task per hash part of the batch.  It gathers the keys of its part, keeps one row a record,
asks the index, and says for each row kept where it goes.

Columns of the tags put aside:
`part: int32`, `row: int32`, `home: int32` (position in `homes`; -1: a new record),
`path: int32` (position in `paths`), `action: uint8` (Action).
Rows of one home stand together, homes in order; then new rows, those of one path together, paths
in order.  Within these, in order of (part, row).  So a target's rows are a few slices.

An index that is kept in step with the one that was asked has a column of its own in the tags,
`entry-<its name>: uint8`: 0, the row changes no entry of it; 1, it writes one, or ends it; HELD, it
writes one in place of another.
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
from pyhudi.index.contract import Finder, Located, path_codes
from pyhudi.index.stated import StatedFinder
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.options import IndexKind
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.spill import Staged
from pyhudi.write.input.deduplicate import (
    DELETED,
    Duplicates,
    ExistingKeyPolicy,
    Gathered,
    GatheredRows,
    GatherTask,
    TagPlan,
    deduplicate,
)

NEW: Final = -1
HELD: Final = 2
RECORDS: Final = "record"
"""Name of the record index among those kept in step."""


def entry_column(index: str) -> str:
    """The column of the tags that tells an index kept in step what changes."""
    return f"entry-{index}"


class RowAction(IntEnum):
    """What a tagged row does to its file group."""

    PUT = 0
    DELETE = 1
    LEAVE = 2  # the record moves to another partition: delete it where it was


@dataclass(frozen=True, slots=True)
class TagTask:
    """What one part's task needs.

    finder: the index; None where none is asked.  beside: others by name, which are compared with
    it, and kept in step where they keep entries.  gathered: the part's rows, if that step was done
    before.  places: where new rows go, if their keys say so and the finder does not.
    """

    plan: TagPlan
    shard: int
    finder: Finder | None
    beside: tuple[tuple[str, Finder], ...] = ()
    gathered: Gathered | None = None
    places: Finder | None = None


@dataclass(frozen=True, slots=True)
class ShardTags:
    """Where the rows of one part go, and the counts a plan needs.

    update_counts, insert_counts are indexed as `homes`, `paths`.  folded: rows that came of
    several of the batch; tags name them by the number of parts plus the shard's.
    """

    shard: int
    tags: Staged
    homes: tuple[FileGroupId, ...]
    paths: tuple[str, ...]
    update_counts: tuple[int, ...]
    insert_counts: tuple[int, ...]
    contested: tuple[int, ...]  # positions in homes with rows whose effect depends on stored order
    duplicate_count: int = 0
    missing_count: int = 0
    delete_count: int = 0
    entry_count: int = 0  # rows of an index kept in step whose entry changes
    mismatches: tuple[tuple[str, int], ...] = ()  # rows that an index beside has elsewhere
    folded: Staged | None = None
    lookup: LookupCost | None = None


@dataclass(slots=True)
class _Tags:
    """Tags being made, a column each; at: their rows in the gathered part."""

    at: npt.NDArray[np.int64]
    home: Ints
    action: npt.NDArray[np.uint8]
    entries: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    def sorted_by(self, order: npt.NDArray[np.int64]) -> _Tags:
        entries = {name: entry[order] for name, entry in self.entries.items()}
        return _Tags(self.at[order], self.home[order], self.action[order], entries)


def tag_shard(task: TagTask) -> ShardTags:
    """Tag the rows of one part.  Raises UserError for a key that the record index has elsewhere,
    if it is to be kept in step with an index that is not global."""
    plan = task.plan
    if task.gathered is None:
        found_rows = deduplicate(GatherTask(plan, task.shard))
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
    if plan.known is ExistingKeyPolicy.REFUSE and found.any():
        key = rows.column(RECORD_KEY)[int(np.argmax(found))].as_py()
        raise UserError(
            "a key to insert is in the table", key=key,
            hint="upsert, or drop such rows with hoodie.datasource.insert.dup.policy=drop",
        )  # fmt: skip
    if plan.known is not ExistingKeyPolicy.UPDATE:
        ended = located.only_ended()
        located = ended if task.places is None else task.places.locate(plan.fs, rows)
        tags = _new_only(~found & ~deleted, located)
        duplicates += int(found.sum())
    else:
        tags = _tags(plan, located, path, paths, deleted)
    mismatches = []
    for name, finder in task.beside:
        entry, count = _entries(task, name, finder, rows, tags, located)
        mismatches.append((name, count))
        if IndexKind(name).keeps_entries:
            tags.entries[name] = entry
    missing = int((deleted & ~found).sum())
    places, counts = (located.groups, path, paths), (duplicates, missing)
    summary = _summary(task, rows, tags, places, counts)
    return replace(summary, folded=found_rows.folded, mismatches=tuple(mismatches), lookup=cost)


def _new_only(fresh: Mask, places: Located) -> _Tags:
    """Tags of new rows: to their places, as far as they have some."""
    home = np.full(len(fresh), NEW, np.int32)
    home[places.rows] = places.homes
    at = np.flatnonzero(fresh)
    return _Tags(at, home[at], np.full(len(at), RowAction.PUT, np.uint8))


def _tags(
    plan: TagPlan, located: Located, path: Ints, paths: tuple[str, ...], deleted: Mask
) -> _Tags:
    """A tag for each place of a row, and one for each row that is new where it goes."""
    at, home = located.rows, located.homes
    gone = deleted[at]
    leaves = np.zeros(len(at), np.bool_)
    if plan.moves and located.groups:
        numbers = {name: number for number, name in enumerate(paths)}
        place = np.array([numbers.get(group.partition, -1) for group in located.groups], np.int32)
        leaves = ~gone & (place[home] != path[at])
    stays = deleted.copy()
    stays[at[~leaves]] = True
    fresh = np.flatnonzero(~stays)
    action = np.where(gone, np.uint8(RowAction.DELETE), np.uint8(RowAction.PUT))
    action[leaves] = RowAction.LEAVE
    if not len(fresh):
        return _Tags(at, home, action)
    tags = _Tags(
        np.concatenate([at, fresh]),
        np.concatenate([home, np.full(len(fresh), NEW, np.int32)]),
        np.concatenate([action, np.full(len(fresh), RowAction.PUT, np.uint8)]),
    )
    if not len(at):
        return tags
    return tags.sorted_by(np.argsort(tags.at, kind="stable"))


def _entries(
    task: TagTask, name: str, finder: Finder, rows: pa.Table, tags: _Tags, located: Located
) -> tuple[npt.NDArray[np.uint8], int]:
    """(which tags change an index beside: puts it has elsewhere or not at all, and deletes of
    what it has; how many rows the two indexes place differently)."""
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
    changed = np.where(
        tags.action == RowAction.PUT, ~match, ends & (tags.action == RowAction.DELETE)
    )
    computed = isinstance(task.finder, BucketFinder | RingFinder | StatedFinder)
    looked_up = (
        not computed and task.plan.known is ExistingKeyPolicy.UPDATE and not task.plan.copies
    )
    mismatches = _mismatches(tags, located, match, there != NEW) if looked_up else 0
    entry = changed.astype(np.uint8)
    entry[changed & (there != NEW)] = HELD
    return entry, mismatches


def _first_of_each(rows: npt.NDArray[np.int64]) -> Mask:
    """Of ascending row numbers, the first of each."""
    return np.concatenate([np.ones(min(1, len(rows)), np.bool_), rows[1:] != rows[:-1]])


def _mismatches(tags: _Tags, located: Located, match: Mask, listed: Mask) -> int:
    """Rows that one index knows and the other does not, or has elsewhere.  A row with copies is
    right where one of them is; one that a log deleted has no place in the record index."""
    stored = tags.home != NEW
    if located.ended is not None:
        stored &= ~np.isin(tags.at, located.rows[located.ended])
    differs = stored & ~np.isin(tags.at, tags.at[stored & match])
    differs |= (tags.home == NEW) & listed & ~np.isin(tags.at, tags.at[stored])
    return len(np.unique(tags.at[differs]))


def _check_one_partition(
    name: str, rows: pa.Table, tags: _Tags, there: Ints, groups: tuple[FileGroupId, ...]
) -> None:
    """A key that is new in one partition must not be known in another."""
    path, paths = path_codes(rows.column(PARTITION_PATH))
    numbers = {name: number for number, name in enumerate(paths)}
    place = np.array([*(numbers.get(group.partition, -1) for group in groups), -1], np.int32)
    puts = (tags.action == RowAction.PUT) & (there != NEW)
    wrong = np.flatnonzero(puts & (place[there] != path[tags.at]))
    if len(wrong):
        at = int(tags.at[wrong[0]])
        raise UserError(
            f"a key comes with another partition than the {name} index has it in",
            key=rows.column(RECORD_KEY)[at].as_py(),
            partition=paths[path[at]],
            stored_in=groups[there[wrong[0]]].partition,
            hint="that index has one place a key: use a global index, or leave it out (drop "
            "record_index, or pyhudi.index.tee)",
        )


def _summary(
    task: TagTask,
    rows: pa.Table,
    tags: _Tags,
    places: tuple[tuple[FileGroupId, ...], Ints, tuple[str, ...]],
    counts: tuple[int, int],
) -> ShardTags:
    homes, path, paths = places
    groups = np.where(tags.home >= 0, tags.home, np.int32(len(homes)) + path[tags.at])
    if len(homes) + len(paths) <= np.iinfo(np.uint16).max:
        groups = groups.astype(np.uint16)  # sorted by radix
    tags = tags.sorted_by(np.argsort(groups, kind="stable"))
    columns: dict[str, Any] = {
        name: rows.column(name).to_numpy()[tags.at] for name in ("part", "row")
    }
    columns |= {"home": tags.home, "path": path[tags.at], "action": tags.action}
    columns |= {entry_column(name): entry for name, entry in tags.entries.items()}
    known = tags.home >= 0
    contested = known & _contested(task.plan, tags.action)
    return ShardTags(
        task.shard,
        task.plan.staging.put(f"tags-{task.shard:05d}", pa.table(columns)),
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
    """Rows whose effect on the index depends on what is stored.

    A delete by key is not compared with it, nor is one under rules by which deletes always win.
    """
    if plan.skips_unchanged:
        return np.ones(len(action), np.bool_)
    rules = plan.rules
    if plan.deletes_all or rules is None or not rules.is_event_time or rules.beneath:
        return np.zeros(len(action), np.bool_)
    return np.asarray(action != RowAction.PUT, np.bool_)


__all__ = [
    "NEW",
    "Duplicates",
    "ExistingKeyPolicy",
    "RowAction",
    "ShardTags",
    "TagPlan",
    "TagTask",
    "tag_shard",
]
