"""Random records that stay in their partition: every reader has the values of the paths."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi

TYPES: dict[str, tuple[pa.DataType, list[Any], Callable[[Any], str]]] = {
    "string": (pa.string(), ["x", "b c", "1", None], lambda v: f"'{v}'"),
    "int": (pa.int32(), [1, -7, None], str),
    "date": (pa.date32(), [date(1960, 1, 1), date(2020, 2, 29), None], lambda v: f"date '{v}'"),
    "double": (pa.float64(), [1.5, 0.0, -2.0, math.nan, None], lambda v: f"'{v}'"),
}
CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "p is null": lambda p, v: p is None,
    "p is not null": lambda p, v: p is not None,
    "p = {v}": lambda p, v: p is not None and order(p) == order(v),
    "p <> {v}": lambda p, v: p is not None and order(p) != order(v),
    "p < {v}": lambda p, v: p is not None and order(p) < order(v),
    "not (p < {v})": lambda p, v: p is not None and order(p) >= order(v),
    "p in ({v}, null)": lambda p, v: p is not None and order(p) == order(v),
    "p is distinct from {v}": lambda p, v: p is None or order(p) != order(v),
    "p = {v} or p is null": lambda p, v: p is None or order(p) == order(v),
}


def order(value: Any) -> Any:
    """NaN is equal to itself and above all numbers."""
    return (value != value, 0.0 if value != value else value)


def written(path: Path, pick: random.Random, kind: str) -> tuple[pyhudi.Table, dict[str, Any]]:
    """A table after some upserts, and the partition value of each record: its first one."""
    column, values, _ = TYPES[kind]
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "p": column})
    options = {
        "hoodie.metadata.index.column.stats.enable": pick.choice(["true", "false"]),
        "hoodie.table.cdc.enabled": pick.choice(["true", "false"]),
        "hoodie.parquet.small.file.limit": pick.choice(["0", "104857600"]),
    }
    table = pyhudi.create_table(
        path, schema, record_key="id", partition_by="p", options=options,
        table_type=pick.choice(["cow", "mor"]), version=pick.choice([6, 8, 9]),
    )  # fmt: skip
    homes: dict[str, Any] = {}
    for number in range(3):
        rows = [
            {"id": f"k{key}", "n": number, "p": pick.choice(values)}
            for key in pick.sample(range(8), 6)
        ]
        table.upsert(pa.Table.from_pylist(rows, schema))
        for row in rows:
            homes.setdefault(row["id"], row["p"])
        if number == 1 and pick.random() < 0.5:
            table.compact() if table.config.is_merge_on_read else table.cluster()
    return table, homes


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "seed", [10, 20, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(24, 48))]
)
def test_filters_select_by_the_values_of_paths(kind: str, seed: int, tmp_path: Path) -> None:
    pick = random.Random(f"{seed} {kind}")
    table, homes = written(tmp_path, pick, kind)
    start = table.timeline.commits.first.time
    for condition, holds in CONDITIONS.items():
        value = pick.choice([v for v in TYPES[kind][1] if v is not None])
        where = condition.format(v=TYPES[kind][2](value))
        want = sorted(key for key, home in homes.items() if holds(home, value))
        for columns in (["id"], ["id", "p"]):
            found = table.scan(columns, where).to_arrow()["id"].to_pylist()
            assert sorted(found) == want, where
        assert sorted(table.lookup(where=where)["record_key"].to_pylist()) == want, where
        changed = table.changes(since="000", where=where, columns=["id"]).to_arrow()
        assert sorted(changed["id"].to_pylist()) == want, where
    if table.config.cdc_enabled:
        for side in table.capture(since=start)["after"].to_pylist():
            assert side is None or order(side["p"]) == order(homes[side["id"]])
