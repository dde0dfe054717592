"""Archival beside a pending write: commits that its conflict check needs stay on the timeline."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import WriteConflictError
from pyhudi.options import parse_options
from tests.support.inside import fs_of
from tests.support.late_writers import OPTIMISTIC, LateWrite
from tests.support.versions import new_table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
NAMES = itertools.count()
OPTIONS = {
    **OPTIMISTIC,
    "hoodie.index.type": "BLOOM",
    "hoodie.metadata.compact.max.delta.commits": "1",
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
@pytest.mark.parametrize("part", ["x", "y"])
def test_a_commit_that_completed_during_a_pending_write_is_not_archived(
    version: int, part: str
) -> None:
    """B begins before A and completes after A began, as two others do later.  A must commit unless
    B wrote to the same file group.  B is older than commits that neither A nor a clean needs."""
    table = new_table(
        f"memory://archival{next(NAMES)}", version, SCHEMA, partition_by=("part",), options=OPTIONS
    )
    fs = fs_of(table)

    def opened() -> Table:
        return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))

    for v in range(2):
        opened().upsert(rows("x", v))
    opened().upsert(rows("y", 0))
    late = [
        LateWrite(fs, lambda writer, p=p: writer.upsert(rows(p, 10)), OPTIONS)
        for p in (part, "s", "t")
    ]
    for v in range(3):
        opened().upsert(rows("c", v))
    a = LateWrite(fs, lambda writer: writer.upsert(rows("x", 20)), OPTIONS)
    assert all(b.complete() is not None for b in late)
    for v in range(2):
        opened().upsert(rows("d", v))
    opened().archive()
    committed = a.complete() is not None
    assert committed == (part == "y") and isinstance(a.failure, WriteConflictError) != committed
    found = opened().scan(["id", "v"]).to_arrow().to_pylist()
    want = {"xk": 10, "yk": 0} if part == "x" else {"xk": 20, "yk": 10}
    assert {row["id"]: row["v"] for row in found} == {**want, "ck": 2, "dk": 1, "sk": 10, "tk": 10}
