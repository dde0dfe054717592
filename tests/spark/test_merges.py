"""`table.merge(frame)` on Spark writes what it writes on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import UserError

DDL = "id string, city string, fare double, ts bigint, op string"
CHANGES = [
    ("k1", "a", 5.0, 2, "U"), ("k2", "b", 5.0, 2, "D"), ("k3", "a", 5.0, 2, "A"),
    ("k4", "b", 5.0, 2, "X"), ("k90", "a", 5.0, 2, "U"), ("k91", "b", 5.0, 2, "D"),
    ("k1", "a", 4.0, 1, "D"),
]  # fmt: skip


def stored() -> pa.Table:
    count = 20
    return pa.table(
        {
            "id": [f"k{n}" for n in range(count)],
            "city": ["ba"[n % 2] for n in range(count)],
            "fare": [float(n) for n in range(count)],
            "ts": pa.array([1] * count, pa.int64()),
        }
    )


def merged(table: Any, rows: Any) -> Any:
    return (
        table.merge(rows)
        .when_matched_delete(where="op = 'D'")
        .when_matched_update({"fare": "target.fare + source.fare"}, where="op = 'A'")
        .when_matched_update(where="source.op = 'U'")
        .when_not_matched_insert(where="op <> 'D'")
    )


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize(("version", "index"), [(6, "record"), (9, "bloom")])
def test_a_merge_of_a_frame_equals_the_merge_of_its_rows(
    spark: Any, tmp_path: Path, table_type: str, version: int, index: str
) -> None:
    how: dict[str, Any] = {
        "record_key": "id", "partition_by": "city", "ordering": "ts", "table_type": table_type,
        "version": version, "index": index,
    }  # fmt: skip
    rows = stored()
    local = pyhudi.create_table(tmp_path / "local", rows.schema, **how)
    local.insert(rows)
    names = DDL.replace(",", "").split()[::2]
    columns = list(zip(*CHANGES, strict=True))
    changes = pa.table(dict(zip(names, map(list, columns), strict=True)))
    expected = merged(local, changes).execute()
    shared = hudi.create_table(spark, tmp_path / "shared", rows.schema, **how)
    shared.insert(rows)
    commits = len(shared.timeline.commits)
    report = merged(shared, spark.createDataFrame(CHANGES, DDL).repartition(3)).execute()
    assert len(shared.timeline.commits) == commits + 1
    counts = ("inserted", "updated", "deleted", "duplicates", "notes")
    assert [getattr(report, n) for n in counts] == [getattr(expected, n) for n in counts]
    assert (report.inserted, report.updated, report.deleted, report.duplicates) == (1, 2, 1, 1)
    found = [sorted(map(str, t.to_arrow().to_pylist())) for t in (local, shared)]
    assert found[0] == found[1]
    with pytest.raises(UserError, match="column of both sides"):
        shared.merge(spark.createDataFrame(CHANGES, DDL)).when_matched_delete("fare > 1").execute()
