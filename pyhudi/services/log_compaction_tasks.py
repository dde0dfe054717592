"""Task of a log compaction: the log blocks of one file slice, merged into one log file.

```
block  deletes without ordering       each with INSTANT_TIME T and
block  deletes with ordering values   COMPACTED_BLOCK_TIMES: the instants of the replaced blocks,
block  data rows                      newest first
```

Rows keep their meta columns.  Source: storage_format 2.7, table_format 5.4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pyhudi.filenames import join
from pyhudi.formats.log_block import data_block, delete_block
from pyhudi.formats.log_file import BlockKind
from pyhudi.merge.log_only_merge import RemainingEntries, remaining_entries
from pyhudi.options import LogFormat
from pyhudi.read.file_slice import SliceSpec, log_blocks, log_entries
from pyhudi.records import FILE_NAME, PARTITION_PATH
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.file_plan import FilePlan, millis_since, with_constants
from pyhudi.write.files.log_append import next_log


@dataclass(frozen=True, slots=True)
class MergeLogsTask:
    """One slice.  spec: every column, by the table's merge rules, which must be `is_plain`."""

    plan: FilePlan
    spec: SliceSpec
    file_slice: FileSlice
    number: int


def merge_logs(task: MergeLogsTask) -> WriteStat:
    """Write the log file that replaces the slice's existing log files.

    Runs on workers, possibly twice.  Memory: the log files of the slice.
    """
    began = time.monotonic()
    plan, slice_, spec = task.plan, task.file_slice, task.spec
    blocks = log_blocks(plan.fs, slice_, spec.visibility)
    merged = tuple(dict.fromkeys(placed.block.instant or "" for placed in reversed(blocks)))
    stands = remaining_entries(list(log_entries(plan.fs, blocks, spec.schema, spec)), spec.rules)
    place = next_log(plan, slice_, None)
    name = place.new_name(task.number)
    kind = MarkerKind(plan.layout.log_marker)
    plan.announce(slice_.partition, name, kind)
    path = join(slice_.partition, str(name))
    with plan.open_sink(path) as sink:
        for content in _blocks(plan, slice_, stands, merged):
            sink.write(content)
        size = sink.tell()
    plan.check_stands(path)
    rows = 0 if stands.rows is None else stands.rows.num_rows
    return WriteStat(
        partition=slice_.partition,
        file_id=slice_.file_id,
        path=path,
        previous_instant=place.previous_instant,
        write_count=rows,
        delete_count=stands.delete_count,
        update_count=rows,
        insert_count=0,
        size_bytes=size,
        write_bytes=size,
        log_version=name.version,
        base_file=place.base_file,
        log_files=(*place.earlier, str(name)),
        compacted_log_files=len(slice_.logs),
        compacted_log_bytes=slice_.log_bytes,
        compacted_blocks=len(blocks),
        upsert_millis=millis_since(began),
    )


def _blocks(
    plan: FilePlan, slice_: FileSlice, stands: RemainingEntries, merged: tuple[str, ...]
) -> Iterator[bytes]:
    """Blocks in merge order; at least one, since it names the blocks that it replaces."""
    deletes = [(stands.resets, None)] if len(stands.resets) else []
    if stands.deletes is not None:
        deletes.append((stands.deletes.keys, stands.deletes.ordering))
    rows = stands.rows
    if rows is None or not rows.num_rows:
        deletes = deletes or [(stands.resets, None)]
    for keys, ordering in deletes:
        yield delete_block(
            keys,
            slice_.partition,
            ordering,
            instant=plan.instant,
            avro_schema=plan.avro_schema,
            merged=merged,
        )
    if rows is None or not rows.num_rows:
        return
    kind = BlockKind.PARQUET if plan.log_format is LogFormat.PARQUET else BlockKind.AVRO
    step = max(1, rows.num_rows * plan.sizing.log_block_bytes_max // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step).drop_columns([PARTITION_PATH, FILE_NAME])
        yield data_block(
            with_constants(part, slice_.group, slice_.file_id),  # log rows: file id as file name
            kind=kind,
            instant=plan.instant,
            avro_schema=plan.avro_schema,
            merged=merged,
        )
