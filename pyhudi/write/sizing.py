"""How many bytes a row takes in a base file: what new files are sized by."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pyhudi.formats import parquet
from pyhudi.options import WriteOptions
from pyhudi.read.state import TableState
from pyhudi.records import FILE_NAME, PARTITION_PATH
from pyhudi.write.batch import Part

_SAMPLE_ROWS = 16 * 1024


def record_bytes(state: TableState, options: WriteOptions, parts: Sequence[Part]) -> int:
    """Bytes a row takes in a base file: as the newest commit with base files tells, else as a
    sample of the batch does."""
    timeline = state.timeline.commits
    for instant in reversed(timeline.instants):
        stats = [s for s in state.log.commit(instant).stats if s.log_version is None]
        rows = sum(s.write_count for s in stats)
        size = sum(s.size_bytes for s in stats)
        if rows and size > options.sizing.small_file_bytes:
            return -(-size // rows)
    sample = next((p for p in parts if p.row_count), None)
    if sample is None:
        return options.sizing.record_bytes
    rows_of = sample.staged.load().slice(0, _SAMPLE_ROWS)
    names = [n for n in rows_of.schema.names if n not in (PARTITION_PATH, FILE_NAME)]
    sink = pa.BufferOutputStream()
    parquet.write_base(
        sink,
        rows_of.select(names),
        avro_schema="",
        bloom=None,
        compression=options.base_file.codec,
    )
    taken: int = sink.tell()
    return max(1, int(-(-taken // rows_of.num_rows)))
