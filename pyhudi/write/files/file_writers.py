"""Writers of base and log files, one file of one file group each.

Each file gets its marker first and a name that no other attempt can have; it is durable when the
task returns.  A task that runs twice leaves a second file, which no commit lists; the commit
removes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pyhudi.errors import FileMissingError, Overtaken
from pyhudi.filenames import LogFileName
from pyhudi.formats.schema_conform import conform
from pyhudi.merge.resolve_updates import outcome, resolve_updates
from pyhudi.metadata.file_entries import entry_of_file
from pyhudi.read.file_slice import read_slice
from pyhudi.read.hidden_rows import hides
from pyhudi.records import RECORD_KEY
from pyhudi.transaction.markers import Marker, MarkerKind
from pyhudi.write.files.base_batches import FileTarget, create_bases, in_batches, rewrite_bases
from pyhudi.write.files.base_writer import (
    base_name,
    base_stat,
    counted,
    log_changes,
    write_base_file,
)
from pyhudi.write.files.file_batch import FileBatch
from pyhudi.write.files.file_plan import CONSTANT, FilePlan, Written, stamped, with_constants
from pyhudi.write.files.key_filter import filter_of
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
    batch = FileBatch(task.plan.fs, task.plan.instant, together=task.plan.marks_together)
    plan = replace(task.plan, batch=batch)
    items = [_announced(plan, number, target) for number, target in task.targets]
    batch.announce([_marker(plan, item) for item in items])
    written: list[Written] = []
    unreleased = 0
    for some in in_batches(plan, items):
        if unreleased >= _RELEASE_BYTES:
            pa.default_memory_pool().release_unused()
            unreleased = 0
        for files in _write_batch(plan, some, task.router):
            lost = plan.overtaken([file.stat.path for file in files if file.stat])
            if lost is not None:
                return lost
            written += files
            unreleased += sum(file.stat.size_bytes for file in files if file.stat)
    batch.sync()
    return [_with_entries(plan, file) for file in written] if plan.indexes else written


def _with_entries(plan: FilePlan, file: Written) -> Written:
    """Without entries if the file is gone: the write was rolled back, which its commit finds."""
    if file.stat is None:
        return file
    try:
        entries = tuple(entry_of_file(plan.fs, file.stat, index) for index in plan.indexes)
    except FileMissingError:
        return file
    return replace(file, entries=entries)


def _announced(plan: FilePlan, number: int, target: Target) -> FileTarget:
    """A target with its first file.  The file is not written if no row remains."""
    is_base = target.mode in (Mode.CREATE, Mode.REWRITE)
    name = base_name(plan, number, target.group) if is_base else first_log(plan, number, target)
    return FileTarget(number, target, name)


def _marker(plan: FilePlan, item: FileTarget) -> Marker:
    kinds = {Mode.CREATE: MarkerKind.CREATE, Mode.REWRITE: MarkerKind.MERGE}
    kind = kinds.get(item.target.mode) or MarkerKind(plan.layout.log_marker)
    return Marker(item.target.group.partition, item.file, kind)


def _write_batch(
    plan: FilePlan, items: Sequence[FileTarget], router: Router
) -> Iterator[list[Written]]:
    """Write targets of one mode; yields the files of each when they are written.  A target is not
    changed if all of its rows lose to stored ones."""
    match items[0].target.mode:
        case Mode.CREATE:
            yield from create_bases(plan, items, router)
        case Mode.REWRITE:
            yield from rewrite_bases(plan, items, router)
        case _:
            yield from (_log(plan, item, router) for item in items)


def _log(plan: FilePlan, item: FileTarget, router: Router) -> list[Written]:
    """Append to the logs of a target, or write its next base file if logs would hide a row."""
    routed = router.rows_of(item.number)
    if not routed.rows.num_rows:
        return []
    if _would_hide(plan, item.target, routed):
        return [_merge_logs(plan, item.number, item.target, routed)]
    assert isinstance(item.file, LogFileName)
    return append(plan, item.number, item.target, routed, item.file)


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
    name = base_name(plan, number, target.group)
    rows = with_constants(stored.filter(pa.array(decision.keep)), target.group, str(name))
    incoming = outcome(stored, routed.rows, decision, plan.rules)
    fresh = stamped(plan, incoming, target.group, number, str(name), rows.num_rows)
    rows = pa.concat_tables([rows, conform(fresh, rows.schema)])
    bloom = filter_of(plan.base_file, rows.column(RECORD_KEY))
    kind = MarkerKind.MERGE if slice_.base else MarkerKind.CREATE
    cdc_sizes = log_changes(
        plan, target.group, name, kind, stored, leaving=~decision.keep, incoming=incoming
    )
    size = write_base_file(plan, target.group, name, rows, bloom, kind)
    stat = base_stat(target.group, name, size, rows.num_rows, slice_, began)
    stat = replace(stat, cdc_sizes=cdc_sizes)
    stat = counted(
        stat, inserted=decision.inserted, updated=decision.updated, deleted=decision.deleted
    )
    return Written(stat, decision.inserted, decision.updated, decision.deleted, decision.unchanged)
