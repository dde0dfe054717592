"""Reconstruction of timeline files from what their instants left on the store.

A commit is reconstructed from its data files: base files of its instant, logs that contain its
blocks.  The result of a service is reconstructed from its plan.  Nothing is guessed: the result is
None where the store does not have all information.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import METADATA_TABLE, BaseFileName, DataFileName, LogFileName
from pyhudi.formats.avro_schema import without_meta_fields
from pyhudi.formats.base_file import footer
from pyhudi.formats.column_history import LATEST_SCHEMA
from pyhudi.formats.log_file import read_blocks
from pyhudi.health.inventory import TableInventory
from pyhudi.planning.cleaning import result_record
from pyhudi.planning.compaction import compaction_plan
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.recovery.rollback_plan import RolledBack, to_metadata
from pyhudi.storage.filesystem import FileInfo
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.log import timeline_log
from pyhudi.timeline.clock import next_instant
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import COMMITS, Action, Instant, State
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.plans.clustering import ClusteringPlan
from pyhudi.timeline.plans.rollback import RollbackPlan
from pyhudi.timeline.service_payloads import CLEAN_METADATA, ROLLBACK_METADATA, write_avro


def reconstruct_content(inventory: TableInventory, instant: Instant) -> bytes | None:
    """Content of the instant's completed file, or an equivalent; None if it is unknown."""
    if instant.action in COMMITS:
        commit = _commit(inventory, instant)
        return None if commit is None else inventory.log.encode(commit)
    try:
        if instant.action is Action.CLEAN:
            return _clean(inventory, instant)
        if instant.action is Action.ROLLBACK:
            return _rollback(inventory, instant)
    except CorruptFileError:
        pass
    return None


def completed_instant(inventory: TableInventory, instant: Instant) -> Instant:
    """The completed instant of one whose completed file is torn or lost.

    A lost completion time (layout 2) is taken to be just after that of the instant's delta commit
    in the metadata table, which completes immediately before; else just after the instant.
    """
    completed = replace(instant, state=State.COMPLETED)
    if completed.completed_at or not inventory.log.layout.has_completion_times:
        return completed
    times = {t for i in inventory.timeline for t in (i.time, i.completed_at) if t}
    at = _completed_in_metadata(inventory, instant) or instant.time
    while at in times or at == instant.time:
        at = next_instant(at, lambda: datetime.fromtimestamp(0, UTC), UTC)
    return replace(completed, completed_at=at)


def _completed_in_metadata(inventory: TableInventory, instant: Instant) -> InstantTime | None:
    log = timeline_log(inventory.fs.sub(METADATA_TABLE), inventory.config)
    commits = log.load().commits
    return next((i.completed_at for i in commits if i.time == instant.time), None)


def _clean(inventory: TableInventory, instant: Instant) -> bytes | None:
    if not inventory.log.requested(instant):
        return None
    plan = inventory.log.plan(instant, CleanPlan.from_record)
    result = result_record(plan, started=instant.time, took_millis=0, deleted=plan.files)
    return write_avro(CLEAN_METADATA, result)


def _rollback(inventory: TableInventory, instant: Instant) -> bytes | None:
    planned = inventory.log.plan(instant, RollbackPlan.from_record)
    if planned is None:
        return None
    failed = Instant(planned.time, planned.action, State.INFLIGHT)
    deleted = tuple(path for removal in planned.removals for path in removal.files)
    done = RolledBack(failed, instant.time, deleted)
    return write_avro(ROLLBACK_METADATA, to_metadata(done, root=inventory.fs.url, took_millis=0))


def _commit(inventory: TableInventory, instant: Instant) -> CommitMetadata | None:
    """The commit reconstructed from its files; None where the groups that it replaced are unknown,
    or where the metadata table lists files of it that are missing."""
    profile = CommitMetadata()
    with suppress(CorruptFileError, FileMissingError):
        profile = inventory.log.commit(replace(instant, state=State.INFLIGHT))
    replaced = None
    if instant.action is Action.REPLACE_COMMIT:
        replaced = _replaced(inventory, instant, profile)
        if replaced is None:
            return None
    texts: list[str] = []
    stats = []
    for info, name in inventory.data_files.values():
        stat = (
            _base_stat(inventory, info, name, texts)
            if isinstance(name, BaseFileName) and name.instant == instant.time
            else _log_stat(inventory, info, name, instant.time, texts)
            if isinstance(name, LogFileName) and not name.is_cdc
            else None
        )
        if stat is not None:
            stats.append(stat)
    if _listed_at(inventory, instant.time) - {stat.path for stat in stats}:
        return None
    schema = (
        texts[0]
        if texts
        else next((c.schema for c in reversed(list(inventory.commits.values())) if c.schema), None)
    )
    extra = {} if schema is None else {"schema": without_meta_fields(schema)}
    for other in inventory.commits.values():
        if LATEST_SCHEMA in other.extra and other.schema == extra.get("schema"):
            extra[LATEST_SCHEMA] = other.extra[LATEST_SCHEMA]
    plan = Instant(instant.time, Action.COMPACTION, State.REQUESTED)
    compacts = instant.action is Action.COMMIT and inventory.fs.exists(inventory.log.path(plan))
    operation = "COMPACT" if compacts else profile.operation
    return CommitMetadata(
        tuple(stats),
        operation=operation,
        compacted=operation == "COMPACT",
        extra=extra,
        replaced=replaced,
    )


