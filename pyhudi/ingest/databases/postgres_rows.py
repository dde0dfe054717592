"""Rows of a query of PostgreSQL, whose values are read as text where drivers differ."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Mask
from pyhudi.ingest.databases.change_rows import empty_rows, json_row
from pyhudi.ingest.databases.connections import Database, Query
from pyhudi.ingest.databases.postgres_tables import catalog_types
from pyhudi.ingest.databases.postgres_types import (
    SETTINGS,
    CatalogType,
    PostgresType,
    resolved,
    typed_column,
)
from pyhudi.ingest.databases.typed_columns import cast_batch, table_field
from pyhudi.ingest.source import RejectedRows, rejected_batch
from pyhudi.records import IS_DELETED

_NATIVE: Final = frozenset({16, 17, 19, 20, 21, 23, 25, 700, 701, 1042, 1043})
"""Types whose values all drivers return as they are: truth, bytes, whole numbers, floats, text."""


class TextRows:
    """Text rows of the table with their types."""

    def __init__(
        self, columns: Mapping[str, PostgresType], known: pa.Schema, *, completes: bool
    ) -> None:
        self._types = columns
        self.schema = empty_rows(known, columns, completes=completes).schema
        self._rejects: Counter[str] = Counter()

    def typed(self, batch: pa.RecordBatch, rejected: RejectedRows) -> pa.RecordBatch:
        """All columns of the schema, without the bad rows."""
        good, found = self.checked(batch, rejected)
        columns = []
        for field in self.schema:
            if field.name == IS_DELETED:
                columns.append(pa.repeat(pa.scalar(False), batch.num_rows))
            elif field.name in self._types:
                columns.append(found.column(field.name))
            else:
                columns.append(pa.nulls(batch.num_rows, field.type))
        typed = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return typed if good.all() else typed.filter(pa.array(good))

    def checked(self, batch: pa.RecordBatch, rejected: RejectedRows) -> tuple[Mask, pa.RecordBatch]:
        """The mask of good rows, and the columns that were texts; bad rows are rejected."""
        columns, reasons = {}, dict[int, str]()
        for name, kind in self._types.items():
            column, target = batch.column(name), self.schema.field(name).type
            columns[name], bad = typed_column(column, kind, target)
            for row in np.flatnonzero(bad):
                text = column[int(row)].as_py()[:80]
                what = f"column {name}: {text!r} is not a value of type {target}"
                reasons.setdefault(int(row), what)
        good = np.ones(batch.num_rows, np.bool_)
        if reasons:
            rejected.add(self._rejected(batch, reasons))
            good[list(reasons)] = False
        return good, pa.RecordBatch.from_pydict(columns)

    def _rejected(self, batch: pa.RecordBatch, reasons: Mapping[int, str]) -> pa.RecordBatch:
        """The position of a row is a hash of it, because present rows have no order."""
        rows = sorted(reasons)
        raws = [json_row(row) for row in batch.take(pa.array(rows)).to_pylist()]
        positions = []
        for raw in raws:
            name = "snapshot:" + hashlib.sha256(raw).hexdigest()[:16]
            self._rejects[name] += 1
            count = self._rejects[name]
            positions.append(name if count == 1 else f"{name}:{count}")
        return rejected_batch(raws, [reasons[row] for row in rows], positions)


def postgres_rows(
    database: Database, text: str, values: Sequence[Any], known: pa.Schema, rejected: RejectedRows
) -> pa.RecordBatchReader:
    """The rows of a query, read while they are consumed.  known: types of the table.  rejected:
    collects rows with values that their columns cannot represent."""
    kinds = _kinds(database, text, values)
    parts = ", ".join(
        f"{quoted(name)}" if kind is None else f"{text_of('pyhudi_query', name)} AS {quoted(name)}"
        for name, kind in kinds.items()
    )
    batches = postgres_batches(database, f"SELECT {parts} FROM ({text}) AS pyhudi_query", values)
    first = next(batches)
    texts = TextRows({n: k for n, k in kinds.items() if k is not None}, known, completes=False)
    schema = pa.schema(
        [
            texts.schema.field(field.name) if kinds[field.name] else table_field(field, known)
            for field in first.schema
        ]
    )

    def typed() -> Iterator[pa.RecordBatch]:
        yield _typed(first, schema, texts, rejected)
        for batch in batches:
            yield _typed(batch, schema, texts, rejected)

    return pa.RecordBatchReader.from_batches(schema, typed())


def _typed(
    batch: pa.RecordBatch, schema: pa.Schema, texts: TextRows, rejected: RejectedRows
) -> pa.RecordBatch:
    good, found = texts.checked(batch, rejected)
    columns = [
        found.column(field.name) if field.name in found.schema.names else batch.column(field.name)
        for field in schema
    ]
    names = schema.names
    whole = pa.RecordBatch.from_arrays(columns, names=names)
    return cast_batch(whole if good.all() else whole.filter(pa.array(good)), schema)


def postgres_batches(
    database: Database, text: str, values: Sequence[Any]
) -> Iterator[pa.RecordBatch]:
    """The rows of a query, with the settings of a session that this project reads."""
    with database.session() as query:
        set_session(query, SETTINGS)
        yield from query(text, values)


def _kinds(database: Database, text: str, values: Sequence[Any]) -> dict[str, PostgresType | None]:
    """The type of each column of a query; None for those that are read as they are."""
    ids, catalog = _types(database, text, values)
    return {n: None if id in _NATIVE else resolved(id, -1, catalog) for n, id in ids.items()}


def column_types(database: Database, text: str, values: Sequence[Any]) -> dict[str, PostgresType]:
    """The type of each column of a query."""
    ids, catalog = _types(database, text, values)
    return {name: resolved(id, -1, catalog) for name, id in ids.items()}


def _types(
    database: Database, text: str, values: Sequence[Any]
) -> tuple[dict[str, int], dict[int, CatalogType]]:
    """The id of each column's type, and the types that are not built in."""
    with database.session() as query:

        def run(text: str, *values: Any) -> pa.Table:
            return pa.Table.from_batches(query(text, values))

        names = run(f"SELECT * FROM ({text}) AS pyhudi_query LIMIT 0", *values).column_names
        parts = ", ".join(f"pg_typeof(q.{quoted(n)})::oid::int8 AS {quoted(n)}" for n in names)
        none = f"(SELECT * FROM ({text}) AS pyhudi_query LIMIT 0) AS q"
        found = run(f"SELECT {parts} FROM (SELECT 1) AS one LEFT JOIN {none} ON true", *values)
        ids: dict[str, int] = found.to_pylist()[0]
        catalog = catalog_types(
            lambda text, ids: run(text.replace("$1", database.parameter(1)), ids),
            list(ids.values()),
        )
    return ids, catalog


def set_session(query: Query, settings: Mapping[str, str]) -> None:
    """Settings on which the texts of values depend."""
    calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    for _ in query(f"SELECT {calls}", ()):
        pass


def text_of(alias: str, name: str) -> str:
    """The text of a column by the output function of its type, as in the log; a cast to text
    differs for some types."""
    column = f"{alias}.{quoted(name)}"
    return f"CASE WHEN {column} IS DISTINCT FROM NULL THEN concat({column}) END"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
