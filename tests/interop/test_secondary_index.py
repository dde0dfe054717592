"""Secondary indexes created here are used and maintained by Apache Hudi, and the other way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.metadata.secondary_index.definition import secondary_indexes
from pyhudi.metadata.secondary_index.key_format import entry_keys, value_texts
from tests.metadata.secondary_index.stored import stored_keys
from tests.support.apache_hudi import ApacheHudi
from tests.support.inside import state_of

pytestmark = pytest.mark.interop

SCHEMA = pa.schema(
    {"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "c": pa.string(), "d": pa.date32()}
)
SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
LISTING = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}


def rows(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k${n:02}" for n in numbers],
            "part": [f"p{n % 2}" for n in numbers],
            "ts": [version] * len(numbers),
            "c": [None if n % 5 == 4 else f"v${(n + version) % 4}\\" for n in numbers],
            "d": pa.array([19000 + n % 3 for n in numbers], pa.int32()).cast(pa.date32()),
        },
        SCHEMA,
    )


def check(table: Table, hudi: ApacheHudi, *ways: dict[str, str]) -> None:
    """Apache Hudi finds our rows, with our index unless a way says otherwise."""
    path = table.path.removeprefix("file://")
    text = " union all ".join(
        f"select {n} as n, id from {{table}} where c = 'v${n}\\\\'" for n in range(4)
    )
    for conf in ways or (SKIPPING,):
        found = hudi.call("sql", path=path, text=text, conf=conf)["results"]
        for n in range(4):
            mine = table.scan(["id"], pc.field("c") == f"v${n}\\").to_arrow().column(0).to_pylist()
            assert sorted(row["id"] for row in found if row["n"] == n) == sorted(mine) != [], (
                n,
                conf,
            )


def check_entries(table: Table) -> None:
    """Every row has its entry; Apache Hudi leaves some entries of rows that it deletes."""
    state = state_of(table)
    assert state.metadata is not None
    for index in secondary_indexes(state.fs, state.config):
        found = table.scan(["_hoodie_record_key", index.column]).to_arrow().combine_chunks()
        keys, values = (column.combine_chunks() for column in found.columns)
        expected = set(entry_keys(value_texts(values), keys).to_pylist())
        assert expected <= set(stored_keys(state.metadata, index))


@pytest.mark.conformance(24)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_both_use_and_maintain_one_index(
    tmp_path: Path, version: int, kind: str, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi, path = apache_hudi("1.2.0"), tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=version,
    )  # fmt: skip

    def written(batch: pa.Table, operation: str) -> Any:
        pq.write_table(batch, tmp_path / "batch.parquet")
        conf = {"hoodie.index.type": "RECORD_INDEX"}
        stored = str(tmp_path / "batch.parquet")
        return hudi.call("write", path=str(path), rows=stored, operation=operation, conf=conf)

    table.upsert(rows(range(30), 1))
    table.index.create("secondary", "c")
    table.index.create("secondary", "d")
    table.upsert(rows(range(10, 40), 2))
    table.delete(keys=["k$03", "k$14"])
    check(table, hudi)
    written(rows(range(20, 50), 3), "upsert")
    check_entries(table)
    check(table, hudi)
    written(rows(range(0, 50, 9), 3), "delete")
    table.upsert(rows(range(5, 30), 4))
    check_entries(table)
    check(table, hudi, SKIPPING, LISTING)
    hudi.call("validate", path=str(path))
