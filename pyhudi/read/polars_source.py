"""Rows that pyhudi reads as a lazy frame of polars.

polars hands the columns and the filter of a query down.  It applies the filter itself: what it
makes of a filter for a pyarrow dataset has other answers for NaN and for nulls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from pyhudi.read.polars_filter import polars_filter
from pyhudi.read.predicate import Predicate

if TYPE_CHECKING:
    from polars import DataFrame, Expr, LazyFrame, Schema


class Batches(Protocol):
    """Rows that can be read."""

    def to_batches(self) -> pa.RecordBatchReader: ...


class NarrowedRows(Protocol):
    """Rows that can be narrowed to columns and by a filter before they are read."""

    @property
    def schema(self) -> pa.Schema: ...

    def narrowed(self, columns: Sequence[str] | None, where: Predicate | None) -> Batches: ...


def lazy_rows(rows: NarrowedRows) -> LazyFrame:
    """The rows as a lazy frame; nothing is read."""
    import polars
    from polars.io.plugins import register_io_source

    schema = polars.DataFrame(rows.schema.empty_table()).schema
    return register_io_source(_Source(rows, schema), schema=schema)


class _Source:
    """The function that polars calls for the rows when a query runs."""

    def __init__(self, rows: NarrowedRows, schema: Schema) -> None:
        self._rows, self._schema = rows, schema

    def __call__(
        self,
        columns: list[str] | None,
        predicate: Expr | None,
        rows: int | None,
        batch_rows: int | None,
    ) -> Iterator[DataFrame]:
        names = list(self._schema) if columns is None else columns
        for frame in self._frames(names, predicate):
            if rows is None:
                yield frame
                continue
            yield frame.head(rows)
            rows -= frame.height
            if rows <= 0:
                return

    def _frames(self, names: Sequence[str], predicate: Expr | None) -> Iterator[DataFrame]:
        """The rows that pass the predicate, in frames of at most one slice."""
        import polars

        needed = {*names, *(() if predicate is None else predicate.meta.root_names())}
        columns = [name for name in self._schema if name in needed] or list(self._schema)[:1]
        where = None if predicate is None else polars_filter(predicate, self._rows.schema)
        kinds = polars.Schema({name: self._schema[name] for name in columns})
        for batch in self._rows.narrowed(columns, where).to_batches():
            frame = polars.DataFrame(batch).cast(kinds)
            yield (frame if predicate is None else frame.filter(predicate)).select(names)