def _replaced(
    inventory: TableInventory, instant: Instant, profile: CommitMetadata
) -> dict[str, tuple[str, ...]] | None:
    """File groups that a replace commit replaced, if its plan or profile names them; else None."""
    if profile.replaced:
        return dict(profile.replaced)
    pending = replace(instant, action=Action(inventory.log.layout.clustering_action))
    try:
        groups = inventory.log.plan(pending, ClusteringPlan.from_record).file_groups
    except CorruptFileError:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        found[group.partition] = (*found.get(group.partition, ()), group.file_id)
    return found or None


def _base_stat(
    inventory: TableInventory, info: FileInfo, name: DataFileName, texts: list[str]
) -> WriteStat | None:
    try:
        found = footer(inventory.fs, info.path)
    except CorruptFileError:
        return None
    if found.avro_schema:
        texts.append(found.avro_schema)
    before = _before(inventory, info, name)
    return WriteStat(
        partition=_folder(info),
        file_id=name.file_id,
        path=info.path,
        previous_instant=before.instant if before else None,
        write_count=found.rows,
        delete_count=0,
        update_count=found.rows if before else 0,
        insert_count=0 if before else found.rows,
        size_bytes=info.size_bytes,
        write_bytes=info.size_bytes,
        previous_base=str(before) if isinstance(before, BaseFileName) else None,
    )


def _folder(info: FileInfo) -> str:
    return info.path.rpartition("/")[0]


def _before(inventory: TableInventory, info: FileInfo, name: DataFileName) -> DataFileName | None:
    """The group's newest file before this one that names its slice: a base file, or a log of
    layout 1."""
    group = FileGroupId(_folder(info), name.file_id)
    by_name = inventory.log.layout.logs_name_slices
    return max(
        (
            other
            for path, (_, other) in inventory.data_files.items()
            if FileGroupId(path.rpartition("/")[0], other.file_id) == group
            and other.instant < name.instant
            and (by_name or isinstance(other, BaseFileName))
        ),
        key=lambda other: (other.instant, isinstance(other, BaseFileName)),
        default=None,
    )


def _log_stat(
    inventory: TableInventory,
    info: FileInfo,
    name: LogFileName,
    time: InstantTime,
    texts: list[str],
) -> WriteStat | None:
    """Statistics of a log that contains blocks of the instant; None for any other log."""
    try:
        with closing(inventory.fs.open(info.path)) as file:
            blocks = [b for b in read_blocks(file, path=info.path) if b.instant == time]
    except CorruptFileError:
        return None
    if not any(not block.is_rollback for block in blocks):
        return None
    texts += [block.schema for block in blocks if block.schema]
    return WriteStat(
        partition=_folder(info),
        file_id=name.file_id,
        path=info.path,
        previous_instant=name.instant,
        write_count=0,
        delete_count=0,
        update_count=0,
        insert_count=0,
        size_bytes=info.size_bytes,
        write_bytes=info.size_bytes,
        log_version=name.version,
        log_files=(info.name,),
    )


def _listed_at(inventory: TableInventory, time: InstantTime) -> set[str]:
    """Base files of the instant that the metadata table lists."""
    metadata = inventory.metadata
    if metadata is None:
        return set()
    try:
        listing = metadata.listing()
        infos = [i for files in listing.files(listing.partitions()).values() for i in files]
    except (CorruptFileError, FileMissingError):
        return set()
    return {i.path for i in infos if f"_{time}." in i.name and not i.name.startswith(".")}


def compaction_plan_of(inventory: TableInventory, pending: Instant) -> bytes | None:
    """The plan of a pending compaction, from the logs that later writes based on it; None if there
    is no such log, so that the plan can be removed.  Logs of layout 2 do not name a plan."""
    if not inventory.log.layout.logs_name_slices:
        return None
    claimed = {
        FileGroupId(path.rpartition("/")[0], name.file_id)
        for path, (_, name) in inventory.data_files.items()
        if isinstance(name, LogFileName) and name.instant == pending.time
    }
    view = inventory.view()
    slices: list[FileSlice] = []
    for group in sorted(claimed & view.groups.keys()):
        older = [s for s in view.groups[group].slices if s.instant < pending.time]
        if older:
            slices.append(older[0])
    if not slices:
        return None
    return compaction_plan(slices).to_avro()
