"""Estimate of the bytes per row in a base file, used to size new files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.formats import base_file
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import COMMIT_SEQNO, FILE_NAME, PARTITION_PATH
from pyhudi.write.input.batch import BatchChunk

_SAMPLE_ROWS = 16 * 1024
_ROW_BYTES = 1024  # for a batch without rows, which writes nothing
_SEQNO = "20260101000000000_0"
_COMMITS_MAX = 5  # as Apache Hudi 1.2: each older commit costs a read


def record_bytes(state: TableState, options: WriteOptions, parts: Sequence[BatchChunk]) -> int:
    """Estimated bytes per row in a base file.

    The average of the newest of the last few commits that wrote enough data for footers and
    filters not to matter; else the option's value, or the average of a sample of the batch.
    """
    sizing = options.sizing
    for instant in state.timeline.commits.instants[: -_COMMITS_MAX - 1 : -1]:
        stats = [s for s in state.log.commit(instant).stats if s.log_version is None]
        rows = sum(s.write_count for s in stats)
        size = sum(s.size_bytes for s in stats)
        if rows and size > sizing.estimate_threshold * sizing.small_file_bytes:
            return -(-size // rows)
    if sizing.record_bytes is not None:
        return sizing.record_bytes
    sample = next((p for p in parts if p.row_count), None)
    if sample is None:
        return _ROW_BYTES
    rows_of = sample.staged.load().slice(0, _SAMPLE_ROWS)
    names = [n for n in rows_of.schema.names if n not in (PARTITION_PATH, FILE_NAME)]
    ordinals = pa.array(range(rows_of.num_rows)).cast(pa.string())
    seqno = pc.binary_join_element_wise(_SEQNO, ordinals, "_")  # the largest meta column
    sink = pa.BufferOutputStream()
    base_file.write_base(
        sink,
        rows_of.select(names).append_column(COMMIT_SEQNO, seqno),
        avro_schema="",
        bloom=None,
        compression=options.base_file.codec,
    )
    taken: int = sink.tell()
    return max(1, int(-(-taken // rows_of.num_rows)))
