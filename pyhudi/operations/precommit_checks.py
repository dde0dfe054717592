"""Checks of the changed table before the commit point, by SQL.

A query sees the rows of the partitions that the write changes, as they were and as they will be.
Source: SqlQueryPreCommitValidator and its subclasses of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import LOCAL
from pyhudi.errors import CheckFailedError
from pyhudi.operations.publish import with_completed
from pyhudi.options.commit_hooks import CommitChecks
from pyhudi.read.scan import Scan
from pyhudi.read.scan_plan import ScanRequest
from pyhudi.read.sql.batch_queries import query_batches
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import PARTITION_PATH
from pyhudi.timeline.instant import Instant
from pyhudi.transaction.conflicts import WriteSet

_TABLE: Final = "<TABLE_NAME>"
_VIEW: Final = "pyhudi_table"
_SHOWN: Final = 5
"""Rows of a result that an error shows."""


def run_checks(
    checks: CommitChecks, state: TableState, mine: Instant, content: bytes, touched: WriteSet
) -> tuple[str, ...]:
    """Run the checks of a write that is about to be committed; notes of those that only warn.

    state: the table without the write, read under the lock.  content: of the completed instant.
    touched: what the write changes; the rows of its partitions are read once a query and side.
    Raises CheckFailedError; UserError for a query that cannot be run.
    """
    after = with_completed(state, mine, content)
    partitions = sorted({*touched.written, *(group.partition for group in touched.groups)})
    failures = list(_failures(checks, state, after, partitions))
    if failures and not checks.warns:
        raise failures[0]
    return tuple(f"check failed: {failure}" for failure in failures)


def _failures(
    checks: CommitChecks, before: TableState, after: TableState, partitions: list[str]
) -> Iterator[CheckFailedError]:
    for kind, queries in (("equality", checks.equality), ("inequality", checks.inequality)):
        for query in queries if kind in checks.validators else ():
            was = _result(query, before, partitions)
            now = _result(query, after, partitions)
            if (was == now) != (kind == "equality"):
                what = "differ" if kind == "equality" else "are equal"
                yield CheckFailedError(
                    f"the results of a query before and after the write {what}",
                    query=query,
                    before=was[:_SHOWN],
                    after=now[:_SHOWN],
                )
    for pair in checks.single_value if "single.value" in checks.validators else ():
        query, _, expected = pair.partition("#")
        found = _result(query, after, partitions)
        if len(found) != 1 or len(found[0]) != 1 or str(found[0][0]) != expected.strip():
            yield CheckFailedError(
                "the result of a query is not the expected one",
                query=query,
                expected=expected.strip(),
                found=found[:_SHOWN],
            )


def _result(query: str, state: TableState, partitions: list[str]) -> list[tuple[Any, ...]]:
    """The rows of a result, sorted as text: queries need no order."""
    where = pc.field(PARTITION_PATH).isin(pa.array(partitions, pa.string()))
    scan = Scan(lambda: state, ScanRequest(where=where), engine=LOCAL)
    reader = pa.RecordBatchReader.from_stream(scan)
    found = query_batches(query.replace(_TABLE, _VIEW), {_VIEW: reader}).read_all()
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    return sorted(rows, key=repr)
