"""Changes of the rows of a batch: SQL, flattening, functions of Python, and chains of them.

A transform takes a stream of record batches and returns one; it is called once a batch of the
source, before the first row is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import OptionError, UserError
from pyhudi.ingest.stream import Transform
from pyhudi.read.sql.batch_queries import query_batches

_SOURCE: Final = "<SRC>"
_VIEW: Final = "pyhudi_source"


@dataclass(frozen=True, slots=True)
class SqlTransform:
    """A query over the rows of a batch, which it names `<SRC>`, run by DuckDB.

    The query sees the batch only: it cannot read files, other tables or variables of the program,
    and cannot load extensions.  Rows stream through it, unless it sorts or aggregates.
    Raises UserError if DuckDB is not installed or rejects the query.
    """

    query: str

    def __post_init__(self) -> None:
        if _SOURCE not in self.query:
            raise OptionError(
                "the query of a transform does not read the batch",
                query=self.query,
                hint=f"SELECT ... FROM {_SOURCE}",
            )

    def __call__(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return query_batches(self.query.replace(_SOURCE, _VIEW), {_VIEW: rows})


@dataclass(frozen=True, slots=True)
class Flatten:
    """Fields of structs as columns: field b of column a becomes `a_b`, at any depth.

    Lists and maps stay.  Raises UserError if two columns get the same name.
    Source: FlatteningTransformer of Apache Hudi.
    """

    def __call__(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        schema = pa.schema([field for column in rows.schema for field in _leaves(column)])
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise UserError(
                "two columns of flattened rows have the same name", columns=", ".join(twice)
            )

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                arrays = [leaf for column in batch.columns for leaf in _leaf_arrays(column)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def _leaves(field: pa.Field, prefix: str = "") -> Iterator[pa.Field]:
    name = prefix + field.name
    if not pa.types.is_struct(field.type):
        yield pa.field(name, field.type)
        return
    for child in field.type:
        yield from _leaves(child, f"{name}_")


def _leaf_arrays(column: pa.Array) -> Iterator[pa.Array]:
    """Fields of a struct that is null are null."""
    if not pa.types.is_struct(column.type):
        yield column
        return
    for child in column.flatten():
        yield from _leaf_arrays(child)


def function_of(place: str) -> Transform:
    """A transform from `module:function`.  Raises OptionError."""
    module, separator, name = place.partition(":")
    try:
        found: Any = getattr(import_module(module), name) if separator else None
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(
            "the transform cannot be imported", transform=place, reason=str(error)
        ) from None
    if not callable(found):
        raise OptionError(
            "unknown transform",
            transform=place,
            hint="use a transformer of Apache Hudi, or module:function",
        )
    transform: Transform = found
    return transform
