"""A scan: planned when first used, then read as often as asked, always the same snapshot."""

from __future__ import annotations

import html
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.read.arrow_dataset import dataset_of
from pyhudi.read.scan_plan import ReadTask, ScanPlan, ScanRequest, count_task, plan_scan, read_task
from pyhudi.read.table_snapshot import TableState


class Scan:
    """Rows of a table, not read yet.

    Anything that takes Arrow streams takes a Scan.  state: called once, when the scan is planned.
    """

    def __init__(
        self, state: Callable[[], TableState], request: ScanRequest, *, engine: Engine
    ) -> None:
        self._state = state
        self._request = request
        self._engine = engine

    @cached_property
    def plan(self) -> ScanPlan:
        return plan_scan(self._state(), self._request)

    @property
    def schema(self) -> pa.Schema:
        return self.plan.schema

    @property
    def tasks(self) -> tuple[ReadTask, ...]:
        """Picklable pieces of the scan; `pyhudi.read.scan_plan.read_task` reads one."""
        return self.plan.tasks

    def to_arrow(self) -> pa.Table:
        """All rows.  Slices are read in parallel."""
        tables = self._engine.run(read_task, self.tasks, label="read")
        if not self.schema.names:  # tables without columns are joined by their batches alone
            return pa.Table.from_batches([b for t in tables for b in t.to_batches()], self.schema)
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def to_batches(self) -> pa.RecordBatchReader:
        """All rows as a stream.

        Memory: what is consumed and two pieces read ahead; a piece is a row group, or a whole
        slice where it has logs.
        """
        return pa.RecordBatchReader.from_batches(self.schema, _stream(self.tasks))

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas DataFrame; options as for `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def count(self) -> int:
        """Number of rows; only footers are read where nothing is filtered or merged."""
        return sum(self._engine.run(count_task, self.tasks, label="count"))

    def to_pyarrow_dataset(self) -> Any:
        """This snapshot as a `pyarrow.dataset.Dataset`: columns and filters that others hand to it
        become part of the scan."""
        request, engine = self._request, self._engine
        state = self._state()

        def narrowed(columns: list[str] | None, where: pc.Expression | None) -> Scan:
            both = where if request.where is None else request.where
            if where is not None and request.where is not None:
                both = request.where & where
            names = request.columns if columns is None else tuple(columns)
            return Scan(lambda: state, replace(request, columns=names, where=both), engine=engine)

        return dataset_of(narrowed)

    def explain(self) -> ScanPlan:
        """What will be read, and what is skipped; prints as text."""
        return self.plan

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self.plan))}</pre>"


def _stream(tasks: tuple[ReadTask, ...], ahead: int = 2) -> Iterator[pa.RecordBatch]:
    """Batches of each piece in turn, while the next ones are being read."""
    if not tasks:
        return
    waiting: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(ahead, thread_name_prefix="pyhudi-read") as pool:
        try:
            for task in tasks:
                for piece in task.pieces():
                    waiting.append(pool.submit(read_task, piece))
                    if len(waiting) > ahead:
                        yield from waiting.popleft().result().to_batches()
            while waiting:
                yield from waiting.popleft().result().to_batches()
        finally:
            for future in waiting:
                future.cancel()
