"""Methods that write the rows of a source together with the position reached in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.input_conversion import SchemaModeName, required_text, text_of
from pyhudi.errors import SchemaError, UserError
from pyhudi.index.selection import choose_index
from pyhudi.keygen.generators import KeyRule
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.options import Options
from pyhudi.read.scan import Scan
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.records import PARTITION_PATH, without_meta
from pyhudi.table.properties import TableConfig
from pyhudi.write.input.batch import KeyPlan, Rows, StreamRows, key_rows
from pyhudi.write.input.row_replay import ReplayedRows
from pyhudi.write.input.schema_check import SchemaRules, schema_rules
from pyhudi.write.input.source_checkpoint import SourceAdvance, SourcePosition, newest_position
from pyhudi.write.merge_clauses import Clause, ClauseKind, ConditionalMerge
from pyhudi.write.write_context import Operation
from pyhudi.write.write_report import WriteReport

_OPERATIONS: Final = ("upsert", "insert", "bulk_insert")


class IngestVerbs:
    """Ingest methods of a table."""

    _options: Options

    @property
    def config(self) -> TableConfig:
        raise NotImplementedError

    def key_rule(self, *, with_paths: bool = True) -> KeyRule:
        raise NotImplementedError

    def _state(self) -> TableState:
        raise NotImplementedError

    def scan(self, columns: str | Sequence[str] | None = None) -> Scan:
        raise NotImplementedError

    def _incoming(self, rows: Any) -> Rows:
        raise NotImplementedError

    def _write(
        self,
        operation: Operation,
        rows: Rows,
        *,
        dry_run: bool,
        schema_mode: SchemaModeName | None = None,
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
                "unknown operation of an ingest",
                operation=operation,
                hint="use " + ", ".join(_OPERATIONS),
            )
        advance = SourceAdvance(
            text_of(after, "after"),
            text_of(checkpoint, "checkpoint"),
            text_of(reset_key, "reset_key"),
            text_of(ignore_key, "ignore_key"),
        )
        incoming = self._incoming(rows)
        if not skip_existing:
            kind = Operation[operation.upper()]
            return self._write(
                kind, incoming, dry_run=dry_run, schema_mode="widen", advance=advance
            )
        if operation != "insert":
            raise UserError(
                "rows with existing keys are skipped by inserts only",
                operation=operation,
                hint="use the operation insert, or upsert without skip_existing",
            )
        schema = self._schema_of_skipping(incoming.schema)
        return self._write(
            Operation.UPSERT,
            StreamRows(pa.RecordBatchReader.from_batches(schema, ())),
            dry_run=dry_run,
            merge=ConditionalMerge(ReplayedRows(incoming), (Clause(ClauseKind.INSERT),)),
            advance=advance,
        )

    def has_global_keys(self) -> bool:
        """Whether a record key is unique across partitions, by the index of the next write."""
        state = self._state()
        if not state.config.partition_fields:
            return True
        choice = choose_index(state.fs, state.config, self._options.write)
        if choice is None:
            return not len(state.timeline.commits)  # a new table gets a record index
        return choice.kind.is_global

    def stored_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows of the table."""
        yield from self.scan(list(columns)).to_batches()

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
        checkpoint = required_text(checkpoint, "checkpoint")
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

    def schema_rules(self) -> SchemaRules:
        """The changes of the schema that a write of this table may make."""
        return schema_rules(self.config, self._options.write)

    def row_test(self) -> Callable[[pa.Table], object]:
        """A function that raises UserError for rows that a write refuses for a value: a key, an
        ordering value or a partition path; for sources that pass over such rows."""
        state, stored = self._current_schema()
        has_index = "record_index" in state.config.metadata_partitions
        rule, sub, schema = self.key_rule(), state.fs.sub, without_meta(stored)

        def test(rows: pa.Table) -> None:
            plan = KeyPlan(
                pa.schema(
                    [
                        *rows.schema,
                        *(field for field in schema if field.name not in rows.column_names),
                    ]
                ),
                rule,
                KeyHash(1),
                state.rules,
                has_index,
            )
            for path in pc.unique(key_rows(rows, plan).column(PARTITION_PATH)).to_pylist():
                sub(path)

        return test

    def _current_schema(self) -> tuple[TableState, pa.Schema]:
        """The table now, and the columns of its newest snapshot."""
        return read_current(self._state, lambda state: (state, state.schema()))

    def _schema_of_skipping(self, incoming: pa.Schema) -> pa.Schema:
        """The table's user columns.  Raises SchemaError if the rows have others."""
        schema = without_meta(self._current_schema()[1])
        others = [name for name in incoming.names if name not in schema.names]
        if others:
            raise SchemaError(
                "skipping rows with existing keys cannot add columns to the table",
                columns=", ".join(others),
                hint="drop the columns, or add them by one upsert",
            )
        return schema
