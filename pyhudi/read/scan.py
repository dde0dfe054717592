"""Scans: planned on first use, then readable any number of times from the same snapshot.

The rows come as Arrow data, or in the formats of pandas, polars, Dask and Ray: optional libraries
that are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine, run_ahead
from pyhudi.errors import UserError
from pyhudi.libraries import load_library
from pyhudi.other_names import SCAN, unknown_name
from pyhudi.read.arrow_dataset import dataset_of
from pyhudi.read.filters import as_predicate
from pyhudi.read.polars_source import lazy_rows
from pyhudi.read.predicate import Predicate, both
from pyhudi.read.scan_plan import ReadTask, ScanPlan, ScanRequest, count_task, plan_scan, read_task
from pyhudi.read.table_snapshot import TableState, read_current

if TYPE_CHECKING:
    import pandas
    import polars


class ArrowRows:
    """Rows in the formats of other libraries, for classes with `to_arrow`."""

    def to_arrow(self) -> pa.Table:
        raise NotImplementedError

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; options as for `pyarrow.Table.to_pandas`."""
        load_library("pandas", extra="pandas", needed_for="to_pandas")
        return self.to_arrow().to_pandas(**options)

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> polars.DataFrame: ...
    @overload
    def to_polars(self, *, lazy: bool) -> polars.DataFrame | polars.LazyFrame: ...
    def to_polars(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """All rows as a polars DataFrame, or a LazyFrame of the current snapshot, which reads only
        what a query needs: polars pushes columns and filters down to the scan."""
        library = load_library("polars", extra="polars", needed_for="to_polars")
        if lazy:
            return lazy_rows(self._lazy().pinned())
        found: polars.DataFrame = library.DataFrame(self.to_arrow())
        return found

    def to_dask(self, **options: Any) -> Any:
        """The rows of the current snapshot as a Dask DataFrame, a partition for each file slice.

        Reads nothing yet.  options: as for `pyarrow.Table.to_pandas` of each partition; an integer
        or boolean column with nulls needs `types_mapper=pandas.ArrowDtype` to have the same type
        in all.
        """
        frames = load_library("dask.dataframe", extra="dask", needed_for="to_dask")
        dask, scan = import_module("dask"), self._lazy()
        empty = scan.schema.empty_table().to_pandas(**options)
        # Dask would make texts of all columns of objects: of decimals, dates, bytes, lists.
        with dask.config.set({"dataframe.convert-string": False}):
            if not scan.tasks:
                return frames.from_pandas(empty, npartitions=1)
            delayed = dask.delayed(_frame_of, pure=False, traverse=False)
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


class Scan(ArrowRows):
    """Rows of a table, read lazily.

    Anything that accepts Arrow streams accepts a Scan.  state: called once, when the
    scan is planned, and again where instants have left the timeline meanwhile.
    """

    def __init__(
        self, state: Callable[[], TableState], request: ScanRequest, *, engine: Engine
    ) -> None:
        self._state = state
        self._request = request
        self._engine = engine

    @cached_property
    def plan(self) -> ScanPlan:
        """The files to read, and what was skipped; made on first use."""
        return read_current(self._state, lambda state: plan_scan(state, self._request))

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows, in the requested order."""
        return self.plan.schema

    @property
    def tasks(self) -> tuple[ReadTask, ...]:
        """Picklable tasks of the scan; `pyhudi.read.scan_plan.read_task` reads one."""
        return self.plan.tasks

    def to_arrow(self) -> pa.Table:
        """All rows.  Slices are read in parallel."""
        tables = self._engine.run(read_task, self.tasks, label="read")
        if not self.schema.names:  # tables without columns can only be joined as batches
            return pa.Table.from_batches([b for t in tables for b in t.to_batches()], self.schema)
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def _lazy(self) -> Scan:
        return self

    def to_batches(self) -> pa.RecordBatchReader:
        """All rows as a stream.

        Memory: the part being consumed and two parts read ahead; a part is a row group, or a whole
        slice if it has logs.
        """
        return task_batches(self.schema, self.tasks)

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, in no defined order; reads no more parts of files than needed, and two
        ahead.  Raises UserError for a negative number."""
        if rows < 0:
            raise UserError("the number of rows is negative", rows=rows)
        found: list[pa.RecordBatch] = []
        left = rows
        with self.to_batches() as batches:
            while left > 0 and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, min(left, batch.num_rows)))
                left -= found[-1].num_rows
        return pa.Table.from_batches(found, self.schema)

    def count(self) -> int:
        """Number of rows; only footers are read where nothing is filtered or merged."""
        return sum(self._engine.run(count_task, self.tasks, label="count"))

    def to_pyarrow_dataset(self) -> Any:
        """This snapshot as a `pyarrow.dataset.Dataset`: columns and filters that are
        pushed down to it become part of the scan."""
        return dataset_of(self.pinned().narrowed)

    def pinned(self) -> Scan:
        """This scan of the table's present state, which scans narrowed from it read too."""

        def fixed(state: TableState) -> Scan:
            inner = replace(self._request, where=self._own_filter())
            scan = Scan(lambda: state, inner, engine=self._engine)
            # Archival may remove instants that planning reads; now a newer state can be loaded.
            _ = scan.plan
            return scan

        return read_current(self._state, fixed)

    def _own_filter(self) -> Predicate | None:
        """The filter of the request, parsed at most once."""
        if isinstance(self._request.where, str):
            return self.plan.where
        return as_predicate(self._request.where, self.plan.table)

    def narrowed(
        self, columns: Sequence[str] | None, where: pc.Expression | Predicate | None
    ) -> Scan:
        """The scan of some of the columns (None: all) and of the rows that pass a filter too."""
        names = self._request.columns if columns is None else tuple(columns)
        found = None if where is None else as_predicate(where, self.plan.table)
        inner = replace(self._request, columns=names, where=both(self._own_filter(), found))
        return Scan(self._state, inner, engine=self._engine)

    def explain(self) -> ScanPlan:
        """The plan: what is read and what is skipped.  Prints as text."""
        return self.plan

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_batches().__arrow_c_stream__(requested_schema)

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise unknown_name("a Scan", name, dir(type(self)), SCAN)

    def __repr__(self) -> str:
        request = self._request
        given = {"columns": request.columns, "where": request.where, "as_of": request.as_of}
        named = (f"{name}={value!r}" for name, value in given.items() if value is not None)
        return f"Scan({', '.join(named)})"

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()


def task_batches(schema: pa.Schema, tasks: tuple[ReadTask, ...]) -> pa.RecordBatchReader:
    """The rows of tasks as a stream; memory as for `Scan.to_batches`."""
    return pa.RecordBatchReader.from_batches(schema, _stream(tasks))


def _stream(tasks: tuple[ReadTask, ...], ahead: int = 2) -> Iterator[pa.RecordBatch]:
    """Batches of each part in turn, while the next parts are read."""
    if not tasks:
        return
    if len(tasks) == 1 and not tasks[0].is_one_file:  # one part, with nothing to read ahead
        yield from read_task(tasks[0]).to_batches()
        return
    parts = (part for task in tasks for part in task.split())
    for rows in run_ahead(read_task, parts, ahead=ahead):
        yield from rows.to_batches()


def _frame_of(task: ReadTask, options: Mapping[str, Any]) -> Any:
    """A partition of a Dask DataFrame; runs on workers."""
    return read_task(task).to_pandas(**options)


def _rows_of(items: Mapping[str, Iterable[ReadTask]]) -> pa.Table:
    """A block of a Ray Dataset; runs on workers."""
    return pa.concat_tables(map(read_task, items["task"]))
