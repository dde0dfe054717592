"""Content of the three timeline files of a write.

```
T.<action>.requested   the action; for a replace commit also the operation
T.<action>.inflight    the number of rows planned for each file group and partition
T.<action>             every file written, the schema, known facts about record keys
```

Source: table_format 3.3.  Record key marks are read by `read/skipping/key_uniqueness`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyhudi.filenames import SCHEMA_FOLDER, SCHEMA_SUFFIX, schema_file_time
from pyhudi.formats.column_history import LATEST_SCHEMA
from pyhudi.read.skipping.key_uniqueness import (
    KEYS,
    LOOKED_UP,
    UNIQUE,
    has_pending_write,
    is_partitioned,
    keys_are_unique,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action
from pyhudi.timeline.service_payloads import REQUESTED_REPLACE, write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.input.deduplicate import Duplicates
from pyhudi.write.placement.assignment import Target
from pyhudi.write.write_context import (
    Operation,
    PlannedWrite,
    WriteContext,
    duplicates_of,
    needs_index_lookup,
)
from pyhudi.write.write_tasks import WrittenFiles


def requested(state: TableState, operation: Operation) -> tuple[Action, bytes]:
    """The action of a write and the content of its requested file."""
    if not operation.replaces:
        merges = state.config.is_merge_on_read
        return (Action.DELTA_COMMIT if merges else Action.COMMIT), b""
    record: dict[str, object] = {"version": None}
    if operation is Operation.DELETE_PARTITION:
        record = {"operationType": operation.value, "version": 1}
    return Action.REPLACE_COMMIT, write_avro(REQUESTED_REPLACE, record)


def profile_of(planned: PlannedWrite) -> CommitMetadata:
    """The content of the inflight file."""
    replaced = planned.replaced.file_ids() if planned.operation.replaces else None
    return profile(planned.assignment.targets, planned.operation.value, replaced=replaced)


def profile(
    targets: Iterable[Target],
    operation: str,
    *,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
) -> CommitMetadata:
    """The content of the inflight file of a write to `targets`.

    replaced: file groups that the write replaces; nothing else records them until it completes.
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
    return CommitMetadata((*heads, *stats), operation=operation, replaced=replaced)


def _profile_stat(target: Target) -> WriteStat:
    assert target.slice is not None
    group = target.group
    return WriteStat(
        group.partition, group.file_id, "", target.slice.instant, 0, 0, target.update_count, 0, 0, 0
    )


def content_of(
    context: WriteContext,
    planned: PlannedWrite,
    files: WrittenFiles,
    now: Timeline,
    at: InstantTime,
) -> bytes:
    """The content of the completed file.  now: the timeline, loaded under the lock of the commit
    point.  at: the instant of the write."""
    extra = {name: v for name, v in context.options.commit_metadata.items() if name != KEYS}
    if context.advance is not None:
        extra |= context.advance.metadata(context.state.config.layout)
    extra |= _key_marks(context, planned, files, now=now, at=at)
    written = CommitMetadata(
        files.stats,
        operation=planned.operation.value,
        extra={**extra, "schema": context.avro_schema, **_stored_history(context, at)},
        replaced=planned.replaced.file_ids() if planned.operation.replaces else None,
    )
    return context.state.log.encode(written)


def _stored_history(context: WriteContext, at: InstantTime) -> dict[str, str]:
    """The entry of a commit for the schema with ids, whose history is stored first.

    Every commit stores it, because readers use that of the newest complete one alone.
    """
    if context.history is None:
        return {}
    history, fs = context.history.at(at), context.state.fs
    start = context.state.visibility().start
    if start is not None:  # Apache Hudi does not read those of archived commits either
        names = fs.names(SCHEMA_FOLDER)
        archived = [n for n in names if (time := schema_file_time(n)) is not None and time < start]
        fs.delete([f"{SCHEMA_FOLDER}/{name}" for name in archived])
    name = f"{at}_{at}" if context.state.log.layout.has_completion_times else at
    fs.replace(f"{SCHEMA_FOLDER}/{name}{SCHEMA_SUFFIX}", history.all.encode())
    return {LATEST_SCHEMA: history.latest}


def _key_marks(
    context: WriteContext,
    planned: PlannedWrite,
    files: WrittenFiles,
    *,
    now: Timeline,
    at: InstantTime,
) -> dict[str, str]:
    """The record key mark of a commit; empty if nothing is certain.

    now: the timeline, loaded under the lock of the commit point.  at: the instant of the write.
    """
    state = context.state
    starts = _starts_empty(context, planned, now) and _keys_differ(context, planned, files)
    if not starts and not _adds_no_known_key(context, planned.operation):
        return {}
    is_whole = starts or keys_are_unique(state, now)
    if is_whole and not has_pending_write(now, but=at):
        return {KEYS: UNIQUE}
    return {} if starts else {KEYS: LOOKED_UP}


def _starts_empty(context: WriteContext, planned: PlannedWrite, now: Timeline) -> bool:
    """Whether no row of the previous table contents remains."""
    match planned.operation:
        case Operation.INSERT_OVERWRITE_TABLE:
            return True
        case Operation.INSERT_OVERWRITE:
            return set(context.state.listing.partitions()) <= set(planned.replaced.partitions)
        case Operation.DELETE | Operation.DELETE_PARTITION | Operation.ALTER_SCHEMA:
            return False
        case _:
            return not len(now.commits) and context.state.archive.is_empty


def _keys_differ(context: WriteContext, planned: PlannedWrite, files: WrittenFiles) -> bool:
    """Whether all written rows have distinct keys: as many new index entries as rows."""
    if _one_row_a_key(context, planned.operation):
        return True
    entries = sum(stat.write_count for stat in files.index)
    return bool(files.index) and entries == planned.new and not planned.matched


def _adds_no_known_key(context: WriteContext, operation: Operation) -> bool:
    """Whether every added key was looked up in the whole table and is added only once."""
    if operation in (Operation.DELETE, Operation.DELETE_PARTITION, Operation.ALTER_SCHEMA):
        return True
    return needs_index_lookup(context, operation) and _one_row_a_key(context, operation)


def _one_row_a_key(context: WriteContext, operation: Operation) -> bool:
    """Whether rows with the same key were combined, across all partitions."""
    rules = context.state.rules if operation.brings_rows else None
    combined = duplicates_of(context.options, operation, rules) is not Duplicates.KEEP
    return combined and (context.index.choice.is_global or not is_partitioned(context.state))
