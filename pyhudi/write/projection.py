"""Evaluation of expressions on rows in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError


def projected(rows: pa.Table, columns: Mapping[str, pc.Expression]) -> pa.Table:
    """The values of expressions, by column.  Raises UserError for a value that does not fit."""
    from pyarrow import acero  # slow to import

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    options = acero.ProjectNodeOptions(list(columns.values()), list(columns))
    plan = acero.Declaration.from_sequence([source, acero.Declaration("project", options)])
    try:
        return plan.to_table(use_threads=False)
    except pa.ArrowException as error:
        raise UserError("the update has a value that does not fit", cause=str(error)) from None
