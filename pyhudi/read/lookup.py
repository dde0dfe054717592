"""Keys to places and rows, through the record index."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.read.state import TableState


def key_column(keys: Any) -> pa.Array | pa.ChunkedArray:
    """Keys as the caller has them (a list, an Arrow array or column) as one string column."""
    if hasattr(keys, "__arrow_c_stream__") and not isinstance(keys, pa.Array | pa.ChunkedArray):
        keys = pa.chunked_array(keys)
    column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, pa.string())
    try:
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as unfit:
        raise UserError("keys are strings", found=str(column.type)) from unfit


def lookup_keys(state: TableState, keys: Any, *, engine: Engine) -> pa.Table:
    raise IndexNotReadyError("the table has no record index")


def fetch_rows(
    state: TableState, keys: Any, *, columns: tuple[str, ...] | None, engine: Engine
) -> pa.Table:
    raise IndexNotReadyError("the table has no record index")
