"""Archival beside a pending write: commits that its conflict check needs stay on the timeline."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import WriteConflictError
from pyhudi.options import parse_options
from tests.support.late_writers import OPTIMISTIC, LateWrite
from tests.support.versions import new_table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
NAMES = itertools.count()
OPTIONS = {
    **OPTIMISTIC,
    "hoodie.index.type": "BLOOM",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.write.num.retries.on.conflict.failures": "0",
}


def rows(part: str, v: int, key: str = "k") -> pa.Table:
    return pa.table([[f"{part}{key}"], [part], [v]], schema=SCHEMA)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_commit_that_completed_during_a_pending_write_is_not_archived(version: int) -> None:
    """B begins before A and completes after A began, in the same file group: A must not commit,
    although B is older than a commit that no pending write needs."""
    table = new_table(
        f"memory://archival{next(NAMES)}", version, SCHEMA, partition_by=("part",), options=OPTIONS
    )
    fs = table._fs

    def opened() -> Table:
        return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))

    for v in range(2):
        opened().upsert(rows("x", v))
    b = LateWrite(fs, lambda writer: writer.upsert(rows("x", 10)), OPTIONS)
    opened().upsert(rows("c", 0))
    a = LateWrite(fs, lambda writer: writer.upsert(rows("x", 20)), OPTIONS)
    assert b.complete() is not None
    opened().upsert(rows("d", 0))
    opened().upsert(rows("e", 0))
    opened().archive()
    assert a.complete() is None and isinstance(a.failure, WriteConflictError)
    found = opened().scan(["id", "v"]).to_arrow().to_pylist()
    assert {row["v"] for row in found if row["id"] == "xk"} == {10}
