"""Writers of base and log files, one file of one file group each.

Each file gets its marker first and a name that no other attempt can have; it is durable when the
task returns.  A task that runs twice leaves a second file, which no commit lists; the commit
removes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import BloomFilter
from pyhudi.arrays import Mask
from pyhudi.errors import Overtaken
from pyhudi.filenames import BaseFileName, DataFileName, join, new_write_token
from pyhudi.formats import base_file
from pyhudi.formats.schema_conform import conform
from pyhudi.merge.resolve_updates import outcome, resolve_updates, unmatched
from pyhudi.read.file_slice import read_slice
from pyhudi.read.hidden_rows import hides
from pyhudi.records import (
    RECORD_KEY,
    FileGroupId,
    with_meta,
)
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.transaction.markers import Marker, MarkerKind
from pyhudi.write.files.cdc_logs import write_cdc_log
from pyhudi.write.files.file_batch import FileBatch
from pyhudi.write.files.file_plan import (
    CONSTANT,
    FilePlan,
    Written,
    millis_since,
    stamped,
    with_constants,
)
from pyhudi.write.files.key_filter import filter_after, filter_of, new_filter
from pyhudi.write.files.log_append import append, first_log
from pyhudi.write.placement.assignment import Mode, Target
from pyhudi.write.placement.routing import Routed, Router
from pyhudi.write.placement.tagging import RowAction

_RELEASE_BYTES: Final = 8 << 20  # written


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Targets of one task, with their numbers."""

    plan: FilePlan
    router: Router
    targets: tuple[tuple[int, Target], ...]


def write_targets(task: WriteTask) -> list[Written] | Overtaken:
    """Write the targets of a task; runs on workers, possibly twice.

    Stops after the first target if the write was rolled back in the meantime, and leaves no file
    of that target.  Memory that Arrow has freed is returned to the system between large files, so
    that a task uses little more than its largest file.
    """
    plan = task.plan
    batch = FileBatch(plan.fs, plan.instant, together=plan.marks_together)
    plan = replace(plan, batch=batch)
    files_to_write = [_announced(plan, number, target) for number, target in task.targets]
    batch.announce(files_to_write)
    written: list[Written] = []
    unreleased = _RELEASE_BYTES
    for (number, target), marker in zip(task.targets, files_to_write, strict=True):
        if unreleased >= _RELEASE_BYTES:
            pa.default_memory_pool().release_unused()
            unreleased = 0
        files = _write_target(plan, number, target, task.router, marker.file)
        lost = plan.overtaken([file.stat.path for file in files if file.stat])
        if lost is not None:
            return lost
        written += files
        unreleased += sum(file.stat.size_bytes for file in files if file.stat)
    batch.sync()
    return written


def _announced(plan: FilePlan, number: int, target: Target) -> Marker:
    """The marker of the first file of a target.  The file is not written if no row remains."""
    partition = target.group.partition
    if target.mode is Mode.CREATE:
        return Marker(partition, _base_name(plan, number, target.group), MarkerKind.CREATE)
    if target.mode is Mode.REWRITE:
        return Marker(partition, _base_name(plan, number, target.group), MarkerKind.MERGE)
    log = first_log(plan, number, target)
    return Marker(partition, log, MarkerKind(plan.layout.log_marker))


def _write_target(
    plan: FilePlan, number: int, target: Target, router: Router, file: DataFileName
) -> list[Written]:
    """Write one target, into `file`.  It is not changed if all of its rows lose to stored ones."""
    if target.mode is Mode.CREATE:
        assert isinstance(file, BaseFileName)
        return _create(plan, number, target, router, file)
    routed = router.rows_of(number)
    if not routed.rows.num_rows:
        return []
    if isinstance(file, BaseFileName):
        return [_rewrite(plan, number, target, routed, file)]
    if _would_hide(plan, target, routed):
        return [_merge_logs(plan, number, target, routed)]
    return append(plan, number, target, routed, file)


