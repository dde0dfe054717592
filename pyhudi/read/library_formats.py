"""Rows in the formats of other libraries: pandas, polars, Dask and Ray.

The libraries are optional and are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.libraries import load_library
from pyhudi.read.scan_plan import ReadTask, read_task

if TYPE_CHECKING:
    from pyhudi.read.scan import Scan


class ArrowRows:
    """Rows in the formats of other libraries, for classes with `to_arrow`."""

    def to_arrow(self) -> pa.Table:
        raise NotImplementedError

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas DataFrame; options as for `pyarrow.Table.to_pandas`."""
        load_library("pandas", extra="pandas", needed_for="to_pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self, *, lazy: bool = False) -> Any:
        """All rows as a polars DataFrame, or a LazyFrame of the current snapshot, which reads only
        what a query needs: polars pushes columns and filters down to the scan."""
        polars = load_library("polars", extra="polars", needed_for="to_polars")
        if lazy:
            return polars.scan_pyarrow_dataset(self._lazy().to_pyarrow_dataset())
        return polars.DataFrame(self.to_arrow())

    def to_dask(self, **options: Any) -> Any:
        """The rows of the current snapshot as a Dask DataFrame, a partition for each file slice.

        Reads nothing yet.  options: as for `pyarrow.Table.to_pandas` of each partition; an integer
        column with nulls needs `types_mapper=pandas.ArrowDtype` to have the same type in all.
        """
        frames = load_library("dask.dataframe", extra="dask", needed_for="to_dask")
        scan = self._lazy()
        empty = scan.schema.empty_table().to_pandas(**options)
        if not scan.tasks:
            return frames.from_pandas(empty, npartitions=1)
        delayed = import_module("dask").delayed(_frame_of, pure=False, traverse=False)
        return frames.from_delayed([delayed(task, options) for task in scan.tasks], meta=empty)

    def to_ray(self) -> Any:
        """The rows of the current snapshot as a Ray Dataset of Arrow blocks, one task for each file
        slice.  Reads nothing yet."""
        data = load_library("ray.data", extra="ray", needed_for="to_ray")
        scan = self._lazy()
        if not scan.tasks:
            return data.from_arrow(scan.schema.empty_table())
        items = data.from_items([{"task": task} for task in scan.tasks])
        return items.map_batches(_rows_of, batch_size=1)

    def _lazy(self) -> Scan:
        """The scan that the rows come from, in this process."""
        raise NotImplementedError


def _frame_of(task: ReadTask, options: Mapping[str, Any]) -> Any:
    """A partition of a Dask DataFrame; runs on workers."""
    return read_task(task).to_pandas(**options)


def _rows_of(items: Mapping[str, Iterable[ReadTask]]) -> pa.Table:
    """A block of a Ray Dataset; runs on workers."""
    return pa.concat_tables(map(read_task, items["task"]))
