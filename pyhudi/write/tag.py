"""Tagging: one record of each key, and the file group it belongs to.

One task per hash part of the batch.  It gathers the keys of its part, keeps one row a record,
asks the index, and says for each row kept where it goes.

Columns of the tags put aside:
`part: int32`, `row: int32`, `home: int32` (position in `homes`; -1: a new record),
`path: int32` (position in `paths`), `action: uint8` (Action).
Rows of one home stand together, homes in order; then new rows, those of one path together, paths
in order.  Within these, in order of (part, row).  So a target's rows are a few slices.

A table with a record index that is written by another index keeps both in step: the tags have
a column `entry: bool` then, whether the row's entry is written or ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import UserError
from pyhudi.index.contract import Finder, Located, path_codes
from pyhudi.index.probe import HitsFinder
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.write.gather import (
    DELETED,
    Duplicates,
    Gathered,
    GatheredRows,
    GatherTask,
    Known,
    TagPlan,
    gather,
)
from pyhudi.write.staging import Staged

Ints = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
NEW: Final = -1


class Action(IntEnum):
    """What a tagged row does to its file group."""

    PUT = 0
    DELETE = 1
    LEAVE = 2  # the record moves to another partition: delete it where it was


@dataclass(frozen=True, slots=True)
class TagTask:
    """What one part's task needs.

    finder: the index; None where none is asked.  listed: the record index to keep in step, where
    another is asked.  gathered: the part's rows, if that step was done before.  places: where new
    rows go, if their keys say so and the finder does not.
    """

    plan: TagPlan
    shard: int
    finder: Finder | None
    listed: Finder | None = None
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
    mismatch_count: int = 0  # rows that the index kept in step places elsewhere than the one asked
    folded: Staged | None = None


@dataclass(slots=True)
class _Tags:
    """Tags being made, a column each; at: their rows in the gathered part."""

    at: npt.NDArray[np.int64]
    home: Ints
    action: npt.NDArray[np.uint8]
    entry: Mask | None = None

    def sorted_by(self, order: npt.NDArray[np.int64]) -> _Tags:
        entry = None if self.entry is None else self.entry[order]
        return _Tags(self.at[order], self.home[order], self.action[order], entry)


def tag_shard(task: TagTask) -> ShardTags:
    """Tag the rows of one part.  Raises UserError for a key that the record index has elsewhere,
    if it is to be kept in step with an index that is not global."""
    plan = task.plan
    if task.gathered is None:
        found_rows = gather(GatherTask(plan, task.shard))
    else:
        done = task.gathered
        found_rows = GatheredRows(done.rows.load(), done.duplicate_count, done.folded)
    rows, duplicates = found_rows.rows, found_rows.duplicate_count
    path, paths = path_codes(rows.column(PARTITION_PATH))
    deleted = np.asarray(rows.column(DELETED).to_numpy(), np.bool_)
    located = Located.nothing() if task.finder is None else task.finder.locate(plan.fs, rows)
    found = np.zeros(len(path), np.bool_)
    found[located.found] = True
    if plan.known is Known.REFUSE and found.any():
        key = rows.column(RECORD_KEY)[int(np.argmax(found))].as_py()
        raise UserError(
            "a key to insert is in the table", key=key,
            hint="upsert, or drop such rows with hoodie.datasource.insert.dup.policy=drop",
        )  # fmt: skip
    if plan.known is not Known.UPDATE:
        ended = located.only_ended()
        located = ended if task.places is None else task.places.locate(plan.fs, rows)
        tags = _new_only(~found & ~deleted, located)
        duplicates += int(found.sum())
    else:
        tags = _tags(plan, located, path, paths, deleted)
    mismatches = 0
    if task.listed is not None:
        tags.entry, mismatches = _entries(task, rows, tags, located)
    missing = int((deleted & ~found).sum())
    places, counts = (located.groups, path, paths), (duplicates, missing)
    summary = _summary(task, rows, tags, places, counts)
    return replace(summary, folded=found_rows.folded, mismatch_count=mismatches)


def _new_only(fresh: Mask, places: Located) -> _Tags:
    """Tags of new rows: to their places, as far as they have some."""
    home = np.full(len(fresh), NEW, np.int32)
    home[places.rows] = places.homes
    at = np.flatnonzero(fresh)
    return _Tags(at, home[at], np.full(len(at), Action.PUT, np.uint8))


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
    action = np.where(gone, np.uint8(Action.DELETE), np.uint8(Action.PUT))
    action[leaves] = Action.LEAVE
    if not len(fresh):
        return _Tags(at, home, action)
    tags = _Tags(
        np.concatenate([at, fresh]),
        np.concatenate([home, np.full(len(fresh), NEW, np.int32)]),
        np.concatenate([action, np.full(len(fresh), Action.PUT, np.uint8)]),
    )
    if not len(at):
        return tags
    return tags.sorted_by(np.argsort(tags.at, kind="stable"))


def _entries(task: TagTask, rows: pa.Table, tags: _Tags, located: Located) -> tuple[Mask, int]:
    """(which tags change the record index: puts it has elsewhere or not at all, and deletes of
    what it has; how many rows the two indexes place differently)."""
    assert task.listed is not None
    known = task.listed.locate(task.plan.fs, rows)
    stated = np.full(rows.num_rows, NEW, np.int32)
    stated[known.rows] = known.homes
    numbers = {group: number for number, group in enumerate(known.groups)}
    same = np.array([*(numbers.get(group, -2) for group in located.groups), -2], np.int32)[
        tags.home
    ]
    there = stated[tags.at]
    if not task.plan.is_global:
        _check_one_partition(rows, tags, there, known.groups)
    match = same == there
    changed = np.where(tags.action == Action.PUT, ~match, match & (tags.action == Action.DELETE))
    looked_up = isinstance(task.finder, HitsFinder) and task.plan.known is Known.UPDATE
    mismatches = _mismatches(tags, located, match, there != NEW) if looked_up else 0
    return np.asarray(changed, np.bool_), mismatches


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
    rows: pa.Table, tags: _Tags, there: Ints, groups: tuple[FileGroupId, ...]
) -> None:
    """A key that is new in one partition must not be known in another."""
    path, paths = path_codes(rows.column(PARTITION_PATH))
    numbers = {name: number for number, name in enumerate(paths)}
    place = np.array([*(numbers.get(group.partition, -1) for group in groups), -1], np.int32)
    puts = (tags.action == Action.PUT) & (there != NEW)
    wrong = np.flatnonzero(puts & (place[there] != path[tags.at]))
    if len(wrong):
        at = int(tags.at[wrong[0]])
        raise UserError(
            "a key comes with another partition than the record index has it in",
            key=rows.column(RECORD_KEY)[at].as_py(),
            partition=paths[path[at]],
            stored_in=groups[there[wrong[0]]].partition,
            hint="the record index has one place a key: use a global index, or drop record_index",
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
    if tags.entry is not None:
        columns["entry"] = tags.entry
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
        int((tags.action == Action.DELETE).sum()),
        0 if tags.entry is None else int(tags.entry.sum()),
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
    return np.asarray(action != Action.PUT, np.bool_)


__all__ = ["NEW", "Action", "Duplicates", "Known", "ShardTags", "TagPlan", "TagTask", "tag_shard"]