def _create(
    plan: FilePlan, number: int, target: Target, router: Router, name: BaseFileName
) -> list[Written]:
    """Write the first base file of a new group; none without rows.  Memory: one row group."""
    began = time.monotonic()
    chunks = router.chunks_of(number, rows=plan.base_file.row_group_rows, order_by=plan.order_by)
    first = next(chunks, None)
    if first is None:
        return []
    bloom = new_filter(plan.base_file, target.insert_count + target.update_count)
    count = 0

    def stored() -> Iterator[pa.Table]:
        nonlocal count
        for chunk in chain((first,), chunks):
            rows = stamped(plan, chunk, target.group, number, str(name), count)
            if bloom is not None:
                bloom.add(rows.column(RECORD_KEY))
            count += rows.num_rows
            yield rows

    size = write_base_file(plan, target.group, name, stored(), bloom, MarkerKind.CREATE)
    stat = _base_stat(target.group, name, size, count, None, began)
    return [Written(_counted(stat, inserted=count), count, 0, 0, 0)]


def _rewrite(
    plan: FilePlan, number: int, target: Target, routed: Routed, name: BaseFileName
) -> Written:
    """Write the next base file of a group: the stored rows that remain, then incoming rows."""
    began = time.monotonic()
    assert target.slice is not None and target.slice.base is not None
    base = target.slice.base
    read_schema = pa.schema([f for f in with_meta(plan.schema) if f.name not in CONSTANT])
    few_valued = [f.name for f in read_schema if f.name not in (RECORD_KEY, *plan.rules.ordering)]
    stored, foot = base_file.read_with_footer(
        plan.fs, base.path, schema=read_schema, dictionaries=few_valued
    )
    if plan.keeps_stored:
        decision = unmatched(stored, routed.puts)
    else:
        decision = resolve_updates(
            stored, routed.rows, routed.puts, plan.rules, natural_deletes=plan.natural_deletes
        )
    incoming = outcome(stored, routed.rows, decision, plan.rules)
    if not incoming.num_rows and decision.keep.all():  # every row lost to a stored one
        return Written(None, 0, 0, 0, decision.unchanged)
    remaining = stored if decision.keep.all() else stored.filter(pa.array(decision.keep))
    rows = with_constants(remaining, target.group, str(name))
    if incoming.num_rows:
        fresh = stamped(plan, incoming, target.group, number, str(name), remaining.num_rows)
        rows = pa.concat_tables([rows, conform(fresh, rows.schema)])
    added = incoming.column(RECORD_KEY).filter(pa.array(~decision.matched[decision.emit]))
    bloom = filter_after(plan.base_file, foot, rows.column(RECORD_KEY), added)
    keys = (foot.min_key, foot.max_key) if foot.min_key is not None and foot.max_key else None
    merged = MarkerKind.MERGE
    cdc_sizes = _log_changes(plan, target.group, name, merged, stored,
        leaving=~decision.keep, incoming=incoming)  # fmt: skip
    size = write_base_file(plan, target.group, name, rows, bloom, MarkerKind.MERGE,
        keys=keys, added=incoming)  # fmt: skip
    stat = _base_stat(target.group, name, size, rows.num_rows, target.slice, began)
    stat = _counted(
        replace(stat, cdc_sizes=cdc_sizes),
        inserted=decision.inserted, updated=decision.updated, deleted=decision.deleted,
    )  # fmt: skip
    return Written(stat, decision.inserted, decision.updated, decision.deleted, decision.unchanged)


def _log_changes(
    plan: FilePlan,
    group: FileGroupId,
    name: BaseFileName,
    kind: MarkerKind,
    stored: pa.Table,
    *,
    leaving: Mask,
    incoming: pa.Table,
) -> Mapping[str, int] | None:
    """Write the CDC log of a base file about to be written, if enabled; returns its size by path.
    leaving: mask over the stored rows.  The base file's marker is created first."""
    if plan.cdc is None:
        return None
    plan.announce(group.partition, name, kind)
    return write_cdc_log(plan, group, name, stored.filter(pa.array(leaving)), incoming)


def _would_hide(plan: FilePlan, target: Target, routed: Routed) -> bool:
    """Whether logging would hide a row from readers: see `read.hidden_rows`."""
    if plan.hiding is None:
        return False
    assert target.slice is not None
    puts = routed.rows.filter(pa.array(routed.action == RowAction.PUT))
    return hides(plan.fs, target.slice, puts, plan.hiding)


