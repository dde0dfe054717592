"""The two parts of a slice with logs: unchanged base rows, and the rows that its logs add."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.read.slice_parts import replaced_rows
from tests.support.slice_parts import read_in_parts

COUNT = 600_000  # three row groups


@pytest.fixture(scope="module", params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pyhudi.Table:
    path: Path = tmp_path_factory.mktemp("slice") / "t"
    rows = pa.table({"id": [f"k{n:06d}" for n in range(COUNT)], "n": range(COUNT)})
    table = pyhudi.create_table(
        path, rows.schema, record_key="id", table_type="mor", version=request.param, index="bloom",
        ordering="n",
    )  # fmt: skip
    table.bulk_insert(rows)
    chosen = rows.take(pa.array(range(5, COUNT, 1000)))
    table.upsert(chosen.set_column(1, "n", pc.add(chosen.column("n"), COUNT)))
    table.delete(keys=["k599999", "k300000"])
    return pyhudi.open_table(path)


@pytest.mark.parametrize(
    "where",
    ["n > 590000", "n between 290000 and 310000", "n < 0", "n > 1000000", "id = 'k300005'",
     "id >= 'k599990'", "n < 10", None],
)  # fmt: skip
def test_filters_select_the_same_rows_of_both_parts(table: pyhudi.Table, where: str | None) -> None:
    scan = table.scan(["id"], where)
    for task in scan.tasks:
        whole = task.spec
        found = read_in_parts(task.fs, task.slice, whole, task.partition_values)
        assert sorted(found.column("id").to_pylist()) == sorted(
            scan.to_arrow().column("id").to_pylist()
        )


def test_row_groups_without_matching_rows_have_no_replaced_rows(table: pyhudi.Table) -> None:
    def replaced(where: str | None) -> list[int]:
        OUTCOMES.clear()
        (task,) = table.scan(["id"], where).tasks
        found: list[int] = replaced_rows(
            task.fs, task.slice, spec=task.spec, partition_values=task.partition_values
        ).tolist()
        return found

    every = replaced(None)
    assert every == sorted({*range(5, COUNT, 1000), 300_000, 599_999})
    assert replaced("n > 590000") == [row for row in every if row >= 524_288]
    assert replaced("n < 300") == [row for row in every if row < 262_144]
    assert replaced("n < 0") == []
