"""Changes that pyhudi logged, as Apache Hudi's CDC query returns them, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.test_apache_hudi import SCHEMA, rows
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = pytest.mark.interop
MODE = "hoodie.table.cdc.supplemental.logging.mode"
QUERY = {"hoodie.datasource.query.incremental.format": "cdc"}


def change(row: dict[str, Any]) -> tuple[Any, ...]:
    """A change without what the two print in different ways."""

    def side(found: Any) -> Any:
        image = json.loads(found) if isinstance(found, str) else found
        return image and (image["id"], image["ts"], image["part"])

    return (row["op"], side(row["before"]), side(row["after"]))


def changes(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(map(change, found.to_pylist()), key=repr)


def check_equal(table: pyhudi.Table, path: Path, apache: ApacheHudi, since: str) -> None:
    theirs = apache.read(path, query="incremental", begin=since, conf=QUERY)
    ours = changes(table.capture(since))
    assert changes(theirs) == ours and ours


@pytest.mark.parametrize("mode", ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"])
def test_apache_hudi_returns_the_changes_that_were_logged(
    mode: str, tmp_path: Path, apache: ApacheHudi
) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts",
        version=newest_table_version([apache]),
        options={"hoodie.table.cdc.enabled": "true", MODE: mode},
    )  # fmt: skip
    first = str(table.upsert(rows(range(30), 1)).instant)
    table.upsert(rows(range(10, 40, 3), 2))
    table.delete(keys=rows(range(5, 15, 2), 2)["id"].to_pylist())
    check_equal(table, path, apache, first)
    check_equal(table, path, apache, "000")
    second = str(table.upsert(rows(range(8), 3)).instant)
    pq.write_table(rows(range(20, 50, 4), 4), tmp_path / "batch.parquet")
    apache.call("write", path=str(path), rows=str(tmp_path / "batch.parquet"), operation="upsert")
    check_equal(table, path, apache, second)


@pytest.mark.conformance(32)
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("cow", "DATA_BEFORE_AFTER"), ("mor", "DATA_BEFORE_AFTER"), ("mor", "OP_KEY_ONLY")],
)
def test_apache_hudi_returns_the_changes_of_version_9(
    kind: str, mode: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    path, apache = tmp_path / "t", apache_hudi("1.2.0")
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=9, options={"hoodie.table.cdc.enabled": "true", MODE: mode},
    )  # fmt: skip
    table.upsert(rows(range(30), 1))
    table.upsert(rows(range(10, 40, 3), 2))
    table.delete(keys=rows(range(5, 15, 2), 2)["id"].to_pylist())
    check_equal(table, path, apache, "000")
    if kind == "mor":
        table.compact()
        table.upsert(rows(range(8), 3))
        check_equal(table, path, apache, "000")
