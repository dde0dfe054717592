"""Reads of the splits of a source by workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyhudi.errors import BadRowsError
from pyhudi.ingest.source import RejectedRows
from pyhudi.spark.types import spark_batches
from pyhudi.spark.worker import Batches

_ROWS: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class SplitWork:
    """Pickled splits of a batch, and the schema that Spark expects of their rows."""

    splits: tuple[bytes, ...]
    schema: pa.Schema


def split_batches(work: SplitWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The rows of the splits whose numbers are in the batches; runs on workers.

    Raises BadRowsError for a row that cannot be decoded.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rejected = RejectedRows()
            for rows in pickle.loads(work.splits[number]).read(rejected):
                _check(rejected)
                yield from spark_batches(pa.Table.from_batches([rows]), work.schema, rows=_ROWS)
            _check(rejected)


def _check(rejected: RejectedRows) -> None:
    found = rejected.take()
    if rejected.error is not None:
        raise rejected.error
    if found.num_rows:
        first = found.slice(0, 1).to_pylist()[0]
        raise BadRowsError(
            "rows of the source cannot be decoded",
            rows=found.num_rows,
            position=first["position"],
            reason=first["reason"],
        )
