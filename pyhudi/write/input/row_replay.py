"""The rows of a write that may have to be planned more than once.

Rows are keyed and put aside once, also those of a stream that can be read only once; a further
attempt finds them there.  Only if the table's columns or its index have changed meanwhile are
they made anew, out of rows that are still to be had.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import WriteConflictError
from pyhudi.storage.spill import Staging
from pyhudi.write.input.batch import BatchChunk, KeyPlan, Rows, StreamRows


@dataclass(slots=True)
class ReplayedRows:
    """Incoming rows that stay put aside for as long as the first staging does."""

    rows: Rows
    _plan: KeyPlan | None = field(default=None, init=False)
    _parts: list[BatchChunk] = field(default_factory=list, init=False)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        """Raises WriteConflictError for a stream that has been read for other columns."""
        if self._plan == plan:
            return self._parts
        if self._plan is not None and isinstance(self.rows, StreamRows):
            raise WriteConflictError(
                "another writer changed the table's columns or index, and the rows to write came "
                "as a stream that is read once",
                hint="write again, from the beginning of the stream",
            )
        self._parts = self.rows.stage(plan, staging, engine)
        self._plan = plan
        return self._parts
