"""What the planner asks of an engine of queries."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.sql.relations import Bound


class QueryEngine(Protocol):
    """Runs queries over pinned relations.  Errors of the engine are UserErrors."""

    def open(self, path: str) -> Table:
        """The table at a path."""
        ...

    def create(self, path: str, schema: pa.Schema, **definition: Any) -> Table:
        """A new table; definition: the arguments of `pyhudi.create_table`."""
        ...

    def result(self, query: Bound) -> Any:
        """The rows of a query, as the caller of SQL gets them."""
        ...

    def answer(self, rows: pa.Table) -> Any:
        """Rows that the planner made, as the caller of SQL gets them."""
        ...

    def schema(self, query: Bound) -> pa.Schema:
        """The columns of a query, which is not run."""
        ...

    def rows(self, query: Bound, schema: pa.Schema | None = None) -> Any:
        """The rows of a query as `Table.upsert` takes them.

        schema: the columns of the query, in its order, in the types that they get; None: those of
        the query.  Raises UserError for values that do not fit, also while the rows are read.
        """
        ...

    def collected(self, query: Bound) -> pa.Table:
        """The rows of a query with a small result."""
        ...

    def explained(self, query: Bound) -> str:
        """The engine's plan of a query."""
        ...
