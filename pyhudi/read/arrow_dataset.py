"""A scan as a pyarrow Dataset, for tools that hand columns and filters down to one.

DuckDB and polars ask a Dataset for a scanner with the columns and the filter of their query;
here that becomes a scan of its own, so partitions, files and row groups are skipped as in any
other.  The snapshot is the one of the moment the dataset was made.
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


class _OverScans:
    """What a Dataset does, done by scans; it has no fragments."""

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
        kept = {name: options[name] for name in ("batch_size",) if name in options}
        try:
            names = _names(columns)
            if names == []:  # who counts rows wants no column, but rows need one to be told
                names = self._schema.names[:1]
            scan = self._narrowed(names, filter)
            reader, left = scan.to_batches(), None
        except UserError:  # a filter that is Arrow's to judge; it is applied to the rows
            reader, left = self._narrowed(None, None).to_batches(), filter
        import pyarrow.dataset as ds  # slow to import

        return ds.Scanner.from_batches(reader, columns=columns, filter=left, **kept)

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
            "a table's rows are not files that can be read one by one",
            hint="use scanner(), to_table() or to_batches()",
        )

    def replace_schema(self, schema: pa.Schema) -> Any:
        raise UserError("the schema of a table's dataset is the table's own")

    def __reduce__(self) -> Any:
        raise UserError("a table's dataset stays in its process", hint="open the table there")

    def __repr__(self) -> str:
        return f"<pyhudi dataset: {', '.join(self._schema.names)}>"


@cache
def _dataset_class() -> Any:
    import pyarrow.dataset as ds  # slow to import

    return type("ScanDataset", (_OverScans, ds.Dataset), {})


def _names(columns: Any) -> list[str] | None:
    """Columns to read for what a scanner is asked for; None where expressions may name any."""
    if columns is None or isinstance(columns, dict):
        return None
    return list(columns)
