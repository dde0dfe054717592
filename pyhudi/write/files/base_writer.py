"""One base file of a file group: its name, its marker, its bytes and its write statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import BloomFilter
from pyhudi.arrays import Mask
from pyhudi.filenames import BaseFileName, join, new_write_token
from pyhudi.formats import base_file
from pyhudi.formats.base_file import BaseFooter
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.cdc_logs import write_cdc_log
from pyhudi.write.files.file_plan import FilePlan, millis_since


def base_name(plan: FilePlan, number: int, group: FileGroupId) -> BaseFileName:
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
    replaced: BaseFooter | None = None,
) -> int:
    """Create the marker of a base file and write the file; returns its size in bytes.

    keys: the key range of the rows other than `added`, if known.  replaced: the footer of the file
    that this one replaces, if most rows are the same.  The caller checks whether the
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
            replaced=replaced.metadata if replaced else None,
            instant=plan.instant,
        )
        return sink.tell()


def _range(keys: tuple[str, str] | None, added: pa.Table | None) -> tuple[str | None, str | None]:
    if keys is None or added is None:
        return None, None
    if not added.num_rows:
        return keys
    found = pc.min_max(added.column(RECORD_KEY)).as_py()
    return min(keys[0], found["min"]), max(keys[1], found["max"])


def base_stat(
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


def counted(stat: WriteStat, *, inserted: int = 0, updated: int = 0, deleted: int = 0) -> WriteStat:
    return replace(stat, insert_count=inserted, update_count=updated, delete_count=deleted)


def log_changes(
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
