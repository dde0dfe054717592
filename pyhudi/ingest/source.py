"""What a source of rows is to an ingest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The size of one batch.  A batch has at least one unit of the source, however large.

    bytes: of the source's data; None: no limit.
    """

    bytes: int | None = 1 << 30


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows that follow a checkpoint.

    rows: read once, in the order of the source.  checkpoint: the position after them.
    """

    rows: pa.RecordBatchReader
    checkpoint: str


class RowSource(Protocol):
    """Rows in an order that does not change, and positions in it as text."""

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """The rows after a checkpoint; None if there are none now.

        checkpoint: as an earlier batch stated it, or as Apache Hudi's streamer stored it; None
        reads from the beginning.  The same checkpoint gives the same rows again, or more.
        schema: the user columns of the table, which type values of formats without types.
        Raises UserError for a checkpoint that is not one of this source.
        """
        ...
