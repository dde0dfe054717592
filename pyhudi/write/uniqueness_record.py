"""What a commit records about record keys, so that readers may rely on an index entry.

See `read/skipping/key_uniqueness` for the marks and how they are read.
"""

from __future__ import annotations

from pyhudi.read.skipping.key_uniqueness import (
    KEYS,
    LOOKED_UP,
    UNIQUE,
    has_pending_write,
    is_partitioned,
    keys_are_unique,
)
from pyhudi.records import InstantTime
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.placement.tagging import Duplicates
from pyhudi.write.write_steps import Operation, PlannedWrite, Setting, asks_index, duplicates_of
from pyhudi.write.write_tasks import WrittenFiles


def key_marks(
    setting: Setting, planned: PlannedWrite, files: WrittenFiles, *, now: Timeline, at: InstantTime
) -> dict[str, str]:
    """The mark of a commit, empty where nothing is certain.

    now: the timeline under the lock that the commit point holds.  at: the instant of the write.
    """
    state = setting.state
    starts = _starts_empty(setting, planned, now) and _keys_differ(setting, planned, files)
    if not starts and not _adds_no_known_key(setting, planned.operation):
        return {}
    is_whole = starts or keys_are_unique(state, now)
    if is_whole and not has_pending_write(now, but=at):
        return {KEYS: UNIQUE}
    return {} if starts else {KEYS: LOOKED_UP}


def _starts_empty(setting: Setting, planned: PlannedWrite, now: Timeline) -> bool:
    """Whether no row stays that was in the table before."""
    match planned.operation:
        case Operation.INSERT_OVERWRITE_TABLE:
            return True
        case Operation.INSERT_OVERWRITE:
            return set(setting.state.listing.partitions()) <= set(planned.replaced.partitions)
        case Operation.DELETE | Operation.DELETE_PARTITION:
            return False
        case _:
            return not len(now.commits) and setting.state.archive.is_empty


def _keys_differ(setting: Setting, planned: PlannedWrite, files: WrittenFiles) -> bool:
    """Whether no two rows written have one key: the index has as many new entries as rows."""
    if _one_row_a_key(setting, planned.operation):
        return True
    entries = sum(stat.write_count for stat in files.index)
    return bool(files.index) and entries == planned.new and not planned.matched


def _adds_no_known_key(setting: Setting, operation: Operation) -> bool:
    """Whether each key that is added was looked for in the whole table, and is added once."""
    if operation in (Operation.DELETE, Operation.DELETE_PARTITION):
        return True
    return asks_index(setting, operation) and _one_row_a_key(setting, operation)


def _one_row_a_key(setting: Setting, operation: Operation) -> bool:
    """Whether rows of one key were combined, in whatever partitions they are."""
    rules = setting.state.rules if operation.brings_rows else None
    combined = duplicates_of(setting.options, operation, rules) is not Duplicates.KEEP
    return combined and (setting.index.choice.is_global or not is_partitioned(setting.state))
