"""Apache Hudi sees a row that came after a delete of its key, whatever its ordering value, and goes
on with the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.apache_hudi import ApacheHudi, newest_table_version
from tests.support.keyed import ORDERS, SCHEMA, Keyed

pytestmark = pytest.mark.interop


def live(rows: pa.Table) -> dict[str, tuple[int, int]]:
    return {row["id"]: (row["ts"], row["v"]) for row in rows.to_pylist()}


@pytest.mark.parametrize("index", ["bloom", "bucket", "record"])
def test_apache_hudi_sees_rows_that_came_after_a_delete(
    index: str, tmp_path: Path, apache: ApacheHudi
) -> None:
    keyed = Keyed(tmp_path, "mor", index, version=newest_table_version([apache]))
    keyed.put(*((key + way, 8, 1) for key in ORDERS for way in ("mark", "key")), ("other", 8, 1))
    keyed.put(("other", 9, 2))
    keyed.put(*((f"{key}mark", 10, 0) for key in ORDERS), deleted=True)
    keyed.table.delete(keys=[f"{key}key" for key in ORDERS])
    for way in ("mark", "key"):
        keyed.put(*((key + way, ts, 3) for key, ts in ORDERS.items()))
    expected = {"other": (9, 2)}
    expected |= {key + way: (ts, 3) for key, ts in ORDERS.items() for way in ("mark", "key")}
    assert keyed.live() == live(apache.read(keyed.path, mdt="on")) == expected
    if index != "bloom":
        return
    more = [{"id": "oldermark", "ts": 30, "v": 4, "_hoodie_is_deleted": False}]
    pq.write_table(pa.Table.from_pylist(more, SCHEMA), tmp_path / "more.parquet")
    conf = {"hoodie.index.type": "BLOOM"}
    apache.call(
        "write", path=str(keyed.path), rows=str(tmp_path / "more.parquet"), operation="upsert",
        conf=conf,
    )  # fmt: skip
    expected["oldermark"] = (30, 4)
    assert keyed.live() == live(apache.read(keyed.path, mdt="on")) == expected
