"""Methods that write the rows of a source together with the position reached in it."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import SchemaError, UserError
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.records import without_meta
from pyhudi.write.input.batch import Rows, StreamRows
from pyhudi.write.input.row_replay import ReplayedRows
from pyhudi.write.input.source_checkpoint import SourceAdvance, SourcePosition, newest_position
from pyhudi.write.merge_clauses import Clause, ClauseKind, ConditionalMerge
from pyhudi.write.write_context import Operation
from pyhudi.write.write_report import WriteReport

_OPERATIONS: Final = ("upsert", "insert", "bulk_insert")


class IngestVerbs:
    """Ingest methods of a table."""

    def _state(self) -> TableState:
        raise NotImplementedError

    def _incoming(self, rows: Any) -> Rows:
        raise NotImplementedError

    def _write(
        self,
        operation: Operation,
        rows: Rows,
        *,
        dry_run: bool,
        merge: ConditionalMerge | None = None,
        advance: SourceAdvance | None = None,
    ) -> WriteReport:
        raise NotImplementedError

    def ingest(
        self,
        rows: Any,
        *,
        checkpoint: str | None,
        after: str | None,
        operation: str = "upsert",
        skip_existing: bool = False,
        reset_key: str | None = None,
        ignore_key: str | None = None,
        dry_run: bool = False,
    ) -> WriteReport:
        """Write rows of a source and the position that they reach in it as one commit.

        checkpoint: the position after the rows; None leaves it.  after: the position before them,
        which the table must have (see `checkpoint()`); None: none yet.  operation: upsert, insert
        or bulk_insert.
        skip_existing: only rows whose key is not in the table are written, as Apache Hudi's
        `--filter-dupes`; operation insert.
        reset_key, ignore_key: the texts of `--checkpoint` and `--ignore-checkpoint` that the run
        was started with; the commit repeats them.
        A batch without rows is a commit too, so that the position moves.
        Raises CheckpointMovedError if the table has another position: nothing is written then;
        SchemaError, with skip_existing, if the rows have columns that the table lacks.
        """
        if operation not in _OPERATIONS:
            raise UserError(
                "unknown operation of an ingest", operation=operation,
                hint="use " + ", ".join(_OPERATIONS),
            )  # fmt: skip
        advance = SourceAdvance(after, checkpoint, reset_key, ignore_key)
        incoming = self._incoming(rows)
        if not skip_existing:
            kind = Operation[operation.upper()]
            return self._write(kind, incoming, dry_run=dry_run, advance=advance)
        if operation != "insert":
            raise UserError(
                "rows with existing keys are skipped by inserts only", operation=operation,
                hint="use the operation insert, or upsert without skip_existing",
            )  # fmt: skip
        schema = self._schema_of_skipping(incoming.schema)
        return self._write(
            Operation.UPSERT,
            StreamRows(pa.RecordBatchReader.from_batches(schema, ())),
            dry_run=dry_run,
            merge=ConditionalMerge(ReplayedRows(incoming), (Clause(ClauseKind.INSERT),)),
            advance=advance,
        )

    def checkpoint(self) -> str | None:
        """The position in its source that the table has reached, as the newest commit with one
        records it (also one of Apache Hudi's streamer); None if no commit does."""
        found = self.source_position()[0]
        return None if found is None else found.checkpoint

    def reset_checkpoint(self, checkpoint: str, *, dry_run: bool = False) -> WriteReport:
        """Let the next ingest begin at another position of its source, by a commit without rows.

        Apache Hudi's streamer begins there too.  Raises CheckpointMovedError if an ingest moves
        the checkpoint at the same time.
        """
        position, schema = self.source_position()
        return self.ingest(
            pa.RecordBatchReader.from_batches(schema, ()),
            checkpoint=checkpoint,
            after=None if position is None else position.checkpoint,
            reset_key=checkpoint,
            dry_run=dry_run,
        )

    def source_position(self) -> tuple[SourcePosition | None, pa.Schema]:
        """The position in the source of an ingest, None if no commit has one, and the user columns
        of the table; from one state of the table."""

        def read(state: TableState) -> tuple[SourcePosition | None, pa.Schema]:
            return newest_position(state.log, state.archive), without_meta(state.schema())

        return read_current(self._state, read)

    def _schema_of_skipping(self, incoming: pa.Schema) -> pa.Schema:
        """The table's user columns.  Raises SchemaError if the rows have others."""
        schema = without_meta(self._state().schema())
        others = [name for name in incoming.names if name not in schema.names]
        if others:
            raise SchemaError(
                "skipping rows with existing keys cannot add columns to the table",
                columns=", ".join(others), hint="drop the columns, or add them by one upsert",
            )  # fmt: skip
        return schema
