"""Incoming rows of a write that may be planned more than once.

Rows are keyed and staged once, including those of a stream that can be read only once; further
attempts reuse them.  They are staged again only if the table's columns or index have changed in
the meantime, which requires that the input can be read again.
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
    """Incoming rows that stay staged as long as the first staging area exists."""

    rows: Rows
    _plan: KeyPlan | None = field(default=None, init=False)
    _parts: list[BatchChunk] = field(default_factory=list, init=False)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        """Raises WriteConflictError for a stream that was already read with other columns."""
        if self._plan == plan:
            return self._parts
        if self._plan is not None and isinstance(self.rows, StreamRows):
            raise WriteConflictError(
                "another writer changed the table's columns or index, and the stream of rows "
                "can be read only once",
                hint="write again from the beginning of the stream",
            )
        self._parts = self.rows.stage(plan, staging, engine)
        self._plan = plan
        return self._parts
