"""Apache Hudi reads deletes by every type of ordering column, in logs of both formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.apache_hudi import VERSIONS, ApacheHudi, newest_table_version
from tests.support.orderings import ORDERINGS, OrderedTable

pytestmark = pytest.mark.interop

TIMES = {"time millis", "time micros"}
"""Spark has no such type."""
SEVERAL = {name for name, ordering in ORDERINGS.items() if len(ordering.kinds) > 1}
UNREAD = {
    "0.15.0": TIMES | SEVERAL | {"local timestamp"},
    # does not compare bytes; fails on a delete by key after a logged row, its own likewise
    "1.2.0": TIMES | {"binary", "fixed", "timestamp millis"},
}
"""Types by which a release does not order records in logs, deletes or not."""
READ = [(v, name) for v in VERSIONS for name in sorted(ORDERINGS.keys() - UNREAD[v])]


def live(rows: pa.Table) -> dict[str, int]:
    return {row["id"]: row["v"] for row in rows.select(["id", "v"]).to_pylist()}


@pytest.mark.parametrize(("version", "name"), READ)
def test_apache_hudi_reads_deletes_by_every_ordering(
    version: str, name: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi = apache_hudi(version)
    for log in ("avro", "parquet"):
        of_table = newest_table_version([hudi])
        table = OrderedTable(tmp_path / log, ORDERINGS[name], log, version=of_table)
        table.put(*((key, 1) for key in "abcdefg"), v=1)
        table.put(("f", 2), v=2)
        table.table.delete(keys=["a", "f"])
        table.put(("b", 0), ("c", 1), ("d", 2), deleted=True)
        expected = {"b": 1, "e": 1, "g": 1}
        assert live(table.table.scan().to_arrow()) == expected
        assert live(hudi.read(table.path, mdt="on")) == expected
