"""Apache Hudi on tables whose file groups pyhudi replaced: what it reads, checks and writes on.

After each step: equal rows with the metadata table on and off, and Apache Hudi's own check of
listing and record index.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.interop.test_apache_hudi import Turns, rows, shared_table
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop


def only(table: pa.Table, *parts: str) -> pa.Table:
    return table.filter(pc.is_in(table["part"], pa.array(parts)))


def leave(turns: Turns, *parts: str) -> None:
    """Expect the rows of these partitions to be gone."""
    turns.drop([key for key, row in turns.expected.items() if row["part"] in parts])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_apache_hudi_reads_replaced_partitions_and_writes_on(
    kind: str, tmp_path: Path, apache: ApacheHudi
) -> None:
    path = tmp_path / "t"
    table = shared_table(path, kind, [apache])
    turns = Turns(table, path, [apache])
    for number, verb in enumerate((table.bulk_insert, table.upsert)):
        batch = rows(range(0, 60, 1 + number), number)
        turns.put(batch)
        verb(batch)
    batch = only(rows(range(10, 80, 2), 3), "p0")
    table.insert_overwrite(batch)
    leave(turns, "p0")
    turns.put(batch)
    turns.agree()
    table.delete_partitions("p1")
    leave(turns, "p1")
    turns.agree()
    _apache_writes(turns, apache, rows(range(40, 70), 4), "upsert")
    batch = rows(range(50, 90, 3), 5)
    table.insert_overwrite_table(batch)
    leave(turns, "p0", "p1", "p2")
    turns.put(batch)
    turns.agree()
    _apache_writes(turns, apache, rows(range(100, 130), 6), "upsert")
    batch = only(rows(range(100, 140, 2), 7), "p2")
    leave(turns, "p2")
    _apache_writes(turns, apache, batch, "insert_overwrite")
    batch = rows(range(95, 145), 8)
    table.upsert(batch)
    turns.put(batch)
    turns.agree()


def _apache_writes(turns: Turns, apache: ApacheHudi, batch: pa.Table, operation: str) -> None:
    # 0.15.0 loses the index entry of a key it inserts again on merge-on-read
    batch = batch.filter(pc.invert(pc.is_in(batch["id"], pa.array(sorted(turns.gone)))))
    file = turns.path.parent / "batch.parquet"
    pq.write_table(batch, file)
    apache.call("write", path=str(turns.path), rows=str(file), operation=operation)
    turns.put(batch)
    turns.agree()
