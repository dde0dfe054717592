"""Uniqueness of record keys in a table, as far as its commits prove it.

A record index stores one location for each key.  Where a key may have several rows (inserts and
bulk inserts do not look keys up, an index that is not global does not look in other partitions) its
entry locates only one of them, and must not be used to skip files.

A commit preserves uniqueness if it adds no key that the table has.  That is known for services and
deletes, upserts into a table without partitions, and commits that record it in their metadata:

    pyhudi.record.keys = looked-up   this commit adds no key that the table had
    pyhudi.record.keys = unique      every key has one row in the table as of this commit; no older
                                     write was pending, so no older commit needs to be checked
"""

from __future__ import annotations

from typing import Final

from pyhudi.read.table_snapshot import TableState
from pyhudi.table.properties import KeyGeneratorKind
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import WRITES
from pyhudi.timeline.timeline import Timeline

KEYS: Final = "pyhudi.record.keys"
LOOKED_UP: Final = "looked-up"
UNIQUE: Final = "unique"

_ADD_NONE: Final = frozenset(
    {"COMPACT", "CLUSTER", "LOG_COMPACT", "DELETE", "DELETE_PREPPED", "DELETE_PARTITION",
     "ALTER_SCHEMA", "INDEX"}
)  # fmt: skip
_LOOK_UP: Final = frozenset({"UPSERT", "UPSERT_PREPPED"})


def keys_are_unique(state: TableState, timeline: Timeline | None = None) -> bool:
    """Whether it is certain that no record key has rows in two file groups.

    timeline: of the commits to check; None: that of the state.  Reads the newest commit's metadata,
    and older ones back to one that is marked `unique`; never the archive.
    """
    for instant in reversed((timeline or state.timeline).commits.instants):
        commit = state.log.commit(instant)
        mark = commit.extra.get(KEYS)
        if mark == UNIQUE:
            return True
        if mark != LOOKED_UP and not _adds_none(state, commit):
            return False
    return state.archive.is_empty


def is_foreign_upsert(commit: CommitMetadata) -> bool:
    """Whether a commit is an upsert by another program.  Upserts by pyhudi into a table whose keys
    are unique have a mark."""
    return commit.operation in _LOOK_UP and KEYS not in commit.extra


def has_pending_write(timeline: Timeline, *, but: str) -> bool:
    """Whether an instant other than `but` may still add rows."""
    return any(i.action in WRITES and i.time != but for i in timeline.pending)


def _adds_none(state: TableState, commit: CommitMetadata) -> bool:
    """Whether a commit without a mark adds no key that the table has, whatever wrote it."""
    if commit.compacted or commit.operation in _ADD_NONE:
        return True
    if commit.operation not in _LOOK_UP:
        return False
    return not any(stat.insert_count for stat in commit.stats) or not is_partitioned(state)


def is_partitioned(state: TableState) -> bool:
    """Whether rows may be in several partitions; a custom key generator may derive paths from
    any column."""
    if state.config.key_generator is KeyGeneratorKind.USER_PROVIDED:
        return True
    return bool(state.config.partition_fields)