def _merge_logs(plan: FilePlan, number: int, target: Target, routed: Routed) -> Written:
    """Write the next base file of a group from its base file, logs and the incoming rows."""
    began = time.monotonic()
    slice_ = target.slice
    assert slice_ is not None and plan.hiding is not None
    names = [name for name in plan.hiding.table.names if name not in CONSTANT]
    stored = read_slice(plan.fs, slice_, spec=replace(plan.hiding, columns=tuple(names)))
    decision = resolve_updates(
        stored, routed.rows, routed.puts, plan.rules, natural_deletes=plan.natural_deletes
    )
    name = _base_name(plan, number, target.group)
    rows = with_constants(stored.filter(pa.array(decision.keep)), target.group, str(name))
    incoming = outcome(stored, routed.rows, decision, plan.rules)
    fresh = stamped(plan, incoming, target.group, number, str(name), rows.num_rows)
    rows = pa.concat_tables([rows, conform(fresh, rows.schema)])
    bloom = filter_of(plan.base_file, rows.column(RECORD_KEY))
    kind = MarkerKind.MERGE if slice_.base else MarkerKind.CREATE
    cdc_sizes = _log_changes(plan, target.group, name, kind, stored,
        leaving=~decision.keep, incoming=incoming)  # fmt: skip
    size = write_base_file(plan, target.group, name, rows, bloom, kind)
    stat = _base_stat(target.group, name, size, rows.num_rows, slice_, began)
    stat = replace(stat, cdc_sizes=cdc_sizes)
    stat = _counted(
        stat, inserted=decision.inserted, updated=decision.updated, deleted=decision.deleted
    )
    return Written(stat, decision.inserted, decision.updated, decision.deleted, decision.unchanged)


def _base_name(plan: FilePlan, number: int, group: FileGroupId) -> BaseFileName:
    return BaseFileName(group.file_id, new_write_token(number), plan.instant)


def write_base_file(
    plan: FilePlan,
    group: FileGroupId,
    name: BaseFileName,
    rows: pa.Table | Iterator[pa.Table],
    bloom: BloomFilter | Callable[[], BloomFilter | None] | None,
    kind: MarkerKind,
    *,
    keys: tuple[str, str] | None = None,
    added: pa.Table | None = None,
) -> int:
    """Create the marker of a base file and write the file; returns its size in bytes.

    keys: the key range of the rows other than `added`, if known.  The caller checks whether the
    write was rolled back in the meantime: see `FilePlan.overtaken`.
    """
    plan.announce(group.partition, name, kind)
    low, high = _range(keys, added)
    path = join(group.partition, str(name))
    with plan.open_sink(path) as sink:
        base_file.write_base(
            sink,
            rows,
            avro_schema=plan.avro_schema,
            bloom=bloom,
            min_key=low,
            max_key=high,
            compression=plan.base_file.codec,
            level=plan.base_file.codec_level or (1 if plan.base_file.codec == "zstd" else None),
            row_group_rows=plan.base_file.row_group_rows,
            page_bytes=plan.base_file.page_bytes,
        )
        return sink.tell()


def _range(keys: tuple[str, str] | None, added: pa.Table | None) -> tuple[str | None, str | None]:
    if keys is None or added is None:
        return None, None
    if not added.num_rows:
        return keys
    found = pc.min_max(added.column(RECORD_KEY)).as_py()
    return min(keys[0], found["min"]), max(keys[1], found["max"])


def _base_stat(
    group: FileGroupId,
    name: BaseFileName,
    size: int,
    rows: int,
    replaced: FileSlice | None,
    began: float,
) -> WriteStat:
    """replaced: the slice that the file continues; None for a new file group."""
    base = replaced.base if replaced else None
    return WriteStat(
        partition=group.partition,
        file_id=group.file_id,
        path=join(group.partition, str(name)),
        previous_instant=replaced.instant if replaced else None,
        write_count=rows,
        delete_count=0,
        update_count=0,
        insert_count=0,
        size_bytes=size,
        write_bytes=size,
        create_millis=millis_since(began),
        previous_base=str(base.name) if base else None,
    )


def _counted(
    stat: WriteStat, *, inserted: int = 0, updated: int = 0, deleted: int = 0
) -> WriteStat:
    return replace(stat, insert_count=inserted, update_count=updated, delete_count=deleted)


__all__ = ["FilePlan", "WriteTask", "Written", "write_targets"]
