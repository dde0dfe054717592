"""`Table.merge`: a merge of rows by clauses, as one upsert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from pyhudi.api.other_arguments import methods_lead_on
from pyhudi.errors import UserError
from pyhudi.other_names import MERGE, unknown_name
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.write.merge_clauses import Clause, ClauseKind
from pyhudi.write.write_report import WriteReport


class Execute(Protocol):
    """Runs the upsert of a merge."""

    def __call__(
        self, clauses: tuple[Clause, ...], *, dry_run: bool, publish: bool
    ) -> WriteReport: ...


@methods_lead_on
class TableMerge:
    """A merge that is being described; `execute` writes it as one commit.

    A row of the source matches the record with its record key.  Each row goes to the first clause
    that applies to it; a row without one changes nothing.  Expressions are SQL text or Arrow
    expressions over `source.<column>` and `target.<column>`; SQL text may leave out the prefix of a
    column that only one of them has.
    """

    def __init__(
        self,
        execute: Execute,
        *,
        is_stream: bool,
    ) -> None:
        """is_stream: the rows can be read only once."""
        self._execute = execute
        self._is_stream = is_stream
        self._clauses: list[Clause] = []
        self._is_executed = False

    def when_matched_update(
        self,
        set: Mapping[str, Any] | None = None,
        where: Filter | None = None,
        *,
        condition: Filter | None = None,
    ) -> Self:
        """Update matched records.

        set: column -> new value, as for `Table.update`; None: all columns that the source has.
        where, or condition: only pairs for which it is true.
        """
        return self._with(Clause(ClauseKind.UPDATE, _one(where, condition), set))

    def when_matched_delete(
        self, where: Filter | None = None, *, condition: Filter | None = None
    ) -> Self:
        """Delete matched records.  where, or condition: only pairs for which it is true."""
        return self._with(Clause(ClauseKind.DELETE, _one(where, condition)))

    def when_not_matched_insert(
        self,
        where: Filter | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        condition: Filter | None = None,
    ) -> Self:
        """Insert rows of the source that match no record.

        where, or condition: only rows for which it is true.  set: values of columns that are not
        those of the source; columns that neither has are null.
        """
        return self._with(Clause(ClauseKind.INSERT, _one(where, condition), set))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, Any], where: Filter | None = None
    ) -> Self:
        """Update stored records that no row of the source matches.

        set: column -> new value over `target.<column>`.  where: only records for which it is true.
        Reads all file slices of the table.
        """
        return self._with(Clause(ClauseKind.UPDATE_REST, where, set))

    def when_not_matched_by_source_delete(self, where: Filter | None = None) -> Self:
        """Delete stored records that no row of the source matches.

        where: only records for which it is true.  Reads all file slices of the table.
        """
        return self._with(Clause(ClauseKind.DELETE_REST, where))

    def execute(self, *, dry_run: bool = False, publish: bool = True) -> WriteReport:
        """Run the merge, once; arguments and report as for `Table.upsert`.  A dry run may precede
        it, unless the rows are a stream.

        Reads the file groups that the index finds for the source's keys; all, if a clause applies
        to records that no row of the source matches.  The clauses apply to the
        records as of the commit of the merge.  Of several source rows with the same key one is
        used: that with the greatest ordering value if the source has the ordering columns, else
        the last.  The table's merge rules apply to the result: an update with an older ordering
        value than the record's has no effect.
        Raises UserError for unknown columns, values that do not fit and clauses that never apply.
        """
        if self._is_executed:
            raise UserError("the merge was already executed", hint="build it again from its rows")
        report = self._execute(tuple(self._clauses), dry_run=dry_run, publish=publish)
        self._is_executed = self._is_stream or not dry_run
        return report

    def _with(self, clause: Clause) -> Self:
        self._clauses.append(clause)
        return self

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise unknown_name("a merge", name, dir(type(self)), MERGE)

    def __repr__(self) -> str:
        return f"TableMerge({', '.join(map(_described, self._clauses))})"


def _one(where: Filter | None, condition: Filter | None) -> Filter | None:
    """The condition of a clause, which has two names: that of filters, and that of MERGE."""
    if where is not None and condition is not None:
        raise UserError("where and condition are one argument", hint="pass one of them")
    return condition if where is None else where


def _described(clause: Clause) -> str:
    where = "" if clause.where is None else f"where={clause.where!r}"
    return f"{clause.kind.value}({where})"
