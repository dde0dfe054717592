"""Tables that other writers made, against the rows Apache Hudi 1.2.0 reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc

import pyhudi
from tests.support.foreign import expected_rows, foreign_table, row_counts


def test_a_timestamp_partition_column_has_the_value_of_the_path(tmp_path: Path) -> None:
    """Spark SQL writes date and time into the path, the stored value has milliseconds too."""
    table = pyhudi.open_table(foreign_table("timestamp_partition_v8", tmp_path))
    assert row_counts(table.scan().to_arrow()) == row_counts(expected_rows(tmp_path))
    exact = pc.field("part_timestamp") == datetime(2024, 1, 5, 18, tzinfo=UTC)
    assert table.scan(where=exact).to_arrow()["id"].to_pylist() == [5]
    assert table.scan(where=exact).plan.partitions_read == 1
