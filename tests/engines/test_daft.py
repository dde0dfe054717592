"""Daft reads snapshots, a task for each file slice.  A long form: Daft is a large package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.daft
from bench.lineitem import QUERIES, Made, supplier
from tests.engines.answers import LONG_ROWS, SHAPES, expected, text

pytestmark = [pytest.mark.slow, pytest.mark.engines_local]
PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


@SHAPES
@pytest.mark.parametrize("rows", [20_000, LONG_ROWS])
def test_queries_return_what_the_source_rows_give(
    made: Callable[..., Made], kind: str, version: int, rows: int
) -> None:
    import daft

    source = made(kind, version, rows)
    frame, suppliers = pyhudi.daft.read(source.table), daft.from_arrow(supplier())
    answers: dict[str, list[tuple[Any, ...]]] = {}
    for name in QUERIES:
        found = daft.sql(text(name, "lineitem"), lineitem=frame, supplier=suppliers).to_arrow()
        answers[name] = [tuple(row.values()) for row in found.to_pylist()]
    assert answers == expected(source)
    assert frame.count_rows() == source.rows.num_rows


def test_a_frame_is_the_snapshot_of_its_call(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string(), "city": pa.string(), "v": pa.int64()})
    trips = pyhudi.create_table(
        tmp_path / "trips", schema, record_key="id", partition_by="city", table_type="mor"
    )
    assert pyhudi.daft.read(trips).count_rows() == 0
    trips.upsert(pa.table([["a", "b", "c"], ["p", "p", "q"], [1, 2, 3]], schema=schema))
    frame = pyhudi.daft.read(trips.path, where="city = 'p'")
    frame.select("id").collect()
    trips.upsert(pa.table([["b"], ["p"], [20]], schema=schema))
    assert sorted(pyhudi.daft.read(trips).to_pydict()["v"]) == [1, 3, 20]


def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": ["k1", "k2"], "city": ["sf", "sf"], "fare": [1.0, 2.0]})
    pyhudi.create_table("data/trips", rows.schema, record_key="id").insert(rows)
    section = PAGE.read_text("utf-8").partition("\n## Daft\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(code, "engines.md: Daft", "exec"), {"pyhudi": pyhudi})


def test_pyhudi_reads_what_the_files_do_not_state(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string(), "city": pa.string(), "v": pa.int64()})
    wider = pa.schema([*schema, pa.field("new", pa.int32())])
    for name in ("plain", "e[1]"):
        table = pyhudi.create_table(
            tmp_path / name, schema, record_key="id", partition_by="city", table_type="mor"
        )
        table.bulk_insert(pa.table([["a"], ["p"], [1]], schema=schema))
        assert pyhudi.daft.read(table).to_pydict() == {"id": ["a"], "city": ["p"], "v": [1]}
        table.bulk_insert(
            pa.table([["b", "c"], ["q", "r"], [2, 3], [5, 6]], schema=wider), schema_mode="widen"
        )
        table.upsert(pa.table([["c"], ["r"], [30], [60]], schema=wider))
        found = pyhudi.daft.read(table).sort("id").to_pydict()
        assert (found["v"], found["new"]) == ([1, 2, 30], [None, 5, 60])
        filtered = pyhudi.daft.read(table, where="v > 1").select("id").sort("id")
        assert filtered.to_pydict() == {"id": ["b", "c"]}
