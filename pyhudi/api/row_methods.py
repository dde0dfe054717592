"""Methods that return the rows of the newest snapshot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi.api.input_conversion import is_integer
from pyhudi.errors import UserError
from pyhudi.read.scan import ArrowRows
from pyhudi.read.sql.sql_filter import Filter


class RowVerbs(ArrowRows):
    """The rows of a table, without meta columns; `scan` selects columns, rows and snapshots."""

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return self._rows().to_arrow()

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, in no defined order.  Raises UserError for a negative number."""
        if not is_integer(rows):
            raise UserError("the number of rows must be an integer", rows=rows, hint="head(10)")
        return self._rows().head(rows)

    def count(self, where: Filter | None = None) -> int:
        """The number of rows.

        where: only those for which it is true, as for `scan`.  Without it only footers are read
        where nothing is merged.

        >>> trips.count(), len(trips), trips.count("id = 'a'")
        (2, 2, 1)
        """
        found: int = self._rows(where).count()
        return found

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """A table is true, also if it is empty."""
        return True

    def to_pyarrow_dataset(self) -> Any:
        """The current snapshot as a `pyarrow.dataset.Dataset`, without meta columns."""
        return self._lazy().to_pyarrow_dataset()

    def _rows(self, where: Filter | None = None) -> Any:
        """A scan of all columns without meta columns."""
        raise NotImplementedError
