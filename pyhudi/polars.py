"""Tables in polars: `scan` is a lazy frame of a snapshot, `sink` writes a lazy frame.

polars hands the columns and the filter of a query down.  File slices that the filter rules out are
skipped; polars' own Parquet reader reads base files on the local disk, less the rows that the logs
replace; pyhudi reads the other rows.  One file slice after another is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.api.table import Table, open_table
from pyhudi.engines.polars_filter import arrow_filter
from pyhudi.engines.snapshot_parts import CutFile, snapshot_parts
from pyhudi.errors import UserError
from pyhudi.read.scan import Scan
from pyhudi.read.time_travel import PointInTime
from pyhudi.write.write_report import WriteReport

if TYPE_CHECKING:
    from polars import DataFrame, Expr, LazyFrame

_OPERATIONS: Final = ("upsert", "insert", "bulk_insert", "insert_overwrite")
_ROW: Final = "__pyhudi_row"
_FILES_BYTES: Final = 64 << 20
"""Base files without replaced rows are read together up to this size."""


def scan(
    table: Table | str | os.PathLike[str],
    *,
    as_of: PointInTime | None = None,
    mode: str = "snapshot",
    with_meta: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> LazyFrame:
    """A lazy frame of a table's snapshot, which is chosen now.

    table: a table, its path or URL.  as_of and mode: as for `Table.scan`.  Nothing but the
    timeline and the file listing is read before the query runs.  Raises as `open_table` and
    `Table.scan` do.
    """
    from polars.io.plugins import register_io_source

    opened = table if isinstance(table, Table) else open_table(
        table, storage_options=storage_options
    )  # fmt: skip
    source = _Source(opened.scan(as_of=as_of, mode=mode, with_meta=with_meta).pinned())
    return register_io_source(source, schema=source.schema)


def sink(
    frame: LazyFrame, table: Table, *, operation: str = "upsert", batch_rows: int = 100_000,
    **options: Any,
) -> WriteReport:  # fmt: skip
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


class _Source:
    """The function that polars calls when a query runs."""

    def __init__(self, scan: Scan) -> None:
        import polars

        self._scan = scan
        self.schema = polars.DataFrame(scan.schema.empty_table()).schema

    def __call__(
        self,
        columns: list[str] | None,
        predicate: Expr | None,
        rows: int | None,
        batch_rows: int | None,
    ) -> Iterator[DataFrame]:
        names = list(self.schema) if columns is None else columns
        for frame in self._frames(names, predicate):
            if rows is None:
                yield frame
                continue
            yield frame.head(rows)
            rows -= frame.height
            if rows <= 0:
                return

    def _frames(self, names: Sequence[str], predicate: Expr | None) -> Iterator[DataFrame]:
        """The rows that pass the predicate, in frames of at most some files or one slice."""
        import polars

        needed = {*names, *(() if predicate is None else predicate.meta.root_names())}
        columns = [name for name in self.schema if name in needed] or list(self.schema)[:1]
        where = None if predicate is None else arrow_filter(predicate, self._scan.schema)
        parts = snapshot_parts(self._scan, columns=columns, where=where)
        if not self._is_native([*parts.whole, *(file.path for file in parts.cut)], columns):
            parts = snapshot_parts(self._scan, columns=columns, where=where, native=False)
        for paths in _by_size(parts.whole):
            yield _collected(polars.scan_parquet(paths, **_AS_STORED), names, predicate)
        for file in parts.cut:
            yield _collected(_remaining(file), names, predicate)
        kinds = polars.Schema({name: self.schema[name] for name in columns})
        for batch in parts.rest.to_batches() if parts.rest else ():
            yield _collected(polars.DataFrame(batch).cast(kinds).lazy(), names, predicate)

    def _is_native(self, paths: Sequence[str], columns: Sequence[str]) -> bool:
        """Whether polars reads the files with the types that it gives Arrow columns."""
        import polars

        if not paths:
            return True
        stored = polars.scan_parquet(paths[0], **_AS_STORED).collect_schema()
        return all(stored.get(name) == self.schema[name] for name in columns)


_AS_STORED: Final[dict[str, Any]] = {"glob": False, "hive_partitioning": False}


def _collected(rows: LazyFrame, names: Sequence[str], predicate: Expr | None) -> DataFrame:
    chosen = rows if predicate is None else rows.filter(predicate)
    return chosen.select(names).collect()


def _remaining(file: CutFile) -> LazyFrame:
    """The rows of a base file that the logs do not replace."""
    import polars

    remaining = polars.lit(polars.Series(np.logical_not(file.mask)))
    rows = polars.scan_parquet(file.path, row_index_name=_ROW, **_AS_STORED)
    return rows.filter(remaining.gather(polars.col(_ROW)))


def _by_size(paths: Sequence[str]) -> Iterator[list[str]]:
    """Files in groups, each of at least one file."""
    group: list[str] = []
    total = 0
    for path in paths:
        size = os.path.getsize(path)
        if group and total + size > _FILES_BYTES:
            yield group
            group, total = [], 0
        group.append(path)
        total += size
    if group:
        yield group
