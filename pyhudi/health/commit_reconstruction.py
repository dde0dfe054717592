"""Files of the timeline written anew from what their instants left on the store.

A commit is told by its data files: base files of its instant, logs that hold its blocks.  What
services did is told by their plans.  Nothing is guessed: where the store does not tell all, None.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import BaseFileName, DataFileName, LogFileName
from pyhudi.formats.avro_schema import without_meta_fields
from pyhudi.formats.base_file import footer
from pyhudi.formats.log_file import read_blocks
from pyhudi.health.inventory import TableInventory
from pyhudi.planning.cleaning import result_record
from pyhudi.planning.compaction import compaction_plan
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileInfo
from pyhudi.table.file_group_view import FileSlice, build_view
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import COMMITS, Action, Instant, State
from pyhudi.timeline.plans.cleaning import CleanPlan
from pyhudi.timeline.plans.clustering import ClusteringPlan
from pyhudi.timeline.plans.rollback import RollbackPlan
from pyhudi.timeline.service_payloads import CLEAN_METADATA, ROLLBACK_METADATA, write_avro
from pyhudi.transaction.rollback_plan import RolledBack, to_metadata


def reconstruct_content(ground: TableInventory, instant: Instant) -> bytes | None:
    """What the instant's completed file held, or what served as well; None: it cannot be told."""
    if instant.action in COMMITS:
        commit = _commit(ground, instant)
        return None if commit is None else commit.to_json()
    try:
        if instant.action is Action.CLEAN:
            return _clean(ground, instant)
        if instant.action is Action.ROLLBACK:
            return _rollback(ground, instant)
    except CorruptFileError:
        pass
    return None


def _clean(ground: TableInventory, instant: Instant) -> bytes | None:
    if not ground.log.requested(instant):
        return None
    plan = ground.log.plan(instant, CleanPlan.from_record)
    result = result_record(plan, started=instant.time, took_millis=0, deleted=plan.files)
    return write_avro(CLEAN_METADATA, result)


def _rollback(ground: TableInventory, instant: Instant) -> bytes | None:
    planned = ground.log.plan(instant, RollbackPlan.from_record)
    if planned is None:
        return None
    failed = Instant(planned.time, planned.action, State.INFLIGHT)
    deleted = tuple(path for removal in planned.removals for path in removal.files)
    done = RolledBack(failed, instant.time, deleted)
    return write_avro(ROLLBACK_METADATA, to_metadata(done, root=ground.fs.url, took_millis=0))


def _commit(ground: TableInventory, instant: Instant) -> CommitMetadata | None:
    """The commit as its files tell it; None where what it replaced is not known, or where the
    metadata table names files of it that are not there."""
    profile = CommitMetadata()
    with suppress(CorruptFileError, FileMissingError):
        profile = ground.log.commit(replace(instant, state=State.INFLIGHT))
    replaced = None
    if instant.action is Action.REPLACE_COMMIT:
        replaced = _replaced(ground, instant, profile)
        if replaced is None:
            return None
    texts: list[str] = []
    stats = []
    for info, name in ground.data_files.values():
        stat = (
            _base_stat(ground, info, name, texts)
            if isinstance(name, BaseFileName) and name.instant == instant.time
            else _log_stat(ground, info, name, instant.time, texts)
            if isinstance(name, LogFileName) and not name.is_cdc
            else None
        )
        if stat is not None:
            stats.append(stat)
    if _listed_at(ground, instant.time) - {stat.path for stat in stats}:
        return None
    schema = texts[0] if texts else next(
        (c.schema for c in reversed(list(ground.commits.values())) if c.schema), None
    )  # fmt: skip
    extra = {} if schema is None else {"schema": without_meta_fields(schema)}
    operation = profile.operation
    return CommitMetadata(
        tuple(stats), operation=operation, compacted=operation == "COMPACT", extra=extra,
        replaced=replaced,
    )  # fmt: skip


def _replaced(
    ground: TableInventory, instant: Instant, profile: CommitMetadata
) -> dict[str, tuple[str, ...]] | None:
    """File groups that a replace commit took out, as far as its plan or profile names them."""
    if profile.replaced:
        return dict(profile.replaced)
    try:
        groups = ground.log.plan(instant, ClusteringPlan.from_record).file_groups
    except CorruptFileError:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        found[group.partition] = (*found.get(group.partition, ()), group.file_id)
    return found or None


def _base_stat(
    ground: TableInventory, info: FileInfo, name: DataFileName, texts: list[str]
) -> WriteStat | None:
    try:
        found = footer(ground.fs, info.path)
    except CorruptFileError:
        return None
    if found.avro_schema:
        texts.append(found.avro_schema)
    before = _before(ground, info, name)
    return WriteStat(
        partition=_folder(info), file_id=name.file_id, path=info.path, previous_instant=before,
        write_count=found.rows, delete_count=0, update_count=found.rows if before else 0,
        insert_count=0 if before else found.rows, size_bytes=info.size_bytes,
        write_bytes=info.size_bytes,
    )  # fmt: skip


def _folder(info: FileInfo) -> str:
    return info.path.rpartition("/")[0]


def _before(ground: TableInventory, info: FileInfo, name: DataFileName) -> InstantTime | None:
    """The instant of the group's newest file before this one."""
    group = FileGroupId(_folder(info), name.file_id)
    return max(
        (
            other.instant
            for path, (_, other) in ground.data_files.items()
            if FileGroupId(path.rpartition("/")[0], other.file_id) == group
            and other.instant < name.instant
        ),
        default=None,
    )


def _log_stat(
    ground: TableInventory, info: FileInfo, name: LogFileName, time: InstantTime, texts: list[str]
) -> WriteStat | None:
    """A log that holds blocks of the instant."""
    try:
        with closing(ground.fs.open(info.path)) as file:
            blocks = [b for b in read_blocks(file, path=info.path) if b.instant == time]
    except CorruptFileError:
        return None
    if not any(not block.is_rollback for block in blocks):
        return None
    texts += [block.schema for block in blocks if block.schema]
    return WriteStat(
        partition=_folder(info), file_id=name.file_id, path=info.path,
        previous_instant=name.instant, write_count=0, delete_count=0, update_count=0,
        insert_count=0, size_bytes=info.size_bytes, write_bytes=info.size_bytes,
        log_version=name.version, log_files=(info.name,),
    )  # fmt: skip


def _listed_at(ground: TableInventory, time: InstantTime) -> set[str]:
    """Base files of the instant that the metadata table lists."""
    metadata = ground.metadata
    if metadata is None:
        return set()
    try:
        listing = metadata.listing()
        infos = [i for files in listing.files(listing.partitions()).values() for i in files]
    except (CorruptFileError, FileMissingError):
        return set()
    return {i.path for i in infos if f"_{time}." in i.name and not i.name.startswith(".")}


def compaction_plan_of(ground: TableInventory, pending: Instant) -> bytes | None:
    """The plan of a pending compaction, by the logs that later writes put on it; None: no log
    was, and so nothing keeps the plan from being forgotten."""
    claimed = {
        FileGroupId(path.rpartition("/")[0], name.file_id)
        for path, (_, name) in ground.data_files.items()
        if isinstance(name, LogFileName) and name.instant == pending.time
    }
    files = ((p, info) for p, infos in ground.files.items() for info in infos)
    view = build_view(files, ground.visibility)
    slices: list[FileSlice] = []
    for group in sorted(claimed & view.groups.keys()):
        older = [s for s in view.groups[group].slices if s.instant < pending.time]
        if older:
            slices.append(older[0])
    if not slices:
        return None
    return compaction_plan(slices).to_avro()
