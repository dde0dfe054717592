"""Changes of a table of PostgreSQL by logical replication.

A replication slot retains the write-ahead log until a commit of the ingest confirms it: the
checkpoint is the end LSN of the last transaction that was read, and the slot is advanced to it
once the commit is complete.  Changes are read by SQL, so no replication connection is needed.
Where the log has many changes of other tables only, a commit without rows moves the checkpoint.
Source: PostgreSQL 15 manual, "Logical Decoding", "Replication Management Functions".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import OptionError, SnapshotExpiredError, UserError
from pyhudi.ingest.databases.change_rows import (
    ChangeReader,
    PresentRows,
)
from pyhudi.ingest.databases.connections import Query, database
from pyhudi.ingest.databases.pgoutput import MessageLog, lsn_text
from pyhudi.ingest.databases.postgres_rows import TextRows, quoted, set_session, text_of
from pyhudi.ingest.databases.postgres_tables import (
    RunQuery,
    SourceTable,
    catalog_types,
    source_table,
)
from pyhudi.ingest.databases.postgres_types import (
    SETTINGS,
    CatalogType,
    is_built_in,
)
from pyhudi.ingest.source import (
    IngestedTable,
    RejectedRows,
    SourceBatch,
    SourceLimits,
)

_LSN: Final = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")
_CHANGES_MAX: Final = 200_000
_CHANGE_BYTES: Final = 128
"""Of a message, until messages were read."""
_IDLE_BYTES: Final = 4 << 20
"""Of the log without a change of the table, after which a commit moves the checkpoint."""
_SLOT: Final = """
SELECT confirmed_flush_lsn::text AS lsn, coalesce(wal_status, '') AS state,
  coalesce(plugin, '') = 'pgoutput' AND database = current_database() AS is_ours
FROM pg_replication_slots WHERE slot_name = $1"""
_END: Final = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
  ELSE pg_current_wal_flush_lsn() END::text AS lsn"""


