"""Tables in polars: `scan` is a lazy frame of a snapshot, `sink` writes a lazy frame.

polars' own Parquet reader reads base files on the local disk, less the rows that the logs replace.
pyhudi reads the other rows: polars hands the columns and the filter of a query down, slices that
the filter rules out are skipped, and one file slice after another is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.api.input_conversion import ScanModeName
from pyhudi.api.table import Table, open_table
from pyhudi.engines.snapshot_parts import (
    CutFile,
    is_native,
    rest_of,
    snapshot_parts,
)
from pyhudi.errors import UserError
from pyhudi.libraries import load_library
from pyhudi.read.polars_source import lazy_rows
from pyhudi.read.scan import Scan
from pyhudi.read.time_travel import PointInTime
from pyhudi.write.write_report import WriteReport

if TYPE_CHECKING:
    from polars import LazyFrame, Schema, Series

_OPERATIONS: Final = ("upsert", "insert", "bulk_insert", "insert_overwrite")
_ROW: Final = "__pyhudi_row"
_AS_STORED: Final[dict[str, Any]] = {"glob": False, "hive_partitioning": False}
SCANNED_FILES_MAX: Final = 2000
"""polars opens all files of a frame in each query.  Of tables with more files pyhudi reads the
rows: it opens those that partitions and statistics do not rule out."""


def scan(
    table: Table | str | os.PathLike[str],
    *,
    as_of: PointInTime | None = None,
    mode: ScanModeName = "snapshot",
    with_meta: bool = False,
    reader: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
) -> LazyFrame:
    """A lazy frame of a table's snapshot, which is chosen now.

    table: a table, its path or URL.  as_of and mode: as for `Table.scan`.  reader: "auto",
    or "arrow" to have pyhudi read all rows, so that files are skipped by the table's indexes and
    statistics.  Reads the footers of base files and merges the keys of logs; rows are read when the
    query runs.  Raises as `open_table` and `Table.scan` do, and UserError for another reader.
    """
    by_engine = is_native(reader)
    opened = (
        table if isinstance(table, Table) else open_table(table, storage_options=storage_options)
    )
    scan = opened.scan(as_of=as_of, mode=mode, with_meta=with_meta).pinned()
    return _lazy_frame(scan, native=by_engine and len(scan.tasks) <= SCANNED_FILES_MAX)


def sink(
    frame: LazyFrame,
    table: Table,
    *,
    operation: str = "upsert",
    batch_rows: int = 100_000,
    **options: Any,
) -> WriteReport:
    """Write the rows of a lazy frame, which polars computes batch by batch.

    operation: "upsert", "insert", "bulk_insert" or "insert_overwrite"; options: as for this method
    of the table.  Memory follows the batches, as for any stream of Arrow batches.  Raises
    UserError for another operation, and as the method does.
    """
    if operation not in _OPERATIONS:
        raise UserError(
            "unknown operation", operation=operation, hint=f"one of {', '.join(_OPERATIONS)}"
        )
    import polars

    names = frame.collect_schema()
    schema = polars.DataFrame(schema=names).to_arrow().schema
    fields = {field.name: field for field in table.schema}
    target = pa.schema([fields.get(field.name, field) for field in schema])

    def batches() -> Iterator[pa.RecordBatch]:
        for part in frame.collect_batches(chunk_size=batch_rows, maintain_order=True):
            yield from part.to_arrow().cast(target).to_batches()

    reader = pa.RecordBatchReader.from_batches(target, batches())
    report: WriteReport = getattr(table, operation)(reader, **options)
    return report


def _lazy_frame(scan: Scan, *, native: bool) -> LazyFrame:
    """The frame of a pinned scan: files that polars reads, and the rest."""
    load_library("polars", extra="polars", needed_for="pyhudi.polars.scan()")
    import polars

    schema = polars.DataFrame(scan.schema.empty_table()).schema
    parts = snapshot_parts(scan, native=native)
    paths = [*parts.whole, *(file.path for file in parts.cut)]
    if paths and not _reads_types(paths[0], schema):
        parts = snapshot_parts(scan, native=False)
    frames = []
    if parts.whole:
        frames.append(polars.scan_parquet(list(parts.whole), **_AS_STORED).select(list(schema)))
    if parts.cut:
        frames.append(_remaining(parts.cut).select(list(schema)))
    if parts.rest is not None or not frames:
        frames.append(lazy_rows(parts.rest or rest_of(scan)))
    return frames[0] if len(frames) == 1 else polars.concat(frames)


def _reads_types(path: str, schema: Schema) -> bool:
    """Whether polars reads a file with the types that it gives Arrow columns."""
    import polars

    stored = polars.scan_parquet(path, **_AS_STORED).collect_schema()
    return all(stored.get(name) == kind for name, kind in schema.items())


def _remaining(files: Sequence[CutFile]) -> LazyFrame:
    """The rows of base files that the logs do not replace."""
    import polars

    remaining = np.logical_not(np.concatenate([file.mask for file in files]))

    def is_remaining(numbers: Series) -> Series:
        return polars.Series(remaining[numbers.to_numpy()])

    paths = [file.path for file in files]
    rows = polars.scan_parquet(paths, row_index_name=_ROW, **_AS_STORED)
    # A function of each row: polars still skips row groups by the other conditions of a query.
    return rows.filter(
        polars.col(_ROW).map_batches(
            is_remaining, return_dtype=polars.Boolean(), is_elementwise=True
        )
    )
