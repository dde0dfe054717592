"""Statistics of the record index: entries per bucket, and the entries that commits wrote.

Cost: reads the head and trailer of each file, no entries; `written_between` reads entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.metadata.hfile_slices import DeleteLayer, ValueLayer
from pyhudi.metadata.record_index.locations import decode_locations
from pyhudi.metadata.record_index.lookup import IndexBucket
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class BucketFigures:
    """Statistics of one bucket.  entries_max: base and log entries minus tombstones; exact after a
    compaction, otherwise keys in several layers are counted once per layer."""

    bucket: int
    base_entries: int
    log_entries: int
    tombstones: int
    files: int
    bytes: int
    group: int = 0
    file_groups: int = 1

    @property
    def entries_max(self) -> int:
        return max(0, self.base_entries + self.log_entries - self.tombstones)


@dataclass(frozen=True, slots=True)
class FiguresTask:
    """A bucket to count.  fs: rooted at the data table."""

    fs: FileSystem
    bucket: IndexBucket


def bucket_figures(task: FiguresTask) -> BucketFigures:
    """Count a bucket's entries from the trailers of its files."""
    bucket = task.bucket
    bases = [file_slice.base for file_slice in bucket.slices if file_slice.base]
    paths = {file.path for file in bases}
    base, logs, ends = 0, 0, 0
    for layer in bucket.layers(task.fs):
        if isinstance(layer, DeleteLayer):
            ends += len(layer.keys)
        elif layer.path in paths:
            base += layer.reader.entry_count
        else:
            logs += layer.reader.entry_count
    files = [*bases, *(log for file_slice in bucket.slices for log in file_slice.logs)]
    size = sum(file.size_bytes for file in files)
    count = len(bucket.slices)
    return BucketFigures(bucket.number, base, logs, ends, len(files), size, bucket.group, count)


WRITTEN_SCHEMA: Final = pa.schema(
    {
        "record_key": pa.string(),
        "commit": pa.string(),
        "ended": pa.bool_(),
        "partition_path": pa.string(),
        "file_id": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """A bucket whose entries of commits after `since` up to `until` to read.  fs: rooted at the
    data table."""

    fs: FileSystem
    bucket: IndexBucket
    since: str
    until: str


def written_between(task: WrittenTask) -> pa.Table:
    """The entries that commits wrote into a bucket, oldest first: rows of WRITTEN_SCHEMA.

    Entries merged by a compaction are reported by the instant stored in them; tombstones that it
    dropped are not reported.
    """
    tables = [WRITTEN_SCHEMA.empty_table()]
    for layer, instant in task.bucket.dated_layers(task.fs):
        if instant is not None and not task.since < instant <= task.until:
            continue
        if isinstance(layer, DeleteLayer):
            count = len(layer.keys)
            none = pa.nulls(count, pa.string())
            ended = pa.repeat(pa.scalar(True), count)
            when = pa.repeat(pa.scalar(instant), count)
            columns = [layer.keys.cast(pa.string()), when, ended, none, none]
            tables.append(pa.Table.from_arrays(columns, schema=WRITTEN_SCHEMA))
        else:
            tables += _entries(layer, instant, task)
    return pa.concat_tables(tables)


def _entries(layer: ValueLayer, instant: str | None, task: WrittenTask) -> Iterator[pa.Table]:
    for batch in layer.batches():
        places = decode_locations(
            batch.column(1), layer.schema, zone=task.bucket.zone, path=layer.path
        )
        when = places.instant_time
        if instant is not None:
            when = pa.repeat(pa.scalar(instant), batch.num_rows)
        table = pa.Table.from_arrays(
            [
                batch.column(0).cast(pa.string()),
                when,
                pa.repeat(pa.scalar(False), batch.num_rows),
                places.partition_path.cast(pa.string()),
                places.file_id.cast(pa.string()),
            ],
            schema=WRITTEN_SCHEMA,
        )
        if instant is None:
            texts = np.asarray(when.fill_null("").to_numpy(zero_copy_only=False), np.str_)
            table = table.filter(pa.array((texts > task.since) & (texts <= task.until)))
        yield table