class PostgresChanges:
    """Inserts, updates and deletes of one table, the last change of each key in a batch.

    url: of the database; the user needs the attribute REPLICATION, the server wal_level=logical.
    table: with its schema, such as `public.rides`.  publication: which contains the table, or all
    its partitions.  slot: of the plugin `pgoutput`, for this ingest alone; it is created by the
    first read.
    snapshot: whether the first batch is the present rows of the table.  Changes made meanwhile
    follow again, so the write must be an upsert.
    truncate: `fail`, or `ignore` for a table whose truncation leaves the rows of this one.

    Rows have the column `_hoodie_is_deleted`.  A deleted row has the columns of the table's replica
    identity, the others are null.  Updates and deletes are bad rows unless the identity contains
    the record key, and the partition columns if the index of the written table is not global.
    A table without identity has inserts only.  Values that a type cannot represent, such as an
    infinite time, make a row a bad one.  A batch ends with a transaction.
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
        self._change_bytes = _CHANGE_BYTES
        self._types: dict[int, CatalogType] = {}

    def __repr__(self) -> str:
        return f"PostgresChanges({self._database.url!r}, {self._table!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """As `read_changes`, for rows whose record key is not known: a batch has the last change
        of each key of the replica identity, and all changes of a table without one or with FULL."""
        return self.read_changes(checkpoint, limits, schema, None)

    def read_changes(
        self,
        checkpoint: str | None,
        limits: SourceLimits,
        schema: pa.Schema,
        table: IngestedTable | None,
    ) -> SourceBatch | None:
        """Memory: the changes of one batch, at most 200,000 and the rest of their transaction.

        Raises UserError for a checkpoint that is no LSN, for a table that cannot be followed or
        was truncated, and for a replica identity that does not suffice; SnapshotExpiredError where
        the slot no longer has the changes after the checkpoint, StorageError for errors of the
        database.
        """
        if checkpoint is not None and not _LSN.fullmatch(checkpoint):
            raise UserError(
                "the table's checkpoint is not one of a replication slot",
                checkpoint=checkpoint,
                hint="the newest commit was written from another source",
            )
        with self._session() as run:
            confirmed = self._confirmed(run, checkpoint)
            source = source_table(run, self._table, self._publication)
            if confirmed is None:
                confirmed = self._created(run)
            if checkpoint is None and self._snapshot:
                batch = self._present(source, schema, table, confirmed)
                if batch is not None:
                    return batch
            reader = ChangeReader(
                self._table,
                source.ids,
                schema,
                PresentRows(source.columns, partial(self._find, source)),
                self._catalog,
                table,
                self._truncate == "ignore",
            )
            return self._changes(run, reader, checkpoint or confirmed, limits)

    def _changes(
        self, run: RunQuery, reader: ChangeReader, checkpoint: str, limits: SourceLimits
    ) -> SourceBatch | None:
        """The next whole transactions; those up to the checkpoint, which the slot may still have,
        are skipped."""
        after, allowed = _number(checkpoint), self._allowed(limits)
        while True:
            end = _number(run(_END)["lsn"][0].as_py())
            log = self._peek(run, allowed)
            commits = log.commits()
            first = next((n for n, (_, lsn) in enumerate(commits) if lsn > after), None)
            if first is not None:
                begin = commits[first - 1][0] + 1 if first else 0
                if reader.has_changes(log, begin):
                    rows, rejected = reader.rows(log, begin)
                    return self._batch(rows, lsn_text(commits[-1][1]), rejected)
            last = commits[-1][1] if commits else 0
            if len(log.starts) < allowed:  # that is everything up to `end`
                reached, least = max(last, end), _IDLE_BYTES
            elif first is not None:
                reached, least = last, 0
            else:
                allowed *= 2
                continue
            if reached - after <= least:
                return None
            rows = reader.no_rows()
            return self._batch(rows, lsn_text(reached))

    def _allowed(self, limits: SourceLimits) -> int:
        """The number of messages in a batch."""
        allowed = _CHANGES_MAX if limits.rows is None else min(limits.rows, _CHANGES_MAX)
        if limits.bytes is not None:
            allowed = min(allowed, limits.bytes // self._change_bytes)
        return max(1, allowed)

    def _batch(
        self, rows: pa.Table, position: str, rejected: pa.RecordBatch | None = None
    ) -> SourceBatch:
        bad = RejectedRows()
        if rejected is not None:
            bad.add(rejected)
        return SourceBatch(
            rows.to_reader(), position, bad, committed=partial(self._advance, position)
        )

    def _present(
        self, source: SourceTable, known: pa.Schema, target: IngestedTable | None, position: str
    ) -> SourceBatch | None:
        """The present rows of the table, read while they are consumed; None if there are none."""
        columns = ", ".join(f"{text_of('t', name)} AS {quoted(name)}" for name in source.columns)
        where = "" if source.filter is None else f" WHERE {source.filter}"
        query = f"SELECT {columns} FROM {self._quoted_table()} AS t{where}"
        batches = self._stream(query)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return None
        rejected, typed = (
            RejectedRows(),
            TextRows(source.columns, known, completes=target is not None),
        )

        def rows() -> Iterator[pa.RecordBatch]:
            yield typed.typed(first, rejected)
            for batch in batches:
                yield typed.typed(batch, rejected)

        reader = pa.RecordBatchReader.from_batches(typed.schema, rows())
        return SourceBatch(reader, position, rejected, committed=partial(self._advance, position))

    def _stream(self, text: str) -> Iterator[pa.RecordBatch]:
        """A query of a session of its own, which begins after all that came before."""
        with self._database.session() as query:
            _set(query)
            yield from query(text, ())

    def _find(self, source: SourceTable, keys: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
        """Text columns of the present rows with these keys.  They may be newer than the changes;
        then the later changes are in the slot too."""
        texts = [_array(pc.cast(column, pa.string()).to_pylist()) for column in keys.columns]
        arrays = ", ".join(f"${number}::text::text[]" for number in range(1, len(texts) + 1))
        aliases = ", ".join(f"k{number}" for number in range(len(texts)))
        joined = " AND ".join(
            f"t.{quoted(name)} = w.k{number}::{source.type_names[name]}"
            for number, name in enumerate(keys.schema.names)
        )
        columns = ", ".join(f"{text_of('t', name)} AS {quoted(name)}" for name in names)
        text = (
            f"SELECT {columns}, w.n::int8 - 1 AS n FROM unnest({arrays}) WITH ORDINALITY "
            f"AS w({aliases}, n) JOIN {self._quoted_table()} AS t ON {joined}"
        )
        with self._session() as run:
            return run(text, *texts)

    def _catalog(self, kinds: Collection[int]) -> Mapping[int, CatalogType]:
        """Types that are not built in; a type does not change."""
        missing = {kind for kind in kinds if not is_built_in(kind)} - self._types.keys()
        if missing:
            with self._session() as run:
                self._types |= catalog_types(run, missing)
        return self._types

    def _confirmed(self, run: RunQuery, checkpoint: str | None) -> str | None:
        """The position from which the slot has changes; None if a first read has to create it."""
        found = run(_SLOT, self._slot).to_pylist()
        if not found and checkpoint is None:
            return None
        if found and not found[0]["is_ours"]:
            raise UserError(
                "the replication slot is not one of pgoutput in this database",
                slot=self._slot,
                hint="state another slot, which the first read creates",
            )
        lsn = found[0]["lsn"] if found else None
        if (
            lsn is None
            or found[0]["state"] == "lost"
            or (checkpoint is not None and _number(lsn) > _number(checkpoint))
        ):
            raise SnapshotExpiredError(
                "the replication slot no longer has the changes after the checkpoint",
                slot=self._slot,
                checkpoint=checkpoint,
                slot_lsn=lsn,
                hint="reset the checkpoint to start again with a snapshot of the table",
            )
        return str(lsn)

    def _created(self, run: RunQuery) -> str:
        run("SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')", self._slot)
        return str(run(_SLOT, self._slot)["lsn"][0].as_py())

    def _peek(self, run: RunQuery, changes: int) -> MessageLog:
        """Whole transactions, until there are this number of messages."""
        found = run(
            "SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, $2::text::int4, "
            "'proto_version', '1', 'publication_names', $3)",
            self._slot,
            str(changes),
            quoted(self._publication),
        )
        log = MessageLog(found["data"].cast(pa.large_binary()).combine_chunks())
        if len(log.starts):
            self._change_bytes = max(1, len(log.bytes) // len(log.starts))
        return log

    def _advance(self, position: str) -> None:
        """Confirm a commit; a slot that is at this position or after it stays."""
        with self._session() as run:
            run(
                "SELECT slot_name::text FROM (SELECT (pg_replication_slot_advance(slot_name, "
                "$2::text::pg_lsn)).* FROM pg_replication_slots "
                "WHERE slot_name = $1 AND confirmed_flush_lsn < $2::text::pg_lsn) AS advanced",
                self._slot,
                position,
            )

    @contextmanager
    def _session(self) -> Iterator[RunQuery]:
        with self._database.session() as query:
            _set(query)
            yield lambda text, *values: pa.Table.from_batches(query(text, values))

    def _quoted_table(self) -> str:
        return ".".join(map(quoted, self._table.split(".", 1)))


def _set(query: Query) -> None:
    """Settings on which the texts of values do not depend on the server, the user or the database.
    A policy for rows would hide some of them, so it is an error."""
    set_session(query, {**SETTINGS, "search_path": "", "row_security": "off"})


def _array(texts: Sequence[str | None]) -> str:
    """The literal of an array of texts."""
    return "{" + ",".join("NULL" if text is None else _array_element(text) for text in texts) + "}"


def _array_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(lsn: str) -> int:
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)
