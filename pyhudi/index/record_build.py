"""Creation of the record index on request."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.index.index_creation import IndexCreation, check_new
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.index.maintenance.sizing import planned_groups
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """A record index to create.  rules: state the number of its file groups."""

    rules: WriteOptions

    def plan(self, state: TableState) -> IndexCreation:
        """As `IndexRequest.plan`."""
        count = self._group_count(state)
        return IndexCreation(RECORD_INDEX.path, RECORD_KEY, "V1", count, 0, dry_run=True)

    def build(self, state: TableState, engine: Engine) -> IndexCreation:
        """As `IndexRequest.build`.  Cost: reads the key column of the table."""
        count = self._group_count(state)
        built = build_now(state, count, engine, silent)
        return IndexCreation(RECORD_INDEX.path, RECORD_KEY, "V1", count, built.entries)

    def _group_count(self, state: TableState) -> int:
        check_new(state, RECORD_INDEX.path)
        if is_elastic(state.config):
            raise UserError(
                "the table has an elastic index instead of a record index", path=state.fs.url,
                hint="table.index.rebuild(kind='record') replaces it",
            )  # fmt: skip
        return planned_groups(state, self.rules)
