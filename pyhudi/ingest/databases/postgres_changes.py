"""Changes of a table of PostgreSQL by logical replication.

A replication slot retains the write-ahead log until a commit of the ingest confirms it: the
checkpoint is the end LSN of the last transaction that was read, and the slot is advanced to it
once the commit is complete.  Changes are read by SQL, so no replication connection is needed.
Source: PostgreSQL 15 manual, "Logical Decoding", "Replication Management Functions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import OptionError, SchemaError, SnapshotExpiredError, UserError
from pyhudi.ingest.databases.connections import database
from pyhudi.ingest.databases.pgoutput import ChangedRows, MessageLog, Relation, typed_rows
from pyhudi.ingest.databases.typed_columns import cast_batch, table_field
from pyhudi.ingest.source import SourceBatch, SourceLimits
from pyhudi.records import IS_DELETED

_LSN: Final = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")
_CHANGES_MAX: Final = 200_000
_CHANGE_BYTES: Final = 128
_SEPARATOR: Final = "\x1f"


class PostgresChanges:
    """Inserts, updates and deletes of one table, the last change of each key in a batch.

    url: of the database; the user needs the attribute REPLICATION, the server wal_level=logical.
    table: with its schema, such as `public.rides`.  publication: which contains the table.
    slot: of the plugin `pgoutput`, for this ingest alone; it is created by the first read.
    snapshot: whether the first batch is the present rows of the table.  Changes made meanwhile
    follow again, so the write must be an upsert.
    truncate: `fail`, or `ignore` for a table whose truncation leaves the rows of this one.

    Rows have the column `_hoodie_is_deleted`.  A deleted row has its key alone, the other columns
    are null, unless the table's replica identity is FULL, which a table that is partitioned or
    ordered by other columns needs.  A batch ends with a transaction.
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        publication: str,
        slot: str,
        snapshot: bool = True,
        truncate: str = "fail",
    ) -> None:
        if truncate not in ("fail", "ignore"):
            raise OptionError("unknown policy for truncate", truncate=truncate, hint="fail, ignore")
        self._database = database(url, "adbc")
        self._table = table if "." in table else f"public.{table}"
        self._publication, self._slot = publication, slot
        self._snapshot, self._truncate = snapshot, truncate

    def __repr__(self) -> str:
        return f"PostgresChanges({self._database.url!r}, {self._table!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """Memory: the changes of one batch, at most 200,000 and the rest of their transaction.

        Raises UserError for a checkpoint that is no LSN and for a truncated table,
        SnapshotExpiredError where the slot no longer has the changes after the checkpoint,
        SchemaError for values without a type, StorageError for errors of the database.
        """
        if checkpoint is not None and not _LSN.fullmatch(checkpoint):
            raise UserError(
                "the table's checkpoint is not one of a replication slot", checkpoint=checkpoint,
                hint="the newest commit was written from another source",
            )  # fmt: skip
        confirmed = self._confirmed(checkpoint)
        if checkpoint is None and self._snapshot:
            rows = self._present(schema)
            if rows.num_rows:
                return self._batch(rows, confirmed)
        after = _number(checkpoint or confirmed)
        return self._changes(after, limits, schema)

    def _changes(self, after: int, limits: SourceLimits, schema: pa.Schema) -> SourceBatch | None:
        """The next whole transactions; those up to `after`, which the slot may still have, are
        skipped."""
        allowed = _CHANGES_MAX if limits.rows is None else min(limits.rows, _CHANGES_MAX)
        if limits.bytes is not None:
            allowed = max(1, min(allowed, limits.bytes // _CHANGE_BYTES))
        while True:
            log = MessageLog(self._peek(allowed))
            commits = log.commits()
            first = next((n for n, (_, lsn) in enumerate(commits) if lsn > after), None)
            if first is not None:
                break
            if len(log.starts) < allowed:
                return None
            allowed *= 2
        begin = commits[first - 1][0] + 1 if first else 0
        rows = self._rows(log, begin, schema)
        return self._batch(rows, _lsn(commits[-1][1]))

    def _batch(self, rows: pa.Table, position: str) -> SourceBatch:
        return SourceBatch(rows.to_reader(), position, committed=partial(self._advance, position))

    def _rows(self, log: MessageLog, begin: int, known: pa.Schema) -> pa.Table:
        """The last change of each key in the messages from `begin`."""
        relations = [pair for pair in log.relations() if pair[1].name == self._table]
        ends = [index for index, _ in relations[1:]] + [len(log.starts)]
        parts: list[pa.Table] = []
        for (index, relation), end in zip(relations, ends, strict=True):
            self._check_truncated(log, relation, max(index, begin), end)
            changes = log.changes(relation, max(index, begin), end)
            if len(changes.index):
                parts.append(self._typed(changes, known))
        if not parts:
            return known.append(pa.field(IS_DELETED, pa.bool_())).empty_table()
        rows = pa.concat_tables(parts, promote_options="permissive")
        return _last_of_each_key(rows, relations[-1][1].keys).drop_columns(["index"])

    def _typed(self, changes: ChangedRows, known: pa.Schema) -> pa.Table:
        rows = self._filled(changes)
        columns = changes.relation.columns
        try:
            typed = typed_rows(rows, columns)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                "values of the table have no type", table=self._table, reason=str(error)
            ) from error
        fields = pa.schema([table_field(field, known) for field in columns])
        table = pa.Table.from_batches([cast_batch(typed, fields)])
        table = table.append_column(IS_DELETED, changes.deleted)
        return table.append_column("index", changes.index)

    def _filled(self, changes: ChangedRows) -> pa.RecordBatch:
        """The rows with the present values of large columns that an update did not change.  They
        may be newer; then the later change is in the slot too."""
        rows = changes.rows
        missing = {n: mask for n, mask in changes.unchanged.items() if pc.any(mask).as_py()}
        if not missing:
            return rows
        keys = changes.relation.keys
        text = pc.binary_join_element_wise(*(rows[name] for name in keys), _SEPARATOR)
        any_missing = np.any([np.asarray(mask) for mask in missing.values()], axis=0)
        found = self._present_values(keys, list(missing), text.filter(pa.array(any_missing)))
        place = pc.index_in(text, found["key"].combine_chunks())
        columns = [
            pc.if_else(missing[name], found[name].combine_chunks().take(place), rows[name])
            if name in missing
            else rows[name]
            for name in rows.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)

    def _present_values(self, keys: Sequence[str], names: list[str], texts: pa.Array) -> pa.Table:
        key = f"concat_ws(E'\\x1f', {', '.join(f'{_quoted(name)}::text' for name in keys)})"
        columns = ", ".join(f"{_quoted(name)}::text AS {_quoted(name)}" for name in names)
        literal = "{" + ",".join(_array_element(text) for text in set(texts.to_pylist())) + "}"
        return self._query(
            f'SELECT {key} AS "key", {columns} FROM {self._quoted_table()} '
            f"WHERE {key} = ANY($1::text::text[])",
            literal,
        )

    def _check_truncated(self, log: MessageLog, relation: Relation, begin: int, end: int) -> None:
        found = [index for index in log.truncated(relation.id) if begin <= index < end]
        if found and self._truncate == "fail":
            raise UserError(
                "the table of the database was truncated, which no row can state",
                table=self._table, hint="delete the rows of the table, and use truncate='ignore'",
            )  # fmt: skip

    def _present(self, known: pa.Schema) -> pa.Table:
        rows = self._query(f"SELECT * FROM {self._quoted_table()}")
        fields = pa.schema([table_field(field, known) for field in rows.schema])
        batches: Iterator[pa.RecordBatch] = (cast_batch(b, fields) for b in rows.to_batches())
        table = pa.Table.from_batches(batches, fields)
        return table.append_column(IS_DELETED, pa.repeat(pa.scalar(False), table.num_rows))

    def _confirmed(self, checkpoint: str | None) -> str:
        """The position from which the slot has changes; creates it for a first read."""
        query = (
            "SELECT confirmed_flush_lsn::text AS lsn, coalesce(wal_status, '') AS state "
            "FROM pg_replication_slots WHERE slot_name = $1"
        )
        found = self._query(query, self._slot).to_pylist()
        if not found and checkpoint is None:
            self._query(
                "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')",
                self._slot,
            )
            found = self._query(query, self._slot).to_pylist()
        lost = not found or found[0]["state"] == "lost"
        if lost or (checkpoint is not None and _number(found[0]["lsn"]) > _number(checkpoint)):
            raise SnapshotExpiredError(
                "the replication slot no longer has the changes after the checkpoint",
                slot=self._slot, checkpoint=checkpoint,
                slot_lsn=found[0]["lsn"] if found else None,
                hint="reset the checkpoint to start again with a snapshot of the table",
            )  # fmt: skip
        return str(found[0]["lsn"])

    def _peek(self, changes: int) -> pa.Array:
        found = self._query(
            "SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, $2::int8::int4, "
            "'proto_version', '1', 'publication_names', $3)",
            self._slot, changes, self._publication,
        )  # fmt: skip
        return found["data"].combine_chunks()

    def _advance(self, position: str) -> None:
        """Confirm a commit; a slot that is at this position or after it stays."""
        self._query(
            "SELECT slot_name::text FROM (SELECT (pg_replication_slot_advance(slot_name, "
            "$2::text::pg_lsn)).* FROM pg_replication_slots "
            "WHERE slot_name = $1 AND confirmed_flush_lsn < $2::text::pg_lsn) AS advanced",
            self._slot, position,
        )  # fmt: skip

    def _quoted_table(self) -> str:
        return ".".join(map(_quoted, self._table.split(".", 1)))

    def _query(self, text: str, *values: Any) -> pa.Table:
        return pa.Table.from_batches(self._database.query(text, values))


def _last_of_each_key(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """rows: with a column `index`, their order."""
    last = rows.select([*keys, "index"]).group_by(list(keys)).aggregate([("index", "max")])
    is_last = pc.is_in(rows["index"], last["index_max"].combine_chunks())
    return rows.filter(is_last).sort_by("index")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _array_element(text: str) -> str:
    """A text inside the literal of an array."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(lsn: str) -> int:
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def _lsn(number: int) -> str:
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"
