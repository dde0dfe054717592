"""Task of a compaction: base file and log files merged into the next base file of the group.

Rows retain their commit time and sequence number; only the file name changes.
Source: table_format 7.4.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.filenames import BaseFileName, join, new_write_token
from pyhudi.read.changes.before_after import pair
from pyhudi.read.changes.row_equality import rows_differ
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.records import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.base_writer import write_base_file
from pyhudi.write.files.cdc_logs import write_cdc_log
from pyhudi.write.files.file_plan import FilePlan, millis_since, with_constants
from pyhudi.write.files.key_filter import filter_of

_WRITTEN: Final = (COMMIT_TIME, COMMIT_SEQNO)


@dataclass(frozen=True, slots=True)
class CompactTask:
    """One slice.  spec: every column, by the table's merge rules."""

    plan: FilePlan
    spec: SliceSpec
    file_slice: FileSlice
    number: int


def compact_slice(task: CompactTask) -> WriteStat | None:
    """Write the merged slice; None if it has no base file and no rows remain.

    Runs on workers, possibly twice.  Memory: the rows of the slice.
    """
    began = time.monotonic()
    plan, slice_ = task.plan, task.file_slice
    pa.default_memory_pool().release_unused()
    rows = read_slice(plan.fs, slice_, spec=task.spec)
    if not rows.num_rows and slice_.base is None:
        return None
    name = BaseFileName(slice_.file_id, new_write_token(task.number), plan.instant)
    rows = with_constants(rows.drop_columns([PARTITION_PATH, FILE_NAME]), slice_.group, str(name))
    bloom = filter_of(plan.base_file, rows.column(RECORD_KEY))
    kind = MarkerKind.MERGE if slice_.base else MarkerKind.CREATE
    plan.announce(slice_.partition, name, kind)
    changes = _log_changes(task, name, rows)
    size = write_base_file(plan, slice_.group, name, rows, bloom, kind)
    path = join(slice_.partition, str(name))
    plan.check_stands(path)
    return WriteStat(
        partition=slice_.partition,
        file_id=slice_.file_id,
        path=path,
        previous_instant=slice_.instant,
        write_count=rows.num_rows,
        delete_count=changes.deletes,
        update_count=changes.updates,
        insert_count=changes.inserts,
        size_bytes=size,
        write_bytes=size,
        compacted_log_files=len(slice_.logs),
        compacted_log_bytes=slice_.log_bytes,
        compacted_blocks=len(slice_.logs),
        cdc_sizes=changes.sizes,
        create_millis=millis_since(began),
        previous_base=str(slice_.base.name) if slice_.base else None,
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """What the logs of a slice change in its base file; counted only if the table logs changes.

    updates: records of the base file that a logged one replaced.  sizes: CDC logs, by path.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    sizes: Mapping[str, int] | None = None


def _log_changes(task: CompactTask, name: BaseFileName, merged: pa.Table) -> _Changes:
    """Write the CDC log of the changes, if enabled."""
    plan, slice_ = task.plan, task.file_slice
    if plan.cdc is None:
        return _Changes()
    stored = read_slice(plan.fs, replace(slice_, logs=()), spec=task.spec)
    found = pair(stored, merged, (RECORD_KEY,))
    old, new = stored.take(pa.array(found.before)), merged.take(pa.array(found.after))
    differs = rows_differ(old.select(plan.schema.names), new.select(plan.schema.names))
    rewritten = differs | rows_differ(old.select(_WRITTEN), new.select(_WRITTEN))
    removed = np.concatenate([found.before[differs], found.only_before])
    added = np.concatenate([found.after[differs], found.only_after])
    before, after = stored.take(pa.array(removed)), merged.take(pa.array(added))
    return _Changes(
        inserts=len(found.only_after),
        updates=int(rewritten.sum()),
        deletes=len(found.only_before),
        sizes=write_cdc_log(plan, slice_.group, name, before, after),
    )
