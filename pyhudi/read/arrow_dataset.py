"""A scan as a pyarrow Dataset, for tools that push columns and filters down.

DuckDB and polars request a scanner with the columns and the filter of their query.  Each request
becomes a separate scan, so partitions, files and row groups are skipped as in any other scan.  All
scans read the snapshot at which the dataset was created.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError

Narrowed = Callable[[list[str] | None, pc.Expression | None], Any]
"""The scan of some of the columns (None: all) and of the rows that pass a filter."""


def dataset_of(narrowed: Narrowed) -> Any:
    """A `pyarrow.dataset.Dataset` over scans."""
    return _dataset_class()(narrowed)


class DatasetOverScans:
    """The Dataset interface, implemented by scans; it has no fragments."""

    def __init__(self, narrowed: Narrowed) -> None:
        self._narrowed = narrowed
        self._schema = narrowed(None, None).schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def partition_expression(self) -> pc.Expression:
        return pc.scalar(True)

    def scanner(
        self, columns: Any = None, filter: pc.Expression | None = None, **options: Any
    ) -> Any:
        """A pyarrow Scanner, good for one pass.  columns: names, or expressions by name."""
        if isinstance(filter, pa.Scalar):  # of DataFusion, for a condition that is constant
            filter = pc.scalar(filter)
        forwarded = {name: options[name] for name in ("batch_size",) if name in options}
        try:
            names = _names(columns)
            if names == []:  # a row count needs no column, but a stream needs one to have rows
                names = self._schema.names[:1]
            scan = self._narrowed(names, filter)
            reader, left = scan.to_batches(), None
        except UserError:  # only Arrow can judge this filter; it is applied to the rows
            reader, left = self._narrowed(None, None).to_batches(), filter
        import pyarrow.dataset as ds  # slow to import

        return ds.Scanner.from_batches(reader, columns=columns, filter=left, **forwarded)

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        return self.scanner(columns, filter, **options).to_batches()

    def head(self, num_rows: int, columns: Any = None, **options: Any) -> pa.Table:
        return self.scanner(columns, **options).head(num_rows)

    def take(self, indices: Any, columns: Any = None, **options: Any) -> pa.Table:
        return self.to_table(columns, **options).take(indices)

    def count_rows(self, filter: Any = None, **_: Any) -> int:
        return int(self._narrowed(None, filter).count())

    def filter(self, expression: pc.Expression) -> Any:
        outer = self._narrowed

        def narrower(columns: list[str] | None, more: pc.Expression | None) -> Any:
            return outer(columns, expression if more is None else expression & more)

        return dataset_of(narrower)

    def get_fragments(self, filter: Any = None) -> Any:
        raise UserError(
            "the dataset of a table has no fragments",
            hint="use scanner(), to_table() or to_batches()",
        )

    def replace_schema(self, schema: pa.Schema) -> Any:
        raise UserError("the schema of a table's dataset cannot be replaced")

    def __reduce__(self) -> Any:
        raise UserError(
            "the dataset of a table cannot be pickled", hint="open the table in the other process"
        )

    def __repr__(self) -> str:
        return f"<pyhudi dataset: {', '.join(self._schema.names)}>"


@cache
def _dataset_class() -> Any:
    import pyarrow.dataset as ds  # slow to import

    return type("ScanDataset", (DatasetOverScans, ds.Dataset), {})


def _names(columns: Any) -> list[str] | None:
    """Columns to read for the `columns` of a scanner; None where expressions may name any."""
    if columns is None or isinstance(columns, dict):
        return None
    return list(columns)
